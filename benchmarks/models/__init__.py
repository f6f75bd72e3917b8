"""The models of the paper's evaluation and Transformers, at any size. A model is built from shapes: nothing is allocated."""

from benchmarks.models.by_name import build_model
from benchmarks.models.model import Model
from benchmarks.models.rnn import bidirectional, rnn
from benchmarks.models.transformer import transformer
from benchmarks.models.wresnet import wresnet

__all__ = ["Model", "bidirectional", "build_model", "rnn", "transformer", "wresnet"]
