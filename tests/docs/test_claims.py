"""Every claim of README.md and docs/ is shown by a test or a benchmark: tests/docs/claims.md is whole and true."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.claimed import plain_text, read_claims, unclaimed, what_is_wrong

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests/docs/claims.md"
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))]
CLAIMS = read_claims(LIST.read_text())
ADD = "add a row to tests/docs/claims.md below '## {document}': | the words around it | `tests/file.py::test_name` | what has to hold |"


def claims_of(document):
    return [claim for claim in CLAIMS if claim.document == document]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_whatever_can_be_wrong_is_claimed(document):
    missing = unclaimed(plain_text((ROOT / document).read_text()), claims_of(document))
    assert not missing, f"{document}: no claim covers these; {ADD.format(document=document)}\n" + "\n".join(missing)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_quotes_stand_once_in_their_document(document):
    text = plain_text((ROOT / document).read_text())
    wrong = [
        f"{text.count(claim.quote)} times: {claim.quote}"
        for claim in claims_of(document)
        if text.count(claim.quote) != 1
    ]
    assert not wrong, (
        f"{document} was edited; quote it anew in tests/docs/claims.md, where the claim is still shown:\n"
        + "\n".join(wrong)
    )


def test_documents_of_claims_are_there():
    assert {claim.document for claim in CLAIMS} <= set(DOCUMENTS)


def test_what_shows_a_claim_is_there_and_can_fail(request):
    wrong = [
        f"{name}: {reason} (of {claim.document}: {claim.quote})"
        for claim in CLAIMS
        for name in claim.shown_by
        if (reason := what_is_wrong(name, claim.bar, ROOT))
    ]
    if request.config.args == request.config.getini("testpaths") and not request.config.option.keyword:
        collected = {item.nodeid.partition("[")[0] for item in request.session.items}
        tests = {name for claim in CLAIMS for name in claim.shown_by if name.startswith("tests/")}
        if find_spec("jax") is None:  # tests/jax/conftest.py
            tests = {name for name in tests if not name.startswith("tests/jax/")}
        wrong += [f"{name}: not collected by pytest" for name in sorted(tests - collected)]
    assert not wrong, "\n".join(wrong)


DOCUMENT = """It takes 3 steps, as section 5.2 has it, and `tofu.bind` is [below](there.md#4). Nothing is lost.

    python -m tofu ops     # of every kind

```python
print(7)
```
| 1.9 | `--plan x.json` | never |
"""
WHOLE = ["takes 3 steps", "Nothing is lost", "`python -m tofu ops` of every kind", "| 1.9 | `--plan x.json` | never |"]


@pytest.mark.parametrize("left_out", range(-1, len(WHOLE)))
def test_each_mark_needs_a_quote(left_out):
    rows = "".join(
        f"| {quote.replace('|', chr(92) + '|')} | `tests/test_x.py::test_y`, `benchmarks.z` | equal |\n"
        for position, quote in enumerate(WHOLE)
        if position != left_out
    )
    claims = read_claims(f"## README.md\n\n| claim | shown by | bar |\n|---|---|---|\n{rows}")
    assert {claim.shown_by for claim in claims} == {("tests/test_x.py::test_y", "benchmarks.z")}
    found = unclaimed(plain_text(DOCUMENT), claims)
    assert [mark.partition(" in ")[0].strip("'") for mark in found] == {
        -1: [],
        0: ["3"],
        1: ["Nothing"],
        2: ["`python -m tofu ops`", "every"],
        3: ["1.9", "`--plan x.json`", "never"],
    }[left_out]


def test_a_number_that_changes_leaves_its_quote():
    (claim,) = read_claims("## README.md\n| takes 3 steps | none | said elsewhere |\n")
    assert claim.shown_by == ()
    assert unclaimed(plain_text(DOCUMENT.replace("3", "4")), [claim])[0].startswith("'4' in 'It takes 4 steps")


BENCHMARK = "import sys\nMOST, LEAST = 1.3, (2, 3)\ndef main():\n    {}\n"


@pytest.mark.parametrize(
    ("name", "bar", "code", "wrong"),
    [
        ("tests/test_a.py::test_it", "equal", "", None),
        ("tests/test_a.py::test_that", "equal", "", "there is no such test"),
        ("tests/test_a.py::test_skipped", "equal", "", "there is no such test"),
        ("tests/test_b.py::test_it", "equal", "", "there is no such test"),
        ("benchmarks.none", "`MOST = 1.3`", "", "there is no such benchmark"),
        ("benchmarks.one", "fast", "sys.exit(x > MOST)", "a benchmark needs a bar"),
        ("benchmarks.one", "`MOST = 1.30`", "sys.exit(x > MOST)", None),
        ("benchmarks.one", "`LEAST = (2, 3)`", "raise click.ClickException(LEAST)", None),
        ("benchmarks.one", "`MOST = 1.4`", "sys.exit(x > MOST)", "compares nothing with MOST = 1.4"),
        ("benchmarks.one", "`MOST = 1.3`", "sys.exit(x > 5)", "compares nothing with MOST = 1.3"),
        ("benchmarks.one", "`MOST = 1.3`", "print(MOST)", "ends with 0 whatever it finds"),
    ],
)
def test_what_shows_nothing_is_named(name, bar, code, wrong, tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "benchmarks").mkdir()
    skipped = "@pytest.mark.skip(reason='slow')\ndef test_skipped():\n    pass\n"
    (tmp_path / "tests/test_a.py").write_text(f"def test_it():\n    pass\n\n{skipped}")
    (tmp_path / "benchmarks/one.py").write_text(BENCHMARK.format(code or "pass"))
    found = what_is_wrong(name, bar, tmp_path)
    assert found is None if wrong is None else wrong in found
