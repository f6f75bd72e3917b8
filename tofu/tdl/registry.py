"""The descriptions of a framework's operators, by name: a registry for each framework. `op` is how they get in."""

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
    """The descriptions of one framework's operators, by the operators' names.

    `package`: its modules register what comes with Tofu. They are imported when the first description is looked up, and before
    anybody else registers one. `parse` and `format` are how all its descriptions read and write attributes: without them, as values.
    `decorator` is how users call `op`, and `remedy` what else they can do about an operator without a description, for messages.
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
        """All of them as they are now."""
        return dict(self)

    @property
    def built_in(self) -> frozenset[str]:
        """The operators that the package describes, without those that users registered."""
        self._load()
        return self._built_in

    def _load(self) -> None:
        """Have the modules of the package register their descriptions, which may look up others meanwhile."""
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
        """A description that is not registered, with the options of `op`."""
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

        bound: attributes of a worker's copy, each the name of the index variable whose extent it is, or a function of
            `Local`.
        corrects: index variables for which bound attributes make up for the copy's smaller extents (a mean's divisor, say).
        starts: index variables whose positions are used as numbers, and for which bound attributes tell a copy where its part
            starts.
        counts: index variables whose positions are saved in an output that the gradient alone reads, or read there by the gradient. A
            copy counts its own part, so both are split alike, and both say this.
        pads: index variables for which bound attributes make up for offsets and borders: the copy gets the cells outside
            the tensor from Tofu and reads its local tensor from cell 0 on.
        fill: the number in cells outside a tensor, where it is not 0; or a function of the attributes' values.
        needs: output -> the outputs without which the kernel computes it wrongly or not at all: a copy that is asked for
            the one is asked for the others, whether or not somebody reads them.
        concrete: t.shape are integers and belong to the signature, for descriptions that branch on them (a reshape). A
            keyword-only parameter `output_shapes` is then given the outputs' shapes, for backward operators whose inputs
            do not tell them.
        advice: what to do where no worker has room for all that the operator needs whole, for a message.
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
                    f"{description.place}: {name} is described already at {before.place}; op(..., override=True) "
                    "replaces it"
                )
        self._described.update(dict.fromkeys(description.names, description))
