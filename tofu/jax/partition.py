"""Turn a training step for one device into a step for several devices."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from numbers import Integral
from types import MethodType
from typing import Any, TypeAlias, overload

from jax.sharding import Mesh

from tofu.errors import DeviceError, UnsupportedError
from tofu.formatting import list_some
from tofu.jax.engine import make_engine
from tofu.jax.frontend.names import order_arguments
from tofu.jax.frontend.read_step import check_arguments, donate, read_step
from tofu.jax.hosts import check_devices, find_topology, list_devices
from tofu.jax.partitioned_step import PartitionedStep
from tofu.jax.planning import check_names, plan_step, read_settings
from tofu.planning.progress import show_progress
from tofu.search.algorithms import ALGORITHMS
from tofu.validation import show, show_with_type

logger = logging.getLogger("tofu")

Devices: TypeAlias = "int | Mesh | Sequence[Any]"


class DeferredStep:
    """A training step that is planned at its first call, for the arguments of this call.

    Once planned, it has the attributes of a `PartitionedStep`, such as `plan`.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        workers: Devices | None,
        donate_argnums: int | Sequence[int] | None,
        options: dict[str, Any],
    ) -> None:
        if not callable(step):
            raise UnsupportedError(
                f"A step is a function of arrays, not {show_with_type(step)}. A decorator is @tofu.jax.partition(workers=8)."
            )
        _require_workers(workers)
        update_wrapper(self, step)
        self.step = step
        self._planned_step: PartitionedStep | None = None
        self._partition_arguments = {"workers": workers, "donate_argnums": donate_argnums, **options}

    def planned(self, *args: Any, **named: Any) -> PartitionedStep:
        """Return the step for several devices. Before the first call, pass arguments or their shapes."""
        args = order_arguments(self.step, args, named)
        if self._planned_step is None:
            if not args:
                raise UnsupportedError(f"{self!r}: call it, or planned(...) with arguments or their shapes.")
            self._planned_step = partition(self.step, example_args=args, **self._partition_arguments)
        return self._planned_step

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind the step to an instance, as Python does for methods."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run one training step."""
        args = order_arguments(self.step, args, named)
        return self.planned(*args)(*args)

    def __getattr__(self, name: str) -> Any:
        planned_step = None if name.startswith("_") else self._planned_step
        if planned_step is not None:
            return getattr(planned_step, name)
        if name.startswith("_") or not hasattr(PartitionedStep, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f"{self!r}, and has no {name} before that. Call it, or plan it now: step.planned(state, batch).{name}"
        )

    def __repr__(self) -> str:
        if self._planned_step is not None:
            return repr(self._planned_step)
        return f"<{getattr(self.step, '__name__', 'step')}, which is planned when it is first called>"


@overload
def partition(
    step: Callable[..., Any],
    workers: Devices,
    example_args: Sequence[Any],
    *,
    donate_argnums: int | Sequence[int] | None = None,
    uneven: str | None = None,
    **options: Any,
) -> PartitionedStep: ...


@overload
def partition(
    step: Callable[..., Any],
    workers: Devices,
    example_args: None = None,
    *,
    donate_argnums: int | Sequence[int] | None = None,
    uneven: str | None = None,
    **options: Any,
) -> DeferredStep: ...


@overload
def partition(
    *, workers: Devices, donate_argnums: int | Sequence[int] | None = None, uneven: str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], DeferredStep]: ...


def partition(
    step: Callable[..., Any] | None = None,
    workers: Devices | None = None,
    example_args: Sequence[Any] | None = None,
    *more: Any,
    donate_argnums: int | Sequence[int] | None = None,
    uneven: str | None = None,
    **options: Any,
) -> Any:
    """Plan a training step and return a step that runs on several devices.

    Parameters
    ----------
    step
        The training step, a function of trees of arrays. If its first argument and first result have the same tree,
        shapes and types, both are the model's state and are stored alike. If `step` is left out, `partition` returns a
        decorator: `@tofu.jax.partition(workers=8)`.
    workers
        The number of devices, a list of devices, or a `jax.sharding.Mesh`. The plan may arrange the devices of a mesh
        differently. Each process must contribute the same number of devices.
    example_args
        A tuple of the step's arguments, or of their shapes and types (`jax.eval_shape`, `jax.ShapeDtypeStruct`). If it
        is left out, the step is planned at its first call.
    donate_argnums
        The positions of arguments whose memory the step may reuse, as in `jax.jit`. If `step` is a result of `jax.jit`,
        the default is its `donate_argnums`.
    uneven
        Which arrays may be stored in overlapping shards (`UnevenArray`), if the devices cannot divide them equally:

        - "needed" (default): arrays of 64 KiB and more, such as weights of 1,024 x 4,096 on 3 devices.
        - "free": any array, such as a table of 50,257 rows.
        - "none": no array.
    more
        Must be empty. If the step's arguments are passed here, the error shows the correct call.
    options
        Options of planning, as in `tofu.partition`: `hints`, `search_seconds`, `algorithm`, `topology`, `memory_limit`,
        `replicate`, `undescribed`, `cache` and `plan`. To reuse a plan, pass `plan`: a `Plan`, its JSON text, or the
        path of a JSON file. The default `topology` assumes that transfers between processes are slower than within a
        process.

    Returns
    -------
    PartitionedStep or DeferredStep
        The step on several devices. Call it like `step`, with complete or placed arrays. Without `example_args`, it is
        a DeferredStep.

    Raises
    ------
    DeviceError
        There are too few devices, or `workers` has the wrong type.
    UnsupportedError
        The step cannot be traced, or an option is unknown.
    UndescribedOperatorError
        The step uses a JAX operation that Tofu does not know.
    InfeasibleError, PlanError
        The step cannot be split as requested.
    """
    if more:
        raise UnsupportedError(
            f"partition takes a step, workers and one tuple of the step's arguments, and {len(more) + 3} values were given by "
            f"position. Put the last {len(more) + 1} into a tuple, as in tofu.jax.partition(step, 8, (state, batch)); options have names."
        )
    if options.get("backend") == "shard_map":  # accepted for scripts written before 0.3
        warnings.warn(
            "backend= is gone: steps run under jax.shard_map. Leave it out.", DeprecationWarning, stacklevel=2
        )
        del options["backend"]
    engine = make_engine(uneven)
    if step is None and example_args is not None:
        raise UnsupportedError("A step is a function of arrays, not None.")
    if step is None or example_args is None:
        check_names(options)
        deferred = {"uneven": uneven, **options}
        if step is None:
            _require_workers(workers)
            return lambda step: DeferredStep(step, workers, donate_argnums, deferred)
        _check_device_list(workers)
        return DeferredStep(step, workers, donate_argnums, deferred)
    check_arguments(example_args)
    devices = find_devices(workers)
    settings = read_settings(len(devices), options, workers if isinstance(workers, Mesh) else None)
    if settings.topology is None and settings.plan is None and not ALGORITHMS[settings.algorithm].splits_once:
        settings = replace(settings, topology=find_topology(devices))
    with show_progress() as report:
        report("tracing the step")
        source = donate(read_step(step, tuple(example_args)), donate_argnums)
        report("")
        made = plan_step(source, settings, engine=engine)
        report(f"writing the program of {len(devices)} workers")
        partitioned = PartitionedStep(step, made, made.training.make_mesh(devices), uneven)
    if uneven is None and (names := partitioned.uneven_state):
        logger.warning(
            "%d devices cannot share %s equally, so these arrays of the state are stored as tofu.jax.UnevenArray. Orbax and other "
            'libraries do not accept this class: save jax.tree.map(np.asarray, state), or pass uneven="none" to tofu.jax.partition. '
            'uneven="needed" turns this message off.',
            len(devices),
            list_some(names, 3),
        )
    return partitioned


def _require_workers(workers: Any) -> None:
    # The devices are looked up later, because JAX may not be initialized yet.
    if workers is None:
        raise DeviceError(
            "workers= is missing, the devices that the step is to run on: a number of them, a jax.sharding.Mesh, or a list, as in "
            "tofu.jax.partition(step, 8, (state, batch)) or @tofu.jax.partition(workers=8)."
        )


def _check_device_list(workers: Any) -> None:
    if not isinstance(workers, Sequence) or isinstance(workers, str):
        return
    not_devices = [show(worker) for worker in workers if not hasattr(worker, "process_index")]
    if not_devices:
        raise DeviceError(
            f"workers= contains {not_devices[0]}, not a device. Pass devices from jax.devices(), or their number. The step's arguments "
            "come third: tofu.jax.partition(step, 8, (state, batch))."
        )


def find_devices(workers: Any) -> list[Any]:
    """Return the devices that `workers` selects. Raise DeviceError for a wrong type or too few devices."""
    if isinstance(workers, Mesh):
        workers = list(workers.devices.flat)
    _check_device_list(workers)
    if isinstance(workers, Sequence) and not isinstance(workers, str):
        if not workers:
            raise DeviceError("workers= is an empty list. Give devices of jax.devices(), or a number of them.")
        check_devices(workers)
        return list(workers)
    if isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1:
        raise DeviceError(
            f"workers is {show_with_type(workers)}; it takes a whole number of devices from 1 on, a jax.sharding.Mesh, or a "
            "list of devices."
        )
    return list_devices(int(workers))
