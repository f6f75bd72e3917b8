"""An NDArray of a parameter that lies in shards: whole where MXNet asks for it, and shards again where Tofu does.

A Gluon user may read and write `parameter.data()` and `parameter.grad()` as any array, at any time. The whole array is made when an
operator of MXNet is called with it, that is when its handle is asked for. Writes to it are counted by MXNet, and go to the shards
before Tofu uses those again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import TofuError
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray, is_everything
from tofu.mxnet.runtime.arrays.shards import ShardedTensor, as_legacy, count_writes, digest

# Methods whose results share the array's memory.
VIEWS = (
    "__getitem__",
    "_at",
    "_slice",
    "as_np_ndarray",
    "reshape",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
)


class LikeNDArray(type):
    """A class that MXNet takes for NDArray itself: where an item is set it compares types, and knows no subclasses."""

    def __eq__(cls, other: object) -> bool:
        return other is mx.nd.NDArray or other is cls

    def __hash__(cls) -> int:
        return id(cls)


class ParameterArray(ShardedArray, metaclass=LikeNDArray):
    """A parameter's values or its gradient: `tensor` are the shards, `handle` is MXNet's of the whole.

    Parameters
    ----------
    tensor
        The shards. Before a model is bound they are one, on the host.
    before_use
        Called before the whole or the shards are handed out: it may have to put other shards in, or to refuse.
    """

    def __init__(self, tensor: ShardedTensor, before_use: Callable[[], None] = lambda: None) -> None:
        super().__init__(tensor)
        self.name = tensor.name
        self.before_use = before_use
        self._whole: Any = None
        self._is_current = False  # whether the whole holds what the shards hold, and what was written to it since
        self._writes = 0  # to the whole, when it and the shards were equal last
        self._digest: int | None = None  # of the whole, when it was last looked through
        self._views: list[weakref.ref[Any]] = []  # arrays that share the whole's memory
        self._is_exported = False  # whether something that cannot be watched shares it
        self._is_lapsed = False  # whether what the shards held has been overwritten
        self._is_fresh = False
        self.gradient: ParameterArray | None = None  # of the parameter whose values these are
        self.has_sparse_gradient = False  # on one device
        self.is_sparse = False  # the same, of a gradient

    @property
    def tensor(self) -> ShardedTensor:
        """The shards, with what was written to the whole."""
        if self._is_current and count_writes(self._whole) != self._writes:
            self._shards.scatter(self._whole)
            self._writes = count_writes(self._whole)
        self._check_lapse()
        return self._shards

    @tensor.setter
    def tensor(self, tensor: ShardedTensor) -> None:
        self._shards = tensor

    @property
    def layout(self) -> ShardedTensor:
        """The shards as they lie, whatever they hold."""
        return self._shards

    def put(self, tensor: ShardedTensor) -> None:
        """Be these shards from now on, with what they hold."""
        self._shards, self._is_lapsed = tensor, False
        self.note_change()

    def lapse(self) -> None:
        """The shards are used for something else from now on; only what was made whole already may still be read."""
        if self._is_viewed:
            self._read_shards()
        self._shards, self._is_lapsed = zeros_like(self._shards), True

    @property
    def is_lapsed(self) -> bool:
        """Whether there is nothing to read: what the shards held has been overwritten."""
        self.before_use()
        return self._is_lapsed and not self._is_current

    def _check_lapse(self) -> None:
        if self._is_lapsed and not self._is_current:
            raise TofuError(
                f"The gradient of {self.name} is gone: an update has used it, and the next forward the memory that it was in. "
                "Read gradients before the next forward."
            )

    @property
    def _is_viewed(self) -> bool:
        self._views = [view for view in self._views if view() is not None]
        return bool(self._views) or self._is_exported

    def move(self, tensor: ShardedTensor) -> None:
        """Be these shards from now on, with what the array holds."""
        before = self.tensor
        if tensor is before:
            return
        self._shards = tensor
        tensor.scatter(before.gather())
        for array in tensor.arrays:
            array.wait_to_read()  # or the wholes of all parameters lie in the host's memory at once
        if not self._is_viewed:
            self._whole, self._is_current = None, False

    def read_uncounted(self) -> None:
        """Have the shards hold what was written to the whole through a pointer, of which MXNet counts nothing."""
        if self._is_current:
            now = digest(self._whole)
            if now != self._digest:
                self._shards.scatter(self._whole)
            self._digest = now

    def wait_for_writes(self) -> None:
        """Block until what was issued to write to the whole has done so; it blocks for nothing else."""
        if self._is_current:
            self._whole.wait_to_read()

    def note_change(self) -> None:
        """The shards have changed: the whole is made anew when it is asked for, at once where something else shares its memory."""
        self._is_current = False
        if self._is_viewed:
            self._read_shards()

    def _read_shards(self) -> None:
        if self._is_current:
            return
        self._check_lapse()
        self._whole = self._shards.gather(self._whole)
        self._writes, self._is_current = count_writes(self._whole), True

    @property
    def handle(self) -> Any:
        """MXNet's handle of the whole array, which holds what the shards hold."""
        self.before_use()
        self._read_shards()
        return self._whole.handle

    @property
    def context(self) -> Any:
        """Where the whole array is: in the host's memory."""
        return mx.cpu(0)

    ctx = context

    @property
    def _fresh_grad(self) -> bool:
        """Whether a backward has written the gradient since the last update: a Trainer reads it, and sets it to False."""
        self.before_use()
        return self._is_fresh

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        self._is_fresh = state

    @property
    def grad(self) -> ParameterArray | None:
        """The gradient that a backward writes for these values."""
        return self.gradient

    def watch_view(self, view: Any) -> None:
        """Keep the whole as it should be at all times, as long as there is something that shares its memory."""
        if isinstance(view, View):
            self._views.append(weakref.ref(view))
        elif view is not self:
            self._is_exported = True

    def _on_host(self) -> Any:
        """The whole as an ordinary array: that which is there already, or one for the caller alone."""
        self.before_use()
        self._check_lapse()
        return self._whole if self._is_current else self._shards.gather()

    def asnumpy(self) -> Any:
        """The whole array."""
        return self._on_host().asnumpy()

    def wait_to_read(self) -> None:
        """Block until the array is computed."""
        self.before_use()
        super().wait_to_read()

    def copyto(self, other: Any) -> Any:
        """A copy on a context, or into another array."""
        return self._on_host().copyto(other)

    def copy(self) -> Any:
        """A copy in the host's memory."""
        return self.copyto(mx.cpu(0))

    def as_in_context(self, context: Any) -> Any:
        """Itself in the host's memory, a copy elsewhere."""
        return self if context == mx.cpu(0) else self.copyto(context)

    @property
    def indices(self) -> Any:
        """Of a gradient that is sparse on one device: which rows are not zero, in order, as in MXNet a copy."""
        return self._as_rows("indices")

    @property
    def data(self) -> Any:
        """Of a gradient that is sparse on one device: the rows that are not zero, as in MXNet a copy."""
        return self._as_rows("data")

    def _as_rows(self, what: str) -> Any:
        if not self.is_sparse:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{what}'")
        return getattr(self.tostype("row_sparse"), what)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """A copy of another type."""
        return mx.nd.NDArray.astype(self, dtype, copy)

    def detach(self) -> ParameterArray:
        """Itself: no graph leads to it."""
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set all of the array, or a part."""
        value = as_legacy(value)
        is_whole = isinstance(value, mx.nd.NDArray) and value.shape == self.shape
        if not is_everything(key) or self._is_viewed or not (is_whole or isinstance(value, (int, float))):
            mx.nd.NDArray.detach(self)[key] = value
            return
        self.before_use()
        if is_whole:
            self._shards.scatter(value)
        else:
            for array in self._shards.arrays:
                array[:] = value
        self.put(self._shards)

    def __reduce__(self) -> tuple[Any, ...]:
        """In files it is an ordinary NDArray."""
        return mx.nd.NDArray, (None,), self._on_host().__getstate__()

    def __repr__(self) -> str:
        return repr(self._on_host())


class View(mx.nd.NDArray, metaclass=LikeNDArray):  # type: ignore[misc]  # MXNet is untyped
    """An array in the memory of a `ParameterArray`'s whole, which knows as long as there is one."""

    def __init__(self, owner: ParameterArray, array: Any) -> None:
        super().__init__(array.handle, array.writable)
        array.handle = None  # it is this one's now
        self.owner = owner
        owner.watch_view(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set a part of the whole array."""
        mx.nd.NDArray.detach(self)[key] = as_legacy(value)


def _sharing(method: Any) -> Any:
    @wraps(method)
    def shared(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = self.owner if isinstance(self, View) else self
        # An ordinary array with the same memory: MXNet makes results of an array's own class, and compares classes.
        made = method(mx.nd.NDArray.detach(self), *args, **kwargs)
        if type(made) is mx.nd.NDArray:
            return View(owner, made)
        owner.watch_view(made)
        return made

    return shared


for _name in VIEWS:
    for _kind in (ParameterArray, View):
        setattr(_kind, _name, _sharing(getattr(mx.nd.NDArray, _name)))


def on_host(name: str, whole: Any) -> ShardedTensor:
    """A whole array in the host's memory, as the only shard of a tensor."""
    region = tuple((0, extent) for extent in whole.shape)
    array = whole.copyto(mx.cpu(0)) if whole.context != mx.cpu(0) else whole
    return ShardedTensor(name, tuple(whole.shape), whole.dtype.__name__, [region], [mx.cpu(0)], [array])


def zeros_like(tensor: ShardedTensor) -> ShardedTensor:
    """Zeros that lie as a tensor does, allocated when they are asked for."""
    return tensor.like(tensor.shape, tensor.dtype)


def add_to(array: Any, tensor: ShardedTensor) -> None:
    """Add what a tensor holds to an array, where its shards lie if it has any."""
    if not isinstance(array, ParameterArray):
        if array.stype == "default":
            array += tensor.gather()
        else:
            (array.tostype("default") + tensor.gather()).tostype(array.stype).copyto(array)
        return
    if not array.layout.matches(tensor):
        array.move(zeros_like(tensor))
    for mine, other in zip(array.tensor.arrays, tensor.arrays, strict=True):
        mine += other
    array.note_change()


def copy_into(arrays: Sequence[ParameterArray], tensors: Sequence[ShardedTensor]) -> None:
    """Have each array hold what a tensor holds now, whose memory is used for something else later. One operator copies all float32 that
    lies on a device, since hundreds of small ones take as long as an update; it knows no float64 on CPUs.
    """
    copies: dict[Any, tuple[list[Any], list[Any]]] = {}
    for array, tensor in zip(arrays, tensors, strict=True):
        own = array.layout if array.layout.matches(tensor) else zeros_like(tensor)
        for mine, other in zip(own.arrays, tensor.arrays, strict=True):
            if mine.dtype is not np.float32:
                other.copyto(mine)
                continue
            sources, targets = copies.setdefault(mine.context, ([], []))
            sources.append(other)
            targets.append(mine)
        array.put(own)
    for sources, targets in copies.values():
        mx.nd.amp_multicast(*sources, num_outputs=len(sources), out=targets)


def add(tensors: Sequence[ShardedTensor]) -> ShardedTensor:
    """The sum of tensors of one shape, where the first of them lies."""
    first, *rest = tensors
    arrays = [array.copy() for array in first.arrays]
    total = first.like(first.shape, first.dtype, arrays)
    for tensor in rest:
        if not tensor.matches(first):
            moved = zeros_like(first)
            moved.scatter(tensor.gather())
            tensor = moved
        for mine, other in zip(arrays, tensor.arrays, strict=True):
            mine += other
    return total
