"""Every strategy of every equation of small functions, carried out on two workers: the parts together are what the primitive gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.jax.cases import CASES
from tests.jax.in_numpy import IN_NUMPY, plan
from tests.jax.test_descriptions import list_distinct
from tofu import core
from tofu.jax.frontend.equations import Literal, Step
from tofu.jax.frontend.read_step import make_graph
from tofu.jax.frontend.trace import trace_step
from tofu.search import find_strategies


def isolate(step, equation):
    """A step of one equation, and the values that are its inputs, in order."""
    used = list(dict.fromkeys(x for x in equation.inputs if not isinstance(x, Literal)))
    number = {x: n for n, x in enumerate((*used, *equation.outputs))}
    inputs = tuple(x if isinstance(x, Literal) else number[x] for x in equation.inputs)
    outputs = tuple(number[x] for x in equation.outputs)
    alone = replace(equation, inputs=inputs, outputs=outputs, scope="")
    types = tuple(step.types[x] for x in (*used, *equation.outputs))
    return Step(types, (alone,), tuple(range(len(used))), outputs, {}), used


def run_split(graph, axis, values):
    """The results of the only operator, split along `axis`."""
    (operator,) = graph.operators
    made = plan(core.Source(graph), 2, hints={operator.name: axis})
    assert made.plan.operators[operator.name] == (axis,)
    return made.training.run_whole(values)


@pytest.mark.parametrize("name", CASES)
def test_parts_together_are_the_whole(name):
    function, *arguments = CASES[name]
    step, _ = trace_step(function, arguments)
    known = step.compute_all(arguments)
    for equation in list_distinct(step):
        alone, used = isolate(step, equation)
        if not used:
            continue
        graph, _ = make_graph(alone, [f"x{n}" for n in range(len(used))])
        values = {f"x{n}": np.asarray(known[x], np.float64) for n, x in enumerate(used)}
        (access,) = find_strategies(graph, IN_NUMPY.front_end)
        wanted = [np.asarray(known[x], np.float64) for x in equation.outputs]
        for axis in access.axes:
            found = run_split(graph, axis, values)
            for ours, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=f"{equation} along {axis}")
