"""A workbench for training small models in notebooks, on a compiled tensor engine of its own.

The one import is ``import workbench as wb``. Below this façade, in the order of the data: ``graph``
(tensors), ``assign`` (assignments), ``loops`` (kernels), ``backends``, ``runtime`` (contexts),
``data`` (data sets), ``train`` (runs).
"""

from workbench import data, errors, graph
from workbench.assign.from_graph import computation
from workbench.backends.host import host_capabilities
from workbench.backends.registry import backend_facts
from workbench.errors import (
    BackendUnavailable,
    CacheWarning,
    CompileError,
    ConfigurationError,
    DataError,
    DeviceMemoryError,
    DTypeError,
    ExecutionError,
    GradientError,
    GraphError,
    LostRoutineWarning,
    NotReadableError,
    PlacementError,
    ShapeError,
    TracingError,
    UnreachedParameterWarning,
    WorkbenchError,
    WorkbenchWarning,
)
from workbench.graph.composite import (
    cross_entropy,
    cross_entropy_rows,
    log_softmax,
    mse,
    softmax,
)
from workbench.graph.contraction import einsum, matmul
from workbench.graph.elementwise import (
    abs,
    broadcast_to,
    cos,
    erf,
    exp,
    expm1,
    gelu,
    isfinite,
    log,
    log1p,
    maximum,
    minimum,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    stop_gradient,
    tanh,
    where,
)
from workbench.graph.extent import batch
from workbench.graph.gradient import backward, backward_from, value_and_grad
from workbench.graph.gradient_leaf import gradient_of
from workbench.graph.indexing import one_hot, scatter_add, take
from workbench.graph.leaf import constant, input, iota, merge_buffer, parameter, state
from workbench.graph.movement import concat, expand_dims, flip, reshape, stack, transpose
from workbench.graph.random import normal, uniform
from workbench.graph.reduction import argmax, logsumexp, max, mean, min, sum
from workbench.graph.static_index import static_index
from workbench.graph.tensor import Tensor
from workbench.graph_views import placements, tree, why
from workbench.loops.intent import set_materialized, set_observable, set_virtual
from workbench.loops.settings import settings
from workbench.runtime.context import Context
from workbench.runtime.explain import explain
from workbench.runtime.observe import Observability
from workbench.runtime.outcome import backend_compiles
from workbench.runtime.routine import Routine
from workbench.runtime.seams import LoweringReuse
from workbench.train.accumulate import accumulate
from workbench.train.accuracy import accuracy
from workbench.train.callback import Callback, explain_order
from workbench.train.callbacks.budget_rate import BudgetRate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.gradient_norm import GradientNorm
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.non_finite import TerminateOnNonFinite
from workbench.train.callbacks.one_cycle import OneCycleRate
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.progress import Progress
from workbench.train.callbacks.rate import ConstantRate, CosineRate, ExponentialRate, StepRate
from workbench.train.callbacks.rate_monitor import RateMonitor
from workbench.train.callbacks.scale_monitor import ScaleMonitor
from workbench.train.callbacks.schedule import EpochSchedule, StepSchedule
from workbench.train.callbacks.time_budget import TimeBudget
from workbench.train.checkpoint import (
    export_parameters,
    load_parameters,
    restore,
    save_checkpoint,
)
from workbench.train.checkpointing import Checkpointing
from workbench.train.class_counts import confusion_matrix, f1, precision, recall, top_k
from workbench.train.comparison import compare, runs
from workbench.train.config import Config
from workbench.train.fit import evaluate, fit, predict
from workbench.train.history import History
from workbench.train.initial import he_normal, zeros
from workbench.train.inspection import inspect
from workbench.train.learning_rate import RateSweep, find_learning_rate
from workbench.train.norm import clip_gradients, global_norm
from workbench.train.optimizer import (
    OptState,
    adam,
    adamw,
    lion,
    momentum,
    rmsprop,
    sgd,
)
from workbench.train.perplexity import perplexity
from workbench.train.precision import mixed_bf16, mixed_f16, narrow
from workbench.train.ranking import auc
from workbench.train.record import RunRecord
from workbench.train.regression import mae, r2
from workbench.train.reports import Report
from workbench.train.run import Run
from workbench.train.statistic import Statistic
from workbench.train.step import StepResult, apply_gradients, default_step, loss_and_gradients
from workbench.train.update.dump import dump, dumped
from workbench.train.update.grad_update import (
    filter_out_grad_zeroing,
    forward,
    grad_update,
    zero_params_grads,
)
from workbench.train.update.gradient import loss_params, trainable_params
from workbench.train.update.indexed import indexed_batches, sequential_loop
from workbench.train.update.loss_scale import LossScaler
from workbench.train.update.materialized import every_non_literal_materialized
from workbench.train.update.norm import (
    clip_by_global_norm,
    grad_checksum,
    grad_l2_norm,
)
from workbench.train.update.once import forward_once, init_params, run_once, update_once
from workbench.train.update.optimizer_update import (
    adam_update,
    adamw_update,
    lion_update,
    rmsprop_update,
    sgd_one,
    sgd_update,
)
from workbench.train.update.outlier import OutlierDetector
from workbench.train.update.scalar import (
    host_scalar,
    loss_accumulator,
    scheduled_learning_rate,
)
from workbench.train.update.scaled import (
    gated_scaled_update,
    gated_step,
    scaled_step,
    scaled_update,
)
from workbench.train.update.twin import cast_twin
from workbench.train.update.values_file import load_values, restore_values, save_values
from workbench.train.weighted import weighted_mean
from workbench.views import overlay, watch

__all__ = [
    "BackendUnavailable",
    "BudgetRate",
    "CacheWarning",
    "Callback",
    "Checkpointing",
    "CompileError",
    "Config",
    "ConfigurationError",
    "ConstantRate",
    "Context",
    "CosineRate",
    "DTypeError",
    "DataError",
    "DeviceMemoryError",
    "EarlyStopping",
    "EpochSchedule",
    "ExecutionError",
    "ExponentialRate",
    "GradientError",
    "GradientNorm",
    "GraphError",
    "History",
    "LossScaler",
    "LostRoutineWarning",
    "LoweringReuse",
    "MetricLog",
    "NotReadableError",
    "Observability",
    "OneCycleRate",
    "OptState",
    "OutlierDetector",
    "PlacementError",
    "PlateauSchedule",
    "Progress",
    "RateMonitor",
    "RateSweep",
    "Report",
    "Routine",
    "Run",
    "RunRecord",
    "ScaleMonitor",
    "ShapeError",
    "Statistic",
    "StepRate",
    "StepResult",
    "StepSchedule",
    "Tensor",
    "TerminateOnNonFinite",
    "TimeBudget",
    "TracingError",
    "UnreachedParameterWarning",
    "WorkbenchError",
    "WorkbenchWarning",
    "abs",
    "accumulate",
    "accuracy",
    "adam",
    "adam_update",
    "adamw",
    "adamw_update",
    "apply_gradients",
    "argmax",
    "auc",
    "backend_compiles",
    "backend_facts",
    "backward",
    "backward_from",
    "batch",
    "broadcast_to",
    "cast_twin",
    "clip_by_global_norm",
    "clip_gradients",
    "compare",
    "computation",
    "concat",
    "confusion_matrix",
    "constant",
    "cos",
    "cross_entropy",
    "cross_entropy_rows",
    "data",
    "default_step",
    "dump",
    "dumped",
    "einsum",
    "erf",
    "errors",
    "evaluate",
    "every_non_literal_materialized",
    "exp",
    "expand_dims",
    "explain",
    "explain_order",
    "expm1",
    "export_parameters",
    "f1",
    "filter_out_grad_zeroing",
    "find_learning_rate",
    "fit",
    "flip",
    "forward",
    "forward_once",
    "gated_scaled_update",
    "gated_step",
    "gelu",
    "global_norm",
    "grad_checksum",
    "grad_l2_norm",
    "grad_update",
    "gradient_of",
    "graph",
    "he_normal",
    "host_capabilities",
    "host_scalar",
    "indexed_batches",
    "init_params",
    "input",
    "inspect",
    "iota",
    "isfinite",
    "lion",
    "lion_update",
    "load_parameters",
    "load_values",
    "log",
    "log1p",
    "log_softmax",
    "logsumexp",
    "loss_accumulator",
    "loss_and_gradients",
    "loss_params",
    "mae",
    "matmul",
    "max",
    "maximum",
    "mean",
    "merge_buffer",
    "min",
    "minimum",
    "mixed_bf16",
    "mixed_f16",
    "momentum",
    "mse",
    "narrow",
    "normal",
    "one_hot",
    "overlay",
    "parameter",
    "perplexity",
    "placements",
    "precision",
    "predict",
    "r2",
    "recall",
    "reciprocal",
    "relu",
    "reshape",
    "restore",
    "restore_values",
    "rmsprop",
    "rmsprop_update",
    "rsqrt",
    "run_once",
    "runs",
    "save_checkpoint",
    "save_values",
    "scaled_step",
    "scaled_update",
    "scatter_add",
    "scheduled_learning_rate",
    "sequential_loop",
    "set_materialized",
    "set_observable",
    "set_virtual",
    "settings",
    "sgd",
    "sgd_one",
    "sgd_update",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "stack",
    "state",
    "static_index",
    "stop_gradient",
    "sum",
    "take",
    "tanh",
    "top_k",
    "trainable_params",
    "transpose",
    "tree",
    "uniform",
    "update_once",
    "value_and_grad",
    "watch",
    "weighted_mean",
    "where",
    "why",
    "zero_params_grads",
    "zeros",
]
