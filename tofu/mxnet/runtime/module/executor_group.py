"""The arrays of a module, for scripts that read MXNet's private attribute `module._exec_group`.

As in MXNet, these arrays can be printed, converted with `asnumpy()` and set with `array[:] = 0`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor


class ExecutorGroup:
    """The arrays of a module, for scripts that read `module._exec_group`.

    `differentiated` names the arguments with gradients.
    """

    def __init__(
        self,
        executor: ShardedExecutor,
        data_shapes: Sequence[Any],
        param_names: Sequence[str],
        differentiated: Collection[str],
    ) -> None:
        self.param_names = list(param_names)
        self.data_shapes = data_shapes
        self.execs = [self]
        self._executor = executor
        self._differentiated = differentiated

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch."""
        first = self.data_shapes[0]
        return int(first.shape[mx.io.DataDesc.get_batch_axis(first.layout)])

    @property
    def arg_dict(self) -> Mapping[str, Any]:
        """The array of each argument, by name."""
        return self._get_arrays(self._executor.partition.source.native.list_arguments())

    @property
    def aux_dict(self) -> Mapping[str, Any]:
        """The array of each auxiliary state (such as a moving mean), by name."""
        return self._get_arrays(self._executor.partition.source.native.list_auxiliary_states())

    @property
    def grad_dict(self) -> Mapping[str, Any]:
        """The gradient of each argument by name, or None for arguments without a gradient.

        Raises TofuError if a forward pass has overwritten the gradients.
        """
        return {name: self._get_gradient(name) for name in self.arg_dict}

    @property
    def param_arrays(self) -> list[list[Any]]:
        """For each parameter, a list that contains its array."""
        return [[ShardedArray(self._executor.variables[name])] for name in self.param_names]

    @property
    def grad_arrays(self) -> list[list[Any]]:
        """For each parameter, a list that contains its gradient or None."""
        return [[self._get_gradient(name)] for name in self.param_names]

    @property
    def aux_arrays(self) -> list[list[Any]]:
        """For each auxiliary state (such as a moving mean), a list that contains its array."""
        return [[array] for array in self.aux_dict.values()]

    def _get_gradient(self, name: str) -> Any:
        return ShardedArray(self._executor.gradient(name)) if name in self._differentiated else None

    def _get_arrays(self, names: Sequence[str]) -> dict[str, Any]:
        variables = self._executor.variables
        return {name: ShardedArray(variables[name]) for name in names if name in variables}
