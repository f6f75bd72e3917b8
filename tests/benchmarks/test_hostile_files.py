"""The campaign of broken files, one of each kind and damage; and that it would see a change that is let in."""

import warnings

import pytest

from benchmarks.hostile.good import make_files
from benchmarks.hostile_files import GOOD, LOST, RAW, SILENT, Reader, read


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    make_files(folder)
    return Reader(folder)


def test_no_broken_file_is_let_in_silently(reader):
    found = [(trial.kind, trial.damage, trial.run()) for trial in reader.trials(1, seed=7)]
    assert len(found) > 100
    assert not [one for one in found if one[2][0] not in GOOD]


def test_what_goes_wrong_is_seen(reader):
    def fail():
        raise KeyError("a")

    def warn():
        warnings.warn("other", stacklevel=1)
        return 2

    assert read(lambda: 2, 1, None)[0] == SILENT
    assert read(lambda: 2, 1, lambda: 3)[0] == SILENT
    assert read(fail, 1, None)[0] == RAW
    assert read(warn, 1, None)[0] in GOOD
    assert reader._refuse_into_the_module(lambda path: reader.module.set_params(*zeros(reader.module)), "")[0] == LOST


def zeros(module):
    return ({name: array * 0 for name, array in part.items()} for part in module.get_params())
