"""docs/commands.md is the help of the commands."""

from collections.abc import Iterator
from pathlib import Path

import click

from tofu.command_line.main import main

DOCUMENT = Path(__file__).parents[2] / "docs/commands.md"
BEFORE = """# Commands

What the commands say when they are asked for help. A model is a symbol that MXNet saved, or a training step for JAX in a file.
"""


def list_commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            yield from list_commands(below, click.Context(below, info_name=name, parent=context))


def test_the_document_is_the_help_of_the_commands(check_golden):
    context = click.Context(main, info_name="python -m tofu", terminal_width=100, **main.context_settings)
    parts = [f"## {path}\n\n```text\n{text}\n```\n" for path, text in list_commands(main, context)]
    check_golden(DOCUMENT, "\n".join([BEFORE, *parts]))
