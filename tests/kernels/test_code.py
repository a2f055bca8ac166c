"""What kernels compile to: no aliasing checks, vector loops, nothing to link but the C library."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from workbench_kernels import compile_kernel, optimised_text

ADD = """
a = pointer_0(args[0])
b = pointer_1(args[1])
c = pointer_2(args[2])
for i in range(lo, hi):
    c[i] = a[i] + b[i]
"""

COLUMN_SUM = """
a = pointer_0(args[0])
c = pointer_1(args[1])
for j in range(lo, hi):
    for i in range(args[3]):
        c[j] = c[j] + a[i * args[2] + j]
"""

SUM = """
a = pointer_0(args[0])
total = f32(0.0)
for i in range(lo, hi):
    total = {step}
b = pointer_1(args[1])
b[0] = total
"""

# What LLVM may leave to the C library.
LINKED = {"memset", "memcpy", "memmove", "exp", "powf"}


@pytest.fixture
def optimised(source_of):
    return lambda body, slots: optimised_text(source_of(body), ["float32"] * slots)


def _loop_body(text, block):
    found = re.search(rf"^{block}:.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, text
    return found[0]


def test_slots_are_known_not_to_overlap(optimised):
    text = optimised(ADD, 3)
    assert "alias.scope" in text
    assert "noalias" in text
    assert "memcheck" not in text
    assert re.search(r"fadd contract <\d+ x float>", text)


def test_an_accumulator_in_memory_moves_to_a_register(optimised):
    text = optimised(COLUMN_SUM, 2)
    adds = [block for block in re.split(r"^\S", text, flags=re.MULTILINE) if "fadd" in block]
    assert adds
    assert not any("store" in block for block in adds), text


def test_only_relaxed_sums_run_in_vector_registers(optimised):
    relaxed = optimised(SUM.format(step="reassoc_add(total, a[i])"), 2)
    strict = optimised(SUM.format(step="total + a[i]"), 2)
    assert re.search(r"fadd reassoc nsz contract <\d+ x float>", relaxed)
    assert not re.search(r"fadd .*<\d+ x float>", strict)


def test_a_relaxed_step_relaxes_nothing_else(optimised):
    text = optimised(SUM.format(step="reassoc_add(total, a[i] * a[i] - f32(1.0))"), 2)
    flags = set(re.findall(r"= (f(?:add|sub|mul)(?: [a-z]+)*) (?:<|float)", text))
    assert flags
    assert flags <= {"fadd reassoc nsz contract", "fadd contract", "fmul contract"}


def test_no_instruction_assumes_away_nan_or_infinity(optimised):
    text = optimised(ADD.replace("a[i] + b[i]", "sqrt(maximum(a[i], b[i]) / fabs(a[i]))"), 3)
    assert not re.search(r"\b(nnan|ninf|arcp|afn|fast)\b", text)


def test_the_largest_of_a_row_is_found_in_vector_registers(optimised):
    text = optimised(SUM.format(step="maximum(total, a[i])"), 2)
    assert re.search(r"llvm\.maximum\.v\d+f32", text)


def test_a_float_to_integer_conversion_vectorises(optimised):
    text = optimised(ADD.replace("a[i] + b[i]", "f32(i32(floor(a[i])))"), 3)
    assert re.search(r"fptosi <\d+ x float>", text)


def test_equal_texts_give_equal_bytes_whatever_came_between(source_of):
    first = compile_kernel(source_of(ADD), ["float32"] * 3)
    compile_kernel(source_of(COLUMN_SUM), ["float32"] * 5)
    assert compile_kernel(source_of(ADD), ["float32"] * 3) == first


def test_a_text_for_other_dtypes_has_another_symbol(source_of):
    symbols = {compile_kernel(source_of(ADD), [dtype] * 3).symbol for dtype in ("float32", "int32")}
    assert len(symbols) == 2
    assert all(re.fullmatch(r"wbk_[0-9a-f]{32}", symbol) for symbol in symbols)


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils' nm is not installed")
def test_object_code_needs_nothing_but_the_c_library(source_of, tmp_path):
    body = """
    a = pointer_0(args[0])
    b = pointer_1(args[1])
    zero_fill(a, 0, hi)
    copy(a, 0, b, 0, hi)
    for i in range(lo, hi):
        a[i] = powf(b[i], f32(exp_f64(f64(b[i])))) / a[i // 3] + f32(i % 7)
    gemm_f32(args[2], 0, 1, lo, lo, lo, f32(1), a, 0, lo, b, 0, lo, f32(0), a, 0, lo)
    """
    item = compile_kernel(source_of(body), ["float32"] * 2)
    path = tmp_path / "kernel.o"
    path.write_bytes(item.code)
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in listing.splitlines()]
    assert {name for kind, name in symbols if kind == "U"} <= LINKED
    assert [name for kind, name in symbols if kind == "T"] == [item.symbol]


def test_a_row_gives_the_same_bits_alone_and_among_others(bench):
    # Vector body and scalar remainder must agree, or results would depend on where rows are cut.
    x = np.random.default_rng(0).standard_normal((4, 101)).astype(np.float32)
    body = """
    for i in range(lo, hi):
        t = p0[i] * p1[i] + p2[i] * p3[i] - p0[i] / (fabs(p1[i]) + f32(0.5))
        k = floor(t * f32(1.442695) + f32(0.5))
        r = t - k * f32(0.693359375)
        p4[i] = (f32(0.5) * r + f32(1.0)) * r + sqrt(fabs(t)) * f32(i32(k))
    """
    whole, single = np.zeros(101, np.float32), np.zeros(101, np.float32)
    bench(body, [*x, whole], hi=101)
    for i in range(101):
        bench(body, [*x, single], lo=i, hi=i + 1)
    np.testing.assert_array_equal(whole.view(np.int32), single.view(np.int32))
