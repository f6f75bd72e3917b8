"""The entry point of the analysis, with caches for equal operators.

Operators with the same *signature* share a symbolic analysis. A signature has the description, its attributes, the
numbers of dimensions, and the input dimensions of length 1. If the description is registered with `concrete=True`, the
input shapes must also be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tofu.analysis.access import OperatorAccess
from tofu.analysis.axes import Signature
from tofu.analysis.evaluator import Evaluator
from tofu.analysis.symbolic import analyse_symbolically
from tofu.tdl.description import Description
from tofu.tdl.tracing import trace


def analyse(
    description: Description,
    attributes: Mapping[str, object],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int]],
) -> OperatorAccess:
    """Find the axes along which an operator can be split, and the elements that each part reads and writes.

    Raises DescriptionError if the description is malformed or contradicts the shapes.

    >>> from tofu.tdl import describe, Sum
    >>> dot = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    >>> analyse(dot, {}, [(4, 6), (6, 8)], [(4, 8)]).axes
    ('i', 'j', 'k')
    """
    signature = find_signature(description, attributes, input_shapes, output_shapes)
    return signature.evaluate(tuple(map(tuple, input_shapes)), tuple(map(tuple, output_shapes)))


def find_signature(
    description: Description,
    attributes: Mapping[str, object],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int]],
) -> Signature:
    """Return the analysis of an operator for all shapes. Results are cached."""
    texts = tuple((name, repr(attributes[name])) for name in description.defaults if name in attributes)
    inputs, outputs = tuple(map(tuple, input_shapes)), tuple(map(tuple, output_shapes))
    ranks = tuple(map(len, outputs))
    input_key = inputs if description.concrete else tuple(tuple(extent == 1 for extent in shape) for shape in inputs)
    key = texts, input_key, outputs if description.takes_output_shapes else ranks
    if key not in description.cache:
        pattern = analyse_symbolically(trace(description, attributes, inputs, ranks, outputs))
        description.cache[key] = Signature(pattern, Evaluator(pattern))
    signature: Signature = description.cache[key]
    return signature
