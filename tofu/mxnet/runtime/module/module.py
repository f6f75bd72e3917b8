"""`tofu.mod.Module`: fit, score and predict over shards.

Parameters are initialised one by one on the host and scattered, updated on the workers that own them, read from files and written
to them in pieces, and gathered one by one where a caller asks for them; no device ever holds a whole one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import mxnet as mx

from tofu.errors import ArgumentTypeError, NotReadyError, UnsupportedError
from tofu.mxnet.frontend.storage import list_storages
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile, save_shards
from tofu.mxnet.runtime.checkpoint.seal import Facts, check_belongs, read_seal, reading
from tofu.mxnet.runtime.checkpoint.states import load_states, optimizer_types, save_states
from tofu.mxnet.runtime.cluster.cluster import Cluster, read_kvstore
from tofu.mxnet.runtime.cluster.horovod import is_distributed, scaled_machines
from tofu.mxnet.runtime.module.parameters import LiveParameters, fill_parameters, group_parameters, refuse_extra
from tofu.mxnet.runtime.module.running import RunningModule
from tofu.mxnet.runtime.module.view import ExecutorGroup
from tofu.mxnet.runtime.optimizer.optimizer import ShardOptimizer
from tofu.mxnet.runtime.symbol.arguments import check_iterator
from tofu.mxnet.runtime.symbol.files import check_checkpoint, read_symbol
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.validation import show, show_with_type

DEFAULT_INITIALIZER = mx.init.Uniform(0.01)


class Module(RunningModule):
    """A model over several devices with the interface of `mx.mod.Module`.

    Parameters
    ----------
    symbol
        The model, or what `tofu.partition` made of it.
    data_names, label_names
        Names of the inputs.
    logger
        Where fit reports.
    context
        The workers' devices; or `ngpus=` their number. Not needed for a partitioned symbol.
    fixed_param_names
        Parameters that are not trained.
    state_names
        Inputs that are no batch's, such as a recurrent model's begin states: zeros until `set_states`.
    work_load_list, group2ctxs
        Of `mx.mod.Module`. The plan says which worker does what; gradients of inputs are handed out where their group lies.
    compression_params
        Of `mx.mod.Module`; UnsupportedError where they are given.

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
    _parameter_file: ParameterFile | None = None
    _state_file: str | None = None
    _is_fitting = False
    # The file that the parameters are from, as long as nothing has changed them.
    _source: ParameterFile | None = None

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
        """Whether the parameters are those of a checkpoint's file, which bind will read."""
        return self._parameter_file is not None and not self.binded

    def fit(self, *args: Any, **kwargs: Any) -> None:
        """As MXNet's `fit`; parameters are gathered only where a callback asks for them."""
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
        """Fill the parameters' shards: from the arrays given, else by the initializer, in MXNet's order, so that equal seeds
        give equal values. Missing parameters are initialized with allow_missing=True, or else are an error; arrays that are not the
        model's are passed over, as in MXNet.
        """
        if self._is_loaded_unbound and not force_init:
            return  # as in MXNet: the parameters are those of the checkpoint
        if self._parameter_file is not None and arg_params is None and aux_params is None:
            self._after_bind()  # an interrupt kept bind from it
        if self.params_initialized and not force_init:
            return
        if initializer is not None and not callable(initializer):
            raise ArgumentTypeError(
                f"initializer= takes an initializer of MXNet, not {show_with_type(initializer)}. Write mx.init.Xavier()."
            )
        attributes = self._symbol.attr_dict()
        self._source = None
        groups = group_parameters(self.executor, self._param_names, arg_params, aux_params, allow_missing)
        self.params_initialized = False  # until all are filled: a half is worth nothing
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
        """Set the parameters from whole arrays, scattered one by one; as in MXNet, other arrays are an error where
        allow_missing=True and not allow_extra=True.
        """
        if isinstance(arg_params, LiveParameters) and arg_params.executor is self._executor:
            return  # fit hands back what get_params gave it
        if allow_missing and not allow_extra and (force_init or not self.params_initialized):
            refuse_extra(self.executor, self._param_names, arg_params, aux_params)
        super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)

    def get_params(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Whole copies of the parameters and of the auxiliary states, gathered on the host; of a checkpoint that is not bound yet, read
        from its file.

        The callbacks of `fit` are given mappings that gather a parameter when it is asked for.
        """
        if self._is_loaded_unbound and self._parameter_file is not None:
            return dict(self._parameter_file.select("arg")), dict(self._parameter_file.select("aux"))
        arguments = self._show(self._param_names)
        states = self._show(self._symbol.list_auxiliary_states())
        return (arguments, states) if self._is_fitting else (dict(arguments), dict(states))

    def _show(self, names: Sequence[str]) -> LiveParameters:
        return LiveParameters(self.executor, names, list_storages(self._symbol))

    # ---- files

    @classmethod
    def load(cls, prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """A module from a checkpoint of `save_checkpoint`, ours or MXNet's, for any number of workers.

        `kwargs` are those of the constructor; without `ngpus` and `context`, a partitioned symbol is run as it was saved. The
        parameters are read when the module is bound, the optimizer's states when it gets its optimizer. Raises TofuError for files that
        are not there, are damaged, or are of two checkpoints.
        """
        check_checkpoint(prefix, epoch, ["params", *(["states"] if load_optimizer_states else [])])
        symbol = read_symbol(f"{prefix}-symbol.json")
        if isinstance(symbol, PartitionedSymbol) and (kwargs.get("ngpus") or kwargs.get("context")):
            symbol = symbol.whole
        module = cls(symbol, **kwargs)
        file = module._parameter_file = ParameterFile(f"{prefix}-{epoch:04d}.params")
        if load_optimizer_states:
            module._state_file = f"{prefix}-{epoch:04d}.states"
            with reading(module._state_file) as states:
                check_belongs(file.seal, read_seal(states, module._state_file), file.path, module._state_file)
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write PREFIX-symbol.json, PREFIX-EPOCH.params and, if asked for, PREFIX-EPOCH.states, each atomically."""
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        digest = self._save_params(f"{prefix}-{epoch:04d}.params")
        if save_optimizer_states:
            self._save_states(f"{prefix}-{epoch:04d}.states", digest)
        self.logger.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)

    def save_params(self, fname: str) -> None:
        """Write the parameters as MXNet does, gathered in pieces, with a checksum behind, which MXNet does not read."""
        self._save_params(fname)

    def _save_params(self, fname: str) -> str:
        variables, states = self.executor.variables, self._symbol.list_auxiliary_states()
        named = {f"arg:{name}": variables[name] for name in self._param_names}
        return save_shards(fname, {**named, **{f"aux:{name}": variables[name] for name in states}}, self._steps)

    @property
    def _steps(self) -> int | None:
        return None if self._shard_optimizer is None else int(self._shard_optimizer.optimizer.num_update)

    def load_params(self, fname: str) -> None:
        """Read the parameters from a file of MXNet's or of `save_params`, in pieces."""
        self._fill_from(ParameterFile(fname))

    def _fill_from(self, file: ParameterFile) -> None:
        self.set_params(file.select("arg"), file.select("aux"))
        self._source = file

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer and its states as MXNet's Updater does, one whole state at a time, with a checksum behind."""
        self._save_states(fname, None)

    def _save_states(self, fname: str, parameters: str | None) -> None:
        """The same, beside the file of parameters that has this digest."""
        optimizer = self._require_optimizer()
        optimizer.lay_out_states(self.executor)
        save_states(fname, optimizer.content, Facts(self._steps, parameters))

    def load_optimizer_states(self, fname: str) -> None:
        """Read states written by MXNet or by `save_optimizer_states`. The latter hold the optimizer with its counts of steps,
        which takes the place of the present one, so that training goes on exactly. Raises TofuError for those of another optimizer, and
        for those of another step than the file that the parameters were loaded from.
        """
        optimizer = self._require_optimizer()
        content, seal = load_states(fname, optimizer_types(optimizer.optimizer))
        if self._source is not None:
            check_belongs(self._source.seal, seal, self._source.path, fname)
        optimizer.load(content, self.executor)

    # ---- optimizer

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Create the optimizer; its states are made on the shards at the first update.

        With a `kvstore` that is distributed and synchronous, such as "dist_sync", all machines begin with the parameters of the first, and
        add their gradients up before each update. Any other has no part in it. An `optimizer` may be Horovod's DistributedOptimizer, which
        averages shards of gradients between machines. Raises UnsupportedError for both at once.
        """
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        cluster = read_kvstore(kvstore)
        if cluster is not None and is_distributed(optimizer):
            raise UnsupportedError(
                f"Both kvstore={show(cluster.kvstore.type)} and Horovod add gradients up between machines. Take kvstore=None with Horovod."
            )
        rows = self._exec_group.batch_size * (scaled_machines(optimizer) if cluster is None else cluster.machines)
        self._shard_optimizer = ShardOptimizer(
            optimizer, dict(optimizer_params), self._param_names, 1.0 / rows, self._symbol
        )
        if cluster is not None:
            cluster.share(self._check_ready(), self._param_names)
        self._cluster = cluster
        self.optimizer_initialized = True
        if self._state_file is not None:
            self.load_optimizer_states(self._state_file)
            self._state_file = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Train with the optimizer of another module, its states and its counts of steps. Raises TofuError where it does not train the
        parameters of this one.
        """
        self._shard_optimizer = shared_module._require_optimizer().borrow(self._param_names)
        self._cluster = shared_module._cluster
        self.optimizer_initialized = True

    def _join(self, module: Any) -> None:
        super()._join(module)
        if module.optimizer_initialized:
            self.borrow_optimizer(module)

    @property
    def optimizer(self) -> Any:
        """The MXNet optimizer, whose learning rate may be read and set. Raises TofuError before `init_optimizer`."""
        return self._require_optimizer().optimizer

    @property
    def optimizer_states(self) -> dict[str, Any]:
        """Parameter that was updated -> the optimizer's state for it, in the optimizer's form; its arrays are sharded."""
        optimizer = self._require_optimizer()
        optimizer.lay_out_states(self.executor)
        states = optimizer.updater.states
        return {name: states[index] for index, name in optimizer.names.items() if index in states}

    def _require_optimizer(self) -> ShardOptimizer:
        if self._shard_optimizer is None:
            raise NotReadyError("There is no optimizer: call init_optimizer(...) first.")
        return self._shard_optimizer

    # ---- what scripts read of mx.mod.Module, though it is not said to be theirs

    @property
    def _optimizer(self) -> Any:
        """MXNet's optimizer, or None before `init_optimizer`."""
        return None if self._shard_optimizer is None else self._shard_optimizer.optimizer

    @property
    def _updater(self) -> Any:
        """MXNet's updater, or None before `init_optimizer`; its states are sharded."""
        return None if self._shard_optimizer is None else self._shard_optimizer.updater

    @property
    def _arg_params(self) -> Mapping[str, Any] | None:
        """Parameters, each gathered when it is asked for; None before there are any."""
        return self._show(self._param_names) if self.params_initialized else None

    @property
    def _aux_params(self) -> Mapping[str, Any] | None:
        """Auxiliary states, likewise."""
        return self._show(self._symbol.list_auxiliary_states()) if self.params_initialized else None

    @property
    def _grad_req(self) -> str | dict[str, str]:
        """One word where all gradients are alike."""
        kinds = set(self._requests.values())
        return kinds.pop() if len(kinds) == 1 else self._requests

    @property
    def _kvstore(self) -> Any:
        """MXNet's, between machines. Of one machine, where MXNet would have one for several contexts, what holds the updater; else None."""
        if self._cluster is not None:
            return self._cluster.kvstore
        has_one = self._contexts_named > 1 and self.optimizer_initialized
        return SimpleNamespace(type="local", _updater=self._updater) if has_one else None

    @property
    def _exec_group(self) -> ExecutorGroup:
        """The arrays that MXNet's executors have, sharded."""
        return ExecutorGroup(self.executor, self._data_shapes, self._param_names, self._requests)

    def update(self) -> None:
        """Update every trained parameter, shard by shard, with the gradients of the last backward."""
        self._source = None
        optimizer = self._require_optimizer()
        if self._cluster is not None:
            trained = set(optimizer.names.values())
            self._cluster.sum_gradients(self.executor, [n for n in self.executor.differentiated if n in trained])
        optimizer.update(self.executor)
