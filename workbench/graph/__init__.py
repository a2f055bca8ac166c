"""Tensor graphs: what a person writes, before anything runs.

Reading order: ``dtype``, ``extent``, ``tensor`` (the node), ``leaf``, ``elementwise``,
``reduction``, ``movement``, ``contraction``, ``indexing``, ``bounds``, ``random``, ``composite``,
then ``gradient`` and ``rules``.
"""

from workbench.graph import rules as rules
