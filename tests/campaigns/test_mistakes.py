"""What people are told who are new to Tofu: each mistake of `tests/campaigns/mistake_cases`, and docs/mistakes.md as it is written."""

import pytest

from tests.campaigns.mistakes import (
    DOCUMENT,
    FEWEST,
    Mistake,
    World,
    is_shown_here,
    read_mistakes,
    write_entry,
)

MISTAKES = {
    f"{area}-{position}": mistake
    for area, (_, mistakes) in read_mistakes().items()
    if is_shown_here(area)
    for position, mistake in enumerate(mistakes)
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """One for all: what a mistake loses is found by the next."""
    world = World(tmp_path_factory.mktemp("mistakes"))
    yield world
    world.go_on()


def test_there_are_as_many_as_are_wanted():
    codes = [mistake.code for _, mistakes in read_mistakes().values() for mistake in mistakes]
    assert len(codes) == len(set(codes)) >= FEWEST


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_says_what_to_do_and_nothing_is_lost(world, name):
    mistake = MISTAKES[name]
    outcome = world.make(mistake)
    assert not list(world.find_wrong(mistake, outcome))
    assert write_entry(mistake, outcome) in DOCUMENT.read_text(), (
        "write docs/mistakes.md: python -m tests.campaigns.mistakes --write"
    )


@pytest.mark.parametrize(
    ("code", "remedy", "wrong"),
    [
        ("net.nothing", "", "it is no error of Tofu"),
        ("{}['fc0']", "", "it is no error of Tofu"),
        ("tofu.partition(net)", "Give 4", "it does not say 'Give 4'"),
        ("raise tofu.TofuError('src/a.cc:1')", "", "not one message of a user's words"),
        ("net", "", "it is no error of Tofu"),
        ("executor.arg_dict['fc0_bias'][:] = 7; raise tofu.TofuError('')", "", "fc0_bias is not what it was"),
    ],
)
def test_what_is_wrong_is_found(tmp_path, code, remedy, wrong):
    world = World(tmp_path)
    mistake = Mistake(code, remedy)
    assert wrong in "\n".join(world.find_wrong(mistake, world.make(mistake)))
