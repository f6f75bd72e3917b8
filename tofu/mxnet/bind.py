"""`tofu.bind`, which binds a model to several devices and returns an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tofu.errors import DeviceError, PlanError, TofuError, explain_call, list_keyword_arguments, raise_together
from tofu.mxnet.frontend.inference import list_inputs
from tofu.mxnet.frontend.read_symbol import find_labels
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol.arguments import check_same_workers, read_names, read_shapes
from tofu.mxnet.runtime.symbol.make import make_symbol
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.plan import Plan


@explain_call("tofu.bind(symbol, [mx.cpu(0), mx.cpu(1)], data=(64, 784))")
def bind(
    symbol: Any,
    contexts: Sequence[Any] | None = None,
    *,
    plan: Plan | str | Path | None = None,
    fixed: Sequence[str] = (),
    differentiated_inputs: Sequence[str] = (),
    type_dict: Mapping[str, Any] | None = None,
    for_training: bool = True,
    **shapes: Sequence[int],
) -> ShardedExecutor:
    """Bind a model to several devices without ever allocating a whole tensor.

    Call it if you write the training loop yourself. Modules and Gluon blocks bind their models themselves.

    Parameters
    ----------
    symbol
        The model, or a symbol returned by `tofu.partition`.
    contexts
        The workers' devices. Not needed for a partitioned symbol.
    plan
        A plan to use. By default, Tofu searches for a plan.
    fixed
        Names of parameters that are not trained.
    differentiated_inputs
        Names of inputs whose gradients are also computed.
    type_dict
        The type of each argument that is not float32, by name.
    for_training
        If False, compute no gradients.
    **shapes
        The shape of each input, by name. Inputs are the data and the labels.

    Returns
    -------
    ShardedExecutor
        The executor. Its attribute `variables` maps names of arguments, and of auxiliary states such as moving means,
        to their shards.

    Raises
    ------
    TofuError
        A name is unknown, or the plan does not fit the model.

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
        check_same_workers(symbol, None, contexts)
        if plan is not None:
            raise PlanError(
                "The symbol is partitioned already. Pass plan= to tofu.partition(...), or bind symbol.whole."
            )
    else:
        if contexts is None and plan is None:
            raise DeviceError(
                "bind needs contexts=, one for each worker, as in contexts=[mx.cpu(0), mx.cpu(1)], or a symbol made by "
                "tofu.partition(symbol, ngpus=2)."
            )
        partitioned = make_symbol(symbol, None, contexts, plan=plan, for_training=for_training)
    inputs = read_shapes(partitioned, shapes, list_keyword_arguments(bind))
    arguments = partitioned.list_arguments()
    untrained = {*read_names("fixed", fixed), *inputs, *find_labels(partitioned)}
    trained = [name for name in arguments if name not in untrained] if for_training else []
    input_names = read_names("differentiated_inputs", differentiated_inputs)
    raise_together(
        TofuError,
        f"These names are not among the model's arguments (its inputs are {list_inputs(partitioned)}):",
        [name for name in [*fixed, *input_names, *(type_dict or {})] if name not in arguments],
    )
    differentiated = [*trained, *(input_names if for_training else ())]
    return partitioned.bind_shards(partitioned.compile_for(inputs, type_dict or {}, differentiated, trained))
