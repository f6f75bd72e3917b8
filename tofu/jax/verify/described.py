"""Verify functions that users describe, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tofu.errors import DescriptionError
from tofu.jax.frontend.trace import trace_step
from tofu.jax.kernels.call import KernelCall, is_differentiable
from tofu.jax.verify.nodes import make_node
from tofu.jax.verify.primitives import VerifiedEquation, verify_node
from tofu.tdl.interpreter import TooManyPointsError
from tofu.verification.report import NodeReport, Report

if TYPE_CHECKING:
    from tofu.jax.kernels.describe import Described


def verify_described(function: Described, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Report:
    """Run a function with `tofu.jax.describe` and its gradient on shards and on complete arrays. Compare the results.

    Shapes (`jax.ShapeDtypeStruct`) among the arguments are replaced by random arrays. Raise DescriptionError if results
    differ.
    """
    random = np.random.RandomState(0)
    args, kwargs = jax.tree.map(lambda leaf: _draw(leaf, random), (tuple(args), dict(kwargs)))
    call, arrays, _ = function.make_call(args, kwargs)
    results = call.find_shapes(arrays)
    cotangents = [_draw(x, random) for x in results if is_differentiable(x)]
    gradient = call.differentiate(arrays, results)
    reports = [_verify(call, arrays)]
    try:
        gradient.find_shapes([*arrays, *cotangents])
    except Exception as error:  # JAX raises many kinds of errors for this
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        reports.append(
            VerifiedEquation(NodeReport(gradient.name, None, f"not compared: it has no gradient ({reason})", (), ()))
        )
    else:
        reports.append(_verify(gradient, [*arrays, *cotangents]))
    problems = [f"  - {verified.report.op}, {text}" for verified in reports for text in verified.problems]
    if problems:
        raise DescriptionError(
            f"The description of {call.name}, {function.shown_description}, disagrees with the function. Correct it, or leave the axis "
            "out:\n" + "\n".join(problems)
        )
    return Report(call.name, (), tuple(x.shape for x in arrays), tuple(verified.report for verified in reports))


def _draw(leaf: Any, random: np.random.RandomState) -> Any:
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    if not is_differentiable(leaf):
        raise DescriptionError(
            f"An argument of type {leaf.dtype} is a shape, and what its numbers may be is not known: pass an array."
        )
    return jnp.asarray(random.randn(*leaf.shape), leaf.dtype)


def _verify(call: KernelCall, operands: Sequence[Any]) -> VerifiedEquation:
    step, _ = trace_step(call.bind, operands)
    (equation,) = (equation for equation in step.walk() if equation.params.get("call") is call)
    try:
        verified = verify_node(make_node(step, equation, step.compute_all(operands)))
    except TooManyPointsError as error:
        raise DescriptionError(
            f"The formula of {call.name} is too large to compute here ({error}): verify it with smaller arrays."
        ) from error
    if call.rule is None:
        return verified
    # Report only the rule's own axes: others mean nothing to the reader.
    rejected = tuple((axis, why) for axis, why in verified.report.rejected if axis in call.rule.axes)
    return replace(verified, report=replace(verified.report, checked="compared by its parts", rejected=rejected))
