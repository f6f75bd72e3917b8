"""The documents as plain text, in which tests look for sentences."""

from __future__ import annotations

import re

FENCED = re.compile(r"^ *```\w*\n.*?^ *```$", re.MULTILINE | re.DOTALL)  # tests/docs/test_docs.py runs these
LINK = re.compile(r"!?\[((?:[^\[\]`]|`[^`]*`)*)\]\([^)]*\)")
COMMAND_LINE = re.compile(r"^ {4,}((?:python|pip|make|\.venv/bin/python|\.ci/).*)$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")


def plain_text(markdown: str) -> str:
    """Drop fenced examples and link targets, mark command lines as code, and join all lines into one."""
    text = COMMAND_LINE.sub(
        lambda line: f"`{line[1].partition('#')[0].strip()}` {line[1].partition('#')[2]}", FENCED.sub("", markdown)
    )
    return " ".join(LINK.sub(r"\1", text).split())
