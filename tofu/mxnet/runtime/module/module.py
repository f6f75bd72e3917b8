"""`tofu.mod.Module`, which trains and runs a model on several devices, with the interface of `mx.mod.Module`.

Each device stores only shards of the parameters. The host never stores all parameters: it initialises, saves and loads
them one by one or in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import mxnet as mx

from tofu.errors import ArgumentTypeError, NotReadyError, UnsupportedError
from tofu.mxnet.frontend.storage import list_storages
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile, save_shards
from tofu.mxnet.runtime.checkpoint.seal import Facts, check_belongs, open_regular, read_seal
from tofu.mxnet.runtime.checkpoint.states import load_states, optimizer_types, save_states
from tofu.mxnet.runtime.cluster.cluster import Cluster, read_kvstore
from tofu.mxnet.runtime.cluster.horovod import is_distributed, scaled_machines
from tofu.mxnet.runtime.module.executor_group import ExecutorGroup
from tofu.mxnet.runtime.module.parameters import (
    LiveParameters,
    check_groups,
    fill_parameters,
    group_parameters,
    refuse_extra,
)
from tofu.mxnet.runtime.module.running import RunningModule
from tofu.mxnet.runtime.optimizer.optimizer import ShardOptimizer
from tofu.mxnet.runtime.symbol.arguments import check_iterator
from tofu.mxnet.runtime.symbol.files import check_checkpoint, read_symbol
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.validation import show, show_with_type

DEFAULT_INITIALIZER = mx.init.Uniform(0.01)


class Module(RunningModule):
    """A model on several devices with the interface of `mx.mod.Module`.

    Parameters
    ----------
    symbol
        The model, or a symbol returned by `tofu.partition`.
    data_names, label_names
        Names of the inputs that a batch contains.
    logger
        The logger to which `fit` reports progress.
    context
        The workers' devices, as a list of MXNet contexts. Not needed for a partitioned symbol.
    ngpus
        The number of workers, if `context` is not passed.
    fixed_param_names
        Names of parameters that are not trained.
    state_names
        Names of inputs that batches do not contain, such as first states of a recurrent model. Set them by
        `set_states`. The default is zeros.
    work_load_list
        Has no effect.
    group2ctxs
        The context of input gradients, for each `ctx_group`.
    compression_params
        Not supported: raises UnsupportedError.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.SoftmaxOutput(
    ...     mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc"), name="softmax"
    ... )
    >>> module = tofu.mod.Module(net, ngpus=2)
    >>> module.bind(data_shapes=[("data", (4, 6))], label_shapes=[("softmax_label", (4,))])
    >>> module.plan.workers
    2
    """

    _shard_optimizer: ShardOptimizer | None = None
    _cluster: Cluster | None = None
    _parameter_file: ParameterFile | None = None  # a checkpoint's parameters, which `bind` reads
    _state_file: str | None = None  # a checkpoint's optimizer states, which `init_optimizer` reads
    _is_fitting = False
    _last_read_file: ParameterFile | None = None  # the parameters were read from it and have not changed since

    def _after_bind(self) -> None:
        if self._parameter_file is not None:
            file, self._parameter_file = self._parameter_file, None
            try:
                self._fill_from(file)
            except BaseException:
                self._parameter_file = file
                raise

    @property
    def _is_loaded_unbound(self) -> bool:
        return self._parameter_file is not None and not self.binded

    def fit(self, *args: Any, **kwargs: Any) -> None:
        """Train the model, as `mx.mod.Module.fit` does."""
        check_iterator("fit", args, kwargs, "train_data")
        self._is_fitting = True
        try:
            super().fit(*args, **kwargs)
        finally:
            self._is_fitting = False

    # ---- parameters

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Fill the parameters from arrays or by an initializer.

        With the same seed, the initializer draws the same numbers as on one device. If `allow_missing` is True,
        arrays may be missing, and the initializer fills their parameters. Arrays with unknown names are ignored.
        """
        if self._is_loaded_unbound and not force_init:
            return  # as in MXNet, the parameters come from the checkpoint
        if self._parameter_file is not None and arg_params is None and aux_params is None:
            self._after_bind()  # an interrupt had ended bind before this
        if self.params_initialized and not force_init:
            return
        if initializer is not None and not callable(initializer):
            raise ArgumentTypeError(
                f"initializer= takes an initializer of MXNet, not {show_with_type(initializer)}. Write mx.init.Xavier()."
            )
        attributes = self._symbol.attr_dict()
        self._last_read_file = None
        groups = group_parameters(self.executor, self._param_names, arg_params, aux_params)
        check_groups(groups, allow_missing)
        self.params_initialized = False  # until all are filled
        fill_parameters(self.executor, attributes, initializer, groups)
        self.params_initialized = True

    def set_params(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters from whole arrays.

        Arrays with unknown names are ignored. But if `allow_missing` is True and `allow_extra` is False, they raise an
        error, as in MXNet.
        """
        if isinstance(arg_params, LiveParameters) and arg_params.executor is self._executor:
            return  # fit passes back what get_params returned
        if allow_missing and not allow_extra and (force_init or not self.params_initialized):
            refuse_extra(group_parameters(self.executor, self._param_names, arg_params, aux_params))
        super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)

    def get_params(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return parameters and auxiliary states (such as moving means) as whole arrays, by name.

        If a loaded module has no arrays yet, its checkpoint is read.
        """
        if self._is_loaded_unbound and self._parameter_file is not None:
            return dict(self._parameter_file.select("arg")), dict(self._parameter_file.select("aux"))
        arguments = self._gather_lazily(self._param_names)
        states = self._gather_lazily(self._symbol.list_auxiliary_states())
        return (arguments, states) if self._is_fitting else (dict(arguments), dict(states))

    def _gather_lazily(self, names: Sequence[str]) -> LiveParameters:
        return LiveParameters(self.executor, names, list_storages(self._symbol))

    # ---- files

    @classmethod
    def load(cls, prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Load a module from a checkpoint of Tofu or MXNet.

        `kwargs` are arguments of the constructor, such as another number of workers. Raise TofuError if files are
        missing, damaged, or from different checkpoints.
        """
        check_checkpoint(prefix, epoch, ["params", *(["states"] if load_optimizer_states else [])])
        symbol = read_symbol(f"{prefix}-symbol.json")
        if isinstance(symbol, PartitionedSymbol) and (kwargs.get("ngpus") or kwargs.get("context")):
            symbol = symbol.whole
        module = cls(symbol, **kwargs)
        file = module._parameter_file = ParameterFile(f"{prefix}-{epoch:04d}.params")
        if load_optimizer_states:
            module._state_file = f"{prefix}-{epoch:04d}.states"
            with open_regular(module._state_file) as states:
                check_belongs(file.seal, read_seal(states, module._state_file), file.path, module._state_file)
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write PREFIX-symbol.json, PREFIX-EPOCH.params and, with `save_optimizer_states`, PREFIX-EPOCH.states.

        If a write fails, the old file stays unchanged.
        """
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        digest = self._save_params(f"{prefix}-{epoch:04d}.params")
        if save_optimizer_states:
            self._save_states(f"{prefix}-{epoch:04d}.states", digest)
        self.logger.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)

    def save_params(self, fname: str) -> None:
        """Write the parameters to a file in MXNet's format, with a checksum at the end."""
        self._save_params(fname)

    def _save_params(self, fname: str) -> str:
        variables, states = self.executor.variables, self._symbol.list_auxiliary_states()
        tensors = {f"arg:{name}": variables[name] for name in self._param_names}
        tensors |= {f"aux:{name}": variables[name] for name in states}
        return save_shards(fname, tensors, self._count_updates())

    def _count_updates(self) -> int | None:
        return None if self._shard_optimizer is None else int(self._shard_optimizer.optimizer.num_update)

    def load_params(self, fname: str) -> None:
        """Read the parameters from a file that Tofu or MXNet wrote."""
        self._fill_from(ParameterFile(fname))

    def _fill_from(self, file: ParameterFile) -> None:
        self.set_params(file.select("arg"), file.select("aux"))
        self._last_read_file = file

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer and its states in MXNet's format, with a checksum at the end."""
        self._save_states(fname, None)

    def _save_states(self, fname: str, parameters_digest: str | None) -> None:
        optimizer = self._require_optimizer()
        optimizer.place_states(self.executor)
        save_states(fname, optimizer.content, Facts(self._count_updates(), parameters_digest))

    def load_optimizer_states(self, fname: str) -> None:
        """Read optimizer states from a file that Tofu or MXNet wrote.

        Raise TofuError if they belong to another optimizer or another training step.
        """
        optimizer = self._require_optimizer()
        content, seal = load_states(fname, optimizer_types(optimizer.optimizer))
        if self._last_read_file is not None:
            check_belongs(self._last_read_file.seal, seal, self._last_read_file.path, fname)
        optimizer.load(content, self.executor)

    # ---- optimizer

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Create the optimizer. Its states are created at the first update.

        To train on several machines, pass a synchronous distributed `kvstore` such as "dist_sync", or the
        DistributedOptimizer of the library Horovod. A kvstore adds the machines' gradients. Horovod averages them.
        Using both raises UnsupportedError.
        """
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        cluster = read_kvstore(kvstore)
        if cluster is not None and is_distributed(optimizer):
            raise UnsupportedError(
                f"Both kvstore={show(cluster.kvstore.type)} and Horovod sum gradients between machines. Use kvstore=None with Horovod."
            )
        machines = scaled_machines(optimizer) if cluster is None else cluster.machines
        rescale_grad = 1.0 / (self._exec_group.batch_size * machines)
        self._shard_optimizer = ShardOptimizer(
            optimizer, dict(optimizer_params), self._param_names, rescale_grad, self._symbol
        )
        if cluster is not None:
            cluster.share(self._check_ready(), self._param_names)
        self._cluster = cluster
        self.optimizer_initialized = True
        if self._state_file is not None:
            self.load_optimizer_states(self._state_file)
            self._state_file = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use another module's optimizer, with its states and number of updates."""
        self._shard_optimizer = shared_module._require_optimizer().borrow(self._param_names)
        self._cluster = shared_module._cluster
        self.optimizer_initialized = True

    def _share_with(self, module: Any) -> None:
        super()._share_with(module)
        if module.optimizer_initialized:
            self.borrow_optimizer(module)

    @property
    def optimizer(self) -> Any:
        """The MXNet optimizer. Its learning rate can be read and set. Raises TofuError before `init_optimizer`."""
        return self._require_optimizer().optimizer

    @property
    def optimizer_states(self) -> dict[str, Any]:
        """The optimizer's states by parameter name, split over workers.

        Parameters that were never updated are missing.
        """
        optimizer = self._require_optimizer()
        optimizer.place_states(self.executor)
        states = optimizer.updater.states
        return {name: states[index] for index, name in optimizer.names.items() if index in states}

    def _require_optimizer(self) -> ShardOptimizer:
        if self._shard_optimizer is None:
            raise NotReadyError("There is no optimizer: call init_optimizer(...) first.")
        return self._shard_optimizer

    # ---- private attributes of mx.mod.Module that scripts read

    @property
    def _optimizer(self) -> Any:
        return None if self._shard_optimizer is None else self._shard_optimizer.optimizer

    @property
    def _updater(self) -> Any:
        return None if self._shard_optimizer is None else self._shard_optimizer.updater

    @property
    def _arg_params(self) -> Mapping[str, Any] | None:
        return self._gather_lazily(self._param_names) if self.params_initialized else None

    @property
    def _aux_params(self) -> Mapping[str, Any] | None:
        return self._gather_lazily(self._symbol.list_auxiliary_states()) if self.params_initialized else None

    @property
    def _grad_req(self) -> str | dict[str, str]:
        requests = set(self._grad_requests.values())
        return requests.pop() if len(requests) == 1 else self._grad_requests

    @property
    def _kvstore(self) -> Any:
        if self._cluster is not None:
            return self._cluster.kvstore
        has_kvstore = self._context_count > 1 and self.optimizer_initialized
        return SimpleNamespace(type="local", _updater=self._updater) if has_kvstore else None

    @property
    def _exec_group(self) -> ExecutorGroup:
        return ExecutorGroup(self.executor, self._data_shapes, self._param_names, self._grad_requests)

    def update(self) -> None:
        """Update all trained parameters with the gradients of the last backward pass."""
        self._last_read_file = None
        optimizer = self._require_optimizer()
        if self._cluster is not None:
            trained = set(optimizer.names.values())
            self._cluster.sum_gradients(self.executor, [n for n in self.executor.differentiated if n in trained])
        optimizer.update(self.executor)
