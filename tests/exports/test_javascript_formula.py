"""The index arithmetic gives the same results in every language."""

from __future__ import annotations

import ast

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.exports import javascript
from i2s_spec.schema.dialect import LAYOUTS

TEXTS = sorted({text for each in LAYOUTS.values() for text in (each.byte_of, each.shift_of)})

EXPRESSIONS = st.recursive(
    st.sampled_from(["k", "rows", "cols", "3", "32"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "*", "//", "%", "-"]), inner).map(
        lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
    ),
    max_leaves=8,
)


def python_of_c(text: str) -> str:
    """C's division of numbers that are not negative is Python's."""
    return text.replace("/", "//")


@examples(60)
@given(EXPRESSIONS)
def test_brackets_are_kept_where_they_matter(text: str) -> None:
    same = ast.dump(ast.parse(python_of_c(javascript.in_c(text)), mode="eval"))
    assert same == ast.dump(ast.parse(text, mode="eval"))


@pytest.mark.parametrize("text", TEXTS)
def test_no_bracket_is_added(text: str) -> None:
    assert python_of_c(javascript.in_c(text)) == text


@pytest.mark.parametrize("text", ["k << 2", "f(k)", "k if rows else 0", "1.5 * k", "-k", "True + 1"])
def test_unsupported_formulas_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a formula has no"):
        javascript.in_c(text)
