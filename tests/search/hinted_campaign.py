"""Random graphs under random hints, and a judge of the claims of their plans.

\b
    python -m tests.search.hinted_campaign --rules fetches --count 10000
    python -m tests.search.hinted_campaign --rules collectives --first 4711 --count 1

A claim is false if another plan that follows the hints transfers less than a plan called optimal, or less than a proven
bound. Rival plans come from searches without ties and from searches under more hints. The exit status is 1 if a claim
is false.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from unittest import mock

import click

from tests.search.hinted_graphs import draw_graph
from tests.search.written_steps import pose
from tofu import _core
from tofu.errors import InfeasibleError, PlanError
from tofu.search import repeated_layers
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import FREE, Choices
from tofu.search.cost import price
from tofu.search.hints import resolve_hints
from tofu.search.native import COLLECTIVE_RULES, FETCH_RULES, UNEVEN, list_cheap_operators
from tofu.search.topology import Arrangement

RULES = {"fetches": FETCH_RULES, "collectives": COLLECTIVE_RULES}
FACTORS = ((2,), (2, 2), (3, 2), (4, 2), (2, 2, 2))
MOST_HINTS = 4


@dataclass(frozen=True)
class HintedGraph:
    """Problem and its hints; `is_free` lets the search replicate any tensor."""

    problem: object
    hints: dict
    is_free: bool

    @property
    def searched(self):
        return self.problem.with_memory_price(0.0) if self.is_free else self.problem

    def without_ties(self):
        """Return the native graph for a search that may treat equal parts differently."""
        native = self.problem.native.copy()
        for tensor in range(len(self.problem.graph.tensors)) if self.is_free else ():
            native.hold(tensor, 0.0)
        if self.is_free and self.problem.rules.repeats_operators:
            for operator in list_cheap_operators(self.problem.graph, self.problem.accesses):
                native.repeat(operator)
        return native


def draw_case(seed, rules):
    rng = random.Random(seed)
    graph, factors = draw_graph(rng), rng.choice(FACTORS)
    with mock.patch.object(repeated_layers, "LEAST_OPERATORS", 0):
        transfer_rules = replace(RULES[rules], overlaps_given=rng.choice(UNEVEN))
        problem = pose(graph, factors, rules=transfer_rules)
    if rng.random() < 0.25:
        rates = tuple(rng.choice((1e6, 1e7, 1e9)) for _ in factors)
        waits = tuple(rng.choice((0.0, 5.0)) for _ in factors)
        problem = problem.arrange(Arrangement(factors, rates, waits if any(waits) else ()))
    return HintedGraph(problem, draw_hints(problem, rng, rng.randint(0, MOST_HINTS)), rng.random() < 0.15)


def draw_hints(problem, rng, count, kept=()):
    """Return the hints in `kept` and random hints, each feasible by itself."""
    hints = dict(kept)
    things = [("operator", n, o) for n, o in enumerate(problem.graph.operators) if not o.is_inner]
    things += [("tensor", n, t) for n, t in enumerate(problem.graph.tensors) if not t.is_inner]
    for kind, position, thing in rng.sample(things, min(count, len(things))):
        if thing.name not in hints:
            hints[thing.name] = draw_hint(problem, rng, kind, position)
    return hints


def draw_hint(problem, rng, kind, position):
    rounds, history = [], []
    keeps_open = rng.random() < 0.4
    for _ in problem.factors:
        feasible = _core.feasible_choices(problem.native, list(problem.factors), kind, position, history)
        choice = -1 if rng.random() < 0.05 else rng.choice(feasible)
        history.append(choice)
        named = choice if kind == "tensor" or choice < 0 else problem.accesses[position].axes[choice]
        rounds.append(... if keeps_open and rng.random() < 0.5 else None if choice < 0 else named)
    return rounds


def tie_parts(case, fixed):
    """Return the native graph for a search that treats equal parts alike, unless hints distinguish them."""
    tied = case.without_ties()
    for parts in (case.problem.equal, case.problem.layers):
        for alike in (part for family in parts.tensors for part in split_family(family, fixed.tensors) if part):
            for tensor in alike[1:]:
                tied.tie_tensors(alike[0], tensor)
        for alike in (part for family in parts.operators for part in split_family(family, fixed.operators) if part):
            tied.share_choices([(operator, alike[0]) for operator in alike[1:]])
    return tied


def split_family(family, fixed):
    """Split the members of a family by their hints. If all hints agree, return the family as one group."""
    ways = {tuple(fixed[member]) for member in family if member in fixed}
    if len(ways) < 2:
        return [family]
    return [[member for member in family if tuple(fixed.get(member, ())) == way] for way in {(), *ways}]


def search(problem, graph, fixed):
    costs = problem.arrangement.nanoseconds
    return _core.search_exact(
        graph, list(problem.factors), *fixed, prices=costs["prices"], latencies=costs["latencies"]
    )


def judge(case, rng):
    """Return a false claim about the plan of a case (or ""), and counts of the compared plans."""
    problem, seen = case.problem, Counter()
    try:
        fixed = resolve_hints(problem, case.hints)
    except PlanError:
        return "", seen
    try:
        solution = ALGORITHMS["exact"].solve(case.searched, case.hints)
    except InfeasibleError:
        return "", seen
    except PlanError as error:
        return judge_refusal(case, fixed, error), seen
    seen["plans"] += 1
    if not solution.proofs:
        return "", seen
    proof = solution.proofs[0]
    cost = price(solution.choices.apply_to(problem))
    if not honours(solution.choices, fixed):
        return "the plan does not honour its hints", seen
    for name, found in list_rivals(case, solution, fixed, rng):
        seen[name] += 1
        if found < proof.lower_bound:
            return f"cost {cost:,}, bound {proof.lower_bound:,}{proof.among}; {name} finds {found:,}", seen
    return "", seen


def judge_refusal(case, fixed, error):
    """Return a message if a search without ties finds a plan. Otherwise, return ""."""
    try:
        search(case.problem, case.without_ties(), fixed)
    except (ValueError, RuntimeError):
        return ""
    return f"refused: {error}"


def honours(choices, fixed):
    pairs = [(choices.operators[o], rounds) for o, rounds in fixed.operators.items()]
    pairs += [(choices.tensors[t], rounds) for t, rounds in fixed.tensors.items()]
    return all(
        wanted in (FREE, taken) for choice, rounds in pairs for taken, wanted in zip(choice, rounds, strict=True)
    )


def list_rivals(case, solution, fixed, rng):
    """Yield names and costs of other plans that follow the hints, if the claim covers them."""
    problem = case.problem
    among = solution.proofs[0].among
    rival = search(problem, tie_parts(case, fixed) if among else case.without_ties(), fixed).plan
    yield "the search without ties", price(Choices(problem, rival.operators, rival.tensors))
    for _ in range(2):
        more = draw_hints(problem, rng, rng.randint(1, 3), case.hints)
        try:
            rival = ALGORITHMS["exact"].solve(case.searched, more)
        except (PlanError, InfeasibleError):
            continue
        more_fixed = resolve_hints(problem, more)
        is_alike = is_tied_alike(problem, fixed, more_fixed)
        is_covered = is_alike and among in [proof.among for proof in rival.proofs[:1]]
        if is_covered and not asks_more(case, fixed, more_fixed, rival.choices):
            yield "a search under more hints", price(rival.choices.apply_to(problem))


def is_tied_alike(problem, fixed, more):
    return problem.with_fixed_choices(*fixed).tied_steps == problem.with_fixed_choices(*more).tied_steps


def asks_more(case, fixed, more, choices):
    """Return True if some of these choices are only feasible with further hints. The claim does not cover such plans."""
    native, factors = case.without_ties(), list(case.problem.factors)
    asked = (
        ("operator", more.operators.keys() - fixed.operators.keys(), choices.operators),
        ("tensor", more.tensors.keys() - fixed.tensors.keys(), choices.tensors),
    )
    return any(
        choice not in _core.feasible_choices(native, factors, kind, position, list(rows[position][:round_]))
        for kind, added, rows in asked
        for position in added
        for round_, choice in enumerate(rows[position])
    )


def run(seeds, rules):
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
