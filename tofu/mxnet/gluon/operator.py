"""What a partitioned block calls in place of MXNet's CachedOp: the block's graph, bound to several devices for each shape of its inputs.

Several recorded calls may wait for their backward at once, as in a step over pairs of images: each has an executor of its own, and all
executors share the parameters' shards. MXNet's autograd tells how many of them one backward ran through, whose gradients then add up.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import mxnet as mx
from mxnet import autograd

from tofu.errors import UnsupportedError
from tofu.mxnet.frontend.inference import ShapeInferenceError
from tofu.mxnet.gluon.call import Call, needs_gradient
from tofu.mxnet.gluon.parameter import Sharded
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, add
from tofu.mxnet.runtime.arrays.shards import ShardedTensor, as_legacy
from tofu.mxnet.runtime.executor.monitoring import watch_operators
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.symbol.replanning import Replanner
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.settings import Settings

# Executors that are kept for shapes other than the last ones.
MOST_EXECUTORS = 4


class Bound:
    """An executor, and the call that uses it."""

    def __init__(self, key: Any, executor: ShardedExecutor) -> None:
        self.key = key
        self.executor = executor
        self.call: Any = None  # a weak reference to the last one
        # Those of parameters that lie in its memory: what holds them, which may be no parameter's any more, and the shards.
        self.gradients: dict[str, tuple[weakref.ref[ParameterArray], ShardedTensor]] = {}

    @property
    def is_free(self) -> bool:
        """Whether nothing waits for a backward of it."""
        call = None if self.call is None else self.call()
        return call is None or call.is_done


class PartitionedOperator:
    """A block's graph over several devices; called with the arrays that a CachedOp is called with.

    Parameters
    ----------
    symbol
        The partitioned symbol of the block.
    parameters
        Name -> parameter, of all arguments and states that are no inputs.
    """

    def __init__(self, symbol: PartitionedSymbol, parameters: Mapping[str, Sharded]) -> None:
        self.symbol = symbol
        self.parameters = dict(parameters)
        self.names = list(symbol.list_inputs())
        self._arguments = frozenset(symbol.list_arguments())
        self._states = frozenset(symbol.list_auxiliary_states())
        self._plans = Replanner()
        self._trained_so: Any = None  # what had gradients when training was bound last
        self._bound: list[Bound] = []  # the last used is the last
        self._hook: tuple[Any, bool] | None = None
        self.finished: list[Call] = []  # whose backward was issued since gradients were put where they belong
        self.anchor = _make_anchor(mx.cpu(0))
        self.lock = threading.RLock()  # threads run one after another
        for parameter in self.parameters.values():
            parameter.follow(self)

    @property
    def training_plan(self) -> Plan | None:
        """The plan of training, that of the shapes which came first; None before there is one."""
        return self._plans.first_plan(self._trained_so)

    def is_of(self, symbol: Any, parameters: Mapping[str, Any]) -> bool:
        """Whether this runs that symbol with these parameters."""
        is_same = self.parameters.keys() == parameters.keys() and all(
            parameters[name] is parameter for name, parameter in self.parameters.items()
        )
        return is_same and bool(self.symbol.whole.tojson() == symbol.tojson())

    def __call__(self, *arrays: Any) -> Any:
        """Run the forward operators; recorded, if autograd records. Returns one output, or a list of them."""
        # MXNet's own threads run what its engine waits for: the backward of an autograd.Function, say, which gradients here may need.
        is_of_engine = isinstance(threading.current_thread(), threading._DummyThread)
        if (is_of_engine and self.finished) or not self.lock.acquire(blocking=not is_of_engine):
            raise UnsupportedError(
                "A partitioned block is called inside of a Python operator (autograd.Function, Custom) while a backward is under way, "
                "and would wait for itself. Call it outside of the operator, and hand its output in."
            )
        try:
            return self._call(arrays)
        finally:
            self.lock.release()

    def _call(self, arrays: Sequence[Any]) -> Any:
        self.settle()
        given = dict(zip(self.names, arrays, strict=True))
        taken = {name: array for name, array in given.items() if name not in self.parameters}
        inputs = {name: as_legacy(array) for name, array in taken.items()}
        context = next(iter(inputs.values())).context
        if context != self.anchor.context:
            self.anchor = _make_anchor(context)
        is_recorded = autograd.is_recording() and self._is_differentiable(inputs)
        if is_recorded and not autograd.is_training():
            raise UnsupportedError(
                "A partitioned block is differentiated in training mode alone: use autograd.record(), not record(train_mode=False)."
            )
        outputs = self._record(inputs) if is_recorded else self._run(inputs)
        if any(isinstance(array, mx.np.ndarray) for array in taken.values()):
            outputs = [output.as_np_ndarray() for output in outputs]
        return outputs[0] if len(outputs) == 1 else outputs

    def _register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        """Show a hook whole tensors, each gathered for that; MXNet asks for it before each call of a block that has one."""
        if self._hook != (callback, monitor_all):
            self._hook = callback, monitor_all
            for bound in self._bound:
                watch_operators(bound.executor, callback, monitor_all)

    def _is_differentiable(self, inputs: Mapping[str, Any]) -> bool:
        return bool(self._trained()) or any(map(needs_gradient, inputs.values()))

    def _trained(self) -> tuple[str, ...]:
        return tuple(
            n for n, parameter in self.parameters.items() if n in self._arguments and parameter.grad_req != "null"
        )

    def count_before_parameters(self, differentiated: Collection[str]) -> int:
        """How many of these inputs the block reads before a parameter that is trained.

        The anchor, which stands for the parameters, has their place among what autograd knows of a call: which of several calls has its
        backward first follows from that, and so does the order in which moving averages take in what the calls have seen.
        """
        trained = set(self._trained())
        first = next((place for place, name in enumerate(self.names) if name in trained), 0)
        return sum(name in differentiated for name in self.names[:first])

    def _run(self, inputs: Mapping[str, Any]) -> list[Any]:
        is_train = autograd.is_training()
        bound = self._bind(inputs, self._trained() if is_train else None, ())
        with autograd.pause(train_mode=is_train):
            return self.forward(bound, inputs, is_train)

    def _record(self, inputs: Mapping[str, Any]) -> list[Any]:
        differentiated = tuple(name for name, array in inputs.items() if needs_gradient(array))
        bound = self._bind(inputs, self._trained(), differentiated)
        return Call(self, bound, differentiated).record(inputs)

    # ---- running

    def forward(self, bound: Bound, inputs: Mapping[str, Any], is_train: bool) -> list[Any]:
        """Scatter the inputs, run, and gather the outputs where the inputs are."""
        executor = bound.executor
        if is_train:
            self._save_gradients(bound)
        for name, array in inputs.items():
            executor.variables[name].scatter(array)
        executor.forward(is_train)
        context = next(iter(inputs.values())).context
        outputs = []
        for index in range(len(executor.partition.graph.outputs)):
            shards = executor.output(index)
            outputs.append(shards.gather(mx.nd.empty(shards.shape, ctx=context, dtype=shards.dtype)))
        if is_train:
            self._note_changes(executor)
        return outputs

    def flush(self, executor: ShardedExecutor) -> None:
        """Have an executor's shards hold what the parameters hold: a backward sees what was written since its forward. The parameters
        may lie elsewhere by now, where another call has them.
        """
        for name, array in self._arrays().items():
            current = array.tensor
            if executor.variables[name] is not current:
                executor.variables[name].scatter(current.gather())

    def take_changes(self, executor: ShardedExecutor) -> None:
        """Have parameters that lie elsewhere hold what this executor has changed in place, moving averages say."""
        for name in self._list_changed(executor):
            array = self.parameters[name].array
            if array is not None and executor.variables[name] is not array.layout:
                array.layout.scatter(executor.variables[name].gather())

    def _list_changed(self, executor: ShardedExecutor) -> set[str]:
        return {*self._states, *executor.changed_arguments}.intersection(self.parameters)

    def _note_changes(self, executor: ShardedExecutor) -> None:
        """States, and what else operators change in place, are not what they were."""
        for name in self._list_changed(executor):
            array = self.parameters[name].array
            assert array is not None
            array.note_change()

    @property
    def is_awaited(self) -> bool:
        """Whether a backward may come of a call that was recorded, or has come and was not settled."""
        return bool(self.finished) or not all(bound.is_free for bound in self._bound)

    def settle(self) -> None:
        """Put the gradients of the backward passes that were issued where users and Trainers read them."""
        if self.finished:
            with self.lock:
                self._settle()

    def _settle(self) -> None:
        finished, self.finished = self.finished, []
        # autograd.grad() of inputs leaves the parameters' gradients as they are.
        asked = [call for call in finished if call.is_of_parameters]
        together = asked[-int(self.anchor.grad.asscalar()) :]
        for name in self._trained():
            self._put_gradient(name, asked, together)
        for call in finished:
            call.bound.call = None
            self._note_changes(call.bound.executor)

    def _put_gradient(self, name: str, finished: Sequence[Call], together: Sequence[Call]) -> None:
        parameter = self.parameters[name]
        array, gradient = parameter.array, parameter.gradient
        assert array is not None
        assert gradient is not None
        adds = parameter.grad_req == "add"
        calls = [call for call in (finished if adds else together) if name in call.bound.executor.differentiated]
        if not calls:
            return
        parts = [call.bound.executor.gradient(name) for call in calls]
        if adds or len(parts) > 1:
            gradient.put(add([*parts, gradient.tensor] if adds else parts))
        else:
            gradient.put(parts[0])
            calls[0].bound.gradients[name] = weakref.ref(gradient), parts[0]
        array._fresh_grad = True

    def _save_gradients(self, bound: Bound) -> None:
        """The next forward uses the memory in which gradients lie: copy those that no update has used yet."""
        for name, (reference, tensor) in bound.gradients.items():
            gradient, parameter = reference(), self.parameters[name]
            if gradient is None or gradient.layout is not tensor:
                continue
            is_kept = gradient is not parameter.gradient  # by the user alone, since the parameter has a new one
            if is_kept or (parameter.array is not None and parameter.array._fresh_grad):
                gradient.put(add([tensor]))
            else:
                gradient.lapse()
        bound.gradients = {}

    # ---- binding

    def _bind(
        self, inputs: Mapping[str, Any], trained: tuple[str, ...] | None, differentiated: tuple[str, ...]
    ) -> Bound:
        """An executor that is free, for these inputs; `trained` is None for inference."""
        shapes = {name: tuple(array.shape) for name, array in inputs.items()}
        types = {name: array.dtype for name, array in {**inputs, **self._arrays()}.items()}
        key = (
            tuple(sorted(shapes.items())),
            tuple(sorted((n, t.__name__) for n, t in types.items())),
            trained,
            differentiated,
        )
        bound = next((b for b in self._bound if b.is_free and _serves(b.key, key)), None)
        if bound is None:
            bound = Bound(key, self._make_executor(shapes, types, trained, differentiated))
        self._bound = [*(b for b in self._bound if b is not bound), bound]
        self._share_parameters(bound)
        self._drop_some(bound)
        return bound

    def _arrays(self) -> dict[str, Any]:
        arrays = {name: parameter.array for name, parameter in self.parameters.items()}
        return {name: array for name, array in arrays.items() if array is not None and name in self.names}

    def _make_executor(
        self, shapes: Any, types: Any, trained: tuple[str, ...] | None, differentiated: tuple[str, ...]
    ) -> ShardedExecutor:
        shared = {name: array.tensor for name, array in self._arrays().items()}
        settings = self.symbol.settings
        if trained is None:  # of one image, say, there may be nothing to split between so many workers
            settings = replace(settings, for_training=False, on_infeasible="replicate")

        def compile_with(settings: Settings) -> Partition:
            wanted = [*(trained or ()), *differentiated]
            return self.symbol.compile_for(shapes, types, wanted, trained or (), settings)

        self._check_shapes(shapes)
        partition = self._plans.find(
            kind=None if trained is None else (trained, differentiated),
            shapes=shapes,
            types=tuple(types.items()),
            settings=settings,
            compile_with=compile_with,
            present=self.training_plan,  # which keeps the parameters where they are
        )
        executor = self.symbol.bind_shards(partition, shared)
        if trained is not None:
            self._trained_so = trained, differentiated
        if self._hook is not None:
            watch_operators(executor, *self._hook)
        return executor

    def _check_shapes(self, shapes: Mapping[str, Any]) -> None:
        """Raise a ShapeError for inputs that ask for other shapes of the parameters: the graph of a block that was initialized by its
        first call does not state them.
        """
        whole = self.symbol.whole
        try:
            arguments, _, states = whole.infer_shape_partial(**shapes)
        except mx.base.MXNetError:
            return  # binding explains it
        inferred = dict(
            zip((*whole.list_arguments(), *whole.list_auxiliary_states()), (*arguments, *states), strict=True)
        )
        for name, array in self._arrays().items():
            if inferred[name] and 0 not in inferred[name] and tuple(inferred[name]) != array.shape:
                given = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
                raise ShapeInferenceError(
                    f"The shapes given ({given}) do not fit the model: {name} has shape {array.shape}, and they ask for "
                    f"{tuple(inferred[name])}."
                )

    def _share_parameters(self, bound: Bound) -> None:
        """Have the parameters lie where this executor has them."""
        for name, array in self._arrays().items():
            array.move(bound.executor.variables[name])

    def _drop_some(self, last: Bound) -> None:
        """Give the memory back of executors that have the parameters elsewhere, and of those that were not used for long."""
        arrays = self._arrays()
        kept = [
            bound
            for bound in self._bound
            if not bound.is_free or all(bound.executor.variables[n] is array.layout for n, array in arrays.items())
        ]
        free = [bound for bound in kept if bound.is_free and bound is not last]
        old = free[: max(0, len(free) + 1 - MOST_EXECUTORS)]
        self._bound = [bound for bound in kept if bound not in old]


def _make_anchor(context: Any) -> Any:
    """The array for whose sake autograd calls backward: its gradient counts the calls that one backward ran through."""
    anchor = mx.nd.zeros((1,), ctx=context)
    anchor.attach_grad()
    return anchor


def _serves(own: Any, wanted: Any) -> bool:
    """Whether an executor for `own` runs what is wanted: one for training runs inference over the same inputs, too."""
    return bool(own[:2] == wanted[:2] and (own[2:] == wanted[2:] or wanted[2] is None))
