"""Notebook views of a training run: the only package that touches notebook libraries.

It stands on top of ``workbench``, which looks a view up by name when a person asks for one and
never needs it.  A view reads a run through the plain text and numbers that ``workbench`` publishes,
and acts on it through the run's own methods; it holds no training state, so that closing a view
cannot change a result.
"""
