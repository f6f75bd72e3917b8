"""`tofu.mod.SVRGModule`: MXNet's SVRGModule (stochastic variance reduced gradients) on several devices.

A second module has the weights of an earlier epoch. SVRG corrects the gradient of each batch: it subtracts the batch's
gradient at the earlier weights, and adds the average gradient of all batches at these weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tofu.errors import ArgumentTypeError, TofuError, UnsupportedError
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.module.binding import copy_values
from tofu.mxnet.runtime.module.module import Module
from tofu.validation import show


class SVRGModule(Module):
    """A model on several devices, trained by stochastic variance reduced gradients (SVRG).

    This method corrects the gradient of each batch by a gradient of the complete data set.

    Parameters
    ----------
    symbol, args, kwargs
        As in `tofu.mod.Module`.
    update_freq
        `fit` calls `update_full_grads` every `update_freq` epochs.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("y"), name="lro")
    >>> batches = mx.io.NDArrayIter(mx.nd.ones((8, 3)), mx.nd.ones((8, 2)), batch_size=4, label_name="y")
    >>> module = tofu.mod.SVRGModule(net, label_names=["y"], ngpus=2, update_freq=2)
    >>> module.fit(batches, eval_metric="mse", num_epoch=2)
    """

    def __init__(self, symbol: Any, *args: Any, update_freq: int | None = None, **kwargs: Any) -> None:
        super().__init__(symbol, *args, **kwargs)
        if not isinstance(update_freq, int) or isinstance(update_freq, bool):
            raise ArgumentTypeError(f"update_freq= takes a number of epochs, not {show(update_freq)}.")
        if update_freq < 1:
            raise TofuError(f"update_freq={update_freq}: give a number of epochs, from 1 on.")
        self.update_freq = update_freq
        self._mod_aux = Module(self._symbol, *args, **{**kwargs, "context": None, "ngpus": None})
        self._averages: dict[str, ShardedTensor] = {}

    def bind(self, *args: Any, **kwargs: Any) -> None:
        """Bind the model. Raise UnsupportedError for `shared_module`."""
        if kwargs.get("shared_module") is not None or args[5:6] not in ((), (None,)):
            raise UnsupportedError(
                "A SVRGModule cannot share parameters with another module. Leave shared_module= out."
            )
        super().bind(*args, **kwargs)
        self._mod_aux.bind(*args, **kwargs)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind the model for other input shapes."""
        super().reshape(data_shapes, label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(self, kvstore: Any = "local", *args: Any, **kwargs: Any) -> None:
        """Create the optimizer. Raise UnsupportedError for a `kvstore` of several machines."""
        super().init_optimizer(kvstore, *args, **kwargs)
        if self._cluster is not None:
            raise UnsupportedError(
                "A SVRGModule runs on one machine: it averages over that machine's data. Leave kvstore= out."
            )

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run the forward pass. In training, also run it with the earlier weights.

        In training, raise NotReadyError before the first call of `update_full_grads`.
        """
        super().forward(data_batch, is_train)
        if is_train or (is_train is None and self.for_training):
            self._mod_aux.forward(data_batch, is_train=True)

    def backward(self, out_grads: Any = None) -> None:
        """Run the backward pass with the current weights and with the earlier weights."""
        super().backward(out_grads)
        self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Correct the gradients, and update the parameters."""
        for name in self._list_differentiated_parameters():
            gradient = self.executor.gradient(name)
            earlier_gradient = self._mod_aux.executor.gradient(name).in_layout_of(gradient)
            for shard, subtrahend in zip(gradient.arrays, earlier_gradient.arrays, strict=True):
                shard -= subtrahend
            if name in self._averages:
                gradient.add(self._averages[name])
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Save the current weights, and compute the average gradient over all batches.

        As in MXNet, the sum of the gradients starts with the previous average instead of zero.
        """
        module = self._mod_aux  # has the earlier weights
        copy_values(self._check_ready().variables, {name: module.executor.variables[name] for name in self._kept_names})
        module.params_initialized = True
        train_data.reset()
        batches, padding = 0, 0
        for batch in train_data:
            module.forward(batch, is_train=True)
            module.backward()
            batches, padding = batches + 1, batch.pad or 0
            for name in self._list_differentiated_parameters():
                gradient = module.executor.gradient(name)
                self._averages.setdefault(name, gradient.zeros_like()).add(gradient)
        count = batches - padding / train_data.batch_size
        for average in self._averages.values():
            for shard in average.arrays:
                shard /= count

    def fit(self, train_data: Any, *args: Any, begin_epoch: int = 0, **kwargs: Any) -> None:
        """Train the model. Every `update_freq` epochs, call `update_full_grads`."""
        super().fit(_DataWithUpdates(self, train_data, begin_epoch), *args, begin_epoch=begin_epoch, **kwargs)

    def _list_differentiated_parameters(self) -> list[str]:
        parameters = set(self._param_names)
        return [name for name in self.executor.differentiated if name in parameters]


class _DataWithUpdates:
    def __init__(self, module: SVRGModule, data: Any, epoch: int) -> None:
        self._module, self._data, self._epoch = module, data, epoch

    def __iter__(self) -> Iterator[Any]:
        if self._epoch % self._module.update_freq == 0:
            self._module.update_full_grads(self._data)
            self._data.reset()
        self._epoch += 1
        return iter(self._data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)
