"""Models of all described operators, with variants of the signatures that verification uses."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Mapping
from functools import cache
from math import ceil, prod

import hypothesis
import mxnet as mx
import numpy as np
from hypothesis import Phase

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import Case
from tests.campaigns.fuzz.sample import DOUBLE, FIXED, LABEL, LARGEST, Growth, Shape, round_to
from tofu import _mxnet
from tofu.errors import TofuError
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.defects import find_defect
from tofu.mxnet.verify.kernels import KERNEL_ERRORS, compose
from tofu.mxnet.verify.nodes import execute_training_graph
from tofu.mxnet.verify.operators import analyse_node
from tofu.mxnet.verify.variants import variants
from tofu.verification.numbers import Fixed

EXACT = {DOUBLE, "int32", "int64", "bool"}
DRAWS = 6
IN_SINGLE_PRECISION = 2e-5


@cache
def cases_by_operator() -> Mapping[str, tuple[Case, ...]]:
    """Return the verified cases of each operator that a model can have and that MXNet computes correctly."""
    cases: dict[str, tuple[Case, ...]] = {}
    for case in load_cases():
        if not case.op.startswith(("_backward", "_tofu")) and not find_defect(case):
            cases[case.op] = (*cases.get(case.op, ()), case)
    return cases


@cache
def is_drawn(op: str) -> bool:
    if _mxnet.operator_info(op)["is_random"]:
        return True
    return any(case.relations and _is_random(case) for case in cases_by_operator().get(op, ()))


def _is_random(case: Case) -> bool:
    node, *_ = execute_training_graph(case.op, _write(case), case.draw_inputs(), (), seed=1)
    return analyse_node(DESCRIPTIONS[case.op], node).is_random


@cache
def is_leaf(op: str) -> bool:
    """Return True if an operator draws random numbers or updates weights, and so ends a model."""
    return is_drawn(op) or "update" in op


@cache
def is_alone(op: str) -> bool:
    return is_leaf(op) or not is_exact(op)


@cache
def is_exact(op: str) -> bool:
    for case in cases_by_operator()[op]:
        types = {f"input{n}": given.dtype for n, given in enumerate(case.numbers)}
        _, outputs, _ = compose_case(case).infer_type(**types)
        if not EXACT.issuperset({*types.values(), *(np.dtype(output).name for output in outputs)}):
            return False
    return True


def compose_case(case: Case, has_all_outputs: bool = False) -> mx.sym.Symbol:
    symbol = compose(case.op, _write(case), len(case.inputs))
    if not has_all_outputs:
        return symbol
    graph = json.loads(symbol.tojson())
    (count,) = (node["num_outputs"] for node in _mxnet.nodes(symbol.handle.value) if node["op"] != "null")
    graph["heads"] = [[graph["heads"][0][0], output, 0] for output in range(count)]
    return mx.sym.load_json(json.dumps(graph))


def _write(case: Case) -> dict[str, str]:
    return {name: str(value) for name, value in case.attributes.items()}


@cache
def draw_variant(op: str, number: int, seed: int) -> Case:
    """Return a case with other sizes and attributes. Return the case itself if no variant can be used."""
    case = cases_by_operator()[op][number]
    if seed == 0:
        return case
    found: list[Case] = []
    settings = hypothesis.settings(
        max_examples=4,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with contextlib.suppress(hypothesis.errors.Unsatisfiable):
        hypothesis.seed(seed)(settings(hypothesis.given(variants(case))(lambda drawn: found.append(drawn))))()
    return next((drawn for drawn in reversed(found) if _is_taken(drawn)), case)


def _is_taken(case: Case) -> bool:
    """Return True if the case has no known defect, runs on one device, and is described."""
    if find_defect(case) or any(prod(given.shape) > LARGEST for given in case.numbers):
        return False
    try:
        nodes = execute_training_graph(case.op, _write(case), case.draw_inputs(), case.wrt, seed=1)
        for node in nodes:
            description = DESCRIPTIONS.get(node.op)
            if description is None or any(prod(output.shape) > LARGEST for output in node.outputs):
                return False
            analyse_node(description, node)
    except (TofuError, *KERNEL_ERRORS):
        return False
    return case.op == "Dropout" or all(
        np.isfinite(output).all() for output in nodes[0].outputs if output.dtype.kind == "f"
    )


def bring(grow: Growth, shape: Shape, low: float, high: float) -> mx.sym.Symbol:
    """Return the model's latest tensor, converted to `shape` and to numbers from `low` to `high`."""
    x, given = grow.latest()
    if given != shape or grow.rng.random() < 0.5:
        x = mx.sym.tile(mx.sym.Reshape(x, shape=(-1,)), reps=(ceil(prod(shape) / prod(given)),))
        x = mx.sym.Reshape(mx.sym.slice_axis(x, axis=0, begin=0, end=prod(shape)), shape=shape)
        x = x + grow.parameter(*shape)
    return mx.sym.softsign(x) * ((high - low) / 2) + (high + low) / 2


@cache
def list_signatures() -> tuple[tuple[str, int], ...]:
    found = [(op, number) for op, cases in sorted(cases_by_operator().items()) for number in range(len(cases))]
    random.Random(0).shuffle(found)
    return tuple(found)


def add_operator(grow: Growth, op: str, number: int | None = None) -> None:
    if number is None:
        number = grow.rng.randrange(len(cases_by_operator()[op]))
    case = draw_variant(op, number, grow.rng.randrange(DRAWS))
    if not is_alone(op):
        outputs = apply_case(grow, case, reads_model=True)
        grow.add(mx.sym.Group([mx.sym.Cast(output, dtype=DOUBLE) for output in outputs]))
        return
    grow.leaves += apply_case(grow, case, reads_model=False)
    if not is_exact(op):
        grow.tolerance = IN_SINGLE_PRECISION


def apply_case(grow: Growth, case: Case, reads_model: bool) -> list[mx.sym.Symbol]:
    """Add an operator. Return its outputs, including hidden outputs that gradients of random operators need."""
    draws = is_drawn(case.op) and case.op in case.relations
    plain = compose_case(case, has_all_outputs=draws)
    states = plain.list_auxiliary_states()
    names = _mxnet.operator_info(case.op)["input_names"]
    inputs = {}
    for n, (numbers, value) in enumerate(zip(case.numbers, case.draw_inputs(seed=grow.count), strict=True)):
        is_fixed = isinstance(numbers, Fixed) or draws
        is_whole = not isinstance(numbers, Fixed) and numbers.is_whole
        is_free = not is_fixed and not is_whole and numbers.dtype == DOUBLE
        is_real = numbers.dtype.startswith("float") and not is_whole
        is_state, is_label = f"input{n}" in states, names[n : n + 1] == [LABEL]
        has_gradient = is_real and not is_state and not is_label and (case.wrt is None or n in case.wrt)
        if reads_model and is_free and not is_state and prod(numbers.shape) and grow.rng.random() < 0.6:
            made = bring(grow, numbers.shape, numbers.low, numbers.high)
            inputs[f"input{n}"] = made if has_gradient else mx.sym.BlockGrad(made)
        else:
            name = grow.name((FIXED if is_fixed else "drawn") if has_gradient else "given")
            grow.given[name] = round_to(value, grow.bits) if is_free and grow.bits > 15 else value
            inputs[f"input{n}"] = mx.sym.Variable(name, shape=value.shape, dtype=value.dtype)
    name = grow.name(case.op.strip("_"))
    made = mx.sym.load_json(plain.tojson().replace('"operator"', f'"{name}"'))(**inputs)
    if draws:
        grow.relations[name] = case.relations[case.op]
    return [mx.sym.BlockGrad(output) if case.wrt == () else output for output in made]
