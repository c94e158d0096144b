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
from typing import Final

from i2s_spec.linter.template_loops import loops, powers
from i2s_spec.linter.template_tokens import Broken, Hazard, Part, Token, cut

#: What of a template is looked at; the largest of published models has 30 KB, and a longer one has a finding for that.
LOOKED_AT: Final = 1 << 18

#: Hazards of one template that are kept.
KEPT: Final = 32


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
        (hazard for part in code for hazard in powers(part)),
        loops(code),
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
