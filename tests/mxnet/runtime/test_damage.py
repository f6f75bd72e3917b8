import os
import pickle
import resource
import struct
import subprocess
import sys
import warnings

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    ModuleCase,
    batches,
    bind,
    largest_error,
    parameters_of,
    split_module,
    start,
    train,
    with_optimizer,
)
from tofu.host.writing import replace_atomically, write_atomically
from tofu.mxnet.runtime.checkpoint import seal
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.checkpoint.seal import TAIL

ADAM = ModuleCase("adam", {"learning_rate": 0.01})
NO_CHECKSUM = pytest.mark.filterwarnings("ignore:.* has no checksum:UserWarning")


LOADS = {"params": lambda module: module.load_params, "states": lambda module: module.load_optimizer_states}
SAVES = {"params": lambda module: module.save_params, "states": lambda module: module.save_optimizer_states}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A module after four steps, and the folder of its checkpoints after two and four."""
    folder = tmp_path_factory.mktemp("checkpoints")
    module = start(split_module(ADAM), ADAM)
    for epoch in (1, 2):
        train(module, batches(2))
        module.save_checkpoint(str(folder / "model"), epoch, save_optimizer_states=True)
    return module, folder


def flips(content, count, seed=0):
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, 8 * len(content), count):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << (position % 8)
        yield bytes(changed)


def cuts(content):
    """Yield shorter contents, without the one that is a valid file of MXNet: the arrays without the seal."""
    facts = struct.unpack("<Q", content[-TAIL.size + 32 :][:8])[0]
    lengths = {*range(0, len(content), len(content) // 40), len(content) - 1, len(content) - TAIL.size}
    for length in lengths - {len(content) - TAIL.size - facts}:
        yield content[:length]


@pytest.mark.parametrize("chunk", [seal.CHUNK_BYTES, 999], ids=["at once", "in chunks"])
@pytest.mark.parametrize("kind", ["params", "states"])
def test_every_flipped_bit_and_truncation_is_found(saved, kind, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(seal, "CHUNK_BYTES", chunk)
    module, folder = saved
    before, path = parameters_of(module), tmp_path / f"a.{kind}"
    content, load = (folder / f"model-0002.{kind}").read_bytes(), LOADS[kind](module)
    for changed in (*flips(content, 60), *cuts(content)):
        path.write_bytes(changed)
        with pytest.raises(tofu.TofuError, match=rf"a\.{kind}"):
            load(str(path))
    assert largest_error(parameters_of(module), before) == 0
    load(str(folder / f"model-0002.{kind}"))
    assert largest_error(parameters_of(module), before) == 0


def test_files_without_a_checksum_warn(saved, tmp_path):
    module, _ = saved
    mx.nd.save(str(tmp_path / "a.params"), {f"arg:{n}": mx.nd.array(v) for n, v in parameters_of(module).items()})
    with pytest.warns(UserWarning, match=r"a\.params has no checksum.*Save it again with Tofu"):
        ParameterFile(tmp_path / "a.params")
    (tmp_path / "a.states").write_bytes(pickle.dumps(module._shard_optimizer.content))
    with pytest.warns(UserWarning, match=r"a\.states has no checksum"):
        module.load_optimizer_states(str(tmp_path / "a.states"))


@NO_CHECKSUM
@pytest.mark.parametrize("kind", ["params", "states"])
def test_damaged_files_without_a_checksum_raise_no_other_error(saved, kind, tmp_path):
    module, folder = saved
    content = (folder / f"model-0002.{kind}").read_bytes()
    facts = struct.unpack("<Q", content[-TAIL.size + 32 :][:8])[0]
    content = content[: len(content) - TAIL.size - facts]
    path = tmp_path / "a"
    refused = 0
    for changed in flips(content, 60):
        path.write_bytes(changed)
        try:
            LOADS[kind](module)(str(path))
        except tofu.TofuError:
            refused += 1
    assert 0 < refused < 60
    module.load_params(str(folder / "model-0002.params"))
    module.load_optimizer_states(str(folder / "model-0002.states"))


class Command:
    def __reduce__(self):
        return os.system, ("false",)


@NO_CHECKSUM
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({0: Command()}), "asks for (posix|nt).system"),
        (b"\x80\x04r\xff\xff\xff\x7f.", "no file of optimizer states"),
        (b"\x80\x04\x96" + struct.pack("<Q", 2**40) + b".", "no file of optimizer states"),
        (pickle.dumps({}) + b"more", "something else follows"),
        (pickle.dumps({0: {"a": 1}}), "of another optimizer"),
    ],
    ids=["command", "memory", "array", "longer", "other"],
)
def test_a_malicious_file_of_states_is_refused(saved, content, message, tmp_path):
    (tmp_path / "a.states").write_bytes(content)
    with pytest.raises(tofu.TofuError, match=message):
        saved[0].load_optimizer_states(str(tmp_path / "a.states"))


@NO_CHECKSUM
@pytest.mark.parametrize("magic", [0xFFFFFFFF, 0xF993FAC8, 33])
def test_a_damaged_header_is_refused(magic, tmp_path):
    """MXNet would read an array of an older version with billions of dimensions."""
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2))})
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", magic)
    path.write_bytes(content)
    with pytest.raises(tofu.TofuError, match=r"a\.params (was cut short, or )?is no file of parameters"):
        ParameterFile(path)


@NO_CHECKSUM
def test_duplicate_and_missing_names_are_refused(tmp_path):
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2)), "arg:b": mx.nd.zeros((3, 2))})
    path.write_bytes(path.read_bytes().replace(b"arg:b", b"arg:a"))
    with pytest.raises(tofu.TofuError, match="several arrays of the name arg:a"):
        ParameterFile(path)
    mx.nd.save(str(path), [mx.nd.ones((3, 2))])
    with pytest.raises(tofu.TofuError, match="1 arrays and 0 names"):
        ParameterFile(path)


def test_parameters_and_states_of_two_saves_are_recognised(saved, tmp_path):
    """A kill between the two files, or a full disk, leaves such a pair."""
    _, folder = saved
    for name in ("symbol.json", "0002.params", "0001.states"):
        target = tmp_path / f"model-{name}".replace("0001", "0002")
        target.write_bytes((folder / f"model-{name}").read_bytes())
    prefix = str(tmp_path / "model")
    message = r"two checkpoints: .*0002.params is of step 4, .*0002.states of step 2\. .*load_optimizer_states=False"
    with pytest.raises(tofu.TofuError, match=message):
        tofu.mod.Module.load(prefix, 2, load_optimizer_states=True)
    bind(tofu.mod.Module.load(prefix, 2))
    module = with_optimizer(bind(split_module(ADAM)), ADAM)
    module.load_params(f"{prefix}-0002.params")
    with pytest.raises(tofu.TofuError, match="two checkpoints"):
        module.load_optimizer_states(f"{prefix}-0002.states")
    train(module, batches(4 - module.optimizer.num_update))
    module.save_checkpoint(prefix, 2)
    (tmp_path / "model-0002.states").write_bytes((folder / "model-0002.states").read_bytes())
    with pytest.raises(tofu.TofuError, match=r"of step 4, .* of step 4 of another save"):
        tofu.mod.Module.load(prefix, 2, load_optimizer_states=True)


@pytest.mark.parametrize("kind", ["params", "states"])
def test_a_full_disk_is_named_and_the_old_file_stays(saved, kind, tmp_path):
    save, path = SAVES[kind](saved[0]), tmp_path / f"a.{kind}"
    save(str(path))
    before, (soft, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(tofu.TofuError, match=rf"a\.{kind} could not be written: .*Make room") as error:
            save(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(error.value, OSError)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_leftover_files_of_dead_processes_are_removed(tmp_path):
    path, dead = tmp_path / "a.json", subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, other = tmp_path / f"b.params.{dead.pid}-0011aabb.tofu-tmp", tmp_path / f"a.json.{dead.pid}.tmp"
    for file in (left, other):
        file.write_text("half")
    with replace_atomically(tmp_path / "c.params") as writing:
        write_atomically(path, "whole")
        writing.write(b"still there")
    assert other.exists()
    assert not left.exists()
    assert (path.read_text(), (tmp_path / "c.params").read_bytes()) == ("whole", b"still there")


def test_an_open_file_is_read_as_it_was_checked(tmp_path):
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = ParameterFile(path)
    write_atomically(path, "another file")
    assert (file["arg:a"].asnumpy() == 1).all()
