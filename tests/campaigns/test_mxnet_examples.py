import pytest

from tests.campaigns import mxnet_examples
from tests.campaigns.example_zoo import models
from tests.campaigns.example_zoo.loading import load_definitions
from tests.campaigns.mxnet_examples import MxnetExampleCase, MxnetExampleResult, make_table, run

SCRIPT = """
from collections import namedtuple
import mxnet as mx, package_that_there_is_not
from neighbour import WIDTH
EPSILON = 1e-10 + 1e-5
Cell = namedtuple("Cell", ["weight"])
raise SystemExit("training begins")
data = mx.sym.Variable("data")
net = mx.sym.FullyConnected(data, num_hidden=WIDTH)
trained = open("nothing/there")

def get_symbol(scale):
    return mx.sym.SoftmaxOutput(net * scale, name="softmax")
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "family").mkdir()
    (tmp_path / "family/script.py").write_text(SCRIPT)
    (tmp_path / "family/neighbour.py").write_text("WIDTH = 6")
    example = models.MxnetExample("family/script.py", lambda defined: defined.get_symbol(2), {"data": (4, 8)})
    monkeypatch.setitem(models.EXAMPLES, "mine", example)
    return tmp_path


def test_definitions_are_loaded_and_nothing_is_run(source):
    defined = load_definitions(source / "family/script.py")
    assert defined.WIDTH == 6
    assert defined.EPSILON == 1e-10 + 1e-5
    assert defined.Cell(1).weight == 1
    assert defined.get_symbol(3).list_arguments()[0] == "data"
    assert not hasattr(defined, "trained")


def test_model_is_compared_with_one_device(source, monkeypatch):
    case, result = run(MxnetExampleCase("mine", 2, str(source)))
    assert (result.dtype, result.problems, result.compared) == ("float64", [], 4)
    assert 0 <= result.error < 1e-12
    assert f"{result.error:.1e}" in "".join(make_table({case.key: (case, result)}).columns[2]._cells)
    monkeypatch.setitem(mxnet_examples.LIMIT, "float64", -1)
    monkeypatch.setattr("tofu.compare.agreement.Agreement.agrees", False)
    assert run(case)[1].problems


def test_error_is_a_problem(source, monkeypatch):
    monkeypatch.setitem(
        models.EXAMPLES, "mine", models.MxnetExample("family/script.py", lambda defined: defined.nothing, {})
    )
    _, result = run(MxnetExampleCase("mine", 2, str(source)))
    assert result.problems[0].startswith("AttributeError")
    assert "failed" in make_table({"": (MxnetExampleCase("mine", 2, ""), MxnetExampleResult())}).columns[2]._cells
