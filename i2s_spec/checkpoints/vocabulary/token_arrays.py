"""This module defines the form of a tokenizer in a GGUF file: tokens by id, their types, and how text is split."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.errors import counted, quote
from i2s_spec.model.tokenizer.vocabulary import CONTROL, MOST_TOKENS, NORMAL, UNUSED, USER_DEFINED

#: Tokens that llama.cpp's converter treats as control tokens although the tokenizer's file does not say so.
_LOOKS_SPECIAL: Final = re.compile(
    r"<pad>|<mask>|<2mass>|\[@BOS@\]|<\|.*\|>|<｜.*｜>|<unused[0-9]+>|<(start|end)_of_turn>"
)


class TokenLists(NamedTuple):
    """A vocabulary, in the form of the keys `tokenizer.ggml.*`.

    :param model: `gpt2` (byte-level merges) or `llama` (pieces with scores)
    :param scores: the scores of pieces
    :param merges: the merges of byte-level vocabularies
    :param flags: `add_bos_token` and similar flags, if the tokenizer's files give them
    :param notes: notes for users, in sentences
    """

    model: str
    pre: str
    tokens: list[str]
    types: list[int]
    scores: list[float] | None
    merges: list[str] | None
    flags: dict[str, bool]
    notes: tuple[str, ...] = ()


class AddedToken(NamedTuple):
    """A token that is found in text before anything else."""

    id: int
    content: str
    special: bool


def added_tokens(tokenizer: Mapping[str, Any], settings: Mapping[str, Any]) -> list[AddedToken]:
    """The added tokens of tokenizer.json and of tokenizer_config.json's `added_tokens_decoder`.

    :raises FormatError: H104 for invalid entries, and for two that share an id
    """
    listed = tokenizer.get("added_tokens")
    if listed is not None and not isinstance(listed, list):
        raise refused("added_tokens in tokenizer.json is not a list")
    entries = list(listed or ())
    decoder = settings.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        numbers = [each.get("id") for each in entries if isinstance(each, dict)]
        known = {number for number in numbers if isinstance(number, int)}
        for number, entry in decoder.items():
            if isinstance(entry, dict) and number.isascii() and number.isdigit() and int(number[:10]) not in known:
                entries.append({**entry, "id": int(number[:10])})
    found: dict[int, AddedToken] = {}
    for entry in entries:
        token = entry if isinstance(entry, dict) else {}
        number, content = token.get("id"), token.get("content")
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(content, str) or number < 0:
            raise refused(f"an added token of the tokenizer has no id and content: {quote(str(entry)[:60])}")
        if number in found and found[number].content != content:
            raise refused(f"two added tokens have the id {number:,}: {quote(found[number].content)}, {quote(content)}")
        special = bool(token.get("special")) or _LOOKS_SPECIAL.fullmatch(content) is not None
        found[number] = AddedToken(number, content, special)
    return list(found.values())


def by_id(words: Mapping[str, Any], added: list[AddedToken], size: int) -> tuple[list[str], list[int]]:
    """The tokens by id, and their types; ids of the embedding without a token become `[PADn]`, as in llama.cpp.

    :param words: ids by token
    :param size: rows of the embedding
    :raises FormatError: H104 for ids that are missing, taken twice or beyond the embedding
    """
    if size > MOST_TOKENS or len(words) > MOST_TOKENS:
        raise refused(f"the vocabulary has {counted(max(size, len(words)), 'token')}; the limit is {MOST_TOKENS:,}")
    slots: dict[int, str] = {}
    for token, number in words.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise refused(f"token {quote(token)} has the id {quote(str(number)[:40])}")
        if number in slots:
            raise refused(f"two tokens have the id {number:,}: {quote(slots[number])} and {quote(token)}")
        slots[number] = token
    types = dict.fromkeys(slots, NORMAL)
    for each in added:
        if each.id in slots and slots[each.id] != each.content:
            raise refused(
                f"the added token {quote(each.content)} has the id {each.id:,}, which is {quote(slots[each.id])}"
            )
        slots[each.id] = each.content
        types[each.id] = CONTROL if each.special else USER_DEFINED
    if not slots:
        raise refused("the tokenizer has no tokens")
    last = max(slots)
    if last >= size:
        raise refused(f"token {quote(slots[last])} has the id {last:,}, and the embedding has {counted(size, 'row')}")
    if len(slots) <= last:
        hole = next(number for number in range(last) if number not in slots)
        raise refused(f"the tokenizer has holes: no token has the id {hole:,}, and the last one is {last:,}")
    if len(set(slots.values())) != len(slots):
        seen: dict[str, int] = {}
        for number, token in sorted(slots.items()):
            if token in seen:
                raise refused(f"token {quote(token)} has two ids, {seen[token]:,} and {number:,}")
            seen[token] = number
    tokens = [slots.get(number, f"[PAD{number}]") for number in range(size)]
    return tokens, [types.get(number, UNUSED) for number in range(size)]
