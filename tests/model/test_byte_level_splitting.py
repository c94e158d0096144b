"""Token ids of a byte-level vocabulary equal those of the library `tokenizers`, for every pre-tokenizer."""

from __future__ import annotations

import unicodedata
from functools import cache
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st
from pace import units

from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.tokenizer import byte_level
from i2s_spec.model.tokenizer.byte_level import BY_NAME, PRE_TOKENIZERS, ByteLevel, PreTokenizer, expression
from i2s_spec.model.tokenizer.tokenizer import Tokenizer, load_tokenizer
from i2s_spec.model.tokenizer.vocabulary import NORMAL

NAMES = [pre.name for pre in PRE_TOKENIZERS]
SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2003\u200b\u2028\u202f\u205f\u3000\ufeff"
TEXTS = st.text(
    st.one_of(
        st.sampled_from(
            "aAzZſ's'LL'reVE 1234567890½Ⅷ!?.,;:$+<=>^~|-_()[]{}@#%&*/\\\"éßΩжא日本語한글😀🏽\u0301" + SPACES
        ),
        st.characters(exclude_categories=("Cs", "Cn")),
    ),
    max_size=60,
)


@cache
def tokenizer() -> Tokenizer:
    target = BytesIO()
    new(target)
    return load_tokenizer(open_file(target.getvalue()))


@cache
def engine(name: str) -> ByteLevel:
    return ByteLevel(tokenizer().vocabulary, BY_NAME[name])


@cache
def library(name: str) -> Any:
    """`tokenizers` with the same vocabulary and splits; it has to know the control tokens as words, which text is not."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")
    pre, vocabulary, parts = BY_NAME[name], tokenizer().vocabulary, tokenizers.pre_tokenizers
    model = tokenizers.models.BPE(vocabulary.ids, vocabulary.merges, ignore_merges=pre.ignore_merges)
    made = tokenizers.Tokenizer(model)
    splits = [parts.Split(tokenizers.Regex(each), "isolated") for each in pre.splits]
    made.pre_tokenizer = parts.Sequence([*splits, parts.ByteLevel(add_prefix_space=False, use_regex=False)])
    return made


@pytest.mark.parametrize("name", NAMES)
@examples(150)
@given(TEXTS | st.lists(st.sampled_from(["the ", "weights", " are", "  ", "TERNARY", "don't"])).map("".join))
@example("")
@example("a\x1cb \x1f c")
@example("I'LL 'ſ don't''s   \n\n  x\r\n1234567 ")
def test_ids_are_those_of_the_library(name: str, text: str) -> None:
    assert engine(name).encode(text) == library(name).encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", NAMES)
def test_every_text_survives_encoding(name: str) -> None:
    text = (
        "".join(chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) != "Cs") + "  the weights are "
    )
    assert tokenizer().decode(engine(name).encode(text)) == text


def made(words: str, *merges: str, ignore_merges: bool = False) -> Any:
    tokens = words.split()
    vocabulary: Any = SimpleNamespace(
        tokens=tokens, types=[NORMAL] * len(tokens), ids={word: i for i, word in enumerate(tokens)},
        merges=[tuple(pair.split("+")) for pair in merges],
    )  # fmt: skip
    return ByteLevel(vocabulary, PreTokenizer("words", (r"\p{L}+|\s+",), ignore_merges=ignore_merges))


def test_merges_go_by_rank_and_then_from_the_left() -> None:
    assert made("a b c ab bc", "b+c", "a+b").encode("abc") == [0, 4]
    assert made("a b c ab bc", "a+b", "b+c").encode("abc") == [3, 2]
    assert made("a aa aaa", "a+a").encode("aaa") == [1, 0]
    assert made("a aa aaaa", "a+a", "aa+aa").encode("aaaaaaa") == [2, 1, 0]
    assert made("a b ab", ignore_merges=True).encode("ab") == [2]
    assert made("a b ab").encode("ab") == [0, 1]
    assert made("a b ! Ġ", "a+!").encode("a!b ") == [0, 2, 1, 3]


def test_expressions_have_the_classes_of_unicode() -> None:
    assert expression(r"[^\s\p{L}]+").findall("a\x1cb é1\u3000!") == ["\x1c", "1", "!"]
    assert expression(r"\S+").findall("a\x1cb c\u2028d") == ["a\x1cb", "c", "d"]
    assert expression(r"\p{P}|\p{N}+").findall("x½Ⅷ7،!") == ["½Ⅷ7", "،", "!"]


def test_planes_that_are_not_looked_at_have_no_text() -> None:
    whole = "".join(map(unicodedata.category, map(chr, range(0x110000))))[::2]
    assert not set(whole[len(byte_level._categories()) :]) & set("LMNP")
    assert byte_level._categories() == whole[: len(byte_level._categories())]


def test_long_parts_are_encoded_quickly() -> None:
    hostile = made("a aa aaaa", "a+a", "aa+aa")
    assert units(lambda: hostile.encode("a" * 200_000)) < 2000


@pytest.mark.parametrize("name", NAMES)
def test_long_white_space_is_encoded_quickly(name: str) -> None:
    text = "a" + " " * 1_000_000 + "\t" * 1_000_000 + "b"
    assert units(lambda: engine(name).encode(text)) < 2000
