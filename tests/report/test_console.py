"""Legends are wrapped to the console."""

from io import StringIO

import pytest
from rich.console import Console

from tofu.report.console import WIDTH_OF_LEGEND, print_legend
from tofu.report.plan_table import LEGEND


@pytest.mark.parametrize("width", [60, 80, 240])
def test_legends_are_wrapped_as_one_text(width):
    console = Console(file=StringIO(), width=width, highlight=False)
    print_legend(console, LEGEND)
    lines = console.file.getvalue().strip().splitlines()
    assert " ".join(line.strip() for line in lines) == LEGEND
    assert max(map(len, lines)) <= min(width, WIDTH_OF_LEGEND)
