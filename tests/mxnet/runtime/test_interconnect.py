import importlib.util

import pytest
from click.testing import CliRunner

from tofu.command_line.main import main
from tofu.mxnet.runtime.cluster.interconnect import measure_interconnect
from tofu.search.topology import read_topology

FAST, SLOW = 50e9, 10e9


def machine(boards, shared=None):
    """Simulate GPUs that read fast on their board and slowly across; all slow reads together get at most `shared`."""
    board = {gpu: i for i, gpus in enumerate(boards) for gpu in gpus}

    def measure(pairs):
        fast = [pair for pair in pairs if board[pair[0]] == board[pair[1]]]
        across = SLOW * (len(pairs) - len(fast))
        return FAST * len(fast) + (across if shared is None else min(across, shared))

    return measure


@pytest.mark.parametrize(
    ("boards", "shared", "devices", "levels"),
    [
        ([range(6)], None, tuple(range(6)), ((6, 6 * FAST),)),
        ([range(4), range(4, 8)], 2 * SLOW, tuple(range(8)), ((2, 2 * SLOW), (4, 8 * FAST))),
        ([(0, 2, 5), (1, 3, 4)], None, (0, 2, 5, 1, 3, 4), ((2, 6 * SLOW), (3, 6 * FAST))),
    ],
    ids=["one level", "shared uplink", "interleaved boards"],
)
def test_boards_are_the_lower_level(boards, shared, devices, levels):
    found = measure_interconnect(len(devices), machine(boards, shared))
    assert (found.devices, found.levels) == (devices, levels)
    near, far = len(boards[0]) - 1, len(devices) - len(boards[0])
    assert found.pairs[0] == (0, *[FAST] * near, *[SLOW] * far)


def test_three_levels():
    def measure(pairs):
        return sum(40e9 if a // 2 == b // 2 else 20e9 if a // 4 == b // 4 else 5e9 for a, b in pairs)

    assert measure_interconnect(8, measure).levels == ((2, 40e9), (2, 160e9), (2, 320e9))


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_missing_requirements_are_named():
    result = CliRunner().invoke(main, ["topology"])
    assert result.exit_code == 1
    assert "needs two of them and CuPy (No module named 'cupy'): pip install cupy-cuda11x." in result.output


def test_the_command_prints_pairs_and_writes_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tofu.command_line.interconnect.measure_with_cupy", lambda: (4, machine([(0, 2), (1, 3)])))
    path = tmp_path / "topology.json"
    result = CliRunner().invoke(main, ["topology", "--save", str(path)])
    assert result.exit_code == 0, result.output
    assert ["gpu(0)", "-", "50.0", "10.0", "10.0"] in [line.split() for line in result.output.splitlines()]
    assert "contexts=[mx.gpu(0), mx.gpu(2), mx.gpu(1), mx.gpu(3)]" in result.output
    assert read_topology(str(path)).arrange(4)[0].bandwidths == (4 * SLOW, 4 * FAST)
