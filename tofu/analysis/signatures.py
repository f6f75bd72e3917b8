"""The entry point of the analysis, with caches for equal operators.

Operators share a symbolic analysis if they have the same *signature*: a description, the described attributes, the
numbers of dimensions, and which input dimensions have length 1. If the description is registered with `concrete=True`,
the input shapes must also be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tofu.analysis.access import OperatorAccess
from tofu.analysis.arithmetic import Arithmetic
from tofu.analysis.axes import Signature
from tofu.analysis.evaluator import Evaluator
from tofu.analysis.movement import Shapes
from tofu.analysis.symbolic import analyse_symbolically
from tofu.tdl.description import Description
from tofu.tdl.tracing import trace


def analyse(
    description: Description,
    attributes: Mapping[str, object],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int]],
) -> OperatorAccess:
    """Find the axes along which an operator can be split, and the regions of tensors that each part reads and writes.

    Raises DescriptionError if the description is malformed or contradicts the shapes.

    >>> from tofu.tdl import describe, Sum
    >>> dot = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    >>> analyse(dot, {}, [(4, 6), (6, 8)], [(4, 8)]).axes
    ('i', 'j', 'k')
    """
    inputs: Shapes = tuple(map(tuple, input_shapes))
    outputs: Shapes = tuple(map(tuple, output_shapes))
    attribute_texts = _list_attributes(description, attributes)
    access = description.cache.get((attribute_texts, inputs, outputs))
    if access is None:
        signature = _find_signature(description, attributes, attribute_texts, inputs, outputs)
        access = signature.evaluate(inputs, outputs)
        description.cache[attribute_texts, inputs, outputs] = access
    assert isinstance(access, OperatorAccess)
    return access


def find_arithmetic(
    description: Description,
    attributes: Mapping[str, object],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int]],
) -> Arithmetic:
    """Count the arithmetic operations of each output of an operator."""
    inputs: Shapes = tuple(map(tuple, input_shapes))
    outputs: Shapes = tuple(map(tuple, output_shapes))
    attribute_texts = _list_attributes(description, attributes)
    return _find_signature(description, attributes, attribute_texts, inputs, outputs).arithmetic


def _list_attributes(description: Description, attributes: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(attributes[name])) for name in description.defaults if name in attributes)


def _find_signature(
    description: Description,
    attributes: Mapping[str, object],
    attribute_texts: tuple[tuple[str, str], ...],
    inputs: Shapes,
    outputs: Shapes,
) -> Signature:
    ranks = tuple(len(shape) for shape in outputs)
    input_key = inputs if description.concrete else tuple(tuple(extent == 1 for extent in shape) for shape in inputs)
    key = ("signature", attribute_texts, input_key, outputs if description.takes_output_shapes else ranks)
    signature = description.cache.get(key)
    if signature is None:
        pattern = analyse_symbolically(trace(description, attributes, inputs, ranks, outputs))
        signature = Signature(pattern, Evaluator(pattern))
        description.cache[key] = signature
    assert isinstance(signature, Signature)
    return signature
