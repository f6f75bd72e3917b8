"""What `mkdocs.yml` does beside MkDocs: the site has the paths of the repository, and a reference made of docstrings.

Documents link to each other, to folders and to source files as they lie in the repository. So every document is a page under its own path,
a folder is its README, and whatever else is linked to lies beside the pages as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "examples", "tofu", "tdl_ops", "csrc", "tests", "benchmarks")
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
CODE = re.compile(r"```.*?```|`[^`]*`|[^`]+", re.DOTALL)  # or what stands between codes
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Page of the reference -> what it says first, and the modules whose `__all__` it shows.
REFERENCE = {
    "reference/python.md": (
        "# Python\n\nWhat `import tofu` has; MXNet is loaded when it is needed.\n",
        ("tofu", "tofu.gluon", "tofu.mod"),
    ),
    "reference/jax.md": ("# JAX\n\nWhat `import tofu.jax` has.\n", ("tofu.jax",)),
}


def on_files(files: Files, config: Any) -> Files:
    """All documents under their paths, what they link to, the reference, and what the theme has."""
    from mkdocs.structure.files import File, Files  # not at the top: tests read this file without MkDocs

    documents = list(list_documents())
    linked = {path for document in documents for path in list_linked(document) if path.suffix != ".md"}
    ours = [
        File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path))
        for path in (*documents, *sorted(linked))
    ]
    reference = [File.generated(config, name, content=write_reference(name)) for name in REFERENCE]
    theme = [file for file in files if file.abs_src_path and not Path(file.abs_src_path).is_relative_to(ROOT / "docs")]
    return Files([*theme, *ours, *reference])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to folders become links to their READMEs; indices of indices in a sentence are no links by reference."""
    source = ROOT / page.file.src_uri
    linked = LINK.sub(lambda link: link[1] + _name_target(source, link[2]) + link[3], markdown)
    return CODE.sub(lambda part: part[0] if part[0].startswith("`") else part[0].replace("][", "\\]\\["), linked)


def list_documents() -> Iterator[Path]:
    """What people read: the documents at the top, those of docs/, and the README of each folder."""
    yield from (ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for folder in FOLDERS:
        pattern = "*.md" if folder == "docs" else "README.md"
        yield from sorted((ROOT / folder).rglob(pattern))


def list_linked(document: Path) -> Iterator[Path]:
    """The files of the repository that a document links to."""
    for link in LINK.finditer(FENCE.sub("", document.read_text())):
        target = (document.parent / link[2]).resolve()
        if target.is_file() and target.is_relative_to(ROOT):
            yield target


def _name_target(source: Path, target: str) -> str:
    """A folder's README, or its own page where it has none: of a family of small files, which the folder above tells of."""
    folder = source.parent / target
    if ":" in target or not folder.is_dir():
        return target
    return f"{target.rstrip('/')}/README.md" if (folder / "README.md").exists() else source.name


def write_reference(name: str) -> str:
    """A page whose parts are made of the docstrings of a module's public names."""
    text, modules = REFERENCE[name]
    parts = [
        f"::: {path}\n    options:\n      heading: {module}.{path.rpartition('.')[2]}\n"
        for module in modules
        for path in list_public(module)
    ]
    return "\n".join([text, *parts])


def list_public(module: str) -> Iterator[str]:
    """The full names of what a module's `__all__` has, read without importing it: those of the modules that define them."""
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
    shown = [one for one in names if origins.get(one) and origins[one] not in submodules]
    return (origins[one] for one in sorted(shown, key=lambda one: (one.endswith("Error"), one[0].isupper())))
