"""Plans of random graphs: random ones, all of them, and those of limited searches."""

from itertools import product

import numpy as np

from tests.search.cell_model import CellModel
from tofu import _core

# Limits: no elimination, so that message passing and mini-buckets must solve all; small tables; little time; little
# memory.
LIMITS = (
    {"max_table_entries": 1, "time_budget_seconds": 0.0},
    {"max_table_entries": 1, "time_budget_seconds": 0.2},
    {"max_table_entries": 100, "time_budget_seconds": 0.01},
    {"max_bytes": 3e3},
    {"max_bytes": 1e5},
)


def list_sequences(choices, steps):
    found = [()]
    for _ in range(steps):
        found = [(*history, choice) for history in found for choice in choices(history)]
    return found


def list_decisions(model, spec):
    roots = choice_roots(spec)
    deciders = sorted(set(roots) | {("tensor", t) for t in range(len(spec.tensors))})
    domains = [
        list_sequences(
            lambda history, kind=kind, i=i: (
                model.operator_choices(spec.operators[i], history)
                if kind == "operator"
                else model.tensor_choices(spec.tensors[i], history)
            ),
            len(model.factors),
        )
        for kind, i in deciders
    ]
    return roots, deciders, domains


def count_pairs(spec, factors, most):
    """Return the domains by decider, and the bytes of each pair of deciders. Return None for more than `most` entries."""
    model = CellModel(spec, factors)
    roots, deciders, values = list_decisions(model, spec)
    domains, tables = dict(zip(deciders, values, strict=True)), {}
    pairs = [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.list_incidences()]
    if sum(len(domains[a]) * len(domains[b]) for _, _, a, b in pairs) > most:
        return None
    for count, key, a, b in pairs:
        table = tables.setdefault((a, b), np.zeros((len(domains[a]), len(domains[b])), np.int64))
        if a == b:
            table += np.diag([count(*key, x, x) for x in domains[a]])
        else:
            table += [[count(*key, x, y) for y in domains[b]] for x in domains[a]]
    return domains, tables


def list_plans(spec, factors, most, model_type=CellModel):
    """Return all plans as (operators, tensors) arrays, or nothing if there are more than `most`."""
    roots, deciders, domains = list_decisions(model_type(spec, factors), spec)
    if np.prod([float(len(domain)) for domain in domains]) > most:
        return []
    plans = []
    for values in product(*domains):
        choice = dict(zip(deciders, values, strict=True))
        operators = [choice[root] for root in roots]
        plans.append((np.array(operators), np.array([choice["tensor", t] for t in range(len(spec.tensors))])))
    return plans


def search_with_limits(native, factors, limits, least, prices=()):
    """Return the result of a search. Check that its bounds are at most `least`, and that its claim is true."""
    bounds = []
    result = _core.search_exact(
        native, list(factors), prices=list(prices), progress=lambda stage, best, bound: bounds.append(bound), **limits
    )
    found = sum(result.plan.round_bytes)
    assert max(*bounds, result.lower_bound) <= least <= found
    assert not result.is_optimal or found == result.lower_bound
    return result


def choice_roots(spec):
    """Return ("operator", n) or ("tensor", n) for each operator: whose split it shares."""
    roots = []
    for position, operator in enumerate(spec.operators):
        if operator.follows >= 0:
            roots.append(("tensor", operator.follows))
        else:
            roots.append(roots[operator.same_as] if operator.same_as >= 0 else ("operator", position))
    return roots


def list_rows(result):
    return [tuple(map(int, r)) for r in result.operators], [tuple(map(int, r)) for r in result.tensors]


def draw_plan(rng, spec, factors, replicate):
    """Return any feasible plan, including ones that replicate large tensors."""
    model = CellModel(spec, factors)
    roots = choice_roots(spec)
    tensors, operators = [], {}
    for tensor in spec.tensors:
        layout = ()
        while len(layout) < len(factors):
            layout += (-1 if rng.random() < replicate else rng.choice(model.tensor_choices(tensor, layout)),)
        tensors.append(layout)
    for position, operator in enumerate(spec.operators):
        kind, root = roots[position]
        if kind == "tensor":
            operators[position] = tensors[root]
        elif root != position:
            operators[position] = operators[root]
        else:
            choice = ()
            while len(choice) < len(factors):
                choice += (
                    -1 if rng.random() < replicate / 2 else rng.choice(model.operator_choices(operator, choice)),
                )
            operators[position] = choice
    return [operators[i] for i in range(len(spec.operators))], tensors
