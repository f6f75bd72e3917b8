"""The plan: which dimension of each tensor and which axis of each operator is split at each step of the recursion.

A frozen value that prints as a table and makes a round trip through versioned JSON. It refers to the graph by names alone, so
it can be read, edited and applied again; its fingerprint says which graph it is of.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

from tofu.errors import PlanError, raise_together
from tofu.validation import (
    LARGEST_COUNT,
    MOST_DIMENSIONS,
    MOST_WORKERS,
    parse_json,
    read_integer,
    read_list,
    read_mapping,
    read_not_negative,
    read_object,
    read_positive,
    read_string,
    show,
)

FORMAT_VERSION = 1
CHANGED = "changed after it was found; nothing is proved of it"
OPTIONAL_FIELDS = {
    "search_seconds",
    "search_bytes",
    "level_bytes",
    "bandwidths",
    "latencies",
    "level_waits",
    "kept",
    "reread",
    "inputs",
    "digest",
    "lines",
    "undescribed",
}  # that a saved plan need not have

# A tensor that is smaller as a whole may be held by every worker.
REPLICATION_LIMIT_BYTES = 64 * 1024

MOST_NAMES = 4  # of operators without a description, in a line

DimensionChoice = tuple[int | None, ...]
AxisChoice = tuple[str | None, ...]


@dataclass(frozen=True)
class Undescribed:
    """What it costs that every worker computes all of an operator, since no description holds for it.

    Attributes
    ----------
    reason
        Why it has no description that holds for it.
    fetched_bytes
        The bytes that workers read from each other for it in a training step.
    work_share
        Its share of the bytes that all operators read and write on one device. Every worker has this work, however many there are.
    """

    reason: str
    fetched_bytes: int
    work_share: float

    @classmethod
    def read(cls, value: Any, what: str) -> Undescribed:
        """Return the one that JSON has. Raise ValueError if it is another value."""
        fields = read_object(value, what, cls.__dataclass_fields__)
        return cls(
            read_string(fields.get("reason"), f"reason in {what}"),
            read_integer(fields.get("fetched_bytes"), f"fetched_bytes in {what}"),
            read_not_negative(fields.get("work_share"), f"work_share in {what}"),
        )


@dataclass(frozen=True)
class Plan:
    """How a training step is split over the workers.

    Attributes
    ----------
    workers, factors
        Their number, and its factors k1 >= k2 >= ..., one for each step of the recursion (section 5.2).
    tensors
        Tensor name -> the dimension split at each step; None where the tensor is replicated at that step.
    operators
        Operator name -> the axis of its description split at each step; None where it is computed by every worker.
    communication_bytes
        Bytes that workers read from each other's memory in one training step.
    step_bytes
        The same, step by step of the recursion: the increment that each step adds, below 0 where a step saves more than it costs. They
        sum to `communication_bytes`.
    level_bytes
        The bytes of `communication_bytes` that cross each level of the interconnect, the top first: level i lies between workers whose
        first different digit is that of step i. Empty for plans that were saved without it.
    bandwidths
        Bytes per second of each level, where the plan was searched for them; else empty.
    latencies
        What a fetch waits that crosses each level, in microseconds, where the plan was searched for that; else empty.
    level_waits
        How many fetches cross each level in a training step, all workers at once; empty without latencies.
    kept
        Tensors of which a region that a worker has fetched stays for all of its readers, from the forward to the backward pass too; of
        others, each operator fetches again. Only plans under a memory limit keep any.
    reread
        Tensors of which nobody shares a fetched region, so that none stays for longer than its reader: of others, operators of one group
        (the time steps of a recurrence, say) fetch a region once. Only plans under a memory limit have any.
    worker_bytes
        Memory that is planned for each worker, in bytes; temporary workspace of kernels is not in it.
    algorithm, optimality
        How the plan was found, and how good it is known to be.
    search_seconds
        Time of the search; 0 for a plan that was loaded. Not part of the plan's identity, and not saved.
    search_bytes
        Memory of the exact search: its tables that were held at the same time, at most. Like `search_seconds` not saved.
    fingerprint
        Digest of the graph that the plan is of.
    inputs
        Input name -> the shape that the plan was made for. Empty for plans that were saved without it.
    digest
        Of everything else that is saved, as it was when the plan was found: it says whether `optimality` is about this plan, or about
        the one that this was before somebody edited it. Empty for plans that were not found by Tofu, or saved without it.
    undescribed
        Operator name -> what it costs that it has no description, and every worker computes all of it (`undescribed="replicate"`).
    lines
        Operator name -> the line of the user's program that it is of, as `file:line`, where the engine knows it. Not saved.
    """

    workers: int
    factors: tuple[int, ...]
    tensors: Mapping[str, DimensionChoice]
    operators: Mapping[str, AxisChoice]
    communication_bytes: int
    step_bytes: tuple[int, ...]
    worker_bytes: tuple[int, ...]
    algorithm: str
    optimality: str
    fingerprint: str
    search_seconds: float = field(default=0.0, compare=False)
    search_bytes: int = field(default=0, compare=False)
    level_bytes: tuple[int, ...] = ()
    bandwidths: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()
    level_waits: tuple[int, ...] = ()
    kept: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    digest: str = field(default="", compare=False)
    lines: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    undescribed: Mapping[str, Undescribed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "operators", MappingProxyType(dict(self.operators)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))
        object.__setattr__(self, "undescribed", MappingProxyType(dict(self.undescribed)))

    @property
    def communication_seconds(self) -> float | None:
        """What a training step's communication takes at the levels' bandwidths and latencies, one level and one fetch after the other; None
        without bandwidths.
        """
        if not self.bandwidths:
            return None
        moving = sum(count / bandwidth for count, bandwidth in zip(self.level_bytes, self.bandwidths, strict=True))
        return moving + sum(1e-6 * wait * count for wait, count in zip(self.latencies, self.level_waits, strict=True))

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.factors, self.communication_bytes))

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan.from_json, (self.to_json(),)

    def sealed(self) -> Plan:
        """The plan as it was found, with the digest that says so."""
        return replace(self, digest=self._compute_digest())

    @property
    def is_as_found(self) -> bool:
        """Whether nothing has changed since the plan was found, so that what it says of itself is about this very plan."""
        return self.digest == self._compute_digest()

    def _compute_digest(self) -> str:
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()[:32]

    def _content(self) -> dict[str, Any]:
        return {
            "format": "tofu-plan",
            "version": FORMAT_VERSION,
            "workers": self.workers,
            "factors": self.factors,
            "tensors": dict(self.tensors),
            "operators": dict(self.operators),
            "communication_bytes": self.communication_bytes,
            "step_bytes": self.step_bytes,
            "worker_bytes": self.worker_bytes,
            "algorithm": self.algorithm,
            "optimality": self.optimality,
            "fingerprint": self.fingerprint,
            "level_bytes": self.level_bytes,
            "bandwidths": self.bandwidths,
            "kept": self.kept,
            "reread": self.reread,
            "inputs": dict(self.inputs),
            **({"latencies": self.latencies, "level_waits": self.level_waits} if self.latencies else {}),
            **(
                {"undescribed": {name: asdict(one) for name, one in self.undescribed.items()}}
                if self.undescribed
                else {}
            ),
        }

    def to_json(self) -> str:
        """The plan as JSON: keys sorted, the same text for the same plan."""
        digest = {"digest": self.digest} if self.is_as_found else {}
        return json.dumps({**self._content(), **digest}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan back. Raises PlanError for text that is cut short, of another kind or of another version.

        Warns where the plan was changed after it was saved; whoever changes one on purpose deletes the line of its "digest".
        """
        if isinstance(text, str) and not text.lstrip().startswith(("{", "[")):
            raise PlanError(
                f"from_json takes the text of a plan, as plan.to_json() gives it, not {show(text)}. For a file, write "
                "Plan.from_json(Path(name).read_text()), or give partition the file itself: plan=name."
            )
        try:
            value = parse_json(text)
        except (TypeError, ValueError) as error:
            raise PlanError(
                f"The plan cannot be read: {error}. The file may have been cut short; save the plan again with plan.to_json()."
            ) from error
        if not isinstance(value, dict) or value.get("format") != "tofu-plan":
            raise PlanError('This is not a plan: its "format" is not "tofu-plan". Plans are written by plan.to_json().')
        if value.get("version") != FORMAT_VERSION:
            raise PlanError(
                f"The plan has version {show(value.get('version'))}, this Tofu reads version {FORMAT_VERSION}. Search again with this Tofu."
            )
        fields = set(cls.__dataclass_fields__) - OPTIONAL_FIELDS
        raise_together(PlanError, "The plan is incomplete. It lacks:", sorted(fields - value.keys()))
        try:
            plan = cls._of_fields(value)
            plan._check()
        except ValueError as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(
                f"The plan holds a value that cannot be meant: {error}. Plans are written by plan.to_json()."
            ) from error
        return plan._noticing_changes()

    def _noticing_changes(self) -> Plan:
        """The plan; with a warning and without its claim where its digest is that of another one."""
        if not self.digest or self.is_as_found:
            return self
        warnings.warn(
            "The plan is not as it was saved: its digest is that of another one. Its bytes are counted anew where it is applied, and "
            'nothing is proved of it. If you edited it, delete the line of its "digest"; else take the plan from where it was saved.',
            stacklevel=3,
        )
        return replace(self, optimality=CHANGED, digest="")

    @classmethod
    def _of_fields(cls, value: Mapping[str, Any]) -> Plan:
        """The plan of the fields as JSON has them. Raises ValueError for values of another kind."""

        def read(name: str, kind: Callable[[Any, str], Any], otherwise: Any = None) -> Any:
            return kind(value.get(name, otherwise), name)

        counts, names = partial(read_list, read=read_integer), partial(read_list, read=read_string)
        return cls(
            workers=read("workers", partial(read_integer, least=1, most=MOST_WORKERS)),
            factors=read("factors", partial(read_list, read=partial(read_integer, least=2, most=MOST_WORKERS))),
            tensors=read("tensors", partial(read_mapping, read=partial(read_list, read=_read_dimension))),
            operators=read("operators", partial(read_mapping, read=partial(read_list, read=_read_axis))),
            communication_bytes=read("communication_bytes", read_integer),
            step_bytes=read("step_bytes", partial(read_list, read=partial(read_integer, least=-LARGEST_COUNT))),
            worker_bytes=read("worker_bytes", counts),
            algorithm=read("algorithm", read_string),
            optimality=read("optimality", read_string),
            fingerprint=read("fingerprint", read_string),
            level_bytes=read("level_bytes", counts, ()),
            bandwidths=read("bandwidths", partial(read_list, read=read_positive), ()),
            latencies=read("latencies", partial(read_list, read=read_not_negative), ()),
            level_waits=read("level_waits", counts, ()),
            kept=read("kept", names, ()),
            reread=read("reread", names, ()),
            inputs=read(
                "inputs", partial(read_mapping, read=partial(read_list, read=partial(read_integer, least=1))), {}
            ),
            digest=read("digest", read_string, ""),
            undescribed=read("undescribed", partial(read_mapping, read=Undescribed.read), {}),
        )

    def _check(self) -> None:
        if prod(self.factors) != self.workers:
            raise PlanError(f"The plan's factors {self.factors} do not multiply to its {self.workers} workers.")
        steps = len(self.factors)
        choices: list[tuple[str, Sequence[object]]] = [*self.tensors.items(), *self.operators.items()]
        raise_together(
            PlanError,
            f"The plan has {steps} steps (factors {self.factors}), but it gives another number of choices for:",
            [f"{name}: {len(choice)} choices" for name, choice in choices if len(choice) != steps],
        )
        by_step = "step_bytes", "level_bytes", "bandwidths", "latencies", "level_waits"
        for name, length in (*((name, steps) for name in by_step), ("worker_bytes", self.workers)):
            values = getattr(self, name)
            if values and len(values) != length:
                each = "worker" if name == "worker_bytes" else "step"
                raise PlanError(f"The plan has {length} {each}s, but {len(values)} {name}: one for each is needed.")
        if self.bandwidths and not self.level_bytes:
            raise PlanError("The plan has bandwidths, but no level_bytes, so its seconds are not known. Search again.")
        if bool(self.latencies) != bool(self.level_waits) or (self.latencies and not self.bandwidths):
            raise PlanError(
                "The plan needs latencies, level_waits and bandwidths for its seconds, and lacks some of them. Search again."
            )

    def __str__(self) -> str:
        """An aligned table: a heading, then operators and tensors with their choice at each step."""
        steps = f" ({' + '.join(map(format_bytes, self.step_bytes))})" if self.step_bytes else ""
        lines = [
            f"{format_workers(self.factors)}, {format_bytes(self.communication_bytes)} moved per training step{steps}, "
            f"{self.algorithm} search, {self.optimality}",
        ]
        if self.communication_seconds is not None:
            lines[0] += f"; {format_seconds(self.communication_seconds)} on this interconnect"
        if self.worker_bytes:
            bounds = map(format_bytes, (min(self.worker_bytes), max(self.worker_bytes)))
            lines[0] += f"; memory per worker {' to '.join(dict.fromkeys(bounds))}"
        found = {name: shorten_line(self.lines.get(name, "")) for name in self.operators} if self.lines else {}
        for kind, choices, last in (("operator", self.operators, found), ("tensor", self.tensors, {})):
            rows = [(kind, *(f"step {i + 1}" for i in range(len(self.factors))), "line" if last else "")]
            rows += [
                (name, *("-" if step is None else str(step) for step in choice), last.get(name, ""))
                for name, choice in choices.items()
            ]
            lines += ["", *align(rows)]
        if self.kept:
            lines += ["", f"kept once fetched: {', '.join(self.kept)}"]
        if self.reread:
            lines += ["", f"fetched again by every reader: {', '.join(self.reread)}"]
        if self.undescribed:
            lines += ["", self.describe_undescribed()]
        return "\n".join(lines)

    def describe_undescribed(self) -> str:
        """Return a line that names the operators without a description and what they cost, "" if there are none."""
        if not self.undescribed:
            return ""
        names = [f"{name} ({one.reason})" for name, one in self.undescribed.items()]
        more = f" and {len(names) - MOST_NAMES} more" if names[MOST_NAMES:] else ""
        share = sum(one.work_share for one in self.undescribed.values())
        fetched = sum(one.fetched_bytes for one in self.undescribed.values())
        return (
            f"not described, so that every worker computes all of it: {', '.join(names[:MOST_NAMES])}{more}; "
            f"{share:.1%} of the step's work, and {format_bytes(fetched)} fetched for it"
        )


def shorten_line(line: str) -> str:
    """Return a line of a program as `file:line`, the file as it is called from the working directory if it is below that."""
    below = os.path.join(os.getcwd(), "")
    return line.removeprefix(below)


def format_count(count: int, noun: str) -> str:
    """How many of something: 8 workers, 1 worker."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def format_workers(factors: Sequence[int]) -> str:
    """How many workers there are, and the steps that make them: 6 workers (3 x 2), 1 worker."""
    steps = f" ({' x '.join(map(str, factors))})" if factors else ""
    return f"{format_count(prod(factors), 'worker')}{steps}"


def format_bytes(count: float, digits: int = 1) -> str:
    """A count of bytes as a person reads it: 1,023 B, 1.5 KiB, 2.3 GiB."""
    if count < 0:
        return f"-{format_bytes(-count, digits)}"
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.{digits}f} {unit}"
    return f"{count / 1024:.{digits}f} TiB"


def format_seconds(seconds: float) -> str:
    """A time as a person reads it: 12 us, 3.4 ms, 1.25 s, 7.5 hours."""
    if seconds >= 3600:
        return f"{seconds / 3600:.3g} hours"
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_rate(per_second: float) -> str:
    """How many in a second, to three digits: 0.123, 45.6, 12,300."""
    return f"{float(f'{per_second:.3g}'):,.12g}"


def _read_dimension(value: Any, what: str) -> int | None:
    return None if value is None else read_integer(value, what, most=MOST_DIMENSIONS)


def _read_axis(value: Any, what: str) -> str | None:
    return None if value is None else read_string(value, what)


def align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells as lines, their columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
