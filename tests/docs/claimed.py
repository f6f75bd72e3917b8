"""What the documents claim, and what shows it: `tests/docs/claims.md` read, and held against the documents.

A *claim* is a row of claims.md: a quote that stands once in its document, the tests or benchmarks that show it, and the bar: what has to
hold. A *mark* is what makes a sentence one that can be wrong: a number, a command, an option, a word like "every". Each mark has to stand
in a quote.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FENCED = re.compile(r"^ *```\w*\n.*?^ *```$", re.MULTILINE | re.DOTALL)  # tests/docs/test_docs.py runs these
LINK = re.compile(r"!?\[((?:[^\[\]`]|`[^`]*`)*)\]\([^)]*\)")
COMMAND_LINE = re.compile(r"^ {4,}((?:python|pip|make|\.venv/bin/python|\.ci/).*)$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
IS_COMMAND = re.compile(r"`(?:[^`]*=|--|python -m |pip |make\b|\.ci/|[A-Z]+_[A-Z_]+)")
IS_REFERENCE = re.compile(
    r"\b(?:sections?|decisions?|theorems?|lemma|formula|figure|table|paper) [\d.,]+(?: (?:to|and) \d+)?|§[\d.]+",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.^])\d+(?:[.,^]\d+)*(?:e[-+]?\d+)?")
UNIVERSAL = re.compile(r"\b(?:every|never|always|nothing|exactly|to the byte)\b", re.IGNORECASE)
ROW = re.compile(r"^\| (.+) \| (.+) \| (.+) \|$")
BAR = re.compile(r"`([A-Z_]+) = ([^`]+)`")


@dataclass(frozen=True)
class Claim:
    """One row: a quote of a document, names of tests and benchmarks, what has to hold."""

    document: str
    quote: str
    shown_by: tuple[str, ...]
    bar: str


def read_claims(text: str) -> list[Claim]:
    """The rows below the headings that name documents; cells may hold escaped bars."""
    claims, document = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            document = line.removeprefix("## ").strip()
        row = ROW.match(line.replace(r"\|", "\0"))
        if document and row and not set(row[1]) <= {"-"} and row[2] != "shown by":
            quote, shown, bar = (cell.replace("\0", "|").strip() for cell in row.groups())
            claims.append(Claim(document, quote, tuple(re.findall(r"`([^`]+)`", shown)), bar))
    return claims


def plain_text(markdown: str) -> str:
    """A document as it is quoted: without examples that are run and targets of links, in one line. Command lines become code."""
    text = COMMAND_LINE.sub(
        lambda line: f"`{line[1].partition('#')[0].strip()}` {line[1].partition('#')[2]}", FENCED.sub("", markdown)
    )
    return " ".join(LINK.sub(r"\1", text).split())


def find_marks(text: str) -> list[tuple[int, int]]:
    """Where something stands that has to be claimed."""
    code = [(one.start(), one.end()) for one in CODE.finditer(text)]
    prose = text
    for pattern in (CODE, IS_REFERENCE):
        prose = pattern.sub(lambda one: "_" * len(one[0]), prose)
    words = [(one.start(), one.end()) for pattern in (NUMBER, UNIVERSAL) for one in pattern.finditer(prose)]
    return sorted([span for span in code if IS_COMMAND.match(text, *span)] + words)


def find_quotes(text: str, claims: list[Claim]) -> list[tuple[int, int]]:
    """Where the quotes stand that there are."""
    return [
        (text.index(claim.quote), text.index(claim.quote) + len(claim.quote)) for claim in claims if claim.quote in text
    ]


def unclaimed(text: str, claims: list[Claim]) -> list[str]:
    """Marks outside of all quotes, with the words around them."""
    quotes = find_quotes(text, claims)
    return [
        f"{text[start:end]!r} in {text[max(0, start - 50) : end + 50]!r}"
        for start, end in find_marks(text)
        if not any(first <= start and end <= last for first, last in quotes)
    ]


@cache
def parse(path: Path) -> ast.Module:
    """A file of Python, parsed once."""
    return ast.parse(path.read_text())


def what_is_wrong(name: str, bar: str, root: Path) -> str | None:
    """Why a test or a benchmark that a claim names shows nothing."""
    if name.startswith("tests/"):
        path, _, function = name.partition("::")
        return None if has_test(root / path, function) else "there is no such test"
    path = root / (name.replace(".", "/") + ".py")
    if not path.exists():
        return "there is no such benchmark"
    bars = BAR.findall(bar)
    if not bars:
        return "a benchmark needs a bar: `NAME = value`, a constant that the benchmark holds its figures against"
    tree = parse(path)
    wrong = [f"{key} = {value}" for key, value in bars if not is_bar(tree, key, value)]
    if wrong:
        return f"the benchmark compares nothing with {', '.join(wrong)}"
    return None if can_fail(tree) else "the benchmark ends with 0 whatever it finds"


def has_test(path: Path, function: str) -> bool:
    """Whether the file has this test, and does not skip it always."""
    if not path.exists():
        return False
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef) and node.name == function and function.startswith("test_"):
            marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
            return not marks & {"pytest.mark.skip", "pytest.mark.xfail"}
    return False


def is_bar(tree: ast.Module, name: str, value: str) -> bool:
    """Whether the module sets a constant to a value and reads it."""
    targets = [
        (node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    found: dict[str, ast.expr] = {}
    for target, given in targets:
        pairs = (
            zip(target.elts, given.elts, strict=True)
            if isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple)
            else [(target, given)]
        )
        found |= {ast.unparse(left): right for left, right in pairs if right is not None}
    is_read = any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(tree)
    )
    return name in found and is_read and ast.unparse(found[name]) == ast.unparse(ast.parse(value, mode="eval"))


def can_fail(tree: ast.Module) -> bool:
    """Whether the module ends with another status than 0 where a figure misses its bar."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None and "ClickException" in ast.unparse(node.exc):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.exit" and node.args:
            return True
    return False
