"""This module reads tokenizer.model, SentencePiece's own file: a protocol buffer of pieces with scores.

1  pieces, one each           1 text   2 score, float32   3 type, as `tokenizer.ggml.token_type` has it
3  how text is normalized     3 whether a space is put before it   4 whether runs of spaces become one
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.vocabulary.token_arrays import TokenLists, added_tokens, by_id
from i2s_spec.errors import quote
from i2s_spec.model.tokenizer.vocabulary import BYTE, MOST_TOKENS, NORMAL, UNUSED

#: The size of each wire type.
_FIXED: Final = {1: 8, 5: 4}


def from_tokenizer_model(data: bytes, settings: Mapping[str, Any], added: Mapping[str, Any], size: int) -> TokenLists:
    """The vocabulary of a tokenizer.model.

    :param settings: tokenizer_config.json
    :param added: ids by token of added_tokens.json
    :param size: rows of the embedding
    :raises FormatError: H104 for an invalid file, and as `by_id`
    """
    pieces: list[tuple[str, float, int]] = []
    flags = {"add_space_prefix": True}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            if len(pieces) >= MOST_TOKENS:
                raise refused(f"tokenizer.model has more than {MOST_TOKENS:,} pieces")
            pieces.append(_piece(value))
        elif number == 3 and isinstance(value, bytes):
            fields = dict(_fields(value))
            flags["add_space_prefix"] = bool(fields.get(3, 1))
    if not pieces:
        raise refused("tokenizer.model has no pieces")
    entries = [{"id": number, "content": token, "special": True} for token, number in added.items()]
    words = {text: number for number, (text, _, _) in enumerate(pieces)}
    if len(words) != len(pieces):
        raise refused("tokenizer.model has a piece twice")
    more = [each for each in added_tokens({"added_tokens": entries}, settings) if each.id >= len(pieces)]
    tokens, types = by_id(words, more, size)
    types[: len(pieces)] = [kind for _, _, kind in pieces]
    scores = [score for _, score, _ in pieces] + [-1000.0] * (size - len(pieces))
    for key, usual in (("add_bos_token", True), ("add_eos_token", False)):
        setting = settings.get(key, usual)
        flags[key] = setting if isinstance(setting, bool) else usual
    return TokenLists("llama", "default", tokens, types, scores, None, flags)


def _piece(data: bytes) -> tuple[str, float, int]:
    fields = dict(_fields(data))
    text, score, kind = fields.get(1, b""), fields.get(2, b"\0\0\0\0"), fields.get(3, NORMAL)
    if not isinstance(text, bytes) or not text:
        raise refused("tokenizer.model has a piece without text")
    try:
        token = text.decode("utf-8")
    except UnicodeDecodeError:
        raise refused(f"tokenizer.model has a piece that is not UTF-8: {quote(text)}") from None
    if not isinstance(score, bytes) or len(score) != 4 or not isfinite(struct.unpack("<f", score)[0]):
        raise refused(f"the score of piece {quote(token)} is not a number")
    if not isinstance(kind, int) or not NORMAL <= kind <= BYTE:
        kind = UNUSED
    return token, struct.unpack("<f", score)[0], kind


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers as int, everything else as its bytes."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _number(data, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise refused(f"tokenizer.model is not a protocol buffer: wire type {wire} at byte {at:,}")
        if size > len(data) - at:
            raise refused(f"tokenizer.model ends inside a field at byte {at:,}")
        yield key >> 3, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number with 7 bits in each byte, and the position after it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
    raise refused(f"tokenizer.model ends inside a number at byte {at:,}")
