"""This module reads the source of a chat template and finds what could do harm; nothing is ever rendered.

A template is split into text and code as Jinja does it, and the code into tokens, in linear time. The results are
positions of hazards: attributes by which templates have left their sandbox, loops that do not end, text that the model
gets only when a message contains a certain word. Positions are bytes of the template.

    >>> [hazard.kind for hazard in hazards(b"{{ ''.__class__.__mro__ }}")]
    ['reach', 'reach']
    >>> hazards(b"{% for m in messages %}{{ m['content'] }}{% endfor %}")
    []
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Final

from i2s_spec.linter.analysis.template.computed import computed_names, grown, leads_out, recursions
from i2s_spec.linter.analysis.template.lexer import Broken, Hazard, Part, Token, cut
from i2s_spec.linter.analysis.template.loops import loops, powers

#: How much of a template is examined. The largest of published models has 30 KB; a longer one gets a finding for that.
LOOKED_AT: Final = 1 << 18

#: Most hazards of one template that each search reports.
MOST_HAZARDS: Final = 32


#: Functions and modules of the interpreter that no conversation uses as names.
_INTERPRETER: Final = frozenset(
    {"eval", "exec", "compile", "getattr", "globals", "locals", "os", "sys", "subprocess", "lipsum"}
)
#: Parts of dangerous attribute names that are searched in texts, in any case (filters change it) and also reversed.
#: Subscripts reach attributes, too; and a generator, which many filters return, leads to the interpreter without
#: underscores.
_NAMED: Final = re.compile(
    r"(?i)__[A-Z]\w{0,28}?__|(?:gi|cr|ag|tb)_frame|f_(?:globals|builtins|locals)|func_(?:globals|code)"
)
#: Texts of ASCII without any of these, in small letters, name none of them: most texts, which then need no expression.
_PARTS_OF_NAMES: Final = ("__", "_frame", "f_globals", "f_builtins", "f_locals", "func_")
#: No such name is longer, so no more of a joined text must be remembered.
_LONGEST_NAME: Final = 32
#: Statements that read other templates.
_READS: Final = frozenset({"import", "from", "include", "extends"})
_PAIRS: Final = {"for": "endfor", "if": "endif", "macro": "endmacro"}
#: String methods that search for another text.
_SEARCHES: Final = frozenset({"find", "index", "count", "startswith", "endswith", "rfind"})
#: Keywords that end the condition on one message.
_ENDS: Final = frozenset({"and", "or", "not", "else", "is", "if"})
_SENTENCE: Final = re.compile(r"(?<![A-Za-z'])(?:(?:[A-Za-z']{2,}|[AIa])[ ,]+){5,}[A-Za-z']{2,}")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OF_WORDS: Final = _LETTERS + " .'-"


def hazards(source: bytes) -> list[Hazard]:
    """The hazards in the first `LOOKED_AT` bytes of a template, in their order; of each kind only the first ones."""
    whole, text = len(source) <= LOOKED_AT, source[:LOOKED_AT].decode("utf-8", "surrogateescape")
    found = _found(text, whole)
    if text.isascii():
        return found
    return [hazard._replace(start=_bytes(text, hazard.start), stop=_bytes(text, hazard.stop)) for hazard in found]


def _bytes(text: str, count: int) -> int:
    """The number of bytes of the first characters of a text."""
    return len(text[:count].encode("utf-8", "surrogateescape"))


def _found(source: str, whole: bool) -> list[Hazard]:
    """The hazards of a template, with positions in characters; if only a part is examined, nothing is reported as
    broken."""
    parts: list[Part] = []
    found: list[Hazard] = []
    try:
        for part in cut(source):
            parts.append(part)
    except Broken as broken:
        if whole:
            found.append(Hazard("broken", broken.at, min(broken.at + 2, len(source)), broken.what))
    else:
        found += _unpaired(parts) if whole else []
    code = [part for part in parts if part.kind != "text"]
    searches = (
        (hazard for part in code for hazard in _reaches(part)),
        (hazard for part in code for hazard in powers(part)),
        loops(code),
        (hazard for part in code for hazard in grown(part)),
        recursions(code),
        _triggers(source, parts),
    )
    for search in searches:
        found += islice(search, MOST_HAZARDS)
    return sorted(
        set(found), key=lambda hazard: (hazard.start, hazard.kind)
    )  # search for all kinds, so that one kind does not hide another


def _reaches(part: Part) -> Iterator[Hazard]:
    """Attributes, names and statements that lead out of the conversation."""
    tokens = part.tokens
    if part.word in _READS:
        yield Hazard("reach", part.start, part.stop, "reads another template")
    joined, first = "", None
    yield from computed_names(part)
    for i, token in enumerate(tokens):
        before = tokens[i - 1].value if i and tokens[i - 1].kind == "sign" else ""
        after = tokens[i + 1].value if i + 1 < len(tokens) and tokens[i + 1].kind == "sign" else ""
        what = ""
        if token.kind == "name":
            if before == "." and leads_out(token.value):
                what = "an attribute of the interpreter"
            elif before == "." and token.value == "format" and after == "(":
                what = "str.format, which has been used to leave sandboxes"
            elif before == "|" and token.value == "attr":
                what = "an attribute that is named by a value"
            elif before != "." and token.value.startswith("__"):
                what = "a name of the interpreter"
            elif before != "." and token.value in _INTERPRETER and after in ("(", "."):
                what = "a function or module of the interpreter"
        if what:
            yield Hazard("reach", token.start, token.stop, what)
        # Joined texts: '__cla' ~ 'ss__', and lists of texts that are joined.
        if token.kind == "text":
            joined, first = joined[-_LONGEST_NAME:] + token.value, token if first is None else first
            if token.value == "attr" and i > 1 and tokens[i - 2].value == "map":
                yield Hazard("reach", token.start, token.stop, "an attribute that is named by a value")
        elif token.value not in ("~", "+", ",", "(", ")"):
            joined, first = "", None
        if first is not None and "_" in joined and (_names_attribute(joined) or _names_attribute(joined[::-1])):
            yield Hazard("reach", first.start, token.stop, "the name of an attribute of the interpreter")
            joined, first = "", None


def _names_attribute(text: str) -> bool:
    """Whether a text names an attribute of the interpreter."""
    small = text.lower()
    if text.isascii() and not any(part in small for part in _PARTS_OF_NAMES):
        return False
    return _NAMED.search(text) is not None


def _is_word(text: str) -> bool:
    """Whether a text is a word of ordinary language, or some: 3 to 61 characters, the first of them a letter."""
    return 3 <= len(text) <= 61 and text[0] in _LETTERS and not text.strip(_OF_WORDS)


def _unpaired(parts: list[Part]) -> list[Hazard]:
    """The first statement that opens a block without closing it, or closes one that is not open."""
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


def _asks_for_a_word(part: Part, contents: set[str]) -> bool:
    """Whether a statement tests for an ordinary word in a message; `contents` are names for the message's content."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        if token.kind != "text" or not _is_word(token.value):
            continue
        asked: Iterable[Token] = ()
        if i + 2 < len(tokens) and tokens[i + 1].value == "in":  # 'word' in message['content']
            asked = takewhile(lambda t: t.kind != "name" or t.value not in _ENDS, tokens[i + 2 : i + 16])
        elif i > 3 and tokens[i - 1].value == "(" and tokens[i - 2].value in _SEARCHES:  # content.find('word')
            asked = takewhile(
                lambda t: t.kind != "name" or t.value not in _ENDS, reversed(tokens[max(0, i - 16) : i - 2])
            )
        if any(t.value in contents for t in asked):
            return True
    return False


def _triggers(source: str, parts: list[Part]) -> Iterator[Hazard]:
    """Sentences that the model gets only if a message contains a certain word."""
    depth, asked = 0, list[tuple[int, Part]]()
    stated = 0
    contents = {"content"}
    for part in parts:
        if part.word == "set" and len(part.tokens) > 1 and any(t.value in contents for t in part.tokens[2:]):
            contents.add(part.tokens[1].value)
        if part.word == "if":
            depth += 1
        if part.word in ("if", "elif") and _asks_for_a_word(part, contents):
            asked.append((depth, part))
        elif part.word in ("else", "endif", "elif"):
            while asked and asked[-1][0] >= depth:
                asked.pop()
        if part.word == "endif":
            depth = max(0, depth - 1)
        if asked and part.kind != "statement" and stated < MOST_HAZARDS:
            texts = [source[part.start : part.stop]] if part.kind == "text" else [
                token.value for token in part.tokens if token.kind == "text"
            ]  # fmt: skip
            if any(_SENTENCE.search(text[:4096]) for text in texts):
                stated += 1
                where = asked[-1][1]
                yield Hazard(
                    "trigger",
                    where.start,
                    where.stop,
                    "a sentence that appears only if a message contains a certain word",
                )
