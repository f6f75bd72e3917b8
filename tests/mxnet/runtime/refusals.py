"""What tests expect of an error's message."""

import pytest


def refuses(error, *fragments):
    """An expectation that an error's message holds all fragments."""
    pattern = "".join(f"(?=[\\s\\S]*{fragment})" for fragment in fragments)
    return pytest.raises(error, match=pattern)
