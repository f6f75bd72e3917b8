"""Programs that all workers execute together, in NumPy: transfers are the collectives recognized in them."""

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
    """Execution whose values are lists of arrays, one for each worker."""

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
                inputs = [get(collective) for collective in transfer.inputs]
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
    def build(self, source, problem, choices, program):
        made = super().build(source, problem, choices, program)
        execution = LockstepExecution(made.graph, made.program, made.attributes, made.boxes, made.result_boxes)
        execution.factors = problem.factors
        execution.find_shards = lambda tensor: list_shards(problem, choices, tensor)
        return execution


def run_collectives(collectives, inputs, factors):
    arrays = inputs[0] if inputs else None
    for collective in collectives:
        arrays = (
            exchange(collective, inputs, arrays)
            if isinstance(collective, Exchange)
            else follow(collective, arrays, factors)
        )
    return arrays


def follow(collective, arrays, factors):
    mesh = np.empty(factors, object)
    mesh.reshape(-1)[:] = [*map(Boxed, arrays)]
    axes = collective.axes if isinstance(collective, AllReduce) else (collective.axis,)
    out = np.empty(factors, object)
    for place in np.ndindex(*factors):
        along = tuple(slice(None) if axis in axes else digit for axis, digit in enumerate(place))
        group = [boxed.array for boxed in mesh[along].reshape(-1)]
        digit = place[axes[0]]
        out[place] = Boxed(join(collective, group, digit, factors[axes[0]]))
    return [boxed.array for boxed in out.reshape(-1)]


class Boxed:
    """Array as an element of an array of objects."""

    def __init__(self, array):
        self.array = array


def join(collective, group, digit, factor):
    if isinstance(collective, AllGather):
        return np.concatenate(group, collective.dimension)
    if isinstance(collective, AllReduce):
        return reduce(REDUCERS[collective.reducer], group)
    if isinstance(collective, ReduceScatter):
        return np.split(reduce(REDUCERS[collective.reducer], group), factor, collective.dimension)[digit]
    if isinstance(collective, AllToAll):
        return np.concatenate(
            [np.split(array, factor, collective.split)[digit] for array in group], collective.gathered
        )
    return np.split(group[digit], factor, collective.dimension)[digit]


def exchange(collective, inputs, before):
    neutral = {None: collective.fill, "Sum": 0.0, "Max": -np.inf, "Min": np.inf, "Prod": 1.0}[collective.reducer]
    count = len(inputs[0])
    out = before if collective.continues else [np.full(collective.shape, neutral) for _ in range(count)]
    held = [array.copy() for array in before] if collective.continues else None
    for round_ in collective.rounds:
        for reader, (owner, source, target) in round_.moves.items():
            array = (held if collective.continues else inputs[round_.input])[owner]
            piece = array[cells_of(source, round_.source_extent)].reshape(round_.extent)
            cells = cells_of(target, round_.extent)
            out[reader][cells] = (
                piece if collective.reducer is None else REDUCERS[collective.reducer](out[reader][cells], piece)
            )
    return out


LOCKSTEP = Engine(
    NumpyFrontEnd(),
    LockstepBackend(),
    Moves(splits_equally=True, shares_regions=True, stages_small_sums=True, repeats_operators=True),
)
