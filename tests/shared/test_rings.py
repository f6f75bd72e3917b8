import doctest

import pytest

from tests.shared import rings
from tests.shared.rings import Link, Traffic, assign_rounds, split_group

HOSTS = [Link(4, 50e9, 20e-6), Link(8, 450e9, 5e-6)]


@pytest.mark.parametrize(
    ("apart", "size", "expected"),
    [(1, 8, (1, 8)), (1, 32, (4, 8)), (8, 4, (4, 1)), (2, 16, (4, 4)), (1, 2, (1, 2)), (16, 2, (2, 1)), (1, 1, (1, 1))],
)
def test_groups_take_near_devices_first(apart, size, expected):
    assert split_group(HOSTS, apart, size) == expected


@pytest.mark.parametrize(("apart", "size"), [(1, 3), (1, 64), (16, 4), (64, 1)])
def test_groups_that_the_levels_lack_are_refused(apart, size):
    with pytest.raises(ValueError, match="no such groups"):
        split_group(HOSTS, apart, size)


@pytest.mark.parametrize(
    ("factors", "expected"), [((4, 8), (4, 8)), ((2, 2, 2, 2, 2), (4, 4, 8, 8, 8)), ((4, 2, 4), (4, 8, 8))]
)
def test_rounds_divide_the_top_level_first(factors, expected):
    assert tuple(link.size for link in assign_rounds(HOSTS, factors)) == expected


def test_rounds_across_two_levels_are_refused():
    with pytest.raises(ValueError, match="do not follow the levels"):
        assign_rounds(HOSTS, (8, 4))


def test_a_ring_of_hosts_shares_the_bytes_between_hosts_out_among_their_devices():
    traffic = Traffic(HOSTS)
    traffic.gather((4, 8), 3200.0, 1)
    # A device receives 7/8 of 3,200 bytes from its host, and 3/4 of its host's 400 bytes from others.
    assert traffic.level_bytes == [300.0, 2800.0]
    assert traffic.level_waits == [1, 1]
    assert traffic.seconds == pytest.approx(300 / 50e9 + 2800 / 450e9 + 25e-6)


def test_an_all_reduce_is_two_gathers():
    traffic = Traffic(HOSTS)
    traffic.reduce((1, 8), 800.0, 3)
    assert (traffic.level_bytes, traffic.level_waits) == ([0.0, 1400.0], [0, 6])


def test_messages_cross_the_highest_level_of_their_group():
    traffic = Traffic(HOSTS)
    traffic.send((4, 2), 100.0, 2)
    traffic.send((1, 2), 10.0, 1)
    traffic.send((1, 1), 1.0, 1)
    assert (traffic.level_bytes, traffic.level_waits) == ([100.0, 10.0], [2, 1])


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(rings).failed == 0
