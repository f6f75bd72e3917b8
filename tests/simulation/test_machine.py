"""Machines as files: those that come with Tofu, and what is refused."""

import json

import pytest

from tofu.errors import TofuError
from tofu.simulation import list_machines, read_machine
from tofu.simulation.machine import FOLDER


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
    with pytest.raises(TofuError, match=r"not 8\. Known are"):
        read_machine(8)


WRONG = {
    "links that are others": ({"links": [{"parts": 4, "bytes_per_second": 1e9}]}, "divide into 4 devices, not 8"),
    "no devices": ({"devices": 0}, "devices is 0"),
    "no such memory": ({"memory_bytes": "much"}, "memory_bytes is 'much'"),
    "another file": ({"format": "tofu-plan"}, 'format" is not "tofu-machine"'),
    "no rates": ({"rates": {}}, "lacks 'call_microseconds'"),
}


@pytest.mark.parametrize("defect", WRONG)
def test_a_broken_file_is_refused_with_what_is_wrong(defect, tmp_path):
    change, message = WRONG[defect]
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({**json.loads((FOLDER / "8xH100.json").read_text()), **change}))
    with pytest.raises(TofuError, match="is no machine") as raised:
        read_machine(path)
    assert message in str(raised.value)
