import doctest

import pytest

from tests.shared import rings
from tests.shared.rings import Link, Traffic

HOSTS = [Link(4, 50e9, 20e-6), Link(8, 450e9, 5e-6)]


def test_a_ring_of_hosts_shares_the_bytes_between_hosts_out_among_their_devices():
    traffic = Traffic(HOSTS)
    traffic.gather((4, 8), 3200.0, 1)
    # A device receives 7/8 of 3,200 bytes from its host, and 3/4 of its host's 400 bytes from others.
    assert traffic.level_bytes == [300.0, 2800.0]
    assert traffic.level_waits == [1, 1]
    assert traffic.seconds == pytest.approx(300 / 50e9 + 2800 / 450e9 + 25e-6)


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(rings).failed == 0
