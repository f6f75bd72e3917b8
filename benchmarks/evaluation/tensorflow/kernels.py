"""Descriptions of TensorFlow's operators beside its kernels, where TensorFlow 2 is installed, which still has most of them.

    python -m benchmarks.evaluation.tensorflow.kernels

Runs each operator of the table on random numbers, and executes its description with NumPy. Writes `compared.csv` beside this file: what was
equal, for descriptions that have not changed since. Left out is what is random or opaque, and what TensorFlow 2 has no kernel of.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.evaluation.tables import read_table, write_table
from benchmarks.evaluation.tensorflow import look_up
from benchmarks.evaluation.tensorflow.kernel_table import KERNELS, Kernel
from tofu.tdl import interpret

FOLDER = Path(__file__).parent
COMPARED = FOLDER / "compared.csv"


@dataclass(frozen=True)
class Compared:
    """An operator whose description was equal to its kernel, of which TensorFlow; `digest`: of all descriptions."""

    name: str
    tensorflow: str
    digest: str


def read_compared() -> list[Compared]:
    """What was compared, as far as it still holds."""
    return [one for one in read_table(COMPARED, Compared) if one.digest == digest_descriptions()]


def digest_descriptions() -> str:
    """A digest of the sources of all descriptions."""
    texts = (path.read_bytes() for path in sorted((FOLDER / "descriptions").glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


def draw(
    arguments: str, shapes: list[tuple[int, ...]], random: np.random.RandomState
) -> Iterator[tuple[str, str, Any]]:
    """The name, the type and the numbers of each argument."""
    for argument, shape in zip(arguments.split(), shapes, strict=True):
        found = re.fullmatch(r"([\w.]+)(?::(\w))?(?:=(.+))?", argument)
        assert found is not None, argument
        kind, value = found[2] or "d", found[3] or ""
        if value[:1] == "<":
            numbers = random.randint(0, int(value[1:]), shape)
        elif value[:1] == "~":
            numbers = random.permutation(int(value[1:]))
        elif value:
            numbers = np.full(shape, float(value))
        elif kind in "bw":
            numbers = random.randint(0, 256, shape) if kind == "b" else random.randint(-(2**30), 2**30, shape)
        else:
            numbers = random.uniform(-0.9, 1.1, shape) if shape else random.uniform(0.1, 0.9)
        yield found[1], kind, np.asarray(numbers, np.float64)


def run_kernel(tensorflow: Any, name: str, kernel: Kernel, given: list[tuple[str, str, Any]]) -> list[Any]:
    """The results of TensorFlow's kernel."""
    types = {"d": tensorflow.float64, "f": tensorflow.float32, "i": tensorflow.int32, "l": tensorflow.int64}
    quantized = {"b": tensorflow.quint8, "w": tensorflow.qint32}
    arguments, variables = dict(kernel.constants), []
    for argument, kind, numbers in given:
        if kind == "v":
            variables.append(tensorflow.Variable(numbers))
            arguments[argument] = variables[-1].handle
        elif kind in quantized:
            arguments[argument] = tensorflow.cast(numbers.astype("int32"), quantized[kind])
        else:
            arguments[argument] = tensorflow.cast(numbers, types[kind])
    for argument in {name.partition(".")[0] for name in arguments if "." in name}:
        arguments[argument] = [arguments.pop(one) for one in sorted(arguments) if one.startswith(f"{argument}.")]
    results = getattr(tensorflow.raw_ops, f"Resource{name}" if variables else name)(**arguments)
    if variables:
        return [variables[0].numpy()]
    listed = results if isinstance(results, (tuple, list)) else [results]
    return [tensorflow.cast(one, tensorflow.int32) if one.dtype in quantized.values() else one for one in listed]


def compare(tensorflow: Any, name: str, kernel: Kernel, seed: int = 3) -> str:
    """What differs between a description and its kernel; nothing where they are equal."""
    description, signature = look_up(name)
    given = list(draw(kernel.arguments, list(signature.inputs), np.random.RandomState(seed)))
    attributes = {**signature.attributes, **kernel.attributes}
    ours = interpret(description, attributes, [numbers for *_, numbers in given], signature.outputs)
    for own, other in zip(ours, run_kernel(tensorflow, name, kernel, given), strict=True):
        numbers = np.asarray(other).astype(float)
        if own.shape != numbers.shape or not np.allclose(own, numbers, rtol=kernel.tolerance, atol=kernel.tolerance):
            return f"{name}: {own.ravel()[:5]} of shape {own.shape}, TensorFlow has {numbers.ravel()[:5]} of shape {numbers.shape}"
    return ""


@click.command(help=__doc__)
def main() -> None:
    import tensorflow

    problems = {name: compare(tensorflow, name, kernel) for name, kernel in KERNELS.items()}
    digest, version = digest_descriptions(), tensorflow.__version__
    write_table(COMPARED, [Compared(name, version, digest) for name, problem in problems.items() if not problem])
    click.echo(f"{sum(not problem for problem in problems.values())} of {len(problems)} are equal")
    if differ := [problem for problem in problems.values() if problem]:
        raise click.ClickException("\n".join(differ))


if __name__ == "__main__":
    main()
