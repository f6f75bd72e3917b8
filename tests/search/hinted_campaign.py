"""Random graphs under random hints, and a judge of the claims that plans for them make.

    python -m tests.search.hinted_campaign --rules fetches --count 10000
    python -m tests.search.hinted_campaign --rules collectives --first 4711 --count 1

A claim is false if another plan that honours the hints moves less than a plan called optimal, or less than a proven bound. The judge looks
for such plans among searches without any ties, searches under more hints, and edits of the plan. The exit code is 1 if a claim is false.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from unittest import mock

import click
import numpy as np

from tests.search.hinted_graphs import draw_graph
from tests.search.written_steps import WrittenOperators
from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.search import find_strategies, pose_problem, repeated_layers
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import FREE, Choices, Fixed
from tofu.search.cost import price
from tofu.search.hints import resolve_hints
from tofu.search.native import COLLECTIVES, FETCHES, UNEVEN, list_cheap_operators
from tofu.search.solve import complete
from tofu.search.topology import Arrangement

RULES = {"fetches": FETCHES, "collectives": COLLECTIVES}
FACTORS = ((2,), (2, 2), (3, 2), (4, 2), (2, 2, 2))
MOST_HINTS = 4
MORE_SEARCHES, EDITS = 2, 12


@dataclass(frozen=True)
class Case:
    """A problem and the hints for it. `is_free`: a search may replicate any tensor."""

    problem: object
    hints: dict
    is_free: bool

    @property
    def searched(self):
        """The problem for a search."""
        return self.problem.hold(0.0) if self.is_free else self.problem

    def untie(self):
        """Return the native graph for a search, without any ties."""
        native = self.problem.native.copy()
        for tensor in range(len(self.problem.graph.tensors)) if self.is_free else ():
            native.hold(tensor, 0.0)
        if self.is_free and self.problem.moves.repeats_operators:
            for operator in list_cheap_operators(self.problem.graph, self.problem.accesses):
                native.repeat(operator)
        return native


def draw_case(seed, rules):
    """Return the case of a seed under a set of rules."""
    rng = random.Random(seed)
    graph, factors = draw_graph(rng), rng.choice(FACTORS)
    accesses = find_strategies(graph, WrittenOperators())
    with mock.patch.object(repeated_layers, "LEAST_OPERATORS", 0):
        moves = replace(RULES[rules], overlaps_given=rng.choice(UNEVEN))
        problem = pose_problem(graph, accesses, factors, moves=moves)
    if rng.random() < 0.25:
        rates = tuple(rng.choice((1e6, 1e7, 1e9)) for _ in factors)
        waits = tuple(rng.choice((0.0, 5.0)) for _ in factors)
        problem = problem.arrange(Arrangement(factors, rates, waits if any(waits) else ()))
    return Case(problem, draw_hints(problem, rng, rng.randint(0, MOST_HINTS)), rng.random() < 0.15)


def draw_hints(problem, rng, count, known=()):
    """Return so many random hints beside the known ones, each feasible by itself."""
    hints = dict(known)
    things = [("operator", n, o) for n, o in enumerate(problem.graph.operators) if not o.is_inner]
    things += [("tensor", n, t) for n, t in enumerate(problem.graph.tensors) if not t.is_inner]
    for kind, position, thing in rng.sample(things, min(count, len(things))):
        if thing.name not in hints:
            hints[thing.name] = draw_hint(problem, rng, kind, position)
    return hints


def draw_hint(problem, rng, kind, position):
    """Return a random hint: a choice for each step, some of them left free."""
    steps, history = [], []
    keeps_open = rng.random() < 0.4
    for _ in problem.factors:
        feasible = _core.feasible_choices(problem.native, list(problem.factors), kind, position, history)
        choice = -1 if rng.random() < 0.05 else rng.choice(feasible)
        history.append(choice)
        named = choice if kind == "tensor" or choice < 0 else problem.accesses[position].axes[choice]
        steps.append(... if keeps_open and rng.random() < 0.5 else None if choice < 0 else named)
    return steps


def tie(case, fixed):
    """Return the native graph of the plans that treat equal parts alike where the hints do."""
    tied = case.untie()
    for parts in (case.problem.equal, case.problem.layers):
        for alike in (part for family in parts.tensors for part in tell_apart(family, fixed.tensors) if part):
            for tensor in alike[1:]:
                tied.tie_tensors(alike[0], tensor)
        for alike in (part for family in parts.operators for part in tell_apart(family, fixed.operators) if part):
            tied.share_choices([(operator, alike[0]) for operator in alike[1:]])
    return tied


def tell_apart(family, fixed):
    """Return the parts of a family that are fixed alike: all of it if only one way is given."""
    ways = {tuple(fixed[member]) for member in family if member in fixed}
    if len(ways) < 2:
        return [family]
    return [[member for member in family if tuple(fixed.get(member, ())) == way] for way in {(), *ways}]


def search(problem, graph, fixed, steps=None):
    """Return the native exact result, for the first steps only if asked."""
    costs = problem.arrangement.nanoseconds
    return _core.search_exact(
        graph,
        list(problem.factors[:steps]),
        *fixed,
        prices=costs["prices"][:steps],
        latencies=costs["latencies"][:steps],
    )


def judge(case, rng):
    """Return what is false about the plans for a case, or nothing, and which plans were compared."""
    problem, seen = case.problem, Counter()
    try:
        fixed = resolve_hints(problem, case.hints)
    except PlanError:
        return "", seen  # infeasible one after the other
    try:
        solution = ALGORITHMS["exact"].solve(case.searched, case.hints)
    except InfeasibleError:
        return "", seen
    except PlanError as error:
        return judge_refusal(case, fixed, error), seen
    seen["plans"] += 1
    result = solution.exact
    if result is None:
        return "", seen
    cost = price(solution.choices.apply_to(problem))
    if not honours(solution.choices, fixed):
        return "the plan does not honour its hints", seen
    bound = cost if result.is_optimal else result.lower_bound
    for name, other in list_rivals(case, solution, fixed, rng):
        seen[name] += 1
        if other < bound:
            claim = "optimal" if result.is_optimal else "bound"
            return f"{claim}{solution.ties}: {cost:,}, bound {result.lower_bound:,}; {name} finds {other:,}", seen
    return judge_recursion(case, fixed, seen), seen


def judge_refusal(case, fixed, error):
    """Return what is false about refused hints: the search without ties finds a plan."""
    try:
        search(case.problem, case.untie(), fixed)
    except (ValueError, RuntimeError):
        return ""
    return f"refused: {error}"


def honours(choices, fixed):
    """Return True if the choices are those fixed."""
    pairs = [(choices.operators[o], steps) for o, steps in fixed.operators.items()]
    pairs += [(choices.tensors[t], steps) for t, steps in fixed.tensors.items()]
    return all(wanted in (FREE, taken) for choice, steps in pairs for taken, wanted in zip(choice, steps, strict=True))


def list_rivals(case, solution, fixed, rng):
    """Yield names and costs of other plans that honour the hints, and that the claim covers."""
    problem = case.problem
    rival = search(problem, tie(case, fixed) if solution.ties else case.untie(), fixed).plan
    yield "the search without ties", price(Choices(problem, rival.operators, rival.tensors))
    for _ in range(MORE_SEARCHES):
        more = draw_hints(problem, rng, rng.randint(1, 3), case.hints)
        try:
            other = ALGORITHMS["exact"].solve(case.searched, more)
        except (PlanError, InfeasibleError):
            continue
        more_fixed = resolve_hints(problem, more)
        is_covered = other.ties == solution.ties and is_tied_alike(problem, fixed, more_fixed)
        if other.exact is not None and is_covered and not asks_more(case, fixed, more_fixed, other.choices):
            yield "a search under more hints", price(other.choices.apply_to(problem))
    if not solution.ties:
        yield from list_edits(problem, solution.choices, fixed, rng)


def is_tied_alike(problem, fixed, more):
    """Return True if searches under both tie the same time steps, so that the claim of one covers the plan of the other."""
    return problem.keep_apart(*fixed).tied_steps == problem.keep_apart(*more).tied_steps


def asks_more(case, fixed, more, choices):
    """Return True if a search would not make some of these choices without the further hints: its claim is about plans without them."""
    native, factors = case.untie(), list(case.problem.factors)
    asked = (
        ("operator", more.operators.keys() - fixed.operators.keys(), choices.operators),
        ("tensor", more.tensors.keys() - fixed.tensors.keys(), choices.tensors),
    )
    return any(
        choice not in _core.feasible_choices(native, factors, kind, position, list(rows[position][:step]))
        for kind, added, rows in asked
        for position in added
        for step, choice in enumerate(rows[position])
    )


def list_edits(problem, choices, fixed, rng):
    """Yield the costs of the plan with some choices edited and the rest completed."""
    for _ in range(EDITS):
        operators = {o: [FREE] * len(problem.factors) for o in range(len(problem.graph.operators))}
        tensors = {t: [FREE] * len(problem.factors) for t in range(len(problem.graph.tensors))}
        for free, taken, given in (
            (operators, choices.operators, fixed.operators),
            (tensors, choices.tensors, fixed.tensors),
        ):
            for position in free:
                free[position] = given.get(position, [FREE] * len(problem.factors))
                if rng.random() < 0.7:
                    free[position] = [int(step) for step in taken[position]]
        try:
            yield "an edited plan", price(complete(problem, Fixed(operators, tensors)))
        except PlanError:
            continue


def judge_recursion(case, fixed, seen):
    """Return what is false about "each round optimal, given the rounds before"."""
    problem = case.problem
    try:
        solution = ALGORITHMS["recursive"].solve(case.searched, case.hints)
    except InfeasibleError:
        return ""  # its first steps may leave nothing to split
    except PlanError as error:
        return f"the recursion refuses what the exact search plans: {error}"
    if problem.moves.shares_regions or problem.ties or solution.result is None:
        return ""
    moved = np.cumsum(solution.result.step_bytes)
    for step in range(len(problem.factors)):
        given = fix_first_steps(problem, solution.choices, fixed, step)
        if any(choice != FREE for one in fixed for steps in one.values() for choice in steps[step + 1 :]):
            break  # later hints may rule choices out
        best = search(problem, case.untie(), given, step + 1)
        seen["a step of the recursion"] += 1
        if sum(best.plan.step_bytes) < moved[step]:
            return f"step {step + 1} of the recursion: {moved[step]:,} where {sum(best.plan.step_bytes):,} is possible"
    return ""


def fix_first_steps(problem, choices, fixed, step):
    """Return the choices fixed for the first steps, as a plan has them, and for one more, as the hints have it."""

    def fix(taken, given):
        free = [FREE] * len(problem.factors)
        return {n: [*map(int, row[:step]), given.get(n, free)[step]] for n, row in enumerate(taken)}

    graph = problem.graph
    return Fixed(
        fix(choices.operators[: len(graph.operators)], fixed.operators),
        fix(choices.tensors[: len(graph.tensors)], fixed.tensors),
    )


def run(seeds, rules):
    """Judge the cases of these seeds; return what is false, by seed, and how many plans were compared."""
    false, seen = {}, Counter()
    for seed in seeds:
        claim, compared = judge(draw_case(seed, rules), random.Random(seed))
        seen += compared
        if claim:
            false[seed] = claim
    return false, seen


@click.command(help=__doc__)
@click.option("--rules", type=click.Choice(list(RULES)), default="fetches", show_default=True)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1000, show_default=True, help="How many seeds.")
def main(rules: str, first: int, count: int) -> None:
    started = time.monotonic()
    false, seen = run(range(first, first + count), rules)
    for seed, claim in false.items():
        click.echo(f"seed {seed}: {claim}")
    compared = ", ".join(f"{number:,} x {name}" for name, number in seen.items())
    click.echo(
        f"{rules}, seeds {first} to {first + count - 1}: {compared}; {len(false)} false, {time.monotonic() - started:.0f} s"
    )
    sys.exit(bool(false))


if __name__ == "__main__":
    main()
