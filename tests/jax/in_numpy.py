"""Plans of JAX steps run in NumPy: by their programs, each copy computed by the interpreter of descriptions."""

from __future__ import annotations

from tdl_ops.jax import DESCRIPTIONS
from tests.numpy_engine.backend import Execution, NumpyBackend
from tofu import core
from tofu.jax.engine import JaxFrontEnd
from tofu.tdl import interpret


class JaxExecution(Execution):
    """An execution whose copies are of JAX's primitives."""

    def _compute(self, node):
        operator = self.graph.operators[node.id]
        inputs = [self.values[entry.node][entry.output] for entry in node.inputs]
        attributes = {**operator.attributes, **self.attributes[node.id][node.worker]}
        return interpret(DESCRIPTIONS[operator.op], attributes, inputs, node.shapes)


class InNumpy(NumpyBackend):
    """Builds them."""

    def build(self, source, program):
        made = super().build(source, program)
        return JaxExecution(made.graph, made.program, made.attributes, made.boxes, made.result_boxes)


IN_NUMPY = core.Engine(JaxFrontEnd(), InNumpy(), core.Moves(shares_regions=True))


def plan(source, workers, engine=IN_NUMPY, **settings):
    """The partition of a step."""
    observe = core.Observer()
    task = core.analyse_step(source, engine, core.Settings(workers=workers, **settings), observe)
    return core.make_partition(task, observe)
