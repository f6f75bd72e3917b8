"""Legends below tables."""

from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console

from tofu.mxnet.memory.report import LEGEND
from tofu.report.console import print_legend


@pytest.mark.parametrize("width", [60, 80, 100, 160, 240])
def test_legends_are_wrapped_to_the_console(width):
    console = Console(file=StringIO(), width=width, highlight=False)
    print_legend(console, LEGEND)
    lines = console.file.getvalue().strip().splitlines()
    assert " ".join(line.strip() for line in lines) == " ".join(LEGEND.split())
    if width >= 140:
        assert lines == LEGEND.strip().splitlines()
        return
    assert max(map(len, lines)) <= width
    for line, after in pairwise(lines):  # the next word would not have fitted
        assert len(line.rstrip()) + 1 + len(after.split()[0]) > width
