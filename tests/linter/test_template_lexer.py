"""A template is split into tokens as Jinja's own lexer does it, whatever blanks, digits and escapes it contains."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import event, example, given
from hypothesis import strategies as st

from i2s_spec.linter.analysis.template.lexer import Broken, Token, cut

jinja2 = pytest.importorskip("jinja2")

#: What templates are made of: marks, blanks of Unicode, numbers in all forms, texts with all escapes.
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
def test_as_jinja_cuts(source: str) -> None:
    try:
        wanted = jinjas(source)
    except (
        jinja2.TemplateSyntaxError,
        SyntaxError,
    ):  # the latter is Python's, for digits of other scripts in a fraction
        return
    try:
        found = ours(source)
    except Broken:
        # Jinja's lexer leaves it to its parser to miss the end of a piece of code; the end of a text, it misses itself.
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
