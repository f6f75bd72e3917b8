"""Every strategy of the analysis gives the whole result if the interpreter computes the parts."""

import numpy as np
import pytest

from tests.analysis.described_cases import CASES
from tofu.analysis import analyse
from tofu.tdl import interpret


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_strategy_gives_the_whole_result(case, count):
    access = analyse(case.description, case.attributes, case.inputs, case.outputs)
    assert access.axes == case.axes, access.rejected
    expected = interpret(case.description, case.attributes, case.random_inputs(), case.outputs)
    for axis, extent in enumerate(access.extents):
        if extent < count:
            continue
        for got, want, written in zip(case.run_split(access, axis, count), expected, access.outputs, strict=True):
            if written.is_written:
                np.testing.assert_allclose(got, want, err_msg=f"{case} split by {access.axes[axis]}")


def test_analyses_are_cached_by_signature():
    case = next(case for case in CASES if case.name == "embedding")
    first = analyse(case.description, {"output_dim": 6}, [(8,), (9, 6)], [(8, 6)])
    assert analyse(case.description, {"output_dim": 6, "unlisted": "1"}, [(8,), (9, 6)], [(8, 6)]) is first
    assert analyse(case.description, {"output_dim": 4}, [(16,), (9, 4)], [(16, 4)]).extents == (16, 4)
