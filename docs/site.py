"""MkDocs hooks: the site keeps the paths of the repository, and has a reference generated from docstrings and commands.

Documents link to each other, to folders and to source files by their paths in the repository. So every document is a page under its own
path, a folder is its README, and other linked files are copied beside the pages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "examples", "tofu", "tdl_ops", "csrc", "tests", "benchmarks")
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
CODE = re.compile(r"```.*?```|`[^`]*`|[^`]+", re.DOTALL)  # code, or the text between code
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Page of the reference -> its introduction, and the modules whose `__all__` it shows.
REFERENCE = {
    "reference/python.md": (
        "# Python\n\nPublic names of `tofu`. MXNet is imported on first use.\n",
        ("tofu", "tofu.gluon", "tofu.mod"),
    ),
    "reference/jax.md": ("# JAX\n\nPublic names of `tofu.jax`.\n", ("tofu.jax",)),
}
COMMANDS = "reference/commands.md"


def on_files(files: Files, config: Any) -> Files:
    """Return all documents under their paths, the files that they link to, the reference, and the theme's files."""
    from mkdocs.structure.files import File, Files  # not at the top: tests import this file without MkDocs

    documents = list(list_documents())
    linked = {path for document in documents for path in list_linked(document) if path.suffix != ".md"}
    ours = [
        File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path))
        for path in (*documents, *sorted(linked))
    ]
    reference = [File.generated(config, name, content=write_reference(name)) for name in REFERENCE]
    reference.append(File.generated(config, COMMANDS, content=write_commands()))
    theme = [file for file in files if file.abs_src_path and not Path(file.abs_src_path).is_relative_to(ROOT / "docs")]
    return Files([*theme, *ours, *reference])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link folders to their READMEs, and escape `][` outside code, since it is no reference link."""
    source = ROOT / page.file.src_uri
    linked = LINK.sub(lambda link: link[1] + _name_target(source, link[2]) + link[3], markdown)
    return CODE.sub(lambda part: part[0] if part[0].startswith("`") else part[0].replace("][", "\\]\\["), linked)


def list_documents() -> Iterator[Path]:
    """Yield the documents at the top, those of docs/, and the README of each folder."""
    yield from (ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for folder in FOLDERS:
        pattern = "*.md" if folder == "docs" else "README.md"
        yield from sorted((ROOT / folder).rglob(pattern))


def list_linked(document: Path) -> Iterator[Path]:
    """Yield the files of the repository that a document links to."""
    for link in LINK.finditer(FENCE.sub("", document.read_text())):
        target = (document.parent / link[2]).resolve()
        if target.is_file() and target.is_relative_to(ROOT):
            yield target


def _name_target(source: Path, target: str) -> str:
    """Return a folder's README, or the page itself if the folder has no README."""
    folder = source.parent / target
    if ":" in target or not folder.is_dir():
        return target
    return f"{target.rstrip('/')}/README.md" if (folder / "README.md").exists() else source.name


def write_reference(name: str) -> str:
    """Return a page of the docstrings of modules' public names."""
    text, modules = REFERENCE[name]
    parts = [
        f"::: {path}\n    options:\n      heading: {module}.{path.rpartition('.')[2]}\n"
        for module in modules
        for path in list_public(module)
    ]
    return "\n".join([text, *parts])


def list_public(module: str) -> Iterator[str]:
    """Yield the full names of a module's `__all__` in the modules that define them, without importing it."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text())
    origins = {
        alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    (names,) = (
        ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"
    )
    submodules = ("tofu.gluon", "tofu.mod")
    shown = [name for name in names if origins.get(name) and origins[name] not in submodules]
    return (origins[name] for name in sorted(shown, key=lambda name: (name.endswith("Error"), name[0].isupper())))


def write_commands() -> str:
    """Return a page of the help of all commands whose frameworks are installed."""
    sys.path.insert(0, str(ROOT))
    import click

    from tofu.command_line.main import main

    context = click.Context(main, info_name="python -m tofu", terminal_width=100, **main.context_settings)
    parts = ["# Commands\n", f"```text\n{main.get_help(context)}\n```\n"]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        text = command.get_help(click.Context(command, info_name=name, parent=context, terminal_width=100))
        parts.append(f"## {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)
