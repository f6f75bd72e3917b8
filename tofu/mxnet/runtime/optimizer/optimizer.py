"""Any MXNet optimizer on shards: it runs once for each weight, as on one device, and its operators run on the workers' shards.

So steps are counted once, norms are those of whole tensors, random numbers are drawn as on one device, and momentum and history
lie beside the weight's shards.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from types import FunctionType
from typing import Any

import mxnet as mx

from tofu.errors import TofuError, raise_together
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.frontend.storage import list_sparse_gradients, list_storages
from tofu.mxnet.memory.optimizer_states import create_optimizer
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.cluster.horovod import average_gradients, own_optimizer
from tofu.mxnet.runtime.executor.failures import OperatorFailureError, summarise
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.optimizer.lazy_rows import keeping_rows, list_read_gradients
from tofu.mxnet.runtime.optimizer.shardwise import on_shards
from tofu.validation import show_with_type


class ShardOptimizer:
    """One MXNet optimizer with MXNet's own updater, for sharded weights.

    Parameters
    ----------
    optimizer
        An `mx.optimizer.Optimizer`, Horovod's over one, or the name of one with its `parameters`.
    names
        All parameters, in the order of MXNet's indices.
    rescale_grad
        What gradients are multiplied by where `parameters` do not say; MXNet's Module takes 1 / batch size.
    symbol
        The model, for the multipliers of learning rate and weight decay in its attributes.
    """

    def __init__(
        self,
        optimizer: Any,
        parameters: Mapping[str, Any],
        names: Sequence[str],
        rescale_grad: float,
        symbol: Any,
    ) -> None:
        self._given, optimizer = optimizer, own_optimizer(optimizer)
        indices = self.names = dict(enumerate(names))
        if isinstance(optimizer, str):
            parameters = {"rescale_grad": rescale_grad, **parameters}
            optimizer = create_optimizer(optimizer, parameters, sym=symbol, param_idx2name=indices)
        elif isinstance(optimizer, mx.optimizer.Optimizer):
            if optimizer.rescale_grad != rescale_grad:
                warnings.warn(
                    f"The optimizer's rescale_grad is {optimizer.rescale_grad}, 1 / batch size is {rescale_grad}. Is this intended?",
                    stacklevel=3,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = indices
        else:
            raise TofuError(
                f"The optimizer must be a name or an mx.optimizer.Optimizer, not {show_with_type(optimizer)}. Write optimizer='sgd', "
                "optimizer_params={'learning_rate': 0.1}."
            )
        self.updater = updater_for(optimizer)
        storages = list_storages(symbol)
        self._sparse = {name: name in storages for name in list_sparse_gradients(symbol)}  # and whether the weight is

    def borrow(self, names: Sequence[str]) -> ShardOptimizer:
        """The same optimizer, with its states and counts of steps, for those of its parameters that are in `names`.

        Raises TofuError for names that it does not have.
        """
        raise_together(
            TofuError,
            "The optimizer was made for another model, which does not have these parameters:",
            sorted(set(names) - set(self.names.values())),
        )
        lent = copy(self)
        lent.names = {index: name for index, name in self.names.items() if name in set(names)}
        return lent

    @property
    def optimizer(self) -> Any:
        """The MXNet optimizer, whose learning rate may be read and set."""
        return self.updater.optimizer

    def update(self, executor: ShardedExecutor) -> None:
        """One update of every trained parameter that has a gradient, from the gradients of the last backward.

        Raises ExecutionError before anything is changed where an operator of the step failed, and where the optimizer itself fails says
        which parameters are updated.
        """
        trained = {index: name for index, name in self.names.items() if name in executor.differentiated}
        if not trained:
            return
        gradients = [ShardedArray(executor.gradient(name)) for name in trained.values()]
        weights = [ShardedArray(executor.variables[name]) for name in trained.values()]
        counts = dict(self.optimizer._index_update_count)
        with uninterrupted():
            self._make_states(trained, executor)
            self.lay_out_states(executor)
            average_gradients(self._given, tuple(trained), gradients)
            sparse = {index: name for index, name in trained.items() if name in self._sparse}
            read = [
                list_read_gradients(self.optimizer, index, executor.gradient(name), self._sparse[name])
                for index, name in sparse.items()
            ]
            updated = [
                [ShardedArray(executor.variables[name]), *list_arrays(self.updater.states[index])]
                for index, name in sparse.items()
            ]
            try:
                with keeping_rows(read, updated), on_shards():
                    self.updater(tuple(trained), tuple(gradients), tuple(weights))
            except Exception as error:
                now = self.optimizer._index_update_count
                begun = [name for index, name in trained.items() if now.get(index) != counts.get(index)]
                if not begun:
                    raise
                raise OperatorFailureError(
                    f"The optimizer failed in the middle of an update: {summarise(error)} These parameters are or may be updated: "
                    f"{', '.join(begun)}; of {len(trained)} the others are as they were. Load the last checkpoint."
                ) from error

    def _make_states(self, trained: Mapping[int, str], executor: ShardedExecutor) -> None:
        """Make the states that are missing, at a weight's first update and no earlier: some hold a copy of the weight as it is then."""
        states = self.updater.states
        with on_shards():
            for index in [index for index in trained if index not in states]:
                weight = ShardedArray(executor.variables[trained[index]])
                states[index] = self.optimizer.create_state_multi_precision(index, weight)

    def lay_out_states(self, executor: ShardedExecutor) -> None:
        """Move the states to their weights' shards that lie elsewhere."""
        states, synced = self.updater.states, self.updater.states_synced
        with uninterrupted(), on_shards():
            for index, name in self.names.items():
                if index in states:
                    states[index] = lay_out(states[index], executor.variables[name])
                    synced[index] = True

    @property
    def content(self) -> tuple[dict[Any, Any], Any]:
        """What a file of states holds: the states and the optimizer, with its counts of steps, as MXNet's Updater writes them."""
        return self.updater.states, self.optimizer

    def load(self, content: Any, executor: ShardedExecutor) -> None:
        """Take over states that were saved by Tofu or by MXNet, and the optimizer where it is with them.

        MXNet's Module writes the states alone; steps are then counted from the optimizer's begin_num_update, as in MXNet, with a warning
        where that changes what the optimizer does. Raises TofuError for what are no states, or those of another optimizer or model.
        """
        states, optimizer = content if isinstance(content, tuple) and len(content) == 2 else (content, self.optimizer)
        if not isinstance(states, dict):
            raise TofuError(f"This is no file of optimizer states: it holds a {type(states).__name__}.")
        indices = {name: index for index, name in self.names.items()}
        by_index = {indices.get(key, key): state for key, state in states.items()}  # a kvstore's are by name
        if type(optimizer) is not type(self.optimizer):
            file_has, own = type(optimizer).__name__, type(self.optimizer).__name__
            raise TofuError(
                f"The file has the states of {file_has}, and the module trains with {own}. Give it the optimizer of the file, "
                f"init_optimizer(optimizer={file_has.lower()!r}, force_init=True), or train without these states."
            )
        try:
            self._check_states(by_index, optimizer, executor)
        except (AttributeError, LookupError, TypeError, mx.base.MXNetError) as error:
            raise TofuError(f"The file holds no states that {type(optimizer).__name__} can use: {error}") from error
        if optimizer is self.optimizer and optimizer.num_update == 0 and _reads_steps(optimizer):
            kind = type(optimizer).__name__
            warnings.warn(
                f"The file of optimizer states holds no count of steps, as mx.mod.Module writes it, and {kind} reads that count: it would "
                "begin at 0 again, as in MXNet. To go on exactly, say how many updates were made: "
                "optimizer_params={'begin_num_update': ...}.",
                stacklevel=4,
            )
        with uninterrupted():
            self.updater.optimizer = optimizer
            self.updater.states = by_index
            self.updater.states_synced = dict.fromkeys(by_index, True)
            self.lay_out_states(executor)

    def _check_states(self, states: Mapping[Any, Any], optimizer: Any, executor: ShardedExecutor) -> None:
        """Raise TofuError for states in another form than those that the optimizer makes, or of other weights."""
        for index, name in self.names.items():
            if index not in states:
                continue
            weight = executor.variables[name]
            with uninterrupted(), on_shards():
                own = optimizer.create_state_multi_precision(index, ShardedArray(weight))
            if _form(states[index]) != _form(own):
                raise TofuError(
                    f"The states are of another optimizer than {type(optimizer).__name__} with these parameters: for {name} it keeps "
                    f"{_form(own)}, the file has {_form(states[index])}. Load them into the optimizer that they were saved from."
                )
            for given, made in zip(list_arrays(states[index]), list_arrays(own), strict=True):
                if tuple(given.shape) != tuple(made.shape):
                    raise TofuError(
                        f"The states are of another model: {name} has shape {weight.shape}, its state {tuple(given.shape)}."
                    )


def _reads_steps(optimizer: Any) -> bool:
    """Whether an optimizer's updates depend on how many there were: through a scheduler, or in its own methods."""
    methods = (
        method
        for kind in type(optimizer).__mro__
        if kind is not mx.optimizer.Optimizer
        for method in vars(kind).values()
    )
    names = {name for method in methods if isinstance(method, FunctionType) for name in method.__code__.co_names}
    return optimizer.lr_scheduler is not None or not names.isdisjoint({"_index_update_count", "num_update"})


def updater_for(optimizer: Any) -> Any:
    """What runs an optimizer on sharded arrays: MXNet's updater."""
    return (_LambUpdater if isinstance(optimizer, mx.optimizer.LAMB) else mx.optimizer.Updater)(optimizer)


class _LambUpdater(mx.optimizer.Updater):  # type: ignore[misc]  # MXNet is untyped
    """LAMB, one weight after the other.

    MXNet's kernel for several weights takes the norms of what it is given; that for one float16 weight leaves the master copy as
    it was. This is the former's arithmetic, with norms of whole tensors.
    """

    def __call__(self, index: Sequence[int], grad: Sequence[Any], weight: Sequence[Any]) -> None:
        for i, g, w in zip(index, grad, weight, strict=True):
            mx.optimizer.Optimizer.update_multi_precision(self.optimizer, i, w, g, self.states[i])


def lay_out(state: Any, weight: ShardedTensor) -> Any:
    """The arrays in a state that have the weight's shape, on shards that lie as the weight's do."""
    if isinstance(state, (tuple, list)):
        return type(state)(lay_out(part, weight) for part in state)
    if not isinstance(state, mx.nd.NDArray) or not weight.is_like(state.shape):
        return state
    layout = weight.like(state.shape, state.dtype)
    if isinstance(state, ShardedArray) and state.tensor.matches(layout):
        return state
    state.copyto(ShardedArray(layout)) if isinstance(state, ShardedArray) else layout.scatter(state)
    return ShardedArray(layout)


def list_arrays(state: Any) -> list[Any]:
    """The arrays in a state."""
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in list_arrays(part)]
    return [state] if isinstance(state, mx.nd.NDArray) else []


def _form(state: Any) -> str:
    """What a state is made of, its shapes and types aside."""
    if isinstance(state, (tuple, list)):
        return f"[{', '.join(map(_form, state))}]"
    if isinstance(state, mx.nd.NDArray):
        return "array"
    return "nothing" if state is None else "a value"
