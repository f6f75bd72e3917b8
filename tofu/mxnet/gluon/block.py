"""`tofu.gluon.partition`, which makes a Gluon block run on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
from mxnet import gluon

from tofu.errors import ArgumentTypeError, PlanError, UnsupportedError, explain_call, raise_together, suggest
from tofu.mxnet.frontend.refusals import refuse_broken, refuse_unpartitionable
from tofu.mxnet.gluon.operator import PartitionedOperator
from tofu.mxnet.gluon.parameter import Sharded, check_parameter, reading_shards, shard_parameter
from tofu.mxnet.gluon.trainer import extend_class
from tofu.mxnet.runtime.symbol.arguments import check_contexts, read_settings, warn_of_sparse_storage
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.settings import MXNET_OPTIONS
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.report.plan_table import DEFAULT_ROWS
from tofu.validation import show_with_type

OPTIONS = tuple(name for name in MXNET_OPTIONS if name != "for_training")


@explain_call("tofu.gluon.partition(block, ngpus=4); the first call determines the shapes")
def partition(
    block: Any,
    ngpus: int | None = None,
    *,
    contexts: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """Make a Gluon block run on several devices, and store its parameters there as shards.

    The rest of the script stays the same. Inputs and outputs are whole arrays. The block is planned at its first call,
    and for training at its first call inside `autograd.record()`.

    Parameters
    ----------
    block
        A `mx.gluon.HybridBlock` or SymbolBlock. It is changed in place. It may contain the loss.
    ngpus, contexts
        As in `tofu.partition`.
    options
        plan, hints, undescribed, on_infeasible, cache, algorithm, search_seconds, topology, memory_limit, replicate and
        unroll, as in `tofu.partition`. Inference always uses on_infeasible="replicate".

    Returns
    -------
    HybridBlock
        `block`, with the new attributes `plan` and `partitioned_symbol` and the new methods `save_report` and `why`.

    Raises
    ------
    UnsupportedError
        The block is not hybrid, has row_sparse parameters, or shares parameters with another partitioned block.
    DeviceError
        A worker's device does not exist, or the block is initialized in several contexts.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.gluon.nn.Dense(8, in_units=6)
    >>> net.initialize()
    >>> net = tofu.gluon.partition(net, ngpus=2)
    >>> net(mx.nd.ones((4, 6))).shape
    (4, 8)
    """
    if isinstance(block, PartitionedBlock):
        raise UnsupportedError(f"{block.name} is partitioned already. Create a new block to partition it differently.")
    if not isinstance(block, gluon.HybridBlock):
        raise UnsupportedError(
            f"tofu.gluon.partition needs a HybridBlock, not {show_with_type(block)}. {_advise_block(block)}."
        )
    contexts = check_contexts(contexts)
    raise_together(
        ArgumentTypeError,
        "tofu.gluon.partition has no such arguments. Write tofu.gluon.partition(block, ngpus=4); the first call determines the shapes:",
        [f"{name}{suggest(name, OPTIONS)}" for name in options if name not in OPTIONS],
    )
    settings = read_settings(ngpus, contexts, for_training=True, **options)
    devices = resolve_contexts(settings.workers, contexts)
    if settings.workers == 1:
        return block
    parameters = list(block.collect_params().values())
    for parameter in parameters:
        check_parameter(parameter)
    for parameter in parameters:
        shard_parameter(parameter)
    block_class: Any = type(block)
    block.__class__ = extend_class(block_class, PartitionedBlock, "Partitioned")
    block._settings, block._devices = settings, devices
    block.hybridize()
    return block


def _advise_block(value: Any) -> str:
    if isinstance(value, gluon.Block):
        return "Derive it from HybridBlock, with hybrid_forward(self, F, x), or partition its hybrid children"
    if isinstance(value, type) and issubclass(value, gluon.Block):
        return f"{value.__name__} is a class: create a block, {value.__name__}(...)"
    if isinstance(value, (list, tuple)):
        return "Combine several blocks with nn.HybridSequential() and its add(...)"
    if isinstance(value, (str, Path)):
        return f"mx.gluon.SymbolBlock.imports({str(value)!r}, ['data']) reads a symbol's file as a block"
    return "Partition a symbol with tofu.partition(symbol, ngpus=...)"


class PartitionedBlock(gluon.HybridBlock):  # type: ignore[misc]  # MXNet is untyped
    """A Gluon block that runs on several devices, as `tofu.gluon.partition` returns it."""

    _settings: Settings
    _devices: tuple[Any, ...]
    _cached_op: Any
    _cached_graph: Any
    _last_operator: PartitionedOperator | None = None  # used again if hybridize() leads to the same graph

    @property
    def partitioned_symbol(self) -> PartitionedSymbol:
        """The block's graph as an MXNet symbol (model). Raises PlanError before the first call."""
        return self._require_operator().symbol

    def _require_operator(self) -> PartitionedOperator:
        operator = self._cached_op or self._last_operator
        if not isinstance(operator, PartitionedOperator):
            raise PlanError(
                "There is no plan yet: call the block first, inside autograd.record() for the plan of training."
            )
        return operator

    @property
    def plan(self) -> Plan:
        """The plan for training. Before the first call inside `autograd.record()`, the plan for inference."""
        operator = self._require_operator()
        return operator.training_plan or operator.symbol.plan

    def plan_table(self, rows: int | None = DEFAULT_ROWS) -> str:
        """Return the plan as a table with a row for each layer, as `python -m tofu plan` prints it.

        `rows` is the maximum number of rows, or None for all layers.
        """
        return self.partitioned_symbol.plan_table(rows)

    def save_report(self, path: str | Path, title: str = "") -> None:
        """Write an HTML page about the plan."""
        self.partitioned_symbol.save_report(path, title or self.name)

    def why(self, operator: str) -> str:
        """Return a table of the ways to split an operator, with the communication of each."""
        return self.partitioned_symbol.why(operator)

    def _build_cache(self, *args: Any) -> None:
        super()._build_cache(*args)
        _, symbol = self._cached_graph
        refuse_broken(symbol)
        refuse_unpartitionable(symbol)
        parameters = {parameter.name: parameter for is_input, parameter in self._cached_op_args if not is_input}
        last_operator, self._last_operator = self._last_operator, None
        if last_operator is not None and last_operator.runs(symbol, parameters):
            self._cached_op = last_operator
            return
        warn_of_sparse_storage(symbol)
        unsharded = [parameter for parameter in parameters.values() if not isinstance(parameter, Sharded)]
        for parameter in unsharded:  # parameters of layers that were added after the block was partitioned
            check_parameter(parameter)
        for parameter in unsharded:
            shard_parameter(parameter)
        self._cached_op = PartitionedOperator(PartitionedSymbol(symbol, self._settings, self._devices), parameters)

    def __deepcopy__(self, memo: Any) -> Any:
        raise UnsupportedError(
            f"{self.name} is partitioned and cannot be copied. Create and partition another block of its kind, and transfer the parameters "
            "with save_parameters() and load_parameters(), or keep copies of the parameters' data()."
        )

    def forward(self, x: Any, *args: Any) -> Any:
        """Run the block on the workers. Raise UnsupportedError if `x` is a symbol."""
        if isinstance(x, mx.sym.Symbol):
            raise UnsupportedError(
                f"{self.name} is partitioned but is called with a symbol, probably by a hybridized block around it, which would run it on "
                "one device. Partition the outer block instead, or do not hybridize it. After a first call, "
                "block.partitioned_symbol.whole is the symbol of this block."
            )
        with reading_shards():
            return super().forward(x, *args)

    def summary(self, *inputs: Any) -> None:
        """Run the block on one device, and print MXNet's table of layers, shapes and parameters."""
        blocks: list[Any] = []
        self.apply(blocks.append)
        hybridized_blocks = [block for block in blocks if getattr(block, "_active", False)]
        partitioned_class = type(self)
        try:
            for block in hybridized_blocks:
                block._active = False
            self.__class__ = partitioned_class.__mro__[2]  # the class before the partitioning
            self.summary(*inputs)
        finally:
            self.__class__ = partitioned_class
            for block in hybridized_blocks:
                block._active = True

    def hybridize(self, active: bool = True, *args: Any, **kwargs: Any) -> None:
        """At the next call, read the block's operators again. Raise UnsupportedError for `active=False`."""
        if not active:
            raise UnsupportedError(
                f"{self.name} is partitioned and runs as a graph: hybridize(False), operator by operator, is not possible."
            )
        if kwargs.get("backend"):
            raise UnsupportedError("backend= is for one device. Leave it out.")
        if isinstance(self._cached_op, PartitionedOperator):
            self._last_operator = self._cached_op
        super().hybridize(True, *args, **kwargs)
