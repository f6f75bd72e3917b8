"""Weight updates, which are element-wise.

The output is the new weight. Kernels change the optimizer's states in place.
"""

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Sum, absolute, isfinite, maximum, minimum, position, sign, sqrt, unread, where


def clip(x, bound):
    """Return `x` clipped to [-bound, bound]. If bound <= 0, return `x`."""
    return maximum(-bound, minimum(bound, x)) if bound > 0 else x


def own_weight(weight, weight32=None):
    """Return a function that reads `weight32` at an index. If there is no `weight32`, the function reads `weight`."""
    return lambda i: weight[i] if weight32 is None else weight32[i] + unread(weight[i])


@op("sgd_update", "mp_sgd_update")
def sgd_update(weight, grad, weight32=None, *, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda w, g: lr * (clip(rescale_grad * g, clip_gradient) + wd * w)
    own = own_weight(weight, weight32)
    return lambda *i: own(i) - step(own(i), grad[i])


@op("sgd_mom_update", "mp_sgd_mom_update")
def sgd_mom_update(weight, grad, mom, weight32=None, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda w, g: lr * (clip(rescale_grad * g, clip_gradient) + wd * w)
    own = own_weight(weight, weight32)
    return lambda *i: own(i) + momentum * mom[i] - step(own(i), grad[i])


@op("nag_mom_update", "mp_nag_mom_update")
def nag_mom_update(weight, grad, mom, weight32=None, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    step = lambda w, g: lr * (clip(rescale_grad * g, clip_gradient) + wd * w)
    ahead = lambda w, g, m: momentum * (momentum * m - step(w, g)) - step(w, g)
    own = own_weight(weight, weight32)
    return lambda *i: own(i) + ahead(own(i), grad[i], mom[i])


@op("signsgd_update")
def signsgd_update(weight, grad, *, lr, wd=0.0):
    return lambda *i: (1 - lr * wd) * weight[i] - lr * sign(grad[i])


@op("signum_update")
def signum_update(weight, grad, mom, *, lr, momentum=0.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0, wd_lh=0.0):
    step = lambda w, g: (1 - momentum) * (wd * w + clip(rescale_grad * g, clip_gradient))
    new = lambda w, g, m: momentum * m - step(w, g)
    return lambda *i: (1 - lr * wd_lh) * weight[i] + lr * sign(new(weight[i], grad[i], mom[i]))


@op("adam_update")
def adam_update(
    weight, grad, mean, var, *, lr, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0
):
    gradient = lambda w, g: clip(rescale_grad * g + wd * w, clip_gradient)
    new_mean = lambda w, g, m: beta1 * m + (1 - beta1) * gradient(w, g)
    new_var = lambda w, g, v: beta2 * v + (1 - beta2) * gradient(w, g) ** 2
    step = lambda w, g, m, v: lr * new_mean(w, g, m) / (sqrt(new_var(w, g, v)) + epsilon)
    return lambda *i: weight[i] - step(weight[i], grad[i], mean[i], var[i])


@op("rmsprop_update")
def rmsprop_update(
    weight, grad, n, *, lr, gamma1=0.95, epsilon=1e-8, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0, clip_weights=-1.0
):
    gradient = lambda w, g: clip(rescale_grad * g + wd * w, clip_gradient)
    new_n = lambda w, g, n: (1 - gamma1) * gradient(w, g) ** 2 + gamma1 * n
    new = lambda w, g, n: w - lr * gradient(w, g) / sqrt(new_n(w, g, n) + epsilon)
    return lambda *i: clip(new(weight[i], grad[i], n[i]), clip_weights)


@op("rmspropalex_update")
def rmspropalex_update(
    weight,
    grad,
    n,
    g,
    delta,
    *,
    lr,
    gamma1=0.95,
    gamma2=0.9,
    epsilon=1e-8,
    wd=0.0,
    rescale_grad=1.0,
    clip_gradient=-1.0,
    clip_weights=-1.0,
):
    def new(w, d, n, g, delta):
        gradient = clip(rescale_grad * d + wd * w, clip_gradient)
        new_n = (1 - gamma1) * gradient * gradient + gamma1 * n
        new_g = (1 - gamma1) * gradient + gamma1 * g
        return w + gamma2 * delta - lr * gradient / sqrt(new_n - new_g * new_g + epsilon)

    return lambda *i: clip(new(weight[i], grad[i], n[i], g[i], delta[i]), clip_weights)


@op("ftrl_update")
def ftrl_update(weight, grad, z, n, *, lr, lamda1=0.01, beta=1.0, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0):
    def new(w, g, z, n):
        gradient = clip(rescale_grad * g, clip_gradient)
        new_n = n + gradient * gradient
        new_z = z + gradient - (sqrt(new_n) - sqrt(n)) * w / lr
        shrunk = (sign(new_z) * lamda1 - new_z) / ((beta + sqrt(new_n)) / lr + wd)
        return where(absolute(new_z) > lamda1, shrunk, 0.0)

    return lambda *i: new(weight[i], grad[i], z[i], n[i])


@op("multi_lars")
def multi_lars(lrs, weights_sum_sq, grads_sum_sq, wds, *, eta, eps, rescale_grad=1.0):
    def rate(i):
        weight, gradient = sqrt(weights_sum_sq[i]), rescale_grad * sqrt(grads_sum_sq[i])
        return where((weight > 0) & (gradient > 0), eta * weight / (gradient + wds[i] * weight + eps), 1.0)

    return lambda i: lrs[i] * rate(i)


def _total(arrays, value):
    names = [" ".join(f"a{n}_{d}" for d in range(array.ndim)) for n, array in enumerate(arrays)]
    return [Sum(lambda *v, a=a: value(a[v]), names=names[n]) for n, a in enumerate(arrays)]


@op("multi_sum_sq")
def multi_sum_sq(*arrays):
    return lambda n: sum(where(position(n) == m, total, 0.0) for m, total in enumerate(_total(arrays, lambda x: x * x)))


@op("all_finite", "multi_all_finite")
def all_finite(*arrays, init_output=True):
    if not init_output:
        raise UnsupportedError(
            "all_finite(init_output=False) is not described: it updates the earlier value of its output"
        )
    return lambda one: where(sum(_total(arrays, lambda x: where(isfinite(x), 0.0, 1.0))) == 0, 1.0, 0.0)
