"""Files that were damaged, mixed up or left behind: each is recognised and named before anything is changed by it."""

import os
import pickle
import resource
import struct
import subprocess
import sys
import warnings
from contextlib import nullcontext

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    Case,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    split_module,
    start,
    train,
    with_optimizer,
)
from tofu.host.writing import replace_atomically, write_atomically
from tofu.mxnet.runtime.checkpoint import seal
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.checkpoint.seal import TAIL, Facts, Seal, check_belongs

ADAM = Case("adam", {"learning_rate": 0.01})
NO_CHECKSUM = pytest.mark.filterwarnings("ignore:.* has no checksum:UserWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A module after four steps, its checkpoints after two and after four."""
    folder = tmp_path_factory.mktemp("checkpoints")
    module = start(split_module(ADAM), ADAM)
    for epoch in (1, 2):
        train(module, batches(2))
        module.save_checkpoint(str(folder / "model"), epoch, save_optimizer_states=True)
    return module, folder


def flips(content, count, seed=0):
    """Copies of some bytes with one bit the other way round."""
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, 8 * len(content), count):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << (position % 8)
        yield bytes(changed)


@pytest.mark.parametrize("chunk", [seal.CHUNK, 999], ids=["at once", "in chunks"])
@pytest.mark.parametrize("kind", ["params", "states"])
def test_every_flipped_bit_is_found(saved, kind, chunk, tmp_path, monkeypatch):
    """Or it is one of the seal itself, without which the file is one of MXNet's: then the numbers are right, and it is said."""
    monkeypatch.setattr(seal, "CHUNK", chunk)
    module, folder = saved
    before, path = parameters_of(module), tmp_path / f"a.{kind}"
    content = (folder / f"model-0002.{kind}").read_bytes()
    load = module.load_params if kind == "params" else module.load_optimizer_states
    for changed in flips(content, 60):
        path.write_bytes(changed)
        with pytest.raises(tofu.TofuError, match=rf"a\.{kind}"):
            load(str(path))
    assert largest_error(parameters_of(module), before) == 0
    load(str(folder / f"model-0002.{kind}"))
    assert largest_error(parameters_of(module), before) == 0


@pytest.mark.parametrize("kind", ["params", "states"])
def test_every_truncation_is_found(saved, kind, tmp_path):
    module, folder = saved
    content, path = (folder / f"model-0002.{kind}").read_bytes(), tmp_path / f"a.{kind}"
    load = module.load_params if kind == "params" else module.load_optimizer_states
    facts = struct.unpack("<Q", content[-TAIL.size + 32 :][:8])[0]
    for length in (*range(0, len(content), len(content) // 40), len(content) - 1, len(content) - TAIL.size):
        if length == len(content) - TAIL.size - facts:
            continue  # the arrays alone: a file of MXNet's
        path.write_bytes(content[:length])
        with pytest.raises(tofu.TofuError, match=rf"a\.{kind}"):
            load(str(path))


def test_files_without_a_checksum_say_so(saved, tmp_path):
    module, _ = saved
    mx.nd.save(str(tmp_path / "a.params"), {f"arg:{n}": mx.nd.array(v) for n, v in parameters_of(module).items()})
    with pytest.warns(UserWarning, match=r"a\.params has no checksum.*Save it again with Tofu"):
        ParameterFile(tmp_path / "a.params")
    (tmp_path / "a.states").write_bytes(pickle.dumps(module._shard_optimizer.content))
    with pytest.warns(UserWarning, match=r"a\.states has no checksum"):
        module.load_optimizer_states(str(tmp_path / "a.states"))


@NO_CHECKSUM
@pytest.mark.parametrize("kind", ["params", "states"])
def test_damaged_files_without_a_checksum_give_no_other_error(saved, kind, tmp_path):
    module, folder = saved
    content = (folder / f"model-0002.{kind}").read_bytes()
    facts = struct.unpack("<Q", content[-TAIL.size + 32 :][:8])[0]
    content = content[: len(content) - TAIL.size - facts]
    path = tmp_path / "a"
    refused = 0
    for changed in flips(content, 60):
        path.write_bytes(changed)
        try:
            (module.load_params if kind == "params" else module.load_optimizer_states)(str(path))
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
        (b"\x80\x04r\xff\xff\xff\x7f.", "no file of optimizer states"),  # a memory of 2^31 values
        (b"\x80\x04\x96" + struct.pack("<Q", 2**40) + b".", "no file of optimizer states"),  # an array of a terabyte
        (pickle.dumps({}) + b"more", "something else follows"),
        (pickle.dumps({0: {"a": 1}}), "of another optimizer"),
    ],
    ids=["command", "memory", "array", "longer", "other"],
)
def test_a_file_of_states_runs_nothing_and_takes_no_memory(saved, content, message, tmp_path):
    (tmp_path / "a.states").write_bytes(content)
    with pytest.raises(tofu.TofuError, match=message):
        saved[0].load_optimizer_states(str(tmp_path / "a.states"))


@NO_CHECKSUM
@pytest.mark.parametrize("magic", [0xFFFFFFFF, 0xF993FAC8, 33])
def test_a_damaged_header_is_not_left_to_mxnet(magic, tmp_path):
    """MXNet would take it for an array of an older version, of four billion dimensions say."""
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2))})
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", magic)
    path.write_bytes(content)
    with pytest.raises(tofu.TofuError, match=r"a\.params (was cut short, or )?is no file of parameters"):
        ParameterFile(path)


@NO_CHECKSUM
def test_names_that_are_given_twice_and_lists_without_names(tmp_path):
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2)), "arg:b": mx.nd.zeros((3, 2))})
    path.write_bytes(path.read_bytes().replace(b"arg:b", b"arg:a"))
    with pytest.raises(tofu.TofuError, match="several arrays of the name arg:a"):
        ParameterFile(path)
    mx.nd.save(str(path), [mx.nd.ones((3, 2))])
    with pytest.raises(tofu.TofuError, match="1 arrays and 0 names"):
        ParameterFile(path)


def test_states_of_another_epoch_are_recognised(saved, tmp_path):
    """As they lie after a kill between the two files, or after a full disk."""
    _, folder = saved
    for name, source in (
        ("symbol.json", "symbol.json"),
        ("0002.params", "0002.params"),
        ("0002.states", "0001.states"),
    ):
        (tmp_path / f"model-{name}").write_bytes((folder / f"model-{source}").read_bytes())
    prefix = str(tmp_path / "model")
    message = r"two checkpoints: .*0002.params is of step 4, .*0002.states of step 2\. .*load_optimizer_states=False"
    with pytest.raises(tofu.TofuError, match=message):
        tofu.mod.Module.load(prefix, 2, load_optimizer_states=True)
    bind(tofu.mod.Module.load(prefix, 2))
    module = with_optimizer(bind(split_module(ADAM)), ADAM)
    module.load_params(f"{prefix}-0002.params")
    with pytest.raises(tofu.TofuError, match="two checkpoints"):
        module.load_optimizer_states(f"{prefix}-0002.states")


def test_files_of_two_saves_of_one_step_are_recognised(saved, tmp_path):
    _, folder = saved
    other = start(split_module(ADAM), ADAM)
    train(other, batches(4))
    other.save_checkpoint(str(tmp_path / "model"), 2, save_optimizer_states=True)
    (tmp_path / "model-0002.states").write_bytes((folder / "model-0002.states").read_bytes())
    with pytest.raises(tofu.TofuError, match=r"of step 4, .* of step 4 of another save"):
        tofu.mod.Module.load(str(tmp_path / "model"), 2, load_optimizer_states=True)


def test_a_full_disk_is_named_and_the_old_file_stays(saved, tmp_path):
    module, path = saved[0], tmp_path / "a.params"
    module.save_params(str(path))
    before, (soft, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(tofu.TofuError, match=r"a\.params could not be written: .*Make room") as error:
            module.save_params(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(error.value, OSError)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.params"]


def test_folders_that_are_not_there_and_paths_that_are_folders(saved, tmp_path):
    with pytest.raises(tofu.TofuError, match=r"there is no folder .*gone. Make it first"):
        saved[0].save_params(str(tmp_path / "gone" / "a.params"))
    with pytest.raises(tofu.TofuError, match="could not be written"):
        saved[0].save_params(str(tmp_path))
    for load in (saved[0].load_params, saved[0].load_optimizer_states):
        with pytest.raises(tofu.TofuError, match="cannot be read: it is no regular file"):
            load(str(tmp_path))
        with pytest.raises(tofu.TofuError, match="gone cannot be read: No such file"):
            load(str(tmp_path / "gone"))


def test_what_dead_processes_left_behind_is_removed(tmp_path):
    path, dead = tmp_path / "a.json", subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [tmp_path / name for name in (f"b.params.{dead.pid}-0011aabb.tofu-tmp", f"a.json.{dead.pid}.tmp")]
    others = [tmp_path / name for name in (f"a.json.{os.getpid()}.tmp", f"b.{dead.pid}.tmp", "a.json.tmp")]
    for file in (*left, *others):
        file.write_text("half")
    with replace_atomically(tmp_path / "c.params") as writing:
        write_atomically(path, "whole")
        writing.write(b"still there")
    assert not any(file.exists() for file in left)
    assert all(file.exists() for file in others)
    assert (path.read_text(), (tmp_path / "c.params").read_bytes()) == ("whole", b"still there")


def test_a_file_that_is_replaced_while_it_is_open_stays_the_one_that_was_checked(tmp_path):
    path = tmp_path / "a.params"
    mx.nd.save(str(path), {"arg:a": mx.nd.ones((3, 2))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = ParameterFile(path)
    write_atomically(path, "another file")
    assert (file["arg:a"].asnumpy() == 1).all()


def test_the_model_of_the_tests_has_more_than_a_kilobyte():
    assert sum(4 * np.prod(shape) for shape in model().infer_shape(data=(12, 17))[0]) > 1000


@pytest.mark.parametrize(
    ("ours", "theirs", "parameters", "belong"),
    [
        (4, 4, "d", True),
        (4, 4, None, True),
        (4, None, None, True),
        (None, 4, "d", True),
        (4, 4, "other", False),
        (4, 2, None, False),
        (4, 2, "d", False),
    ],
)
def test_what_belongs_together_has_the_same_step_and_the_digest_of_the_other(ours, theirs, parameters, belong):
    """States that were saved by themselves know no digest of the parameters."""
    seals = Seal(Facts(ours), "d", 0), Seal(Facts(theirs, parameters), "s", 0)
    with nullcontext() if belong else pytest.raises(tofu.TofuError, match="two checkpoints"):
        check_belongs(*seals, "a.params", "a.states")
