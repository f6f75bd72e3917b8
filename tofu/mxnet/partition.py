"""`tofu.partition`: distributes an MXNet model, a symbol or a Gluon block, over several devices."""

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
    """Partition a model over `ngpus` devices.

    Parameters
    ----------
    symbol
        The model, an `mx.sym.Symbol` written for one device, or a Gluon block, which is changed in place
        (`tofu.gluon.partition`).
    ngpus
        The number of workers; 1 leaves the model as it is. By default that of `contexts` or of `plan`.
    contexts
        The workers' devices. By default gpu(0..ngpus-1) if MXNet sees that many GPUs, cpu(0..ngpus-1) if it sees
        none.
    plan
        A plan, its JSON, or the path of its JSON file, to apply instead of searching. Search options (`algorithm`,
        `search_seconds`, `topology`) cannot be combined with it.
    hints
        Pins parts of the plan: tensor name -> dimension, operator name -> axis, or one such choice per round.
    for_training
        False plans the forward graph alone.
    undescribed
        "replicate" runs operators without a description on every worker; "error" names them.
    on_infeasible
        "replicate" lets workers compute the same, with a warning, if the model has nothing to split between so many.
        "error" reports how many workers are possible.
    cache
        False searches again even for a graph that was planned before.
    algorithm
        "exact": the best plan, with a proof. "recursive", the paper's: each round is optimal given the rounds before.
        Or a baseline to compare with: BASELINES (docs/search.md).
    search_seconds
        Effort of the exact search in seconds, counted in operations, so that every run ends with the same plan. Cost
        tables count, but are always computed. After that, the best plan found is used; `plan.optimality` tells what
        is proved.
    topology
        Bandwidth of each level of the interconnect, in bytes per second, from the top, as a list or in a JSON file
        (docs/search.md). The search then minimises seconds instead of bytes, over all orders of the factors.
    memory_limit
        Bytes per worker (of `plan.worker_bytes`), or a text such as "12GB". Tensors may then be replicated in some
        rounds, as far as they fit; of the plans found, the one with the least communication is used. An error names
        what does not fit.
    replicate
        "free" lets any tensor be replicated if that saves communication, whatever memory it takes; "small" only those
        below 64 KiB. With `memory_limit`, any tensor may be, as far as it fits.
    unroll
        "cheaper" also plans RNN operators (LSTM, GRU, tanh) as the cells that they compute, which can be split by
        hidden units, and uses the form with less communication. "always" uses the cells, "never" the operators.
    **shapes
        Shapes of the inputs. With them the search runs now, without them when the symbol is bound.

    Returns
    -------
    PartitionedSymbol or HybridBlock
        An `mx.sym.Symbol` with `plan` and `execution_symbol`, or the block.

    Raises
    ------
    TofuError
        For a model that cannot be partitioned, wrong shapes or devices, and options that contradict each other.

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
        own: dict[str, Any] = shapes if for_training else {"for_training": False, **shapes}
        return partition_block(symbol, ngpus, contexts=contexts, **options, **own)
    known = ("ngpus", *list_keyword_arguments(partition))
    return make_symbol(symbol, ngpus, contexts, shapes, known, for_training=for_training, **options)


partition.__doc__ = str(partition.__doc__).replace("BASELINES", ", ".join(f'"{name}"' for name in BASELINES))
