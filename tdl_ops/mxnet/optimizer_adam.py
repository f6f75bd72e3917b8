"""Weight updates of the Adam family: AdamW, LAMB in its two phases, FTML.

The kernels change mean and variance in place.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.optimizer import clip, own_weight
from tofu.tdl import maximum, minimum, sqrt, where


def _ratio(gradient, mean, var, beta1, beta2, epsilon, t=None):
    new_mean = beta1 * mean + (1 - beta1) * gradient
    new_var = beta2 * var + (1 - beta2) * gradient * gradient
    if t is not None:
        new_mean, new_var = new_mean / (1 - beta1**t), new_var / (1 - beta2**t)
    return new_mean / (sqrt(new_var) + epsilon)


@op("_adamw_update", "_mp_adamw_update")
def adamw_update(
    weight, grad, mean, var, *others, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0.0, clip_gradient=-1.0
):
    *weight32, rescale_grad = others
    own = own_weight(weight, *weight32)
    gradient = lambda i: clip(rescale_grad[0] * grad[i], clip_gradient)
    ratio = lambda i: _ratio(gradient(i), mean[i], var[i], beta1, beta2, epsilon)
    return lambda *i: own(i) - eta * (lr * ratio(i) + wd * own(i))


@op("lamb_update_phase1", "mp_lamb_update_phase1")
def lamb_update_phase1(
    weight,
    grad,
    mean,
    var,
    weight32=None,
    *,
    t,
    wd,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-6,
    bias_correction=True,
    rescale_grad=1.0,
    clip_gradient=-1.0,
):
    step = t if bias_correction else None
    own = own_weight(weight, weight32)
    gradient = lambda i: clip(rescale_grad * grad[i], clip_gradient)
    return lambda *i: _ratio(gradient(i), mean[i], var[i], beta1, beta2, epsilon, step) + wd * own(i)


@op("lamb_update_phase2", "mp_lamb_update_phase2")
def lamb_update_phase2(weight, g, r1, r2, weight32=None, *, lr, lower_bound=-1.0, upper_bound=-1.0):
    own = own_weight(weight, weight32)
    norm = maximum(r1[0], lower_bound) if lower_bound >= 0 else r1[0]
    norm = minimum(norm, upper_bound) if upper_bound >= 0 else norm
    ratio = where((norm == 0) | (r2[0] == 0), 1.0, norm / r2[0])
    return lambda *i: own(i) - lr * ratio * g[i]


@op("ftml_update")
def ftml_update(
    weight, grad, d, v, z, *, lr, t, beta1=0.6, beta2=0.999, epsilon=1e-8, wd=0.0, rescale_grad=1.0, clip_grad=-1.0
):
    def new(i):
        gradient = clip(rescale_grad * grad[i] + wd * weight[i], clip_grad)
        new_v = beta2 * v[i] + (1 - beta2) * gradient * gradient
        new_d = (1 - beta1**t) / lr * (sqrt(new_v / (1 - beta2**t)) + epsilon)
        new_z = beta1 * z[i] + (1 - beta1) * gradient - (new_d - beta1 * d[i]) * weight[i]
        return -new_z / new_d

    return lambda *i: new(i)
