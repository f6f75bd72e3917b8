"""Initial values of a sharded model's parameters, from an initializer, from arrays or from a file.

Files are read shard by shard. An initializer fills one whole array at a time on the host, since its random numbers
depend on the whole shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu.errors import ArgumentTypeError, MissingParametersError, ShapeError, TofuError, raise_together
from tofu.graph import Tensor, TensorKind
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.validation import show_with_type

MOST_NAMES = 5  # of unknown parameters, in a message


class LiveParameters(Mapping[str, Any]):
    """Parameters of an executor by name, for callbacks of `fit`. A parameter is gathered when it is read.

    `storages` maps the parameters that have sparse storage in the model to this storage.
    """

    def __init__(self, executor: ShardedExecutor, names: Sequence[str], storages: Mapping[str, str]) -> None:
        self.executor = executor
        self._names = tuple(names)
        self._storages = storages

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        whole = self.executor.variables[name].gather()
        return whole.tostype(self._storages[name]) if name in self._storages else whole

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping.__contains__ would gather the parameter

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def copy(self) -> dict[str, Any]:
        """Return a dictionary with all parameters, gathered."""
        return dict(self)


ARGUMENTS = (TensorKind.PARAMETER, TensorKind.INPUT)
Group = tuple[Mapping[str, Any] | None, list[Tensor]]


def group_parameters(
    executor: ShardedExecutor,
    names: Collection[str],
    arguments: Mapping[str, Any] | None,
    states: Mapping[str, Any] | None,
    allow_missing: bool,
) -> list[Group]:
    """Return the arrays that a user passed, grouped with the tensors to fill.

    The tensors are the parameters in `names` and the auxiliary states. Raises TofuError for missing arrays, and
    ShapeError for arrays of another shape.
    """
    for given in (arguments, states):
        check_arrays(given)
    groups = _group(executor, names, arguments, states)
    _check(groups, allow_missing)
    return groups


def check_arrays(given: Any) -> None:
    """Raise ArgumentTypeError unless `given` maps names to arrays."""
    example = "Write {'fc_weight': mx.nd.array(...)}, a name and an array for each."
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentTypeError(f"Parameters are passed by name, not as {show_with_type(given)}. {example}")
    if isinstance(given, dict):
        wrong = [f"{name}: {show_with_type(value)}" for name, value in given.items() if not hasattr(value, "shape")]
        raise_together(ArgumentTypeError, f"Parameters are arrays. {example} Given:", wrong)


def fill_parameters(
    executor: ShardedExecutor, attributes: Mapping[str, Mapping[str, str]], initializer: Any, groups: Sequence[Group]
) -> None:
    """Fill the shards of all parameters and auxiliary states, from the arrays passed or by the initializer.

    Random values are drawn in MXNet's order, so that equal seeds give the same values as on one device. The model's
    `attributes` may name another initializer for an argument.
    """
    for given, own in groups:
        for tensor in own:
            _fill(executor.variables[tensor.name], given, initializer, attributes.get(tensor.name))


def _fill(
    shards: ShardedTensor, given: Mapping[str, Any] | None, initializer: Any, attributes: Mapping[str, str] | None
) -> None:
    if given is not None and shards.name in given:
        shards.scatter(given.elements(shards.name) if isinstance(given, ParameterFile) else given[shards.name])
    elif initializer is not None:
        whole = mx.nd.zeros(shards.shape, dtype=shards.dtype)
        initializer(mx.init.InitDesc(shards.name, attributes), whole)
        shards.scatter(whole)
    for array in shards.arrays:
        array.wait_to_read()


def refuse_extra(
    executor: ShardedExecutor,
    names: Collection[str],
    arguments: Mapping[str, Any] | None,
    states: Mapping[str, Any] | None,
) -> None:
    """Raise TofuError for arrays that are neither for a parameter in `names` nor for an auxiliary state."""
    groups = _group(executor, names, arguments, states)
    extra = [name for given, own in groups for name in sorted(set(given or ()) - {tensor.name for tensor in own})]
    raise_together(TofuError, "The model does not have these parameters (allow_extra=True ignores them):", extra)


def _group(
    executor: ShardedExecutor,
    names: Collection[str],
    arguments: Mapping[str, Any] | None,
    states: Mapping[str, Any] | None,
) -> list[Group]:
    """Return the groups. They are formed by name, since a parameter that a loss uses as its label is an input in the graph."""
    tensors = executor.partition.graph.tensors
    return [
        (arguments, sorted((t for t in tensors if t.kind in ARGUMENTS and t.name in names), key=_name)),
        (states, sorted((t for t in tensors if t.kind is TensorKind.AUXILIARY), key=_name)),
    ]


def _name(tensor: Tensor) -> str:
    return tensor.name


def _check(groups: Sequence[Group], allow_missing: bool) -> None:
    missing, wrong, extra = [], [], list[str]()
    for given, own in groups:
        if given is None:
            continue
        extra += sorted(set(given) - {tensor.name for tensor in own})
        missing += [tensor.name for tensor in own if tensor.name not in given]
        wrong += [
            f"{tensor.name}: {_shape(given, tensor.name)} given, {tensor.shape} in the model"
            for tensor in own
            if tensor.name in given and _shape(given, tensor.name) != tensor.shape
        ]
    if missing and not allow_missing:
        more = f" and {len(extra) - MOST_NAMES} more" if len(extra) > MOST_NAMES else ""
        others = [f"passed, but unknown to the model: {', '.join(extra[:MOST_NAMES])}{more}"] if extra else []
        raise_together(
            MissingParametersError,
            "These parameters are missing (allow_missing=True keeps or initializes them):",
            [*missing, *others],
        )
    raise_together(ShapeError, "These parameters have another shape:", wrong)


def _shape(given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return given.shapes[name] if isinstance(given, ParameterFile) else tuple(given[name].shape)
