"""Describe convolutions. Their gradients are convolutions too, with other dimension numbers and dilations.

The axes are the batch `b`, output channels `co`, input channels `ci`, groups `g`, output positions `y0 y1 ..` and
kernel positions `d0 d1 ..`. If the input is dilated by more than the stride, input positions `x0 x1 ..` replace the
output positions.

Output position y and kernel position d meet input position x if y * stride + d * rhs_dilation - low = x * lhs_dilation.
If stride divides lhs_dilation, or the reverse, the equation determines y or x, and the dimension can be split:

    stride 2, lhs_dilation 1:  x = 2 * y + d - low      # each y gathers elements
    stride 1, lhs_dilation 2:  y = 2 * x + low - d      # each x is added to elements
    stride 3, lhs_dilation 2:  the dimension is not split
"""

from dataclasses import dataclass
from math import gcd

from tdl_ops.jax import op
from tdl_ops.jax.operands import numbered
from tofu.tdl import Any, Sum, merge, mod, output, position, scatter, where


@dataclass(frozen=True)
class ConvolvedDimension:
    """Spatial dimension `d` of a convolution. The kernel has `size` positions along it."""

    d: int
    size: int
    stride: int
    low: int
    lhs_dilation: int
    rhs_dilation: int

    @property
    def divisor(self):
        small, large = sorted((self.stride, self.lhs_dilation))
        return small if large % small == 0 and self.first_by(small) is not None else None

    def first_by(self, divisor):
        """Return the first kernel position d for which `divisor` divides d * rhs_dilation - low, or None."""
        first = (d for d in range(divisor) if (d * self.rhs_dilation - self.low) % divisor == 0)
        return next((d for d in first if d < self.size), None)

    @property
    def is_added(self):
        """Return True if each input position adds elements to the output."""
        return self.divisor is not None and self.lhs_dilation > self.stride

    @property
    def first(self):
        return self.first_by(self.divisor)

    @property
    def step(self):
        """Return the step between kernel positions that meet input elements."""
        return self.divisor // gcd(self.divisor, self.rhs_dilation)

    @property
    def count(self):
        return len(range(self.first, self.size, self.step))

    @property
    def declared(self):
        # The index variable's extent, if only some kernel positions are used.
        return {} if self.divisor is None or self.step == 1 else {f"d{self.d}": self.count}

    def index_kernel(self, d):
        # If only some kernel positions are used, the kernel is not split.
        return d if self.divisor is None or self.step == 1 else Any(position(d) * self.step + self.first)

    def index_input(self, v, d):
        if self.divisor is None:
            return Any(self._find_dilated(v, d) / self.lhs_dilation)
        if self.is_added:
            return v
        reach = self.rhs_dilation * self.step // self.divisor
        begin = (self.first * self.rhs_dilation - self.low) // self.divisor
        return v * (self.stride // self.divisor) + d * reach + begin

    def index_output(self, v, d):
        if not self.is_added:
            return v
        reach = self.rhs_dilation * self.step // self.divisor
        begin = (self.low - self.first * self.rhs_dilation) // self.divisor
        return v * (self.lhs_dilation // self.divisor) + begin - d * reach

    def list_conditions(self, v, d):
        return [] if self.divisor is not None else [mod(self._find_dilated(v, d), self.lhs_dilation) == 0]

    def _find_dilated(self, y, d):
        return position(y) * self.stride + position(d) * self.rhs_dilation - self.low

    @property
    def local_padding(self):
        # If the output is split, the worker fetches a region of the input that includes the border. If the input is
        # split, padding lets the worker compute every output element to which its shard contributes.
        last = self.first + (self.count - 1) * self.step
        low, high = self.first * self.rhs_dilation, (self.size - 1 - last) * self.rhs_dilation
        reach = (last - self.first) * self.rhs_dilation
        return (low + reach, high + reach) if self.is_added else (low, high)


def _list_dimensions(sizes, strides, padding, lhs_dilation, rhs_dilation):
    numbers = zip(sizes, strides, [low for low, _ in padding], lhs_dilation, rhs_dilation, strict=True)
    return [ConvolvedDimension(d, *own) for d, own in enumerate(numbers)]


def _local_padding(local):
    a = local.attributes
    sizes = [local.inputs[1].shape[d] for d in a["rhs_spec"][2:]]
    dimensions = _list_dimensions(sizes, a["window_strides"], a["padding"], a["lhs_dilation"], a["rhs_dilation"])
    is_split = [any(local.is_split(f"{v}{dimension.d}") for v in "yxd") for dimension in dimensions]
    pads = zip(dimensions, is_split, a["padding"], strict=True)
    return tuple(dimension.local_padding if split else tuple(pad) for dimension, split, pad in pads)


def _local_groups(name):
    return lambda local: local.extent("g") if local.attributes[name] > 1 else 1


@op(
    "conv_general_dilated",
    concrete=True,
    bound={
        "padding": _local_padding,
        "feature_group_count": _local_groups("feature_group_count"),
        "batch_group_count": _local_groups("batch_group_count"),
    },
    pads=[f"{v}{d}" for v in "yxd" for d in range(6)],
)
def conv_general_dilated(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    lhs_spec,
    rhs_spec,
    out_spec,
    feature_group_count=1,
    batch_group_count=1,
):
    n = len(window_strides)
    sizes = [rhs.shape[d] for d in rhs_spec[2:]]
    dimensions = _list_dimensions(sizes, window_strides, padding, lhs_dilation, rhs_dilation)
    place = lambda spec, values: tuple(values[spec.index(d)] for d in range(n + 2))
    count = max(feature_group_count, batch_group_count)
    g, groups = ("g ", {"g": count}) if count > 1 else ("", {})
    in_group = lambda is_grouped, group, v: merge(*group, v) if is_grouped else v
    each = lambda method, v, d: [
        getattr(dimension, method)(*own) for dimension, *own in zip(dimensions, v, d, strict=True)
    ]

    def product(group, b, co, ci, v, d):
        batch, channel = in_group(batch_group_count > 1, group, b), in_group(feature_group_count > 1, group, ci)
        kernel = [dimension.index_kernel(own) for dimension, own in zip(dimensions, d, strict=True)]
        left = lhs[place(lhs_spec, (batch, channel, *each("index_input", v, d)))]
        made = left * rhs[place(rhs_spec, (merge(*group, co), ci, *kernel))]
        conditions = [meets for listed in each("list_conditions", v, d) for meets in listed]
        for meets in conditions:
            made = where(meets, made, 0.0)
        return made

    declared = {name: extent for dimension in dimensions for name, extent in dimension.declared.items()}
    positions = [f"{'x' if dimension.is_added else 'y'}{dimension.d}" for dimension in dimensions]
    if not any(dimension.is_added for dimension in dimensions):
        order = place(out_spec, ("b", f"({g}co)" if g else "co", *positions))
        names = [name.strip("()") for text in order for name in text.split()]

        def value(v):
            i = dict(zip(names, v, strict=True))
            group, y = [i[name] for name in g.split()], [i[name] for name in positions]
            cells = lambda ci, *d: product(group, i["b"], i["co"], ci, y, d)
            return Sum(cells, names=f"ci {numbered('d', n)}", extents=declared)

        return output(" ".join(order), lambda *v: value(v), groups)

    def reach(*v):
        group, (b, co, ci), x, d = v[: -2 * n - 3], v[-2 * n - 3 : -2 * n], v[-2 * n : -n], v[-n:]
        return place(out_spec, (b, merge(*group, co), *each("index_output", x, d))), product(group, b, co, ci, x, d)

    extents = groups | declared | ({"co": rhs.shape[rhs_spec[0]] // count} if g else {})
    if batch_group_count > 1:
        extents["b"] = lhs.shape[lhs_spec[0]] // count
    return scatter(lambda *v: reach(*v), extents, names=f"{g}b co ci {' '.join(positions)} {numbered('d', n)}")
