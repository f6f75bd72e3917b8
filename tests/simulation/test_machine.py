"""Machines as files: those that come with Tofu, and what is refused."""

import json
import re

import pytest

from tofu.errors import TofuError
from tofu.simulation import list_machines, read_machine
from tofu.simulation.machine import FIELDS, FOLDER, LINK_FIELDS, RATE_FIELDS


@pytest.mark.parametrize("name", list_machines())
def test_each_machine_says_where_its_numbers_come_from(name):
    machine = read_machine(name)
    assert machine.sources
    assert 0 < machine.usable_bytes < machine.memory_bytes
    assert read_machine(name.upper()) == machine


def test_two_hosts_are_two_levels():
    machine = read_machine("2x8xH100")
    assert [machine.level_of(0, other) for other in (1, 7, 8, 15)] == [1, 1, 0, 0]
    assert [machine.part_of(device, 0) for device in (0, 7, 8, 15)] == [0, 0, 1, 1]
    assert machine.part_of(9, 1) == 9


@pytest.mark.parametrize("name", ["arithmetic", "memory", "call", "links", "latency", "host"])
def test_one_number_at_a_time_is_changed(name):
    machine = read_machine("8xH100")
    changed = machine.scale(name, 2)
    assert changed != machine
    assert changed.scale(name, 0.5) == machine


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(TofuError, match=r"no machine '9xH100'.*8xH100.*tofu calibrate"):
        read_machine("9xH100")
    with pytest.raises(TofuError, match=r"not 8\. Known machines are"):
        read_machine(8)


WRONG = {
    "links that are others": ({"links": [{"parts": 4, "bytes_per_second": 1e9}]}, "divide into 4 devices, not 8"),
    "no devices": ({"devices": 0}, "devices is 0"),
    "no such memory": ({"memory_bytes": "much"}, "memory_bytes is 'much'"),
    "another file": ({"format": "tofu-plan"}, 'format" is not "tofu-machine"'),
    "no rates": ({"rates": {}}, "lacks 'call_microseconds'"),
    "rates that are a list": ({"rates": [1]}, "rates is [1], not an object with fields"),
    "a misspelt field": (
        {"reserved_byte": 5},
        "field 'reserved_byte', which is unknown (did you mean reserved_bytes?)",
    ),
    "a misspelt field of a link": (
        {"links": [{"parts": 8, "bytes_per_second": 1e9, "microsecond": 6}]},
        "one of the links has a field 'microsecond', which is unknown (did you mean microseconds?)",
    ),
    "links that are numbers": ({"links": [8]}, "one of the links is 8, not an object with fields"),
    "links that are one": ({"links": {"parts": 8}}, "links is {'parts': 8}, not a list"),
    "more reserved than there is": ({"reserved_bytes": 85899345920}, "not an integer from 0 to 85899345919"),
    "a text for a truth value": ({"fetches_overlap": "false"}, "fetches_overlap is 'false', neither true nor false"),
    "sources that are a text": ({"sources": "NVIDIA"}, "sources is 'NVIDIA', not a list"),
}
RATES = {
    "a misspelt rate": (
        {"half_depht": 64},
        "rates has a field 'half_depht', which is unknown (did you mean half_depth?)",
    ),
    "kernels that were not fitted": ({"measured": {"dot": {"call": 1e-6}}}, "lacks 'contracted'"),
    "kernels fitted to something else": ({"measured": {"dot": {"calls": 1}}}, "measured of 'dot' has a field 'calls'"),
    "kernels as a list": ({"measured": [1]}, "measured is [1], not a mapping of names"),
}


@pytest.mark.parametrize("defect", [*WRONG, *RATES])
def test_a_broken_file_is_refused_with_what_is_wrong(defect, tmp_path):
    path, whole = tmp_path / "machine.json", json.loads((FOLDER / "8xH100.json").read_text())
    change, message = WRONG.get(defect) or ({"rates": {**whole["rates"], **RATES[defect][0]}}, RATES[defect][1])
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(TofuError, match="is not a machine") as raised:
        read_machine(path)
    assert message in str(raised.value)


def test_the_document_lists_the_fields_of_a_machine():
    document = (FOLDER.parents[2] / "docs" / "simulation.md").read_text()
    lines = [line for line in document.splitlines() if line.startswith("| `")]
    assert {word for line in lines for word in re.findall("`([a-z_]+)`", line)} >= FIELDS | LINK_FIELDS | RATE_FIELDS
