import pytest


def refuses(error, *fragments):
    """Expect an error whose message contains all the patterns, in any order."""
    pattern = "".join(f"(?=[\\s\\S]*{fragment})" for fragment in fragments)
    return pytest.raises(error, match=pattern)
