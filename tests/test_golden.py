from types import SimpleNamespace

import pytest

from tests.conftest import check_golden


def test_golden_files_are_compared_and_updated(tmp_path):
    def check(text, update):
        config = SimpleNamespace(getoption=lambda _: update)
        request = SimpleNamespace(path=tmp_path / "test_text.py", config=config)
        check_golden.__wrapped__(request)("text.txt", text)

    path = tmp_path / "golden/text.txt"
    with pytest.raises(AssertionError, match=f"there is no {path}: pytest --update writes it"):
        check("new", update=False)
    check("new", update=True)
    assert path.read_text() == "new"
    check("new", update=False)
    with pytest.raises(AssertionError, match=f"{path} "):
        check("other", update=False)
    assert path.read_text() == "new"
