import json

import pytest

from tofu.errors import TofuError
from tofu.simulation import list_machines, read_machine
from tofu.simulation.machine import FOLDER, find_interconnect, make_topology


@pytest.mark.parametrize("name", list_machines())
def test_each_machine_states_its_sources(name):
    machine = read_machine(name)
    assert machine.sources
    assert 0 < machine.usable_bytes < machine.memory_bytes
    assert read_machine(name.upper()) == machine


def test_two_hosts_are_two_levels():
    machine = read_machine("2x8xH100")
    assert [machine.level_of(0, worker) for worker in (1, 7, 8, 15)] == [1, 1, 0, 0]
    assert [machine.part_of(device, 0) for device in (0, 7, 8, 15)] == [0, 0, 1, 1]
    assert machine.part_of(9, 1) == 9


@pytest.mark.parametrize(
    ("workers", "levels"),
    [(16, [(2, 640e9, 20), (8, 16 * 360e9, 6)]), (8, [(8, 8 * 360e9, 6)]), (4, [(4, 4 * 360e9, 6)])],
)
def test_a_machine_is_a_topology_of_its_first_devices(workers, levels):
    machine = read_machine("2x8xH100")
    found = [
        (level.workers, level.bytes_per_second, level.microseconds) for level in make_topology(machine, workers).levels
    ]
    assert found == [pytest.approx(level) for level in levels]


def test_workers_that_do_not_fill_a_machine_equally_have_no_topology():
    with pytest.raises(TofuError, match="links between 2 x 8 devices, which 6 workers cannot fill equally"):
        make_topology(read_machine("2x8xH100"), 6)


@pytest.mark.parametrize("name", ["arithmetic", "memory", "call", "links", "latency", "host"])
def test_scaling_changes_one_number(name):
    machine = read_machine("8xH100")
    changed = machine.scale(name, 2)
    assert changed != machine
    assert changed.scale(name, 0.5) == machine


def test_unknown_machines_are_refused():
    with pytest.raises(TofuError, match=r"no machine '9xH100'.*8xH100.*tofu calibrate"):
        read_machine("9xH100")
    with pytest.raises(TofuError, match=r"not 8\. Known machines are"):
        read_machine(8)


WRONG = {
    "links that are others": ({"links": [{"parts": 4, "bytes_per_second": 1e9}]}, "divide into 4 devices, not 8"),
    "no devices": ({"devices": 0}, "devices is 0"),
    "another file": ({"format": "tofu-plan"}, 'format" is not "tofu-machine"'),
    "no rates": ({"rates": {}}, "lacks 'call_microseconds'"),
    "a misspelt field": ({"reserved_byte": 5}, "'reserved_byte', which is unknown (did you mean reserved_bytes?)"),
    "a misspelt field of a link": ({"links": [{"microsecond": 6}]}, "of the links has a field 'microsecond'"),
    "more reserved than there is": ({"reserved_bytes": 85899345920}, "not an integer from 0 to 85899345919"),
    "a text for a truth value": ({"fetches_overlap": "false"}, "fetches_overlap is 'false', neither true nor false"),
}
RATES = {
    "a misspelt rate": ({"half_depht": 64}, "'half_depht', which is unknown (did you mean half_depth?)"),
    "kernels that were not fitted": ({"measured": {"dot": {"call": 1e-6}}}, "lacks 'contracted'"),
    "kernels fitted to something else": ({"measured": {"dot": {"calls": 1}}}, "measured of 'dot' has a field 'calls'"),
}


@pytest.mark.parametrize("defect", [*WRONG, *RATES])
def test_broken_files_are_refused(defect, tmp_path):
    path, whole = tmp_path / "machine.json", json.loads((FOLDER / "8xH100.json").read_text())
    change, message = WRONG.get(defect) or ({"rates": {**whole["rates"], **RATES[defect][0]}}, RATES[defect][1])
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(TofuError, match="is not a machine") as raised:
        read_machine(path)
    assert message in str(raised.value)


def test_an_interconnect_may_be_a_machine():
    machine = read_machine("2x8xH100")
    for topology in (machine, "2X8xH100", FOLDER / "2x8xH100.json"):
        assert find_interconnect(topology, 8) == make_topology(machine, 8)
    assert find_interconnect(machine, 1) is None
    for other in (None, [1e9], "levels.json"):
        assert find_interconnect(other, 8) is other
