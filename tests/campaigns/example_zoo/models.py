"""Models of MXNet's `example/`: their files, the functions that build them, and the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxnet as mx

from tests.campaigns.example_zoo.loading import load_definitions

BATCH = 8
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class MxnetExample:
    """A model of an example. `path` is below `example/`; `make` builds the model from the definitions of that file.
    `values` are inputs that cannot be drawn at random."""

    path: str
    make: Callable[[Any], Any]
    shapes: Shapes
    library: str = "mxnet"
    values: Mapping[str, Any] = field(default_factory=dict)

    def build_symbol(self, source: Path) -> Any:
        """Return the model as a symbol, with the operator names of a new process."""
        definitions = load_definitions(source / self.path) if self.path else None
        with mx.name.NameManager(), mx.autograd.train_mode():
            model = self.make(definitions)
            if isinstance(model, mx.gluon.Block):
                model.initialize()
                model.apply(_stop_dropout)
                model = model(*(mx.sym.var(name) for name in self.shapes))
        flat = list(_flatten(model))
        return flat[0] if len(flat) == 1 else mx.sym.Group(flat)


def _stop_dropout(block: Any) -> None:
    if isinstance(block, mx.gluon.nn.Dropout):
        block._rate = 0.0


def _flatten(model: Any) -> Any:
    if isinstance(model, (list, tuple)):
        for part in model:
            yield from _flatten(part)
    else:
        yield model


def _classifier(name: str, size: int, batch: int = BATCH, **options: Any) -> MxnetExample:
    given = {"num_classes": 10, "image_shape": f"3,{size},{size}", **options}
    path = f"image-classification/symbols/{name}.py"
    return MxnetExample(path, lambda defined: defined.get_symbol(**given), {"data": (batch, 3, size, size)})


def _recurrent(kind: str, states: int) -> MxnetExample:
    steps, width = 6, 16
    begin = {f"l{layer}_init_{state}": (BATCH, width) for layer in range(2) for state in ("h", "c")[:states]}

    def make(defined: Any) -> Any:
        return getattr(defined, f"{kind}_unroll")(2, steps, 50, num_hidden=width, num_embed=width, num_label=50)

    words: Shapes = {"data": (BATCH, steps), "softmax_label": (BATCH, steps)}
    if kind == "rnn":
        words = {f"{name}/{step}": (BATCH,) for name in ("data", "label") for step in range(steps)}
    return MxnetExample(f"rnn/old/{kind}.py", make, words | begin)


def _ssd(network: str, size: int) -> MxnetExample:
    def make(defined: Any) -> Any:
        net = defined.get_symbol_train(network, size, num_classes=3, nms_thresh=0.5)
        # Detections take no part in training. They are sorted by score, and rounding may change their order.
        return [output for output in net if not output.name.startswith("det_out")]

    return MxnetExample("ssd/symbol/symbol_factory.py", make, {"data": (4, 3, size, size), "label": (4, 3, 5)})


def _block(path: str, name: str, shape: tuple[int, ...], *args: Any, **options: Any) -> MxnetExample:
    return MxnetExample(f"gluon/{path}", lambda defined: getattr(defined, name)(*args, **options), {"data": shape})


def _with(defined: Any, name: str, **values: Any) -> Callable[..., Any]:
    """Return a function of a script, after setting the global variables that its command line would set."""
    function = getattr(defined, name)
    function.__globals__.update(values)
    return function


def _series(defined: Any) -> Any:
    """LSTNet."""
    cells = [mx.rnn.GRUCell(8)], [mx.rnn.LSTMCell(8)]
    return defined.sym_gen(_feed(data=(BATCH, 12, 5), label=(BATCH, 5)), 12, [3, 6], 8, 0.2, *cells, 4, 1)[0]


def _entities(defined: Any) -> Any:
    sizes = {"char_embed": 6, "word_embed": 10, "char_filters": 4, "char_filter_list": [2, 3], "lstm_state_size": 8}
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(8, prefix="forward_"), mx.rnn.LSTMCell(8, prefix="back_")))
    make = _with(
        defined,
        "sym_gen",
        args=SimpleNamespace(**sizes, dropout=0.2),
        bi_cell=cell,
        train_iter=_feed(words=(BATCH, 7), letters=(BATCH, 7, 5), label=(BATCH, 7)),
        char_to_index=range(20),
        word_to_index=range(40),
        entity_to_index=range(6),
    )
    return make(7)[0]


def _feed(**shapes: tuple[int, ...]) -> Any:
    *data, label = (mx.io.DataDesc(name, shape) for name, shape in shapes.items())
    return SimpleNamespace(provide_data=data, provide_label=[label])


def _variables(*names: str) -> list[Any]:
    return [mx.sym.var(name) for name in names]


IMAGES = (BATCH, 3, 32, 32)
EXAMPLES = {
    "alexnet": _classifier("alexnet", 224, 4),
    "googlenet": _classifier("googlenet", 224, 4),
    "inception-bn": _classifier("inception-bn", 28),
    "inception-resnet-v2": _classifier("inception-resnet-v2", 299, 4),
    "inception-v3": _classifier("inception-v3", 299, 4),
    "inception-v4": _classifier("inception-v4", 299, 4),
    "lenet": _classifier("lenet", 28),
    "lenet with a spatial transformer": _classifier("lenet", 28, add_stn=True),
    "mlp": _classifier("mlp", 28),
    "mobilenet": _classifier("mobilenet", 224, 4),
    "mobilenetv2": MxnetExample(
        "image-classification/symbols/mobilenetv2.py", lambda d: d.get_symbol(10, 0.5), {"data": (4, 3, 224, 224)}
    ),
    "resnet-v1": _classifier("resnet-v1", 28, num_layers=20),
    "resnet": _classifier("resnet", 28, num_layers=20),
    "resnetv1": _classifier("resnetv1", 28, num_layers=20),
    "resnext": _classifier("resnext", 28, num_layers=20),
    "vgg": _classifier("vgg", 32, num_layers=11, batch_norm=True),
    "fcn32s": MxnetExample("fcn-xs/symbol_fcnxs.py", lambda d: d.get_fcn32s_symbol(5, 64), {"data": (1, 3, 32, 32)}),
    "fcn8s": MxnetExample("fcn-xs/symbol_fcnxs.py", lambda d: d.get_fcn8s_symbol(5, 64), {"data": (1, 3, 32, 32)}),
    "ssd with vgg16": _ssd("vgg16_reduced", 300),
    "ssd with inception-v3": _ssd("inceptionv3", 299),
    "ssd with resnet-50": _ssd("resnet50", 256),
    "text cnn": MxnetExample(
        "cnn_text_classification/text_cnn.py",
        lambda d: d.sym_gen(BATCH, 20, 16, 50, filter_list=[3, 4, 5], num_filter=8)[0],
        {"data": (BATCH, 20), "softmax_label": (BATCH,)},
    ),
    "text cnn, Chinese": MxnetExample(
        "cnn_chinese_text_classification/text_cnn.py",
        lambda d: d.sym_gen(BATCH, 20, 16, 50, filter_list=[3, 4, 5])[0],
        {"data": (BATCH, 20), "softmax_label": (BATCH,)},
    ),
    "a3c": MxnetExample(
        "reinforcement-learning/a3c/sym.py", lambda d: d.get_symbol_atari(4), {"data": (BATCH, 4, 42, 42)}
    ),
    "ddpg, values": MxnetExample(
        "reinforcement-learning/ddpg/utils.py",
        lambda d: d.define_qfunc(*_variables("obs", "act")),
        {"obs": (BATCH, 6), "act": (BATCH, 4)},
    ),
    "ddpg, policy": MxnetExample(
        "reinforcement-learning/ddpg/utils.py", lambda d: d.define_policy(*_variables("obs"), 4), {"obs": (BATCH, 6)}
    ),
    "lstm": _recurrent("lstm", 2),
    "gru": _recurrent("gru", 1),
    "rnn": _recurrent("rnn", 1),
    "ctc": MxnetExample(
        "ctc/lstm.py",
        lambda d: d.lstm_unroll(2, 10, 16, 4, "ctc"),
        {"data": (BATCH, 10, 8), "label": (BATCH, 4)}
        | {f"l{layer}_init_{s}": (BATCH, 16) for layer in range(2) for s in "hc"},
    ),
    "plankton": MxnetExample("kaggle-ndsb1/symbol_dsb.py", lambda d: d.get_symbol(20), {"data": (BATCH, 3, 48, 48)}),
    "neural style, vgg19": MxnetExample(
        "neural-style/model_vgg19.py", lambda d: d.get_symbol(), {"data": (2, 3, 64, 64)}
    ),
    "neural style, generator 3": MxnetExample(
        "neural-style/end_to_end/gen_v3.py", lambda d: d.get_generator("g", (64, 64)), {"g_data": (2, 3, 64, 64)}
    ),
    "neural style, generator 4": MxnetExample(
        "neural-style/end_to_end/gen_v4.py", lambda d: d.get_generator("g", (64, 64)), {"g_data": (2, 3, 64, 64)}
    ),
    "svm, squared": MxnetExample("svm_mnist/svm_mnist.py", lambda d: d.mlp_svm_l2, {"data": (BATCH, 70)}),
    "svm, linear": MxnetExample("svm_mnist/svm_mnist.py", lambda d: d.mlp_svm_l1, {"data": (BATCH, 70)}),
    "module mlp": MxnetExample("module/mnist_mlp.py", lambda d: d.softmax, {"data": (BATCH, 784)}),
    "dense-sparse-dense": MxnetExample("dsd/mlp.py", lambda d: d.get_symbol(), {"data": (BATCH, 784)}),
    "nce, softmax": MxnetExample(
        "nce-loss/toy_softmax.py", lambda d: d.get_net(60), {"data": (BATCH, 20), "label": (BATCH,)}
    ),
    "nce, sampled": MxnetExample(
        "nce-loss/toy_nce.py",
        lambda d: d.get_net(60),
        {"data": (BATCH, 20), "label": (BATCH, 6), "label_weight": (BATCH, 6)},
    ),
    "collaborative filtering": MxnetExample(
        "neural_collaborative_filtering/core/model.py",
        lambda d: d.get_model("neumf", 16, 16, [32, 32, 16], max_user=40, max_item=30),
        {"user": (BATCH,), "item": (BATCH,)},
    ),
    "capsules": MxnetExample(
        "capsnet/capsulenet.py",
        lambda d: _with(d, "capsnet", args=None)(BATCH, 10, 1, 0.392),
        {"data": (BATCH, 1, 28, 28), "softmax_label": (BATCH,)},
    ),
    "bayesian mlp": MxnetExample(
        "bayesian-methods/bdk_demo.py", lambda d: d.get_mnist_sym(None, 32), {"data": (BATCH, 64)}
    ),
    "vae-gan, generator": MxnetExample(
        "vae-gan/vaegan_mxnet.py", lambda d: d.generator(8, 3, z_dim=10), {"rand": (BATCH, 10, 1, 1)}
    ),
    "vae-gan, features": MxnetExample("vae-gan/vaegan_mxnet.py", lambda d: d.discriminator1(8), {"data": IMAGES}),
    "vae-gan, discriminator": MxnetExample(
        "vae-gan/vaegan_mxnet.py", lambda d: d.discriminator2(8), {"data": (BATCH, 32, 4, 4), "label": (BATCH, 1)}
    ),
    "heart volumes": MxnetExample("kaggle-ndsb2/Train.py", lambda d: d.get_lenet(), {"data": (BATCH, 30, 32, 32)}),
    "time series": MxnetExample(
        "multivariate_time_series/src/lstnet.py", _series, {"data": (BATCH, 12, 5), "label": (BATCH, 5)}
    ),
    "named entities": MxnetExample(
        "named_entity_recognition/src/ner.py",
        _entities,
        {"words": (BATCH, 7), "letters": (BATCH, 7, 5), "label": (BATCH, 7)},
    ),
    "dcgan, generator": MxnetExample(
        "gluon/dc_gan/dcgan.py", lambda d: _with(d, "get_netG", ngf=8, nc=3)(), {"data": (BATCH, 10, 1, 1)}
    ),
    "dcgan, discriminator": MxnetExample(
        "gluon/dc_gan/dcgan.py", lambda d: _with(d, "get_netD", ndf=8)(), {"data": (BATCH, 3, 64, 64)}
    ),
    "sn-gan, generator": _block("sn_gan/model.py", "get_generator", (4, 10, 1, 1)),
    "lips": _block("lipnet/models/network.py", "LipNet", (2, 3, 8, 32, 32), 0.0),
    "urban sounds": _block("audio/urban_sounds/model.py", "get_net", (BATCH, 40)),
    "super-resolution": _block("super_resolution/super_resolution.py", "SuperResolutionNet", (BATCH, 1, 16, 16), 3),
    "house prices": _block("house_prices/kaggle_k_fold_cross_validation.py", "get_net", (BATCH, 30)),
}
