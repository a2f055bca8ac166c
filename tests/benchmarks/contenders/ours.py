"""The workbench: many steps in one native call."""

import workbench
from tests.benchmarks.contender import ContenderMissing, RunSteps
from tests.benchmarks.workloads import Problem


def build(problem: Problem, threads: int) -> RunSteps:
    """Return what trains ``problem`` for so many steps.

    All that knows how the workbench is used is in here. The folder of compiled kernels is the one
    that the environment variable ``WORKBENCH_CACHE`` names.
    """
    del problem, threads
    if not hasattr(workbench, "fit"):
        raise ContenderMissing("workbench has no `fit` yet")
    raise ContenderMissing("the benchmark does not call `workbench.fit` yet")
