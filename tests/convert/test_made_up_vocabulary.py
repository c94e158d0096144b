from __future__ import annotations

import json

import pytest

from i2s_spec.convert import made_up_vocabulary
from i2s_spec.convert.made_up_vocabulary import (
    BPE_SPECIAL,
    BYTE,
    CONTROL,
    GEMMA_SPECIAL,
    LLAMA3_SPECIAL,
    NORMAL,
    TEXT,
    TRAINED,
    TRAINED_SIZE,
    UNKNOWN,
    SyntheticVocabulary,
    alphabet,
    byte_level,
    sentence_pieces,
    train,
)

#: The counts of the 2B-4T file.
REAL = (128256, 280147)


@pytest.fixture(scope="module")
def real_size() -> SyntheticVocabulary:
    return byte_level(*REAL, LLAMA3_SPECIAL)


def check_merges(words: SyntheticVocabulary) -> None:
    """Each merge joins two tokens to a third, none comes twice, and every longer token can be had."""
    tokens = set(words.tokens)
    assert len(tokens) == len(words.tokens)
    assert len(set(words.merges)) == len(words.merges)
    made = set()
    reachable = set(alphabet())
    for merge in words.merges:
        left, right = merge.split(" ")
        assert left in reachable
        assert right in reachable
        reachable.add(left + right)
        made.add(left + right)
    text = [token for token, kind in zip(words.tokens, words.types, strict=True) if kind == NORMAL]
    assert reachable == set(text)
    assert made == set(text) - set(alphabet())


@pytest.mark.parametrize("size", [259, 260, 272, 384, 511, 512, 513, 600, 1000, 5000])
def test_byte_level(size: int) -> None:
    words = byte_level(size)
    assert len(words.tokens) == len(words.types) == len(words.scores) == size
    assert words.tokens[:256] == alphabet()
    assert words.tokens[-3:] == ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")
    assert words.ids == {"bos": size - 3, "eos": size - 2, "eot": size - 1}
    assert words.types == (NORMAL,) * (size - 3) + (CONTROL,) * 3
    assert set(words.scores) == {0.0}
    check_merges(words)


def test_a_vocabulary_of_real_size(real_size: SyntheticVocabulary) -> None:
    assert (len(real_size.tokens), len(real_size.merges)) == REAL
    assert real_size.ids == {"bos": 128000, "eos": 128001, "eot": 128009}
    check_merges(real_size)
    size = sum(8 + len(text.encode()) for text in (*real_size.tokens, *real_size.merges)) + 8 * REAL[0]
    assert abs(size / 8_351_360 - 1) < 0.02


def test_as_many_merges_as_asked_for() -> None:
    most = len(byte_level(2000).merges)
    least = most
    for count in range(most, 0, -1):
        try:
            words = byte_level(2000, count)
        except ValueError:
            least = count + 1
            break
        assert len(words.merges) == count
        assert words.tokens == byte_level(2000).tokens
    assert least == 2000 - len(BPE_SPECIAL) - 256
    check_merges(byte_level(2000, least))
    with pytest.raises(ValueError, match=f"2,000 tokens need {least:,} to {most:,} merges, not 9"):
        byte_level(2000, 9)


@pytest.mark.parametrize("size", [-1, 0, 258, 1_048_577])
def test_impossible_sizes(size: int) -> None:
    with pytest.raises(ValueError, match=f"has 259 to 1,048,576 tokens, not {size:,}"):
        byte_level(size)
    with pytest.raises(ValueError, match=r"tokens, not"):
        sentence_pieces(size)


@pytest.mark.parametrize("size", [259, 260, 261, 300, 384, 512, 600, 5000, 32002])
def test_sentence_pieces(size: int) -> None:
    words = sentence_pieces(size)
    assert len(words.tokens) == len(words.types) == len(words.scores) == len(set(words.tokens)) == size
    assert words.tokens[:4] == ("<unk>", "<s>", "</s>", "<0x00>")
    assert words.tokens[258] == "<0xFF>"
    assert words.types == (UNKNOWN, CONTROL, CONTROL, *(BYTE,) * 256, *(NORMAL,) * (size - 259))
    assert words.ids == {"unknown": 0, "bos": 1, "eos": 2}
    assert words.scores == (*(0.0,) * 259, *(-float(rank) for rank in range(size - 259)))
    assert not any(" " in token or "Ġ" in token for token in words.tokens)
    # Every piece is the concatenation of two others, so that merging pairs can reach it.
    pieces = set(words.tokens[259:])
    assert {char for piece in pieces for char in piece} <= pieces
    for piece in pieces:
        assert len(piece) == 1 or any(piece[:i] in pieces and piece[i:] in pieces for i in range(1, len(piece)))


def test_gemma_s_special_tokens() -> None:
    words = sentence_pieces(320, GEMMA_SPECIAL)
    assert words.tokens[:5] == ("<pad>", "<eos>", "<bos>", "<unk>", "<0x00>")
    assert words.types[:5] == (CONTROL, CONTROL, CONTROL, CONTROL, BYTE)
    assert words.scores[:5] == (-1000.0, -1000.0, -1000.0, -1000.0, 0.0)
    assert words.ids == {"padding": 0, "eos": 1, "bos": 2, "unknown": 3}


def test_the_byte_alphabet() -> None:
    assert len(set(alphabet())) == 256
    assert alphabet()[:3] == ("!", '"', "#")
    assert "Ġ" in alphabet()  # the space
    assert "Ċ" in alphabet()  # the end of a line


def test_the_vocabulary_that_is_shipped_is_the_one_that_is_trained() -> None:
    pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")
    stored = train([TEXT.read_text(encoding="utf-8")], TRAINED_SIZE)
    assert stored == json.loads(TRAINED.read_text(encoding="utf-8"))
    assert len(stored["tokens"]) + len(stored["special"]) == TRAINED_SIZE


def test_too_little_text_to_train_on() -> None:
    pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")
    with pytest.raises(ValueError, match=r"the texts give 26[0-9] tokens, not 300"):
        train(["one two"], 300)


def test_training_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"training a vocabulary needs the extra \[tokenizer\]"):
        train(["one two"], 300)


@pytest.mark.parametrize("size", [259, 300, 512, 1000])
def test_text_survives_the_vocabulary(size: int) -> None:
    """A peer that knows nothing of us builds the tokenizer from tokens and merges."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")
    words = byte_level(size)
    vocab = {token: i for i, token in enumerate(words.tokens)}
    model = tokenizers.models.BPE(vocab=vocab, merges=[tuple(merge.split(" ")) for merge in words.merges])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    for text in ("The river begins under a stone.", "naïve 你好 🦙\n\tx", "bako badgoll"):
        encoded = tokenizer.encode(text)
        assert tokenizer.decode(encoded.ids) == text
    assert size < 300 or len(tokenizer.encode("the river and the file").ids) < 15


def test_regenerating(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys) -> None:
    pytest.importorskip("tokenizers", reason="the extra [tokenizer] is not installed")
    monkeypatch.setattr(made_up_vocabulary, "TRAINED", tmp_path / "vocabulary.json")
    made_up_vocabulary.main()
    assert (tmp_path / "vocabulary.json").read_bytes() == TRAINED.read_bytes()
    assert capsys.readouterr().out == "vocabulary.json: 512 tokens, 253 merges\n"
    monkeypatch.setattr(made_up_vocabulary, "TEXT", tmp_path / "vocabulary.txt")
    with pytest.raises(SystemExit, match="is in a checkout"):
        made_up_vocabulary.main()
