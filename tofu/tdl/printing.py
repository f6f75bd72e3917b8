"""Print descriptions as equations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sympy

from tofu.tdl import expression as tdl
from tofu.tdl.description import Description
from tofu.tdl.forms import Output
from tofu.tdl.tensor import Tensor

# Python's symbols for element-wise functions, and their precedences.
_INFIX = {
    "logical_or": ("|", 2),
    "logical_and": ("&", 3),
    "less": ("<", 1),
    "less_equal": ("<=", 1),
    "greater": (">", 1),
    "greater_equal": (">=", 1),
    "equal": ("==", 1),
    "not_equal": ("!=", 1),
    "add": ("+", 4),
    "subtract": ("-", 4),
    "multiply": ("*", 5),
    "divide": ("/", 5),
    "floor_divide": ("//", 5),
    "mod": ("%", 5),
    "power": ("**", 7),
}
_NEGATION_PRECEDENCE = 6
_ATOM_PRECEDENCE = 8


def format_description(
    description: Description,
    attributes: Mapping[str, object],
    tensors: Sequence[Tensor],
    outputs: Sequence[Output],
    variables: Collection[str],
) -> str:
    """Return a description as text: a line with inputs and attributes, then an equation for each output.

    Attributes with default values are left out. In an index, terms appear in the order of `variables`.

    conv1d(data, filters)
        output[b, co, x] = Sum(ci, dx: data[b, ci, x + dx] * filters[ci, co, dx])
    """
    changed = [
        f"{n}={v!r}" for n, v in attributes.items() if v is not description.defaults[n] and v != description.defaults[n]
    ]
    inputs = ", ".join(tensor.name for tensor in tensors)
    lines = [f"{description.name}({inputs}{'; ' if changed else ''}{', '.join(changed)})"]
    printer = Printer(variables)
    for number, output in enumerate(outputs):
        name = "output" if len(outputs) == 1 else f"output{number}"
        lines.append(f"    {printer.format_output(name, output)}")
    return "\n".join(lines)


class Printer:
    """A printer of formulas. In an index, terms appear in the order of `variables`."""

    def __init__(self, variables: Collection[str]) -> None:
        self._positions = {name: position for position, name in enumerate(variables)}

    def format_output(self, name: str, output: Output) -> str:
        """Return an output as an equation, with `+=` for a scatter."""
        if output.groups is None:
            element = f"{name}[{self._format_indices(output.coordinates)}]"
            value = "" if output.value is None else self.format_value(output.value)
            return f"{element} += {value} for {', '.join(output.variables)}"
        dimensions = (group[0] if len(group) == 1 else f"({' '.join(group)})" for group in output.groups)
        element = f"{name}[{', '.join(dimensions)}]"
        return f"{element} is not written" if output.value is None else f"{element} = {self.format_value(output.value)}"

    def format_value(self, value: tdl.Value) -> str:
        """Return a value as text."""
        return self._format_with_precedence(value)[0]

    def format_index(self, index: tdl.Index) -> str:
        """Return an index as a sum of terms. Constants come last."""
        terms = sorted(sympy.Add.make_args(sympy.expand(index.expression)), key=self._term_key)
        text = ""
        for term in terms:
            is_positive = not term.could_extract_minus_sign()
            sign = ("+" if is_positive else "-") if text else ("" if is_positive else "-")
            text += f" {sign} " if text else sign
            text += self._format_term(term if is_positive else -term)
        return text

    def _term_key(self, term: sympy.Expr) -> tuple[int, str]:
        positions = [self._positions.get(s.name, 0) for s in term.free_symbols if isinstance(s, tdl.VariableSymbol)]
        return (min(positions, default=len(self._positions) + bool(term.is_Number)), "" if positions else str(term))

    def _format_term(self, term: sympy.Expr) -> str:
        variables = [s for s in term.free_symbols if isinstance(s, tdl.VariableSymbol)]
        if not variables or term == variables[0]:
            return str(term)
        stride = term / variables[0]
        return f"{stride}*{variables[0]}" if stride.is_Integer else f"{variables[0]}*{stride}"

    def _format_indices(self, indices: tuple[tdl.AnyIndex | None, ...]) -> str:
        return ", ".join(self._format_coordinate(index) for index in indices)

    def _format_coordinate(self, index: tdl.AnyIndex | None) -> str:
        if index is None:
            return ":"
        if isinstance(index, tdl.WholeDimension):
            return "Any" if index.position is None else f"Any({self.format_value(index.position)})"
        if isinstance(index, tdl.AnyOf):
            return f"Any({self.format_value(index.position)}, {self.format_index(index.first)}, {self.format_index(index.extent)})"
        return self.format_index(index)

    def _format_with_precedence(self, value: tdl.Value) -> tuple[str, int]:
        if isinstance(value, tdl.Constant):
            if isinstance(value.number, complex):
                return f"({value.number:g})", _ATOM_PRECEDENCE
            return f"{value.number:g}", _ATOM_PRECEDENCE if value.number >= 0 else _NEGATION_PRECEDENCE
        if isinstance(value, tdl.Position):
            text = self.format_index(value.index)
            return text, _INFIX["add"][1] if " " in text or "*" in text or text.startswith("-") else _ATOM_PRECEDENCE
        if isinstance(value, tdl.Element):
            return f"{value.tensor.name}[{self._format_indices(value.indices)}]", _ATOM_PRECEDENCE
        if isinstance(value, tdl.Reduction):
            return f"{value.reducer}({', '.join(value.variables)}: {self.format_value(value.body)})", _ATOM_PRECEDENCE
        if isinstance(value, tdl.OpaqueElement):
            return (
                f"{value.name}({', '.join(map(self._format_argument, value.arguments))})[{self._format_indices(value.indices)}]",
                _ATOM_PRECEDENCE,
            )
        if isinstance(value, tdl.RandomElement):
            return f"random({', '.join(map(self.format_value, value.arguments))})", _ATOM_PRECEDENCE
        if isinstance(value, tdl.Unread):
            return f"unread({self.format_value(value.element)})", _ATOM_PRECEDENCE
        assert isinstance(value, tdl.Call)
        return self._format_call(value)

    def _format_argument(self, argument: tdl.Value | tdl.TensorSlice) -> str:
        if isinstance(argument, tdl.TensorSlice):
            return f"{argument.tensor.name}[{self._format_indices(argument.indices)}]"
        return self.format_value(argument)

    def _format_call(self, value: tdl.Call) -> tuple[str, int]:
        if value.function == "negative":
            return f"-{self._format_operand(value.arguments[0], _NEGATION_PRECEDENCE)}", _NEGATION_PRECEDENCE
        if value.function not in _INFIX:
            return f"{value.function}({', '.join(map(self.format_value, value.arguments))})", _ATOM_PRECEDENCE
        symbol, precedence = _INFIX[value.function]
        left, right = value.arguments
        if value.function == "power":
            return (
                f"{self._format_operand(left, precedence + 1)} ** {self._format_operand(right, precedence)}",
                precedence,
            )
        # a - (b - c) and a / (b * c) keep their parentheses, a + b + c needs none.
        is_associative = value.function in ("add", "multiply", "logical_and", "logical_or")
        return (
            f"{self._format_operand(left, precedence)} {symbol} {self._format_operand(right, precedence + (not is_associative))}",
            precedence,
        )

    def _format_operand(self, value: tdl.Value, least_precedence: int) -> str:
        text, precedence = self._format_with_precedence(value)
        return text if precedence >= least_precedence else f"({text})"
