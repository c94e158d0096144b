"""Broken vocabularies: each gets an error with a code and a span, in bounded time."""

from __future__ import annotations

import io
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pace import units

from i2s_spec.convert.made_up_vocabulary import alphabet
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.tokenizer import vocabulary as limits
from i2s_spec.model.tokenizer.tokenizer import Tokenizer, load_tokenizer
from i2s_spec.schema.faults import ByteOrder

GOOD: dict[str, Any] = {
    "model": "gpt2",
    "pre": "llama-bpe",
    "tokens": (*alphabet(), "ab", "abc"),
    "token_type": [1] * 258,
    "merges": ("a b", "ab c"),
}
PIECES: dict[str, Any] = {"model": "llama", "tokens": ("<unk>", "a", "▁"), "scores": [0.0, 1.0, 2.0]}
TYPES = {"token_type": "arr[i32]", "scores": "arr[f32]", "merges": "arr[str]", "tokens": "arr[str]"}


def file_of(values: dict[str, Any], order: ByteOrder = "little") -> File:
    target = io.BytesIO()
    with Writer(target, byte_order=order) as writer:
        writer.add("general.architecture", "llama")
        for name, value in values.items():
            typed = isinstance(value, tuple) and len(value) == 2 and str(value[1]).startswith("arr[")
            given, kind = value if typed else (value, TYPES.get(name))
            writer.add(f"tokenizer.ggml.{name}", given, kind)
    return open_file(target.getvalue())


def loaded(values: dict[str, Any], order: ByteOrder = "little") -> Tokenizer:
    made = load_tokenizer(file_of(values, order))
    made.encode("abc")
    made.decode([0, 1, 2], special=True)
    return made


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("values", [GOOD, PIECES], ids=["bytes", "pieces"])
def test_valid_vocabularies_are_loaded(values: dict[str, Any], order: ByteOrder) -> None:
    assert loaded(values, order).decode(loaded(values, order).encode("abc")).startswith("a")


CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str]] = [
    ("T002", "unknown kind", GOOD, {"model": "\x1b[2Jword"}, "tokenizer.ggml.model is '\\x1b[2Jword'"),
    (
        "T901",
        "a kind of others",
        GOOD,
        {"model": "bert"},
        "tokenizer.ggml.model is 'bert'; supported are gpt2",
    ),
    ("T001", "no model", GOOD, {"model": None}, "tokenizer.ggml.model is missing"),
    ("T001", "no tokens", GOOD, {"tokens": None}, "tokenizer.ggml.tokens is missing"),
    ("T001", "no merges", GOOD, {"merges": None}, "tokenizer.ggml.merges is missing"),
    ("M003", "merges are numbers", GOOD, {"merges": ([1, 2], "arr[u32]")}, "holds arr[u32]; arr[str] is needed"),
    ("M003", "types are bytes", GOOD, {"token_type": ([1] * 258, "arr[u8]")}, "holds arr[u8]; arr[i32] is needed"),
    ("T004", "too few types", GOOD, {"token_type": [1] * 257}, "257 elements for 258 tokens"),
    ("T004", "too many scores", PIECES, {"scores": [0.0] * 4}, "4 elements for 3 tokens"),
    ("T006", "a token twice", GOOD, {"tokens": (*alphabet(), "ab", "a")}, "tokens 64 and 257 are both 'a'"),
    ("T003", "no pair", GOOD, {"merges": ("a b", "abc")}, "merge 1, 'abc'"),
    ("T003", "an empty part", GOOD, {"merges": ("a ",)}, "merge 0, 'a '"),
    ("T003", "an empty merge", GOOD, {"merges": ("",)}, "merge 0, ''"),
    ("T907", "unknown first part", GOOD, {"merges": ("a b", "xy c")}, "its first part is not a token"),
    ("T907", "unknown second part", GOOD, {"merges": ("a yz",)}, "its second part is not a token"),
    ("T907", "unknown whole", GOOD, {"merges": ("b c",)}, "its result is not a token"),
    ("T908", "not a number", PIECES, {"scores": [0.0, float("nan"), 1.0]}, "score of token 1, 'a', is not a number"),
    ("T909", "unknown name", GOOD, {"pre": "klingon"}, "tokenizer.ggml.pre is 'klingon'"),
]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(("code", "what", "values", "change", "words"), CASES, ids=[case[1] for case in CASES])
def test_each_fault_gets_its_error(
    code: str, what: str, values: dict[str, Any], change: dict[str, Any], words: str, order: ByteOrder
) -> None:
    broken = {name: value for name, value in {**values, **change}.items() if value is not None}
    with pytest.raises(FormatError) as caught:
        loaded(broken, order)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_the_span_is_that_of_the_element() -> None:
    file = file_of({**GOOD, "merges": ("a b", "ab c", "q")})
    with pytest.raises(FormatError) as caught:
        load_tokenizer(file).encode("a")
    span = caught.value.span
    assert span.path.endswith(".value.items[2]")
    assert file.source.read(span.start, span.stop - span.start) == (1).to_bytes(8, "little") + b"q"
    file = file_of({**PIECES, "scores": [0.0, 1.0, float("nan")]})
    with pytest.raises(FormatError) as caught:
        load_tokenizer(file).encode("a")
    assert caught.value.span.stop - caught.value.span.start == 4
    assert file.source.read(caught.value.span.start, 4)[2:] in (b"\xc0\x7f", b"\xf8\x7f")


def test_decoding_needs_no_merges() -> None:
    made = load_tokenizer(file_of({name: value for name, value in GOOD.items() if name != "merges"}))
    assert made.decode([256, 257]) == "ababc"


def test_ids_that_no_token_has_are_dropped() -> None:
    made = load_tokenizer(file_of({**GOOD, "bos_token_id": 1 << 31, "eos_token_id": 300}))
    assert (made.bos, made.eos, made.ends) == (None, None, frozenset())
    made = load_tokenizer(file_of({**PIECES, "tokens": ("a",), "scores": [0.0]}))
    assert (made.bos, made.eos) == (None, None)  # one token; 1 and 2 are the loaders' defaults


def test_empty_tokens_have_names() -> None:
    made = load_tokenizer(file_of({**GOOD, "tokens": (*alphabet(), "", ""), "merges": ()}))
    assert made.vocabulary.tokens[256:] == ["[EMPTY_256]", "[EMPTY_257]"]


def test_bytes_that_are_not_utf8() -> None:
    tokens = (*(token.encode() for token in alphabet()), b"\xff\xfe", b"a\xff")
    made = load_tokenizer(file_of({**GOOD, "tokens": tokens, "merges": ()}))
    assert made.token_bytes(256) == b"\xff\xfe"
    assert made.decode([256, 64]) == "\ufffd\ufffda"
    assert made.encode("abc", add_special=False) == [64, 65, 66]


@pytest.mark.parametrize(
    ("key", "most", "code"), [("tokens", "MOST_TOKENS", "T905"), ("merges", "MOST_MERGES", "T905")]
)
def test_too_many_are_refused_before_they_are_read(
    key: str, most: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, most, len(GOOD[key]) - 1)
    with pytest.raises(FormatError) as caught:
        loaded(GOOD)
    assert caught.value.code == code
    assert f"{len(GOOD[key]):,} elements" in str(caught.value)
    monkeypatch.setattr(limits, most, len(GOOD[key]))
    monkeypatch.setattr(limits, "MOST_BYTES", 20)
    with pytest.raises(FormatError, match="bytes; the limit is 20"):
        loaded(GOOD)


def test_a_large_hostile_vocabulary_takes_no_time() -> None:
    """Chains of pieces, each one longer, whose scores ask for the worst order, and a text made for them."""
    count = 3000
    tokens = ["<unk>", *("a" * i for i in range(1, count))]
    made = load_tokenizer(
        file_of(
            {"model": "llama", "tokens": tokens, "scores": [float(i) for i in range(count)], "add_space_prefix": False}
        )
    )
    ids: list[int] = []
    assert units(lambda: ids.extend(made.encode("a" * 40_000, add_special=False))) < 2500
    assert made.decode(ids) == "a" * 40_000


def test_a_hundred_thousand_control_tokens_take_little_time() -> None:
    tokens = (*alphabet(), *(f"<{i}>" for i in range(100_000)))
    types = [1] * 256 + [3] * 100_000
    made = load_tokenizer(file_of({**GOOD, "tokens": tokens, "token_type": types, "merges": ()}))
    text = "".join(f"<{i}>" for i in range(50_000))
    ids: list[int] = []
    assert units(lambda: ids.extend(made.encode(text, add_special=False, parse_special=True))) < 1250
    assert ids == list(range(256, 50_256))


short = st.text("ab Ġ▁<>|é\x00", max_size=4)
vocabularies = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["gpt2", "llama"]),
        "tokens": st.lists(
            st.one_of(short, st.sampled_from([*alphabet(), "<0x0A>", "<0xZZ>", "<|eot_id|>"]), st.binary(max_size=3)),
            max_size=40,
        ),
    },
    optional={
        "pre": st.sampled_from(["llama-bpe", "default", "qwen2", "gpt-2", "", "?"]),
        "merges": st.lists(st.one_of(short, st.tuples(short, short).map(" ".join)), max_size=12),
        "token_type": st.lists(st.integers(-3, 9), max_size=40),
        "scores": st.lists(st.floats(width=32), max_size=40),
        "bos_token_id": st.integers(0, 60),
        "unknown_token_id": st.integers(0, 60),
        "add_bos_token": st.booleans(),
        "add_space_prefix": st.booleans(),
    },
)


@given(vocabularies, st.booleans(), st.text("ab \n<|eot_id>é🦙\x00", max_size=30))
@examples(60)
def test_any_vocabulary_gets_an_answer(values: dict[str, Any], fitting: bool, text: str) -> None:
    if fitting:  # arrays of equal length, to reach the checks after that of the lengths
        tokens = list(dict.fromkeys(values["tokens"]))
        values = {**values, "tokens": tokens}
        for name, fill in (("token_type", 1), ("scores", 0.0)):
            if name in values:
                values[name] = [*values[name], *[fill] * len(tokens)][: len(tokens)]
        known = {token for token in tokens if isinstance(token, str)}
        values["merges"] = [f"{a} {b}" for a in known for b in known if a and b and a + b in known]
    answer = "tokens"
    try:
        made = load_tokenizer(file_of(values))
        ids = made.encode(text, parse_special=True)
        made.decode(ids, special=True)
        made.decode(range(made.size))
    except (FormatError, SettingError) as error:
        answer = str(error)
    assert answer
