import doctest

import pytest

from tests.shared import parallelism, rings
from tests.shared.parallelism import StepSize, list_hand_plans
from tests.shared.rings import Link, Traffic

HOSTS = [Link(4, 50e9, 20e-6), Link(8, 450e9, 5e-6)]


def find(size, links):
    return {plan.name: plan for plan in list_hand_plans(size, links)}


def test_state_and_bytes_of_a_million_parameters_on_four_devices():
    plans = find(StepSize(trained=1_000_000, samples=4, layers=10), [Link(4, 1e9, 1e-6)])
    bytes_and_memory = {name: (plan.received_bytes, plan.memory_bytes) for name, plan in plans.items()}
    assert bytes_and_memory == {
        "DP": (3e6, 16e6),  # 4 P 3/4, and 16 P
        "ZeRO-1": (3e6, 7e6),  # 4 P + 12 P / 4
        "FSDP": (4.5e6, 4.4e6),  # 6 P 3/4; 16 P / 4, beside a tenth of 4 P
    }
    assert plans["DP"].seconds == pytest.approx(3e-3 + 22e-6)  # 11 all-reduces wait twice each


def test_tensor_parallelism_all_reduces_activations_within_hosts():
    size = StepSize(
        trained=8_000_000, samples=8, layers=2, tokens=80, width=100, kept_bytes=400, inner_bytes=3200, data_bytes=320
    )
    plans = find(size, HOSTS)
    activations, weights = 12 * 2 * 7 / 8 * (80 // 4 * 100 * 2), 4 * 1e6 * 3 / 4
    for name, state in (("TP 8 x DP", 16e6), ("TP 8 x ZeRO-1", 4e6 + 3e6)):
        assert plans[name].level_bytes == pytest.approx((weights, activations))
        assert plans[name].memory_bytes == pytest.approx(state + 400 / 4 + 3200 / 32 + 320 / 32)
    assert "DP" not in plans  # 8 samples cannot be divided among 32 devices


def test_pipelines_are_marked_as_outside_of_the_space():
    size = StepSize(trained=8_000_000, samples=64, layers=8, tokens=640, width=100, kept_bytes=6400, inner_bytes=640)
    plans = find(size, HOSTS)
    assert {name for name, plan in plans.items() if not plan.is_in_space} == {"PP 4 x DP 8", "TP 8 x PP 4"}
    plan = plans["PP 4 x DP 8"]  # each stage is a host, and each pipeline has 8 samples
    assert plan.level_bytes == (2 * 80 * 100 * 2, 4 * 2e6 * 7 / 8)
    assert plan.memory_bytes == 16 * 2e6 + 100 + 10  # 4 samples of a quarter of the layers
    assert plan.idle_share == pytest.approx(3 / 11)


def test_a_ring_of_hosts_shares_the_bytes_between_hosts_out_among_their_devices():
    traffic = Traffic(HOSTS)
    traffic.gather((4, 8), 3200.0, 1)
    # A device receives 7/8 of 3,200 bytes from its host, and 3/4 of its host's 400 bytes from others.
    assert (traffic.level_bytes, traffic.level_waits) == ([300.0, 2800.0], [1, 1])
    assert traffic.seconds == pytest.approx(300 / 50e9 + 2800 / 450e9 + 25e-6)


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(parallelism).failed == doctest.testmod(rings).failed == 0
