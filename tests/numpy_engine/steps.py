from tests.numpy_engine.front_end import NumpyStep
from tofu.graph import Phase

RATE = 0.25


def perceptron(batch=24, inputs=20, hidden=36, classes=12, has_updates=False):
    step = NumpyStep()
    data, labels = step.input("data", batch, inputs), step.input("labels", batch, classes)
    weights = [step.variable("weight0", hidden, inputs), step.variable("weight1", classes, hidden)]
    biases = [step.variable("bias0", hidden), step.variable("bias1", classes)]
    before = step.apply("dense", "layer0", data, weights[0], biases[0])
    between = step.apply("tanh", "activation", before)
    scores = step.apply("dense", "layer1", between, weights[1], biases[1])
    shares = step.apply("softmax", "shares", scores)
    step.outputs += [shares, step.apply("cross_entropy", "loss", shares, labels)]
    step.phase = Phase.BACKWARD
    d_scores = step.apply("subtract", "d_scores", shares, labels, forward="shares")
    d_between, d_weight1, d_bias1 = step.apply(
        "dense_backward", "d_layer1", d_scores, between, weights[1], forward="layer1"
    )
    d_before = step.apply("tanh_backward", "d_activation", d_between, between, forward="activation")
    d_data, d_weight0, d_bias0 = step.apply("dense_backward", "d_layer0", d_before, data, weights[0], forward="layer0")
    gradients = {weights[0]: d_weight0, weights[1]: d_weight1, biases[0]: d_bias0, biases[1]: d_bias1}
    if has_updates:
        step.phase = Phase.UPDATE
        for weight, gradient in gradients.items():
            name = f"new_{step.tensors[weight].name}"
            step.next_values[weight] = step.apply("descend", name, weight, gradient, rate=RATE)
    else:
        step.gradients = {data: d_data, **gradients}
        step.updated = set(gradients)
    return step.graph()


def updated_perceptron():
    return perceptron(has_updates=True)


def wide_perceptron():
    """Return tensors above 64 KiB, which are split unless memory is plentiful."""
    return perceptron(batch=120, inputs=100, hidden=90)


def deep_perceptron(layers, batch=160, width=160, odd=None):
    """Return equal layers with their gradients; the `odd` layer has no activation."""
    step = NumpyStep()
    flows = [step.input("data", batch, width)]
    weights, biases, products = [], [], []
    for layer in range(layers):
        weights.append(step.variable(f"weight{layer}", width, width))
        biases.append(step.variable(f"bias{layer}", width))
        products.append(step.apply("dense", f"layer{layer}", flows[-1], weights[-1], biases[-1]))
        flows.append(products[-1] if layer == odd else step.apply("tanh", f"activation{layer}", products[-1]))
    step.outputs.append(flows[-1])
    step.phase = Phase.BACKWARD
    gradient = step.input("d_last", batch, width)
    for layer in reversed(range(layers)):
        if layer != odd:
            gradient = step.apply(
                "tanh_backward", f"d_activation{layer}", gradient, flows[layer + 1], forward=f"activation{layer}"
            )
        gradient, step.gradients[weights[layer]], step.gradients[biases[layer]] = step.apply(
            "dense_backward", f"d_layer{layer}", gradient, flows[layer], weights[layer], forward=f"layer{layer}"
        )
    step.updated = {*weights, *biases}
    return step.graph()


def convolutions(batch=8, channels=6, length=21, classes=8):
    step = NumpyStep()
    data, labels = step.input("data", batch, channels, length), step.input("labels", batch, classes)
    first, last = step.variable("first", channels, channels, 3), step.variable("last", classes, channels, 4)
    wide = step.apply("tanh", "wide", step.apply("convolve", "convolve0", data, first, pad=1))
    again = step.apply("convolve", "convolve1", wide, first, pad=1)
    narrow = step.apply("convolve", "convolve2", step.apply("tanh", "again", again), last, pad=0)
    shares = step.apply("softmax", "shares", step.apply("total", "total", narrow))
    step.outputs.append(shares)
    step.phase = Phase.BACKWARD
    d_total = step.apply("subtract", "d_total", shares, labels, forward="shares")
    positions = step.tensors[narrow].shape[2]
    d_narrow = step.apply("total_backward", "d_narrow", d_total, length=positions, forward="total")
    activated = step.operators[3].outputs[0]
    d_again, d_last = step.apply(
        "convolve_backward", "d_convolve2", d_narrow, activated, last, pad=0, forward="convolve2"
    )
    d_sum = step.apply("tanh_backward", "d_again", d_again, activated, forward="again")
    d_wide, once = step.apply("convolve_backward", "d_convolve1", d_sum, wide, first, pad=1, forward="convolve1")
    d_first = step.apply("tanh_backward", "d_wide", d_wide, wide, forward="wide")
    d_data, twice = step.apply("convolve_backward", "d_convolve0", d_first, data, first, pad=1, forward="convolve0")
    whole = step.apply("add", "d_weight", once, twice)
    step.gradients = {data: d_data, first: whole, last: d_last}
    step.updated = {first, last}
    return step.graph()


STEPS = {
    "perceptron": perceptron,
    "updated perceptron": updated_perceptron,
    "wide perceptron": wide_perceptron,
    "convolutions": convolutions,
}
