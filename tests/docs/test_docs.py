"""The documents tell the truth: examples run and print what they say, links lead somewhere, the tour is complete."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("tofu", "tdl_ops", "csrc", "benchmarks", "examples")
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
READMES = [path for folder in (*FOLDERS, "tests") for path in sorted(ROOT.glob(f"{folder}/**/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*$")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FIRST_LINE = "import tofu\n"  # it makes MXNet importable, whatever the document imports first


@dataclass(frozen=True)
class Example:
    """A Python block, the line on which it starts, and what the text block right after it says that it prints."""

    line: int
    code: str
    printed: str | None


def find_examples(text):
    blocks = list(BLOCK.finditer(text))
    examples = []
    for block, after in zip(blocks, [*blocks, None][1:], strict=True):
        if block[1] != "python" or NOT_RUN.search(text[: block.start()]):
            continue
        adjacent = after is not None and after[1] == "text" and not text[block.end() : after.start()].strip()
        line = text[: block.start()].count("\n") + 2
        examples.append(Example(line, block[2], after[2] if adjacent and after else None))
    return examples


def run(examples, folder):
    """What each example prints; the examples of one document share their names, as for a reader who follows it."""
    separator = "--- next example ---"
    script = [FIRST_LINE]
    for example in examples:
        script += [example.code, f'print("{separator}", flush=True)\n']
    path = folder / "document.py"
    path.write_text("\n".join(script))
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(separator + "\n")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run_and_print_what_the_document_says(document, tmp_path):
    examples = find_examples(document.read_text())
    if not examples:
        return
    *outputs, after_the_last = run(examples, tmp_path)
    assert after_the_last == ""
    for example, printed in zip(examples, outputs, strict=True):
        if example.printed is not None:
            assert printed.rstrip() == example.printed.rstrip(), f"the example on line {example.line}"


@pytest.mark.parametrize("document", [*DOCUMENTS, *READMES], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = [link for link in LINK.findall(document.read_text()) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_paths_of_the_architecture_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    paths = {
        name for name in re.findall(r"`([\w./-]+)`", text) if "/" in name or re.search(r"\.(py|cc|h|md|toml)$", name)
    }
    assert len(paths) > 60
    assert {name for name in paths if not (ROOT / name).exists()} == set()


def test_every_decision_is_listed_where_they_are_explained():
    listed = (ROOT / "docs/decisions/README.md").read_text()
    decisions = ROOT.glob("docs/decisions/0*.md")
    assert [path.name for path in decisions if path.name not in listed] == []
