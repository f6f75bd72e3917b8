"""Gradients of a bound model. They share memory with other tensors, so a later forward pass may overwrite them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from tofu.errors import TofuError
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.bound_graph import BoundGraph


class _Values(Enum):
    ZERO = "there was no backward yet"
    EARLIER = "gradients of another executor, before a reshape"
    CURRENT = "gradients of the last backward"
    OVERWRITTEN = "a training forward came after the last backward and may use the memory, or a step failed"


class Gradients:
    """Gradients that a training step computes.

    Attributes
    ----------
    names
        Names of the arguments that have gradients.
    sums
        Sum of all gradients so far, by name, for arguments with grad_req="add".
    """

    def __init__(self, graph: BoundGraph) -> None:
        model = graph.partition.graph
        self.names = tuple(model.tensors[position].name for position in model.gradients)
        self.sums: dict[str, ShardedTensor] = {}
        self._graph = graph
        self._values = _Values.ZERO
        self._earlier: dict[str, ShardedTensor] = {}

    @property
    def are_current(self) -> bool:
        """True if the gradients are from the last backward pass."""
        return self._values is _Values.CURRENT

    @property
    def are_readable(self) -> bool:
        """True if the gradients are computed and not yet overwritten."""
        return self._values in (_Values.CURRENT, _Values.EARLIER)

    def find_output(self, name: str) -> int:
        """Return the number of the graph's output that is the gradient of argument `name`."""
        return self._graph.execution.n_model_outputs + self.names.index(name)

    def note_forward(self) -> None:
        """Mark computed gradients as overwritten. Call this before a forward pass for training."""
        if self._values is not _Values.ZERO:
            self.invalidate()

    def note_backward(self) -> None:
        """Mark the gradients as current. Call this before a backward pass."""
        self._values, self._earlier = _Values.CURRENT, {}

    def invalidate(self) -> None:
        """Mark the gradients as overwritten."""
        self._values, self._earlier = _Values.OVERWRITTEN, {}

    def add_to_sums(self) -> None:
        """Add the gradients of the last backward pass to `sums`."""
        for name, gradient_sum in self.sums.items():
            gradient_sum.add(self._graph.output(self.find_output(name)))

    def read(self, name: str) -> ShardedTensor:
        """Return the gradient of an argument. Raise TofuError if it was overwritten."""
        if name not in self.names:
            raise TofuError(f"{name} has no gradient. Those that have one: {', '.join(self.names) or 'none'}.")
        if name in self.sums:
            return self.sums[name]
        if self._values is _Values.OVERWRITTEN:
            raise TofuError(
                "There are no gradients: the last step failed, or forward(is_train=True) or a batch of another size came after the last "
                "backward() and may have overwritten them. Call backward() first."
            )
        if self.are_current:
            return self._graph.output(self.find_output(name))
        return self._earlier.setdefault(name, self._make_zeros(name))

    def keep(self, earlier: Gradients) -> None:
        """Copy another executor's gradients. They stay valid until the next forward pass for training."""
        if not earlier.are_readable:
            self._values = earlier._values
        else:
            self._values = _Values.EARLIER
            for name in self.names:
                gradient, earlier_gradient = self._make_zeros(name), earlier.read(name)
                if gradient.shape == earlier_gradient.shape:
                    gradient.scatter(earlier_gradient.gather())
                    self._earlier[name] = gradient

    def _make_zeros(self, name: str) -> ShardedTensor:
        return self._graph.output(self.find_output(name)).zeros_like()

    def forget(self, earlier: Gradients) -> None:
        """Mark these gradients as overwritten if the gradients `earlier` were computed."""
        if earlier._values is not _Values.ZERO:
            self.invalidate()

    def add_up(self, names: Collection[str], shared: Mapping[str, ShardedTensor]) -> None:
        """Start the sums of gradients that grad_req="add" requests.

        A sum starts with the tensor in `shared`. It starts with zeros if the tensor is missing or split differently.
        """
        for name in names:
            zeros, shared_sum = self._make_zeros(name), shared.get(name)
            self.sums[name] = shared_sum if shared_sum is not None and shared_sum.matches(zeros) else zeros
