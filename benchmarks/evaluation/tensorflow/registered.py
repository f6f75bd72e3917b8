"""The operators that TensorFlow registers, and which of them are counted.

    python -m benchmarks.evaluation.tensorflow.registered tensorflow-1.3.0-cp36-cp36m-manylinux1_x86_64.whl

Reads a wheel of TensorFlow, whose generated modules end in the definitions of their operators, and writes `registered-1.3.0.csv` beside
this file. Nothing of the wheel is executed. The paper says how many operators its authors counted, not which: `is_counted` is a
reconstruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import click

from benchmarks.evaluation.tables import read_table, write_table

FOLDER = Path(__file__).parent
# The modules of operators that compute tensors. The others have queues, readers, files, summaries, strings, control flow, data sets,
# tables, calls of Python.
IMAGES_AND_SOUNDS = "audio", "image"
ALGEBRA = "bitwise", "linalg", "math", "spectral"
LEARNING = "candidate_sampling", "ctc", "nn", "random", "state", "training"
CELLS = "array", "manip", "set", "sparse"
MODULES = frozenset((*IMAGES_AND_SOUNDS, *ALGEBRA, *LEARNING, *CELLS))
# Tensors of these types are handles, files or texts.
HANDLES = re.compile(r"type: DT_(STRING|RESOURCE|VARIANT)$", re.MULTILINE)
GRADIENT = re.compile(
    r"Grad(Grad)?(WithArgmax|Image|Boxes|V\d)?$|Backprop|^FakeQuant\w+Gradient$|^BroadcastGradientArgs$"
)
HOLDER = re.compile(r"Variable|Placeholder|^(Immutable)?Const$")


@dataclass(frozen=True)
class Registered:
    """An operator as it is registered: how many inputs it has (a list is one), whether TensorFlow calls it deprecated, and whether tensors
    of it are handles, files or texts.
    """

    name: str
    module: str
    inputs: int
    is_deprecated: bool
    has_handles: bool

    @property
    def is_gradient(self) -> bool:
        """Whether it computes the gradient of another one, or its shape."""
        return bool(GRADIENT.search(self.name))

    @property
    def computes_tensors(self) -> bool:
        """Whether it computes tensors from tensors, and is there to be used. Variables, placeholders and constants only hold them."""
        is_left_out = self.is_deprecated or self.name.startswith("_") or self.has_handles or HOLDER.search(self.name)
        return self.module in MODULES and not is_left_out

    @property
    def is_counted(self) -> bool:
        """Gradients are left out, since the paper's operators of MXNet are forward operators."""
        return self.computes_tensors and not self.is_gradient


def read_registered(version: str) -> list[Registered]:
    """All operators of a version, by their modules."""
    return read_table(FOLDER / f"registered-{version}.csv", Registered)


def read_wheel(path: Path) -> Iterator[Registered]:
    """All operators that a wheel's generated modules define."""
    with ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            found = re.search(r"tensorflow/python/(?:ops|training)/gen_(\w+)_ops\.py$", name)
            if found is not None:
                yield from _read_module(found[1], wheel.read(name).decode())


def _read_module(module: str, text: str) -> Iterator[Registered]:
    """The definitions are comments: `# op {`, two more spaces for each level."""
    for definition in re.findall(r"^# op \{\n(.*?)^# \}$", text, re.MULTILINE | re.DOTALL):
        name = re.search(r'^#   name: "(\w+)"$', definition, re.MULTILINE)
        tensors = re.findall(r"^#   (input|output)_arg \{\n(.*?)^#   \}$", definition, re.MULTILINE | re.DOTALL)
        assert name is not None
        inputs = sum(side == "input" for side, _ in tensors)
        is_deprecated = re.search(r"^#   deprecation \{$", definition, re.MULTILINE) is not None
        yield Registered(name[1], module, inputs, is_deprecated, any(HANDLES.search(text) for _, text in tensors))


@click.command(help=__doc__)
@click.argument("wheel", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(wheel: Path) -> None:
    version = wheel.name.split("-")[1]
    write_table(FOLDER / f"registered-{version}.csv", read_wheel(wheel))
    registered = read_registered(version)
    click.echo(f"{len(registered)} operators, of which {sum(one.is_counted for one in registered)} are counted")


if __name__ == "__main__":
    main()
