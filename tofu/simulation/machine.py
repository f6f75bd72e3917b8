"""Describe machines: their devices, and the interconnect between devices.

A machine is a JSON file in `machines/`, or a file that `python -m tofu calibrate` wrote. Worker w of a plan runs on
device w. The top level of the interconnect divides the devices into parts, and each further level divides these parts.
The rounds of a plan divide the workers in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from math import gcd, prod
from pathlib import Path
from typing import Any

from tofu.errors import TofuError
from tofu.search.topology import Level, Topology
from tofu.simulation.kernels import KernelRates, Rates
from tofu.validation import (
    parse_json,
    read_boolean,
    read_integer,
    read_list,
    read_mapping,
    read_not_negative,
    read_object,
    read_positive,
    read_string,
    read_text,
    show,
)

FOLDER = Path(__file__).parent / "machines"
FORMAT = "tofu-machine"
NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Link:
    """A level of the interconnect.

    Two hosts with eight GPUs each have two levels: `Link(2, 50e9)` between hosts, then `Link(8, 450e9)` inside a host.

    Attributes
    ----------
    parts
        The number of hosts or devices that the level connects.
    bytes_per_second
        Bandwidth of each part, while all parts read from each other.
    seconds
        Latency: the seconds before the first byte arrives.
    shared
        Bandwidth that all parts share, or None if each part has its own.
    """

    parts: int
    bytes_per_second: float
    seconds: float = 0.0
    shared: float | None = None


@dataclass(frozen=True)
class Machine:
    """Several equal devices, and their interconnect.

    Attributes
    ----------
    reserved_bytes
        The memory of a device that the framework needs for itself.
    links
        The levels of the interconnect, the top level first. Empty if all memory is equally fast.
    host
        Bytes per second between the host's memory and all devices together; 0 if the devices are the host.
    fetches_overlap
        True if a device can compute while it reads from other devices.
    processors
        The number of processors that all virtual devices share. It is 0 if each device has its own processor.
    step
        Seconds from the start of a training step to its first kernel.
    slowdown, slowdown_of_several
        The time of a kernel within a training step, relative to its time alone: on one device, and on several.
    """

    name: str
    devices: int
    memory_bytes: int
    rates: Rates
    links: tuple[Link, ...] = ()
    reserved_bytes: int = 0
    host: float = 0.0
    fetches_overlap: bool = True
    processors: float = 0.0
    step: float = 0.0
    slowdown: float = 1.0
    slowdown_of_several: float = 1.0
    sources: tuple[str, ...] = ()

    @property
    def usable_bytes(self) -> int:
        """Bytes of a device that a model can use."""
        return self.memory_bytes - self.reserved_bytes

    def level_of(self, a: int, b: int) -> int:
        """Return the level of the interconnect through which devices `a` and `b` communicate."""
        part_size = self.devices
        for level, link in enumerate(self.links):
            part_size //= link.parts
            if a // part_size != b // part_size:
                return level
        return len(self.links) - 1

    def part_of(self, device: int, level: int) -> int:
        """Return the number of the part that contains `device` at this level.

        If level 0 connects 2 hosts with 8 GPUs each, device 9 is in part 1 of level 0.
        """
        return device // (self.devices // prod(link.parts for link in self.links[: level + 1]))

    def scale(self, name: str, factor: float) -> Machine:
        """Return a copy of the machine. In it, the speed or time `name` is multiplied by `factor`.

        `name` is "arithmetic", "memory", "call", "links", "latency" or "host". For "call" and "latency", a factor above
        1 makes the machine slower.
        """
        factors = dict.fromkeys(("arithmetic", "memory", "call", "links", "latency", "host"), 1.0) | {name: factor}
        rates = replace(
            self.rates,
            contracted={dtype: rate * factors["arithmetic"] for dtype, rate in self.rates.contracted.items()},
            other={dtype: rate * factors["arithmetic"] for dtype, rate in self.rates.other.items()},
            memory=self.rates.memory * factors["memory"],
            call=self.rates.call * factors["call"],
            call_of_several=self.rates.call_of_several * factors["call"],
        )
        links = tuple(
            Link(
                link.parts,
                link.bytes_per_second * factors["links"],
                link.seconds * factors["latency"],
                link.shared and link.shared * factors["links"],
            )
            for link in self.links
        )
        return replace(self, rates=rates, links=links, host=self.host * factors["host"])

    def __str__(self) -> str:
        return self.name


def list_machines() -> tuple[str, ...]:
    """Return the names of the machines that come with Tofu."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read_machine(machine: Any) -> Machine:
    """Return a machine by its name, or from a JSON file. Raise TofuError for anything else.

    >>> read_machine("8xH100").devices
    8
    """
    if isinstance(machine, Machine):
        return machine
    if not isinstance(machine, (str, Path)):
        raise TofuError(f"A machine is a name or the path of a JSON file, not {show(machine)}. {list_known()}")
    file_names = {name.lower(): name for name in list_machines()}
    path = FOLDER / f"{file_names[str(machine).lower()]}.json" if str(machine).lower() in file_names else Path(machine)
    try:
        value = parse_json(read_text(path))
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ValueError(f'its "format" is not "{FORMAT}"')
        return read_fields(value)
    except OSError as error:
        raise TofuError(
            f"There is no machine {show(str(machine))}, nor such a file ({error.strerror}). {list_known()}"
        ) from error
    except (ValueError, KeyError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise TofuError(
            f"{path} is not a machine: {reason}. docs/simulation.md lists its fields. {list_known()}"
        ) from error


def is_machine(name_or_file: str) -> bool:
    """Return True for the name of a known machine, and for a file that describes a machine."""
    if name_or_file.lower() in map(str.lower, list_machines()):
        return True
    try:
        value = parse_json(read_text(name_or_file))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and value.get("format") == FORMAT


def make_topology(machine: Machine, workers: int) -> Topology:
    """Return the levels of the interconnect between the first `workers` devices of a machine.

    Raise TofuError if these devices cannot be divided equally, such as 9 devices on hosts with 8 devices.

    >>> [level.workers for level in make_topology(read_machine("2x8xH100"), 16).levels]
    [2, 8]
    """
    levels: list[Level] = []
    remaining = workers
    for link in reversed(machine.links):
        parts = gcd(remaining, link.parts)
        remaining //= parts
        if parts > 1:
            bytes_per_second = remaining * (link.shared or parts * link.bytes_per_second)
            levels.insert(0, Level(bytes_per_second, parts, 1e6 * link.seconds))
    if remaining > 1 or not levels:
        sizes = " x ".join(str(link.parts) for link in machine.links) or "no"
        raise TofuError(f"{machine} has links between {sizes} devices, which {workers} workers cannot fill equally.")
    return Topology(tuple(levels))


def find_interconnect(topology: Any, workers: int) -> Any:
    """Return the interconnect between `workers` devices if `topology` is a machine, its name or its file.

    Otherwise, return `topology` unchanged. One worker has no interconnect: then return None for a machine.
    """
    is_name = isinstance(topology, (str, Path)) and is_machine(str(topology))
    if not is_name and not isinstance(topology, Machine):
        return topology
    return make_topology(read_machine(topology), workers) if workers > 1 else None


def list_known() -> str:
    """Return a sentence that names the known machines."""
    return f"Known machines are {', '.join(list_machines())}; `python -m tofu calibrate` measures this one."


FIELDS = {"format", "name", "devices", "memory_bytes", "rates"} | {  # required fields | optional fields
    *("reserved_bytes", "links", "host_bytes_per_second", "fetches_overlap", "processors"),
    *("slowdown", "slowdown_of_several", "step_microseconds", "sources"),
}
LINK_FIELDS = {"parts", "bytes_per_second"} | {"microseconds", "shared_bytes_per_second"}
RATE_FIELDS = {
    *("contracted_operations_per_second", "other_operations_per_second", "memory_bytes_per_second", "call_microseconds")
} | {"call_microseconds_of_several", "units", "tile_cells", "half_depth", "cache_bytes", "measured"}


def read_fields(value: Any) -> Machine:
    """Convert a machine's JSON (docs/simulation.md) to a `Machine`. Raise ValueError or KeyError for wrong fields."""
    value = read_object(value, "the machine", FIELDS)
    devices = read_integer(value["devices"], "devices", least=1)
    memory_bytes = read_integer(value["memory_bytes"], "memory_bytes", least=1)
    links = read_list(value.get("links", ()), "links", _read_link)
    if links and prod(link.parts for link in links) != devices:
        raise ValueError(
            f"its links divide into {' x '.join(str(link.parts) for link in links)} devices, not {devices}"
        )
    return Machine(
        name=read_string(value["name"], "name"),
        devices=devices,
        memory_bytes=memory_bytes,
        rates=_read_rates(value["rates"]),
        links=links,
        reserved_bytes=read_integer(value.get("reserved_bytes", 0), "reserved_bytes", most=memory_bytes - 1),
        host=read_not_negative(value.get("host_bytes_per_second", 0), "host_bytes_per_second"),
        fetches_overlap=read_boolean(value.get("fetches_overlap", True), "fetches_overlap"),
        processors=read_not_negative(value.get("processors", 0), "processors"),
        slowdown=read_positive(value.get("slowdown", 1), "slowdown"),
        slowdown_of_several=read_positive(value.get("slowdown_of_several", 1), "slowdown_of_several"),
        step=1e-6 * read_not_negative(value.get("step_microseconds", 0), "step_microseconds"),
        sources=read_list(value.get("sources", ()), "sources", read_string),
    )


def _read_link(value: Any, what: str) -> Link:
    link = read_object(value, f"one of the {what}", LINK_FIELDS)
    shared = link.get("shared_bytes_per_second")
    return Link(
        parts=read_integer(link["parts"], "parts", least=2),
        bytes_per_second=read_positive(link["bytes_per_second"], "bytes_per_second"),
        seconds=1e-6 * read_not_negative(link.get("microseconds", 0), "microseconds"),
        shared=None if shared is None else read_positive(shared, "shared_bytes_per_second"),
    )


def _read_measured(value: Any, what: str) -> KernelRates:
    names = [field.name for field in fields(KernelRates)]
    numbers = {"error": 0.0, **read_object(value, what, names)}
    return KernelRates(**{name: read_not_negative(numbers[name], f"{name} of {what}") for name in names})


def _read_rates(value: Any) -> Rates:
    value = read_object(value, "rates", RATE_FIELDS)
    by_type = partial(read_mapping, read=read_positive)
    call = 1e-6 * read_not_negative(value["call_microseconds"], "call_microseconds")
    call_of_several = read_not_negative(
        value.get("call_microseconds_of_several", 1e6 * call), "call_microseconds_of_several"
    )
    rates = Rates(
        contracted=by_type(value["contracted_operations_per_second"], "contracted_operations_per_second"),
        other=by_type(value["other_operations_per_second"], "other_operations_per_second"),
        memory=read_positive(value["memory_bytes_per_second"], "memory_bytes_per_second"),
        call=call,
        call_of_several=1e-6 * call_of_several,
        units=read_integer(value.get("units", 0), "units"),
        tile=read_integer(value.get("tile_cells", 1), "tile_cells", least=1),
        half_depth=read_not_negative(value.get("half_depth", 0), "half_depth"),
        cache=read_integer(value.get("cache_bytes", NO_LIMIT), "cache_bytes"),
        measured=read_mapping(value.get("measured", {}), "measured", _read_measured),
    )
    for name, rate_by_type in (("contracted", rates.contracted), ("other", rates.other)):
        if "float32" not in rate_by_type:
            raise ValueError(f'its {name}_operations_per_second lack "float32"')
    return rates
