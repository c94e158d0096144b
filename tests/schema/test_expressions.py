"""Expressions of declarations: computed as Python does, refused where they are more, unknown where values misfit."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.schema.expressions import Expression, ExpressionScope, UnknownValue, compiled


class Names(ExpressionScope):
    lazy = frozenset({"D"})

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.values = values
        self.asked: list[str] = []

    def name(self, name: str) -> Any:
        self.asked.append(name)
        if name not in self.values:
            raise UnknownValue(name)
        return self.values[name]

    def element(self, name: str, index: int) -> Any:
        return self.values[name][index]

    def function(self, name: str) -> Any:
        functions = {
            "D": lambda key, default: self.values[key] if key in self.values else default(),
            "has": lambda key: key in self.values,
            "amax": lambda call, count: max(map(call, range(count)), default=0),
        }
        return functions[name]


ATOMS = st.sampled_from(["a", "b", "0", "1", "2", "7"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(parts, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", " and ", " or "]), parts)
    choice = st.tuples(parts, parts, parts).map(lambda each: f"({each[0]} if {each[1]} else {each[2]})")
    return two.map(lambda each: f"({''.join(each)})") | choice | parts.map(lambda each: f"(not {each})")


@given(st.recursive(ATOMS, joined, max_leaves=12), st.integers(-9, 9), st.integers(-9, 9))
@examples(300)
def test_they_compute_what_python_computes(text: str, a: int, b: int) -> None:
    try:
        want = eval(text, {"__builtins__": {}}, {"a": a, "b": b})
    except ZeroDivisionError:
        with pytest.raises(UnknownValue):
            compiled(text)(Names(a=a, b=b))
        return
    assert compiled(text)(Names(a=a, b=b)) == want


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f'blk.{i + 1}.x'", "blk.3.x"),
        ("heads[i]", 8),
        ("(a, a * 2,)", (3, 6)),
        ("amax(lambda j: heads[j], 3)", 8),
        ("D('key', 1 // 0)", 5),
        ("D('other', a)", 3),
        ("1 < a < 4", True),
        ("a << 2 | 1", 13),
    ],
)
def test_forms(text: str, value: Any) -> None:
    scope = Names(a=3, heads=[1, 2, 8], key=5)
    scope.variables["i"] = 2
    assert compiled(text)(scope) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "().__class__", "a.b.c", "[x for x in y]", "{}", "a := 1", "f(x=1)", "f'{a!r}'", "f'{a:>9}'",
        "a ** 9", "~a", "a in b", "lambda: 1", "a[1:2]", "(lambda i: i)(1)", "1; 2", "", "b'x'", "...", "a @ b",
    ],
)  # fmt: skip
def test_what_is_not_listed_is_refused_or_unknown(text: str) -> None:
    """Nothing of Python but what the module lists can be reached, whatever a text says."""
    try:
        made = Expression(text)
    except ValueError:
        return
    with pytest.raises(UnknownValue):
        made(ExpressionScope())


@pytest.mark.parametrize("text", ["missing", "a + missing", "heads[9]", "'x' * 2 + 1", "1 << 500", "a << -1", "9 // 0"])
def test_what_misfits_is_unknown(text: str) -> None:
    with pytest.raises(UnknownValue):
        compiled(text)(Names(a=3, heads=[1]))


def test_numbers_of_a_file_cannot_make_them_grow() -> None:
    huge = 2**64 - 1
    with pytest.raises(UnknownValue):
        compiled("*".join(["a"] * 64))(Names(a=huge))


def test_what_is_not_needed_is_not_evaluated() -> None:
    scope = Names(a=1)
    assert compiled("a or missing")(scope) == 1
    assert compiled("missing if not a else a")(scope) == 1
    assert scope.asked == ["a"] * 3


def test_names_leave_out_what_is_bound_inside() -> None:
    assert compiled("amax(lambda i: heads[i] + k, n)").names == {"k", "n"}
    assert compiled("has(f'blk.{i}.x') and posnet.n_embd").names == {"i", "posnet.n_embd"}
