"""A workbench for training small models in notebooks, on a compiled tensor engine of its own.

The one import is ``import workbench as wb``. Below this façade, in the order of the data: ``graph`` (tensors), ``assign``
(assignments), ``loops`` (kernels), ``backends``, ``runtime`` (contexts), ``data``, ``train``.
"""

from workbench.graph.extent import batch
from workbench.graph.leaf import input, parameter  # noqa: A004 - the field's words
from workbench.runtime.context import Context

__all__ = ["Context", "batch", "input", "parameter"]
