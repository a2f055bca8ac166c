"""Every exception and warning of the workbench, each exception with its remedy.

The module stands at the bottom of the engine and imports the standard library alone, so that any
layer may raise what it needs.  One rule holds for the whole tree: an exception cannot be made
without saying what the reader should do next.

.. code-block:: text

    WorkbenchError
    ├── ShapeError          (ValueError)    extents that do not fit together
    ├── DTypeError          (TypeError)     element types that do not fit together
    ├── GraphError          (ValueError)    a tensor used where the graph has no place for it
    ├── TracingError                        a step that cannot be turned into a graph
    ├── GradientError                       a derivative that does not exist or has no rule
    ├── PlacementError                      a tensor put where it cannot live
    ├── CompileError                        a routine that no kernel could be made for
    ├── ExecutionError      (RuntimeError)  a run asked for in a state that does not allow it
    ├── NotReadableError                    a value that the compiled routine does not keep
    ├── DeviceMemoryError   (MemoryError)   more memory asked for than a device has
    ├── BackendUnavailable  (RuntimeError)  a device or a library that this machine lacks
    ├── DataError           (ValueError)    a file, an array or a label that is not as promised
    └── ConfigurationError  (ValueError)    an option that is unknown or out of range

    WorkbenchWarning        (UserWarning)
    ├── UnreachedParameterWarning           a parameter whose gradient is zero by construction
    ├── LostRoutineWarning                  an order that nobody can keep any more
    └── CacheWarning                        the kernel cache cannot be used; work goes on without
"""

from functools import partial
from typing import Any

__all__ = [
    "BackendUnavailable",
    "CacheWarning",
    "CompileError",
    "ConfigurationError",
    "DTypeError",
    "DataError",
    "DeviceMemoryError",
    "ExecutionError",
    "GradientError",
    "GraphError",
    "LostRoutineWarning",
    "NotReadableError",
    "PlacementError",
    "ShapeError",
    "TracingError",
    "UnreachedParameterWarning",
    "WorkbenchError",
    "WorkbenchWarning",
]


class WorkbenchError(Exception):
    """The root of all errors that the workbench raises on purpose.

    Parameters
    ----------
    problem
        What is wrong, with the offending values in the sentence.
    remedy
        What the reader can do about it.  A traceback shows it under the message.

    Examples
    --------
    >>> error = WorkbenchError("batch size is 0", remedy="use a batch size of at least 1")
    >>> str(error)
    'batch size is 0'
    >>> error.__notes__
    ['Remedy: use a batch size of at least 1']
    """

    problem: str
    remedy: str

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.add_note(f"Remedy: {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from positional arguments alone, so the required keyword would
        # be lost on the way to another process, and a TypeError would hide the real error there.
        # The state restores the notes that were added on the way up.
        return partial(type(self), remedy=self.remedy), (self.problem,), self.__dict__.copy()


class ShapeError(WorkbenchError, ValueError):
    """Extents that do not fit together; the text names the operation and both shapes."""


class DTypeError(WorkbenchError, TypeError):
    """Element types that an operation does not take, or does not take together."""


class GraphError(WorkbenchError, ValueError):
    """A tensor or an operation used in a way that the graph has no meaning for."""


class TracingError(WorkbenchError):
    """A step function that cannot be turned into a graph.

    Python control flow that asks for a tensor's value is the usual cause; a step that returns
    another structure of parameters than it was given is the second.
    """


class GradientError(WorkbenchError):
    """A derivative that does not exist: a missing rule, or a loss that is not a scalar."""


class PlacementError(WorkbenchError):
    """A decision that puts a tensor where it cannot live, or contradicts an earlier decision."""


class CompileError(WorkbenchError):
    """A routine for which a backend could not make kernels."""


class ExecutionError(WorkbenchError, RuntimeError):
    """A routine or a run asked to do what its present state does not allow."""


class NotReadableError(WorkbenchError):
    """A value that the compiled routine does not keep; the text says which decision was why."""


class DeviceMemoryError(WorkbenchError, MemoryError):
    """More memory asked for than a device has left; the text says how much, and what is in use."""


class BackendUnavailable(WorkbenchError, RuntimeError):
    """A device, a driver or a library that this machine lacks; the text says which."""


class DataError(WorkbenchError, ValueError):
    """A file, an array or a label that is not what it was said to be."""


class ConfigurationError(WorkbenchError, ValueError):
    """An option or an environment variable that is unknown, or whose value is out of range."""


class WorkbenchWarning(UserWarning):
    """The root of all warnings, so that one filter can address them together."""


class UnreachedParameterWarning(WorkbenchWarning):
    """A parameter that the loss does not depend on; its gradient is zero."""


class LostRoutineWarning(WorkbenchWarning):
    """A routine runs without one that it was compiled to run after: that is gone and never ran."""


class CacheWarning(WorkbenchWarning):
    """The kernel cache on disk cannot be used; kernels are compiled in memory instead."""
