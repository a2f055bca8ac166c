"""The callbacks that come with the workbench.

Reading order: ``bounds``, ``rate``, ``budget_rate``, ``one_cycle``, ``schedule``, ``packed``,
``best``, ``plateau``, ``early_stopping``, ``stopping``, ``non_finite``, ``time_budget``,
``rate_monitor``, ``metric_log``, ``progress``.
"""
