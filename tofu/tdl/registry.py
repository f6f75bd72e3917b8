"""The registry: all descriptions of one framework's operators. `Registry.op` adds a description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import Any as Anything

from tofu.errors import DescriptionError
from tofu.tdl.description import Description, Fill, Format, Parse, describe, keep_value
from tofu.tdl.local import Bound


class Registry(Mapping[str, Description]):
    """The descriptions of one framework's operators, by name.

    Attributes
    ----------
    package
        The Python package with the built-in descriptions. It is imported when the registry is first used.
    parse, format
        Functions that convert attributes from the framework's format to Python values, and back.
    decorator
        The decorator that error messages tell users to write, such as "@registry.op".
    remedy
        Further advice in the error message about an operator without a description.
    """

    def __init__(
        self,
        package: str = "",
        parse: Parse = keep_value,
        format: Format = keep_value,
        decorator: str = "@registry.op",
        remedy: str = "",
    ) -> None:
        self.decorator = decorator
        self.remedy = remedy
        self._package = package
        self._parse = parse
        self._format = format
        self._described: dict[str, Description] = {}
        self._built_in = frozenset[str]()
        self._lock = RLock()
        self._is_loaded = not package
        self._is_loading = False

    def __getitem__(self, name: str) -> Description:
        self._load()
        return self._described[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._described)

    def __len__(self) -> int:
        self._load()
        return len(self._described)

    def __repr__(self) -> str:
        return f"Registry({self._package!r})"

    def copy(self) -> dict[str, Description]:
        """Return all descriptions as a dictionary."""
        return dict(self)

    @property
    def built_in(self) -> frozenset[str]:
        """The names of all operators with built-in descriptions."""
        self._load()
        return self._built_in

    def _load(self) -> None:
        if self._is_loaded:
            return
        with self._lock:
            if self._is_loading:
                return
            self._is_loading = True
            try:
                for module in iter_modules(import_module(self._package).__path__):
                    if not module.ispkg:
                        import_module(f"{self._package}.{module.name}")
                self._built_in = frozenset(self._described)
                self._is_loaded = True
            finally:
                self._is_loading = False

    def describe(
        self, function: Callable[..., Anything], names: tuple[str, ...] = (), **options: Anything
    ) -> Description:
        """Return a description without registering it. `options` are the keyword arguments of `Registry.op`."""
        return describe(function, names, parse=self._parse, format=self._format, **options)

    def op(
        self,
        name: str | Callable[..., Anything] = "",
        /,
        *names: str,
        bound: Mapping[str, Bound] | None = None,
        corrects: Iterable[str] = (),
        starts: Iterable[str] = (),
        counts: Iterable[str] = (),
        pads: Iterable[str] = (),
        fill: Mapping[str, Fill] | None = None,
        needs: Mapping[int, tuple[int, ...]] | None = None,
        concrete: bool = False,
        advice: str = "",
        override: bool = False,
    ) -> Anything:
        """Register a description of an operator. Use it as a decorator, with options or without.

        Each worker runs the framework's kernel on parts of the tensors. The options adapt the kernel to its part.

        Parameters
        ----------
        name, *names
            The framework's names of the operator. Default: the name of the function.
        bound
            Attributes that depend on the size of the part. {"num_filter": "co"} sets `num_filter` to the length of the
            worker's part of co. Instead of "co", a function of `Local` may return the attribute.
        corrects
            Index variables whose lengths are used as numbers, as in a mean. An attribute in `bound` must pass the whole
            length to the kernel.
        starts
            Index variables whose positions are used as numbers. An attribute in `bound` must pass the part's first
            position to the kernel.
        counts
            Index variables whose positions an output saves for the gradient. Both kernels count from the start of the
            part, so operator and gradient are split alike. Declare `counts` for both.
        pads
            Index variables along which the operator reads outside its input, or from an offset. The kernel receives all
            elements that its part reads, with the padding. Attributes in `bound` must set padding and offset to 0.
        fill
            The value of elements outside each tensor, or a function of the attributes that returns it. Default: 0.
        needs
            Outputs that the kernel computes only together with other outputs, such as {1: (0,)} for output 1 with
            output 0.
        concrete
            True if the function needs the lengths in t.shape as integers, as for a reshape. A keyword-only parameter
            `output_shapes` receives the outputs' shapes.
        advice
            Advice for users if the operator's tensors cannot be split and do not fit into memory.
        override
            True to replace an earlier description of the same name.

        >>> registry = Registry()
        >>> @registry.op("my_operator")
        ... def my_operator(data):
        ...     return lambda i, j: 2 * data[j, i]
        >>> list(registry)
        ['my_operator']
        """
        if callable(name):
            return self.op()(name)
        operator_names = (name, *names) if name else ()

        def register(function: Callable[..., Anything]) -> Description:
            description = self.describe(
                function,
                operator_names,
                bound=dict(bound or {}),
                corrects=frozenset(corrects),
                starts=frozenset(starts),
                counts=frozenset(counts),
                pads=frozenset(pads),
                fill=dict(fill or {}),
                needs=dict(needs or {}),
                concrete=concrete,
                advice=advice,
            )
            self._add(description, override)
            return description

        return register

    def _add(self, description: Description, override: bool) -> None:
        if not (description.function.__module__ or "").startswith(f"{self._package}."):
            self._load()
        for name in description.names:
            earlier_description = self._described.get(name)
            if earlier_description is not None and not override:
                raise DescriptionError(
                    f"{description.place}: {name} is already described at {earlier_description.place}; op(..., override=True) "
                    "replaces it"
                )
        self._described.update(dict.fromkeys(description.names, description))
