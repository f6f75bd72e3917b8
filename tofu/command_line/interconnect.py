"""`python -m tofu topology`: measure the bandwidth between GPUs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from tofu.host.writing import write_atomically
from tofu.mxnet.runtime.cluster.interconnect import Interconnect, measure_interconnect, measure_with_cupy
from tofu.report.console import make_console, new_table


@click.command()
@click.option(
    "--save",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("topology.json"),
    show_default=True,
    help="File to write.",
)
def topology(path: Path) -> None:
    """Measure the bandwidth between all pairs of GPUs.

    Writes a file for --topology with the levels of the interconnect. The file lists the GPUs in the order in which
    workers should use them. The command needs CuPy and at least two GPUs.

    \b
    Examples:
        python -m tofu topology
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224 --topology topology.json
    """  # noqa: D301  click reads the escape
    count, measure = measure_with_cupy()
    interconnect = measure_interconnect(count, measure)
    console = make_console()
    console.print(_pair_table(interconnect))
    for parts, rate in interconnect.levels:
        console.print(f"a level of {parts} parts: {rate / 1e9:.1f} GB/s, all workers together")
    write_atomically(str(path), interconnect.to_json())
    contexts = ", ".join(f"mx.gpu({device})" for device in interconnect.devices)
    click.echo(f'\ntofu.partition(symbol, contexts=[{contexts}], topology="{path}")')


def _pair_table(interconnect: Interconnect) -> Table:
    table = new_table("GB/s", *(f"gpu({device})" for device in interconnect.devices))
    for device, row in zip(interconnect.devices, interconnect.pairs, strict=True):
        table.add_row(f"gpu({device})", *(f"{rate / 1e9:.1f}" if rate else "-" for rate in row))
    return table
