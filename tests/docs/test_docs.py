"""The documents are true: examples run and print what they show, and links, paths and commands exist."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from tofu.command_line.main import main

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
    """Python block, its first line, and the text block after it that shows its output."""

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
    """Return what each example prints; the examples of one document run in one process."""
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


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run_and_print_what_is_shown(document, tmp_path):
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


def test_paths_of_the_architecture_exist():
    """A file name without a folder is in a folder that its row names."""
    missing, count = [], 0
    for row in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        names = re.findall(r"`([\w./-]+(?:/|\.(?:py|cc|h|md|toml)))`|`([\w.-]+/[\w./-]+)`", row)
        paths = [first or second for first, second in names]
        folders = [ROOT, *(ROOT / path for path in paths if path.endswith("/"))]
        missing += [path for path in paths if not any((folder / path).exists() for folder in folders)]
        count += len(paths)
    assert count > 60
    assert missing == []


def find_code(document):
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```\w*\n.*?^ *```$", "", document.read_text(), flags=re.M | re.S))


def test_make_targets_exist():
    rules = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    for document in DOCUMENTS:
        stated = {code.split()[1] for code in find_code(document) if re.match(r"make [\w-]+", code)}
        assert stated <= targets, document


def find_commands(document):
    lines = re.findall(r"^    (?:\$ )?(\S.*)$", document.read_text(), re.MULTILINE)
    commands = [
        re.match(r"(?:\S+/)?(python -m (?:tofu|tests|benchmarks)\b[^#]*)", code)
        for code in [*find_code(document), *lines]
    ]
    return {command[1].strip() for command in commands if command}


COMMANDS = {command for document in [*DOCUMENTS, *READMES] for command in find_commands(document)}


def find_command(words):
    if words[0] == "tofu":
        command = main
        while isinstance(command, click.Group) and len(words) > 1:
            _, command, rest = command.resolve_command(click.Context(command), words[1:])
            words = ["", *rest]
        return command, words[1:]
    module = importlib.import_module(words[0])
    return getattr(module, "main", None) or importlib.import_module(f"{words[0]}.__main__").main, words[1:]


@pytest.mark.parametrize("line", sorted(COMMANDS))
def test_commands_and_their_options_exist(line):
    command, words = find_command(shlex.split(line)[2:])
    if isinstance(command, click.Command):
        options = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= {*options, "--help", "--version"}
