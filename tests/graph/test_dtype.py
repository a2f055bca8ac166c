import numpy as np
import pytest

from tests.refusal import refused
from workbench.errors import DTypeError
from workbench.graph.dtype import DType, as_dtype


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("float32", DType.F32),
        (np.float64, DType.F64),
        (np.dtype(">i4"), DType.I32),
        (DType.BOOL, DType.BOOL),
        (float, DType.F32),
        (int, DType.I64),
        (bool, DType.BOOL),
    ],
)
def test_an_element_type_has_many_names(given: object, meant: DType):
    assert as_dtype(given) is meant


FOREIGN = ["int16", "uint8", "complex64", "object", "nonsense", None, [], 3]


@pytest.mark.parametrize("given", FOREIGN)
def test_what_is_no_element_type_is_refused_and_named(given: object):
    with refused(DTypeError, repr(given)):
        as_dtype(given)


@pytest.mark.parametrize("dtype", list(DType))
def test_a_type_has_the_size_of_its_numpy_type(dtype: DType):
    assert dtype.numpy.isnative
    assert dtype.itemsize == np.zeros(1, dtype.numpy).nbytes


def test_only_floating_types_carry_gradients():
    assert [dtype for dtype in DType if dtype.is_float] == [
        DType.F32,
        DType.F64,
        DType.BF16,
        DType.F16,
    ]
    assert not DType.BOOL.is_integer


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_float])
def test_the_greatest_number_is_finite_and_the_next_is_not(dtype: DType):
    greatest = dtype.numpy.type(dtype.greatest)
    assert float(greatest) == dtype.greatest
    with np.errstate(over="ignore"):
        assert not np.isfinite(np.float64(greatest + greatest * dtype.numpy.type(2.0**-6)))


def test_types_of_storage_are_computed_in_float32():
    assert {str(dtype): str(dtype.computed) for dtype in DType if dtype.is_half} == {
        "bfloat16": "float32",
        "float16": "float32",
    }
    assert DType.F64.computed is DType.F64
