"""What section 7 of the paper claims, a row for each, and whether it holds on the simulated machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.evaluation.measure import RNNS, WRESNETS, Planned
from benchmarks.evaluation.policies import OF_TENSORFLOW, Outcome

Measured = Mapping[str, Mapping[str, Outcome]]  # model -> policy -> what it came to
TABLE_3 = {  # samples per second of Tofu, and of placement in MXNet and in TensorFlow
    "rnn-6-4k": (210, 107, 50),
    "rnn-8-4k": (154, 95, 36),
    "rnn-10-4k": (122, 59, 30),
}
PLACEMENT, SMALL, SWAPPING, TOFU, IDEAL = "operator placement", "small batch", "swapping", "Tofu", "ideal"
SMALL_FITS = {"wresnet-50-4", "wresnet-50-6", "wresnet-101-4"}
NO_MODELS = "no model has both"
# Why a claim may not hold here that no experiment decides, by how it begins.
REASONS = {
    "the same, RNNs of 8K": "the paper's engine kept more than it says: here weights and gradients, more than a device's memory, do not "
    "stay on a device from one time step to the next",
    "Table 3": "it is what is not simulated of the framework: how it orders and launches kernels, and how it copies between devices",
    "allrow-greedy on": "the paper's prototype held fetched regions longer, and other memory shorter: by all rules that free fetched "
    "regions late this plan needs more than Tofu's, as in the paper, but both too much",
    "icml18 on": "as of allrow-greedy",
    "RNN-4-8K, seconds": "it is how the paper's prototype fetched: here plans move so few bytes that what waits for a fetch decides, "
    "not how much is fetched",
}


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper says, what we find, and whether that is the same."""

    claim: str
    paper: str
    ours: str
    holds: bool

    @property
    def reason(self) -> str:
        """Why it may not hold here."""
        return next(
            (reason for begin, reason in REASONS.items() if self.claim.startswith(begin)),
            "it is close, but outside of the margin",
        )


def list_claims(measured: Measured, planned: Sequence[Planned]) -> Iterator[Claim]:
    """All claims that the figures and tables make in numbers."""
    shares = _list_ratios(measured, [*WRESNETS, *RNNS], TOFU, IDEAL)
    yield _make_range("Tofu's part of the ideal throughput, all models", shares, 0.60, 0.98)
    yield _make_range("of these, WResNet", _list_ratios(measured, WRESNETS, TOFU, IDEAL), 0.60, 0.95)
    yield _make_range("of these, RNN", _list_ratios(measured, RNNS, TOFU, IDEAL), 0.70, 0.98)
    fitting = {name for name in WRESNETS if name in measured and measured[name][SMALL].fits}
    yield Claim(
        "WResNets that fit on one device with a small batch",
        ", ".join(sorted(SMALL_FITS)),
        ", ".join(sorted(fitting)) or "none",
        fitting == SMALL_FITS,
    )
    for name, gain in (("wresnet-50-4", 1.12), ("wresnet-101-4", 1.15)):
        yield _make_near(f"small batch over Tofu, {name}", _list_ratios(measured, [name], SMALL, TOFU), gain, 0.1)
    beaten = [
        name for name in RNNS if name in measured and measured[name][SMALL].throughput < measured[name][TOFU].throughput
    ]
    present = [name for name in RNNS if name in measured]
    yield Claim(
        "RNNs of which Tofu beats small batches", "all", f"{len(beaten)} of {len(present)}", len(beaten) == len(present)
    )
    yield _make_range(
        "swapping's part of Tofu's throughput, WResNet", _list_ratios(measured, WRESNETS, SWAPPING, TOFU), 0.37, 0.80
    )
    large = [name for name in RNNS if name.endswith("8k")]
    yield _make_range("the same, RNNs of 8K", _list_ratios(measured, large, SWAPPING, TOFU), 0.23, 0.30)
    yield _make_range(
        "placement's part of Tofu's throughput", _list_ratios(measured, RNNS, PLACEMENT, TOFU), 0.38, 0.61
    )
    largest = measured.get("rnn-10-8k", {}).get(PLACEMENT)
    if largest is not None:
        yield Claim("placement of RNN-10-8K", "out of memory", str(largest).split(": ")[1], not largest.fits)
    policies = {"Tofu": TOFU, "placement in MXNet": PLACEMENT, "placement in TensorFlow": OF_TENSORFLOW.name}
    for name, said in TABLE_3.items():
        for (title, policy), number in zip(policies.items(), said, strict=True):
            if policy in measured.get(name, {}):
                found = measured[name][policy].throughput
                yield _make_near(f"Table 3, samples per second, {name}, {title}", [found], number, 0.25)
    yield from _list_figure_10(planned)


def _list_figure_10(planned: Sequence[Planned]) -> Iterator[Claim]:
    by_name = {(one.model, one.algorithm): one for one in planned}
    for algorithm in ("allrow-greedy", "icml18"):
        found, own = (by_name.get(("wresnet-152-10", one)) for one in (algorithm, "recursive"))
        if found is not None:
            shown = "fits" if found.fits else found.refusal or f"out of memory ({found.needed_bytes / 2**30:.1f} GiB)"
            is_alone = own is None or own.fits  # without memory for any plan, nothing is said of this one
            shown += "" if is_alone else ", as is Tofu"
            yield Claim(f"{algorithm} on WResNet-152-10", "out of memory", shown, not found.fits and is_alone)
    icml, tofu = by_name.get(("rnn-4-8k", "icml18")), by_name.get(("rnn-4-8k", "recursive"))
    if icml is not None and tofu is not None and tofu.seconds and icml.seconds:
        yield _make_near("ICML18's step over Tofu's, RNN-4-8K", [icml.seconds / tofu.seconds], 1.07, 0.05)
    order = [by_name.get(("rnn-4-8k", name)) for name in ("allrow-greedy", "spartan", "equalchop", "recursive")]
    if all(one is not None and one.seconds for one in order):
        seconds = [one.seconds for one in order if one is not None]
        shown = ", ".join(f"{one:.2f}" for one in seconds)
        ends = seconds[0] == max(seconds) and seconds[-1] == min(seconds)
        yield Claim(
            "RNN-4-8K, seconds: AllRow-Greedy slowest, then Spartan and EqualChop, Tofu fastest",
            "that order",
            shown,
            ends,
        )


def _list_ratios(measured: Measured, names: Sequence[str], own: str, other: str) -> list[float]:
    found = []
    for name in names:
        outcomes = measured.get(name, {})
        if own in outcomes and other in outcomes and outcomes[own].fits and outcomes[other].fits:
            found.append(outcomes[own].throughput / outcomes[other].throughput)
    return found


def _make_range(claim: str, ratios: Sequence[float], low: float, high: float) -> Claim:
    """A claim about the least and the largest; 5 points beside them are the same."""
    shown = f"{min(ratios):.0%} to {max(ratios):.0%}" if ratios else NO_MODELS
    holds = bool(ratios) and min(ratios) >= low - 0.05 and max(ratios) <= high + 0.05
    return Claim(claim, f"{low:.0%} to {high:.0%}", shown, holds)


def _make_near(claim: str, found: Sequence[float], said: float, margin: float) -> Claim:
    shown = NO_MODELS if not found else f"{found[0]:.3g}" if found[0] else "out of memory"
    return Claim(claim, f"{said:g}", shown, bool(found) and abs(found[0] / said - 1) <= margin)
