"""Training: parameter trees, optimizers, runs and the loop.

Reading order: ``tree``, ``optimizer``, ``step``, ``initial``, ``config``, ``state``, ``metric``,
``events``, ``callback``, ``dispatch``, ``report``, ``history``, ``trace``, ``sweep``, ``program``,
``controls``, ``loop``, ``run``, ``fit``.
"""
