"""Sliding windows of convolution and pooling."""

from dataclasses import dataclass

from tdl_ops.mxnet.attributes import CHANNELS_LAST
from tofu.errors import UnsupportedError

# Output positions. If one is split, a worker receives the elements around its shard, and pads only the other
# dimensions.
SPACE = ("y0", "y1", "y2")


@dataclass(frozen=True)
class Window:
    """A sliding window, with a number for each spatial dimension.

    Output position `y` and kernel position `d` read the data at y * stride + d * dilate - pad.
    """

    kernel: tuple
    stride: tuple
    pad: tuple
    dilate: tuple

    def __call__(self, y, d):
        cells = zip(y, d, self.stride, self.dilate, self.pad, strict=True)
        return tuple(position * stride + offset * dilate - pad for position, offset, stride, dilate, pad in cells)


def read_window(kernel, stride, pad, dilate=()):
    """Return a window, by default with stride 1, no padding and no dilation."""
    n = len(kernel)
    return Window(kernel, stride or (1,) * n, pad or (0,) * n, dilate or (1,) * n)


@dataclass(frozen=True)
class Layout:
    """Position of the channels in data and output: the second or the last dimension."""

    is_last: bool

    @property
    def first(self):
        return 1 if self.is_last else 2

    def cell(self, b, c, space):
        return (b, *space, c) if self.is_last else (b, c, *space)

    def take_apart(self, cell):
        b, *rest = cell
        return (b, rest[-1], tuple(rest[:-1])) if self.is_last else (b, rest[0], tuple(rest[1:]))

    def extents(self, shape):
        return shape[1:-1] if self.is_last else shape[2:]

    def names(self, name, n):
        return " ".join(self.cell("b", "c", [numbered(name, n)]))


def read_layout(layout):
    return Layout(layout in CHANNELS_LAST)


def numbered(name, n):
    """Return numbered names: "y0 y1" for `name` "y" and `n` = 2."""
    return " ".join(f"{name}{d}" for d in range(n))


def local_pad(local):
    # In split dimensions, the worker receives the padding as data.
    pad = local.attributes["pad"] or (0,) * len(local.attributes["kernel"])
    return tuple(0 if local.is_split(f"y{d}") else p for d, p in enumerate(pad))


def check_layout(layout):
    """Raise UnsupportedError if channels are the last dimension. MXNet then convolves only on GPUs."""
    if layout not in (None, "None", "NCW", "NCHW", "NCDHW"):
        raise UnsupportedError(f"layout={layout} is not described: channels come second (NCW, NCHW, NCDHW)")


def check_windows(at, convention):
    """Raise UnsupportedError if a window may contain no data. MXNet then returns no useful number."""
    for kernel, stride, pad in zip(at.kernel, at.stride, at.pad, strict=True):
        if pad >= kernel or (convention != "valid" and stride > kernel - pad):
            raise UnsupportedError(
                f"windows of {kernel} cells every {stride}, padded by {pad}, may lie outside the data, which is not described; "
                "make pad smaller than kernel, and with pooling_convention=full stride no larger than kernel - pad"
            )
