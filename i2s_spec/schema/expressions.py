"""Expressions over the hyperparameters of a model, as declarations hold them: text, evaluated without `eval`.

The text has Python's form, but only what is listed here is understood: constants, names, comparisons, `and`, `or`, `not`,
`x if c else y`, integer arithmetic, subscripts of arrays, tuples, f-strings and the functions that a scope offers.
Anything else is refused when the text is read. A value that is missing or does not fit makes the whole expression
`UnknownValue`, which says nothing about a file: it is neither true nor false.

    >>> class Sizes(ExpressionScope):
    ...     def name(self, name):
    ...         return {"n_embd": 64, "n_head": 4}[name]
    >>> compiled("n_embd // n_head * 2 if n_head > 0 else 0")(Sizes())
    32
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

#: Gives syntax trees instead of code objects (`ast.PyCF_ONLY_AST`); the module `ast` takes longer to import than it saves.
_ONLY_TREE: Final = 0x400
#: No size of a model has more bits: products beyond are no sizes, and shifts by more are not computed.
_BITS: Final = 128


class UnknownValue(Exception):
    """The value of an expression is not known."""


class ExpressionScope:
    """What names and functions in an expression stand for.

    `variables` are those of loops. Functions get their arguments evaluated, but for the last one of `lazy` functions, which
    is a callable: a default is evaluated only if it is needed.
    """

    #: Functions that take their last argument unevaluated.
    lazy: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.variables: dict[str, int] = {}

    def name(self, name: str) -> Any:
        """Return the value of a name.

        :raises UnknownValue: if there is none
        """
        raise UnknownValue(name)

    def element(self, name: str, index: int) -> Any:
        """Return the value of an element of an array.

        :raises UnknownValue: if there is none
        """
        raise UnknownValue(name)

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function by its name.

        :raises UnknownValue: if there is none
        """
        raise UnknownValue(name)


Evaluate = Callable[[ExpressionScope], Any]

_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "BitAnd": operator.and_, "BitOr": operator.or_,
    "LShift": operator.lshift,
}  # fmt: skip
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
}  # fmt: skip
#: What evaluation raises where values do not fit; all of it means that the value is not known.
_MISFITS: Final = (TypeError, ValueError, ZeroDivisionError, KeyError, IndexError, OverflowError)


class Expression:
    """An expression that can be evaluated in a scope.

    :ivar text: as it was declared
    :ivar names: the names in it that are not bound inside it; an expression without the variable of a loop has one value
        for all passes
    """

    __slots__ = ("_call", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        names: set[str] = set()
        try:
            tree: Any = compile(text.strip(), "<expression>", "eval", _ONLY_TREE)
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"no expression: {text!r}") from error
        self._call = _read(tree.body, names, frozenset())
        self.names = frozenset(names)

    def __call__(self, scope: ExpressionScope) -> Any:
        """Return the value in a scope.

        :raises UnknownValue: if it is not known
        """
        try:
            value = self._call(scope)
        except _MISFITS as error:
            raise UnknownValue(self.text) from error
        if isinstance(value, int) and value.bit_length() > _BITS:
            raise UnknownValue(self.text)
        return value

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    """Return the expression that a text declares.

    :raises ValueError: if the text holds anything that is not understood
    """
    return Expression(text)


def _read(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    """Return a function that computes a node.

    :param names: gets the names that are not bound
    :param bound: the parameters of functions around the node
    """
    kind = type(node).__name__
    reader = _READERS.get(kind)
    if reader is None:
        raise ValueError(f"{kind} is not allowed in an expression")
    return reader(node, names, bound)


def _constant(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    value = node.value
    if not isinstance(value, int | float | str):
        raise ValueError(f"the constant {value!r} is not allowed in an expression")
    return lambda scope: value


def _name(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    name: str = node.id
    if name not in bound:
        names.add(name)

    def value(scope: ExpressionScope) -> Any:
        variables = scope.variables
        return variables[name] if name in variables else scope.name(name)

    return value


def _attribute(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    """`part.name`: a name with a dot in it."""
    if type(node.value).__name__ != "Name":
        raise ValueError("only names have attributes in an expression")
    name = f"{node.value.id}.{node.attr}"
    names.add(name)
    return lambda scope: scope.name(name)


def _subscript(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    if type(node.value).__name__ != "Name":
        raise ValueError("only names have elements in an expression")
    name, index = node.value.id, _read(node.slice, names, bound)
    return lambda scope: scope.element(name, index(scope))


def _binary(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    call = _BINARY.get(kind := type(node.op).__name__)
    if call is None:
        raise ValueError(f"{kind} is not allowed in an expression")
    left, right = _read(node.left, names, bound), _read(node.right, names, bound)
    if kind != "LShift":
        return lambda scope: _bounded(call(left(scope), right(scope)))

    def shifted(scope: ExpressionScope) -> Any:
        places = right(scope)
        if not 0 <= places < _BITS:
            raise UnknownValue
        return _bounded(left(scope) << places)

    return shifted


def _bounded(value: Any) -> Any:
    """Return a value, unless it is an integer beyond all sizes: factors of a file could make it grow without end."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise UnknownValue
    return value


def _unary(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    kind, operand = type(node.op).__name__, _read(node.operand, names, bound)
    if kind == "Not":
        return lambda scope: not operand(scope)
    if kind == "USub":
        return lambda scope: -operand(scope)
    raise ValueError(f"{kind} is not allowed in an expression")


def _all_or_any(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    parts = [_read(value, names, bound) for value in node.values]
    stop = type(node.op).__name__ == "Or"

    def value(scope: ExpressionScope) -> Any:
        result: Any = not stop
        for part in parts:
            result = part(scope)
            if bool(result) is stop:
                break
        return result

    return value


def _compare(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    first = _read(node.left, names, bound)
    rest = []
    for op, operand in zip(node.ops, node.comparators, strict=True):
        call = _COMPARE.get(kind := type(op).__name__)
        if call is None:
            raise ValueError(f"{kind} is not allowed in an expression")
        rest.append((call, _read(operand, names, bound)))

    def value(scope: ExpressionScope) -> bool:
        left = first(scope)
        for call, operand in rest:
            right = operand(scope)
            if not call(left, right):
                return False
            left = right
        return True

    return value


def _choice(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    test, then, other = (_read(part, names, bound) for part in (node.test, node.body, node.orelse))
    return lambda scope: then(scope) if test(scope) else other(scope)


def _call(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    if type(node.func).__name__ != "Name" or node.keywords:
        raise ValueError("only plain functions can be called in an expression")
    name, arguments = node.func.id, [_read(argument, names, bound) for argument in node.args]

    def value(scope: ExpressionScope) -> Any:
        call = scope.function(name)
        if name in scope.lazy:
            *first, last = arguments
            return call(*(argument(scope) for argument in first), lambda: last(scope))
        return call(*(argument(scope) for argument in arguments))

    return value


def _function(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    """`lambda i: x`, which only functions of the scope call."""
    (parameter,) = (argument.arg for argument in node.args.args)
    body = _read(node.body, names, bound | {parameter})

    def value(scope: ExpressionScope) -> Callable[[int], Any]:
        def call(index: int) -> Any:
            outside = scope.variables
            scope.variables = {**outside, parameter: index}
            try:
                return body(scope)
            finally:
                scope.variables = outside

        return call

    return value


def _tuple(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    parts = [_read(part, names, bound) for part in node.elts]
    return lambda scope: tuple(part(scope) for part in parts)


def _joined(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    parts = [_read(part, names, bound) for part in node.values]
    return lambda scope: "".join(str(part(scope)) for part in parts)


def _formatted(node: Any, names: set[str], bound: frozenset[str]) -> Evaluate:
    if node.format_spec is not None or node.conversion != -1:
        raise ValueError("an expression formats values only as they are")
    return _read(node.value, names, bound)


_READERS: Final[Mapping[str, Callable[[Any, set[str], frozenset[str]], Evaluate]]] = {
    "Constant": _constant,
    "Name": _name,
    "Attribute": _attribute,
    "Subscript": _subscript,
    "BinOp": _binary,
    "UnaryOp": _unary,
    "BoolOp": _all_or_any,
    "Compare": _compare,
    "IfExp": _choice,
    "Call": _call,
    "Lambda": _function,
    "Tuple": _tuple,
    "JoinedStr": _joined,
    "FormattedValue": _formatted,
}
