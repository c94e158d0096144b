"""Hazards in the source of a chat template: what could do harm; nothing is ever rendered.

A template is split into text and code as Jinja does it, and the code into tokens (`template_lexer`), in linear time.
The results are positions of hazards: attributes by which templates have left their sandbox, names that are computed,
texts that grow, macros that call themselves, loops that do not end, text that the model gets only when a message
contains a certain word. Positions are bytes of the template.

    >>> [hazard.kind for hazard in hazards(b"{{ ''.__class__.__mro__ }}")]
    ['reach', 'reach']
    >>> hazards(b"{% for m in messages %}{{ m['content'] }}{% endfor %}")
    []
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Final

from i2s_spec.linter.analysis.template_lexer import Broken, Hazard, Part, Token, cut

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
_NAMED: Final = r"(?i)__[A-Z]\w{0,28}?__|(?:gi|cr|ag|tb)_frame|f_(?:globals|builtins|locals)|func_(?:globals|code)"
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
_SENTENCE: Final = r"(?<![A-Za-z'])(?:(?:[A-Za-z']{2,}|[AIa])[ ,]+){5,}[A-Za-z']{2,}"
#: A text for str.format whose places name at most a value, and say how it is written in at most two digits.
_PLACES: Final = r"(?s)(?:[^{}]|\{\{|\}\}|\{\w*(?:![rsa])?(?::[^{}\d]{0,4}\d{0,2}(?:\.\d{1,2})?[^{}\d]?)?\})*+"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Characters that nobody sees: soft hyphen, zero-width and directional marks, tags, spare variation selectors.
_UNSEEN: Final = "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ff]"
#: Marks of turns, as vocabularies write them.
_MARK: Final = r"<\|\w{1,40}\|>|</?s>|\[/?(?:INST|SYS)\]|<(?:start|end)_of_turn>|<(?:bos|eos)>"
_COMPARES: Final = frozenset(
    {"<", ">", "<=", ">=", "==", "!=", "in", "startswith", "endswith", "find", "eq", "gt", "lt"}
)
#: Idioms of injected instructions, and words of which each has one. That calls of functions stay unmentioned is usual.
_IDIOM_WORDS: Final = (
    "ignore",
    "disregard",
    "forget",
    "secretly",
    "silently",
    "the user",
    "users",
    "anyone",
    "anybody",
)
_WHOM: Final = r"(?:the )?(?:users?|people|anyone|anybody|person)\b"
_IDIOMS: Final = (
    r"(?i)\b(?:ignore|disregard|forget) (?:all |any |everything )?(?:of )?(?:the |your |my |these )?"
    r"(?:previous|prior|earlier|above|preceding|system) (?:instruction|message|prompt|rule|direction)"
    rf"|\b(?:do not|don't|never|without|must not|not) (?:tell|inform|warn|alert|notify)(?:ing)? {_WHOM}"
    r"(?! about (?:function|tool))"
    r"|\b(?:secretly|silently) (?:add|insert|append|include|send|recommend|replace|change)"
)
_OF_WORDS: Final = _LETTERS + " .'-"


def hazards(source: bytes) -> list[Hazard]:
    """Return the hazards in the first `LOOKED_AT` bytes of a template, in their order; of each kind only the first
    ones.
    """
    whole, text = len(source) <= LOOKED_AT, source[:LOOKED_AT].decode("utf-8", "surrogateescape")
    found = _found(text, whole)
    if text.isascii():
        return found
    return [hazard._replace(start=_bytes(text, hazard.start), stop=_bytes(text, hazard.stop)) for hazard in found]


def _bytes(text: str, count: int) -> int:
    """Return the number of bytes of the first characters of a text."""
    return len(text[:count].encode("utf-8", "surrogateescape"))


def _found(source: str, whole: bool) -> list[Hazard]:
    """Return the hazards of a template, with positions in characters; if only a part is examined, nothing is
    reported as broken."""
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
        multiplied(code),
        _triggers(source, parts),
        _escaped(source, code if "\\" in source else []),
        _gates(code if any(name in source for name in _DATES) else []),  # few templates have one
        _instructions(source, parts),
    )
    for search in searches:
        found += islice(search, MOST_HAZARDS)
    return sorted(
        set(found), key=lambda hazard: (hazard.start, hazard.kind)
    )  # search for all kinds, so that one kind does not hide another


def _reaches(part: Part) -> Iterator[Hazard]:
    """Yield attributes, names and statements that lead out of the conversation."""
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
            elif before == "." and token.value == "format" and _called_format(tokens, i):
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


def _called_format(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether str.format is called, or taken from a text, and its text does more than to name values."""
    first = at - 1
    while first and tokens[first - 1].kind == "text":  # Jinja joins texts that follow each other
        first -= 1
    if first == at - 1:
        return _value(tokens, at + 1) == "("
    return re.fullmatch(_PLACES, "".join(token.value for token in tokens[first : at - 1])) is None


def _names_attribute(text: str) -> bool:
    """Whether a text names an attribute of the interpreter."""
    small = text.lower()
    if text.isascii() and not any(part in small for part in _PARTS_OF_NAMES):
        return False
    return re.search(_NAMED, text) is not None


def _is_word(text: str) -> bool:
    """Whether a text is a word of ordinary language, or some: 3 to 61 characters, the first of them a letter."""
    return 3 <= len(text) <= 61 and text[0] in _LETTERS and not text.strip(_OF_WORDS)


def _unpaired(parts: list[Part]) -> list[Hazard]:
    """Return the first statement that opens a block without closing it, or closes one that is not open."""
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


#: An expression as the values of its tokens, such as `message`, `.`, `content`.
_Expression = tuple[str, ...]


def _spelled(tokens: Iterable[Token]) -> _Expression:
    return tuple(f"'{token.value}'" if token.kind == "text" else token.value for token in tokens)


def _mappings(part: Part) -> set[_Expression]:
    """Return the names that a condition requires to be mappings: `x is mapping`, joined to the rest by nothing but `and`."""
    required, operand, depth = set[_Expression](), list[str](), 0
    for token in (*part.tokens[1:], Token("name", 0, 0, "and")):
        depth += token.kind == "sign" and token.value in _OPEN
        depth -= token.kind == "sign" and token.value in ")]}"
        if token.kind != "name" or depth or token.value not in ("and", "or"):
            operand += _spelled((token,))
            continue
        if token.value == "or":
            return set()
        if operand[-2:] == ["is", "mapping"] and len(operand) < _MOST and len(required) < _NESTED:
            required.add(tuple(operand[:-2]))
        operand = []
    return required


def _asks_for_a_word(part: Part, contents: set[str], mappings: set[_Expression]) -> bool:
    """Whether a statement tests for an ordinary word in a message.

    :param contents: names for the message's content
    :param mappings: what is a mapping here, in which a word is the name of a field
    """
    tokens = part.tokens
    for i, token in enumerate(tokens):
        if token.kind != "text" or not _is_word(token.value):
            continue
        asked: Iterable[Token] = ()
        if i + 2 < len(tokens) and tokens[i + 1].value == "in":  # 'word' in message['content']
            rest = _spelled(tokens[i + 2 : i + 2 + _MOST]) if mappings else ()
            if any((*rest, "and")[: len(each) + 1] in ((*each, "and"), (*each, ")")) for each in mappings):
                continue
            asked = takewhile(lambda t: t.kind != "name" or t.value not in _ENDS, tokens[i + 2 : i + 16])
        elif i > 3 and tokens[i - 1].value == "(" and tokens[i - 2].value in _SEARCHES:  # content.find('word')
            asked = takewhile(
                lambda t: t.kind != "name" or t.value not in _ENDS, reversed(tokens[max(0, i - 16) : i - 2])
            )
        if any(t.value in contents for t in asked):
            return True
    return False


def _triggers(source: str, parts: list[Part]) -> Iterator[Hazard]:
    """Yield sentences that the model gets only if a message contains a certain word."""
    depth, asked = 0, list[tuple[int, Part]]()
    stated = 0
    contents = {"content"}
    mappings: list[tuple[int, set[_Expression]]] = []  # of each open `if`, with how many names were set before it
    names = 0
    for part in parts:
        if part.word in ("set", "for", "macro") and len(part.tokens) > 1:
            if part.word == "set" and any(t.value in contents for t in part.tokens[2:]):
                contents.add(part.tokens[1].value)
            names += 1
        if part.word == "if":
            depth += 1
            mappings.append((names, set()))
        if part.word in ("if", "elif", "else") and mappings:
            mappings[-1] = names, _mappings(part) if part.word != "else" else set()
        known = set[_Expression]().union(*(each for at, each in mappings[-_NESTED:] if at == names))
        if part.word in ("if", "elif") and _asks_for_a_word(part, contents, known):
            asked.append((depth, part))
        elif part.word in ("else", "endif", "elif"):
            while asked and asked[-1][0] >= depth:
                asked.pop()
        if part.word == "endif":
            depth = max(0, depth - 1)
            del mappings[-1:]
        if asked and part.kind != "statement" and stated < MOST_HAZARDS:
            texts = [source[part.start : part.stop]] if part.kind == "text" else [
                token.value for token in part.tokens if token.kind == "text"
            ]  # fmt: skip
            if any(re.search(_SENTENCE, text[:4096]) for text in texts):
                stated += 1
                where = asked[-1][1]
                yield Hazard(
                    "trigger",
                    where.start,
                    where.stop,
                    "a sentence that appears only if a message contains a certain word",
                )


def _escaped(source: str, code: list[Part]) -> Iterator[Hazard]:
    """Yield texts whose escapes stand for characters that are not seen, or for the marks of a turn."""
    for part in code:
        for token in part.tokens:
            written = source[token.start : token.stop]
            if token.kind != "text" or "\\" not in written:
                continue
            if len(re.findall(_UNSEEN, token.value)) > len(re.findall(_UNSEEN, written)):
                yield Hazard("unseen", token.start, token.stop, "invisible characters")
            marks = re.findall(_MARK, token.value)
            if len(marks) > len(re.findall(_MARK, written)):
                yield Hazard("mark", token.start, token.stop, "a control token")


#: Names that stand for the date of today.
_DATES: Final = ("date_string", "strftime_now")


def _gates(code: list[Part]) -> Iterator[Hazard]:
    """Yield conditions that compare the date with something."""
    dates = set(_DATES)
    for part in code:
        tokens = part.tokens
        if part.word == "set" and len(tokens) > 1 and any(token.value == "strftime_now" for token in tokens[2:]):
            dates.add(tokens[1].value)
        for i, token in enumerate(tokens):
            if token.kind != "name" or token.value not in ("if", "elif"):
                continue
            asked = list(takewhile(lambda t: t.kind != "name" or t.value != "else", tokens[i + 1 : i + 1 + _MOST]))
            named = any(t.kind == "name" and t.value in dates for t in asked)
            compared = any(t.value in _COMPARES and t.kind != "text" for t in asked)
            with_date = any(t.kind == "number" or (t.kind == "text" and t.value and "%" not in t.value) for t in asked)
            if named and compared and with_date:
                yield Hazard("gate", token.start, asked[-1].stop, "a condition that depends on the date")


def _instructions(source: str, parts: list[Part]) -> Iterator[Hazard]:
    """Yield sentences that tell the model to pass over its instructions, or to keep something from the user."""
    for part in parts:
        pieces = [(part.start, 0, source[part.start : part.stop])] if part.kind == "text" else [
            (token.start, token.stop - token.start, token.value) for token in part.tokens if token.kind == "text"
        ]  # fmt: skip
        for start, length, text in pieces:
            small = text.lower()
            found = re.search(_IDIOMS, text) if any(word in small for word in _IDIOM_WORDS) else None
            if found is not None:
                begin = start + found.start() if part.kind == "text" else start
                stop = start + found.end() if part.kind == "text" else start + length
                yield Hazard("idiom", begin, stop, "an instruction that overrides others or is kept from the user")


# --- computed names, growing texts, recursive macros -----------------------------------------------------------------
# A computed name may be any name, and a growing text may reach any size. Neither proves harm, and a template without them
# may still do harm in other ways. No chat template needs them.

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
_STARRED: Final = r"%[#0 +.\d-]*\*"


def computed_names(part: Part) -> Iterator[Hazard]:
    """Yield subscripts and names of attributes that the template computes."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        if token.kind == "sign" and token.value == "[" and before is not None and _is_value(tokens, i - 1):
            inner = _inner(tokens, i)
            if _is_slice(inner):  # of a text or a list; what its bounds compute names nothing
                pass
            elif _is_computed(inner):
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
    """Return the fault of an argument that names an attribute: it is a value, or leads to the interpreter."""
    if not _one_text(tokens, at):
        yield Hazard("reach", tokens[i].start, tokens[i].stop, "an attribute named by a value")
    elif leads_out(tokens[at].value):
        yield Hazard("reach", tokens[at].start, tokens[at].stop, "the name of an attribute of the interpreter")


def _argument(inner: list[Token], place: int) -> list[Token]:
    """Return the tokens of a positional argument, with the sign after it; empty if there are fewer arguments."""
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
    """Return the tokens in a bracket, including the closing one; at most the first `_MOST`."""
    depth, inner = 0, []
    for token in tokens[start : start + _MOST]:
        if token.kind == "sign":
            depth += token.value in _OPEN
            depth -= token.value in ")]}"
        inner.append(token)
        if not depth:
            break
    return inner[1:] or inner


def _is_slice(inner: list[Token]) -> bool:
    """Whether a subscript is a slice: a colon in it belongs to no inner bracket."""
    depth = 0
    for token in inner[:-1]:
        sign = token.value if token.kind == "sign" else ""
        depth += (sign in _OPEN) - (sign in (")", "]", "}"))
        if sign == ":" and not depth:
            return True
    return False


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
    """Yield texts that are padded to a width, by a number or a format, and texts that are joined to themselves."""
    tokens = part.tokens
    for i, token in enumerate(tokens):
        called = token.kind == "name" and token.value in _WIDENS and _value(tokens, i + 1) == "(" and i
        if called and tokens[i - 1].value in (".", "|", "filter") and _largest(_inner(tokens, i + 1)) > MANY:
            yield Hazard("loop", token.start, token.stop, "a width")
        if token.kind == "text" and "%" in token.value:
            starred = _value(tokens, i + 1) in ("|", "%") and re.search(_STARRED, token.value)
            if _width(token.value) > MANY or (starred and _largest(list(tokens[i + 2 : i + 2 + _MOST])) > MANY):
                yield Hazard("loop", token.start, token.stop, "a width")
    if part.word == "set":
        yield from _doubled(part)


def _has(expression: _Expression, name: _Expression) -> bool:
    """Whether a name occurs in an expression, not as a member of something else."""
    last = len(expression) - len(name) + 1
    return any(expression[i : i + len(name)] == name and expression[i - 1 : i] != (".",) for i in range(last))


def multiplied(parts: list[Part]) -> Iterator[Hazard]:
    """Yield texts in which a filter or a method puts copies of a text in its place, so often that they become huge."""
    sizes: dict[str, float] = {}
    loops = 0
    for part in parts:
        loops += (part.word == "for") - (part.word == "endfor")
        times, tokens = 1.0, part.tokens
        for i, token in enumerate(tokens[:-5]):
            called = token.value == "replace" and token.kind == "name" and i and tokens[i - 1].value in ("|", ".")
            old, comma, new = tokens[i + 2 : i + 5]
            if called and _value(tokens, i + 1) == "(" and (old.kind, comma.value, new.kind) == ("text", ",", "text"):
                copies = new.value.count(old.value) if old.value else len(new.value)
                times = min(times * max(1, copies), float(MANY + 1))
        if times == 1:
            continue
        equals = next((i for i, token in enumerate(tokens[:_MOST]) if token.value == "=" and token.kind == "sign"), 0)
        name = "".join(_spelled(tokens[1:equals])) if part.word == "set" else ""
        if name and _has(_spelled(tokens[equals:]), _spelled(tokens[1:equals])):
            # A member of a namespace keeps its value from one turn of a loop to the next.
            times = sizes[name] = MANY + 1 if loops > 0 and "." in name else min(times * sizes.get(name, 1.0), MANY + 1)
        if times > MANY:
            yield Hazard("loop", part.start, part.stop, "a text that is replaced by copies of itself")


def _largest(arguments: list[Token]) -> float:
    """Return the largest number among the arguments of a call."""
    largest, begin = 0.0, 0
    for i, token in enumerate(arguments):
        if token.kind == "sign" and token.value in (",", ")", "="):
            largest, begin = max(largest, number_in(tuple(arguments[begin:i]))), i + 1
        elif token.kind == "number":
            largest = max(largest, number_in((token,)))
    return largest


def _width(text: str) -> int:
    """Return the largest width in a text that is used as a format."""
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
    """Yield a name that is set to itself joined to itself."""
    values = [token.value for token in part.tokens[: 2 * _MOST]]
    signs = [token.value if token.kind == "sign" else "" for token in part.tokens[: 2 * _MOST]]
    if "=" not in signs:
        return
    at = signs.index("=")
    name, rest = values[1:at], values[at + 1 :]
    joins, count = {"~", "+"}, 0
    if "join" in rest:  # a list of a text and itself, or copies of a list of it
        joins |= {",", "["}
        count = int("*" in rest)
    for i in range(len(rest) - len(name) + 1):
        if name and rest[i : i + len(name)] == name:
            before = rest[i - 1] if i else ""
            after = rest[i + len(name)] if i + len(name) < len(rest) else ""
            whole = before not in (".", "'") and after not in (".", "[", "(")
            count += whole and bool({before, after} & joins)
    if count > 1:
        yield Hazard("loop", part.start, part.stop, "a text that is joined to itself")


def recursions(parts: list[Part]) -> Iterator[Hazard]:
    """Yield macros that call themselves without data of the conversation, so that only a counter ends the recursion."""
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


# --- loops, powers and repeated texts --------------------------------------------------------------------------------
# Each could take unbounded time or memory.

#: How many nested loops are remembered with their lists.
_NESTED: Final = 16
#: Most tokens of a list that are examined, and words that can precede a list.
_LONGEST_LIST: Final = 64
_BEFORE_LISTS: Final = frozenset({"in", "if", "else", "and", "or", "not", "is", "set", "return"})
#: More iterations of a loop, or copies of a text, than any template needs.
MANY: Final = 1_000_000


def number_in(tokens: tuple[Token, ...]) -> float:
    """Return the value of a product or power of numbers, such as `10**9`; 0 for anything else."""
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
    """Return the value of a number; infinity if it is too large."""
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
    """Yield numbers and texts that the template can make arbitrarily large."""
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
    """Yield every call of range with numbers, and the largest of them."""
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
    """Yield loops over ranges that are too long, by themselves or inside each other."""
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
    """Return the name of the list that a `for` iterates over, if it is a name."""
    at = next((i for i, token in enumerate(tokens) if token.kind == "name" and token.value == "in"), len(tokens))
    ends = at + 2 >= len(tokens) or tokens[at + 2].value in ("if", "recursive")
    return tokens[at + 1].value if ends and at + 1 < len(tokens) and tokens[at + 1].kind == "name" else ""


def _lengthened(part: Part, looped: list[str]) -> Iterator[Hazard]:
    """Yield lists that grow while a loop iterates over them, and lists that are added to themselves."""
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
