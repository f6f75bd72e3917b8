"""Describe static data in which the arguments of a call differ from the planned arguments.

Static data are static leaves, such as functions in a dict, and static fields of classes, such as `tx` in a TrainState.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tofu.jax.frontend.names import name_children, name_static_fields
from tofu.jax.frontend.static_leaves import Structure
from tofu.validation import show


def list_static_differences(
    parameters: Sequence[str], names: Sequence[str], planned: Structure, passed: Structure
) -> Iterator[str]:
    """Yield a text for each difference, such as "state/activation is tanh, and relu is part of the step".

    Both structures are of a tuple of arguments, with the same nodes. `parameters` has a name for each argument, and
    `names` for each leaf.
    """
    for parameter, old, new in zip(parameters, planned.tree.children(), passed.tree.children(), strict=True):
        yield from _list_field_differences(parameter, old, new)
    passed_leaves = dict(passed.static)
    for n, leaf in planned.static:
        if leaf != passed_leaves[n]:
            yield _describe(names[n], leaf.value, passed_leaves[n].value)


def _list_field_differences(path: str, planned: Any, passed: Any) -> Iterator[str]:
    if planned == passed:
        return
    (node_type, old), (_, new) = planned.node_data(), passed.node_data()
    if old != new and isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for name, old_value, new_value in zip(name_static_fields(node_type, len(old)), old, new, strict=True):
            if old_value != new_value:
                yield _describe(f"{path}/{name}", old_value, new_value)
    elif old != new:
        yield _describe(path, old, new)
    for key, *children in zip(name_children(planned), planned.children(), passed.children(), strict=True):
        yield from _list_field_differences(f"{path}/{key}", *children)


def _describe(path: str, planned: Any, passed: Any) -> str:
    planned_text, passed_text = (str(getattr(x, "__name__", "")) or show(x) for x in (planned, passed))
    if planned_text == passed_text:  # for example, the same function with another closure
        return f"{path} is another {type(passed).__name__} than planned"
    return f"{path} is {passed_text}, and {planned_text} is part of the step"
