"""Values that are not known before a file is read: expressions over its keys and tensors, simplified as they are built.

Integers, floats and strings are those of `syntax`, and so are operators, conditions and names (of loop variables). What a
file says is one of the classes below, what cannot be said is `Unknown`, and stays so in everything made of it.
`shown` writes a value as the text that the table contains.

    >>> experts = conditional(HasKey("~expert_count"), Key("~expert_count"), Number(0))
    >>> shown(operation("*", Key("~embedding_length"), experts))
    "K('~embedding_length')*D('~expert_count',0)"
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from peers.arch_tables.syntax import (
    Binary,
    Braces,
    Call,
    Conditional,
    Expression,
    Lambda,
    Name,
    Null,
    Number,
    Text,
    Unary,
)

ZERO: Final = Number(0)
ONE: Final = Number(1)

#: The index of the element in question, in the value of an array.
INDEX: Final = Name("@")


@dataclass(frozen=True, slots=True)
class Unknown(Expression):
    """A value that was not understood, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Joined(Expression):
    """A string with values in it: the name of a tensor."""

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True, slots=True)
class Key(Expression):
    """The value of a key."""

    key: str


@dataclass(frozen=True, slots=True)
class Element(Expression):
    """An element of a key's array; of a key that is a scalar, the scalar."""

    key: str
    index: Expression
    array_only: bool = False


@dataclass(frozen=True, slots=True)
class HasKey(Expression):
    """Whether there is a key."""

    key: str


@dataclass(frozen=True, slots=True)
class IsArray(Expression):
    """Whether there is a key whose value is an array."""

    key: str


@dataclass(frozen=True, slots=True)
class Length(Expression):
    """The number of elements of a key's array."""

    key: str


@dataclass(frozen=True, slots=True)
class Tensor(Expression):
    """A tensor, or null if the file has none of the name."""

    name: Joined


@dataclass(frozen=True, slots=True)
class HasTensor(Expression):
    """Whether there is a tensor."""

    name: Joined


@dataclass(frozen=True, slots=True)
class Dimension(Expression):
    """A length in the shape of a tensor, in ggml's order."""

    name: Joined
    axis: Expression


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """A hyperparameter by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldElement(Expression):
    """An element of a hyperparameter that is an array."""

    name: str
    index: Expression


@dataclass(frozen=True, slots=True)
class Greatest(Expression):
    """The greatest value for indices below a count."""

    value: Expression
    count: Expression


# What only the run of a loader sees, and no table.


@dataclass(frozen=True, slots=True)
class Array(Expression):
    """An array, as the value of its element `INDEX`."""

    element: Expression


@dataclass(frozen=True, slots=True)
class ArrayPlace(Expression):
    """A variable that is an array."""

    place: str


@dataclass(frozen=True, slots=True)
class Strings(Expression):
    """A vector that holds the array of a key."""

    key: str


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """Another name for a variable, or for an element of one."""

    place: str
    index: Expression | None


@dataclass(frozen=True, slots=True)
class KeyId(Expression):
    """A constant that stands for a key: `LLM_KV_CONTEXT_LENGTH`."""

    name: str


@dataclass(frozen=True, slots=True)
class TensorId(Expression):
    """A constant that stands for a tensor: `LLM_TENSOR_OUTPUT`."""

    name: str


@dataclass(frozen=True, slots=True)
class TensorNamer(Expression):
    """The function that makes names of tensors (`LLM_TN`)."""


# Parts of values.


_FIELD_NAMES: Final[dict[type, tuple[str, ...]]] = {}


def _field_names(kind: Any) -> tuple[str, ...]:
    if kind not in _FIELD_NAMES:
        _FIELD_NAMES[kind] = tuple(each.name for each in fields(kind))
    return _FIELD_NAMES[kind]


def parts(value: Any) -> Iterator[Expression]:
    """The values that a value is made of, without itself."""
    if isinstance(value, tuple):
        for each in value:
            if isinstance(each, Expression):
                yield each
    elif not isinstance(value, Lambda):
        for name in _field_names(type(value)):
            part = getattr(value, name)
            if isinstance(part, Expression):
                yield part
            elif isinstance(part, tuple):
                yield from parts(part)


def mentions(value: Expression, wanted: Expression) -> bool:
    """Whether a value is another one, or is made of it."""
    return value == wanted or any(mentions(part, wanted) for part in parts(value))


def unresolved(value: Expression) -> bool:
    """Whether something in a value was not understood."""
    return isinstance(value, Unknown) or any(map(unresolved, parts(value)))


def substituted(value: Any, old: Expression, new: Expression) -> Any:
    """A value with another one in the place of each part that equals `old`."""
    if value == old:
        return new
    if isinstance(value, tuple):
        return tuple(substituted(each, old, new) for each in value)
    if not isinstance(value, Expression) or isinstance(value, Lambda):
        return value
    return type(value)(*(substituted(getattr(value, name), old, new) for name in _field_names(type(value))))


# Truth.


def truth(value: Expression) -> Expression:
    """A value as a condition."""
    match value:
        case Null():
            return ZERO
        case Tensor(name):
            return HasTensor(name)
        case Number(number):
            return Number(int(bool(number)))
        case Conditional(condition, then, otherwise):
            return conditional(condition, truth(then), truth(otherwise))
        case Text() | Joined():
            return ONE
    return value


def negation(value: Expression) -> Expression:
    """Whether a condition does not hold."""
    value = truth(value)
    match value:
        case Number(number):
            return Number(int(not number))
        case Unary("!", operand):
            return operand
    return Unary("!", value)


def both(left: Expression, right: Expression) -> Expression:
    """Whether two conditions hold."""
    left, right = truth(left), truth(right)
    if isinstance(left, Number):
        return right if left.value else ZERO
    if isinstance(right, Number):
        return left if right.value else ZERO
    if left == right:
        return left
    return ZERO if right == negation(left) else Binary("&&", left, right)


def either(left: Expression, right: Expression) -> Expression:
    """Whether one of two conditions holds."""
    left, right = truth(left), truth(right)
    if isinstance(left, Number):
        return ONE if left.value else right
    if isinstance(right, Number):
        return ONE if right.value else left
    if left == right:
        return left
    return ONE if right == negation(left) else Binary("||", left, right)


def conditional(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    """The one value where a condition holds, else the other."""
    condition = truth(condition)
    if isinstance(condition, Number):
        return then if condition.value else otherwise
    if then == otherwise:
        return then
    if isinstance(condition, Unknown):
        return condition
    if (then, otherwise) == (ONE, ZERO):
        return condition
    if (then, otherwise) == (ZERO, ONE):
        return negation(condition)
    if isinstance(condition, Unary) and condition.operator == "!":
        return conditional(condition.operand, otherwise, then)
    if isinstance(then, Conditional) and then.condition == condition:
        then = then.then
    if isinstance(otherwise, Conditional) and otherwise.condition == condition:
        otherwise = otherwise.otherwise
    if then == otherwise:
        return then
    if isinstance(otherwise, Conditional) and otherwise.then == then:
        return conditional(either(condition, otherwise.condition), then, otherwise.otherwise)
    return Conditional(condition, then, otherwise)


# Operators.

_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod, "<": operator.lt, ">": operator.gt,
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_,
    "<<": operator.lshift,
    "/": lambda left, right: left / right if isinstance(left, float) or isinstance(right, float) else left // right,
}  # fmt: skip


def operation(sign: str, left: Expression, right: Expression) -> Expression:
    """The result of an operator."""
    if sign == "+" and (isinstance(left, Text | Joined) or isinstance(right, Text | Joined)):
        return Joined((*_as_parts(left), *_as_parts(right)))
    if sign == "&&":
        return both(left, right)
    if sign == "||":
        return either(left, right)
    if sign in ("==", "!="):
        compared = _comparison(sign, left, right)
        if compared is not None:
            return compared
    if isinstance(left, Number) and isinstance(right, Number):
        try:
            found = _ARITHMETIC[sign](left.value, right.value)
        except (KeyError, ArithmeticError, TypeError, ValueError):
            return Unknown("arithmetic")
        return Number(int(found) if isinstance(found, bool) else found)
    return _simplified(sign, left, right)


def _as_parts(value: Expression) -> tuple[str | Expression, ...]:
    match value:
        case Joined(found):
            return found
        case Text(text):
            return (text,)
    return (value,)


def _comparison(sign: str, left: Expression, right: Expression) -> Expression | None:
    """A comparison that is decided by what kind of values are compared; None for others."""
    for one, other in ((left, right), (right, left)):
        if isinstance(other, Null) and isinstance(one, Tensor | Null | Conditional | Braces):
            absent = negation(one)
            return absent if sign == "==" else negation(absent)
    if isinstance(left, Text) and isinstance(right, Text):
        return Number(int((left == right) == (sign == "==")))
    if left == right:
        return Number(int(sign == "=="))
    if isinstance(left, Conditional) and isinstance(right, Number | Text):
        then, otherwise = operation(sign, left.then, right), operation(sign, left.otherwise, right)
        if isinstance(then, Number) or isinstance(otherwise, Number):
            return conditional(left.condition, then, otherwise)
    if {type(left), type(right)} == {Text, Number}:
        return Number(int(sign == "!="))
    return None


def _simplified(sign: str, left: Expression, right: Expression) -> Expression:
    """An operation with neutral operands left out, and carried into conditions between numbers."""
    match sign, left, right:
        case ("*", other, Number(1)) | ("*", Number(1), other):
            return other
        case ("*", _, Number(0)) | ("*", Number(0), _) | ("&", _, Number(0)) | ("&", Number(0), _):
            return ZERO
        case ("+" | "-", other, Number(0)) | ("+", Number(0), other) | ("/", other, Number(1)):
            return other
        case ("|", other, Number(0)) | ("|", Number(0), other):
            return other
        case ("|" | "&", Conditional(condition, then, otherwise), Number()):
            return conditional(condition, operation(sign, then, right), operation(sign, otherwise, right))
        case ("|" | "&", Number(), Conditional(condition, then, otherwise)):
            return conditional(condition, operation(sign, left, then), operation(sign, left, otherwise))
        case ("*", Conditional(condition, Number() as then, Number() as otherwise), Number()):
            return conditional(condition, operation(sign, then, right), operation(sign, otherwise, right))
    return Binary(sign, left, right)


# As text.

_LEVELS: Final = {
    "||": 1, "&&": 2, "==": 4, "!=": 4, "<": 4, ">": 4, "<=": 4, ">=": 4, "|": 5, "&": 6, "<<": 7, "+": 8, "-": 8,
    "*": 9, "/": 9, "%": 9,
}  # fmt: skip
_NOT, _MINUS = 3, 10

_IN_PYTHON: Final = {"&&": " and ", "||": " or ", "/": "//"}

#: Layers without those that predict further tokens, whose count the table defines.
_LAYERS: Final = Binary("-", Field("n_layer_all"), Field("n_layer_nextn"))


def shown(value: Expression, level: int = 0) -> str:
    """A value as an expression of Python over the table's functions; what was not understood is `U`.

    :param level: the precedence that the text must have to need no parentheses
    """
    match value:
        case Number(found) | Text(found):
            return repr(found)
        case Name(name):
            return "i" if value == INDEX else name
        case Field(name):
            return name
        case FieldElement(name, index):
            return f"{name}[{shown(index)}]"
        case Key(key):
            return f"K({key!r})"
        case Element(key, index):
            return f"KA({key!r},{shown(index)})"
        case HasKey(key):
            return f"hask({key!r})"
        case IsArray(key):
            return f"isarr({key!r})"
        case Length(key):
            return f"klen({key!r})"
        case HasTensor(name) | Tensor(name):
            text = repr(shown_name(name))
            return f"has(f{text})" if "{" in text else f"has({text})"
        case Dimension(name, axis):
            return f"ne(f{shown_name(name)!r},{shown(axis)})"
        case Greatest(each, count):
            return f"amax(lambda i:{shown(each)},{shown(count)})"
        case Call(Name(name), (left, right)):
            return f"{name}({shown(left)},{shown(right)})"
        case Null():
            return "0"
        case Conditional():
            return _shown_conditional(value, level)
        case Unary() | Binary():
            return _shown_operation(value, level)
    return "U"


def shown_name(name: Joined) -> str:
    """The name of a tensor; values in it are between braces."""
    return "".join(part if isinstance(part, str) else "{" + shown(part) + "}" for part in name.parts)


def _shown_conditional(value: Conditional, level: int) -> str:
    """A condition; of the forms `value of a key, else a default` by the functions D, DA and DR."""
    match value.condition, value.then:
        case (HasKey(asked) | IsArray(asked), Key(key)) if asked == key:
            return f"D({key!r},{shown(value.otherwise)})"
        case (HasKey(asked), Element(key, index)) if asked == key:
            return f"DA({key!r},{shown(index)},{shown(value.otherwise)})"
        case (IsArray(asked), Element(key, index)) if asked == key:
            return f"DR({key!r},{shown(index)},{shown(value.otherwise)})"
    text = f"{shown(value.then, 1)} if {shown(value.condition, 1)} else {shown(value.otherwise)}"
    return f"({text})" if level > 0 else text


def _shown_operation(value: Unary | Binary, level: int) -> str:
    if value == _LAYERS:
        return "n_layer"
    if isinstance(value, Unary):
        if value.operator != "!":
            return f"-{shown(value.operand, _MINUS)}"
        text = f"not {shown(value.operand, _NOT)}"
        return f"({text})" if level > _NOT else text
    own = _LEVELS[value.operator]
    sign = _IN_PYTHON.get(value.operator, value.operator)
    if sign == "//" and any(
        isinstance(each, Number) and isinstance(each.value, float) for each in (value.left, value.right)
    ):
        sign = "/"
    text = f"{shown(value.left, own)}{sign}{shown(value.right, own + 1)}"
    return f"({text})" if own < level else text
