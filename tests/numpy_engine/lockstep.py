"""Programs that all workers execute together, in NumPy: transfers are the collectives that were recognized in them."""

from __future__ import annotations

from functools import reduce

import numpy as np

from tests.numpy_engine.backend import REDUCERS, Execution, NumpyBackend, cells_of
from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.operators import DESCRIPTIONS
from tofu.engine import Engine
from tofu.program.check_collectives import check_collectives
from tofu.program.collectives import AllGather, AllReduce, AllToAll, Exchange, ReduceScatter, recognize
from tofu.program.lockstep import align
from tofu.program.parts import list_shards
from tofu.search.native import Moves
from tofu.tdl import interpret


class LockstepExecution(Execution):
    """An execution whose values are lists of arrays, one for each worker."""

    def run(self, shards):
        program = align(self.program, self.factors, self.find_shards)
        assert program.moved_bytes <= self.program.remote_bytes
        self.lockstep, self.kinds = program, set()
        arrays = {
            value: shards[self.graph.tensors[tensor].name]
            for tensor, value in program.shards.items()
            if self.graph.tensors[tensor].name in shards
        }

        def get(value):
            if value not in arrays:
                transfer = program.transfers[value]
                collectives = recognize(program, transfer)
                check_collectives(program, transfer, collectives)
                self.kinds.update(map(type, collectives))
                inputs = [get(one) for one in transfer.inputs]
                arrays[value] = run_collectives(collectives, inputs, program.factors)
            return arrays[value]

        for number, operator in enumerate(self.graph.operators):
            compute = program.computes.get(number)
            if compute is None:
                continue
            inputs = [get(value) for value in compute.inputs]
            shapes = [program.values[value].shape for value in compute.outputs]
            made = [
                interpret(DESCRIPTIONS[operator.op], {**operator.attributes, **changed}, list(own), shapes)
                for changed, own in zip(self.attributes[number], zip(*inputs, strict=True), strict=True)
            ]
            arrays.update(zip(compute.outputs, map(list, zip(*made, strict=True)), strict=True))
        return [get(value) for value in program.results]


class LockstepBackend(NumpyBackend):
    """Builds such executions."""

    def build(self, source, program):
        made = super().build(source, program)
        execution = LockstepExecution(made.graph, made.program, made.attributes, made.boxes, made.result_boxes)
        execution.factors = program.problem.factors
        execution.find_shards = lambda tensor: list_shards(program.choices, tensor)
        return execution


def run_collectives(collectives, inputs, factors):
    """What collectives make of the workers' arrays of each input."""
    arrays = inputs[0] if inputs else None
    for one in collectives:
        arrays = exchange(one, inputs, arrays) if isinstance(one, Exchange) else follow(one, arrays, factors)
    return arrays


def follow(one, arrays, factors):
    mesh = np.empty(factors, object)
    mesh.reshape(-1)[:] = [*map(Boxed, arrays)]
    axes = one.axes if isinstance(one, AllReduce) else (one.axis,)
    out = np.empty(factors, object)
    for place in np.ndindex(*factors):
        along = tuple(slice(None) if axis in axes else digit for axis, digit in enumerate(place))
        group = [boxed.array for boxed in mesh[along].reshape(-1)]
        digit = place[axes[0]]
        out[place] = Boxed(join(one, group, digit, factors[axes[0]]))
    return [boxed.array for boxed in out.reshape(-1)]


class Boxed:
    """An array as an element of an array of objects."""

    def __init__(self, array):
        self.array = array


def join(one, group, digit, factor):
    """What the worker at `digit` of a group gets."""
    if isinstance(one, AllGather):
        return np.concatenate(group, one.dimension)
    if isinstance(one, AllReduce):
        return reduce(REDUCERS[one.reducer], group)
    if isinstance(one, ReduceScatter):
        return np.split(reduce(REDUCERS[one.reducer], group), factor, one.dimension)[digit]
    if isinstance(one, AllToAll):
        return np.concatenate([np.split(array, factor, one.split)[digit] for array in group], one.gathered)
    return np.split(group[digit], factor, one.dimension)[digit]


def exchange(one, inputs, before):
    neutral = {None: one.fill, "Sum": 0.0, "Max": -np.inf, "Min": np.inf, "Prod": 1.0}[one.reducer]
    count = len(inputs[0])
    out = before if one.continues else [np.full(one.shape, neutral) for _ in range(count)]
    held = [array.copy() for array in before] if one.continues else None
    for each in one.rounds:
        for reader, (owner, source, target) in each.moves.items():
            array = (held if one.continues else inputs[each.input])[owner]
            piece = array[cells_of(source, each.source_extent)].reshape(each.extent)
            cells = cells_of(target, each.extent)
            out[reader][cells] = piece if one.reducer is None else REDUCERS[one.reducer](out[reader][cells], piece)
    return out


LOCKSTEP = Engine(
    NumpyFrontEnd(),
    LockstepBackend(),
    Moves(splits_equally=True, shares_regions=True, stages_small_sums=True, repeats_operators=True),
)
