import json
import pickle
import time
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tofu
from tofu.mxnet.frontend.symbol_text import read_model
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.checkpoint.states import load_states
from tofu.search.topology import read_topology
from tofu.validation import parse_json, show

SOME = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
PLAN = json.loads(
    tofu.Plan(
        2, (2,), {"a": (0,)}, {"b": ("i",)}, 8, (8,), (4, 4), "exact", "optimal", "f", inputs={"a": (2,)}
    ).to_json()
)
NODE = st.fixed_dictionaries(
    {"op": st.sampled_from(["null", "relu", 5]) | SCALARS, "name": SCALARS, "inputs": VALUES | st.just([[0, 0, 0]])},
    optional={"attrs": VALUES, "control_deps": VALUES},
)


def try_reading(read, given, refusal=tofu.TofuError):
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(given)
            message = "read"
        except refusal as error:
            message = str(error)
    return message if time.process_time() - started < 1 else ""


@SOME
@given(st.text() | VALUES.map(json.dumps))
def test_any_text_as_json(text):
    assert try_reading(parse_json, text, ValueError)


@SOME
@given(st.sampled_from(sorted(PLAN)), VALUES)
def test_any_value_in_a_plan_file(name, value):
    assert try_reading(tofu.Plan.from_json, json.dumps({**PLAN, name: value}))


@SOME
@given(VALUES | st.lists(st.fixed_dictionaries({"bytes_per_second": SCALARS}, optional={"workers": SCALARS})))
def test_any_topology(value):
    if not isinstance(value, str):
        assert try_reading(lambda given: (found := read_topology(given)) and found.arrange(4), value)


@SOME
@given(
    st.fixed_dictionaries(
        {"nodes": st.lists(NODE, max_size=4) | VALUES}, optional={"heads": VALUES, "arg_nodes": VALUES}
    )
)
def test_any_symbol_file(model):
    assert try_reading(read_model, json.dumps(model), ValueError)


@SOME
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_as_checkpoint_files(tmp_path, content, begins_well):
    path = tmp_path / "a"
    path.write_bytes((b"\x12\x01" + bytes(14) + b"\x01" + bytes(7) if begins_well else b"") + content)
    assert try_reading(ParameterFile, path)
    path.write_bytes((pickle.dumps({0: 1})[:-1] if begins_well else b"") + content)
    assert try_reading(lambda file: load_states(file, ()), path)


@pytest.mark.parametrize(
    "value", [10**10_000, "x" * 10_000, [1] * 10_000, object()], ids=["number", "text", "list", "object"]
)
def test_values_in_messages_are_short(value):
    assert len(show(value)) < 100
