"""Training: parameter trees, optimizers, runs and the loop.

Reading order: ``tree``, ``optimizer``, ``step``, ``initial``, ``config``, ``state``, ``metric``,
``events``, ``callback``, ``dispatch``, ``report``, ``history``, ``trace``, ``sweep``, ``program``,
``controls``, ``loop``, ``run``, ``fit``.

Files: ``process``, ``atomic_file``, ``fingerprint``, ``container``, ``checkpoint_format``,
``environment``, ``packed_history``, ``packed_statics``, ``packed_callbacks``, ``inspection``,
``checkpoint``, ``background_writer``, ``checkpointing``; ``record_format``, ``record``, ``curves``,
``comparison``.
"""
