import pytest

from tofu.errors import find_similar_names

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
def test_near_names_are_path_ends_misspellings_and_extensions(name, near):
    assert find_similar_names(name, NAMES) == near
