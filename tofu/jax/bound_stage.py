"""A step that was lowered or compiled ahead of time, which is called without the constants that it takes besides its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BoundStage:
    """A `jax.stages.Lowered` or `Compiled` whose last argument is bound to `constants`; all else is that of the `stage`."""

    stage: Any
    constants: Sequence[Any]

    def compile(self, *args: Any, **named: Any) -> BoundStage:
        """Compile a lowered step."""
        return BoundStage(self.stage.compile(*args, **named), self.constants)

    def __call__(self, *args: Any) -> Any:
        """Run a compiled step on its arguments."""
        return self.stage(*args, self.constants)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)
