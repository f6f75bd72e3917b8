import inspect
import sysconfig
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import tofu.jax
from tofu.errors import InfeasibleError, PlanError
from tofu.graph.layers import name_layers
from tofu.jax.frontend.versions import Line
from tofu.plan import Plan
from tofu.search.hints import resolve_hints

X = jnp.ones((64, 64))


def sort_rows(x):
    return lax.sort(x * 2, dimension=0)


def sort_all(x):
    return lax.sort(x)


def find_line(function, offset=1):
    return f"{__file__}:{inspect.getsourcelines(function)[1] + offset}"


def test_a_plan_names_the_line_of_each_operator():
    plan = tofu.jax.partition(sort_rows, 2, (X,)).plan
    assert dict(plan.lines) == dict.fromkeys(plan.operators, find_line(sort_rows))
    assert all(f":{find_line(sort_rows).rpartition(':')[2]}" in row for row in str(plan).splitlines()[3:5])
    loaded = Plan.from_json(plan.to_json())
    assert loaded == plan
    assert not loaded.lines
    assert "test_lines" not in str(loaded)


def test_a_step_without_lines_of_the_user_has_the_names_of_its_operators():
    """Lines of JAX, Tofu, Python's modules and the calling script are left out."""
    frames = ("<frozen runpy>", jax.__file__, sysconfig.get_path("scripts") + "/tofu", tofu.__file__, pytest.__file__)
    traceback = SimpleNamespace(frames=[SimpleNamespace(file_name=name, line_num=88) for name in frames])
    assert Line(traceback).find() == ""
    own = [SimpleNamespace(file_name=name, line_num=3) for name in ("<stdin>", "train.py")]
    for frame in own:
        assert Line(SimpleNamespace(frames=[*traceback.frames, frame])).find() == f"{frame.file_name}:3"


def test_operators_in_another_form_have_the_line_of_the_program():
    def step(x):
        return jnp.cumsum(x, 0) + x.at[::2].set(0.0)

    plan = tofu.jax.partition(step, 2, (X,)).plan
    assert {line.partition(":")[2] for line in plan.lines.values()} == {find_line(step).partition(":")[2]}


def test_a_table_and_a_page_name_the_line(tmp_path):
    made = tofu.jax.partition(sort_rows, 2, (X,))
    made.save_report(tmp_path / "plan.html")
    file = find_line(sort_rows).rpartition("/")[2]
    assert file in (tmp_path / "plan.html").read_text()
    assert file in made.why("sort").replace("\n", "")
    assert file in made.plan_table(lines=True)


@pytest.mark.parametrize(
    ("error", "arguments", "options"),
    [
        (InfeasibleError, (sort_all, 2, (jnp.ones(64),)), {}),
        (InfeasibleError, (sort_rows, 8, (X[:2, :2],)), {}),
        (PlanError, (sort_rows, 2, (X,)), {"hints": {"sort": "i0"}}),
        (PlanError, (sort_rows, 8, (X[:, :4],)), {"hints": {"sort": "i1"}}),
    ],
)
def test_errors_about_an_operator_name_its_line(error, arguments, options):
    with pytest.raises(error) as found:
        tofu.jax.partition(*arguments, **options)
    assert find_line(arguments[0]) in str(found.value)


def test_a_hint_takes_the_name_of_a_row_of_the_table():

    def step(x, w):
        return jnp.tanh(x @ w + 1) * 2

    given = jnp.ones((64, 32)), jnp.ones((32, 48))
    (row,) = name_layers(tofu.jax.partition(step, 2, given).partition.graph).values()
    for axis in ("m0", "n1", "k0"):
        plan = tofu.jax.partition(step, 2, given, hints={row: axis}).plan
        assert plan.operators["dot_general"] == (axis,)
    with pytest.raises(PlanError, match=r"another hint fixes dot_general at .*; remove either hint"):
        tofu.jax.partition(step, 2, given, hints={row: "m0", "dot_general": "n1"})


@pytest.fixture(scope="module")
def scoped():
    def step(x, up, down):
        with jax.named_scope("encoder"):
            with jax.named_scope("inner_0"):
                x = jnp.tanh(x @ up + 1)
            x = x @ down * 2
        return x + 1

    return tofu.jax.partition(step, 2, (jnp.ones((64, 32)), jnp.ones((32, 48)), jnp.ones((48, 4))))


@pytest.mark.parametrize(
    ("find", "operator"),
    [
        (lambda row, line: row, "encoder/inner_0/dot_general"),
        (lambda row, line: "encoder/inner_0", "encoder/inner_0/dot_general"),
        (lambda row, line: "inner_0", "encoder/inner_0/dot_general"),
        (lambda row, line: "encoder", "encoder/inner_0/dot_general"),
        (lambda row, line: line, "encoder/inner_0/dot_general"),
        (lambda row, line: line.rpartition("/")[2], "encoder/inner_0/dot_general"),
        (lambda row, line: "encoder/dot_general", "encoder/dot_general"),
    ],
)
def test_a_layer_stands_for_its_main_operator(scoped, find, operator):
    graph, line = scoped.partition.graph, scoped.plan.lines["encoder/inner_0/dot_general"]
    row = next(name for name in name_layers(graph).values() if name.startswith("encoder/inner_0"))
    name = find(row, line)
    assert scoped.why(name).startswith(f"{operator}, split in every round")
    fixed = resolve_hints(scoped.partition.searched.problem, {name: "k0"})
    assert fixed.operators.keys() == {graph.operator_index[operator]}


def test_similar_names_begin_with_the_main_operator(scoped):
    problem = scoped.partition.searched.problem
    main = r"did you mean encoder/inner_0/dot_general, encoder/inner_0/ad"
    with pytest.raises(PlanError, match=main):
        scoped.why("encoder/inner_0/ad")
    with pytest.raises(PlanError, match=main):
        resolve_hints(problem, {"encoder/inner_0/ad": "i0"})
    for unknown in ("encodr", "", "x.py:1"):
        with pytest.raises(PlanError, match="did you mean encoder" if unknown == "encodr" else "no operator"):
            scoped.why(unknown)
