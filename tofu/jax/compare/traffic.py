"""Bytes that a compiled JAX step moves between devices, counted from its optimised HLO.

`count_traffic(step.lower(*args).compile().as_text(), devices)`. What stands in the body of a loop counts as often as the loop is known
to run. Where collectives have a start and an end of their own, as XLA has them for TPUs, what moves while devices compute is told apart.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from tofu.errors import InternalError

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
COLLECTIVE = re.compile(rf"= (?P<result>.*?) (?P<kind>{'|'.join(KINDS)})(?P<started>-start)?\(")
COMPUTATION = re.compile(r"(?:ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
CALL = re.compile(
    r"(?:calls|to_apply|body|condition|branch_computations)=(?:\{(?P<several>[^}]*)\}|(?P<one>%?[\w.-]+))"
)
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
WORK = re.compile(
    r" (?:call|conditional|convolution|custom-call(?!.*AsyncCollective)|dot|fusion|reduce|scatter|sort|while)\("
)
FUSED = re.compile(r"channel_id=(\d+),.*\bchain_id=")
"""Of a collective that a TPU runs within other work: it stands in the fusion that begins it, in those that go on beside it, and in the one
that ends it.
"""
FUSED_START = "AsyncCollectiveStart"


@dataclass
class CollectiveTraffic:
    """Bytes that all devices receive in one step, by the kind of collective, and how many there are in the text. `between`: those of the
    bytes that come from other hosts; `overlapped`: those for which devices do other work between start and end of a collective.
    """

    bytes: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    between: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    overlapped: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    count: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Of all kinds."""
        return round(sum(self.bytes.values()))

    def __str__(self) -> str:
        kinds = ", ".join(
            f"{self.count[kind]} {kind} {self.bytes[kind] / 1e6:.2f}" for kind in KINDS if self.count[kind]
        )
        return f"{self.total / 1e6:.2f} MB ({kinds})"


def count_traffic(text: str, devices: int, host_devices: int = 0) -> CollectiveTraffic:
    """The traffic of one run of an optimised HLO module, as text, on hosts of so many devices each; 0: all are on one."""
    computations, entry = _split(text)
    times = _count_runs(computations, entry)
    hidden = _find_hidden(computations)
    traffic = CollectiveTraffic()
    for name, lines in computations.items():
        begins = any(FUSED_START in line for line in lines)
        for number, line in enumerate(lines):
            found, fused = COLLECTIVE.search(line), FUSED.search(line)
            if found is None or (fused and not begins):
                continue
            kind = found["kind"]
            count, share = _count_bytes(line, found, devices, host_devices or devices)
            traffic.count[kind] += 1
            traffic.bytes[kind] += times[name] * count
            traffic.between[kind] += times[name] * count * share
            if fused[1] in hidden if fused else found["started"] and _is_overlapped(lines, number):
                traffic.overlapped[kind] += times[name] * count
    return traffic


def _find_hidden(computations: Mapping[str, Sequence[str]]) -> set[str]:
    """The channels of collectives that run within fusions that compute something else as well."""
    hidden: set[str] = set()
    for lines in computations.values():
        channels = {found[1] for line in lines if (found := FUSED.search(line))}
        if channels and any(WORK.search(line) for line in lines):
            hidden |= channels
    return hidden


def _is_overlapped(lines: Sequence[str], start: int) -> bool:
    """Whether anything is computed between the start of a collective, in a computation in the order in which it runs, and its end."""
    name = re.escape(lines[start].split("=")[0].split()[-1])
    for line in lines[start + 1 :]:
        if re.search(rf"-done\({name}\)", line):
            return False
        if WORK.search(line):
            return True
    return False


def _split(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation, and the name of that of the whole module."""
    computations: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if not line.startswith(" ") and (found := COMPUTATION.match(line)):
            name = found["name"]
            computations[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif name:
            computations[name].append(line)
    return computations, entry


def _count_runs(computations: Mapping[str, Sequence[str]], entry: str) -> Counter[str]:
    """How often each computation runs."""
    times: Counter[str] = Counter()

    def visit(name: str, runs: int) -> None:
        times[name] += runs
        for called, trips in _list_calls(computations.get(name, ())):
            visit(called, runs * trips)

    visit(entry, 1)
    return times


def _list_calls(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        trips = TRIPS.search(line)
        for found in CALL.finditer(line):
            for called in (found["several"] or found["one"]).split(","):
                yield called.strip(" %"), int(trips[1]) if trips else 1


def _count_bytes(line: str, found: re.Match[str], devices: int, host_devices: int) -> tuple[float, float]:
    """The bytes of one collective, and which share of them goes from host to host."""
    kind = found["kind"]
    size = sum(_list_results(found))
    if kind == "collective-permute":
        listed = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
        ends = [(int(a), int(b)) for a, b in re.findall(r"(\d+),(\d+)", listed[1] if listed else "")]
        pairs = [(a, b) for a, b in ends if a != b]
        return size * len(pairs), _share_between(pairs, host_devices)
    groups = _list_groups(line, devices)
    members = len(groups[0])
    received = {"all-reduce": 2 * (members - 1) / members, "reduce-scatter": members - 1}.get(
        kind, (members - 1) / members
    )
    pairs = [pair for group in groups for pair in permutations(group, 2)]
    return size * received * members * len(groups), _share_between(pairs, host_devices)


def _share_between(pairs: Sequence[tuple[int, int]], host_devices: int) -> float:
    """Which share of pairs of devices, each of which sends as much, is of two hosts."""
    return sum(a // host_devices != b // host_devices for a, b in pairs) / max(len(pairs), 1)


def _list_results(found: re.Match[str]) -> list[float]:
    """The bytes of what a collective gives. Where it is only started, most have their operands before that, in one tuple with it or in one
    of their own, as on GPUs.
    """
    sizes = _list_sizes(found["result"])
    if not found["started"]:
        return sizes
    if found["kind"] == "collective-permute":
        return sizes[1:2]
    if found["result"].startswith("((") or found["kind"] == "all-gather":
        return sizes[len(sizes) // 2 :]
    return sizes


def _list_sizes(text: str) -> list[float]:
    return [
        _read_item_bytes(item) * prod(map(int, filter(None, dimensions.split(","))))
        for item, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", text)
    ]


def _read_item_bytes(name: str) -> float:
    """The bytes of a number of XLA's type: `f32`, `bf16`, `c64`, `u8`, `f8e4m3fn`, `s4`, `pred`. Raises InternalError for another."""
    if name == "pred":
        return 1
    if (found := re.match(r"(?:bf|f|c|s|u)(\d+)", name)) is None:
        raise InternalError(f"XLA moves numbers of type {name}, whose size is not known.")
    return int(found[1]) / 8


def _list_groups(line: str, devices: int) -> list[list[int]]:
    """The devices of each group. Raises InternalError where they are told in another way than is known here."""
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        numbers: np.ndarray[Any, Any] = np.arange(int(found[1]) * int(found[2])).reshape(_read_numbers(found[3]))
        if found[4]:
            numbers = numbers.transpose(_read_numbers(found[4]))
        return _read_rows(numbers.reshape(int(found[1]), int(found[2])))
    if found := re.search(r"replica_groups=\{(\{[\d,{} ]*\})\}", line):
        return [_read_numbers(group) for group in re.findall(r"\{([\d, ]+)\}", found[1])]
    if found := re.search(r"replica_groups=mesh\[([^\]]+)\] \{((?:'\w+',?)+)\}", line):  # axes of a mesh, with 0.12
        axes = {name: int(extent) for name, extent in re.findall(r"'(\w+)'=(\d+)", found[1])}
        grouped = re.findall(r"'(\w+)'", found[2])
        kept = [axis for axis, name in enumerate(axes) if name not in grouped]
        numbers = np.arange(prod(axes.values())).reshape(list(axes.values()))
        numbers = numbers.transpose(*kept, *map(list(axes).index, grouped))
        return _read_rows(numbers.reshape(-1, prod(axes[name] for name in grouped)))
    if "replica_groups=" in line and "replica_groups={}" not in line:
        raise InternalError(f"XLA tells the groups of a collective in a way that is not known: {line.strip()[:300]}")
    return [list(range(devices))]


def _read_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _read_rows(numbers: np.ndarray[Any, Any]) -> list[list[int]]:
    return [[int(number) for number in row] for row in numbers]
