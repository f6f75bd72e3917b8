"""Models of the paper's evaluation and Transformers, from shapes alone."""

from tests.models.paper.by_name import build_model
from tests.models.paper.model import PaperModel
from tests.models.paper.rnn import rnn
from tests.models.paper.transformer import transformer
from tests.models.paper.wresnet import wresnet

__all__ = ["PaperModel", "build_model", "rnn", "transformer", "wresnet"]
