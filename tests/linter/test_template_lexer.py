"""A template is split into tokens as Jinja's own lexer does it, whatever blanks, digits and escapes it contains."""

from __future__ import annotations

import re
import unicodedata

import pytest
from examples import examples
from hypothesis import event, example, given
from hypothesis import strategies as st

from i2s_spec.linter.analysis.template_hazards import _NAMED, _is_word, _names_attribute
from i2s_spec.linter.analysis.template_lexer import Broken, Token, _token, _unescaped, cut
from i2s_spec.linter.rules.template import _PATH, _path
from i2s_spec.linter.rules.tokenizer import _markers

jinja2 = pytest.importorskip("jinja2")

#: Parts of templates: delimiters, Unicode white space, all forms of numbers, strings with all escapes.
PIECES = [
    "{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "-%}", "+%}", "-}}", "{{-", "{%-", "{%+", " ", "\n", "\r\n", "\r",
    "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "x", "_", "raw", "endraw", "{% raw %}", "{%- endraw +%}", "for", "é", "名",
    ".", "[", "]", "(", ")", "{", "}", "|", "~", "*", "**", "//", "/", "==", "!=", "<=", ">", "=", ":", ",", "%",
    "0x_ff", "0b1", "0O7", "1_000", "12", "1.5e-3", "1e9", "007", "9\u0669", "1.", ".5", "1.2.3",
    "'a'", '"b"', "'\\x5f'", "'\\u005f'", "'\\U0000005f_'", "'\\N{LOW LINE}_'",
    "'a\\\nb'", "'\\137\\q\\''", "'\r\n'", "'é\\\\'",
    "'\\777'", "'", '"',
]  # fmt: skip
INSIDE = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
CODE = st.sampled_from(["{{%s}}", "{%%%s%%}", "{%%-%s-%%}", "{{- %s -}}", "%s", "a{#%s#}b"])
TEMPLATES = st.lists(st.tuples(CODE, INSIDE).map(lambda pair: pair[0] % pair[1]), max_size=4).map("".join)


#: The regular expressions that `_token` and `_unescaped` replace. Compiling them takes longer than tokenizing most
#: templates.
TOKEN = re.compile(
    r"""(?xs)(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)
        |0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*)
    |(?P<name>\w+)
    |(?P<sign>\*\*|//|[=!<>]=|.)""",
)
ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|N\{([^}]{1,100})\}|([\nabfnrtv\\'\"]))"
)
PLAIN = {"\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
#: Characters that decide between tokens or escapes.
TELLING = st.text("019_.eExXbBoOaF+-*/=!<> \n\u3000\u0669é'\"\\#{}%(uUN7", max_size=24)


def plain(match: re.Match[str]) -> str:
    two, four, eight, octal, name, other = match.groups()
    if other is not None:
        return PLAIN.get(other, other)
    if name is not None:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            return match[0]
    number = int(two or four or eight or octal, 8 if octal else 16)
    return chr(number) if number < 0x110000 else match[0]


@example("0x_fg 1_0.5e+3_0 1.e5 0b2 0o_7_8 0_0_1 1__2 .5 1.2.3 9\u0669 \u0669.5 1e 1.5E-")
@given(TELLING)
@examples(2000)
def test_tokens_are_those_of_the_expression(source: str) -> None:
    source = "{{" + source
    for at in range(2, len(source)):
        match = TOKEN.match(source, at)
        assert match is not None
        assert _token(source, at) == (match.lastgroup, match.end())


@example("\\x4\\x41\\u41\\u00412\\U00110000\\U0000005f\\8\\777\\12\\N{}\\N{LOW LINE}\\N{NO}\\N{DIGIT ONE\\q\\")
@example("\\N{" + 100 * "x" + "}\\N{" + 101 * "x" + "}")
@given(
    st.lists(TELLING | st.sampled_from(["\\", "\\N{LOW LINE}", "\\N{", "\\x5", "\\U0000005", "\r\n", "\r"])).map(
        "".join
    )
)
@examples(1000)
def test_escapes_are_those_of_the_expression(text: str) -> None:
    assert _unescaped(text) == ESCAPE.sub(plain, re.sub("\r\n|\r|\n", "\n", text))


NAMES = [
    "_",
    "__",
    "a",
    "Z9",
    "gi",
    "_frame",
    "_FRAME",
    "f_",
    "globals",
    "Builtins",
    "func_",
    "code",
    "\u017f",
    "\u212a",
]


@example(["f_", "builtin\u017f"])
@given(st.lists(st.sampled_from(NAMES), max_size=6))
@examples(300)
def test_attributes_are_those_of_the_expression(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert _names_attribute(text) == (re.search(_NAMED, text) is not None)


@given(st.text("azAZ .'-1é\n", max_size=5) | st.integers(58, 64).map(lambda count: "a" * count))
@examples(300)
def test_words_are_those_of_the_expression(text: str) -> None:
    assert _is_word(text) == (re.fullmatch(r"[A-Za-z][A-Za-z .'-]{2,60}", text) is not None)


@given(
    st.lists(st.sampled_from([b"/", b"home", b"etc/", b"../", b"..", b"C", b":\\", b"x", b" "]), max_size=6).map(
        b"".join
    )
)
@examples(300)
def test_paths_are_those_of_the_expression(data: bytes) -> None:
    found, wanted = _path(data), re.search(_PATH, data)
    assert (found and found.span()) == (wanted and wanted.span())


MARKS = [b"<|", b"|>", b"|", b"<", b">", b"a", b"a_9", b"9", b"_", "é".encode(), b"b" * 38, b"c" * 40]


@given(st.lists(st.sampled_from(MARKS), max_size=10).map(b"".join))
@examples(600)
def test_markers_are_those_of_the_expression(data: bytes) -> None:
    wanted = [(found.start(), found[0]) for found in re.finditer(rb"<\|[A-Za-z][A-Za-z0-9_]{1,40}\|>", data)]
    assert list(_markers(data)) == wanted


def number(token: Token) -> object:
    digits = token.value.replace("_", "")
    if digits.isdecimal():
        return int(digits)
    return int(digits, 0) if digits[:2].lower() in ("0x", "0b", "0o") else float(digits)


def ours(source: str) -> tuple[str, list[list[object]]]:
    """The text that is given out without its blanks, and what is in each piece of code."""
    parts = list(cut(source))
    text = "".join(source[part.start : part.stop] for part in parts if part.kind == "text")
    code = [
        [number(token) if token.kind == "number" else token.value for token in part.tokens]
        for part in parts
        if part.kind != "text" and not (part.word == "raw" and len(part.tokens) == 1)
    ]
    return "".join(text.split()), code


def jinjas(source: str) -> tuple[str, list[list[object]]]:
    text, code = "", list[list[object]]()
    for token in jinja2.Environment().lexer.tokenize(source):
        if token.type == "data":
            text += token.value
        elif token.type in ("variable_begin", "block_begin"):
            code.append([])
        elif token.type not in ("variable_end", "block_end"):
            code[-1].append(token.value)
    return "".join(text.split()), code


@example("{{ cycler.\u00a0__init__.\u3000__globals__ }}")
@example("{%\u00a0include 'x'%}")
@example("{{ '\\U0000005f_init__' ~ '\\N{LOW LINE}_globals__' ~ '__in\\\nit__' }}")
@example("{{ a[0x_ff] + 1_0.5e3 +}}b{% raw %}{{ x }}{% endraw +%}")
@given(TEMPLATES)
@examples(1200)
def test_tokens_are_those_of_jinja(source: str) -> None:
    try:
        wanted = jinjas(source)
    except (
        jinja2.TemplateSyntaxError,
        SyntaxError,
    ):  # Python raises the latter for non-ASCII digits of a fraction
        return
    try:
        found = ours(source)
    except Broken:
        # Jinja reports an unclosed block in its parser, and an unclosed string in its lexer.
        with pytest.raises(jinja2.TemplateSyntaxError):
            jinja2.Environment().parse(source)
        return
    event(f"{sum(map(len, wanted[1])) > 3}")
    assert found == wanted


@given(st.text(max_size=60), st.binary(max_size=30))
@examples(100)
def test_any_text_gets_an_answer(source: str, rest: bytes) -> None:
    source = "{{ '" + source + rest.decode("utf-8", "surrogateescape")
    try:
        for part in cut(source):
            assert 0 <= part.start < part.stop <= len(source)
    except Broken as broken:
        at = broken.at
    else:
        return
    assert 0 <= at <= len(source)
