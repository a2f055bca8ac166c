"""The CPU backend: kernels rendered as text for numba, run by a native launch plan.

Reading order: ``render``, ``backend``.
"""
