"""Matrix products inside kernels."""

import ctypes
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench_kernels import blas_addresses

BODY = """
gemm_{kind}(args[3], args[4], args[5], args[6], args[7], args[8], {kind}(2.0),
    p0, args[9], args[10], p1, args[11], args[12], {kind}(args[13]), p2, args[14], args[15])
"""
KINDS = {"float32": "f32", "float64": "f64"}
extents = st.integers(1, 9)


def _stored(generator, rows, columns, transposed, dtype):
    """A matrix inside a larger one: its flat parent, offset, leading dimension and values."""
    shape = (columns, rows) if transposed else (rows, columns)
    parent = generator.standard_normal((shape[0] + 1, shape[1] + 3)).astype(dtype)
    inside = parent[1:, 2 : 2 + shape[1]]
    return parent, parent.shape[1] + 2, parent.shape[1], inside.T if transposed else inside


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("trans_a", [0, 1])
@given(m=extents, n=extents, k=extents, beta=st.integers(0, 2))
def test_products_agree_with_numpy_for_every_transposition(
    bench, dtype, trans_a, trans_b, m, n, k, beta
):
    generator = np.random.default_rng(m * 100 + n * 10 + k)
    a, a_at, lda, left = _stored(generator, m, k, trans_a, dtype)
    b, b_at, ldb, right = _stored(generator, k, n, trans_b, dtype)
    c, c_at, ldc, inside = _stored(generator, m, n, False, dtype)
    expected = c.copy()
    expected[1:, 2 : 2 + n] = 2 * left @ right + beta * inside
    words = [blas_addresses()[dtype], trans_a, trans_b, m, n, k, a_at, lda, b_at, ldb, beta, c_at]
    bench(BODY.format(kind=KINDS[dtype]), [a, b, c], *words, ldc)
    tolerance = 16 * np.finfo(dtype).eps
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=8 * tolerance)


def test_a_product_with_beta_zero_does_not_read_what_it_overwrites(bench):
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    c = np.full((2, 2), np.nan, np.float32)
    words = [blas_addresses()["float32"], 0, 0, 2, 2, 3, 0, 3, 0, 2, 0, 0, 2]
    bench(BODY.format(kind="f32"), [a, b, c], *words)
    np.testing.assert_array_equal(c, 6.0)


def test_scipy_still_works_after_its_blas_was_borrowed(python):
    printed = python(
        """
        import sys
        from workbench_kernels import blas_addresses
        addresses = blas_addresses()
        print("scipy.linalg" in sys.modules)
        import numpy as np, scipy.linalg
        from scipy.linalg import blas, cython_blas
        import scipy.linalg.cython_blas as again
        print(again is cython_blas)
        print(np.allclose(blas.dgemm(1.0, np.eye(3), np.ones((3, 3))), 1.0))
        print(np.allclose(scipy.linalg.inv(2 * np.eye(3)), np.eye(3) / 2))
        """
    )
    assert printed.split() == ["False", "True", "True", "True"]


def test_the_addresses_are_the_same_when_scipy_was_there_first(python):
    printed = python(
        """
        import scipy.linalg.cython_blas
        from workbench_kernels import blas_addresses
        print(sorted(blas_addresses()), blas_addresses() is blas_addresses())
        """
    )
    assert printed == "['float32', 'float64'] True\n"


def test_scipys_blas_runs_on_one_thread():
    blas_addresses()
    library = ctypes.CDLL(sys.modules["scipy.linalg.cython_blas"].__file__)
    names = ("scipy_openblas_get_num_threads", "openblas_get_num_threads", "MKL_Get_Max_Threads")
    getters = [getattr(library, name) for name in names if hasattr(library, name)]
    if not getters:
        pytest.skip("scipy's BLAS has no function that tells its number of threads")
    assert getters[0]() == 1
