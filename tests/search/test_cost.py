"""The core's cost and the optimum of each round, compared with a brute force over elements and plans."""

import random
from itertools import product

import numpy as np
import pytest

from tests.search.cell_model import CellModel
from tests.search.plans import choice_roots, draw_plan, list_rows
from tests.search.random_graphs import random_graph
from tofu import _core

FACTORS = [(2,), (3,), (2, 2), (3, 2)]
LARGEST_SPACE = 6000


def least_bytes(spec, factors, round_, operators, tensors):
    """Return the least bytes of levels 0 .. `round_` for any choice in this round. Return None if there are too many."""
    model = CellModel(spec, factors[: round_ + 1])
    roots = choice_roots(spec)
    deciders = sorted(set(roots) | {("tensor", t) for t in range(len(spec.tensors))})
    domains = [
        model.operator_choices(spec.operators[i], operators[i][:round_])
        if kind == "operator"
        else model.tensor_choices(spec.tensors[i], tensors[i][:round_])
        for kind, i in deciders
    ]
    if np.prod([len(d) for d in domains]) > LARGEST_SPACE:
        return None
    place = {decider: i for i, decider in enumerate(deciders)}
    incidences = [
        (count, key, place[roots[o]], operators[o][:round_], place["tensor", t], tensors[t][:round_])
        for count, key, o, t in model.list_incidences()
    ]
    return min(
        sum(count(*key, (*past_o, plan[o]), (*past_t, plan[t])) for count, key, o, past_o, t, past_t in incidences)
        for plan in product(*domains)
    )


@pytest.mark.parametrize("block", range(4))
def test_every_round_is_optimal(block):
    checked = 0
    for seed in range(45 * block, 45 * (block + 1)):
        factors = FACTORS[seed % len(FACTORS)]
        spec = random_graph(seed, largest=4)
        result = _core.search_recursive(spec.native(), list(factors))
        operators, tensors = list_rows(result)
        total = 0
        for round_ in range(len(factors)):
            total += result.round_bytes[round_]
            model = CellModel(spec, factors[: round_ + 1])
            counted = model.total_bytes([o[: round_ + 1] for o in operators], [t[: round_ + 1] for t in tensors])
            assert counted == total, f"seed {seed}, round {round_}"
            least = least_bytes(spec, factors, round_, operators, tensors)
            if least is not None:
                assert least == total, f"seed {seed}, round {round_}"
                checked += 1
    assert checked >= 40


@pytest.mark.parametrize("stages_small_sums", [False, True])
@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_evaluate_counts_random_plans(factors, stages_small_sums):
    rng = random.Random(len(factors))
    for seed in range(40):
        spec = random_graph(1000 + seed, largest=5)
        spec.stages_small_sums = stages_small_sums
        operators, tensors = draw_plan(rng, spec, factors, replicate=rng.choice([0.0, 0.3]))
        cost = _core.evaluate(spec.native(), list(factors), np.array(operators), np.array(tensors))
        levels = [
            CellModel(spec, factors[:n]).total_bytes([o[:n] for o in operators], [t[:n] for t in tensors])
            for n in range(len(factors) + 1)
        ]
        assert cost.total_bytes == levels[-1], f"seed {seed}"
        assert cost.round_bytes == [b - a for a, b in zip([0, *levels[1:-1]], levels[1:], strict=True)]
        assert sum(item[3] for item in cost.items) == cost.total_bytes
