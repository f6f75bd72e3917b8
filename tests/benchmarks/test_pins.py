"""The pinned plans: some of them hold here, and a plan that is another one is noticed."""

from dataclasses import replace

from benchmarks import pins


def test_the_plans_of_some_random_models_are_as_they_were_written_down():
    found = pins.make_pins("chains 8")
    assert len(found) == len(pins.WORKERS)
    assert pins.compare(found, pins.read_pins(pins.PATH)) == []


def test_another_plan_is_noticed_and_an_unproved_one_only_where_it_moves_more():
    pinned = pins.read_pins(pins.PATH)
    name, pin = next((name, pin) for name, pin in pinned.items() if pin.is_proved)
    for changed in (replace(pin, digest="another"), replace(pin, communication_bytes=pin.communication_bytes - 1)):
        assert pins.compare({name: changed}, pinned)
    unproved = replace(pin, optimality="at most 1.00 % above the optimum")
    assert not pins.compare({name: replace(unproved, digest="another")}, {name: unproved})
    assert pins.compare({name: replace(unproved, communication_bytes=pin.communication_bytes + 1)}, {name: unproved})


def test_what_is_written_is_read(tmp_path):
    found = pins.read_pins(pins.PATH)
    pins.write_pins(tmp_path / "pins.json", found)
    assert pins.read_pins(tmp_path / "pins.json") == found
    assert (tmp_path / "pins.json").read_text() == pins.PATH.read_text()


def test_every_model_is_pinned_for_every_number_of_workers():
    names = [*pins.MODELS, *(f"{pins.choose_kind(seed, 'all')} {seed}" for seed in range(pins.RANDOM_MODELS))]
    assert list(pins.read_pins(pins.PATH)) == [f"{name} / {workers}" for name in names for workers in (2, 3, 4, 6, 8)]
    assert len(names) == 54
