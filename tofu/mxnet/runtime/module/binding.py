"""The part of `tofu.mod.Module` that plans a model for the shapes of its inputs and allocates shards.

Several modules may share parameters, as the buckets of `mx.mod.BucketingModule` do. If their plans split a parameter
differently, each module has its own shards. Before a module runs, the values are copied to its shards.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import prod
from typing import Any

import mxnet as mx
from mxnet.module.base_module import BaseModule, _parse_data_desc

from tofu.errors import (
    InfeasibleError,
    NotReadyError,
    PlanError,
    ShapeError,
    TofuError,
    UnsupportedError,
    explain_call,
    raise_together,
)
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.frontend.inference import check_shapes, infer_arguments, list_inputs
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.bound_arrays import view_beginning
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol.arguments import (
    check_descriptions,
    check_same_workers,
    check_symbol,
    check_workers_of_module,
    find_array_contexts,
    read_module_requests,
    read_names,
)
from tofu.mxnet.runtime.symbol.make import make_symbol
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.symbol.replanning import Replanner
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.validation import show


class SharedParameters:
    """Parameters that several modules share. The executor `owner` has the current values."""

    def __init__(self, owner: ShardedExecutor) -> None:
        self.owner = owner

    def copy_to(self, executor: ShardedExecutor, names: Collection[str]) -> None:
        """Copy the parameters in `names` and the sums of their gradients to another executor."""
        old_owner, self.owner = self.owner, executor
        if old_owner is not executor:
            copy_values(old_owner.variables, {name: executor.variables[name] for name in names})
            copy_values(old_owner.gradients.sums, executor.gradients.sums)


def copy_values(old_tensors: Mapping[str, ShardedTensor], new_tensors: Mapping[str, ShardedTensor]) -> None:
    """Copy values from `old_tensors` to `new_tensors` if name and shape agree."""
    for name, new_tensor in new_tensors.items():
        old_tensor = old_tensors.get(name, new_tensor)
        if old_tensor is not new_tensor and old_tensor.shape == new_tensor.shape:
            new_tensor.scatter(old_tensor.gather())


def _copy_beginnings(old_sums: Mapping[str, ShardedTensor], new_sums: Mapping[str, ShardedTensor]) -> None:
    # As in MXNet, the sum for a smaller batch continues with the first elements of the old sum.
    for name, new_sum in new_sums.items():
        if name in old_sums and prod(new_sum.shape) < prod(old_sums[name].shape):
            new_sum.scatter(view_beginning(old_sums[name].gather(), new_sum.shape))


class ShardedModule(BaseModule):  # type: ignore[misc]  # MXNet is untyped
    """Base class of `tofu.mod.Module` that binds a model to several devices."""

    @explain_call("tofu.mod.Module(symbol, ngpus=4); other options of plans go to tofu.partition(symbol, ...)")
    def __init__(
        self,
        symbol: Any,
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Sequence[Any] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
        ngpus: int | None = None,
    ) -> None:
        super().__init__(logger=logger)
        if compression_params:
            raise UnsupportedError(
                f"compression_params={show(compression_params)} is not supported: the workers sum gradients directly, without a store to "
                "compress them for. Leave it out."
            )
        self._context_count = len(context) if isinstance(context, Sequence) and context else 1
        self.binded = self.params_initialized = self.optimizer_initialized = False
        if not isinstance(symbol, PartitionedSymbol):
            check_symbol(symbol)
            check_workers_of_module(ngpus, context)
            symbol = make_symbol(symbol, ngpus, context)
        elif isinstance(context, mx.Context):
            context = None  # a script for mx.mod.Module names one device; the symbol has its workers' contexts
        check_same_workers(symbol, ngpus, context)
        if symbol.settings.workers == 1:
            raise UnsupportedError("tofu.mod.Module is for two workers or more. With ngpus=1 use mx.mod.Module.")
        self._symbol: PartitionedSymbol = symbol
        self._context_by_variable = find_array_contexts(symbol, _take_first_contexts(group2ctxs), mx.cpu())
        arguments = symbol.list_arguments()
        self._data_names = read_names("data_names", data_names)
        self._label_names = [n for n in read_names("label_names", label_names) if n in arguments]
        self._state_names = read_names("state_names", state_names)
        fixed = set(read_names("fixed_param_names", fixed_param_names))
        raise_together(
            TofuError,
            f"These names are not among the model's arguments (its inputs are {list_inputs(symbol)}):",
            [n for n in [*self._data_names, *self._state_names, *fixed] if n not in arguments],
        )
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in arguments if name not in inputs]
        # As in MXNet, a grad_req that names arguments applies to fixed ones as well.
        self._trained_names = [name for name in self._param_names if name not in fixed]
        self._executor: ShardedExecutor | None = None
        self._replanner = Replanner(symbol.compile_for)
        self._data_shapes: list[Any] = []
        self._label_shapes: list[Any] = []
        self._grad_requests: dict[str, str] = {}  # "write" or "add", by argument
        self._shared_parameters: SharedParameters | None = None
        self._monitors: list[Any] = []

    @property
    def plan(self) -> Any:
        """The plan: how each operator and tensor is split."""
        return self.executor.partition.plan

    @property
    def executor(self) -> ShardedExecutor:
        """The executor, with shards in its attribute `variables`. Raises TofuError before `bind`."""
        if self._executor is None:
            raise NotReadyError("The module is not bound: call bind(data_shapes=..., label_shapes=...) first.")
        if self._shared_parameters is not None:
            self._shared_parameters.copy_to(self._executor, self._kept_names)
        return self._executor

    @property
    def _kept_names(self) -> list[str]:
        return [*self._param_names, *self._symbol.list_auxiliary_states()]

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the model's label inputs."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._symbol.list_outputs())

    @property
    def data_shapes(self) -> list[Any]:
        """An `mx.io.DataDesc` for each data input."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[Any]:
        """An `mx.io.DataDesc` for each label input."""
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

    @explain_call("module.bind([('data', (64, 784))], [('softmax_label', (64,))])")
    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Plan the model for these shapes, and allocate its shards.

        Parameters keep their values. If `shared_module` (a bound module) is passed, both share parameters and optimizer.
        """
        if shared_module is not None and not (isinstance(shared_module, ShardedModule) and shared_module.binded):
            raise NotReadyError("shared_module= takes a tofu.mod.Module that is bound. Call its bind(...) first.")
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            self._after_bind()
            return
        requests = read_module_requests(
            grad_req, self._symbol.list_arguments(), self._trained_names, self._data_names if inputs_need_grad else ()
        )
        with self._restoring_on_error():
            self._read_shapes(data_shapes, label_shapes)
            self._grad_requests = requests if for_training else {}
            self._rebind(shared_module, resets_sums=shared_module is None)
        self.binded = True
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad and for_training
        self._after_bind()
        if shared_module is not None:
            self._share_with(shared_module)

    def _share_with(self, module: ShardedModule) -> None:
        if module._shared_parameters is None:
            module._shared_parameters = SharedParameters(module.executor)
        self._shared_parameters = module._shared_parameters
        self.params_initialized = module.params_initialized

    def _after_bind(self) -> None:
        pass

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Prepare the model for other input shapes. The plan stays the same if it fits.

        Types, parameters, gradients and optimizer are kept.
        """
        old_executor = self.executor
        with self._restoring_on_error():
            types = {desc.name: desc.dtype for desc in [*self._data_shapes, *self._label_shapes]}
            self._read_shapes(data_shapes, label_shapes)
            self._data_shapes = [_with_type(desc, types) for desc in self._data_shapes]
            self._label_shapes = [_with_type(desc, types) for desc in self._label_shapes]
            self._rebind()
            self.executor.keep_gradients(old_executor)

    @contextmanager
    def _restoring_on_error(self) -> Iterator[None]:
        saved = self._data_shapes, self._label_shapes, self._grad_requests, self._replanner, self._executor
        try:
            yield
        except BaseException:
            self._data_shapes, self._label_shapes, self._grad_requests, self._replanner, self._executor = saved
            raise

    def _read_shapes(self, data_shapes: Any, label_shapes: Any) -> None:
        names = self._data_names, self._label_names
        check_descriptions("data_shapes", data_shapes)
        check_descriptions("label_shapes", label_shapes or ())
        try:
            self._data_shapes, labels = _parse_data_desc(*names, data_shapes, label_shapes or None)
        except ValueError as error:
            raise ShapeError(
                f"{error}. Name them as the model does, or give data_names= and label_names= to the module."
            ) from error
        self._label_shapes = labels or []

    def _rebind(self, shared_module: ShardedModule | None = None, resets_sums: bool = False) -> None:
        descriptions = [*self._data_shapes, *self._label_shapes]
        shapes = {desc.name: tuple(desc.shape) for desc in descriptions}
        check_shapes(shapes)
        dtypes = {desc.name: desc.dtype for desc in descriptions}
        unknown = [name for name in [*self._label_names, *self._state_names] if name not in shapes]
        if unknown:  # users never pass the shapes of states, and in inference they pass none of labels
            inferred, _ = infer_arguments(self._symbol, shapes, {})
            shapes.update({name: inferred[name] for name in unknown})
        old_executor = shared_module.executor if shared_module is not None else self._executor and self.executor
        old_variables = old_executor.variables if old_executor else {}
        kept = {name: variable for name, variable in old_variables.items() if name in self._kept_names}
        states = {name: variable for name, variable in old_variables.items() if name in self._state_names}
        executor = self._bind_shapes(shapes, dtypes, {**states, **kept}, shared_module)
        changes = [
            f"{name}: {old_variable.shape} becomes {executor.variables[name].shape}"
            for name, old_variable in kept.items()
            if name in executor.variables and old_variable.shape != executor.variables[name].shape
        ]
        raise_together(ShapeError, f"For the inputs {shapes} these parameters would have another shape:", changes)
        copy_values({**states, **kept}, executor.variables)
        old_sums = old_executor.gradients.sums if old_executor and not resets_sums else {}
        added = [name for name, request in self._grad_requests.items() if request == "add"]
        executor.gradients.add_up(added, old_sums)
        copy_values(old_sums, executor.gradients.sums)
        _copy_beginnings(old_sums, executor.gradients.sums)
        with uninterrupted():
            self._executor = executor
            if self._shared_parameters is not None:
                self._shared_parameters.owner = executor
            for monitor in self._monitors:
                monitor.attach()

    def _bind_shapes(
        self,
        shapes: dict[str, tuple[int, ...]],
        dtypes: Mapping[str, Any],
        shared_variables: Mapping[str, ShardedTensor],
        shared_module: ShardedModule | None,
    ) -> ShardedExecutor:
        trained = [name for name in self._grad_requests if name in self._param_names]
        differentiated = [*trained, *(name for name in self._grad_requests if name not in trained)]
        symbol, settings = self._symbol, self._symbol.settings

        def bind(settings: Settings, present_plan: Plan | None = None) -> ShardedExecutor:
            partition = self._replanner.find(shapes, dtypes, differentiated, trained, settings, present_plan)
            return symbol.bind_shards(partition, shared_variables)

        if shared_module is None and self._executor is not None:
            return bind(settings, self._executor.partition.plan)
        self._replanner = Replanner(symbol.compile_for)
        if shared_module is not None:
            with suppress(PlanError, InfeasibleError):  # if the splits differ, values are copied between the modules
                return bind(_pin_parameters(settings, shared_module, shapes))
        return bind(settings)


def _pin_parameters(settings: Settings, module: ShardedModule, shapes: Mapping[str, Any]) -> Settings:
    names = [name for name in module._kept_names if name not in shapes]
    layouts = {name: module.plan.tensors[name] for name in names if name in module.plan.tensors}
    return replace(settings, hints={**layouts, **(settings.hints or {})})


def _with_type(desc: Any, types: dict[str, Any]) -> Any:
    return mx.io.DataDesc(desc.name, desc.shape, types.get(desc.name, desc.dtype), desc.layout)


def _take_first_contexts(group2ctxs: Any) -> dict[str, Any]:
    groups = group2ctxs[0] if isinstance(group2ctxs, (list, tuple)) else group2ctxs or {}
    return {name: contexts[0] if isinstance(contexts, (list, tuple)) else contexts for name, contexts in groups.items()}
