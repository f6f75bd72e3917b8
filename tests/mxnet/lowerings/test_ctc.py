import mxnet as mx
import numpy as np
import pytest

import tofu

STEPS, SAMPLES, CLASSES = 7, 8, 5
FEW_LABELS = [[1, 2], [3, 0], *[[0, 0]] * (SAMPLES - 2)]  # workers after the first have no labels
NO_LABELS = [[0, 0]] * SAMPLES
KINDS = {
    "padding": {},
    "blank last": {"blank_label": "last"},
    "label lengths": {"use_label_lengths": True},
    "both lengths": {"use_data_lengths": True, "use_label_lengths": True},
}


def draw(kind, labels):
    """Return the inputs of CTCLoss, with a labelled sample after the others."""
    rng = np.random.RandomState(0)
    data = rng.uniform(-2, 2, (STEPS, SAMPLES + 1, CLASSES))
    labels = np.array([*labels, [2, 1]])
    lengths = {}
    if "use_data_lengths" in KINDS[kind]:
        lengths["data_lengths"] = np.array([*rng.randint(4, STEPS + 1, SAMPLES - 1), 1, STEPS])
    if "use_label_lengths" in KINDS[kind]:
        lengths["label_lengths"] = (labels > 0).sum(axis=1)
        labels = np.where(labels == 0, rng.randint(1, CLASSES, labels.shape), labels)
    return {"data": data, "label": labels - 1 if kind == "blank last" else labels, **lengths}


def run(symbol, inputs):
    executor = symbol.simple_bind(
        mx.cpu(),
        grad_req={name: "write" if name == "data" else "null" for name in inputs},
        **{name: array.shape for name, array in inputs.items()},
    )
    for name, array in inputs.items():
        executor.arg_dict[name][:] = array
    mx.nd.full((1000, 1000), np.nan).wait_to_read()  # fills memory that is freed
    (loss,) = executor.forward(is_train=True)
    scale = np.arange(1, len(inputs["label"]) + 1)
    executor.backward([mx.nd.array(scale)])
    return loss.asnumpy(), executor.grad_dict["data"].asnumpy()


@pytest.mark.parametrize("labels", [FEW_LABELS, NO_LABELS], ids=["few labels", "no labels"])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_workers_without_labels_compute_what_one_device_does_beside_other_samples(kind, workers, labels):
    inputs = draw(kind, labels)
    symbol = mx.sym.CTCLoss(**{name: mx.sym.Variable(name) for name in inputs}, **KINDS[kind], name="ctc")
    loss, gradient = run(symbol, inputs)
    without_last = {name: array[:, :-1] if name == "data" else array[:-1] for name, array in inputs.items()}
    split = tofu.partition(symbol, ngpus=workers, hints={"ctc": "b"})
    found_loss, found_gradient = run(split, without_last)
    np.testing.assert_allclose(found_loss, loss[:-1], rtol=1e-5)
    np.testing.assert_allclose(found_gradient, gradient[:, :-1], rtol=1e-4, atol=1e-5)


def test_samples_whose_labels_do_not_fit_have_no_gradient():
    inputs = {"data": np.random.RandomState(0).uniform(-2, 2, (2, 4, 3)), "label": np.array([[1, 1], [1, 2]] * 2)}
    symbol = mx.sym.CTCLoss(mx.sym.Variable("data"), mx.sym.Variable("label"))
    loss, gradient = run(tofu.partition(symbol, ngpus=2), inputs)
    assert (loss[::2] == 0).all()
    assert (gradient[:, ::2] == 0).all()
    assert (loss[1::2] > 0).all()
    assert gradient[:, 1::2].any()
