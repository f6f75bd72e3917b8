"""`tofu.mxnet.partition`: an MXNet model, a symbol or a Gluon block, on several devices."""

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


@explain_call("tofu.partition(symbol, ngpus=4, data=(64, 784)), with the shape of each input by its name")
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
        The model, an `mx.sym.Symbol` written for one device, or a Gluon block, which is changed in place (`tofu.gluon.partition`).
    ngpus
        The number of workers; 1 leaves the model as it is. Left out, it is that of `contexts` or of `plan`.
    contexts
        Where the workers run. Left out: gpu(0..ngpus-1) where MXNet sees that many, cpu(0..ngpus-1) where it sees none.
    plan
        A plan, its JSON, or the path of a file with its JSON, to apply instead of searching. What says how to search (`algorithm`,
        `search_seconds`, `topology`) is refused beside it.
    hints
        Pins parts of the plan: tensor name -> dimension, operator name -> axis, or one such choice for each step.
    for_training
        False plans the forward graph alone.
    undescribed
        "replicate" computes operators without a description on every worker; "error" names them.
    on_infeasible
        "replicate" lets workers compute the same where the model has nothing to split between so many, with a warning; "error" says how
        many can be fed.
    cache
        False searches again even for a graph that was planned before.
    algorithm
        "exact": the best plan of all, with a proof. "recursive", the paper's: each step is the best, given the steps before. Or a
        baseline to compare with: BASELINES (docs/search.md).
    search_seconds
        The effort of the exact search, in seconds, which are counted in operations, so that every run ends with the same plan.
        Cost tables count, but are always made. After that the plan is the best one found; `plan.optimality` says what is proved.
    topology
        The bandwidth of each level of the interconnect in bytes per second, from the top, as a list or in a JSON file (docs/search.md).
        The search then minimises seconds instead of bytes, over all orders of the factors.
    memory_limit
        Bytes for each worker (of `plan.worker_bytes`), or a text such as "12GB". Tensors may then stay whole on several workers at some
        steps, as far as they fit; the plan is the one that moves the fewest bytes of those found. An error says what does not fit.
    replicate
        "free" lets any tensor stay whole on several workers where that saves traffic, whatever memory it takes; "small" those below
        64 KiB. With `memory_limit`, anything may, as far as it fits.
    unroll
        "cheaper" plans RNN operators (LSTM, GRU, tanh) as the cells that they compute as well, which are split by hidden units too, and
        takes what moves fewer bytes. "always" takes the cells, "never" the operators.
    **shapes
        Shapes of the inputs. With them the search runs now, without them when the symbol is bound.

    Returns
    -------
    PartitionedSymbol or HybridBlock
        An `mx.sym.Symbol` with `plan` and `execution_symbol`, or the block.

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
