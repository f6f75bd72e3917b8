"""What a module over shards is, how it is bound, and how it runs; `tofu.mod.Module` adds parameters, files and an optimizer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.module.base_module import BaseModule, _parse_data_desc

from tofu.errors import PlanError, ShapeError, TofuError, UnsupportedError, raise_together
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.frontend.head_gradients import list_head_gradients
from tofu.mxnet.frontend.read_symbol import infer_arguments, list_inputs
from tofu.mxnet.runtime.arguments import check_names_given, check_same_workers
from tofu.mxnet.runtime.executor import describe_reason
from tofu.mxnet.runtime.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol import partition
from tofu.reading import show


class ShardedModule(BaseModule):  # type: ignore[misc]  # MXNet is untyped
    """A model bound to several devices; see `Module`."""

    def __init__(
        self,
        symbol: Any,
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Sequence[Any] | None = None,
        ngpus: int | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger=logger)
        refused = {"state_names": state_names, "group2ctxs": group2ctxs, "compression_params": compression_params}
        raise_together(
            UnsupportedError,
            "These are not supported by tofu.mod.Module. Leave them out; for state_names use mx.mod.Module over a partitioned symbol:",
            [f"{name}={show(value)}" for name, value in refused.items() if value],
        )
        self.binded = self.params_initialized = self.optimizer_initialized = False
        if not isinstance(symbol, PartitionedSymbol):
            symbol = partition(symbol, ngpus, contexts=context)
        elif isinstance(context, mx.Context):
            context = None  # a script for mx.mod.Module names one device; the symbol knows its workers
        check_same_workers(symbol, ngpus, context)
        if symbol.settings.workers == 1:
            raise UnsupportedError("tofu.mod.Module is for two workers or more. With ngpus=1 use mx.mod.Module.")
        self._symbol: PartitionedSymbol = symbol
        arguments = symbol.list_arguments()
        self._data_names = check_names_given("data_names", data_names)
        self._label_names = [n for n in check_names_given("label_names", label_names) if n in arguments]
        fixed = set(check_names_given("fixed_param_names", fixed_param_names))
        raise_together(
            TofuError,
            f"These names are not among the model's arguments (its inputs are {list_inputs(symbol)}):",
            [n for n in [*self._data_names, *fixed] if n not in arguments],
        )
        inputs = {*self._data_names, *self._label_names}
        self._param_names = [name for name in arguments if name not in inputs]
        self._trained_names = [name for name in self._param_names if name not in fixed]
        self._executor: ShardedExecutor | None = None
        self._data_shapes: list[Any] = []
        self._label_shapes: list[Any] = []
        self._input_gradients: list[str] = []
        self._monitors: list[Any] = []

    # ---- what the module is

    @property
    def plan(self) -> Any:
        """The plan that the module runs."""
        return self.executor.partition.plan

    @property
    def executor(self) -> ShardedExecutor:
        """The bound executor, whose `variables` are the shards. Raises TofuError before `bind`."""
        if self._executor is None:
            raise TofuError("The module is not bound: call bind(data_shapes=..., label_shapes=...) first.")
        return self._executor

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the label inputs that the model has."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._symbol.list_outputs())

    @property
    def data_shapes(self) -> list[Any]:
        """`mx.io.DataDesc` of each data input."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[Any]:
        """`mx.io.DataDesc` of each label input."""
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and whole shape of each output."""
        graph = self.executor.partition.graph
        return [
            (name, graph.tensors[position].shape)
            for name, position in zip(self.output_names, graph.outputs, strict=True)
        ]

    # ---- binding

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: str = "write",
    ) -> None:
        """Plan for these shapes and allocate the shards. Binding again keeps the parameters."""
        if shared_module is not None:
            raise UnsupportedError(
                "shared_module is not supported by tofu.mod.Module; use mx.mod.BucketingModule over a partitioned symbol."
            )
        if grad_req not in ("write", "null"):
            raise UnsupportedError(
                f"grad_req={grad_req!r} is not supported by tofu.mod.Module; use mx.mod.Module over a partitioned symbol."
            )
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            self._after_bind()
            return
        trained = self._trained_names if for_training and grad_req != "null" else []
        with self._keeping_what_was_bound():
            self._read_shapes(data_shapes, label_shapes)
            self._input_gradients = self._data_names if inputs_need_grad and for_training else []
            self._rebind(trained)
        self.binded = True
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._after_bind()

    def _after_bind(self) -> None:
        """Once the shards are there."""

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind for inputs of other shapes, with the same types, parameters, gradients and optimizer; the same plan where it is feasible.

        Raises TofuError before `bind`, and ShapeError where parameters would have another shape.
        """
        before = self.executor
        with self._keeping_what_was_bound():
            types = {desc.name: desc.dtype for desc in [*self._data_shapes, *self._label_shapes]}
            self._read_shapes(data_shapes, label_shapes)
            self._data_shapes = [_with_type(desc, types) for desc in self._data_shapes]
            self._label_shapes = [_with_type(desc, types) for desc in self._label_shapes]
            self._rebind(_updated_names(before))
            self.executor.keep_gradients(before)

    @contextmanager
    def _keeping_what_was_bound(self) -> Iterator[None]:
        """After an error or an interrupt inside, the module is bound as it was before."""
        before = self._data_shapes, self._label_shapes, self._input_gradients, self._executor
        try:
            yield
        except BaseException:
            self._data_shapes, self._label_shapes, self._input_gradients, self._executor = before
            raise

    def _read_shapes(self, data_shapes: Any, label_shapes: Any) -> None:
        names = self._data_names, self._label_names
        self._data_shapes, labels = _parse_data_desc(*names, data_shapes, label_shapes or None)
        self._label_shapes = labels or []

    def _rebind(self, trained: Sequence[str]) -> None:
        """Bind for the current shapes: the same plan where it is feasible, the same parameters in any case."""
        described = [*self._data_shapes, *self._label_shapes]
        shapes = {desc.name: tuple(desc.shape) for desc in described}
        dtypes = {desc.name: desc.dtype for desc in described}
        if any(name not in shapes for name in self._label_names):  # for inference, users give none
            inferred, _ = infer_arguments(self._symbol, shapes, {})
            shapes.update({name: inferred[name] for name in self._label_names if name not in shapes})
        before = self._executor
        kept = {*self._param_names, *self._symbol.list_auxiliary_states()}
        parameters = {n: v for n, v in before.variables.items() if n in kept} if before else {}
        executor = self._bind_shapes(shapes, dtypes, trained, parameters)
        moved = [(shards, executor.variables[name]) for name, shards in parameters.items()]
        changed = [f"{old.name}: {old.shape} becomes {new.shape}" for old, new in moved if old.shape != new.shape]
        raise_together(ShapeError, f"For the inputs {shapes} these parameters would have another shape:", changed)
        for old, new in moved:
            if old is not new:
                new.scatter(old.gather())
        with uninterrupted():
            self._executor = executor
            for monitor in self._monitors:
                monitor.exes.remove(before)
                monitor.install(self._executor)

    def _bind_shapes(
        self, shapes: dict[str, tuple[int, ...]], dtypes: Any, trained: Sequence[str], parameters: Any
    ) -> ShardedExecutor:
        arguments = (shapes, dtypes, trained, self._input_gradients, parameters)
        if self._executor is None:
            return self._symbol.bind_shards(*arguments)
        plan = self._executor.partition.plan
        try:
            return self._symbol.bind_shards(*arguments, replace(self._symbol.settings, plan=plan, strict_plan=False))
        except PlanError as error:
            self.logger.warning(
                "The plan does not fit the shapes %s, so the search runs again. %s", shapes, describe_reason(error)
            )
            return self._symbol.bind_shards(*arguments)

    def _fit_to(self, data_batch: Any) -> None:
        """Bind for the shapes of a batch where they differ from those bound: a smaller last batch, say."""
        labels = data_batch.label or []
        shapes = [tuple(array.shape) for array in [*data_batch.data, *labels]]
        bound = [tuple(desc.shape) for desc in [*self._data_shapes, *self._label_shapes]][: len(shapes)]
        if shapes == bound:
            return
        self._check_inputs(data_batch)
        with self._keeping_what_was_bound():
            given = [tuple(label.shape) for label in labels] or self._label_shapes_for(data_batch.data)
            pairs = zip(self._data_shapes, data_batch.data, strict=True)
            self._data_shapes = [_with_shape(d, a.shape) for d, a in pairs]
            self._label_shapes = [_with_shape(d, shape) for d, shape in zip(self._label_shapes, given, strict=False)]
            before = self.executor
            self._rebind(_updated_names(before))
            self.executor.forget_gradients(before)

    def _label_shapes_for(self, data: Sequence[Any]) -> list[tuple[int, ...]]:
        """The shapes of the labels for a batch without any: inferred; where the data do not tell them, those bound at the batch's size."""
        shapes = {desc.name: tuple(array.shape) for desc, array in zip(self._data_shapes, data, strict=True)}
        try:
            inferred, _ = infer_arguments(self._symbol, shapes, {})
        except ShapeError:
            bound, given = self._data_shapes[0].shape[0], data[0].shape[0]
            return [(desc.shape[0] * given // bound, *desc.shape[1:]) for desc in self._label_shapes]
        return [inferred[desc.name] for desc in self._label_shapes]

    def _check_inputs(self, data_batch: Any) -> None:
        problems = []
        for desc, array in zip(self._data_shapes, data_batch.data, strict=False):
            if len(desc.shape) != len(array.shape) or tuple(desc.shape[1:]) != tuple(array.shape[1:]):
                problems.append(f"{desc.name}: bound with {tuple(desc.shape)}, the batch has {tuple(array.shape)}")
        if len(data_batch.data) != len(self._data_shapes):
            problems.append(
                f"{len(data_batch.data)} arrays for the {len(self._data_shapes)} inputs {', '.join(self._data_names)}"
            )
        raise_together(
            ShapeError, "The batch does not fit the model (only the batch size may change between batches):", problems
        )

    # ---- running

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Scatter a batch and run the forward operators. Raises TofuError before there are parameters."""
        self._check_ready()
        self._fit_to(data_batch)
        variables = self.executor.variables
        for name, array in zip(self._data_names, data_batch.data, strict=True):
            variables[name].scatter(array)
        for name, array in zip(self._label_names, data_batch.label or (), strict=False):
            variables[name].scatter(array)
        self.executor.forward(self.for_training if is_train is None else is_train)

    def score(self, *args: Any, **kwargs: Any) -> Any:
        """As MXNet's `score`. Raises TofuError before there are parameters."""
        self._check_ready()
        return super().score(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """As MXNet's `predict`. Raises TofuError before there are parameters."""
        self._check_ready()
        return super().predict(*args, **kwargs)

    def iter_predict(self, *args: Any, **kwargs: Any) -> Any:
        """As MXNet's `iter_predict`. Raises TofuError before there are parameters."""
        self._check_ready()
        return super().iter_predict(*args, **kwargs)

    def _check_ready(self) -> ShardedExecutor:
        executor = self.executor
        if not self.params_initialized:
            raise TofuError(
                "The module has no parameters yet: call init_params(...) or set_params(...) first, again if it was cut short."
            )
        return executor

    def backward(self, out_grads: Any = None) -> None:
        """Run the backward operators; `out_grads`, an array or a list of them, are needed for outputs that are no loss."""
        heads = list_head_gradients(self.executor.partition.graph)
        is_one = isinstance(out_grads, (mx.nd.NDArray, np.ndarray))
        given = [out_grads] if is_one else list(out_grads or ())
        missing = [self.output_names[output] for output in heads if output >= len(given)]
        raise_together(
            TofuError, "backward() needs out_grads, a gradient for each output that is no loss. Missing for:", missing
        )
        for output, name in heads.items():
            self.executor.variables[name].scatter(given[output])
        self.executor.backward()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Whole outputs of the last forward. With merge_multi_context=False each is in a list of its own, as MXNet has it of one device."""
        whole = [self.executor.output(index).gather() for index in range(len(self.output_names))]
        return whole if merge_multi_context else [[array] for array in whole]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Whole gradients of the data inputs; needs bind(inputs_need_grad=True). Nested as `get_outputs` is."""
        if not self._input_gradients:
            raise TofuError("The inputs have no gradients: bind with inputs_need_grad=True.")
        whole = [self.executor.gradient(name).gather() for name in self._input_gradients]
        return whole if merge_multi_context else [[array] for array in whole]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Feed a metric with whole labels and outputs."""
        eval_metric.update_dict(
            dict(zip(self._label_names, labels, strict=False)),
            dict(zip(self.output_names, self.get_outputs(), strict=True)),
        )

    def install_monitor(self, mon: Any) -> None:
        """Let an `mx.mon.Monitor` see the outputs of the workers' nodes, and the shards."""
        mon.install(self.executor)
        self._monitors.append(mon)


def _updated_names(executor: ShardedExecutor) -> list[str]:
    graph = executor.partition.graph
    return [graph.tensors[position].name for position in graph.updated]


def _with_shape(desc: Any, shape: Sequence[int]) -> Any:
    return mx.io.DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout)


def _with_type(desc: Any, types: dict[str, Any]) -> Any:
    return mx.io.DataDesc(desc.name, desc.shape, types.get(desc.name, desc.dtype), desc.layout)
