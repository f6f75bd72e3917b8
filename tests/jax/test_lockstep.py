"""A lockstep program computes the results of the program that it is made from, and of one device."""

from dataclasses import dataclass, replace
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tdl_ops.jax import DESCRIPTIONS
from tests.numpy_engine.backend import REDUCERS, Execution, NumpyBackend, join_shards, slice_box, slices
from tests.shared.random_plans import random_plan
from tofu.jax.backend.local_calls import find_repeated_elements
from tofu.jax.engine import make_engine
from tofu.jax.frontend.equations import Literal
from tofu.jax.frontend.read_step import read_step
from tofu.jax.planning import plan_step, read_settings
from tofu.program import worker_attributes
from tofu.program.lockstep import Lockstep
from tofu.program.parts import count_own_positions
from tofu.tdl import interpret


class Copies:
    """The copies of all operators. If two workers have an element, only one counts it."""

    def __init__(self, program):
        self.graph, choices = program.graph, program.choices
        table, index = worker_attributes(choices, program.phases)
        self.attributes = [[table[row] for row in rows] for rows in index]
        accesses = choices.problem.accesses
        self.repeated = [
            find_repeated_elements(operator.origin, accesses[n], count_own_positions(choices, n))
            for n, operator in enumerate(self.graph.operators)
        ]

    def compute(self, number, worker, inputs, shapes):
        operator, inputs = self.graph.operators[number], list(inputs)
        slots = [n for n, operand in enumerate(operator.origin.inputs) if not isinstance(operand, Literal)]
        for one in self.repeated[number]:
            slot = slots.index(one.operand)
            inputs[slot] = inputs[slot].copy()
            np.moveaxis(inputs[slot], one.dimension, 0)[one.counts[worker] :] = one.neutral
        attributes = {**operator.attributes, **self.attributes[number][worker]}
        return interpret(DESCRIPTIONS[operator.op], attributes, inputs, shapes)


class WrittenRun(Execution):
    def _compute(self, node):
        inputs = [self.values[entry.node][entry.output] for entry in node.inputs]
        return self.copies.compute(node.id, node.worker, inputs, node.shapes)


@dataclass
class LockstepRun:
    """Run of a lockstep program on NumPy arrays, one for each worker. An array has the extents of its box."""

    program: Lockstep
    copies: Copies
    arguments: dict[str, np.ndarray]

    def __post_init__(self):
        self.known = {}
        self.maker = {value: one for one in self.program.computes.values() for value in one.outputs}

    def find(self, number):
        if number not in self.known:
            if number in self.program.transfers:
                self.known[number] = self.transfer(self.program.transfers[number])
            elif number in self.maker:
                self.compute(self.maker[number])
            else:
                value = self.program.values[number]
                whole = self.arguments[self.program.graph.tensors[value.tensor].name]
                self.known[number] = [whole[slices(box)] for box in value.boxes]
        return self.known[number]

    def compute(self, made):
        inputs = [self.find(number) for number in made.inputs]
        for worker in range(self.program.count):
            shapes = [self.find_shape(number, worker) for number in made.outputs]
            found = self.copies.compute(made.operator, worker, [arrays[worker] for arrays in inputs], shapes)
            for number, array in zip(made.outputs, found, strict=True):
                self.known.setdefault(number, []).append(array)

    def transfer(self, transfer):
        inputs = [self.find(number) for number in transfer.inputs]
        workers = range(self.program.count)
        pattern = transfer.pattern
        result = [np.full(self.find_shape(transfer.output, worker), pattern.fill) for worker in workers]
        self.read(pattern.pieces, inputs, pattern, result)
        self.read(pattern.copies, [[array.copy() for array in result]], pattern, result)
        return result

    def read(self, pieces, inputs, pattern, result):
        for piece in pieces:
            together = REDUCERS[pattern.reducer]
            read = [self.find_read(inputs[one.input][one.owner], one, piece.extent) for one in piece.reads]
            result[piece.reader][slice_box(piece.begin, piece.extent)] = reduce(together, read)

    def find_read(self, array, one, extent):
        own = [1 if d < 0 else extent[d] for d in one.along]
        return array[slice_box(one.begin, own)].reshape(extent)

    def find_shape(self, number, worker):
        return tuple(end - begin for begin, end in self.program.values[number].boxes[worker])


def flat(x):
    return x.reshape(12, -1)


# Functions from an array of 12 rows to another. A number is drawn for each.
OPERATORS = (
    lambda x, n: lax.pad(x, -1.5, ((n, 2 - n, 0), (0, 0, 0)))[: x.shape[0]],
    lambda x, n: lax.pad(x, 0.5, ((0, 12 * n, 0), (0, n, 0)))[-12:],
    lambda x, n: jnp.concatenate([x[n:] * 2, x[: n + 1], x[:n]])[:12],
    lambda x, n: jnp.roll(x, n + 1, n % 2) - x,
    lambda x, n: x.at[n:-1].add(x[1 : x.shape[0] - n]),
    lambda x, n: flat(jnp.stack([x, x + n], 1 + n % 2)),
    lambda x, n: flat((x.T @ x).reshape(1, -1)[:, :1] * x),
    lambda x, n: x - x.sum(n % 2, keepdims=True) + x.max(),
    lambda x, n: flat(jnp.tanh(x).reshape(-1)[::-1]),
    lambda x, n: jnp.cumsum(x, n % 2) / 4,
    lambda x, n: flat(x.reshape(4, 3, -1).transpose(1, 0, 2)[:, :: -1 if n else 1]),
    lambda x, n: x[:, : max(1, x.shape[1] - n)],
)


def draw_step(draws):
    drawn = draws.integers(0, [len(OPERATORS), 3], size=(int(draws.integers(2, 7)), 2)).tolist()
    return lambda x: reduce(lambda x, one: OPERATORS[one[0]](x, one[1]), drawn, x)


@pytest.mark.parametrize("seed", [*range(10), 121, 238])  # in the last two, parts of a sum overlap
def test_random_steps(seed):
    draws = np.random.default_rng(seed)
    step, x = draw_step(draws), draws.standard_normal((12, int(draws.choice([1, 4, 6])))).astype("float32")
    source, settings = read_step(step, (x,)), read_settings(int(draws.choice([2, 3, 4, 6])), {"cache": False})
    engine = make_engine("free")
    searched = plan_step(source, settings, engine=engine)
    plans = [random_plan(searched, seed) for seed in range(2)]
    for made in (searched, *(plan_step(source, replace(settings, plan=plan), engine=engine) for plan in plans)):
        check(made, x, np.asarray(jax.jit(step)(x), "float64"))


@pytest.mark.parametrize("seed", [7, 49])
def test_a_shard_that_another_worker_reads_from_a_fetch_is_fetched_once(seed):
    step, x = lambda x: x[2:3] * 2, np.arange(28.0, dtype="float32").reshape(4, 7)
    source, settings, engine = read_step(step, (x,)), read_settings(4, {"cache": False}), make_engine("needed")
    plan = random_plan(plan_step(source, settings, engine=engine), seed)
    made = plan_step(source, replace(settings, plan=plan), engine=engine)
    assert made.training.lockstep.moved_bytes == made.program.remote_bytes
    check(made, x, step(x))


def check(made, x, expected):
    native, graph, copies = made.source.native, made.program.graph, Copies(made.program)
    given = {native.step.inputs[0]: x, **native.step.constants}
    arguments = {graph.tensors[native.tensor_of[n]].name: np.asarray(value, "float64") for n, value in given.items()}
    execution = NumpyBackend().build(None, made.program, WrittenRun)
    execution.copies = copies
    written = execution.run(execution.cut(arguments))
    run = LockstepRun(made.training.lockstep, copies, arguments)
    found = [run.find(number) for number in run.program.results]
    for ours, theirs, boxes in zip(found, written, execution.result_boxes, strict=True):
        for own, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(join_shards(ours, boxes, expected.shape), expected, rtol=1e-4, atol=1e-4)
