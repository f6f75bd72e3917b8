"""Training steps of large models in plain JAX, as people write them, from shapes alone.

Weights are bf16. The optimizer keeps a float32 master copy and two moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tests.models.jax.large.graph import sage
from tests.models.jax.large.language import LlamaSize, decode, gpt, llama, lora, mixtral
from tests.models.jax.large.training import LargeModel
from tests.models.jax.large.vision import dit, unet, vit


@dataclass(frozen=True)
class Recipe:
    """A model, with its usual batch: `samples` in all, or `per_device` samples for each device if `samples` is 0."""

    build: Callable[[int], LargeModel]
    per_device: int = 2
    samples: int = 0

    def count_samples(self, devices: int, per_device: int | None = None) -> int:
        return self.samples or devices * (per_device or self.per_device)


LLAMA_8B = LlamaSize(layers=32, width=4096, hidden=14_336, heads=32, groups=8)
LLAMA_70B = LlamaSize(layers=80, width=8192, hidden=28_672, heads=64, groups=8)
NODES = 1_000_000

MODELS: Mapping[str, Recipe] = {
    "llama-8b": Recipe(partial(llama, size=LLAMA_8B)),
    "llama-8b-unrolled": Recipe(partial(llama, size=LLAMA_8B, is_scanned=False)),
    "llama-70b": Recipe(partial(llama, size=LLAMA_70B)),
    "llama-70b-unrolled": Recipe(partial(llama, size=LLAMA_70B, is_scanned=False)),
    "mixtral-8x7b": Recipe(partial(mixtral, size=LLAMA_8B)),
    "gpt3-175b": Recipe(partial(gpt, layers=96, width=12_288, heads=96)),
    "vit-l": Recipe(vit, per_device=64),
    "sd-unet": Recipe(unet, per_device=8),
    "dit-xl": Recipe(dit, per_device=32),
    "graphsage": Recipe(partial(sage, edges=10 * NODES), samples=NODES),
    "llama-8b-decode": Recipe(partial(decode, size=LLAMA_8B), samples=64),
    "llama-8b-lora": Recipe(partial(lora, size=LLAMA_8B)),
}
