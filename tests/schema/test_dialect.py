from __future__ import annotations

import pickle

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.schema.dialect import (
    ALIASES,
    CANONICAL,
    CODE_MAPS,
    CODES_PER_BYTE,
    LAYOUTS,
    TAILS,
    Dialect,
    Formula,
    Layout,
    parse,
)

EVERY = [
    Dialect(layout, code_map, tail)
    for layout in LAYOUTS.values()
    for code_map in CODE_MAPS.values()
    for tail in TAILS.values()
]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@examples(20)
@given(data=st.data())
def test_every_place_of_the_payload_is_one_element_s(layout: Layout, data: st.DataObject) -> None:
    rows = layout.row_block * data.draw(st.integers(1, 6))
    cols = data.draw(st.integers(1, 10)) * (layout.block // CODES_PER_BYTE if layout.row_block == 1 else 1)
    if rows * cols % layout.block:
        cols *= CODES_PER_BYTE
    layout.check(rows, cols)
    n = rows * cols
    places = {(layout.byte_of(k, rows, cols), layout.shift_of(k, rows, cols)) for k in range(n)}
    assert places == {(byte, shift) for byte in range(n // CODES_PER_BYTE) for shift in (0, 2, 4, 6)}


#: The formulas of the format, written a second time by hand.
FACTS = {
    "interleave-128": (lambda k, r, c: (k // 128) * 32 + k % 32, lambda k, r, c: 6 - 2 * ((k % 128) // 32)),
    "interleave-64": (lambda k, r, c: (k // 64) * 16 + k % 16, lambda k, r, c: 6 - 2 * ((k % 64) // 16)),
    "rows-1x4": (lambda k, r, c: (k // c // 4) * c + k % c, lambda k, r, c: 6 - 2 * ((k // c) % 4)),
    "sequential-msb": (lambda k, r, c: k // 4, lambda k, r, c: 6 - 2 * (k % 4)),
    "sequential-lsb": (lambda k, r, c: k // 4, lambda k, r, c: 2 * (k % 4)),
    "row-blocks-4": (lambda k, r, c: ((k // c) % (r // 4)) * c + k % c, lambda k, r, c: 2 * ((k // c) // (r // 4))),
}


@pytest.mark.parametrize("name", FACTS)
def test_formulas(name: str) -> None:
    byte_of, shift_of = FACTS[name]
    for k in range(8 * 256):
        assert LAYOUTS[name].byte_of(k, 8, 256) == byte_of(k, 8, 256)
        assert LAYOUTS[name].shift_of(k, 8, 256) == shift_of(k, 8, 256)


def test_code_maps() -> None:
    assert [code_map.trits for code_map in CODE_MAPS.values()] == [
        (-1, 0, 1, None),
        (0, 1, -1, None),
        (0, 1, None, -1),
        (None, -1, 0, 1),
    ]
    for code_map in CODE_MAPS.values():
        assert {code_map.code_of(trit) for trit in (-1, 0, 1)} | {code_map.unused} == {0, 1, 2, 3}


@pytest.mark.requirement("R11.1-3")
@pytest.mark.parametrize("dialect", EVERY, ids=str)
def test_names_lead_back(dialect: Dialect) -> None:
    assert parse(dialect.name) == dialect
    assert parse(f"{dialect.layout}/{dialect.code_map}/{dialect.tail}") == dialect
    assert parse(dialect) is dialect
    assert pickle.loads(pickle.dumps(dialect)) == dialect
    assert parse(pickle.loads(pickle.dumps(dialect)).name) == dialect


def test_short_names() -> None:
    assert parse("canonical") is parse("interleave-128") is parse("interleave-128/offset-1/first-float") is CANONICAL
    assert str(CANONICAL) == "interleave-128"
    assert str(parse("interleave-128/offset-1/replicated-8")) == "interleave-128/offset-1/replicated-8"
    assert str(parse("sequential-msb/twos-complement")) == "sequential-msb/twos-complement"
    assert set(ALIASES) == {"canonical"}
    names = [dialect.name for dialect in EVERY]
    assert len(set(names)) == len(names)


def test_a_copy_of_the_canonical_dialect_has_its_name() -> None:
    copy = pickle.loads(pickle.dumps(CANONICAL))
    assert copy.name == "interleave-128"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blk128", "no layout is called 'blk128'; there are interleave-128"),
        ("", "no layout is called ''"),
        ("canonical/offset-1", "no layout is called 'canonical'"),
        ("interleave-64/", "no code map is called ''"),
        ("interleave-64/offset-3", "no code map is called 'offset-3'; there are offset-1, zero-first"),
        ("interleave-64/offset-1/none", "no tail is called 'none'"),
        ("interleave-64/offset-1/first-float/more", "has 4 parts"),
        ("\x1b[31m", r"no layout is called '\x1b[31m'"),
    ],
)
def test_unknown_names(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"called|parts") as error:
        parse(name)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "rows", "cols", "said"),
    [
        ("interleave-128", 1, 132, "blocks of 128; 1 x 132 = 132 elements leave 4 over"),
        ("interleave-64", 3, 96, "blocks of 64; 3 x 96 = 288 elements leave 32 over"),
        ("rows-1x4", 6, 128, "rows in groups of 4; 6 rows"),
        ("row-blocks-4", 7, 4, "rows in groups of 4; 7 rows"),
        ("sequential-lsb", 3, 5, "blocks of 4; 3 x 5 = 15 elements leave 3 over"),
    ],
)
def test_shapes_that_do_not_fit(name: str, rows: int, cols: int, said: str) -> None:
    with pytest.raises(ValueError, match="packs") as error:
        LAYOUTS[name].check(rows, cols)
    assert said in str(error.value)


def test_formulas_are_values() -> None:
    assert Formula("k // 4") == Formula("k // 4") != Formula("k // 2")
