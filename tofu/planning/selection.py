"""Select a plan: the user's plan, the plan remembered for this model, or the result of a search."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from tofu.engine import Measured
from tofu.errors import InfeasibleError, PlanError, raise_together
from tofu.formatting import format_bytes
from tofu.graph import Graph, TensorKind
from tofu.plan import Plan
from tofu.planning.memory_limit import SEARCHES_OF_A_TRADEOFF, Measure, Tradeoff, explain_misfit
from tofu.planning.progress import search_progress
from tofu.planning.settings import DEFAULTS, Settings
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS, choose_proof, describe_gap
from tofu.search.choices import FREE, ChoiceArray
from tofu.search.cost import evaluate
from tofu.search.feasibility import explain_unsplit_round
from tofu.search.hints import resolve_hints, resolve_plan
from tofu.search.rounds import MOST_ORDERS, count_orders
from tofu.search.solve import NO_KNOWN_COST, Effort, Proof, Solution, combine_proofs
from tofu.search.topology import read_arrangement
from tofu.sizes import format_limit, write_size

logger = logging.getLogger("tofu")

UNPROVED = "nothing is proved"
NEARLY_OPTIMAL = 1.005
"""No other search runs if (cost of the best plan) / (lower bound) is at most this."""
SPLIT_SHARE = 0.3
"""Share of the effort for a plan without replication, from which the search with replication starts."""
EVEN_SHARE = 0.25
"""Share of the effort for a search among plans whose shards overlap only if they must."""
AS_GIVEN = f"applied as passed; {UNPROVED}"
NO_PART_OF_THE_KEY = ("plan", "strict_plan", "cache", "saved")  # settings that do not change what a search finds


@dataclass(frozen=True)
class Selection:
    """The selected split of all operators and tensors, and what is known about its cost.

    Attributes
    ----------
    choices
        How each operator and tensor is split. Smaller operators may replace an operator of the model.
    algorithm, optimality
        The algorithm that found the split, and a sentence about how close to optimal its cost is.
    lower_bound
        Every plan costs at least this many bytes, or nanoseconds with `topology=`. It is 0 if nothing is proved.
    search_bytes
        Peak memory of the exact search.
    claimed_bytes
        For a loaded plan, its `communication_bytes`.
    is_predicted
        True if a memory limit was checked with predicted memory. Such plans are not remembered.
    """

    choices: Choices
    algorithm: str
    optimality: str
    lower_bound: int = 0
    search_bytes: int = 0
    claimed_bytes: int | None = None
    is_predicted: bool = False

    def describe_optimality(self, communication_bytes: int) -> str:
        """Return a sentence about how close a plan with `communication_bytes` is to an optimal plan."""
        claim = self.optimality if self.claimed_bytes in (None, communication_bytes) else AS_GIVEN
        return describe_gap(communication_bytes, 0) or claim if UNPROVED in claim else claim


_plans: dict[tuple[object, ...], Plan] = {}


def select_plan(graph: Graph, problem: Problem, settings: Settings, measure: Measure) -> Selection:
    """Select how to split all operators and tensors of `graph`.

    `problem` has its own graph, which may contain several smaller operators instead of an operator of `graph`.
    `measure` returns the memory that a split needs. Log a warning if several workers repeat a computation.
    """
    selection = _select(graph, problem, settings, measure)
    unfed = explain_unsplit_round(selection.choices) if settings.on_infeasible == "replicate" else ""
    if unfed:
        logger.warning("%s With on_infeasible='replicate', workers compute the same where nothing can be split.", unfed)
    return selection


def _select(graph: Graph, problem: Problem, settings: Settings, measure: Measure) -> Selection:
    if settings.plan is not None:
        (arrangement,) = settings.arrangements
        return _apply_users_plan(graph, problem.arrange(arrangement), settings.plan, settings)
    remembered = _find_remembered(graph, problem, settings) if settings.cache else None
    if remembered is not None:
        return _select_given_plan(graph, problem.arrange(read_arrangement(remembered)), remembered)
    problems = [problem.arrange(arrangement) for arrangement in settings.arrangements]
    requested = [name for name in ("memory_limit", "replicate") if getattr(settings, name) != DEFAULTS[name]]
    if requested and not ALGORITHMS[settings.algorithm].is_search:
        raise PlanError(
            f"{requested[0]}= needs a search, and algorithm={settings.algorithm!r} is a baseline. Leave one out."
        )
    if settings.memory_limit is None:
        return _search(problems, settings)
    return _search_within(problems, settings.memory_limit, settings, measure)


def make_tradeoffs(problems: Sequence[Problem], settings: Settings, measure: Measure) -> list[Tradeoff]:
    """Return a `Tradeoff` for each problem, still without plans."""
    algorithm = ALGORITHMS[settings.algorithm]
    seconds = settings.search_seconds / len(problems)
    whole, effort = Effort(seconds), Effort(seconds / SEARCHES_OF_A_TRADEOFF)
    return [Tradeoff(problem, measure, algorithm, settings.hints, effort, whole) for problem in problems]


def _search_within(problems: Sequence[Problem], limit: int, settings: Settings, measure: Measure) -> Selection:
    tradeoffs = make_tradeoffs(problems, settings, measure)
    found = [point for tradeoff in tradeoffs if (point := tradeoff.find_fitting(limit)) is not None]
    if not found:
        return _take_smallest(tradeoffs, limit, settings)
    best = min(found, key=lambda point: (point.cost, point.most_bytes))
    tried = sum(len(tradeoff.points) for tradeoff in tradeoffs)
    unlimited = [tradeoff.unlimited or Solution(best.choices) for tradeoff in tradeoffs]
    proofs = combine_proofs(unlimited) if not best.choices.kept else ()  # bounds are valid for plans that keep nothing
    proof = choose_proof(best.cost, proofs) or Proof(0)
    bound = proof.lower_bound or 0
    gap = describe_gap(best.cost, bound, proof.among + _describe_orders(problems)) or UNPROVED
    predicted = ", as predicted," if best.memory.is_predicted else ""
    optimality = f"the best within {format_limit(limit)} per worker{predicted} of {tried} plans; {gap}"
    return Selection(best.choices, settings.algorithm, optimality, bound, is_predicted=best.memory.is_predicted)


def _take_smallest(tradeoffs: Sequence[Tradeoff], limit: int, settings: Settings) -> Selection:
    points = [point for tradeoff in tradeoffs for point in tradeoff.points]
    best = min(points, key=lambda point: (point.most_bytes, point.cost))
    if not best.memory.is_predicted or max(best.memory.worker_bytes) > limit:
        raise InfeasibleError(explain_misfit(tradeoffs[0], limit))
    logger.warning(_describe_misfit(best.most_bytes, limit))
    needed, allowed = format_bytes(best.most_bytes), format_limit(limit)
    optimality = f"predicted to need {needed} per worker, over {allowed}: the least of {len(points)} plans"
    return Selection(best.choices, settings.algorithm, optimality, is_predicted=True)


def _describe_misfit(needed: int, limit: int) -> str:
    return (
        f"The plan is predicted to need {format_bytes(needed)} on a worker, and the memory limit is {format_limit(limit)}. More workers, a "
        "smaller batch, jax.checkpoint or donated arguments need less. "
        f"`python -m tofu memory MODEL --device-memory {write_size(limit)}` looks for a number of workers that is enough."
    )


def _apply_users_plan(graph: Graph, problem: Problem, plan: Plan, settings: Settings) -> Selection:
    if plan.fingerprint != graph.fingerprint:
        # Inference needs only the forward part of a plan for training.
        forward = _take_forward_part(plan, graph, settings.strict_plan)
        if settings.strict_plan and forward is None:
            raise PlanError(_describe_difference(plan, graph))
        plan = forward or plan
    selection = _select_given_plan(graph, problem, plan)
    choices = selection.choices
    evaluate(choices)  # raises PlanError if no execution graph can follow them
    fixed = resolve_hints(problem, settings.hints or {})
    wrong = [
        problem.graph.operators[o].full_name
        for o, splits in fixed.operators.items()
        if not _follows(choices.operators[o], splits)
    ]
    wrong += [
        problem.graph.tensors[t].name for t, splits in fixed.tensors.items() if not _follows(choices.tensors[t], splits)
    ]
    raise_together(
        PlanError, "The plan and the hints contradict each other; leave one of them out. They differ for:", wrong
    )
    return selection


def _select_given_plan(graph: Graph, problem: Problem, plan: Plan) -> Selection:
    is_known = plan.is_as_found and plan.fingerprint == graph.fingerprint
    optimality = plan.optimality if is_known else AS_GIVEN
    return Selection(resolve_plan(problem, plan), plan.algorithm, optimality, claimed_bytes=plan.communication_bytes)


def _search(problems: Sequence[Problem], settings: Settings) -> Selection:
    algorithm = ALGORITHMS[settings.algorithm]
    effort = Effort(settings.search_seconds / len(problems))
    is_free = settings.replicate == "free"
    tied = replace(effort, seconds=SPLIT_SHARE * effort.seconds), _always_tie
    found, errors = _solve(problems, settings, *(tied if is_free else (effort,)))
    proving, candidates = found, list(found)
    if is_free:
        proving, _ = _solve(problems, settings, effort, _make_memory_free, candidates)
        candidates += proving
    if not candidates:
        raise errors[0]
    known_cost = min(solution.cost for solution in candidates)
    open_ends = [solution for solution in proving if not _is_closed(solution, known_cost)]
    if algorithm.is_search and open_ends:
        promising = [min(open_ends, key=attrgetter("cost")).choices.problem]
        alike = [solution for solution in found if solution.choices.problem.arrangement == promising[0].arrangement]
        if is_free and not any(_is_surpassed(solution, known_cost) for solution in alike):
            # The first search tied all layers, in a share of the time.
            resumed = replace(effort, refines_start=bool(found))
            candidates += _solve(promising, settings, resumed, known=candidates, starts=found)[0]
        split = _split_evenly_with_free_memory if is_free else Problem.split_evenly
        even_effort = replace(effort, seconds=EVEN_SHARE * effort.seconds, refines_start=True)
        candidates += _solve(promising, settings, even_effort, split, candidates)[0]
    best = min(candidates, key=attrgetter("cost"))
    cost = best.cost
    proofs = combine_proofs(proving)
    bound = (choose_proof(cost, proofs) or Proof(0)).lower_bound or 0
    optimality = algorithm.describe_optimality(cost, proofs, _describe_orders(problems, len(proving)))
    held = max((solution.held_bytes for solution in proving), default=0)
    return Selection(best.choices, algorithm.name, optimality, bound, held)


def _is_closed(solution: Solution, known_cost: int) -> bool:
    # True if the cost is at most 0.5 % above a lower bound.
    return any(
        known_cost <= NEARLY_OPTIMAL * proof.lower_bound for proof in solution.proofs if proof.lower_bound is not None
    )


def _is_surpassed(solution: Solution, known_cost: int) -> bool:
    # True if all plans of a searched set cost more, such as all that split equal layers alike.
    return any(proof.lower_bound is not None and proof.lower_bound > known_cost for proof in solution.proofs)


def _describe_orders(problems: Sequence[Problem], planned: int | None = None) -> str:
    count = len(problems) if planned is None else planned
    levels_fix_order = bool(problems[0].arrangement.bandwidths) and len(problems) < MOST_ORDERS
    known = len(problems) if levels_fix_order else count_orders(problems[0].factors)
    return "" if count == known else f", of {count:,} of {known:,} orders of the rounds"


def _always_tie(problem: Problem) -> Problem:
    return replace(problem, always_ties=True)


def _make_memory_free(problem: Problem) -> Problem:
    return problem.with_memory_price(price=0.0)


def _split_evenly_with_free_memory(problem: Problem) -> Problem | None:
    even = problem.split_evenly()
    return even and _make_memory_free(even)


def _solve(
    problems: Sequence[Problem],
    settings: Settings,
    effort: Effort,
    restrict: Callable[[Problem], Problem | None] = lambda problem: problem,
    known: Sequence[Solution] = (),
    starts: Sequence[Solution] | None = None,
) -> tuple[list[Solution], list[InfeasibleError]]:
    # `restrict` allows, for example, only even shards. All solutions compete with those in `known`. A search starts from
    # the best one in `starts`, or in all solutions.
    found: list[Solution] = []
    errors = []
    for problem in problems:
        searched = restrict(problem)
        if searched is None:
            continue
        rivals = [*known, *found]
        offered = rivals if starts is None else starts
        alike = [solution for solution in offered if solution.choices.problem.arrangement == problem.arrangement]
        start = min(alike, key=attrgetter("cost")).choices if alike else None
        known_cost = min((solution.cost for solution in rivals), default=NO_KNOWN_COST)
        try:
            with search_progress() as progress:
                begun = replace(effort, start=start, known_cost=known_cost, progress=progress)
                solution = ALGORITHMS[settings.algorithm].solve(
                    searched, settings.hints, begun, settings.on_infeasible != "error"
                )
        except InfeasibleError as error:
            errors.append(error)
        else:
            found.append(solution.apply_to(problem))
    return found, errors


def check_limit(plan: Plan, settings: Settings, measure: Callable[[], Measured]) -> None:
    """Raise PlanError if a plan exceeds the memory limit. If its memory is only predicted, warn instead."""
    limit, needed = settings.memory_limit, max(plan.worker_bytes)
    if limit is None:
        return
    if needed > limit:
        raise PlanError(
            f"The plan needs {format_bytes(needed)} on worker {plan.worker_bytes.index(needed)}, and the memory limit is "
            f"{format_limit(limit)}. Leave plan= out to search for a plan that fits."
        )
    if settings.plan is not None and (peak := max(measure().peak_bytes)) > limit:
        logger.warning(_describe_misfit(peak, limit))


def _take_forward_part(plan: Plan, graph: Graph, needs_same_shapes: bool) -> Plan | None:
    inputs = {tensor.name: tensor.shape for tensor in graph.tensors if tensor.kind is TensorKind.INPUT}
    has_all = plan.tensors.keys() >= graph.tensor_index.keys() and plan.operators.keys() >= graph.operator_index.keys()
    if graph.is_training or not has_all or (needs_same_shapes and inputs != plan.inputs):
        return None
    return replace(
        plan,
        tensors={name: splits for name, splits in plan.tensors.items() if name in graph.tensor_index},
        operators={name: plan.operators[name] for name in graph.operator_index},
        kept=(),
        reread=(),
    )


def _follows(choice: ChoiceArray, fixed: Sequence[int]) -> bool:
    return all(wanted in (FREE, int(taken)) for taken, wanted in zip(choice, fixed, strict=True))


def remember_plan(plan: Plan, problem: Problem, settings: Settings) -> None:
    """Store the plan found for `problem`, so that the next call with these settings needs no search."""
    # Drop the source lines. They refer to tracebacks, which would stay in memory.
    _plans[_cache_key(plan.fingerprint, problem, settings)] = replace(plan, lines={})


def _find_remembered(graph: Graph, problem: Problem, settings: Settings) -> Plan | None:
    if settings.saved is not None and settings.saved.fingerprint == graph.fingerprint:
        return settings.saved
    return _plans.get(_cache_key(graph.fingerprint, problem, settings))


def _cache_key(fingerprint: str, problem: Problem, settings: Settings) -> tuple[object, ...]:
    hints = repr(sorted(map(repr, (settings.hints or {}).items())))
    names = [field.name for field in fields(settings) if field.name not in (*NO_PART_OF_THE_KEY, "hints")]
    described = dict.fromkeys(access.description for access in problem.accesses)
    return fingerprint, problem.rules, hints, *(getattr(settings, name) for name in names), *described


def _describe_difference(plan: Plan, graph: Graph) -> str:
    inputs = [tensor for tensor in graph.tensors if tensor.kind is TensorKind.INPUT]
    reshaped = [
        f"{tensor.name} is {tensor.shape} here and {plan.inputs[tensor.name]} in the plan"
        for tensor in inputs
        if plan.inputs.get(tensor.name, tensor.shape) != tensor.shape
    ]
    if reshaped:
        return (
            f"The plan was made for other shapes: {'; '.join(reshaped)}. Pass these shapes, or leave plan= out to "
            "search again."
        )
    missing = [name for name in graph.tensor_index if name not in plan.tensors]
    extra = [name for name in plan.tensors if name not in graph.tensor_index]
    lacking = [
        f"the {lacks} lacks {', '.join(names[:5])}" for lacks, names in (("plan", missing), ("graph", extra)) if names
    ]
    what = "; ".join(lacking) or "their names agree, so types, attributes or the trained arguments differ"
    return (
        f"The plan is of another graph (fingerprint {plan.fingerprint[:12]}, this graph has {graph.fingerprint[:12]}): {what}. "
        "Use it with its own model, or leave plan= out to search again."
    )
