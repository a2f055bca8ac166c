"""Assignments: a graph as ``target[index map] op= value`` over iteration spaces.

Reading order: ``index``, ``expression``, ``assignment``, ``from_graph``, ``show`` (the text),
``verify``.
"""
