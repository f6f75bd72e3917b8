"""Small blocks of Gluon's model zoo, GluonCV and GluonNLP, with the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from mxnet import gluon

from tests.campaigns.example_zoo.models import MxnetExample

BATCH = 4
SENTENCES = {"data0": (BATCH, 12), "data1": (BATCH, 12), "data2": (BATCH,)}
MASKED = {"data3": (BATCH, 3)}
LENGTHS = np.array([12.0, 7.0, 9.0, 3.0])


def _zoo(name: str, size: int = 32) -> MxnetExample:
    return MxnetExample("", lambda _: gluon.model_zoo.vision.get_model(name), {"data": (BATCH, 3, size, size)})


def _cv(name: str, size: int = 32, **options: Any) -> MxnetExample:
    def make(_: Any) -> Any:
        return import_module("gluoncv.model_zoo").get_model(name, pretrained=False, **options)

    return MxnetExample("", make, {"data": (BATCH, 3, size, size)}, library="gluoncv")


def _nlp(make: Callable[[Any], Any], shapes: dict[str, tuple[int, ...]], module: str, **values: Any) -> MxnetExample:
    return MxnetExample("", lambda _: make(import_module(f"gluonnlp.model.{module}")), shapes, "gluonnlp", values)


def _encoder(bert: Any) -> Any:
    return bert.BERTEncoder(num_layers=2, units=32, hidden_size=64, max_length=12, num_heads=4)


def _bert(**options: Any) -> Callable[[Any], Any]:
    sizes = {"vocab_size": 50, "token_type_vocab_size": 2, "units": 32, "embed_size": 32}
    return lambda bert: bert.BERTModel(_encoder(bert), **sizes, **options)


GLUON_MODELS = {
    "densenet121": _zoo("densenet121", 224),
    "inceptionv3": _zoo("inceptionv3", 299),
    "mobilenet1.0": _zoo("mobilenet1.0"),
    "mobilenetv2_1.0": _zoo("mobilenetv2_1.0"),
    "resnet18_v2": _zoo("resnet18_v2"),
    "squeezenet1.0": _zoo("squeezenet1.0", 224),
    "vgg11_bn": _zoo("vgg11_bn"),
    "cifar_resnet20_v1": _cv("cifar_resnet20_v1"),
    "cifar_resnet20_v2": _cv("cifar_resnet20_v2"),
    "cifar_wideresnet16_10": _cv("cifar_wideresnet16_10", 16),
    "mobilenetv3_small": _cv("mobilenetv3_small", 64),
    "resnest14": _cv("resnest14", 64),
    "resnext50_32x4d": _cv("resnext50_32x4d", 64),
    "resnet18_v1b": _cv("resnet18_v1b", 64),
    "se_resnext50_32x4d": _cv("se_resnext50_32x4d", 64),
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
    "bert": _nlp(_bert(use_classifier=True, use_decoder=True), SENTENCES | MASKED, "bert", data2=LENGTHS),
    "bert_pooled": _nlp(_bert(use_classifier=False, use_decoder=False), SENTENCES, "bert", data2=LENGTHS),
    "roberta": _nlp(
        lambda bert: bert.RoBERTaModel(_encoder(bert), vocab_size=50, units=32, embed_size=32),
        {"data0": (BATCH, 12), "data1": (BATCH,), "data2": (BATCH, 3)},
        "bert",
        data1=LENGTHS,
    ),
    "transformer_encoder": _nlp(
        lambda transformer: transformer.TransformerEncoder(
            num_layers=2, units=32, hidden_size=64, max_length=12, num_heads=4, dropout=0.0
        ),
        {"data": (BATCH, 12, 32)},
        "transformer",
    ),
    "standard_lstm_lm": _nlp(
        lambda models: models.StandardRNN("lstm", 50, 16, 16, 2, 0.0, False),
        {"data0": (BATCH, BATCH)},
        "language_model",
    ),
}
