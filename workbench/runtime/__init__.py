"""Running: contexts, routines and their memory.

Reading order: ``memory``, ``routine``, ``context``, ``explain``.
"""
