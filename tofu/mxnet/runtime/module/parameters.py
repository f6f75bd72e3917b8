"""Fill the shards of parameters from an initializer, from arrays, or from a file.

Files are read shard by shard. An initializer's random numbers depend on the whole shape. So it fills whole arrays on
the host, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import mxnet as mx

from tofu.errors import ArgumentTypeError, MissingParametersError, ShapeError, TofuError, raise_together
from tofu.formatting import list_some
from tofu.graph import Tensor, TensorKind
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.validation import show_with_type


class LiveParameters(Mapping[str, Any]):
    """Parameters of an executor by name. Each access assembles a whole array.

    `storages` has the storage types of sparse parameters.
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
        """Return a dictionary with the whole arrays of all parameters."""
        return dict(self)


class ParameterGroup(NamedTuple):
    """Parameters, or auxiliary states such as moving means, to fill. `arrays` has the user's arrays, or is None."""

    arrays: Mapping[str, Any] | None
    tensors: list[Tensor]


def group_parameters(
    executor: ShardedExecutor,
    names: Collection[str],
    arguments: Mapping[str, Any] | None,
    states: Mapping[str, Any] | None,
) -> list[ParameterGroup]:
    """Return a group of the parameters in `names`, and a group of all auxiliary states, such as running means."""
    for arrays in (arguments, states):
        _check_arrays(arrays)
    tensors = sorted(executor.partition.graph.tensors, key=lambda tensor: tensor.name)
    # A parameter that a loss uses as its label is an input in the graph, so parameters are found by their names.
    parameters = [t for t in tensors if t.kind in (TensorKind.PARAMETER, TensorKind.INPUT) and t.name in names]
    auxiliary_states = [t for t in tensors if t.kind is TensorKind.AUXILIARY]
    return [ParameterGroup(arguments, parameters), ParameterGroup(states, auxiliary_states)]


def _check_arrays(arrays: Any) -> None:
    example = "Write {'fc_weight': mx.nd.array(...)}, a name and an array for each."
    if arrays is not None and not isinstance(arrays, Mapping):
        raise ArgumentTypeError(f"Parameters are passed by name, not as {show_with_type(arrays)}. {example}")
    if isinstance(arrays, dict):
        wrong = [f"{name}: {show_with_type(value)}" for name, value in arrays.items() if not hasattr(value, "shape")]
        raise_together(ArgumentTypeError, f"Parameters are arrays. {example} Given:", wrong)


def fill_parameters(
    executor: ShardedExecutor,
    attributes: Mapping[str, Mapping[str, str]],
    initializer: Any,
    groups: Sequence[ParameterGroup],
) -> None:
    """Fill all parameters and auxiliary states (such as running means) from the user's arrays or by an initializer.

    With the same seed, the initializer draws the same numbers as on one device. `attributes` may name another
    initializer for an argument.
    """
    for arrays, tensors in groups:
        for tensor in tensors:
            _fill_variable(executor.variables[tensor.name], arrays, initializer, attributes.get(tensor.name))


def _fill_variable(
    variable: ShardedTensor,
    arrays: Mapping[str, Any] | None,
    initializer: Any,
    attributes: Mapping[str, str] | None,
) -> None:
    if arrays is not None and variable.name in arrays:
        name = variable.name
        variable.scatter(arrays.elements(name) if isinstance(arrays, ParameterFile) else arrays[name])
    elif initializer is not None:
        whole = mx.nd.zeros(variable.shape, dtype=variable.dtype)
        initializer(mx.init.InitDesc(variable.name, attributes), whole)
        variable.scatter(whole)
    for shard in variable.arrays:
        shard.wait_to_read()


def refuse_extra(groups: Sequence[ParameterGroup]) -> None:
    """Raise TofuError for arrays with unknown names."""
    extra_names = [name for group in groups for name in _list_extra(group)]
    raise_together(TofuError, "The model does not have these parameters (allow_extra=True ignores them):", extra_names)


def _list_extra(group: ParameterGroup) -> list[str]:
    return sorted(set(group.arrays or ()) - {tensor.name for tensor in group.tensors})


def check_groups(groups: Sequence[ParameterGroup], allow_missing: bool) -> None:
    """Raise an error for arrays of wrong shape and, without `allow_missing`, for missing arrays."""
    missing, misshapen, extra = [], [], list[str]()
    for group in groups:
        arrays, tensors = group
        if arrays is None:
            continue
        extra += _list_extra(group)
        missing += [tensor.name for tensor in tensors if tensor.name not in arrays]
        misshapen += [
            f"{tensor.name}: {_find_shape(arrays, tensor.name)} given, {tensor.shape} in the model"
            for tensor in tensors
            if tensor.name in arrays and _find_shape(arrays, tensor.name) != tensor.shape
        ]
    if missing and not allow_missing:
        unknown = [f"passed, but unknown to the model: {list_some(extra)}"] if extra else []
        raise_together(
            MissingParametersError,
            "These parameters are missing (allow_missing=True keeps or initializes them):",
            [*missing, *unknown],
        )
    raise_together(ShapeError, "These parameters have another shape:", misshapen)


def _find_shape(arrays: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return arrays.shapes[name] if isinstance(arrays, ParameterFile) else tuple(arrays[name].shape)
