"""Weight updates: element-wise. States are mutated in place; the updated weight is the output."""

from __future__ import annotations

from tofu.tdl import absolute, maximum, minimum, op, sign, sqrt, unread, where


def _gradient(grad, weight, rescale, clip, wd):
    """The gradient, rescaled and clipped, plus weight decay."""
    scaled = grad * rescale
    clipped = maximum(-clip, minimum(clip, scaled)) if clip > 0 else scaled
    return clipped + wd * weight


@op("sgd_update")
def sgd_update(weight, grad, *, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    return lambda *i: weight[i] - lr * _gradient(grad[i], weight[i], rescale_grad, clip_gradient, wd)


@op("sgd_mom_update")
def sgd_mom_update(weight, grad, mom, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda i: lr * _gradient(grad[i], weight[i], rescale_grad, clip_gradient, wd)  # noqa: E731
    return lambda *i: weight[i] + momentum * mom[i] - step(i)


@op("mp_sgd_update")
def mp_sgd_update(weight, grad, weight32, *, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    new = lambda i: weight32[i] - lr * _gradient(grad[i], weight32[i], rescale_grad, clip_gradient, wd)  # noqa: E731
    return lambda *i: new(i) + unread(weight[i])


@op("mp_sgd_mom_update")
def mp_sgd_mom_update(weight, grad, mom, weight32, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda i: lr * _gradient(grad[i], weight32[i], rescale_grad, clip_gradient, wd)  # noqa: E731
    return lambda *i: weight32[i] + momentum * mom[i] - step(i) + unread(weight[i])


@op("nag_mom_update")
def nag_mom_update(weight, grad, mom, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda i: lr * _gradient(grad[i], weight[i], rescale_grad, clip_gradient, wd)  # noqa: E731
    return lambda *i: weight[i] + momentum * (momentum * mom[i] - step(i)) - step(i)
