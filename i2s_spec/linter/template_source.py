"""This module reads the source of a chat template and tells what in it could do harm; nothing is ever rendered.

A template is cut into text and code as Jinja cuts it, and the code into tokens, by regular expressions that need linear
time. What is found are places: attributes by which templates have left their sandbox, loops that do not end, text that is
given to the model only when a message holds a certain word. Offsets count bytes of the template.

    >>> [hazard.kind for hazard in hazards(b"{{ ''.__class__.__mro__ }}")]
    ['reach', 'reach']
    >>> hazards(b"{% for m in messages %}{{ m['content'] }}{% endfor %}")
    []
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from i2s_spec.linter.template_tokens import Broken, Part, Token, cut

#: What of a template is looked at; the largest of published models has 30 KB, and a longer one has a finding for that.
LOOKED_AT: Final = 1 << 18

#: More turns of a loop, or copies of a text, than any template needs.
MANY: Final = 1_000_000

#: Hazards of one template that are kept.
KEPT: Final = 32


class Hazard(NamedTuple):
    """A place in a template: `reach`, `loop`, `broken` or `trigger`; its bytes; what stands there, in words."""

    kind: str
    start: int
    stop: int
    what: str


#: Attributes without underscores in front that lead out of an object to the interpreter.
_WAYS_OUT: Final = frozenset(
    b"mro func_globals func_code gi_frame gi_code cr_frame cr_code f_globals f_builtins f_locals f_back tb_frame "
    b"co_code format_map".split()
)
#: Names that are functions or modules of the interpreter, never of a conversation.
_INTERPRETER: Final = frozenset(b"eval exec compile getattr globals locals os sys subprocess lipsum".split())
#: What is looked for in texts by which an attribute may be named; also backwards.
_NAMED: Final = re.compile(
    rb"__(?:class|globals|init|subclasses|builtins|import|mro|bases?|getattribute|getattr|dict|code|self|func|loader|"
    rb"reduce|reduce_ex|module|call|getitem|new|spec)__"
)
#: No such name is longer, so that of what was joined no more has to be kept.
_LONGEST_NAME: Final = 32
#: Statements that read other templates.
_READS: Final = frozenset({b"import", b"from", b"include", b"extends"})
_PAIRS: Final = {b"for": b"endfor", b"if": b"endif", b"macro": b"endmacro"}
#: Methods of texts that look for another text.
_SEARCHES: Final = frozenset({b"find", b"index", b"count", b"startswith", b"endswith", b"rfind"})
#: Words that end what is asked of one message.
_ENDS: Final = frozenset({b"and", b"or", b"not", b"else", b"is", b"if"})
_SENTENCE: Final = re.compile(rb"(?<![A-Za-z'])(?:(?:[A-Za-z']{2,}|[AIa])[ ,]+){5,}[A-Za-z']{2,}")
_WORD: Final = re.compile(rb"[A-Za-z][A-Za-z .'-]{2,60}")


def hazards(source: bytes) -> list[Hazard]:
    """What in a template could do harm, at most `KEPT` places of its first `LOOKED_AT` bytes, in their order."""
    source = source[:LOOKED_AT]
    parts: list[Part] = []
    found: list[Hazard] = []
    try:
        for part in cut(source):
            parts.append(part)
    except Broken as broken:
        if len(source) < LOOKED_AT:
            found.append(Hazard("broken", broken.at, min(broken.at + 2, len(source)), broken.what))
    else:
        found += _unpaired(parts) if len(source) < LOOKED_AT else []
    code = [part for part in parts if part.kind != "text"]
    searches = (
        (hazard for part in code for hazard in _reaches(part)),
        (hazard for part in code for hazard in _powers(part)),
        _loops(code),
        _triggers(source, parts),
    )
    for search in searches:
        found += islice(search, KEPT)
    return sorted(set(found), key=lambda hazard: (hazard.start, hazard.kind))[:KEPT]


def _reaches(part: Part) -> Iterator[Hazard]:
    """Attributes, names and statements that lead out of the conversation."""
    tokens = part.tokens
    if part.word in _READS:
        yield Hazard("reach", part.start, part.stop, "reads another template")
    joined, first = b"", None
    for i, token in enumerate(tokens):
        before = tokens[i - 1].value if i and tokens[i - 1].kind == "sign" else b""
        after = tokens[i + 1].value if i + 1 < len(tokens) and tokens[i + 1].kind == "sign" else b""
        what = ""
        if token.kind == "name":
            if before == b"." and (token.value.startswith(b"_") or token.value in _WAYS_OUT):
                what = "an attribute of the interpreter"
            elif before == b"." and token.value == b"format" and after == b"(":
                what = "str.format, by which sandboxes were left"
            elif before == b"|" and token.value == b"attr":
                what = "an attribute that is named by a value"
            elif before != b"." and token.value.startswith(b"__"):
                what = "a name of the interpreter"
            elif before != b"." and token.value in _INTERPRETER and after in (b"(", b"."):
                what = "a function or module of the interpreter"
        if what:
            yield Hazard("reach", token.start, token.stop, what)
        # Texts that are put together: '__cla' ~ 'ss__', and lists of them that are joined.
        if token.kind == "text":
            joined, first = joined[-_LONGEST_NAME:] + token.value, token if first is None else first
            if token.value == b"attr" and i > 1 and tokens[i - 2].value == b"map":
                yield Hazard("reach", token.start, token.stop, "an attribute that is named by a value")
        elif token.value not in (b"~", b"+", b",", b"(", b")"):
            joined, first = b"", None
        if first is not None and (_NAMED.search(joined) or _NAMED.search(joined[::-1])):
            yield Hazard("reach", first.start, token.stop, "the name of an attribute of the interpreter")
            joined, first = b"", None


def _number(tokens: tuple[Token, ...]) -> float:
    """The value of a product or power of numbers, such as `10**9`; 0 for anything else."""
    if not tokens or any(token.kind != "number" for token in tokens[::2]) or len(tokens) % 2 == 0:
        return 0.0
    if any(token.value not in (b"*", b"**", b"+") for token in tokens[1::2]) or len(tokens) > 9:
        return 0.0
    values = [_float(token.value) for token in tokens[::2]]
    signs = [token.value for token in tokens[1::2]]
    for sign in (b"**", b"*", b"+"):
        while sign in signs:
            at = len(signs) - 1 - signs[::-1].index(sign)
            left, right = values[at], values.pop(at + 1)
            signs.pop(at)
            if sign == b"**":
                values[at] = _power(left, right)
            else:
                values[at] = left * right if sign == b"*" else left + right
    return values[0]


def _float(digits: bytes) -> float:
    """A number as it is written; at most infinite."""
    try:
        return float(digits[:400].replace(b"_", b""))
    except ValueError:
        return 0.0


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")


def _powers(part: Part) -> Iterator[Hazard]:
    """Numbers and texts that are made as large as the template likes."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        if token.value == b"**" and token.kind == "sign":
            stop = i + 1
            while stop + 1 < len(tokens) and tokens[stop + 1].value == b"**" and stop - i < 8:
                stop += 2
            if i and _number(tokens[i - 1 : stop + 1]) > 1e18:
                yield Hazard("loop", tokens[i - 1].start, tokens[min(stop, len(tokens) - 1)].stop, "a huge power")
        if token.value == b"*" and token.kind == "sign" and 0 < i < len(tokens) - 1:
            around = tokens[i - 1], tokens[i + 1]
            if {t.kind for t in around} == {"text", "number"}:
                end = i + 2
                while end + 1 < len(tokens) and tokens[end].value in (b"*", b"**") and end - i < 8:
                    end += 2
                number = tokens[i + 1 : end] if around[1].kind == "number" else tokens[i - 1 : i]
                if _number(number) > MANY:
                    yield Hazard("loop", around[0].start, around[1].stop, "a text that is repeated")


def _ranges(part: Part) -> Iterator[tuple[Token, float]]:
    """Every call of range with numbers, and the largest of them."""
    tokens = part.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.value == b"range" and token.kind == "name" and tokens[i + 1].value == b"(":
            largest, begin = 0.0, i + 2
            for j in range(begin, min(len(tokens), begin + 40)):
                if tokens[j].kind == "number":  # also in what is more than numbers: range(9999999 | int)
                    largest = max(largest, _float(tokens[j].value))
                if tokens[j].value in (b",", b")") and tokens[j].kind == "sign":
                    largest = max(largest, _number(tokens[begin:j]))
                    begin = j + 1
                if tokens[j].value == b")":
                    break
            yield token, largest


def _loops(parts: list[Part]) -> Iterator[Hazard]:
    """Loops over ranges that are too long, by themselves or inside each other."""
    nested: list[float] = []
    for part in parts:
        length = 1.0
        for token, largest in _ranges(part):
            if largest > MANY:
                yield Hazard("loop", token.start, token.stop, "a range")
            length = max(length, largest)
        if part.word == b"for":
            nested.append(min(length, MANY) * (nested[-1] if nested else 1.0))
            if length > 1 and nested[-1] > MANY and length <= MANY:
                yield Hazard("loop", part.start, part.stop, "ranges inside each other")
        elif part.word == b"endfor" and nested:
            nested.pop()


def _unpaired(parts: list[Part]) -> list[Hazard]:
    """The first statement that opens or closes a block without the other."""
    ends = {end: word for word, end in _PAIRS.items()}
    opened: list[Part] = []
    for part in parts:
        if part.word in _PAIRS:
            opened.append(part)
        elif part.word in ends:
            if not opened or opened[-1].word != ends[part.word]:
                return [Hazard("broken", part.start, part.stop, "an end without a beginning")]
            opened.pop()
    return [Hazard("broken", opened[-1].start, opened[-1].stop, "a block that does not end")] if opened else []


def _asks_for_a_word(part: Part, contents: set[bytes]) -> bool:
    """Whether a statement asks whether a message holds a word of ordinary language; `contents` name what it says."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        if token.kind != "text" or not _WORD.fullmatch(token.value):
            continue
        asked: Iterable[Token] = ()
        if i + 2 < len(tokens) and tokens[i + 1].value == b"in":  # 'word' in message['content']
            asked = takewhile(lambda t: t.kind != "name" or t.value not in _ENDS, tokens[i + 2 : i + 16])
        elif i > 3 and tokens[i - 1].value == b"(" and tokens[i - 2].value in _SEARCHES:  # content.find('word')
            asked = takewhile(
                lambda t: t.kind != "name" or t.value not in _ENDS, reversed(tokens[max(0, i - 16) : i - 2])
            )
        if any(t.value in contents for t in asked):
            return True
    return False


def _triggers(source: bytes, parts: list[Part]) -> Iterator[Hazard]:
    """Sentences that are given to the model only where a message holds a certain word."""
    depth, asked = 0, list[tuple[int, Part]]()
    said = 0
    contents = {b"content"}
    for part in parts:
        if part.word == b"set" and len(part.tokens) > 1 and any(t.value in contents for t in part.tokens[2:]):
            contents.add(part.tokens[1].value)
        if part.word == b"if":
            depth += 1
        if part.word in (b"if", b"elif") and _asks_for_a_word(part, contents):
            asked.append((depth, part))
        elif part.word in (b"else", b"endif", b"elif"):
            while asked and asked[-1][0] >= depth:
                asked.pop()
        if part.word == b"endif":
            depth = max(0, depth - 1)
        if asked and part.kind != "statement" and said < KEPT:
            texts = [source[part.start : part.stop]] if part.kind == "text" else [
                token.value for token in part.tokens if token.kind == "text"
            ]  # fmt: skip
            if any(_SENTENCE.search(text[:4096]) for text in texts):
                said += 1
                where = asked[-1][1]
                yield Hazard("trigger", where.start, where.stop, "a sentence that a word in a message brings about")
