import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConfigurationError
from workbench.train.callback import Callback, explain_order, hooks_of, in_order, validate
from workbench.train.events import Hook


def callback(name, band=40, *, hooks=tuple(Hook), reads=(), writes=()):
    """A callback of that name with an empty method for each of the hooks."""
    methods = {hook.method: lambda self, event: None for hook in hooks}
    made = type(name, (Callback,), methods)()
    made.name, made.band, made.reads, made.writes = name, band, reads, writes
    return made


@pytest.fixture
def usual():
    """The five usual callbacks, in an order of their own."""
    return [
        callback("progress", 50),
        callback("metric_log", 40),
        callback("step_lr", 10, writes=("lr",)),
        callback("checkpoint", 30, reads=("stop",), writes=("best_path",)),
        callback("early_stopping", 20, writes=("stop",)),
    ]


ASCENDING = ["step_lr", "early_stopping", "checkpoint", "metric_log", "progress"]


@pytest.mark.parametrize(
    "hook", [Hook.RUN_BEGIN, Hook.EPOCH_BEGIN, Hook.BATCH_BEGIN, Hook.EVAL_END]
)
def test_what_begins_and_what_judges_runs_by_ascending_band(usual, hook):
    assert [c.name for c in in_order(usual, hook)] == ASCENDING


@pytest.mark.parametrize("hook", [Hook.BATCH_END, Hook.EPOCH_END, Hook.RUN_END])
def test_what_ends_runs_in_the_reverse_order(usual, hook):
    assert [c.name for c in in_order(usual, hook)] == ASCENDING[::-1]


def test_callbacks_of_one_band_keep_the_order_they_were_given_in():
    logs = [callback("first"), callback("second")]
    assert [c.name for c in in_order(logs, Hook.EPOCH_BEGIN)] == ["first", "second"]
    assert [c.name for c in in_order(logs, Hook.EPOCH_END)] == ["second", "first"]


@given(st.lists(st.integers(10, 50), max_size=8))
def test_an_end_mirrors_its_beginning_whatever_the_bands(bands):
    callbacks = [callback(f"c{number}", band) for number, band in enumerate(bands)]
    begin, end = (in_order(callbacks, hook) for hook in (Hook.BATCH_BEGIN, Hook.BATCH_END))
    assert begin == end[::-1]
    assert [c.band for c in begin] == sorted(bands)


def test_hooks_keep_their_numbers():
    assert [hook.name for hook in sorted(Hook, key=lambda hook: hook.value)] == [
        "RUN_BEGIN",
        "EPOCH_BEGIN",
        "BATCH_BEGIN",
        "BATCH_END",
        "EVAL_END",
        "EPOCH_END",
        "RUN_END",
    ]


def test_a_callback_has_the_hooks_that_it_defines_and_no_others():
    one = callback("one", hooks=(Hook.EVAL_END, Hook.RUN_BEGIN))
    assert hooks_of(one) == (Hook.RUN_BEGIN, Hook.EVAL_END)
    assert in_order([one], Hook.BATCH_END) == []


def test_any_object_with_a_hook_is_a_callback():
    class Plain:
        def on_epoch_end(self, event):
            return "done"

    plain = Plain()
    validate([plain])
    assert in_order([plain], Hook.EPOCH_END) == [plain]


def test_the_order_can_be_printed(usual):
    assert explain_order(usual[:3]) == "\n".join(
        [
            "run begin    step_lr (10), metric_log (40), progress (50)",
            "epoch begin  step_lr (10), metric_log (40), progress (50)",
            "batch begin  step_lr (10), metric_log (40), progress (50)",
            "batch end    progress (50), metric_log (40), step_lr (10)",
            "eval end     step_lr (10), metric_log (40), progress (50)",
            "epoch end    progress (50), metric_log (40), step_lr (10)",
            "run end      progress (50), metric_log (40), step_lr (10)",
        ]
    )


def test_one_callback_of_each_kind_is_accepted(usual):
    validate(usual)
    assert len(usual) == 5


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [("step_lr", "exp_lr", "lr"), ("early_stopping", "patience", "stop"), ("a", "b", "best_path")],
)
def test_two_writers_of_one_thing_are_refused(first, second, what):
    pair = [callback(first, 10, writes=(what,)), callback(second, 20, writes=(what,))]
    with pytest.raises(ConfigurationError, match=f"`{first}` and `{second}` both write `{what}`"):
        validate(pair)


@pytest.mark.parametrize("band", [9, 51, 99, -10])
def test_a_band_outside_the_documented_ones_is_refused(band):
    with pytest.raises(ConfigurationError, match=f"`odd` has the band {band}, outside 10 to 50"):
        validate([callback("odd", band)])


@pytest.mark.parametrize("band", [10.5, "10", None, True])
def test_a_band_that_is_no_integer_is_refused(band):
    with pytest.raises(ConfigurationError, match="which is not an integer"):
        validate([callback("odd", band)])


def test_the_band_is_looked_at_before_the_writers():
    pair = [callback("a", 10, writes=("lr",)), callback("b", 99, writes=("lr",))]
    with pytest.raises(ConfigurationError, match="`b` has the band 99"):
        validate(pair)


@pytest.mark.parametrize("band", [10, 20])
def test_a_reader_that_does_not_come_after_the_writer_is_refused(band):
    pair = [callback("reader", band, reads=("f1",)), callback("writer", 20, writes=("f1",))]
    with pytest.raises(ConfigurationError) as caught:
        validate(pair)
    assert str(caught.value) == (
        f"`reader` in band {band} reads `f1`, which `writer` in band 20 writes"
    )
    assert caught.value.remedy == "give the reader a higher band than the writer"


def test_a_callback_may_read_what_it_writes_itself_and_what_nobody_writes():
    one = callback("one", 20, reads=("stop", "train_loss"), writes=("stop",))
    validate([one])
    assert hooks_of(one) == tuple(Hook)


def test_a_lone_text_is_one_name():
    pair = [callback("a", 10, writes="lr"), callback("b", 20, writes="rate")]
    validate(pair)
    pair[1].writes = "lr"
    with pytest.raises(ConfigurationError, match="both write `lr`"):
        validate(pair)


def test_one_callback_cannot_be_registered_twice():
    one = callback("one")
    with pytest.raises(ConfigurationError, match="`one` is registered twice"):
        validate([one, one])


@pytest.mark.parametrize(
    ("method", "meant"),
    [
        ("on_epoch_start", "on_epoch_end"),
        ("on_epoch_ned", "on_epoch_end"),
        ("on_eval_begin", "on_eval_end"),
        ("on_train_begin", "on_run_begin"),
        ("on_validation_epoch_end", "on_epoch_end"),
    ],
)
def test_a_method_that_looks_like_a_hook_and_is_none_is_refused(method, meant):
    odd = type("Odd", (Callback,), {method: lambda self, event: None, "on_run_end": print})()
    with pytest.raises(ConfigurationError) as caught:
        validate([odd])
    assert str(caught.value) == (
        f"the callback `Odd` has a method `{method}`, which is no hook; did you mean `{meant}`?"
    )


def test_a_widget_may_have_on_methods_of_its_own():
    methods = dict.fromkeys(["on_msg", "on_trait_change", "on_click", "on_run_end"], print)
    widget = type("Widget", (), methods)()
    validate([widget])
    assert hooks_of(widget) == (Hook.RUN_END,)


def test_a_callback_without_hooks_is_refused():
    with pytest.raises(ConfigurationError, match="`Callback` defines no hook"):
        validate([Callback()])


def test_a_class_in_the_place_of_a_callback_is_refused():
    with pytest.raises(ConfigurationError, match="is a class, not a callback") as caught:
        validate([type(callback("Log"))])
    assert caught.value.remedy == "make one: `Log()`"
