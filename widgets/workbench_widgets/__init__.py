"""Notebook views of a training run: the only package that touches notebook libraries.

It stands on top of ``workbench`` and is never imported by it.  A view reads a run through the
plain text and numbers that ``workbench`` publishes, and acts on it through control words; it
holds no training state of its own, so that closing a view cannot change a result.

The package holds no view yet.  ``CONTRIBUTING.md`` describes how one is added.
"""
