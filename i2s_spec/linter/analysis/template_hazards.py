"""This module finds computed names, growing texts, and recursive macros in the code of a template.

A computed name may be any name, and a growing text may reach any size. Neither proves harm, and a template without them
may still do harm in other ways. No chat template needs them.
"""

import re
from collections.abc import Iterator
from typing import Final

from i2s_spec.linter.analysis.template.lexer import Hazard, Part, Token
from i2s_spec.linter.analysis.template.loops import MANY, number_in

#: Filters that give a number or leave text unchanged; all others can turn one name into another.
_PLAIN_FILTERS: Final = frozenset({"length", "count", "int", "abs", "min", "max", "sum", "round", "string"})
#: Attributes without leading underscores that lead from an object to the interpreter.
_WAYS_OUT: Final = frozenset(
    {
        "mro", "func_globals", "func_code", "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await",
        "ag_frame", "ag_code", "ag_await", "f_globals", "f_builtins", "f_locals", "f_back", "tb_frame", "tb_next",
        "co_code", "format_map",
    }
)  # fmt: skip
#: Filters whose first argument is the name of an attribute.
_TAKES_NAME: Final = frozenset({"selectattr", "rejectattr", "groupby"})
#: Filters that take the name of an attribute as a later argument: its position.
_MAY_TAKE_NAME: Final = {"sum": 0, "join": 1, "unique": 1, "min": 1, "max": 1, "sort": 2}
#: Methods and filters whose numeric argument sets the size of their result: a width, a length, a power.
_WIDENS: Final = frozenset(
    {"center", "ljust", "rjust", "zfill", "indent", "wordwrap", "expandtabs", "tojson", "batch", "slice", "round"}
)
#: Most tokens that are examined of a subscript, of a call's arguments, or of an assigned value.
_MOST: Final = 64
_OPEN: Final = {"[": "]", "(": ")", "{": "}"}
#: A width or precision of a format that is given by another argument.
_STARRED: Final = re.compile(r"%[#0 +.\d-]*\*")


def computed_names(part: Part) -> Iterator[Hazard]:
    """Subscripts and names of attributes that the template computes."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        if token.kind == "sign" and token.value == "[" and before is not None and _is_value(tokens, i - 1):
            inner = _inner(tokens, i)
            if _is_computed(inner):
                yield Hazard("reach", token.start, inner[-1].stop, "a computed subscript")
            elif len(inner) > 1 and inner[0].kind == "text" and leads_out(inner[0].value):
                yield Hazard("reach", inner[0].start, inner[0].stop, "the name of an attribute of the interpreter")
        elif token.kind == "name" and _value(tokens, i + 1) == "(" and before is not None and before.value == "|":
            if token.value in _TAKES_NAME:
                yield from _named_attribute(tokens, i, i + 2)
            elif token.value in _MAY_TAKE_NAME:
                argument = _argument(_inner(tokens, i + 1), _MAY_TAKE_NAME[token.value])
                if _is_computed(argument) or any(each.kind == "text" and leads_out(each.value) for each in argument):
                    yield Hazard("reach", token.start, token.stop, "an attribute named by a value")
        elif (
            token.kind == "name"
            and token.value == "attribute"
            and _value(tokens, i + 1) == "="
            and before is not None
            and before.value in ("(", ",")
        ):
            yield from _named_attribute(tokens, i, i + 2)
        if (
            token.kind == "text"
            and token.value
            and not token.value.strip("_")
            and _value(tokens, i + 1) in ("~", "*", "+")
        ):
            yield Hazard("reach", token.start, tokens[i + 1].stop, "underscores that are joined")


def leads_out(name: str) -> bool:
    """Whether an attribute, or one in a dotted name, leads from an object to the interpreter."""
    return any(each.startswith("_") or each in _WAYS_OUT for each in name.split("."))


def _named_attribute(tokens: tuple[Token, ...], i: int, at: int) -> Iterator[Hazard]:
    """What is wrong with an argument that names an attribute: it is a value, or leads to the interpreter."""
    if not _one_text(tokens, at):
        yield Hazard("reach", tokens[i].start, tokens[i].stop, "an attribute named by a value")
    elif leads_out(tokens[at].value):
        yield Hazard("reach", tokens[at].start, tokens[at].stop, "the name of an attribute of the interpreter")


def _argument(inner: list[Token], place: int) -> list[Token]:
    """The tokens of a positional argument, with the sign after it; empty if there are fewer arguments."""
    begin, depth, count = 0, 0, 0
    for i, token in enumerate(inner):
        sign = token.value if token.kind == "sign" else ""
        if (sign == "," and not depth) or i == len(inner) - 1:
            if count == place:
                named = i > begin + 1 and inner[begin + 1].value == "="
                return [] if named else inner[begin : i + 1]
            begin, count = i + 1, count + 1
        depth += (sign in _OPEN) - (sign in (")", "]", "}"))
    return []


def _value(tokens: tuple[Token, ...], i: int) -> str:
    return tokens[i].value if i < len(tokens) and tokens[i].kind == "sign" else ""


def _is_value(tokens: tuple[Token, ...], i: int) -> bool:
    """Whether a value ends here, so that a bracket after it is a subscript and not a list."""
    token = tokens[i]
    if token.kind == "name":
        return token.value not in ("in", "and", "or", "not", "if", "else", "is", "set", "elif", "for", "call", "filter")
    return token.kind == "text" or token.value in (")", "]", "}")


def _one_text(tokens: tuple[Token, ...], i: int) -> bool:
    """Whether an argument is a single text."""
    return i < len(tokens) and tokens[i].kind == "text" and _value(tokens, i + 1) in (",", ")")


def _inner(tokens: tuple[Token, ...], start: int) -> list[Token]:
    """The tokens in a bracket, including the closing one; at most the first `_MOST`."""
    depth, inner = 0, []
    for token in tokens[start : start + _MOST]:
        if token.kind == "sign":
            depth += token.value in _OPEN
            depth -= token.value in ")]}"
        inner.append(token)
        if not depth:
            break
    return inner[1:] or inner


def _is_computed(inner: list[Token]) -> bool:
    """Whether a subscript computes a text: by joining, by a filter, or from a text and something else."""
    depth = 0  # belongs to an inner subscript, which is examined by itself
    for i, token in enumerate(inner[:-1]):
        sign = token.value if token.kind == "sign" else ""
        if sign == "[" and i:
            depth += 1
        elif sign == "]":
            depth -= 1
        elif depth:
            continue
        elif sign in ("~", "{") or (sign == "|" and inner[i + 1].value not in _PLAIN_FILTERS):
            return True
        elif token.kind == "text" and len(inner) > 2:
            around = {inner[i - 1].value if i else "", inner[i + 1].value}
            if around & {"+", "*", "%", "|", ".", "["} or not i:
                return True
    return False


def grown(part: Part) -> Iterator[Hazard]:
    """Texts that are padded to a width, by a number or a format, and texts that are joined to themselves."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        called = token.kind == "name" and token.value in _WIDENS and _value(tokens, i + 1) == "(" and i
        if called and tokens[i - 1].value in (".", "|", "filter") and _largest(_inner(tokens, i + 1)) > MANY:
            yield Hazard("loop", token.start, token.stop, "a width")
        if token.kind == "text" and "%" in token.value:
            starred = _value(tokens, i + 1) in ("|", "%") and _STARRED.search(token.value)
            if _width(token.value) > MANY or (starred and _largest(list(tokens[i + 2 : i + 2 + _MOST])) > MANY):
                yield Hazard("loop", token.start, token.stop, "a width")
    if part.word == "set":
        yield from _doubled(part)


def _largest(arguments: list[Token]) -> float:
    """The largest number among the arguments of a call."""
    largest, begin = 0.0, 0
    for i, token in enumerate(arguments):
        if token.kind == "sign" and token.value in (",", ")", "="):
            largest, begin = max(largest, number_in(tuple(arguments[begin:i]))), i + 1
        elif token.kind == "number":
            largest = max(largest, number_in((token,)))
    return largest


def _width(text: str) -> int:
    """The largest width in a text that is used as a format."""
    widest = 0
    for piece in text.split("%")[1:]:
        digits = piece.lstrip("#0- +")
        count = len(digits) - len(digits.lstrip("0123456789"))
        widest = max(widest, int(digits[: min(count, 18)] or 0))
        fraction = digits[count + 1 : count + 19] if digits[count : count + 1] == "." else ""
        count = len(fraction) - len(fraction.lstrip("0123456789"))
        widest = max(widest, int(fraction[:count] or 0))
    return widest


def _doubled(part: Part) -> Iterator[Hazard]:
    """A name that is set to itself joined to itself."""
    values = [token.value for token in part.tokens[: 2 * _MOST]]
    signs = [token.value if token.kind == "sign" else "" for token in part.tokens[: 2 * _MOST]]
    if "=" not in signs:
        return
    at = signs.index("=")
    name, rest = values[1:at], values[at + 1 :]
    count = 0
    for i in range(len(rest) - len(name) + 1):
        if name and rest[i : i + len(name)] == name:
            before = rest[i - 1] if i else ""
            after = rest[i + len(name)] if i + len(name) < len(rest) else ""
            whole = before not in (".", "'") and after not in (".", "[", "(")
            count += whole and bool({before, after} & {"~", "+"})
    if count > 1:
        yield Hazard("loop", part.start, part.stop, "a text that is joined to itself")


def recursions(parts: list[Part]) -> Iterator[Hazard]:
    """Macros that call themselves without data of the conversation, so that only a counter ends the recursion."""
    names: list[str] = []
    for part in parts:
        if part.word == "macro":
            names.append(part.tokens[1].value if len(part.tokens) > 1 else "")
        elif part.word == "endmacro" and names:
            names.pop()
        elif names:
            tokens = part.tokens
            for i, token in enumerate(tokens):
                called = token.kind == "name" and token.value == names[-1] and _value(tokens, i + 1) == "("
                if called and (not i or tokens[i - 1].value != ".") and _only_counts(_inner(tokens, i + 1)):
                    yield Hazard("loop", token.start, token.stop, "a macro that calls itself")


def _only_counts(arguments: list[Token]) -> bool:
    """Whether no argument of a call is plainly data of the conversation: a name, a member of it, or a subscript with a
    name."""
    begin, depth = 0, 0
    for i, token in enumerate(arguments):
        sign = token.value if token.kind == "sign" else ""
        depth += sign in _OPEN
        if (sign == "," and not depth) or i == len(arguments) - 1:
            argument = arguments[begin:i]
            begin = i + 1
            computes = any(each.kind == "sign" and each.value in "+-*/~" for each in argument)
            if any(each.kind == "name" for each in argument) and not computes:
                return False
        depth -= sign in (")", "]", "}")
    return True
