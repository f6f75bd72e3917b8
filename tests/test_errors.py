"""What messages say of names that are not there."""

import pytest

from tofu.errors import find_near

NAMES = ["params/w", "opt/0/mu/w", "params/bias", "jvp(encoder)/dot_general", "dot_general"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("w", ["params/w", "opt/0/mu/w"]),
        ("params/bais", ["params/bias", "params/w"]),
        ("dot", ["jvp(encoder)/dot_general", "dot_general"]),
        ("conv", []),
    ],
)
def test_the_near_names_are_those_below_a_path_alike_or_longer(name, near):
    assert find_near(name, NAMES) == near
