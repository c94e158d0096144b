"""This module finds code in a template that could take unbounded time or memory: loops, powers, repeated texts."""

from collections.abc import Iterator
from typing import Final

from i2s_spec.linter.analysis.template.lexer import Hazard, Part, Token

#: How many nested loops are remembered with their lists.
_NESTED: Final = 16
#: Most tokens of a list that are examined, and words that can precede a list.
_LONGEST_LIST: Final = 64
_BEFORE_LISTS: Final = frozenset({"in", "if", "else", "and", "or", "not", "is", "set", "return"})
#: More iterations of a loop, or copies of a text, than any template needs.
MANY: Final = 1_000_000


def number_in(tokens: tuple[Token, ...]) -> float:
    """The value of a product or power of numbers, such as `10**9`; 0 for anything else."""
    if not tokens or any(token.kind != "number" for token in tokens[::2]) or len(tokens) % 2 == 0:
        return 0.0
    if any(token.value not in ("*", "**", "+") for token in tokens[1::2]) or len(tokens) > 9:
        return 0.0
    values = [_float(token.value) for token in tokens[::2]]
    signs = [token.value for token in tokens[1::2]]
    for sign in ("**", "*", "+"):
        while sign in signs:
            at = len(signs) - 1 - signs[::-1].index(sign)
            left, right = values[at], values.pop(at + 1)
            signs.pop(at)
            if sign == "**":
                values[at] = _power(left, right)
            else:
                values[at] = left * right if sign == "*" else left + right
    return values[0]


def _float(digits: str) -> float:
    """The value of a number; infinity if it is too large."""
    digits = digits[:400].replace("_", "")
    try:
        return float(int(digits, 0) if digits[:2].lower() in ("0x", "0o", "0b") else digits)
    except OverflowError:
        return float("inf")
    except ValueError:
        return 0.0


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")


def powers(part: Part) -> Iterator[Hazard]:
    """Numbers and texts that the template can make arbitrarily large."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        if token.value == "**" and token.kind == "sign":
            stop = i + 1
            while stop + 1 < len(tokens) and tokens[stop + 1].value == "**" and stop - i < 8:
                stop += 2
            if i and number_in(tokens[i - 1 : stop + 1]) > 1e18:
                yield Hazard("loop", tokens[i - 1].start, tokens[min(stop, len(tokens) - 1)].stop, "a huge power")
        if token.value == "*" and token.kind == "sign" and 0 < i < len(tokens) - 1:
            around = tokens[i - 1], tokens[i + 1]
            if {t.kind for t in around} == {"text", "number"} or (
                around[1].kind == "number" and _ends_list(tokens[:i])
            ):
                end = i + 2
                while end + 1 < len(tokens) and tokens[end].value in ("*", "**") and end - i < 8:
                    end += 2
                number = tokens[i + 1 : end] if around[1].kind == "number" else tokens[i - 1 : i]
                if number_in(number) > MANY:
                    what = "a repeated list" if around[0].kind == "sign" else "a repeated text"
                    yield Hazard("loop", around[0].start, around[1].stop, what)


def _ends_list(tokens: tuple[Token, ...]) -> bool:
    """Whether a list, or a tuple with a text or a comma, ends here, rather than a subscript or a call."""
    if tokens[-1].kind != "sign" or tokens[-1].value not in ("]", ")"):
        return False
    depth, holds = 0, tokens[-1].value == "]"
    for at in range(len(tokens) - 1, max(-1, len(tokens) - _LONGEST_LIST), -1):
        token = tokens[at]
        if token.kind == "text":
            holds = True
        elif token.kind == "sign" and token.value in ("]", ")", "}"):
            depth += 1
        elif token.kind == "sign" and token.value in ("[", "(", "{"):
            depth -= 1
            if not depth:
                before = tokens[at - 1] if at else None
                free = before is None or before.kind in ("sign", "text") or before.value in _BEFORE_LISTS
                return holds and free and (before is None or before.value not in ("]", ")"))
        elif token.value == "," and depth == 1:
            holds = True
    return False


def _ranges(part: Part) -> Iterator[tuple[Token, float]]:
    """Every call of range with numbers, and the largest of them."""
    tokens = part.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.value == "range" and token.kind == "name" and tokens[i + 1].value == "(":
            largest, begin = 0.0, i + 2
            for j in range(begin, min(len(tokens), begin + 40)):
                if tokens[j].kind == "number":  # also in arguments that are not only numbers: range(9999999 | int)
                    largest = max(largest, _float(tokens[j].value))
                if tokens[j].value in (",", ")") and tokens[j].kind == "sign":
                    largest = max(largest, number_in(tokens[begin:j]))
                    begin = j + 1
                if tokens[j].value == ")":
                    break
            yield token, largest


def loops(parts: list[Part]) -> Iterator[Hazard]:
    """Loops over ranges that are too long, by themselves or inside each other."""
    nested: list[float] = []
    looped: list[str] = []
    for part in parts:
        yield from _lengthened(part, looped)
        length = 1.0
        for token, largest in _ranges(part):
            if largest > MANY:
                yield Hazard("loop", token.start, token.stop, "a range")
            length = max(length, largest)
        if part.word == "for":
            nested.append(min(length, MANY) * (nested[-1] if nested else 1.0))
            looped.append(_list_of(part.tokens))
            if length > 1 and nested[-1] > MANY and length <= MANY:
                yield Hazard("loop", part.start, part.stop, "nested ranges")
        elif part.word == "endfor" and nested:
            nested.pop()
            looped.pop()


def _list_of(tokens: tuple[Token, ...]) -> str:
    """The name of the list that a `for` iterates over, if it is a name."""
    at = next((i for i, token in enumerate(tokens) if token.kind == "name" and token.value == "in"), len(tokens))
    ends = at + 2 >= len(tokens) or tokens[at + 2].value in ("if", "recursive")
    return tokens[at + 1].value if ends and at + 1 < len(tokens) and tokens[at + 1].kind == "name" else ""


def _lengthened(part: Part, looped: list[str]) -> Iterator[Hazard]:
    """Lists that grow while a loop iterates over them, and lists that are added to themselves."""
    tokens = part.tokens
    for i in range(len(tokens) - 3):
        name, dot, method, bracket = tokens[i : i + 4]
        if method.value not in ("append", "extend", "insert") or (dot.value, bracket.value) != (".", "("):
            continue
        if name.kind != "name" or (i and tokens[i - 1].value == "."):
            continue
        if name.value in looped[-_NESTED:]:
            yield Hazard("loop", name.start, method.stop, "a list that grows in its own loop")
        elif method.value == "extend" and i + 4 < len(tokens) and tokens[i + 4].value == name.value:
            yield Hazard("loop", name.start, method.stop, "a list that is added to itself")
