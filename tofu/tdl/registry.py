"""Registries of descriptions, one for each framework. Descriptions are added with `op`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import Any as Anything
from typing import overload

from tofu.errors import DescriptionError
from tofu.tdl.description import Description, Fill, Format, Parse, describe, keep_value
from tofu.tdl.local import Bound


class Registry(Mapping[str, Description]):
    """Descriptions of one framework's operators, by name.

    Attributes
    ----------
    package
        Package whose modules register the built-in descriptions. It is imported at the first look-up, and before a
        user registers a description.
    parse, format
        Functions that read and write attributes. By default, attributes are values.
    decorator, remedy
        Texts for messages: how users call `op`, and another way out for an operator without a description.
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
        """The operators that the package describes, without those that users registered."""
        self._load()
        return self._built_in

    def _load(self) -> None:
        """Import the modules of the package, which register their descriptions and may look up others meanwhile."""
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
        """Return an unregistered description, with the options of `op`."""
        return describe(function, names, parse=self._parse, format=self._format, **options)

    @overload
    def op(self, name: Callable[..., Anything], /) -> Description: ...

    @overload
    def op(
        self,
        name: str = ...,
        /,
        *names: str,
        bound: Mapping[str, Bound] | None = ...,
        corrects: Iterable[str] = ...,
        starts: Iterable[str] = ...,
        counts: Iterable[str] = ...,
        pads: Iterable[str] = ...,
        fill: Mapping[str, Fill] | None = ...,
        needs: Mapping[int, tuple[int, ...]] | None = ...,
        concrete: bool = ...,
        advice: str = ...,
        override: bool = ...,
    ) -> Callable[[Callable[..., Anything]], Description]: ...

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
    ) -> Description | Callable[[Callable[..., Anything]], Description]:
        """Register a description, under its function's name or the framework's operator names.

        bound: attributes of a worker's copy. Each is the name of the index variable whose extent it is, or a function of `Local`.
        corrects: index variables whose smaller extents on a copy are corrected by bound attributes, such as a mean's divisor.
        starts: index variables whose positions are used as numbers; bound attributes pass a copy the start of its range.
        counts: index variables whose positions are saved in an output for the gradient, or read there by the gradient. A copy
            counts from its own start, so both operators are split alike, and both declare it.
        pads: index variables whose offsets and borders are replaced by bound attributes. Tofu passes the elements outside the
            tensor to the copy, which reads its local tensor from element 0 on.
        fill: the value of elements outside a tensor if it is not 0, or a function of the attributes' values.
        needs: output -> other outputs, without which the kernel computes it wrong. Copies compute these even if unread.
        concrete: t.shape are integers and belong to the signature, for descriptions that branch on them (a reshape). If the
            inputs do not imply the outputs' shapes, a keyword-only parameter `output_shapes` receives them.
        advice: advice for an error message, if no worker has room for the regions that the operator needs whole.
        override: replace an earlier description of the same name.

        >>> registry = Registry()
        >>> @registry.op("my_operator")
        ... def my_operator(data):
        ...     return lambda i, j: 2 * data[j, i]
        >>> list(registry)
        ['my_operator']
        """
        if callable(name):
            return self.op()(name)
        wanted = (name, *names) if name else ()

        def register(function: Callable[..., Anything]) -> Description:
            description = self.describe(
                function,
                wanted,
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
            before = self._described.get(name)
            if before is not None and not override:
                raise DescriptionError(
                    f"{description.place}: {name} is already described at {before.place}; op(..., override=True) "
                    "replaces it"
                )
        self._described.update(dict.fromkeys(description.names, description))
