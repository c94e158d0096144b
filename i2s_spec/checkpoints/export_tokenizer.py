"""The files of a tokenizer from the keys of a GGUF file: tokenizer.json, tokenizer_config.json, tokenizer.model.

tokenizer.model is written for pieces with scores, because merges alone would lose the scores.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.convert.made_up_vocabulary import PIECE_SPACE
from i2s_spec.errors import SettingError, quote
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer
from i2s_spec.model.tokenizer.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Vocabulary

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

_ADDED: Final = (CONTROL, USER_DEFINED)
#: Special tokens by the name in their key, with their names in Hugging Face's files.
_WORDS: Final = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}


def tokenizer_files(file: File) -> dict[str, Any]:
    """Return the files by name: JSON as plain data, tokenizer.model as bytes.

    :raises SettingError: for a tokenizer that is neither byte-level nor SentencePiece
    :raises FormatError: for a broken vocabulary
    """
    tokenizer = load_tokenizer(file)
    vocabulary = tokenizer.vocabulary
    tokens, types = vocabulary.tokens, vocabulary.given_types
    used = len(tokens)
    while used and types[used - 1] == UNUSED and tokens[used - 1] == f"[PAD{used - 1}]":
        used -= 1  # rows of the embedding without a token
    pieces = vocabulary.model == "llama"
    settings = _settings(file, vocabulary, tokens)
    settings |= {"add_bos_token": tokenizer.add_bos, "add_eos_token": tokenizer.add_eos}
    first = tokens[tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else None
    last = tokens[tokenizer.eos] if tokenizer.add_eos and tokenizer.eos is not None else None
    shared = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [_added(i, tokens[i], types[i]) for i in range(used) if types[i] in (*_ADDED, UNKNOWN)],
        "post_processor": _post_processor(vocabulary.ids, first, last),
    }  # fmt: skip
    files: dict[str, Any] = {"tokenizer_config.json": settings}
    if pieces:
        files["tokenizer.model"] = b"".join(_piece_model(tokens[:used], types, vocabulary.scores, tokenizer))
        model = _piece_merges(tokens[:used], types, vocabulary.scores)
        prefix = tokenizer.add_space_prefix
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": PIECE_SPACE}
        normalizers = [{"type": "Prepend", "prepend": PIECE_SPACE}, replace] if prefix else [replace]
        files["tokenizer.json"] = {
            **shared, "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": PIECE_SPACE}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []),
            ]},
            "model": model,
        }  # fmt: skip
        return files
    if tokenizer.choice is None:
        raise SettingError(f"a tokenizer of model {quote(vocabulary.model)} cannot be exported")
    splits = [
        {"type": "Split", "pattern": {"Regex": each}, "behavior": "Isolated", "invert": False}
        for each in tokenizer.choice.pre.splits
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    words = {token: i for i, token in enumerate(tokens[:used]) if types[i] not in _ADDED}
    files["tokenizer.json"] = {
        **shared, "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, level]},
        "decoder": level, "model": _model(words, vocabulary.merges, tokenizer.choice.pre.ignore_merges, None),
    }  # fmt: skip
    return files


def _settings(file: File, vocabulary: Vocabulary, tokens: Sequence[str]) -> dict[str, Any]:
    """Return tokenizer_config.json."""
    found: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for key, word in _WORDS.items():
        number = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(number, int) and 0 <= number < len(tokens):
            found[f"{word}_token"] = tokens[number]
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        found["chat_template"] = template
    return found


def _added(number: int, token: str, kind: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": kind != USER_DEFINED}


def _post_processor(ids: Mapping[str, int], first: str | None, last: str | None) -> dict[str, Any] | None:
    """Return the post-processor that adds the first and the last token."""
    if first is None and last is None:
        return None

    def template(number: int, name: str) -> list[dict[str, Any]]:
        before = [{"SpecialToken": {"id": first, "type_id": number}}] if first is not None else []
        after = [{"SpecialToken": {"id": last, "type_id": number}}] if last is not None else []
        return [*before, {"Sequence": {"id": name, "type_id": number}}, *after]

    special = {
        token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in (first, last) if token is not None
    }
    pair = [*template(0, "A"), *template(1, "B")]
    return {"type": "TemplateProcessing", "single": template(0, "A"), "pair": pair, "special_tokens": special}


def _model(
    words: Mapping[str, int], merges: Sequence[tuple[str, str]], ignore_merges: bool, unknown: str | None
) -> dict[str, Any]:
    return {
        "type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": unknown is not None, "byte_fallback": unknown is not None,
        "ignore_merges": ignore_merges, "vocab": dict(words), "merges": [list(pair) for pair in merges],
    }  # fmt: skip


def _piece_merges(tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]) -> dict[str, Any]:
    """Return the merges of pieces: every way to join two pieces to one, the result with the highest score first."""
    ids = {token: i for i, token in enumerate(tokens)}
    normal = [i for i, kind in enumerate(types[: len(tokens)]) if kind in (NORMAL, USER_DEFINED) and len(tokens[i]) > 1]
    merges = []
    for i in sorted(normal, key=lambda i: (-scores[i], i)):
        token = tokens[i]
        pairs = [(token[:at], token[at:]) for at in range(1, len(token)) if token[:at] in ids and token[at:] in ids]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    unknown = next((token for token, kind in zip(tokens, types, strict=False) if kind == UNKNOWN), "<unk>")
    return _model(ids, merges, False, unknown)


def _piece_model(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float], tokenizer: Tokenizer
) -> Iterator[bytes]:
    """Yield the protocol buffer of SentencePiece (sentencepiece_model.proto), as `token_files.from_tokenizer_model`
    reads it.

    The library refuses byte pieces without `byte_fallback`, and takes the model for a unigram one unless it is called BPE.
    """
    for token, kind, score in zip(tokens, types, scores, strict=False):
        known = kind if NORMAL <= kind <= BYTE else UNUSED
        yield _field(1, _field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, known))
    trainer = _number(3, _BPE) + _number(4, len(tokens)) + _number(35, BYTE in types)
    unknown = types.index(UNKNOWN) if UNKNOWN in types else -1
    for field, token_id in zip((40, 41, 42), (unknown, tokenizer.bos, tokenizer.eos), strict=True):
        found = -1 if token_id is None or token_id >= len(tokens) else token_id
        trainer += _number(field, found)
        if found >= 0:
            trainer += _field(field + 5, tokens[found].encode())
    yield _field(2, trainer)
    yield _field(3, _number(3, tokenizer.add_space_prefix) + _number(4, False) + _number(5, True))


#: `TrainerSpec.ModelType`.
_BPE: Final = 2


def _field(number: int, data: bytes) -> bytes:
    """Return a field of bytes: its number, its length, the bytes."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    """Return a field of an integer; negative ones have 64 bits."""
    return _varint(number << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _varint(value: int) -> bytes:
    """Return an integer in groups of seven bits, the lowest first."""
    groups = b""
    while value > 0x7F:
        groups += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return groups + bytes((value,))
