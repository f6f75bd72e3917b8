"""The command line: `python -m tofu COMMAND`.

Each command calls an engine (`tofu.engines`: MXNet or JAX), and prints the result with `tofu.report`. An error that the
user can correct ends the command with one message and exit code 1. A command, and the framework that it needs, are
imported when the command is called.
"""

from __future__ import annotations

import signal
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from tofu import __version__
from tofu.engines import ENGINES
from tofu.errors import TofuError, suggest
from tofu.host.interrupts import Terminated, terminable
from tofu.imports.native import import_native

FILES = {
    "advise": "simulation",
    "calibrate": "simulation",
    "compare": "comparison",
    "diff": "plan_diff",
    "doctor": "doctor",
    "frontier": "frontier",
    "memory": "planning",
    "ops": "operators",
    "plan": "planning",
    "simulate": "simulation",
    "topology": "interconnect",
    "verify": "operators",
    "verify --jax": "primitives",
    "verify-model": "models",
}
"""Command -> its module in this folder."""
NEED_MXNET = {"calibrate", "frontier", "ops", "topology", "verify"}


class _Commands(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        try:
            import_native("_core")
        except ImportError:
            return ["doctor"]
        has_mxnet = find_spec("mxnet") is not None
        return [name for name in FILES if has_mxnet or name not in NEED_MXNET]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in FILES:
            return None
        try:
            if name in NEED_MXNET:
                import_module("tofu.mxnet")  # its error explains how to install MXNet
            module = import_module(f"tofu.command_line.{FILES[name]}")
            command: click.Command = getattr(module, name.replace(" --", "_").replace("-", "_"))
        except ImportError as error:
            raise click.ClickException(str(error)) from error
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Turn `verify MODEL` into `verify-model MODEL`. Drop the word `jax`, as in version 0.3's `jax plan`."""
        if arguments[:1] == ["jax"]:
            arguments = arguments[1:] or ["--help"]
            click.echo(f"python -m tofu {' '.join(arguments[:1])} is for JAX, too: leave out jax.", err=True)
            if arguments[0] not in FILES:
                arguments = ["plan", *arguments]
        if arguments[:1] == ["verify"] and "--jax" in arguments:
            arguments = ["verify --jax", *(text for text in arguments[1:] if text != "--jax")]
        if arguments[:1] == ["verify"] and any(engine.reads(text) for engine in ENGINES for text in arguments[1:]):
            arguments = ["verify-model", *arguments[1:]]
        if arguments and not arguments[0].startswith("-") and arguments[0] not in FILES:
            near = suggest(arguments[0], FILES) or self._suggest_option(context, arguments[0])
            context.fail(f"No such command {arguments[0]!r}{near}.")
        return super().resolve_command(context, arguments)

    # An unknown command may be an option of other commands, such as `why` of `plan`.
    def _suggest_option(self, context: click.Context, name: str) -> str:
        commands = []
        for each in self.list_commands(context):
            command = self.get_command(context, each)
            if command is not None and any(f"--{name}" in option.opts for option in command.params):
                commands.append(each)
        return f"; --{name} is an option of {', '.join(commands)}" if commands else ""

    def invoke(self, context: click.Context) -> Any:
        try:
            with terminable():
                return super().invoke(context)
        except TofuError as error:
            from tofu.command_line.planning_options import spell_as_options  # not at the top: it needs native code

            raise click.ClickException(spell_as_options(str(error))) from error
        except KeyboardInterrupt as error:
            number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
            click.echo(f"Ended by {number.name}. {error}".rstrip(), err=True)
            raise SystemExit(128 + number) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tofu")
def main() -> None:
    """Tofu takes a training step written for one device, and runs it on several.

    The commands below plan, compare and verify models. They do not train. To train, add one line to your script:

    \b
        symbol = tofu.partition(symbol, ngpus=4)             # MXNet
        step = tofu.jax.partition(step, 4, (state, batch))   # JAX
    """  # noqa: D301  click reads the escape
