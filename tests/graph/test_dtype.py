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


FOREIGN = ["float16", "uint8", "complex64", "object", "nonsense", None, [], 3]


@pytest.mark.parametrize("given", FOREIGN)
def test_what_is_no_element_type_is_refused_and_named(given: object):
    with refused(DTypeError, repr(given)):
        as_dtype(given)


@pytest.mark.parametrize("dtype", list(DType))
def test_a_type_has_the_size_of_its_numpy_type(dtype: DType):
    assert dtype.numpy.isnative
    assert dtype.itemsize == np.zeros(1, dtype.numpy).nbytes


def test_only_floating_types_carry_gradients():
    assert [dtype for dtype in DType if dtype.is_float] == [DType.F32, DType.F64]
    assert not DType.BOOL.is_integer
