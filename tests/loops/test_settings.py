"""Settings: where they come from, which come first, and what is refused."""

import dataclasses
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.loops.settings import (
    DEFAULT_SETTINGS,
    NOT_SETTINGS,
    Changes,
    Settings,
    current_settings,
)
from workbench.runtime.context import Context
from workbench_kernels.cache import ENVIRONMENT_VARIABLE

NAMES = [field.name for field in dataclasses.fields(Settings)]


def test_the_defaults_are_those_of_the_placement_policy():
    assert dataclasses.asdict(DEFAULT_SETTINGS) == {
        "max_visits": 1,
        "max_inline_reduction": 16,
        "max_inline_fanin": 8,
        "max_shared_cost": 8,
        "max_inline_cost": 256,
        "min_product": 4096,
        "local_bytes": 16384,
        "fuse": True,
        "footprint_scratch": True,
        "print_precision": 2,
        "buffer_aliasing": False,
        "backend": "",
        "large_models": False,
    }
    assert current_settings() == DEFAULT_SETTINGS


def test_the_keywords_of_a_block_are_the_fields():
    assert list(Changes.__annotations__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_settings_cannot_be_changed_in_place(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(DEFAULT_SETTINGS, name, 2)


def test_a_block_changes_what_it_names_and_ends_with_what_it_began_with():
    with wb.settings(max_visits=3) as outer:
        assert current_settings() == outer == Settings(max_visits=3)
        with wb.settings(max_inline_fanin=-1, max_visits=4) as inner:
            assert inner == Settings(max_visits=4, max_inline_fanin=-1)
        assert current_settings() == outer
    assert current_settings() == DEFAULT_SETTINGS


def test_a_block_that_fails_restores_the_settings_too():
    with pytest.raises(RuntimeError, match="cell"), wb.settings(max_visits=3):
        raise RuntimeError("cell")
    assert current_settings() == DEFAULT_SETTINGS


def test_a_block_is_seen_in_its_own_thread_only():
    entered, asked = threading.Event(), threading.Event()

    def other():
        assert entered.wait(10)
        found = current_settings()
        asked.set()
        return found

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(other)
        with wb.settings(max_visits=3):
            entered.set()
            assert asked.wait(10)
        assert answer.result() == DEFAULT_SETTINGS


def test_the_environment_changes_the_defaults_and_a_block_the_environment(monkeypatch):
    monkeypatch.setenv("WORKBENCH_MAX_INLINE_FANIN", " -1 ")
    monkeypatch.setenv("WORKBENCH_MAX_VISITS", "5")
    assert current_settings() == Settings(max_inline_fanin=-1, max_visits=5)
    with wb.settings(max_visits=6) as inside:
        assert inside == Settings(max_inline_fanin=-1, max_visits=6)


@pytest.mark.parametrize(
    ("text", "meant"), [("0", False), ("Off", False), ("no", False), ("TRUE", True), ("1", True)]
)
def test_a_switch_in_the_environment_is_a_word(monkeypatch, text, meant):
    monkeypatch.setenv("WORKBENCH_FUSE", text)
    assert current_settings().fuse is meant


def test_the_backend_that_auto_takes_is_a_setting_too(monkeypatch):
    with wb.settings(backend="interpreter"):
        assert Context.auto().backend_name == "interpreter"
    monkeypatch.setenv("WORKBENCH_BACKEND", "Interpreter")
    assert Context.auto().backend_name == "interpreter"
    monkeypatch.setenv("WORKBENCH_BACKEND", "interpeter")
    with refused(wb.ConfigurationError, "no backend `interpeter`", "nearest is `interpreter`"):
        Context.auto()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("WORKBENCH_MAX_VISITS", "many"),
        ("WORKBENCH_MAX_VISITS", "1.5"),
        ("WORKBENCH_MAX_VISITS", ""),
        ("WORKBENCH_FUSE", "2"),
    ],
)
def test_a_malformed_variable_is_refused_with_its_text(monkeypatch, variable, text):
    monkeypatch.setenv(variable, text)
    with refused(wb.ConfigurationError, variable, repr(text), remedy="unset it"):
        current_settings()


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("WORKBENCH_MAX_VISIT", "WORKBENCH_MAX_VISITS"),
        ("WORKBENCH_VIRTUALIZE_MAX_INLINE_FANIN", "WORKBENCH_MAX_INLINE_FANIN"),
        ("WORKBENCH_LOCAL_BYTE", "WORKBENCH_LOCAL_BYTES"),
    ],
)
def test_an_unknown_variable_is_refused_naming_the_nearest(monkeypatch, variable, nearest):
    monkeypatch.setenv(variable, "1")
    with refused(wb.ConfigurationError, f"`{variable}`", f"`{nearest}`", remedy=nearest):
        current_settings()
    with refused(wb.ConfigurationError, variable):
        Context.interpreter().compile([wb.parameter(1.0, "p") + 1.0])


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("max_visit", "max_visits"), ("precision", "print_precision"), ("fused", "fuse")],
)
def test_an_unknown_keyword_is_refused_naming_the_nearest(name, nearest):
    change: Any = {name: 1}
    with refused(wb.ConfigurationError, f"`{name}`", f"`{nearest}`"), wb.settings(**change):
        pass
    assert current_settings() == DEFAULT_SETTINGS


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_visits": "3"}, "'3'"),
        ({"max_visits": 1.0}, "1.0"),
        ({"max_visits": True}, "True"),
        ({"fuse": 1}, "1"),
        ({"max_visits": -1}, "-1"),
        ({"min_product": 0}, "0"),
        ({"print_precision": 0}, "0"),
        ({"print_precision": 16}, "16"),
        ({"backend": 3}, "3"),
        ({"backend": None}, "None"),
    ],
)
def test_a_value_of_another_type_or_out_of_range_is_refused(change, named):
    (name,) = change
    with refused(wb.ConfigurationError, f"`{name}`", named, remedy="default"):
        Settings(**change)
    with refused(wb.ConfigurationError, name), wb.settings(**change):
        pass


def test_the_folder_of_the_kernel_cache_is_no_setting(monkeypatch):
    assert ENVIRONMENT_VARIABLE in NOT_SETTINGS
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "/somewhere")
    assert current_settings() == DEFAULT_SETTINGS


# -- who honours them


def _sum_of_20():
    x = wb.input("x", (4, 20))
    return wb.exp(x.sum(1).named("h")) + 1.0


def test_compiling_and_explaining_take_the_settings_of_the_block():
    y = _sum_of_20()
    h = y.operands[0].operands[0]
    with wb.settings(max_inline_reduction=20):
        wide, _ = Context.interpreter().compile([y])
        assert re.search(r"^h +virtual \(0:", wb.explain(y, stage="placement"), re.MULTILINE)
    narrow, _ = Context.interpreter().compile([y])
    assert re.search(r"^h +local \(39:", wb.explain(y, stage="placement"), re.MULTILINE)
    assert (wide.placements[h].code, narrow.placements[h].code) == ("0", "39")


def test_a_context_with_settings_of_its_own_keeps_them():
    y = _sum_of_20()
    own = dataclasses.replace(Context.interpreter(), settings=Settings(max_inline_reduction=20))
    with wb.settings(max_inline_reduction=1):
        ctx, _ = own.compile([y])
    assert ctx.placements[y.operands[0].operands[0]].code == "0"


def test_without_fusing_every_stored_node_has_a_kernel_of_its_own():
    x = wb.input("x", (4,))
    outputs = [x + 1.0, x * 2.0, wb.exp(x)]
    value = np.arange(4, dtype=np.float32)
    found = {}
    for fuse in (True, False):
        with wb.settings(fuse=fuse):
            ctx, routine = Context.cpu(1).compile(outputs)
        ctx = ctx.set_values({x: value}).run(routine)
        found[fuse] = (len(routine.program.kernels), [a.tobytes() for a in ctx.read(outputs)])
    assert (found[True][0], found[False][0]) == (1, 3)
    assert found[True][1] == found[False][1]
