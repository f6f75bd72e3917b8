"""MXNet's optimizers on weights that are split over workers.

An optimizer's code runs once for each weight, as on one device. Each operator in this code runs on all shards of the
weight. So norms and random numbers are the same as on one device.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from inspect import signature
from types import FunctionType
from typing import Any

import mxnet as mx

from tofu.errors import TofuError, raise_together
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.frontend.sparse_gradients import list_sparse_gradients
from tofu.mxnet.frontend.storage import list_storages
from tofu.mxnet.memory.optimizer_states import create_optimizer, list_arrays
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.cluster.horovod import average_gradients, own_optimizer
from tofu.mxnet.runtime.executor.failures import OperatorFailureError, summarise
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.optimizer.lazy_rows import keeping_rows, list_read_gradients
from tofu.mxnet.runtime.optimizer.shardwise import on_shards
from tofu.validation import show_with_type

RENAMED_SETTINGS = {"lr", "lr_mult", "wd_mult", "idx2name", "sym_info", "float_stable_eps"}
"""Attributes of MXNet's optimizers that store arguments under other names."""


class ShardOptimizer:
    """Run an MXNet optimizer on weights that are split over workers.

    Parameters
    ----------
    optimizer
        An `mx.optimizer.Optimizer`, its name, or Horovod's DistributedOptimizer.
    parameters
        Options of the optimizer, if `optimizer` is a name.
    names
        Names of all parameters, in MXNet's order.
    rescale_grad
        Default factor for gradients, such as 1 / batch size.
    symbol
        The model. It may define factors for learning rate and weight decay.
    """

    def __init__(
        self,
        optimizer: Any,
        parameters: Mapping[str, Any],
        names: Sequence[str],
        rescale_grad: float,
        symbol: Any,
    ) -> None:
        self._outer_optimizer, optimizer = optimizer, own_optimizer(optimizer)  # Horovod's optimizer wraps MXNet's
        name_by_index = self.names = dict(enumerate(names))
        if isinstance(optimizer, str):
            parameters = {"rescale_grad": rescale_grad, **parameters}
            optimizer = create_optimizer(optimizer, parameters, sym=symbol, param_idx2name=name_by_index)
        elif isinstance(optimizer, mx.optimizer.Optimizer):
            if optimizer.rescale_grad != rescale_grad:
                warnings.warn(
                    f"The optimizer's rescale_grad is {optimizer.rescale_grad}, 1 / batch size is {rescale_grad}. Is this intended?",
                    stacklevel=3,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = name_by_index
        else:
            raise TofuError(
                f"The optimizer must be a name or an mx.optimizer.Optimizer, not {show_with_type(optimizer)}. Write optimizer='sgd', "
                "optimizer_params={'learning_rate': 0.1}."
            )
        self.updater = updater_for(optimizer)
        storages = list_storages(symbol)
        # For each parameter with a sparse gradient, True if the weight is sparse as well.
        self._has_sparse_weight = {name: name in storages for name in list_sparse_gradients(symbol)}

    def borrow(self, names: Sequence[str]) -> ShardOptimizer:
        """Return an optimizer for `names`. It shares states and counts of updates with this optimizer.

        Raise TofuError for an unknown name.
        """
        raise_together(
            TofuError,
            "The optimizer was made for another model, which does not have these parameters:",
            sorted(set(names) - set(self.names.values())),
        )
        borrowed = copy(self)
        borrowed.names = {index: name for index, name in self.names.items() if name in set(names)}
        return borrowed

    @property
    def optimizer(self) -> Any:
        """The MXNet optimizer. Its learning rate can be read and set."""
        return self.updater.optimizer

    def update(self, executor: ShardedExecutor) -> None:
        """Update all trained parameters with the gradients of the last backward pass.

        If the optimizer fails, the error names the parameters that it may have updated.
        """
        trained = {index: name for index, name in self.names.items() if name in executor.differentiated}
        if not trained:
            return
        gradients = [ShardedArray(executor.gradient(name)) for name in trained.values()]
        weights = [ShardedArray(executor.variables[name]) for name in trained.values()]
        old_counts = dict(self.optimizer._index_update_count)
        with uninterrupted():
            prepare_states(self.updater, tuple(trained), weights)
            average_gradients(self._outer_optimizer, tuple(trained), gradients)
            has_sparse_weight = {
                position: self._has_sparse_weight[name]
                for position, name in enumerate(trained.values())
                if name in self._has_sparse_weight
            }
            try:
                update_shards(self.updater, tuple(trained), gradients, weights, has_sparse_weight)
            except Exception as error:
                counts = self.optimizer._index_update_count
                changed = [name for index, name in trained.items() if counts.get(index) != old_counts.get(index)]
                if not changed:
                    raise
                raise OperatorFailureError(
                    f"The optimizer failed in the middle of an update: {summarise(error)} Of {len(trained)} parameters these may be "
                    f"updated, and the others are unchanged: {', '.join(changed)}. Load the last checkpoint."
                ) from error

    def place_states(self, executor: ShardedExecutor) -> None:
        """Split each optimizer state like its weight."""
        states = self.updater.states
        with uninterrupted(), on_shards():
            for index, name in self.names.items():
                if index in states:
                    states[index] = _split_like_weight(states[index], executor.variables[name])
                    self.updater.states_synced[index] = True

    @property
    def content(self) -> tuple[dict[Any, Any], Any]:
        """The pair (states, optimizer) that MXNet saves."""
        return self.updater.states, self.optimizer

    def load(self, content: Any, executor: ShardedExecutor) -> None:
        """Load saved states, and counts of updates if the file has them. The optimizer keeps its settings.

        Raise TofuError if the states belong to another optimizer or model.
        """
        states, optimizer = content if isinstance(content, tuple) and len(content) == 2 else (content, self.optimizer)
        if not isinstance(states, dict):
            raise TofuError(f"This is no file of optimizer states: it holds a {type(states).__name__}.")
        index_by_name = {name: index for index, name in self.names.items()}
        state_by_index = {index_by_name.get(key, key): state for key, state in states.items()}  # a kvstore saves names
        saved_type, own_type = type(optimizer).__name__, type(self.optimizer).__name__
        if type(optimizer) is not type(self.optimizer):
            raise TofuError(
                f"The file has the states of {saved_type}, and the module trains with {own_type}. Use the optimizer of the file, "
                f"init_optimizer(optimizer={saved_type.lower()!r}, force_init=True), or train without these states."
            )
        try:
            self._check_states(state_by_index, optimizer, executor)
        except (AttributeError, LookupError, TypeError, mx.base.MXNetError) as error:
            raise TofuError(f"The file holds no states that {saved_type} can use: {error}") from error
        if optimizer is self.optimizer and optimizer.num_update == 0 and _reads_steps(optimizer):
            warnings.warn(
                f"The file of optimizer states has no count of steps, since mx.mod.Module does not save it, and {saved_type} uses that "
                "count: it starts at 0 again, as in MXNet. To continue exactly, give the number of updates made: "
                "optimizer_params={'begin_num_update': ...}.",
                stacklevel=4,
            )
        if optimizer is not self.optimizer:
            _copy_settings(self.optimizer, optimizer)
        with uninterrupted():
            self.updater.optimizer = optimizer
            self.updater.states = state_by_index
            self.updater.states_synced = dict.fromkeys(state_by_index, True)
            self.place_states(executor)

    def _check_states(self, states: Mapping[Any, Any], optimizer: Any, executor: ShardedExecutor) -> None:
        for index, name in self.names.items():
            if index not in states:
                continue
            weight = executor.variables[name]
            with uninterrupted(), on_shards():
                new_state = optimizer.create_state_multi_precision(index, ShardedArray(weight))
            new_form, loaded_form = _describe_form(new_state), _describe_form(states[index])
            if loaded_form != new_form:
                raise TofuError(
                    f"The states are of another optimizer than {type(optimizer).__name__} with these parameters: for {name} it keeps "
                    f"{new_form}, the file has {loaded_form}. Load them into the optimizer that saved them."
                )
            for loaded, new in zip(list_arrays(states[index]), list_arrays(new_state), strict=True):
                if tuple(loaded.shape) != tuple(new.shape):
                    raise TofuError(
                        f"The states are of another model: {name} has shape {weight.shape}, its state {tuple(loaded.shape)}."
                    )


def _copy_settings(source: mx.optimizer.Optimizer, target: mx.optimizer.Optimizer) -> None:
    """Copy settings such as the learning rate, but no counts of updates."""
    arguments = {name for base in type(source).__mro__ for name in signature(base).parameters}
    for name, value in vars(source).items():
        if name in arguments | RENAMED_SETTINGS:
            setattr(target, name, value)


def _reads_steps(optimizer: Any) -> bool:
    classes = (c for c in type(optimizer).__mro__ if c is not mx.optimizer.Optimizer)
    methods = (value for c in classes for value in vars(c).values() if isinstance(value, FunctionType))
    names = {name for method in methods for name in method.__code__.co_names}
    return optimizer.lr_scheduler is not None or not names.isdisjoint({"_index_update_count", "num_update"})


def updater_for(optimizer: Any) -> Any:
    """Return an MXNet Updater for weights that are split over workers."""
    return (_LambUpdater if isinstance(optimizer, mx.optimizer.LAMB) else mx.optimizer.Updater)(optimizer)


class _LambUpdater(mx.optimizer.Updater):  # type: ignore[misc]  # MXNet is untyped
    # MXNet's kernel for several weights at once would use wrong norms, so weights are updated one by one.
    def __call__(self, index: Sequence[int], grad: Sequence[Any], weight: Sequence[Any]) -> None:
        for one_index, gradient, one_weight in zip(index, grad, weight, strict=True):
            mx.optimizer.Optimizer.update_multi_precision(
                self.optimizer, one_index, one_weight, gradient, self.states[one_index]
            )


def prepare_states(updater: Any, indices: Sequence[Any], weights: Sequence[Any]) -> None:
    """Create missing optimizer states, and split each state like its weight."""
    with on_shards():
        for index, weight in zip(indices, weights, strict=True):
            if index not in updater.states:  # a state may start as a copy of the weight
                updater.states[index] = updater.optimizer.create_state_multi_precision(index, weight)
                updater.states_synced[index] = True
            if isinstance(weight, ShardedArray):
                updater.states[index] = _split_like_weight(updater.states[index], weight.tensor)
                updater.states_synced[index] = True


def update_shards(
    updater: Any,
    indices: Sequence[Any],
    gradients: Sequence[Any],
    weights: Sequence[Any],
    has_sparse_weight: Mapping[int, bool],
) -> None:
    """Run an MXNet Updater on weights and gradients that are split over workers.

    `has_sparse_weight` maps the position of each sparse gradient to True if its weight is sparse, too.
    """
    read_gradients = [
        list_read_gradients(updater.optimizer, indices[n], gradients[n].tensor, is_sparse)
        for n, is_sparse in has_sparse_weight.items()
    ]
    updated_arrays = [[weights[n], *list_arrays(updater.states[indices[n]])] for n in has_sparse_weight]
    with keeping_rows(read_gradients, updated_arrays), on_shards():
        updater(tuple(indices), tuple(gradients), tuple(weights))


def _split_like_weight(state: Any, weight: ShardedTensor) -> Any:
    if isinstance(state, (tuple, list)):
        return type(state)(_split_like_weight(item, weight) for item in state)
    if not isinstance(state, mx.nd.NDArray) or not weight.is_like(state.shape):
        return state
    placed = weight.like(state.shape, state.dtype)
    if isinstance(state, ShardedArray) and state.tensor.matches(placed):
        return state
    state.copyto(ShardedArray(placed)) if isinstance(state, ShardedArray) else placed.scatter(state)
    return ShardedArray(placed)


def _describe_form(state: Any) -> str:
    if isinstance(state, (tuple, list)):
        return f"[{', '.join(map(_describe_form, state))}]"
    if isinstance(state, mx.nd.NDArray):
        return "array"
    return "nothing" if state is None else "a value"
