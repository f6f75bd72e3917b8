"""`tofu.partition` for MXNet models, which are symbols or Gluon blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxnet.gluon import Block

from tofu.errors import explain_call, list_keyword_arguments
from tofu.mxnet.gluon.block import partition as partition_block
from tofu.mxnet.runtime.symbol.make import make_symbol
from tofu.plan import Plan
from tofu.search.algorithms import BASELINES, DEFAULT_ALGORITHM
from tofu.search.solve import DEFAULT_SEARCH_SECONDS


@explain_call("tofu.partition(symbol, ngpus=4, data=(64, 784)), with the shape of each input by name")
def partition(
    symbol: Any,
    ngpus: int | None = None,
    *,
    contexts: Sequence[Any] | None = None,
    plan: Plan | str | Path | None = None,
    hints: Mapping[str, Any] | None = None,
    for_training: bool = True,
    undescribed: str = "error",
    on_infeasible: str = "error",
    cache: bool = True,
    algorithm: str = DEFAULT_ALGORITHM,
    search_seconds: float = DEFAULT_SEARCH_SECONDS,
    topology: Any = None,
    memory_limit: Any = None,
    replicate: str = "small",
    unroll: str = "never",
    **shapes: Sequence[int],
) -> Any:
    """Partition a model over several devices.

    Parameters
    ----------
    symbol
        The model, written for one device: an `mx.sym.Symbol`, or a Gluon block, which is changed in place.
    ngpus
        The number of devices (workers). With 1, the model stays unchanged. The default is the number of `contexts`, or
        of the workers in `plan`.
    contexts
        The devices as MXNet contexts. The default is gpu(0), gpu(1), ..., or cpu(0), cpu(1), ... without GPUs.
    plan
        A plan to use: a `Plan`, its JSON, or the path of its JSON file. By default, Tofu searches for a plan. Options
        of the search cannot be passed together with a plan.
    hints
        Splits that the plan must contain. {"fc1_weight": 0} splits this weight along dimension 0. For an operator, use
        the name of an axis. A plan has a round for each prime factor of the number of workers. A list has a value for
        each round.
    for_training
        If False, plan the model for inference only.
    undescribed
        For operators without a description: "replicate" runs them on every worker, "error" raises an error.
    on_infeasible
        For models that cannot be split into `ngpus` parts: "replicate" lets some workers compute the same, "error"
        raises an error.
    cache
        If False, search again even if the same graph was planned before.
    algorithm
        "exact" finds the best plan and proves that it is the best. "recursive" is the paper's algorithm. It decides one
        round after the other. Baselines for comparisons are BASELINES (docs/search.md).
    search_seconds
        Approximate time limit of the exact search. At the limit, the best plan so far is returned. `plan.optimality`
        reports how far it may be from the best plan. The limit counts operations, so that every run finds the same
        plan.
    topology
        The interconnect: the name of a machine such as "2x8xH100", the path of a JSON file, or a list with the
        bandwidth of each level in bytes per second, the top level first (docs/search.md). The search then minimises
        seconds instead of bytes.
    memory_limit
        The largest allowed memory of a worker (`plan.worker_bytes`), in bytes or as text such as "12GB". Tofu then may
        replicate any tensor, and uses the plan with the least communication that fits.
    replicate
        "small" replicates only tensors below 64 KiB. "free" replicates any tensor to save communication.
    unroll
        When to replace RNN operators (LSTM, GRU, tanh) by cells, which compute one time step: "never", "always", or
        "cheaper" (if the plan improves). RNN operators can be split only by batch. Cells can also be split by hidden
        units.
    **shapes
        The shape of each input, by name. If shapes are missing, the search runs when the model is bound.

    Returns
    -------
    PartitionedSymbol or HybridBlock
        For a symbol, an `mx.sym.Symbol` with the attributes `plan` and `execution_symbol`. For a block, the block.

    Raises
    ------
    TofuError
        The model cannot be partitioned, shapes or devices are wrong, or options contradict each other.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    >>> tofu.partition(net, ngpus=2, data=(4, 6)).plan.workers
    2
    """
    options: dict[str, Any] = {
        "plan": plan,
        "hints": hints,
        "undescribed": undescribed,
        "on_infeasible": on_infeasible,
        "cache": cache,
        "algorithm": algorithm,
        "search_seconds": search_seconds,
        "topology": topology,
        "memory_limit": memory_limit,
        "replicate": replicate,
        "unroll": unroll,
    }
    if isinstance(symbol, Block):
        refused: dict[str, Any] = shapes if for_training else {"for_training": False, **shapes}
        return partition_block(symbol, ngpus, contexts=contexts, **options, **refused)
    option_names = ("ngpus", *list_keyword_arguments(partition))
    return make_symbol(symbol, ngpus, contexts, shapes, option_names, for_training=for_training, **options)


partition.__doc__ = str(partition.__doc__).replace("BASELINES", ", ".join(f'"{name}"' for name in BASELINES))
