"""The models of the paper's evaluation and Transformers, at any size. A model is built from shapes: nothing is allocated."""

from tests.models.paper.by_name import build_model
from tests.models.paper.model import PaperModel
from tests.models.paper.rnn import bidirectional, rnn
from tests.models.paper.transformer import transformer
from tests.models.paper.wresnet import wresnet

__all__ = ["PaperModel", "bidirectional", "build_model", "rnn", "transformer", "wresnet"]
