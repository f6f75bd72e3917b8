"""`PartitionedSymbol`: an MXNet symbol that runs on several devices.

MXNet's methods that run a symbol use all workers. If a method cannot, it raises an error.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from tofu.compare.agreement import Agreement
from tofu.errors import PlanError
from tofu.host.writing import write_atomically
from tofu.mxnet.frontend.data_arguments import find_data
from tofu.mxnet.frontend.inference import DTYPE_NAMES, check_names, infer_arguments
from tofu.mxnet.frontend.read_symbol import find_labels, read_training
from tofu.mxnet.frontend.sparse_gradients import list_sparse_gradients
from tofu.mxnet.planning import plan_task, read_task
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.bound_arrays import ArrayAllocator
from tofu.mxnet.runtime.executor.executor import Executor
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol.arguments import (
    arrays_by_name,
    find_array_contexts,
    read_bound_shapes,
    read_grad_requests,
    read_shapes,
    read_storages,
    warn_of_data_parallel_group,
)
from tofu.mxnet.runtime.symbol.derived import DerivedSymbols
from tofu.mxnet.runtime.symbol.devices import check_context
from tofu.mxnet.runtime.symbol.partition_text import add_partition, load_whole, read_partition
from tofu.mxnet.runtime.symbol.replanning import Replanner
from tofu.mxnet.runtime.symbol.verification import verify_symbol
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.progress import show_progress
from tofu.planning.settings import Settings
from tofu.report.console import print_to_text
from tofu.report.plan_page import render_page
from tofu.report.plan_table import DEFAULT_ROWS, alternatives_table, write_plan_table

Shapes = Mapping[str, tuple[int, ...]]


class PartitionedSymbol(DerivedSymbols):
    """A model that runs on several devices, as `tofu.partition` returns it."""

    @property
    def current_plan(self) -> Plan | None:
        """The plan: how each operator and tensor is split. None before planning."""
        return None if self._partition is None else self._partition.plan

    @property
    def plan(self) -> Plan:
        """The plan for the input shapes that were passed last, such as to `tofu.partition`.

        Raises PlanError if no shapes were passed.
        """
        return self.planned().plan

    @property
    def execution_symbol(self) -> Any:
        """The symbol (graph) that MXNet runs. It has the operators of all workers, and operators that transfer data."""
        return self.planned().training.symbol

    def plan_table(self, rows: int | None = DEFAULT_ROWS) -> str:
        """Return the plan as a table with a row for each layer, as `python -m tofu plan` prints it.

        `rows` is the maximum number of rows, or None for all layers.
        """
        return write_plan_table(self.planned(), rows)

    def save_report(self, path: str | Path, title: str = "") -> None:
        """Write an HTML page about the plan: splits, communication, and alternatives."""
        write_atomically(str(path), render_page(self.planned(), title or self.name or "model"))

    def why(self, operator: str) -> str:
        """Return a table of the ways to split an operator, with the communication of each."""
        return print_to_text(lambda console: console.print(alternatives_table(self.planned(), operator)))

    def planned(self) -> Partition:
        """Return the last plan with the graph to run. Raise PlanError before planning."""
        if self.settings.workers == 1:
            raise PlanError("With ngpus=1 the model stays as it is: there is no plan. Plans are for ngpus=2 and more.")
        if self._partition is None:
            raise PlanError(
                "There is no plan yet: pass the input shapes to tofu.partition(...), or bind the symbol first."
            )
        return self._partition

    def plan_for(self, shapes: Shapes) -> None:
        """Plan the model for these input shapes. All other arguments are trained."""
        if self.settings.workers == 1:
            return
        inputs, trained = read_training(self, shapes)
        self._partition = self.compile_for(inputs, {}, trained, trained)

    def compile_for(
        self,
        shapes: Shapes,
        dtypes: Mapping[str, Any],
        differentiated: Collection[str],
        updated: Collection[str],
        settings: Settings | None = None,
    ) -> Partition:
        """Plan the model for these input shapes and types. Return the plan with the graph to run.

        Arguments in `differentiated` get gradients. Arguments in `updated` are updated by an optimizer.
        """
        with show_progress("planning"):
            task = read_task(
                self.whole,
                shapes,
                settings or self.settings,
                dtypes=dtypes,
                differentiated=differentiated,
                updated=updated,
            )
            return plan_task(task)

    def bind_shards(self, partition: Partition, shared: Mapping[str, ShardedTensor] | None = None) -> ShardedExecutor:
        """Make `partition` the symbol's plan, and return an executor for it."""
        self._partition = partition
        return ShardedExecutor(partition, self.contexts, shared)

    def verify(
        self,
        *,
        values: Mapping[str, Any] | None = None,
        grad_req: Any = "write",
        dtype: str | None = None,
        seed: int = 0,
        **shapes: Sequence[int],
    ) -> Agreement:
        """Run the model on one device and on the workers, and compare all results (docs/verify-model.md).

        Parameters
        ----------
        values
            Arrays for inputs, parameters and auxiliary states (such as moving means), by name. All other arrays are
            random.
        grad_req
            The gradients to compute, as in `mx.sym.Symbol.simple_bind`.
        dtype
            "float64" or "float32". The default is float64, or float32 if MXNet has no float64 kernel.
        seed
            Seed of the random numbers.
        **shapes
            The shape of each input, by name. The default is the shapes of the plan.

        Returns
        -------
        Agreement
            The differences, which print as a table. `agrees` is True if all differences are within the tolerance.

        Examples
        --------
        >>> import mxnet as mx, tofu
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
        >>> tofu.partition(net, ngpus=2).verify(data=(4, 6)).agrees
        True
        """
        inputs = read_shapes(self, shapes, PartitionedSymbol.verify.__kwdefaults__ or ())
        if not inputs and self._partition is not None:
            inputs = dict(self.plan.inputs)
        with show_progress() as report:
            unplanned = PartitionedSymbol(self, self.settings, self.contexts)
            return verify_symbol(
                unplanned, inputs, values=values, grad_req=grad_req, dtype=dtype, seed=seed, report=report
            )

    # ---- MXNet's ways to run a symbol

    def simple_bind(
        self,
        ctx: Any,
        grad_req: Any = "write",
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        group2ctx: Any = None,
        shared_arg_names: Sequence[str] | None = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Allocate arrays and bind the model, like `mx.sym.Symbol.simple_bind`.

        `ctx` is the device for the whole arrays. The workers keep their own devices.
        """
        if self.settings.workers == 1:
            return super().simple_bind(
                ctx, grad_req, type_dict, stype_dict, group2ctx, shared_arg_names, shared_exec, shared_buffer, **kwargs
            )
        warn_of_data_parallel_group(sys._getframe(1))
        check_context(ctx)
        storages = read_storages(self, stype_dict)
        gradient_storages = dict.fromkeys(list_sparse_gradients(self), "row_sparse")
        contexts = find_array_contexts(self, group2ctx, ctx)
        shapes = read_bound_shapes(self, kwargs)
        check_names(self, shapes)
        inferred_shapes, codes = infer_arguments(self, shapes, type_dict or {})
        names, state_names = self.list_arguments(), self.list_auxiliary_states()
        requests = read_grad_requests(grad_req, names)
        types = {name: DTYPE_NAMES[codes[name]] for name in (*names, *state_names)}
        data = find_data(self, shapes, find_labels(self))
        trained = {n for n, request in requests.items() if request != "null" and n not in data}
        sparse = {*storages, *gradient_storages}
        sharded = {n for n in (*trained, *state_names) if contexts[n] == mx.cpu(0) and n not in sparse}
        shared_names = {*(shared_arg_names or ()), *state_names}  # MXNet shares all states
        allocator = ArrayAllocator(inferred_shapes, types, contexts, sharded, shared_names, shared_buffer)
        shared = shared_exec if isinstance(shared_exec, Executor) and shared_buffer is not None else None
        old_arguments, old_gradients, old_states = (
            (shared.arg_dict, shared.grad_dict, shared.aux_dict) if shared else ({}, {}, {})
        )
        arguments = {n: allocator.allocate(n, old_arguments, n, storages.get(n, "default")) for n in names}
        gradients = {
            n: allocator.allocate(n, old_gradients, f"grad of {n}", gradient_storages.get(n, "default"))
            for n, request in requests.items()
            if request != "null"
        }
        states = {n: allocator.allocate(n, old_states, n) for n in state_names}
        return self._bind_arrays(shapes, types, arguments, gradients, states, requests, shared, trained)

    def bind(
        self,
        ctx: Any,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Any:
        """Bind the model to whole arrays, like `mx.sym.Symbol.bind`."""
        if self.settings.workers == 1:
            return super().bind(ctx, args, args_grad, grad_req, aux_states, group2ctx, shared_exec)
        find_array_contexts(self, group2ctx, ctx)
        check_context(ctx)
        names = self.list_arguments()
        arguments = {
            name: array if isinstance(array, mx.nd.NDArray) else mx.nd.array(np.asarray(array), ctx=ctx)
            for name, array in arrays_by_name(args, names, "args").items()
        }
        gradients = {
            n: a for n, a in arrays_by_name(args_grad or {}, names, "args_grad", optional=True).items() if a is not None
        }
        states = arrays_by_name(aux_states or {}, self.list_auxiliary_states(), "aux_states")
        requests = {n: r if n in gradients else "null" for n, r in read_grad_requests(grad_req, names).items()}
        shapes = {name: tuple(array.shape) for name, array in arguments.items()}
        shared = shared_exec if isinstance(shared_exec, Executor) else None
        types = {name: array.dtype for name, array in {**arguments, **states}.items()}
        return self._bind_arrays(shapes, types, arguments, gradients, states, requests, shared, gradients)

    def _bind_arrays(
        self,
        shapes: Shapes,
        dtypes: Mapping[str, Any],
        arguments: Mapping[str, Any],
        gradients: Mapping[str, Any],
        states: Mapping[str, Any],
        requests: Mapping[str, str],
        shared: Executor | None,
        trained: Collection[str],
    ) -> Executor:
        labels = find_labels(self)  # labels get no gradient, since MXNet never writes it
        differentiated = [name for name, request in requests.items() if request != "null" and name not in labels]
        updated = [name for name in differentiated if name in trained]
        replanner = Replanner(self.compile_for)

        def compile_for(shapes: Shapes) -> Partition:
            return replanner.find(shapes, dtypes, differentiated, updated, self.settings)

        partition = self._partition = compile_for(shapes)
        return Executor(
            self, partition, self.contexts, shapes, arguments, gradients, states, requests, compile_for, shared
        )

    def eval(self, ctx: Any = None, **kwargs: Any) -> list[Any]:
        """Run the model once on the arrays in `kwargs`, and return the outputs, like `mx.sym.Symbol.eval`."""
        if self.settings.workers == 1:
            return list(super().eval(ctx, **kwargs))
        return list(self.bind(ctx or mx.cpu(), kwargs).forward())

    # ---- copies and files

    def __deepcopy__(self, memo: Any) -> PartitionedSymbol:
        copied = PartitionedSymbol(self, self.settings, self.contexts)
        copied._partition = self._partition
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return load_json, (self.tojson(),)

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the model as MXNet's JSON. An attribute contains the settings and the plan."""
        return add_partition(self.whole.tojson(remove_amp_cast), self.settings, self.contexts, self.current_plan)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write `tojson()` to a file. If this fails, an existing file stays unchanged."""
        write_atomically(fname, self.tojson(remove_amp_cast))

    def __repr__(self) -> str:
        return f"<PartitionedSymbol {self.name or 'group'} over {self.settings.workers} workers>"


def load_json(text: str) -> Any:
    """Read a model (symbol), partitioned or not, from JSON. Raise TofuError for damaged text."""
    saved = read_partition(text)
    return load_whole(text) if saved is None else PartitionedSymbol(*saved)
