"""`tofu.mod.BucketingModule`: MXNet's BucketingModule on several devices, for sequences of different lengths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx

from tofu.errors import NotReadyError, TofuError
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.module.module import Module
from tofu.plan import Plan


class BucketingModule(mx.mod.BucketingModule):  # type: ignore[misc]  # MXNet is untyped
    """A model on several devices with the interface of `mx.mod.BucketingModule`.

    A *bucket* is a module for one length of sequences. All buckets share parameters and optimizer.

    Parameters
    ----------
    sym_gen
        Function from a bucket's key to (symbol, data names, label names).
    default_bucket_key
        Key of the bucket with the longest sequences. It is bound first.
    logger, fixed_param_names, state_names
        As in `tofu.mod.Module`.
    context
        The workers' devices. Not needed for a partitioned symbol.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> def make(length):
    ...     cell = mx.rnn.GRUCell(8, prefix="gru_")
    ...     outputs, _ = cell.unroll(length, mx.sym.Variable("data"), merge_outputs=False)
    ...     net = mx.sym.FullyConnected(outputs[-1], num_hidden=4, name="fc")
    ...     return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)
    >>> module = tofu.mod.BucketingModule(make, default_bucket_key=3, ngpus=2)
    >>> module.bind([("data", (4, 3, 6))], [("softmax_label", (4,))])
    >>> module.init_params()
    >>> module.switch_bucket(2, [("data", (4, 2, 6))], [("softmax_label", (4,))])
    >>> module.plan.workers
    2
    """

    def __init__(
        self,
        sym_gen: Callable[[Any], tuple[Any, Any, Any]],
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Sequence[Any] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
        ngpus: int | None = None,
    ) -> None:
        if default_bucket_key is None:
            raise TofuError("BucketingModule needs default_bucket_key=, the key of the longest bucket.")
        self._ngpus = ngpus
        self._loaded_parameters: tuple[Any, Any] | None = None  # a checkpoint's parameters, which `bind` reads
        super().__init__(
            sym_gen,
            default_bucket_key,
            logger,
            context,
            work_load_list,
            fixed_param_names,
            state_names,
            group2ctxs,
            compression_params,
        )

    def _make_module(self, key: Any) -> Module:
        symbol, data_names, label_names = self._call_sym_gen(key)
        return Module(
            symbol,
            data_names or (),
            label_names or (),
            logger=self.logger,
            context=self._context,
            fixed_param_names=self._fixed_param_names,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
            compression_params=self._compression_params,
            ngpus=self._ngpus,
        )

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._add_bucket(self._default_bucket_key)

    def _add_bucket(self, key: Any) -> bool:
        is_new = key not in self._buckets
        if is_new:
            self._buckets[key] = self._make_module(key)
        return is_new

    def bind(self, *args: Any, **kwargs: Any) -> None:
        """Plan and allocate the default bucket. Other buckets follow when their first batch arrives."""
        self._add_bucket(self._default_bucket_key)
        super().bind(*args, **kwargs)
        if self._loaded_parameters is not None:
            parameters, self._loaded_parameters = self._loaded_parameters, None
            self.set_params(*parameters)

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make another bucket the current one. Raise TofuError before `bind`."""
        self._require_bound()
        is_new = self._add_bucket(bucket_key)
        try:
            super().switch_bucket(bucket_key, data_shapes, label_shapes)
        except BaseException:
            if is_new:
                del self._buckets[bucket_key]
            raise
        if is_new and self._monitor is not None:
            self._buckets[bucket_key].install_monitor(self._monitor)

    @property
    def plan(self) -> Plan:
        """The current bucket's plan. Raises TofuError before `bind`."""
        self._require_bound()
        plan: Plan = self._curr_module.plan
        return plan

    def save_params(self, fname: str) -> None:
        """Write the shared parameters to a file. Raise TofuError before `bind`."""
        self._buckets[self._require_bound()].save_params(fname)

    def _require_bound(self) -> Any:
        if not self.binded:
            raise NotReadyError("The module is not bound: call bind(data_shapes=..., label_shapes=...) first.")
        return self._default_bucket_key

    @classmethod
    def load(
        cls, prefix: str, epoch: int, sym_gen: Any = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """Load a module with the parameters of a checkpoint. `sym_gen` returns the model for a bucket key."""
        file = ParameterFile(f"{prefix}-{epoch:04d}.params")
        return cls._make_with((file.select("arg"), file.select("aux")), sym_gen, default_bucket_key, kwargs)

    @classmethod
    def load_dict(
        cls,
        sym_dict: Any = None,
        sym_gen: Any = None,
        default_bucket_key: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Return a module with these parameters. `sym_gen` provides the symbols."""
        return cls._make_with((arg_params or {}, aux_params or {}), sym_gen, default_bucket_key, kwargs)

    @classmethod
    def _make_with(cls, parameters: Any, sym_gen: Any, key: Any, options: dict[str, Any]) -> BucketingModule:
        if sym_gen is None:
            raise TofuError("load needs sym_gen=, the function that makes the symbols.")
        module = cls(sym_gen, key, **options)
        module._loaded_parameters = parameters
        return module
