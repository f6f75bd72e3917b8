"""The plan of GluonNLP's BERT-large in training: how soon it is there, what it moves and what a worker holds.

    .ci/gluon && build/gluon/bin/python -m benchmarks.bert_large [--workers 8] [--batch 64]

Sentences of several lengths, and the head that names masked words (24 layers of 1,024, 16 heads, 30,522 words; 128 tokens, 20 of them
masked), with nothing said of how to split it. Fails where the plan misses a bar below. Nothing is run, and no array is made.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

WORKERS, BATCH = 8, 64
MOST_GIB = 20.2  # moved in a step, of 8 workers over 64 sentences
MOST_SECONDS = 5.0  # of reading, analysis and search
MOST_OF_EVEN_SHARE = 1.05  # of what any worker holds
LENGTH, MASKED = 128, 20


def build() -> Any:
    """The loss of a batch, as a symbol."""
    import tofu  # noqa: F401, I001  # before mxnet
    import mxnet as mx
    from gluonnlp.model.bert import BERTEncoder, BERTModel

    encoder = BERTEncoder(num_layers=24, units=1024, hidden_size=4096, max_length=512, num_heads=16)
    model = BERTModel(encoder, 30522, token_type_vocab_size=2, units=1024, embed_size=1024, use_classifier=False)
    model.hybridize()
    names = ("words", "types", "lengths", "positions")
    *_, named = model(*map(mx.sym.Variable, names))
    masked = mx.sym.Variable("masked")
    chosen = mx.sym.pick(mx.sym.log_softmax(named), masked, axis=-1)
    return mx.sym.MakeLoss(-mx.sym.mean(chosen, axis=-1), name="loss")


def plan(workers: int, batch: int) -> tuple[float, Any]:
    """The seconds it takes from a symbol to its plan, and the plan."""
    import tofu

    symbol = build()
    sizes = {"words": (batch, LENGTH), "types": (batch, LENGTH), "lengths": (batch,)}
    sizes |= {"positions": (batch, MASKED), "masked": (batch, MASKED)}
    started = time.perf_counter()
    found = tofu.partition(symbol, ngpus=workers, cache=False, **sizes).plan
    return time.perf_counter() - started, found


@click.command(help=__doc__)
@click.option("--workers", default=WORKERS, show_default=True)
@click.option("--batch", default=BATCH, show_default=True)
def main(workers: int, batch: int) -> None:
    """The table, and an error where a bar is missed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seconds, found = plan(workers, batch)
    moved = found.communication_bytes / 2**30
    share = max(found.worker_bytes) * workers / sum(found.worker_bytes)
    print(f"BERT-large, {batch} sentences of {LENGTH} tokens, {workers} workers: {found.optimality}")
    print(f"  planned in {seconds:.2f} s (at most {MOST_SECONDS})")
    print(f"  moves {moved:.2f} GiB a step (at most {MOST_GIB} for {WORKERS} workers and {BATCH} sentences)")
    print(
        f"  a worker holds {max(found.worker_bytes) / 2**30:.2f} GiB, {share:.3f} of the even share (at most {MOST_OF_EVEN_SHARE})"
    )
    is_stated = (workers, batch) == (WORKERS, BATCH)
    sys.exit(seconds > MOST_SECONDS or share > MOST_OF_EVEN_SHARE or (is_stated and moved > MOST_GIB))


if __name__ == "__main__":
    main()
