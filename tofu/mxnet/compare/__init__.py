"""Compare a model's results on several workers with its results on one device.

The functions accept a model as a symbol, partitioned or not.
"""

from tofu.compare.numbers import Arrays as Arrays
from tofu.compare.numbers import Difference as Difference
from tofu.compare.numbers import RunNumbers as RunNumbers
from tofu.compare.numbers import compare_numbers as compare_numbers
from tofu.compare.numbers import relative_error as relative_error
from tofu.mxnet.compare.runs import Run as Run
from tofu.mxnet.compare.runs import run_step as run_step
from tofu.mxnet.compare.symbols import CORRECTIONS as CORRECTIONS
from tofu.mxnet.compare.symbols import list_single as list_single
from tofu.mxnet.compare.symbols import split_readers as split_readers
from tofu.mxnet.compare.symbols import widen_types as widen_types
from tofu.mxnet.compare.symbols import without_dropout as without_dropout
from tofu.mxnet.compare.values import draw_values as draw_values
from tofu.mxnet.compare.values import find_positions as find_positions
