"""Mistakes of people who are new to Tofu, each made as they would make it, and what they are told.

    python -m tests.campaigns.mistakes           # tries all, and ends with 1 where a message does not say what to do
    python -m tests.campaigns.mistakes --write   # writes docs/mistakes.md as well

`mistake_cases/` has them as data, a file for each part of Tofu: a line of Python, or of a shell, and the words of its message that say
what to do. A mistake is one error of Tofu, in a sentence, and nothing is lost by it: the model is as it was, and training goes on.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import tomli
from click.testing import CliRunner

import tofu
from tests.campaigns.fault_cases import setting
from tofu.command_line.main import main as command_line

import mxnet as mx  # isort: skip  made importable by Tofu

FOLDER = Path(__file__).parent / "mistake_cases"
DOCUMENT = Path(__file__).parents[2] / "docs/mistakes.md"
AREAS = ("model", "options", "binding", "module", "gluon", "command_line", "jax")
FEWEST = 90
LONGEST_MESSAGE = 1500
OF_CPP = ("Traceback", "src/", ".cc:", "Check failed")
INTRODUCTION = """# What is said of mistakes

Lines of people who are new to Tofu, and what they are told. `net` is a model whose input `data` has the shape (12, 17), `symbol` is
`tofu.partition(net, 2)`, and `module`, `executor` and `block` are bound. A failed call leaves them as they were.
`python -m tests.campaigns.mistakes --write` makes this page.
"""


@dataclass(frozen=True)
class Mistake:
    """A line that is wrong, and the words of its message that say what to do."""

    code: str
    remedy: str


@dataclass(frozen=True)
class Outcome:
    """The type of an error and its whole message; of a command, what it prints."""

    kind: type[BaseException] | None
    message: str

    def __str__(self) -> str:
        return self.message if self.kind in (None, SystemExit) else f"{self.kind.__name__}: {self.message}"


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Run in a folder, without warnings."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.chdir(before)


class World:
    """What a line finds: models in every state, and files of theirs in the folder that it runs in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        net = setting.model()
        net.save(str(folder / "model-symbol.json"))
        (folder / "plan.json").write_text(tofu.partition(net, 2, data=(12, 17)).plan.to_json())
        symbol = tofu.partition(net, 2)
        block = mx.gluon.nn.Dense(10, in_units=17, prefix="dense_")
        block.initialize(mx.init.One())
        block = tofu.gluon.partition(block, ngpus=2)
        executor = symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(12,))
        module = setting.train(setting.begin(), 0, 2)
        self.names = {"tofu": tofu, "mx": mx, "np": np, "net": net, "symbol": symbol, "executor": executor}
        self.names |= {"batch": setting.batch(0), "module": module, "block": block}
        self.before = self._state()

    def _state(self) -> dict[str, Any]:
        """What a mistake leaves as it is."""
        arrays = {**setting.parameters(self.names["module"])}
        arrays |= {name: array.asnumpy() for name, array in self.names["executor"].arg_dict.items()}
        arrays["the block's output"] = self.names["block"](mx.nd.ones((12, 17))).asnumpy()
        return {"net": np.array(self.names["net"].tojson()), **arrays}

    def make(self, mistake: Mistake) -> Outcome:
        """Run the line."""
        with _in(self.folder):
            if mistake.code.startswith("$"):
                _, *arguments = shlex.split(mistake.code.partition(" -m ")[2])
                result = CliRunner().invoke(command_line, arguments, prog_name="python -m tofu")
                outcome = Outcome(None if result.exception is None else type(result.exception), result.output)
            else:
                outcome = self._run(mistake.code)
        message = outcome.message.replace(str(self.folder), "/home/me")
        return Outcome(outcome.kind, message.strip())

    def _run(self, code: str) -> Outcome:
        try:
            exec(code, dict(self.names))
        except Exception as error:
            return Outcome(type(error), str(error))
        return Outcome(None, "nothing is said")

    def find_wrong(self, mistake: Mistake, outcome: Outcome) -> Iterator[str]:
        """What an outcome lacks."""
        if not _is_of_tofu(outcome, is_command=mistake.code.startswith("$")):
            yield f"it is no error of Tofu: {outcome}"
        if mistake.remedy not in outcome.message:
            yield f"it does not say {mistake.remedy!r}: {outcome}"
        if any(word in outcome.message for word in OF_CPP) or len(outcome.message) > LONGEST_MESSAGE:
            yield f"it is not one message of a user's words: {outcome}"
        yield from (f"{name} is not what it was" for name in self._list_changed())

    def _list_changed(self) -> list[str]:
        found = self._state()
        return [name for name, value in self.before.items() if not np.array_equal(found[name], value)]

    def go_on(self) -> None:
        """The module trains as if nothing had been tried."""
        setting.goes_on(self.names["module"], 2)


def _is_of_tofu(outcome: Outcome, is_command: bool) -> bool:
    """Whether Tofu refused it, and not what happened to come upon it."""
    if outcome.kind is None or is_command:
        return outcome.kind is SystemExit
    is_of_import = issubclass(
        outcome.kind, AttributeError | ImportError
    )  # of names that Tofu, and Tofu alone, does not have
    return issubclass(outcome.kind, tofu.TofuError) or (
        is_of_import and ("'tofu" in str(outcome) or "JAX" in str(outcome))
    )


def read_mistakes() -> dict[str, tuple[str, list[Mistake]]]:
    """Area -> its title, and its mistakes."""
    read = {area: tomli.loads((FOLDER / f"{area}.toml").read_text()) for area in AREAS}
    return {area: (text["title"], [Mistake(**one) for one in text["mistakes"]]) for area, text in read.items()}


def is_shown_here(area: str) -> bool:
    """JAX is missing where it is not installed alone."""
    return area != "jax" or find_spec("jax") is None


def write_entry(mistake: Mistake, outcome: Outcome) -> str:
    """A mistake and what is said of it, as the document has it."""
    prompt = "" if mistake.code.startswith("$") else ">>> "
    lines = [line.rstrip() for line in str(outcome).splitlines()]
    return "\n".join(["```text", prompt + mistake.code, *lines, "```"])


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Write docs/mistakes.md, where JAX is not installed.")
def main(write: bool) -> None:
    """Try all mistakes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pages, problems, count = [INTRODUCTION], [], 0
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        for area, (title, mistakes) in read_mistakes().items():
            if not is_shown_here(area):
                continue
            pages.append(f"## {title}\n")
            for mistake in mistakes:
                outcome = world.make(mistake)
                problems += [f"{mistake.code}: {problem}" for problem in world.find_wrong(mistake, outcome)]
                pages.append(f"{write_entry(mistake, outcome)}\n")
                count += 1
        world.go_on()
    for problem in problems:
        click.echo(problem)
    click.echo(f"{count} mistakes, {len(problems)} problems")
    if write:
        DOCUMENT.write_text("\n".join(pages))
    sys.exit(bool(problems) or count < FEWEST)


if __name__ == "__main__":
    main()
