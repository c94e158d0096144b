"""The tokenizer against llama.cpp's own cases, two other libraries, and its properties."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from examples import examples, some
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.convert.made_up_vocabulary import alphabet, trained
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.tokenizer.byte_level import (
    BY_NAME,
    BYTE_OF,
    LETTER_OF,
    PRE_TOKENIZERS,
    RUNTIMES,
    choose,
    to_bytes,
)
from i2s_spec.model.tokenizer.pieces import Pieces
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT, Tokenizer, load_tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")

SEPARATOR = "\n__ggml_vocab_test__\n"

#: Vocabularies of llama.cpp's tests with a supported kind of tokenizer; the unsupported one is BERT's.
REAL = ("gpt-2", "llama-spm", "phi-3")


#: A file of one layer.
model_file = partial(model_bytes, layers=1)


TYPES = {"token_type": "arr[i32]", "scores": "arr[f32]", "merges": "arr[str]", "tokens": "arr[str]"}

FILES = {name: model_file(name) for name in ("bitnet-b1.58", "bitnet", "llama", "qwen3", "gemma3")}


def tokenizer(architecture: str, pre: str | None = None) -> Tokenizer:
    return load_tokenizer(open_file(FILES[architecture]), pre)


def file_of(**values: Any) -> Any:
    """A file with nothing but a vocabulary."""
    target = io.BytesIO()
    with Writer(target) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        for name, value in values.items():
            writer.add(f"tokenizer.ggml.{name}", value, TYPES.get(name))
    return open_file(target.getvalue())


def cases(base: Path) -> Iterator[tuple[str, list[int]]]:
    texts = base.with_name(base.name + ".inp").read_bytes().decode().split(SEPARATOR)
    lines = base.with_name(base.name + ".out").read_text().split("\n")
    for text, line in zip(texts, lines, strict=True):
        yield text, [int(word) for word in line.split()]


@pytest.mark.parametrize("name", REAL)
def test_llama_cpp_cases(name: str, shared: Path) -> None:
    base = shared / "real" / f"ggml-vocab-{name}.gguf"
    with open_file(base) as file:
        made = load_tokenizer(file)
        count = 0
        for text, ids in cases(base):
            assert made.encode(text, add_special=False) == ids, text
            assert made.decode(ids) == text
            count += 1
    assert count == 47


@pytest.mark.parametrize("name", REAL)
def test_first_and_last_tokens_of_real_files(name: str, shared: Path) -> None:
    with open_file(shared / "real" / f"ggml-vocab-{name}.gguf") as file:
        made = load_tokenizer(file)
        pieces = name != "gpt-2"
        assert (made.encode("Hello")[0] == made.bos) == pieces
        assert made.encode("") == ([made.bos] if pieces else [])
        assert made.eos in made.ends


def test_a_kind_that_is_not_known_is_refused(shared: Path) -> None:
    with open_file(shared / "real" / "ggml-vocab-bert-bge.gguf") as file, pytest.raises(FormatError) as caught:
        load_tokenizer(file)
    assert caught.value.code == "T901"
    assert caught.value.span.stop - caught.value.span.start == len("bert")


def split(pre: str, text: str) -> list[str]:
    """The parts that a pre-tokenizer makes of a text."""
    parts = [text]
    for each in BY_NAME[pre].splits:
        splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(each), "isolated")
        parts = [found for part in parts for found, _ in splitter.pre_tokenize_str(part)]
    return parts


def consistent(pairs: list[tuple[list[str], list[int]]]) -> tuple[int, str]:
    """Whether each part always has the same ids: the number of parts compared, or where this fails."""
    known: dict[str, list[int]] = {}
    changed = True
    while changed:
        changed = False
        for parts, ids in pairs:
            rest, left = list(parts), list(ids)
            while rest and rest[0] in known:
                if left[: len(known[rest[0]])] != known[rest[0]]:
                    return len(known), f"{rest[0]!r} in {parts}"
                left = left[len(known[rest.pop(0)]) :]
            while rest and rest[-1] in known:
                size = len(known[rest[-1]])
                if left[-size:] != known[rest[-1]]:
                    return len(known), f"{rest[-1]!r} in {parts}"
                left = left[:-size]
                rest.pop()
            if len(rest) > len(left) or (left and not rest):
                return len(known), f"{parts} has {len(ids)} ids"
            if len(rest) == 1:
                known[rest[0]], changed = left, True
            elif rest and len(rest) == len(left):
                known.update(zip(rest, ([i] for i in left), strict=True))
                changed = True
    return len(known), ""


def test_llama_bpe_splits_as_llama_cpp_does(shared: Path) -> None:
    """Without the vocabulary (128,256 tokens) the ids still show how text was split: equal parts have equal ids."""
    found = list(cases(shared / "real" / "ggml-vocab-llama-bpe.gguf"))
    count, failed = consistent([(split("llama-bpe", text), ids) for text, ids in found])
    assert not failed
    assert count > 25
    for other in ("default", "qwen2"):
        assert consistent([(split(other, text), ids) for text, ids in found])[1], other


# Comparison with other libraries.


def assigned(text: str) -> bool:
    """Whether every library knows the characters: those of Unicode 14, which Python 3.11 has too."""
    return all(unicodedata.category(char) != "Cn" for char in text)


texts = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \t\n\r'sStTrReEvVmMlLdD0123456789.,!?-—…éßñЖ你好あक्षा🦙\u00a0\u3000\u200b½²x_"),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=60,
).filter(assigned)


@given(texts)
@examples(60)
def test_llama_bpe_is_that_of_tiktoken(text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    ranks = {to_bytes(token): i for i, token in enumerate(trained()[0])}
    peer = tiktoken.Encoding("peer", pat_str=BY_NAME["llama-bpe"].splits[0], mergeable_ranks=ranks, special_tokens={})
    assert peer_tokenizer().encode(text, add_special=False) == peer.encode(text, disallowed_special=())


_peer: list[Tokenizer] = []


def peer_tokenizer() -> Tokenizer:
    if not _peer:
        tokens, merges = trained()
        _peer.append(load_tokenizer(file_of(model="gpt2", pre="llama-bpe", tokens=tokens, merges=merges)))
    return _peer[0]


@pytest.fixture(scope="module")
def gpt2(shared: Path) -> tuple[Tokenizer, Any]:
    """The real vocabulary of GPT-2, here and in tiktoken."""
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    mine = load_tokenizer(open_file(shared / "real" / "ggml-vocab-gpt-2.gguf"))
    ranks = {to_bytes(token): i for i, token in enumerate(mine.vocabulary.tokens[:50256])}
    return mine, tiktoken.Encoding(
        "peer", pat_str=BY_NAME["gpt-2"].splits[0] + r"|\s+", mergeable_ranks=ranks, special_tokens={}
    )


@given(text=texts)
@examples(60)
def test_gpt2_is_that_of_tiktoken(gpt2: tuple[Tokenizer, Any], text: str) -> None:
    assert gpt2[0].encode(text, add_special=False) == gpt2[1].encode(text, disallowed_special=())


@pytest.fixture(scope="module")
def spm(shared: Path) -> tuple[Tokenizer, Any]:
    """The real vocabulary of Llama, here and as merges with byte fallback in `tokenizers`."""
    mine = load_tokenizer(open_file(shared / "real" / "ggml-vocab-llama-spm.gguf"))
    ids, scores = mine.vocabulary.ids, mine.vocabulary.scores
    merges = [
        (-scores[i], token[:cut], token[cut:])
        for token, i in ids.items()
        for cut in range(1, len(token))
        if token[:cut] in ids and token[cut:] in ids
    ]
    pairs = [pair for _, *pair in sorted(merges, key=lambda each: each[0])]
    model = tokenizers.models.BPE(ids, [(a, b) for a, b in pairs], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    return mine, tokenizers.Tokenizer(model)


@given(text=texts)
@examples(60)
def test_llama_pieces_are_those_of_tokenizers(spm: tuple[Tokenizer, Any], text: str) -> None:
    wanted = spm[1].encode((" " + text).replace(" ", "▁"), add_special_tokens=False).ids if text else []
    assert spm[0].encode(text, add_special=False) == wanted


@pytest.mark.parametrize("pre", [each.name for each in PRE_TOKENIZERS])
@given(text=texts)
@examples(40)
def test_splits_are_those_of_another_engine(pre: str, text: str) -> None:
    regex = pytest.importorskip("regex", reason="regex is not installed")
    parts = [text] if text else []
    for each in BY_NAME[pre].splits:
        cut = []
        for part in parts:
            at = 0
            for match in regex.finditer(each, part):
                cut += [part[at : match.start()], match[0]]
                at = match.end()
            cut.append(part[at:])
        parts = [part for part in cut if part]
    assert split(pre, text) == parts


@pytest.mark.parametrize(("pattern", "category"), [(r"\p{L}", "L"), (r"\p{N}", "N"), (r"\p{P}", "P")])
def test_classes_of_the_library_are_unicode(pattern: str, category: str) -> None:
    """Of the characters that both know: Python, or the library, may have a newer Unicode."""
    removes = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed")
    unassigned = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\p{Cn}"), "removed")
    for start in range(0, 0x110000, 0x1000):
        text = "".join(
            char for char in map(chr, range(start, start + 0x1000)) if unicodedata.category(char) not in ("Cs", "Cn")
        )
        text = "".join(part for part, _ in unassigned.pre_tokenize_str(text))
        if text:
            left = "".join(part for part, _ in removes.pre_tokenize_str(text))
            assert left == "".join(char for char in text if unicodedata.category(char)[0] != category)


def test_white_space_is_that_of_unicode() -> None:
    removes = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\s"), "removed")
    points = sorted({*range(0x3100), *some(range(0x110000), every=9)})
    text = "".join(char for char in map(chr, points) if unicodedata.category(char) != "Cs")
    left = set("".join(part for part, _ in removes.pre_tokenize_str(text)))
    spaces = {
        *map(
            chr, (*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
        )
    }
    assert set(text) - left == spaces


# Effects of pre-tokenizer names.


@pytest.mark.parametrize(
    ("pre", "text", "parts"),
    [
        ("llama-bpe", "12345", ["123", "45"]),
        ("qwen2", "12345", ["1", "2", "3", "4", "5"]),
        ("default", " 12345", [" ", "123", "45"]),
        ("gpt-2", " 12345", [" 12345"]),
        ("llama-bpe", "It'S  ok.\n\n x", ["It", "'S", " ", " ok", ".\n\n", " x"]),
        ("gpt-2", "It'S  ok.\n\n x", ["It", "'", "S", " ", " ok", ".", "\n\n", " x"]),
        ("default", "a=b`c", ["a", "=", "b", "`", "c"]),
        ("falcon3", "12345", ["123", "45"]),
        ("falcon_e", "12345", ["123", "45"]),
    ],
)
def test_splits(pre: str, text: str, parts: list[str]) -> None:
    assert split(pre, text) == parts


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (None, "llama-bpe"),
        ("hf", "llama-bpe"),
        ("bitnet.cpp", "default"),
        ("llama.cpp", "default"),
        ("ik_llama.cpp", "default"),
    ],
)
def test_a_missing_name_is_handled_as_each_runtime_does(asked: str | None, name: str) -> None:
    file = open_file(model_file("bitnet-b1.58", as_published=True))
    choice = load_tokenizer(file, asked).choice
    assert choice is not None
    assert (choice.pre.name, choice.assumed) == (name, True)


def test_asking_for_a_pre_tokenizer_beats_the_file_and_a_runtime_does_not() -> None:
    assert choose("qwen2", "qwen3", "default").pre.name == "default"
    for runtime in RUNTIMES:
        assert choose("qwen2", "qwen3", runtime).pre.name == "qwen2"
        assert not choose("qwen2", "qwen3", runtime).assumed
    with pytest.raises(SettingError, match="there is no pre-tokenizer 'klingon'"):
        choose(None, "llama", "klingon")


def test_the_choice_of_pre_tokenizer_changes_tokens_and_the_fingerprint(shared: Path) -> None:
    with open_file(shared / "real" / "ggml-vocab-gpt-2.gguf") as file:
        prints = {pre: load_tokenizer(file, pre).fingerprint() for pre in ("llama-bpe", "default", "qwen2", "gpt-2")}
        assert len(set(prints.values())) == 4
        assert load_tokenizer(file).fingerprint() == prints["gpt-2"]
        assert load_tokenizer(file, "bitnet.cpp").fingerprint() == prints["gpt-2"]
        assert load_tokenizer(file, "falcon3").fingerprint() == prints["llama-bpe"]
    assert all(part in CHECK_TEXT for part in ("123", "'LL", "\r\n"))


def test_first_and_last_tokens_follow_the_file() -> None:
    qwen = tokenizer("qwen3")
    assert qwen.encode("a")[-1] == qwen.eos
    assert qwen.encode("a", add_special=False)[-1] != qwen.eos
    assert qwen.encode("a", eos=False)[-1] != qwen.eos
    bitnet = tokenizer("bitnet-b1.58")
    assert bitnet.encode("a")[0] == bitnet.bos
    assert bitnet.encode("", bos=False) == []
    gemma = tokenizer("gemma3")
    assert not gemma.add_space_prefix
    assert gemma.encode("a")[0] == gemma.bos


def test_a_word_that_is_a_token_is_taken_whole_where_merges_are_ignored() -> None:
    tokens = (*alphabet(), "ab", "bc", "abc")
    values = {"model": "gpt2", "tokens": tokens, "merges": ("b c",)}
    whole, ab, bc = tokens.index("abc"), tokens.index("ab"), tokens.index("bc")
    assert load_tokenizer(file_of(pre="llama-bpe", **values)).encode("abc", add_special=False) == [whole]
    assert load_tokenizer(file_of(pre="qwen2", **values)).encode("abc") == [tokens.index("a"), bc]
    assert ab not in load_tokenizer(file_of(pre="qwen2", **values)).encode("ab")


def test_the_first_of_equal_merges_counts() -> None:
    tokens = (*alphabet(), "ab", "bc")
    merges = ("a b", "b c", "a b")
    assert load_tokenizer(file_of(model="gpt2", pre="qwen2", tokens=tokens, merges=merges)).encode("abc") == [
        tokens.index("ab"), tokens.index("c"),
    ]  # fmt: skip


def test_a_merge_may_begin_with_a_space() -> None:
    tokens = (*alphabet(), " ", " a")
    made = load_tokenizer(file_of(model="gpt2", pre="qwen2", tokens=tokens, merges=("  a",)))
    assert made.vocabulary.merges == [(" ", "a")]


# Special tokens.


def test_control_tokens_are_text_unless_asked_for() -> None:
    made = tokenizer("bitnet-b1.58")
    end = made.vocabulary.ids["<|eot_id|>"]
    assert end not in made.encode("a<|eot_id|>b")
    assert made.encode("a<|eot_id|>b", add_special=False, parse_special=True) == [
        *made.encode("a", add_special=False), end, *made.encode("b", add_special=False),
    ]  # fmt: skip
    assert made.decode(made.encode("a<|eot_id|>b", parse_special=True)) == "ab"
    assert made.decode(made.encode("a<|eot_id|>b", parse_special=True), special=True) == "<|begin_of_text|>a<|eot_id|>b"
    assert end in made.ends


def test_user_defined_tokens_are_always_found_and_longer_ones_first() -> None:
    tokens = (*alphabet(), "<a>", "<a><b>", "<b>x", "<c>")
    types = [1] * 256 + [4, 4, 4, 3]
    made = load_tokenizer(file_of(model="gpt2", pre="qwen2", tokens=tokens, token_type=types, merges=()))
    assert made.encode("<a><b>x") == [257, tokens.index("x")]
    assert made.encode("<b>x<a>") == [258, 256]
    assert 259 not in made.encode("<c>")
    assert made.encode("<c><a>", parse_special=True) == [259, 256]
    assert made.decode([257, 259, 256]) == "<a><b><a>"


def test_control_tokens_are_not_words() -> None:
    tokens = (*alphabet(), "stop")
    made = load_tokenizer(file_of(model="gpt2", pre="llama-bpe", tokens=tokens, token_type=[1] * 256 + [3], merges=()))
    assert 256 not in made.encode("stop")
    assert made.encode("stop", parse_special=True) == [256]


def test_tokens_that_end_a_turn_are_control_tokens_whatever_the_file_says() -> None:
    tokens = (*alphabet(), "<|eot_id|>", "<|other|>")
    made = load_tokenizer(file_of(model="gpt2", pre="llama-bpe", tokens=tokens, merges=()))
    assert made.ends == {256}
    assert made.decode([256, 257]) == "<|other|>"
    assert 256 not in made.encode("<|eot_id|>")
    assert made.encode("<|eot_id|>", parse_special=True) == [256]


def test_a_token_id_beyond_the_vocabulary_is_refused() -> None:
    made = tokenizer("bitnet-b1.58")
    for wrong in (-1, made.size, 1 << 40):
        with pytest.raises(SettingError, match="there is no token"):
            made.decode([wrong])


def test_pieces_begin_with_a_space_behind_every_special_token() -> None:
    made = tokenizer("bitnet")
    eos = made.vocabulary.ids["</s>"]
    assert made.encode("a</s>a", add_special=False, parse_special=True) == [
        *made.encode("a", add_special=False), eos, *made.encode("a", add_special=False),
    ]  # fmt: skip
    assert made.encode(" a", add_special=False) != made.encode("a", add_special=False)
    assert made.decode(made.encode("a</s>a", parse_special=True)) == "a a"


# Decoding.


def test_incomplete_characters_are_held_back() -> None:
    made = tokenizer("bitnet")
    ids = made.encode("🦙!", add_special=False)
    stream = made.stream(start=True)
    shown = [stream.feed(token) for token in ids]
    assert "".join(shown) == "🦙!"
    assert "\ufffd" not in "".join(shown)
    assert shown[:4] == ["", "", "", ""] or "🦙" in shown
    stream = made.stream()
    assert "".join(map(stream.feed, ids[:3])).strip() == ""
    assert stream.finish() == "\ufffd"


def test_a_stream_keeps_the_space_before_its_first_word() -> None:
    made = tokenizer("bitnet")
    ids = made.encode("the", add_special=False)
    assert made.decode(ids) == "the"
    stream = made.stream()
    assert "".join(map(stream.feed, ids)) + stream.finish() == " the"


def test_each_byte_has_a_letter() -> None:
    assert len(BYTE_OF) == 256
    assert (LETTER_OF[0x20], LETTER_OF[0x0A], LETTER_OF[0x41], LETTER_OF[0xAD]) == ("Ġ", "Ċ", "A", "Ń")


# Properties.


@pytest.mark.parametrize("architecture", list(FILES))
@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=80))
@examples(40)
def test_decoding_gives_back_what_was_encoded(architecture: str, text: str) -> None:
    made = peers(architecture)
    wanted = text if made.choice is not None else text.replace("▁", " ")
    ids = made.encode(text)
    assert made.decode(ids) == wanted
    assert all(0 <= token < made.size for token in ids)


_made: dict[str, Tokenizer] = {}


def peers(architecture: str) -> Tokenizer:
    if architecture not in _made:
        _made[architecture] = tokenizer(architecture)
    return _made[architecture]


@given(st.lists(texts, max_size=4))
@examples(40)
def test_special_tokens_separate_texts(parts: list[str]) -> None:
    made = peers("bitnet-b1.58")
    parts = [part.replace("<|", "") for part in parts]
    end = made.vocabulary.ids["<|eot_id|>"]
    wanted: list[int] = []
    for i, part in enumerate(parts):
        wanted += ([end] if i else []) + made.encode(part, add_special=False)
    assert made.encode("<|eot_id|>".join(parts), add_special=False, parse_special=True) == wanted


@given(st.lists(st.one_of(texts, st.just("<|eot_id|>")), max_size=5))
@examples(40)
def test_pieces_are_one_text(parts: list[str]) -> None:
    made = peers("bitnet-b1.58")
    assert made.encode_pieces([(part, False) for part in parts]) == made.encode("".join(parts))


def naive(pieces: dict[str, int], scores: list[float], word: str) -> list[str]:
    """The definition: join the best pair, leftmost first, until none is left."""
    parts = list(word)
    while True:
        found = [(-scores[pieces[a + b]], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in pieces]
        if not found:
            return parts
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@given(
    st.lists(st.text("ab▁", min_size=2, max_size=5), unique=True, max_size=12),
    st.lists(st.integers(-3, 3), min_size=20, max_size=20),
    st.text("ab ", max_size=24),
)
@examples(60)
def test_pieces_are_joined_as_defined(pieces: list[str], numbers: list[int], text: str) -> None:
    tokens = ["<unk>", "a", "b", "▁", *pieces]
    scores = [float(number) for number in numbers[: len(tokens)]]
    made = load_tokenizer(file_of(model="llama", tokens=tokens, scores=scores, add_space_prefix=False))
    ids = {token: i for i, token in enumerate(tokens)}
    wanted = [ids[part] for part in naive(ids, scores, text.replace(" ", "▁"))]
    assert made.encode(text, add_special=False) == wanted
    engine = Pieces(made.vocabulary)
    engine._pairs = None  # process the whole text at once
    assert engine.encode(text) == wanted


# Invalid text, and long text.


@pytest.mark.parametrize("architecture", ["bitnet", "llama"])
def test_text_that_is_not_unicode_is_refused(architecture: str) -> None:
    with pytest.raises(SettingError, match="not UTF-8 at character 1"):
        tokenizer(architecture).encode("a\udc80")


def test_a_byte_without_a_token_is_reported() -> None:
    tokens = [letter for letter in alphabet() if letter != "Q"]
    made = load_tokenizer(file_of(model="gpt2", pre="qwen2", tokens=tokens, merges=()))
    assert made.decode(made.encode("abc")) == "abc"
    with pytest.raises(SettingError, match="no token for the byte 0x51"):
        made.encode("Q")
    pieces = load_tokenizer(file_of(model="llama", tokens=["a", "b"], scores=[0.0, 0.0], unknown_token_id=7))
    assert pieces.encode("ba", add_special=False) == [0, 0, 0, 1, 0]  # unknown tokens become 0, the loaders' default
