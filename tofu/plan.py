"""Plans: how each tensor and each operator of a training step is split over the workers (devices).

A plan splits in *rounds*, one for each prime factor of the number of workers (some baselines have a single round). For
example, a plan for 8 workers has three rounds with two parts each. Each round splits a tensor along a dimension, and an
operator along an *axis*, such as the batch or the output channels. A round may also replicate a tensor or an operator:
all parts then store this tensor, or compute this operator.

A plan prints as a table and can be saved as JSON. You can read it, edit it and apply it again, because it refers to
tensors and operators by name. The plan's fingerprint identifies its model.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

from tofu.errors import PlanError, raise_together
from tofu.formatting import align, format_bytes, format_seconds, format_workers, list_some, shorten_line
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
MEMORY = "memory"
CHANGED = "changed after it was found; nothing is proved"

# Tensors below this size may be replicated.
REPLICATION_LIMIT_BYTES = 64 * 1024

DimensionChoice = tuple[int | None, ...]
AxisChoice = tuple[str | None, ...]


@dataclass(frozen=True)
class Undescribed:
    """The cost of computing an operator on every worker, because it has no valid description.

    Attributes
    ----------
    reason
        The reason why the operator has no valid description.
    fetched_bytes
        Bytes that workers read from each other for this operator in one training step.
    work_share
        The operator's share of the bytes that all operators read and write, from 0 to 1.
    """

    reason: str
    fetched_bytes: int
    work_share: float

    @classmethod
    def read(cls, value: Any, what: str) -> Undescribed:
        """Convert an object from a JSON file. Raise ValueError if it is invalid."""
        cost = read_object(value, what, cls.__dataclass_fields__)
        return cls(
            read_string(cost.get("reason"), f"reason in {what}"),
            read_integer(cost.get("fetched_bytes"), f"fetched_bytes in {what}"),
            read_not_negative(cost.get("work_share"), f"work_share in {what}"),
        )


@dataclass(frozen=True)
class Plan:
    """A plan: how each operator and each tensor of a training step is split over the workers.

    Attributes
    ----------
    workers, factors
        The number of workers, and its prime factors, one for each round (section 5.2).
    tensors
        The dimension that each round splits, for example {"fc_weight": (0, None)}. None replicates.
    operators
        The axis that each round splits, for example {"fc": ("b", None)}. None replicates. The operator's description
        names the axes.
    communication_bytes
        Bytes that workers read from each other's memory in one training step.
    step_bytes
        The bytes that each round adds to `communication_bytes`. Negative if a round saves bytes.
    level_bytes
        The bytes that cross each level of the interconnect, one level for each round. A transfer crosses the level of
        the round that puts its two workers into different groups. Empty for old plans.
    bandwidths, latencies
        Speed of each level in bytes per second, and its delay in microseconds. Empty if the search did not use them.
    level_waits
        Number of reads across each level in a training step. Simultaneous reads count as one.
    kept
        Tensors that a worker reads once, and then keeps until their last use.
    reread
        Tensors that a worker reads again for each time step of a recurrence. `kept` and `reread` are empty without a
        memory limit.
    worker_bytes, measured
        Bytes that each worker needs. `measured` is "memory" for all buffers, or "arguments" for the step's arguments
        alone.
    algorithm, optimality
        The algorithm that found the plan, and a sentence about how close to optimal the plan is.
    search_seconds, search_bytes
        Duration of the search, and peak memory of the exact search. 0 for a loaded plan.
    fingerprint
        A hash of the graph that the plan was made for.
    inputs
        The shape of each input, by name. Empty for plans saved without shapes.
    digest
        A hash of all other saved attributes, to notice edits. Empty for plans that Tofu did not find.
    undescribed
        The cost of replicating each operator without a description (`undescribed="replicate"`), by name.
    lines
        The line of each operator in the user's program, `file:line`, if known. This attribute is not saved.
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
    measured: str = field(default=MEMORY, compare=False)

    def __post_init__(self) -> None:
        for name in ("tensors", "operators", "inputs", "undescribed"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def communication_seconds(self) -> float | None:
        """Seconds of communication in one training step, if transfers do not overlap. None without `bandwidths`."""
        if not self.bandwidths:
            return None
        transfers, waits = (
            zip(self.level_bytes, self.bandwidths, strict=True),
            zip(self.latencies, self.level_waits, strict=True),
        )
        moving_seconds = sum(count / bandwidth for count, bandwidth in transfers)
        return moving_seconds + sum(1e-6 * latency * count for latency, count in waits)

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.factors, self.communication_bytes))

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan.from_json, (self.to_json(),)

    def sealed(self) -> Plan:
        """Return the plan with `digest`, the hash of its content. A later edit changes the hash."""
        return replace(self, digest=self._compute_digest())

    @property
    def is_as_found(self) -> bool:
        """True if the plan was not edited after Tofu found it."""
        return self.digest == self._compute_digest()

    def _compute_digest(self) -> str:
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()[:32]

    def _content(self) -> dict[str, Any]:
        content = {name: getattr(self, name) for name in _READERS if name != "digest"}
        content["undescribed"] = {name: asdict(cost) for name, cost in self.undescribed.items()}
        for name in ("latencies", "level_waits", "undescribed"):
            if not content[name]:
                del content[name]
        if self.measured == MEMORY:
            del content["measured"]
        content = {name: dict(value) if isinstance(value, Mapping) else value for name, value in content.items()}
        return {"format": "tofu-plan", "version": FORMAT_VERSION, **content}

    def to_json(self) -> str:
        """Return the plan as JSON. Equal plans give equal texts, because keys are sorted."""
        digest = {"digest": self.digest} if self.is_as_found else {}
        return json.dumps({**self._content(), **digest}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan from a text that `to_json` has written. Warn if the text was edited.

        To edit a plan without this warning, delete its line "digest". Raises PlanError if the text is not a plan, or
        was written by an incompatible version.
        """
        if isinstance(text, str) and not text.lstrip().startswith(("{", "[")):
            raise PlanError(
                f"from_json takes the text of plan.to_json(), not {show(text)}. For a file, write "
                "Plan.from_json(Path(name).read_text()), or pass the file to partition: plan=name."
            )
        try:
            value = parse_json(text)
        except (TypeError, ValueError) as error:
            raise PlanError(
                f"The plan cannot be read: {error}. The file may be truncated; save the plan again with plan.to_json()."
            ) from error
        if not isinstance(value, dict) or value.get("format") != "tofu-plan":
            raise PlanError(
                'This is not a plan: its "format" is not "tofu-plan". Plans are written by plan.to_json() and '
                "`python -m tofu plan --save`."
            )
        if value.get("version") != FORMAT_VERSION:
            raise PlanError(
                f"The plan has version {show(value.get('version'))}, this Tofu reads version {FORMAT_VERSION}. Search again with this Tofu."
            )
        missing_fields = sorted(name for name in _REQUIRED if name not in value)
        raise_together(PlanError, "The plan is incomplete. It lacks:", missing_fields)
        try:
            plan = cls(**{name: read(value[name], name) for name, read in _READERS.items() if name in value})
            plan._check()
        except ValueError as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"The plan has an invalid value: {error}. Plans are written by plan.to_json().") from error
        return plan._warn_if_edited()

    def _warn_if_edited(self) -> Plan:
        if not self.digest or self.is_as_found:
            return self
        warnings.warn(
            "The plan was edited after it was saved, so its optimality claim no longer holds; its bytes are counted again. If you edited "
            'it, delete the line of its "digest". Otherwise load the plan from where it was saved.',
            stacklevel=3,
        )
        return replace(self, optimality=CHANGED, digest="")

    def _check(self) -> None:
        if prod(self.factors) != self.workers:
            raise PlanError(f"The plan's factors {self.factors} do not multiply to its {self.workers} workers.")
        rounds = len(self.factors)
        choices: list[tuple[str, Sequence[object]]] = [*self.tensors.items(), *self.operators.items()]
        raise_together(
            PlanError,
            f"The plan has {rounds} rounds (factors {self.factors}), but another number of choices for:",
            [f"{name}: {len(choice)} choices" for name, choice in choices if len(choice) != rounds],
        )
        by_round = "step_bytes", "level_bytes", "bandwidths", "latencies", "level_waits"
        for name, length in (*((name, rounds) for name in by_round), ("worker_bytes", self.workers)):
            values = getattr(self, name)
            if values and len(values) != length:
                each = "worker" if name == "worker_bytes" else "round"
                raise PlanError(f"The plan has {length} {each}s, but {len(values)} {name}; each needs one.")
        if self.bandwidths and not self.level_bytes:
            raise PlanError("The plan has bandwidths but no level_bytes, so its seconds are unknown. Search again.")
        if bool(self.latencies) != bool(self.level_waits) or (self.latencies and not self.bandwidths):
            raise PlanError(
                "The plan lacks some of latencies, level_waits and bandwidths, so its seconds are unknown. Search again."
            )

    def __str__(self) -> str:
        """Return a summary, and a table that shows how the operators and tensors are split."""
        rounds = f" ({' + '.join(map(format_bytes, self.step_bytes))})" if self.step_bytes else ""
        lines = [
            f"{format_workers(self.factors)}, {format_bytes(self.communication_bytes)} moved per training step{rounds}, "
            f"{self.algorithm} search, {self.optimality}",
        ]
        if self.communication_seconds is not None:
            lines[0] += f"; {format_seconds(self.communication_seconds)} on this interconnect"
        if self.worker_bytes:
            bounds = map(format_bytes, (min(self.worker_bytes), max(self.worker_bytes)))
            lines[0] += f"; {self.measured} per worker {' to '.join(dict.fromkeys(bounds))}"
        source_lines = {name: shorten_line(self.lines.get(name, "")) for name in self.operators} if self.lines else {}
        for kind, choices, lines_by_name in (("operator", self.operators, source_lines), ("tensor", self.tensors, {})):
            rows = [(kind, *(f"round {i + 1}" for i in range(len(self.factors))), "line" if lines_by_name else "")]
            rows += [
                (name, *("-" if split is None else str(split) for split in choice), lines_by_name.get(name, ""))
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
        """List the operators without a description, and their cost, in one line. Return "" if there are none."""
        if not self.undescribed:
            return ""
        names = [f"{name} ({cost.reason})" for name, cost in self.undescribed.items()]
        share = sum(cost.work_share for cost in self.undescribed.values())
        fetched = sum(cost.fetched_bytes for cost in self.undescribed.values())
        return (
            f"without a description, computed whole by every worker: {list_some(names)}; "
            f"{share:.1%} of the step's work, and {format_bytes(fetched)} fetched for it"
        )


def _read_dimension(value: Any, what: str) -> int | None:
    return None if value is None else read_integer(value, what, most=MOST_DIMENSIONS)


def _read_axis(value: Any, what: str) -> str | None:
    return None if value is None else read_string(value, what)


_integers, _texts = partial(read_list, read=read_integer), partial(read_list, read=read_string)
_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "workers": partial(read_integer, least=1, most=MOST_WORKERS),
    "factors": partial(read_list, read=partial(read_integer, least=2, most=MOST_WORKERS)),
    "tensors": partial(read_mapping, read=partial(read_list, read=_read_dimension)),
    "operators": partial(read_mapping, read=partial(read_list, read=_read_axis)),
    "communication_bytes": read_integer,
    "step_bytes": partial(read_list, read=partial(read_integer, least=-LARGEST_COUNT)),
    "worker_bytes": _integers,
    "algorithm": read_string,
    "optimality": read_string,
    "fingerprint": read_string,
    "level_bytes": _integers,
    "bandwidths": partial(read_list, read=read_positive),
    "latencies": partial(read_list, read=read_not_negative),
    "level_waits": _integers,
    "kept": _texts,
    "reread": _texts,
    "inputs": partial(read_mapping, read=partial(read_list, read=partial(read_integer, least=1))),
    "digest": read_string,
    "undescribed": partial(read_mapping, read=Undescribed.read),
    "measured": read_string,
}
"""Maps each saved field to the function that validates its JSON value."""
_REQUIRED = [each.name for each in fields(Plan) if each.default is MISSING and each.default_factory is MISSING]
