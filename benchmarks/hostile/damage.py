"""Ways to break a file: of any bytes, and of JSON value by value. Each gives the same files for the same seed."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]


def flip_bit(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(content: bytes, draw: random.Random) -> bytes:
    """A word of another number, as a block of a disk that was lost leaves zeros."""
    changed, word = bytearray(content), draw.choice([0, 1, -1, 2**31, 2**62, draw.getrandbits(63)])
    place = draw.randrange(max(1, len(changed) - 8))
    changed[place : place + 8] = struct.pack("<q", word)
    return bytes(changed)


def truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def append(content: bytes, draw: random.Random) -> bytes:
    return content + draw.randbytes(draw.randint(1, 200))


def remove_span(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + content[place + draw.randint(1, 64) :]


def repeat_span(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[: place + draw.randint(1, 64)] + content[place:]


BYTES: dict[str, Damage] = {
    "a bit flipped": flip_bit,
    "a word overwritten": overwrite,
    "cut short": truncate,
    "bytes appended": append,
    "bytes removed": remove_span,
    "bytes repeated": repeat_span,
}


def exchange(one: bytes, other: bytes, draw: random.Random) -> bytes:
    """A span of another file of the same kind."""
    place = draw.randrange(min(len(one), len(other)))
    length = draw.randint(8, max(8, len(one) // 4))
    return one[:place] + other[place : place + length] + one[place + length :]


WRONG: list[Any] = [
    None, True, False, 0, 1, -1, -2, 2.5, 10**9, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, 1e-320, float("nan"), float("inf"),
    "", "x", "2", "\ud800", "$", "\0", "é" * 50, "a" * 10_000, [], [1], [[]], [None] * 5, {}, {"a": 1}, [-2, -2], [4, 1], [100_000],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a value of JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def _change(content: bytes, draw: random.Random, how: Callable[[Any, Any, random.Random], None]) -> bytes:
    value = json.loads(content)
    path = draw.choice(list(places(value)))
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    how(holder, path[-1], draw)
    return json.dumps(value).encode()


def _replace(holder: Any, key: Any, draw: random.Random) -> None:
    holder[key] = draw.choice(WRONG)


def _remove(holder: Any, key: Any, draw: random.Random) -> None:
    del holder[key]


def _exchange_values(holder: Any, key: Any, draw: random.Random) -> None:
    other = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _shift(holder: Any, key: Any, draw: random.Random) -> None:
    """A number that is one more or a hundred times as much, as an edit by hand leaves it; else another value."""
    is_number = isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool)
    holder[key] = draw.choice([holder[key] + 1, holder[key] * 100]) if is_number else draw.choice(WRONG)


def nest(content: bytes, draw: random.Random) -> bytes:
    depth, (left, right) = draw.choice([500, 1000, 100_000]), draw.choice([("[", "]"), ('{"a":', "}")])
    deep = left * depth + ("1" if left != "[" else "") + right * draw.choice([depth, 0])
    place = content.index(b":") + 1
    return content[:place] + deep.encode() + b"," + content[place:]


def give_twice(content: bytes, draw: random.Random) -> bytes:
    value = json.loads(content)
    key = draw.choice(list(value))
    return content.replace(b"{", b"{" + json.dumps(key).encode() + b": 5, ", 1)


JSON: dict[str, Damage] = {
    "a value replaced": lambda content, draw: _change(content, draw, _replace),
    "a number changed": lambda content, draw: _change(content, draw, _shift),
    "a value removed": lambda content, draw: _change(content, draw, _remove),
    "two values exchanged": lambda content, draw: _change(content, draw, _exchange_values),
    "nested deeply": nest,
    "a key given twice": give_twice,
}
