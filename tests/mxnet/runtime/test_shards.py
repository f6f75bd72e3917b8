import itertools
import threading
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.runtime.arrays.shards import PIECE_BYTES, ShardedTensor, list_pieces

WIDTH, LAYERS, WORKERS = 3072, 3, 4
TENSOR_BYTES = 4 * WIDTH * WIDTH


def resident_bytes():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


def peak_bytes(run):
    done = threading.Event()
    before = resident_bytes()
    seen = [before]

    def sample():
        while not done.wait(0.0005):
            seen.append(resident_bytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        run()
    finally:
        done.set()
        sampler.join()
    return max(seen) - before


def wide_module():
    net = mx.sym.Variable("data")
    for layer in range(LAYERS):
        net = mx.sym.FullyConnected(net, num_hidden=WIDTH, no_bias=True, name=f"fc{layer}")
    hints = {"fc0_weight": (1, 1), "fc1_weight": (0, 1)}
    symbol = tofu.partition(mx.sym.LinearRegressionOutput(net, name="out"), WORKERS, hints=hints)
    module = tofu.mod.Module(symbol, label_names=["out_label"])
    module.bind([("data", (4, WIDTH))], [("out_label", (4, WIDTH))])
    return module


def checksums(module):
    return [np.abs(array.asnumpy()).sum() for v in module.executor.variables.values() for array in v.arrays]


def test_the_host_holds_a_whole_tensor_only_while_an_initializer_fills_it(tmp_path):
    module, file = wide_module(), str(tmp_path / "wide.params")
    checksums(module)  # allocates the shards
    filled = peak_bytes(lambda: module.init_params(mx.init.Uniform(0.1)))
    assert filled < 2 * TENSOR_BYTES + 4 * PIECE_BYTES  # one whole tensor of three, and the parts being copied
    before = checksums(module)
    assert peak_bytes(lambda: module.save_params(file)) < 6 * PIECE_BYTES
    for name, array in mx.nd.load(file).items():
        np.testing.assert_array_equal(array.asnumpy(), module.executor.variables[name[4:]].gather().asnumpy())
    assert peak_bytes(lambda: module.load_params(file)) < 6 * PIECE_BYTES
    assert checksums(module) == before


@pytest.mark.parametrize("shape", [(7,), (5, 3), (1, 9, 2), (3, 4, 5), (6, 1, 1, 1)])
@pytest.mark.parametrize("most_bytes", [1, 8, 40, 1000])
def test_pieces_are_contiguous(shape, most_bytes):
    values = np.arange(np.prod(shape)).reshape(shape)
    pieces = [values[tuple(slice(*span) for span in region)] for region in list_pieces(shape, 4, most_bytes)]
    np.testing.assert_array_equal(np.concatenate([piece.ravel() for piece in pieces]), values.ravel())
    assert all(piece.nbytes // 2 <= max(most_bytes, 4 * shape[-1]) for piece in pieces)


@pytest.mark.parametrize("shape", [(2, 3, 1, 3, 2, 4), (2, 3, 1, 2, 2, 2, 3)])
@pytest.mark.parametrize("split", [(1, 3), (0, -1), (1, 4, 5)])
def test_regions_of_more_dimensions_than_mxnet_slices(shape, split):
    halves = [
        [(0, n // 2), (n // 2, n)] if d - len(shape) in split or d in split else [(0, n)] for d, n in enumerate(shape)
    ]
    regions = list(itertools.product(*halves))
    tensor = ShardedTensor("w", shape, "float32", regions, [mx.cpu(i) for i in range(len(regions))])
    whole = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    tensor.scatter(mx.nd.array(whole))
    for region, array in zip(regions, tensor.arrays, strict=True):
        np.testing.assert_array_equal(array.asnumpy(), whole[tuple(slice(*span) for span in region)])
    np.testing.assert_array_equal(tensor.gather().asnumpy(), whole)
    inner = tuple((n // 3, n) for n in shape)
    np.testing.assert_array_equal(tensor.gather_region(inner), whole[tuple(slice(*span) for span in inner)])
