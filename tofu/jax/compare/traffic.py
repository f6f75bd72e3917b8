"""Count the communication in a compiled step, from the text of the compiler's optimized program.

    count_traffic(step.lower(*args).compile().as_text(), devices)

A collective in a loop counts once for each iteration, if the text contains the number of iterations.
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
"""Matches a collective that a TPU overlaps with computation.

The collective appears in several fusions. The first starts it, others run meanwhile, and the last ends it.
"""
FUSED_START = "AsyncCollectiveStart"


@dataclass
class CollectiveTraffic:
    """Bytes that all devices receive in one step, by kind of collective, such as "all-reduce".

    Attributes
    ----------
    bytes
        All bytes.
    between
        Bytes that cross between hosts.
    overlapped
        Bytes that are transferred while devices compute.
    count
        Number of collectives (operations that transfer data between devices) in the program's text.
    """

    bytes: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    between: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    overlapped: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    count: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Bytes of all kinds of collectives."""
        return round(sum(self.bytes.values()))

    def __str__(self) -> str:
        kinds = ", ".join(
            f"{self.count[kind]} {kind} {self.bytes[kind] / 1e6:.2f}" for kind in KINDS if self.count[kind]
        )
        return f"{self.total / 1e6:.2f} MB ({kinds})"


def count_traffic(text: str, devices: int, host_devices: int = 0) -> CollectiveTraffic:
    """Count the bytes that one run of a compiled step transfers. `text` is the compiled program.

    `host_devices` is the number of devices per host. If it is 0, there is only one host.
    """
    computations, entry = _split_computations(text)
    runs = _count_runs(computations, entry)
    hidden_channels = _find_hidden_channels(computations)
    traffic = CollectiveTraffic()
    for name, lines in computations.items():
        has_fused_start = any(FUSED_START in line for line in lines)
        for number, line in enumerate(lines):
            collective, fused = COLLECTIVE.search(line), FUSED.search(line)
            if collective is None or (fused and not has_fused_start):
                continue
            kind = collective["kind"]
            count, share = _count_bytes(line, collective, devices, host_devices or devices)
            traffic.count[kind] += 1
            traffic.bytes[kind] += runs[name] * count
            traffic.between[kind] += runs[name] * count * share
            if fused[1] in hidden_channels if fused else collective["started"] and _is_overlapped(lines, number):
                traffic.overlapped[kind] += runs[name] * count
    return traffic


def _find_hidden_channels(computations: Mapping[str, Sequence[str]]) -> set[str]:
    hidden_channels: set[str] = set()
    for lines in computations.values():
        channels = {match[1] for line in lines if (match := FUSED.search(line))}
        if channels and any(WORK.search(line) for line in lines):
            hidden_channels |= channels
    return hidden_channels


def _is_overlapped(lines: Sequence[str], start: int) -> bool:
    name = re.escape(lines[start].split("=")[0].split()[-1])
    for line in lines[start + 1 :]:
        if re.search(rf"-done\({name}\)", line):
            return False
        if WORK.search(line):
            return True
    return False


def _split_computations(text: str) -> tuple[dict[str, list[str]], str]:
    computations: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if not line.startswith(" ") and (header := COMPUTATION.match(line)):
            name = header["name"]
            computations[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif name:
            computations[name].append(line)
    return computations, entry


def _count_runs(computations: Mapping[str, Sequence[str]], entry: str) -> Counter[str]:
    run_counts: Counter[str] = Counter()

    def visit(name: str, runs: int) -> None:
        run_counts[name] += runs
        for called, trip_count in _list_calls(computations.get(name, ())):
            visit(called, runs * trip_count)

    visit(entry, 1)
    return run_counts


def _list_calls(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        trip_count = TRIPS.search(line)
        for call in CALL.finditer(line):
            for called in (call["several"] or call["one"]).split(","):
                yield called.strip(" %"), int(trip_count[1]) if trip_count else 1


def _count_bytes(line: str, collective: re.Match[str], devices: int, host_devices: int) -> tuple[float, float]:
    kind = collective["kind"]
    size = sum(_list_results(collective))
    if kind == "collective-permute":
        pairs_text = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
        pair_texts = re.findall(r"(\d+),(\d+)", pairs_text[1] if pairs_text else "")
        all_pairs = [(int(source), int(target)) for source, target in pair_texts]
        pairs = [(source, target) for source, target in all_pairs if source != target]
        return size * len(pairs), _find_share_between_hosts(pairs, host_devices)
    groups = _list_groups(line, devices)
    group_size = len(groups[0])
    received = {"all-reduce": 2 * (group_size - 1) / group_size, "reduce-scatter": group_size - 1}.get(
        kind, (group_size - 1) / group_size
    )
    if kind == "all-to-all":
        pairs = [pair for group in groups for pair in permutations(group, 2)]
        share = _find_share_between_hosts(pairs, host_devices)
    else:
        share = _find_share_between_hosts_in_rings(groups, host_devices)
    return size * received * group_size * len(groups), share


def _find_share_between_hosts(pairs: Sequence[tuple[int, int]], host_devices: int) -> float:
    return sum(source // host_devices != target // host_devices for source, target in pairs) / max(len(pairs), 1)


def _find_share_between_hosts_in_rings(groups: Sequence[Sequence[int]], host_devices: int) -> float:
    host_counts = [len({device // host_devices for device in group}) for group in groups]
    return sum(count - 1 for count in host_counts) / max(sum(len(group) - 1 for group in groups), 1)


def _list_results(collective: re.Match[str]) -> list[float]:
    sizes = _list_sizes(collective["result"])
    if not collective["started"]:
        return sizes
    if collective["kind"] == "collective-permute":
        return sizes[1:2]
    if collective["result"].startswith("((") or collective["kind"] == "all-gather":
        return sizes[len(sizes) // 2 :]
    return sizes


def _list_sizes(text: str) -> list[float]:
    return [
        _read_item_bytes(item) * prod(map(int, filter(None, dimensions.split(","))))
        for item, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", text)
    ]


def _read_item_bytes(name: str) -> float:
    if name == "pred":
        return 1
    if (found := re.match(r"(?:bf|f|c|s|u)(\d+)", name)) is None:
        raise InternalError(f"XLA moves numbers of type {name}, whose size is not known.")
    return int(found[1]) / 8


def _list_groups(line: str, devices: int) -> list[list[int]]:
    if match := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        numbers: np.ndarray[Any, Any] = np.arange(int(match[1]) * int(match[2])).reshape(_read_numbers(match[3]))
        if match[4]:
            numbers = numbers.transpose(_read_numbers(match[4]))
        return _read_rows(numbers.reshape(int(match[1]), int(match[2])))
    if match := re.search(r"replica_groups=\{(\{[\d,{} ]*\})\}", line):
        return [_read_numbers(group) for group in re.findall(r"\{([\d, ]+)\}", match[1])]
    if match := re.search(r"replica_groups=mesh\[([^\]]+)\] \{((?:'\w+',?)+)\}", line):  # mesh axes, since 0.12
        axes = {name: int(extent) for name, extent in re.findall(r"'(\w+)'=(\d+)", match[1])}
        grouped = re.findall(r"'(\w+)'", match[2])
        kept_axes = [axis for axis, name in enumerate(axes) if name not in grouped]
        numbers = np.arange(prod(axes.values())).reshape(list(axes.values()))
        numbers = numbers.transpose(*kept_axes, *map(list(axes).index, grouped))
        return _read_rows(numbers.reshape(-1, prod(axes[name] for name in grouped)))
    if "replica_groups=" in line and "replica_groups={}" not in line:
        raise InternalError(f"XLA tells the groups of a collective in a way that is not known: {line.strip()[:300]}")
    return [list(range(devices))]


def _read_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _read_rows(numbers: np.ndarray[Any, Any]) -> list[list[int]]:
    return [[int(number) for number in row] for row in numbers]
