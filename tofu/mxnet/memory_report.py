"""`tofu.memory_report`: the memory that training a model needs, on one device and on several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import mxnet as mx

from tofu.errors import TofuError, explain_call, list_keyword_arguments
from tofu.mxnet.frontend.inference import check_names
from tofu.mxnet.frontend.read_symbol import read_graph, read_training
from tofu.mxnet.memory.account import account_one_device, account_workers
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.memory.report import MemoryReport
from tofu.mxnet.runtime.symbol.arguments import count_workers, read_shapes
from tofu.mxnet.runtime.symbol.make import make_symbol
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.settings import MXNET_OPTIONS
from tofu.pipeline import Partition

DEFAULT_OPTIMIZER = "sgd"
DEFAULT_MOMENTUM = 0.9  # of SGD


@explain_call("tofu.memory_report(symbol, 4, data=(64, 784))")
def memory_report(
    symbol: Any,
    ngpus: int | None = None,
    *,
    optimizer: str | None = DEFAULT_OPTIMIZER,
    optimizer_params: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    **shapes: Sequence[int],
) -> MemoryReport:
    """Report how much memory training needs on one device and on each of `ngpus` workers. No array is allocated.

    Parameters
    ----------
    symbol
        The model, or a symbol returned by `tofu.partition`.
    ngpus
        The number of workers. The default is the number of workers of a partitioned symbol.
    optimizer
        Name of an MXNet optimizer, or None. The report includes its states, such as momentum.
    optimizer_params
        Arguments of the optimizer. The default for SGD is a momentum of 0.9.
    options
        Other arguments of `tofu.partition`, such as `plan` or `hints`. They may also be keyword arguments.
    **shapes
        The shape of each input, by name. A partitioned symbol with a plan needs none.

    Returns
    -------
    MemoryReport
        The report. It prints as a table. Its numbers are in `one_device` and `workers`, and are exact except for
        `workspace_bytes`.

    Raises
    ------
    TofuError
        The model cannot be partitioned, or shapes, options or the optimizer are wrong.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc")
    >>> report = tofu.memory_report(net, 2, data=(32, 128))
    >>> [worker.parameters_bytes for worker in report.workers]
    [16512, 16512]
    """
    if optimizer_params is None:
        optimizer_params = {"momentum": DEFAULT_MOMENTUM} if optimizer == DEFAULT_OPTIMIZER else {}
    options = {**options, **{name: value for name, value in shapes.items() if name in MXNET_OPTIONS}}
    shapes = {name: shape for name, shape in shapes.items() if name not in MXNET_OPTIONS}
    states = OptimizerStates(optimizer, optimizer_params)
    is_partitioned = isinstance(symbol, PartitionedSymbol)
    if ngpus is not None:
        ngpus = count_workers(ngpus, None, None)
    workers = symbol.settings.workers if ngpus is None and is_partitioned else ngpus
    if is_partitioned and workers == symbol.settings.workers > 1 and not options and not shapes:
        return report_workers(symbol.planned(), states)
    if not shapes:
        raise TofuError(
            "memory_report needs the shapes of the inputs: memory_report(symbol, 8, data=(64, 3, 224, 224))."
        )
    inputs = read_shapes(symbol, shapes, ("ngpus", *list_keyword_arguments(memory_report), *MXNET_OPTIONS))
    if workers == 1:
        return report_one_device(getattr(symbol, "whole", symbol), inputs, states)
    contexts = None if workers is None else [mx.cpu(worker) for worker in range(workers)]  # only for planning
    return report_workers(make_symbol(symbol, workers, contexts, inputs, **options).planned(), states)


def report_workers(partition: Partition, states: OptimizerStates) -> MemoryReport:
    """Return how much memory each worker needs to train with an optimizer."""
    return MemoryReport(
        account_one_device(partition.source, states),
        account_workers(partition, states),
        partition.plan.communication_bytes,
        states.name,
    )


def report_one_device(symbol: Any, shapes: Mapping[str, tuple[int, ...]], states: OptimizerStates) -> MemoryReport:
    """Return how much memory one device needs to train the model."""
    check_names(symbol, shapes)
    inputs, trained = read_training(symbol, shapes)
    source = read_graph(symbol, inputs, None, trained, trained)
    return MemoryReport(account_one_device(source, states), (), 0, states.name)
