"""Claims of section 7 of the paper in numbers, and the verdict of the simulated machine on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.evaluation.measure import RNNS, WRESNETS, AlgorithmResult
from benchmarks.evaluation.policies import PolicyOutcome

OutcomeTable = Mapping[str, Mapping[str, PolicyOutcome]]  # model -> policy -> outcome
TABLE_3 = {  # samples per second of Tofu, and of placement in MXNet and in TensorFlow
    "rnn-6-4k": (210, 107, 50),
    "rnn-8-4k": (154, 95, 36),
    "rnn-10-4k": (122, 59, 30),
}
PLACEMENT, SMALL, SWAPPING, TOFU, IDEAL = "operator placement", "small batch", "swapping", "Tofu", "ideal"
SMALL_FITS = {"wresnet-50-4", "wresnet-50-6", "wresnet-101-4"}
NO_MODELS = "no model has both"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, with the paper's number and ours. `holds` is True if they agree."""

    claim: str
    paper: str
    ours: str
    holds: bool


def list_claims(outcomes: OutcomeTable, algorithms: Sequence[AlgorithmResult]) -> Iterator[Claim]:
    shares = _list_ratios(outcomes, [*WRESNETS, *RNNS], TOFU, IDEAL)
    yield _check_range("Tofu's part of the ideal throughput, all models", shares, 0.60, 0.98)
    yield _check_range("of these, WResNet", _list_ratios(outcomes, WRESNETS, TOFU, IDEAL), 0.60, 0.95)
    yield _check_range("of these, RNN", _list_ratios(outcomes, RNNS, TOFU, IDEAL), 0.70, 0.98)
    fitting = {name for name in WRESNETS if name in outcomes and outcomes[name][SMALL].fits}
    yield Claim(
        "WResNets that fit on one device with a small batch",
        ", ".join(sorted(SMALL_FITS)),
        ", ".join(sorted(fitting)) or "none",
        fitting == SMALL_FITS,
    )
    for name, gain in (("wresnet-50-4", 1.12), ("wresnet-101-4", 1.15)):
        yield _check_close(f"small batch over Tofu, {name}", _list_ratios(outcomes, [name], SMALL, TOFU), gain, 0.1)
    rnns = [name for name in RNNS if name in outcomes]
    beaten = [name for name in rnns if outcomes[name][SMALL].throughput < outcomes[name][TOFU].throughput]
    yield Claim("RNNs of which Tofu beats small batches", "all", f"{len(beaten)} of {len(rnns)}", beaten == rnns)
    swapped = _list_ratios(outcomes, WRESNETS, SWAPPING, TOFU)
    yield _check_range("swapping's part of Tofu's throughput, WResNet", swapped, 0.37, 0.80)
    large = [name for name in RNNS if name.endswith("8k")]
    yield _check_range("the same, RNNs of 8K", _list_ratios(outcomes, large, SWAPPING, TOFU), 0.23, 0.30)
    placed = _list_ratios(outcomes, RNNS, PLACEMENT, TOFU)
    yield _check_range("placement's part of Tofu's throughput", placed, 0.38, 0.61)
    largest = outcomes.get("rnn-10-8k", {}).get(PLACEMENT)
    if largest is not None:
        shown = "fits" if largest.fits else "out of memory"
        yield Claim("placement of RNN-10-8K", "out of memory", shown, not largest.fits)
    policies = {"Tofu": TOFU, "placement in MXNet": PLACEMENT, "placement in TensorFlow": PLACEMENT}
    for name, rates in TABLE_3.items():
        for (title, policy), rate in zip(policies.items(), rates, strict=True):
            if policy in outcomes.get(name, {}):
                simulated = outcomes[name][policy].throughput
                yield _check_close(f"Table 3, samples per second, {name}, {title}", [simulated], rate, 0.25)
    yield from _list_figure_10(algorithms)


def _list_figure_10(results: Sequence[AlgorithmResult]) -> Iterator[Claim]:
    by_name = {(result.model, result.algorithm): result for result in results}
    for algorithm in ("allrow-greedy", "icml18"):
        result, tofu = (by_name.get(("wresnet-152-10", name)) for name in (algorithm, "recursive"))
        if result is not None:
            needed = f"out of memory ({result.needed_bytes / 2**30:.1f} GiB)"
            shown = "fits" if result.fits else result.refusal or needed
            is_alone = tofu is None or tofu.fits  # if no plan fits, the claim is open
            shown += "" if is_alone else ", as is Tofu"
            yield Claim(f"{algorithm} on WResNet-152-10", "out of memory", shown, not result.fits and is_alone)
    icml, tofu = by_name.get(("rnn-4-8k", "icml18")), by_name.get(("rnn-4-8k", "recursive"))
    if icml is not None and tofu is not None and tofu.seconds and icml.seconds:
        yield _check_close("ICML18's step over Tofu's, RNN-4-8K", [icml.seconds / tofu.seconds], 1.07, 0.05)
    names = "allrow-greedy", "spartan", "equalchop", "recursive"
    seconds = [by_name["rnn-4-8k", name].seconds for name in names if ("rnn-4-8k", name) in by_name]
    if len(seconds) == len(names) and all(seconds):
        yield Claim(
            "RNN-4-8K, seconds: AllRow-Greedy slowest, then Spartan and EqualChop, Tofu fastest",
            "that order",
            ", ".join(f"{each:.2f}" for each in seconds),
            seconds[0] == max(seconds) and seconds[-1] == min(seconds),
        )


def _list_ratios(outcomes: OutcomeTable, names: Sequence[str], policy: str, base: str) -> list[float]:
    pairs = [
        (outcomes[name][policy], outcomes[name][base])
        for name in names
        if {policy, base} <= set(outcomes.get(name, ()))
    ]
    return [own.throughput / other.throughput for own, other in pairs if own.fits and other.fits]


def _check_range(claim: str, ratios: Sequence[float], low: float, high: float) -> Claim:
    shown = f"{min(ratios):.0%} to {max(ratios):.0%}" if ratios else NO_MODELS
    holds = bool(ratios) and min(ratios) >= low - 0.05 and max(ratios) <= high + 0.05
    return Claim(claim, f"{low:.0%} to {high:.0%}", shown, holds)


def _check_close(claim: str, values: Sequence[float], expected: float, margin: float) -> Claim:
    shown = NO_MODELS if not values else f"{values[0]:.3g}" if values[0] else "out of memory"
    return Claim(claim, f"{expected:g}", shown, bool(values) and abs(values[0] / expected - 1) <= margin)
