"""Running: contexts, routines and their memory.

Reading order: ``memory``, ``routine``, ``lifecycle`` and ``lineage`` (what lives how long),
``ledger`` and ``frontier`` (what ran, and what has to run before), ``compiling``, ``linking``,
``running``, ``transfer``, ``copying`` and ``reading``; ``context`` names them all as methods. Then
what may step in: ``decisions``, ``seams``, ``attempt``; and what people look at: ``observe``,
``explain``.
"""
