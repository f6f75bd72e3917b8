from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

import tdl_ops.mxnet.attributes
import tofu.analysis.signatures
import tofu.tdl.registry

PAGE = Path(__file__).parents[2] / "docs" / "tdl.md"


def test_examples_of_the_page(descriptions):
    descriptions.clear()
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 8
    names: dict[str, object] = {}
    printed = io.StringIO()
    for kind, text in blocks:
        if kind == "python":
            assert printed.getvalue() == ""
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(PAGE), "exec"), names)
        else:
            assert printed.getvalue() == text
            printed = io.StringIO()


@pytest.mark.parametrize("module", [tdl_ops.mxnet.attributes, tofu.tdl.registry, tofu.analysis.signatures], ids=str)
def test_examples_of_docstrings(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed
