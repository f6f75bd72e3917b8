"""What `tests.campaigns.gluon_models` trains: blocks as their libraries make them, and inputs that they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from mxnet import gluon

Draw = np.random.RandomState
BATCH = 4


@dataclass(frozen=True)
class Recipe:
    """A block and its inputs.

    Parameters
    ----------
    library
        The package that has to be installed.
    make
        The block, not initialized.
    inputs
        The inputs of a step, drawn at random.
    dtype
        Of what is computed with.
    """

    library: str
    make: Callable[[], Any]
    inputs: Callable[[Draw], list[np.ndarray[Any, Any]]]
    dtype: str = "float64"


def _images(size: int) -> Callable[[Draw], list[np.ndarray[Any, Any]]]:
    return lambda draw: [draw.randn(BATCH, 3, size, size)]


def _own(name: str, size: int = 32) -> Recipe:
    return Recipe("mxnet", lambda: gluon.model_zoo.vision.get_model(name), _images(size))


def _cv(name: str, size: int = 32, **options: Any) -> Recipe:
    def make() -> Any:
        return import_module("gluoncv.model_zoo").get_model(name, pretrained=False, **options)

    return Recipe("gluoncv", make, _images(size))


def _tokens(draw: Draw, length: int = 12, words: int = 50) -> np.ndarray[Any, Any]:
    return draw.randint(0, words, (BATCH, length)).astype("float64")  # GluonNLP's models compute with their type


def _bert(**options: Any) -> Any:
    bert = import_module("gluonnlp.model.bert")
    encoder = bert.BERTEncoder(num_layers=2, units=32, hidden_size=64, max_length=12, num_heads=4)
    return bert.BERTModel(encoder, vocab_size=50, token_type_vocab_size=2, units=32, embed_size=32, **options)


def _bert_inputs(draw: Draw) -> list[np.ndarray[Any, Any]]:
    lengths = np.array([12.0, 7.0, 9.0, 3.0])
    return [_tokens(draw), _tokens(draw, words=2), lengths, _tokens(draw, 3, 3)]


def _roberta() -> Any:
    bert = import_module("gluonnlp.model.bert")
    encoder = bert.BERTEncoder(num_layers=2, units=32, hidden_size=64, max_length=12, num_heads=4)
    return bert.RoBERTaModel(encoder, vocab_size=50, units=32, embed_size=32)


def _transformer_encoder() -> Any:
    return import_module("gluonnlp.model.transformer").TransformerEncoder(
        num_layers=2, units=32, hidden_size=64, max_length=12, num_heads=4, dropout=0.0
    )


def _language_model(kind: str) -> Callable[[], Any]:
    def make() -> Any:
        models = import_module("gluonnlp.model.language_model")
        return getattr(models, kind)("lstm", 50, 16, 16, 2, 0.0, False)

    return make


MODELS = {
    "alexnet": _own("alexnet", 224),
    "densenet121": _own("densenet121", 224),
    "inceptionv3": _own("inceptionv3", 299),
    "mobilenet1.0": _own("mobilenet1.0"),
    "mobilenetv2_1.0": _own("mobilenetv2_1.0"),
    "resnet18_v2": _own("resnet18_v2"),
    "squeezenet1.0": _own("squeezenet1.0", 224),
    "vgg11_bn": _own("vgg11_bn"),
    "cifar_resnet20_v1": _cv("cifar_resnet20_v1"),
    "cifar_resnet20_v2": _cv("cifar_resnet20_v2"),
    "cifar_wideresnet16_10": _cv("cifar_wideresnet16_10", 16),
    "mobilenetv3_small": _cv("mobilenetv3_small", 64),
    "resnest14": _cv("resnest14", 64),
    "resnext50_32x4d": _cv("resnext50_32x4d", 64),
    "resnet18_v1b": _cv("resnet18_v1b", 64),
    "se_resnext50_32x4d": _cv("se_resnext50_32x4d", 64),
    "googlenet": _cv("googlenet", 224),
    "xception": _cv("xception", 96),
    "hrnet_w18_small_v1_c": _cv("hrnet_w18_small_v1_c", 64),
    "center_net_resnet18_v1b": _cv("center_net_resnet18_v1b_voc", 128, pretrained_base=False),
    "simple_pose_resnet18_v1b": _cv("simple_pose_resnet18_v1b", 64, pretrained_base=False),
    "alpha_pose_resnet101_v1b": _cv("alpha_pose_resnet101_v1b_coco", 64, pretrained_base=False),
    "ssd_300_vgg16": _cv("ssd_300_vgg16_atrous_voc", 300, pretrained_base=False),
    "ssd_512_mobilenet1.0": _cv("ssd_512_mobilenet1.0_voc", 256, pretrained_base=False),
    "fcn_resnet50": _cv("fcn_resnet50_voc", 64, pretrained_base=False, base_size=64, crop_size=64),
    "psp_resnet50": _cv("psp_resnet50_ade", 64, pretrained_base=False, base_size=64, crop_size=64),
    "deeplab_resnet50": _cv("deeplab_resnet50_ade", 64, pretrained_base=False, base_size=64, crop_size=64),
    "icnet_resnet50": _cv("icnet_resnet50_citys", 64, pretrained_base=False, base_size=64, crop_size=64),
    # MXNet's kernels of attention on CPUs are of single precision.
    "bert": Recipe("gluonnlp", lambda: _bert(use_classifier=True, use_decoder=True), _bert_inputs, "float32"),
    "bert_pooled": Recipe(
        "gluonnlp", lambda: _bert(use_classifier=False, use_decoder=False), lambda d: _bert_inputs(d)[:3], "float32"
    ),
    "roberta": Recipe("gluonnlp", _roberta, lambda d: [_tokens(d), *_bert_inputs(d)[2:]], "float32"),
    "transformer_encoder": Recipe("gluonnlp", _transformer_encoder, lambda d: [d.randn(BATCH, 12, 32)]),
    "standard_lstm_lm": Recipe("gluonnlp", _language_model("StandardRNN"), lambda d: [_tokens(d, BATCH)]),
}
