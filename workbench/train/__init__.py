"""Training: parameter trees, optimizers, runs and the loop.

Reading order: ``tree``, ``optimizer``, ``step``, ``initial``, ``config``, ``state``, ``metric``,
``events``, ``callback``, ``dispatch``, ``report``, ``action``, ``epoch_row``, ``epoch_log``,
``history``, ``trace``, ``sweep``,
``program``, ``programs``, ``training``, ``resident``, ``rates``, ``controls``, ``loop``,
``steering``, ``background``, ``run``, ``fit``.

Editing while a run goes on: ``source_text``, ``step_version``, ``program_fingerprint``,
``carry_over``, ``editing``, ``editable``, ``notebook_cell``.

Files: ``process``, ``atomic_file``, ``fingerprint``, ``container``, ``checkpoint_format``,
``environment``, ``packed_statics``, ``packed_callbacks``, ``inspection``,
``checkpoint``, ``background_writer``, ``checkpointing``; ``record_format``, ``record``, ``curves``,
``comparison``.
"""
