"""Golden files are compared, and `pytest --update` writes them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEST = """
def test_text(check_golden):
    check_golden("text.txt", "as it is printed now")
"""


def test_files_are_compared_and_written_where_that_is_asked(tmp_path):
    (tmp_path / "conftest.py").write_text("from tests.conftest import check_golden, pytest_addoption\n")
    (tmp_path / "test_text.py").write_text(TEST)
    path = tmp_path / "golden/text.txt"

    def run(*options):
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    status, output = run()
    assert status == 1
    assert f"there is no {path}: pytest --update writes it" in output
    assert run("--update")[0] == 0
    assert path.read_text() == "as it is printed now"
    assert run()[0] == 0
    path.write_text("as it was printed before")
    status, output = run()
    assert status == 1
    assert f"{path} is another text" in output
    assert path.read_text() == "as it was printed before"
