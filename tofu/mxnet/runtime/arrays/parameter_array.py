"""Arrays that `parameter.data()` and `parameter.grad()` return for a Gluon parameter that is split over workers.

Users may read and write such an array at any time. When they read it, the whole array is assembled from the shards.
MXNet counts their writes. After a write, Tofu copies the array to the shards before it uses them.
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

# Methods of NDArray whose results share the array's memory.
VIEW_METHODS = (
    "__getitem__",
    "_at",
    "_slice",
    "as_np_ndarray",
    "reshape",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
)


class LikeNDArray(type):
    """Metaclass of array classes that compare equal to `mx.nd.NDArray`."""

    def __eq__(cls, other: object) -> bool:
        return other is mx.nd.NDArray or other is cls

    def __hash__(cls) -> int:
        return id(cls)


class ParameterArray(ShardedArray, metaclass=LikeNDArray):
    """An NDArray for the values or the gradient of a parameter that is split over workers.

    Parameters
    ----------
    tensor
        The shards. Before the first use by a model, the whole array on the host is the only shard.
    before_use
        Function to call before each use of the array.
    """

    def __init__(self, tensor: ShardedTensor, before_use: Callable[[], None] = lambda: None) -> None:
        super().__init__(tensor)
        self.name = tensor.name
        self.before_use = before_use
        self._whole: Any = None
        self._is_current = False  # True if the shards have not changed since the whole array was assembled
        self._writes = 0  # how often MXNet had written to the whole array when it last equalled the shards
        self._digest: int | None = None  # last computed digest of the whole array
        self._views: list[weakref.ref[Any]] = []  # arrays that share the whole array's memory
        self._has_untracked_view = False  # True if an object that is not a View shares the whole array's memory
        self._is_invalid = False  # True if the shards' values have been overwritten
        self._has_new_gradient = False
        self.gradient: ParameterArray | None = None  # gradient of these values
        self.has_sparse_gradient = False  # True if one device would have a sparse gradient of these values
        self.is_sparse = False  # True if one device would store this gradient as a sparse array

    @property
    def tensor(self) -> ShardedTensor:
        """The shards. They include all changes that the user made to the whole array."""
        if self._is_current and count_writes(self._whole) != self._writes:
            self._shards.scatter(self._whole)
            self._writes = count_writes(self._whole)
        self._check_validity()
        return self._shards

    @tensor.setter
    def tensor(self, tensor: ShardedTensor) -> None:
        self._shards = tensor

    @property
    def layout(self) -> ShardedTensor:
        """The shards. Their values may be outdated."""
        return self._shards

    def put(self, tensor: ShardedTensor) -> None:
        """Replace the shards by `tensor`."""
        self._shards, self._is_invalid = tensor, False
        self.note_change()

    def invalidate(self) -> None:
        """Mark the values as lost, because the memory of the shards is reused.

        Views of the whole array keep their values.
        """
        if self._is_viewed:
            self._read_shards()
        self._shards, self._is_invalid = self._shards.zeros_like(), True

    @property
    def is_invalid(self) -> bool:
        """True if the values are lost."""
        self.before_use()
        return self._is_invalid and not self._is_current

    def _check_validity(self) -> None:
        if self._is_invalid and not self._is_current:
            raise TofuError(
                f"The gradient of {self.name} is gone: an update has used it, and the next forward has reused its memory. "
                "Read gradients before the next forward."
            )

    @property
    def _is_viewed(self) -> bool:
        self._views = [view for view in self._views if view() is not None]
        return bool(self._views) or self._has_untracked_view

    def move(self, tensor: ShardedTensor) -> None:
        """Move the values to the devices of `tensor`, with the split of `tensor`."""
        old_tensor = self.tensor
        if tensor is old_tensor:
            return
        self._shards = tensor
        tensor.scatter(old_tensor.gather())
        for array in tensor.arrays:
            array.wait_to_read()  # otherwise all parameters could be whole in host memory at once
        if not self._is_viewed:
            self._whole, self._is_current = None, False

    def scatter_uncounted_writes(self) -> None:
        """Copy the whole array to the shards if a write through a pointer has changed it."""
        if self._is_current:
            new_digest = digest(self._whole)
            if new_digest != self._digest:
                self._shards.scatter(self._whole)
            self._digest = new_digest

    def wait_for_writes(self) -> None:
        """Wait until MXNet has finished all writes to the whole array."""
        if self._is_current:
            self._whole.wait_to_read()

    def note_change(self) -> None:
        """Mark the shards as changed, so that the next read assembles the whole array again.

        If the user has a view of the whole array, assemble the array at once.
        """
        self._is_current = False
        if self._is_viewed:
            self._read_shards()

    def _read_shards(self) -> None:
        if self._is_current:
            return
        self._check_validity()
        self._whole = self._shards.gather(self._whole)
        self._writes, self._is_current = count_writes(self._whole), True

    @property
    def handle(self) -> Any:
        """Pointer to the whole array with the current values."""
        self.before_use()
        self._read_shards()
        return self._whole.handle

    @property
    def context(self) -> Any:
        """The host, where the whole array is stored."""
        return mx.cpu(0)

    ctx = context

    @property
    def _fresh_grad(self) -> bool:
        self.before_use()
        return self._has_new_gradient

    @_fresh_grad.setter
    def _fresh_grad(self, is_new: bool) -> None:
        self._has_new_gradient = is_new

    @property
    def grad(self) -> ParameterArray | None:
        """The gradient of this parameter, or None."""
        return self.gradient

    def watch_view(self, view: Any) -> None:
        """Keep the whole array up to date while `view` exists."""
        if isinstance(view, View):
            self._views.append(weakref.ref(view))
        elif view is not self:
            self._has_untracked_view = True

    def _gather(self) -> Any:
        self.before_use()
        self._check_validity()
        return self._whole if self._is_current else self._shards.gather()

    def wait_to_read(self) -> None:
        """Wait until the values have been computed."""
        self.before_use()
        super().wait_to_read()

    def copyto(self, other: Any) -> Any:
        """Copy the whole array into `other`, which is an array or a device (MXNet context)."""
        return self._gather().copyto(other)

    def copy(self) -> Any:
        """Return a copy of the whole array on the host."""
        return self.copyto(mx.cpu(0))

    def as_in_context(self, context: Any) -> Any:
        """Return this array if `context` is the host. Otherwise, return a copy on this device."""
        return self if context == mx.cpu(0) else self.copyto(context)

    @property
    def indices(self) -> Any:
        """Numbers of the rows with non-zero elements, for gradients that MXNet would store as row_sparse."""
        return self._get_sparse_part("indices")

    @property
    def data(self) -> Any:
        """Rows with non-zero elements, for gradients that MXNet would store as row_sparse."""
        return self._get_sparse_part("data")

    def _get_sparse_part(self, attribute: str) -> Any:
        if not self.is_sparse:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute}'")
        return getattr(self.tostype("row_sparse"), attribute)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return a copy of the whole array with another type."""
        return mx.nd.NDArray.astype(self, dtype, copy)

    def detach(self) -> ParameterArray:
        """Return this array."""
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
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

    def __repr__(self) -> str:
        return repr(self._gather())


class View(mx.nd.NDArray, metaclass=LikeNDArray):  # type: ignore[misc]  # MXNet is untyped
    """An NDArray in the memory of a whole parameter array."""

    def __init__(self, owner: ParameterArray, array: Any) -> None:
        super().__init__(array.handle, array.writable)
        array.handle = None  # this object owns the handle now
        self.owner = owner
        owner.watch_view(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        mx.nd.NDArray.detach(self)[key] = as_legacy(value)


def _returning_view(method: Any) -> Any:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = self.owner if isinstance(self, View) else self
        # An ordinary array in the same memory. Otherwise MXNet would create a result of this array's class.
        result = method(mx.nd.NDArray.detach(self), *args, **kwargs)
        if type(result) is mx.nd.NDArray:
            return View(owner, result)
        owner.watch_view(result)
        return result

    return call


for _name in VIEW_METHODS:
    for _class in (ParameterArray, View):
        setattr(_class, _name, _returning_view(getattr(mx.nd.NDArray, _name)))


def on_host(name: str, whole: Any) -> ShardedTensor:
    """Return a tensor with a single shard on the host."""
    region = tuple((0, extent) for extent in whole.shape)
    array = whole.copyto(mx.cpu(0)) if whole.context != mx.cpu(0) else whole
    return ShardedTensor(name, tuple(whole.shape), whole.dtype.__name__, [region], [mx.cpu(0)], [array])


def add_to(array: Any, tensor: ShardedTensor) -> None:
    """Add `tensor` to `array`."""
    if not isinstance(array, ParameterArray):
        if array.stype == "default":
            array += tensor.gather()
        else:
            (array.tostype("default") + tensor.gather()).tostype(array.stype).copyto(array)
        return
    if not array.layout.matches(tensor):
        array.move(tensor.zeros_like())
    array.tensor.add(tensor)
    array.note_change()


def copy_into(pairs: Sequence[tuple[ParameterArray, ShardedTensor]]) -> None:
    """Copy each tensor into its array."""
    shards_by_device: dict[Any, tuple[list[Any], list[Any]]] = {}
    for array, tensor in pairs:
        copied = array.layout if array.layout.matches(tensor) else tensor.zeros_like()
        for new_shard, shard in zip(copied.arrays, tensor.arrays, strict=True):
            if new_shard.dtype is not np.float32:
                shard.copyto(new_shard)
                continue
            shards, new_shards = shards_by_device.setdefault(new_shard.context, ([], []))
            shards.append(shard)
            new_shards.append(new_shard)
        array.put(copied)
    for shards, new_shards in shards_by_device.values():
        mx.nd.amp_multicast(*shards, num_outputs=len(shards), out=new_shards)


def add(tensors: Sequence[ShardedTensor]) -> ShardedTensor:
    """Return the sum of tensors of equal shape. It is split like the first tensor."""
    first, *others = tensors
    total = first.like(first.shape, first.dtype, [shard.copy() for shard in first.arrays])
    for tensor in others:
        total.add(tensor)
    return total
