"""Result of `python -m tofu verify MODEL`: differences between a run on several workers and on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tofu.compare.numbers import Difference
from tofu.formatting import align, format_bytes

MOST_LISTED = 12
WIDER = "in float64, to tell errors from rounding; with the model's own types, fewer bytes are moved"
"""Note on a comparison in a wider type than the model's."""


@dataclass(frozen=True)
class Traffic:
    """Bytes transferred between workers in one run, counted in three ways.

    - `planned`: predicted by the plan, or None without a plan.
    - `emitted`: counted in the graph that the workers run.
    - `read`: counted while the graph runs.
    """

    planned: int | None
    emitted: int
    read: int

    @property
    def agrees(self) -> bool:
        """True if all counts are equal. A missing count is ignored."""
        return self.emitted == self.read and self.planned in (None, self.emitted)


@dataclass(frozen=True)
class Agreement:
    """Differences between a model's results on several workers and on one device.

    Attributes
    ----------
    training, inference
        The error of each compared tensor, in a training step and in inference.
    tolerance
        The largest error that counts as rounding.
    traffic
        Bytes transferred between workers in "training" and in "inference".
    excused
        The tensors that were not compared, with a reason, such as random numbers.
    notes
        Changes to the model for this comparison, such as float64 numbers.
    """

    workers: int
    dtype: str
    shapes: Mapping[str, tuple[int, ...]]
    training: tuple[Difference, ...]
    inference: tuple[Difference, ...]
    tolerance: float
    traffic: Mapping[str, Traffic]
    excused: Mapping[str, str]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def differing(self) -> tuple[Difference, ...]:
        """The tensors with errors above `tolerance`, worst first."""
        compared = sorted((*self.training, *self.inference), key=lambda difference: -difference.error)
        return tuple(difference for difference in compared if difference.error > self.tolerance)

    @property
    def worst(self) -> Difference | None:
        """The tensor with the largest error, or None if nothing was compared."""
        return max((*self.training, *self.inference), key=lambda difference: difference.error, default=None)

    @property
    def agrees(self) -> bool:
        """True if all tensors and byte counts agree. False if nothing was compared."""
        return (
            self.worst is not None and not self.differing and all(traffic.agrees for traffic in self.traffic.values())
        )

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.worst is None:
            return "Nothing could be compared."
        traffic_errors = [
            f"{name}: {t.planned} planned, {t.emitted} emitted, {t.read} read"
            for name, t in self.traffic.items()
            if not t.agrees
        ]
        if self.differing:
            worst = self.differing[0]
            more = f", and {len(self.differing) - 1} more" if len(self.differing) > 1 else ""
            error = _format_error(worst.error)
            return f"WRONG: {worst.kind} {worst.name} differs by {error}{more}; {self.tolerance:.0e} would be rounding."
        if traffic_errors:
            return f"WRONG: the bytes differ: {'; '.join(traffic_errors)}."
        count = len(self.training) + len(self.inference)
        return (
            f"{self.workers} workers agree with one device: {count} tensors, all to at least {self.worst.digits:.1f} digits "
            f"(differences up to {self.tolerance:.0e} count as rounding)."
            + (f" {len(self.excused)} could not be compared." if self.excused else "")
        )

    def __str__(self) -> str:
        shapes = ", ".join(f"{name}: {shape}" for name, shape in self.shapes.items())
        lines = [self.verdict, "", f"{self.workers} workers, {self.dtype}, {shapes}"]
        lines += [f"  {note}" for note in self.notes]
        lines += ["", *align([("compared", "tensors", "digits", "least agree"), *self._kinds()])]
        if self.differing:
            differing = [(d.name, d.kind, _format_error(d.error)) for d in self.differing[:MOST_LISTED]]
            lines += ["", *align([("differing", "", "error"), *differing])]
        if self.traffic:
            heading = (f"bytes in {self.dtype}", "planned", "in the graph", "read by kernels")
            rows = [(name, *map(_format_count, (t.planned, t.emitted, t.read))) for name, t in self.traffic.items()]
            lines += ["", *align([heading, *rows])]
        if self.excused:
            lines += ["", f"not compared: {len(self.excused)}"]
            lines += [f"  {name}: {reason}" for name, reason in list(self.excused.items())[:MOST_LISTED]]
        times = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.seconds.items())
        return "\n".join([*lines, "", times])

    def _kinds(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for run, differences in (("training", self.training), ("inference", self.inference)):
            kinds = dict.fromkeys(difference.kind for difference in differences)
            rows += [
                (f"{run}: {kind}s", *_summarise([tensor for tensor in differences if tensor.kind == kind]))
                for kind in kinds
            ]
        return rows


def _summarise(differences: Sequence[Difference]) -> tuple[str, str, str]:
    worst = max(differences, key=lambda difference: difference.error)
    return str(len(differences)), f"{worst.digits:.1f}", f"{worst.name} ({_format_error(worst.error)})"


def _format_count(count: int | None) -> str:
    return "-" if count is None else f"{count} ({format_bytes(count)})"


def _format_error(error: float) -> str:
    return "missing numbers" if error == inf else f"{error:.1e}"
