"""`tofu.bind`: the low level, an executor whose arguments, gradients and outputs are shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tofu.errors import DeviceError
from tofu.graph.mxnet import find_labels
from tofu.plan import Plan
from tofu.runtime.sharded_executor import ShardedExecutor
from tofu.runtime.symbol import PartitionedSymbol, partition


def bind(
    symbol: Any,
    contexts: Sequence[Any] | None = None,
    *,
    plan: Plan | None = None,
    fixed: Sequence[str] = (),
    differentiated_inputs: Sequence[str] = (),
    type_dict: Mapping[str, Any] | None = None,
    for_training: bool = True,
    **shapes: Sequence[int],
) -> ShardedExecutor:
    """Bind a model to devices, shard by shard; no whole tensor is made.

    Parameters
    ----------
    symbol
        The model, or what `tofu.partition` made of it.
    contexts
        The workers' devices; needed where `symbol` is not partitioned yet.
    plan
        A plan to apply instead of searching.
    fixed
        Parameters that are not trained.
    differentiated_inputs
        Inputs whose gradients are wanted.
    type_dict
        Types of arguments that are not float32.
    for_training
        False binds the forward graph alone.
    **shapes
        Shapes of the inputs: data and labels.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    >>> executor = tofu.bind(net, [mx.cpu(0), mx.cpu(1)], data=(4, 6))
    >>> executor.variables["fc_weight"].scatter(mx.nd.ones((8, 6)))
    >>> executor.variables["data"].scatter(mx.nd.ones((4, 6)))
    >>> executor.forward(is_train=False)
    >>> executor.output(0).gather().shape
    (4, 8)
    """
    if isinstance(symbol, PartitionedSymbol):
        partitioned = symbol
        if contexts is not None and tuple(contexts) != symbol.contexts:
            raise DeviceError(
                f"The symbol was partitioned for {', '.join(map(str, symbol.contexts))}, "
                f"bind is given {', '.join(map(str, contexts))}. Leave contexts out, or partition for those."
            )
    else:
        if contexts is None and plan is None:
            raise DeviceError("bind needs contexts=, one for each worker, or a symbol made by tofu.partition(...).")
        partitioned = partition(symbol, contexts=contexts, plan=plan, for_training=for_training)
    inputs = {name: tuple(shape) for name, shape in shapes.items()}
    held = set(fixed) | set(inputs) | find_labels(partitioned)
    trained = [name for name in partitioned.list_arguments() if name not in held] if for_training else []
    inputs_differentiated = tuple(differentiated_inputs) if for_training else ()
    return partitioned.bind_shards(inputs, type_dict or {}, trained, inputs_differentiated)
