"""The keys `tokenizer.*` of a GGUF file, from the tokenizer's files of a checkpoint.

`token_lists` reads tokenizer.json, else tokenizer.model, to `TokenLists`; `tokenizer_values` makes the keys;
`pre_tokenizer_name` finds out how text is split.

Special tokens: tokenizer_config.json gives their texts, config.json and generation_config.json their ids; if these
differ, the text counts, as in llama.cpp's converter. If several tokens end a text, the one that ends a turn becomes
`eot`.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.folder import MOST_TOKENIZER, CheckpointFolder, refused
from i2s_spec.convert.made_up_vocabulary import PIECE_SPACE
from i2s_spec.errors import MissingExtra, SettingError, counted, quote
from i2s_spec.model.tokenizer.byte_level import BY_NAME, PRE_TOKENIZERS, PreTokenizer, expression
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT
from i2s_spec.model.tokenizer.vocabulary import (
    BYTE,
    CONTROL,
    MOST_MERGES,
    MOST_TOKENS,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
)

#: Special tokens by the name in their key, with their names in Hugging Face's files.
SPECIAL: Final = {
    "bos": "bos", "eos": "eos", "unknown": "unk", "seperator": "sep", "padding": "pad", "cls": "cls", "mask": "mask",
}  # fmt: skip

#: Tokens that end a turn, if several tokens end a text.
_TURN_ENDS: Final = ("<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>")


def token_lists(folder: CheckpointFolder, size: int, usual: str, pre: str | None = None) -> TokenLists:
    """Return the vocabulary of a checkpoint, from tokenizer.json, else from tokenizer.model.

    tokenizer.model is preferred if it has pieces: SentencePiece merges by its scores.

    :param size: rows of the embedding
    :param usual: the name of the pre-tokenizer if several names split text equally
    :param pre: the name of a pre-tokenizer; overrides the files
    :raises SettingError: for an unknown pre-tokenizer
    :raises FormatError: H104 for a tokenizer that is missing or broken
    """
    if pre is not None and pre not in BY_NAME:
        raise SettingError(f"unknown pre-tokenizer {quote(pre)}; there are: {', '.join(BY_NAME)}")
    if "tokenizer.model" in folder.names:
        data = folder.bytes_of("tokenizer.model", MOST_TOKENIZER)
        added = folder.json_of("added_tokens.json")
        return from_tokenizer_model(data, folder.tokenizer_config, added, size)
    if folder.tokenizer is None:
        raise refused("the folder has neither tokenizer.json nor tokenizer.model")
    return from_tokenizer_json(folder.tokenizer, folder.tokenizer_config, size, usual, pre)


def special_ids(folder: CheckpointFolder, lists: TokenLists) -> dict[str, int]:
    """Return the ids of special tokens by the name in their key (`bos`, `eos`, `eot`, `unknown` ...).

    :raises FormatError: H104 for a token that is not in the vocabulary, and an id beyond it
    """
    ids = {token: number for number, token in enumerate(lists.tokens)}
    found: dict[str, int] = {}
    for key, word in SPECIAL.items():
        text = folder.tokenizer_config.get(f"{word}_token")
        text = text.get("content") if isinstance(text, dict) else text
        if text is not None and not isinstance(text, str):
            raise refused(f"tokenizer_config.json says {word}_token {quote(str(text)[:40])}, which is not a text")
        if text is not None:
            if text not in ids:
                raise refused(f"tokenizer_config.json says {word}_token {quote(text)}, which is not a token")
            found[key] = ids[text]
            continue
        for config in (folder.config, folder.generation):
            numbers = _ids(config, f"{word}_token_id", len(lists.tokens))
            if numbers:
                found[key] = numbers[0]
                break
    ends = [*_ids(folder.generation, "eos_token_id", len(ids)), *_ids(folder.config, "eos_token_id", len(ids))]
    for number in ends:
        if number != found.get("eos") and lists.tokens[number] in _TURN_ENDS:
            found.setdefault("eot", number)
    return found


def tokenizer_values(folder: CheckpointFolder, lists: TokenLists) -> dict[str, Any]:
    """Return the keys and their values, in the order of files."""
    values: dict[str, Any] = {
        "tokenizer.ggml.model": lists.model,
        "tokenizer.ggml.pre": lists.pre,
        "tokenizer.ggml.tokens": lists.tokens,
    }
    if lists.scores is not None:
        values["tokenizer.ggml.scores"] = lists.scores
    values["tokenizer.ggml.token_type"] = lists.types
    if lists.merges is not None:
        values["tokenizer.ggml.merges"] = lists.merges
    values |= {f"tokenizer.ggml.{key}_token_id": number for key, number in special_ids(folder, lists).items()}
    values |= {f"tokenizer.ggml.{key}": flag for key, flag in sorted(lists.flags.items())}
    if folder.chat_template is not None:
        values["tokenizer.chat_template"] = folder.chat_template
    return values


def _ids(config: Mapping[str, Any], key: str, size: int) -> list[int]:
    """Check one id, or a list of ids; configurations have either."""
    found = config.get(key)
    numbers = found if isinstance(found, list) else [] if found is None else [found]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not number >= 0:
            raise refused(f"{key} is {quote(str(number)[:40])}, which is not a token's id")
        if number >= size:
            raise refused(f"{key} is {number:,}, and there are {counted(size, 'token')}")
    return list(numbers)


# --- tokenizer.json --------------------------------------------------------------------------------------------------
# It has byte-level merges (Llama 3, Qwen), or pieces with merges and bytes (Gemma, Llama 2). Merges of pieces become
# scores: earlier merges get higher scores, as in SentencePiece.

#: The form of a space inside a byte-level token in a list of merges, where a space separates the parts.
_SPACE: Final = chr(ord(" ") + 256)


def from_tokenizer_json(
    tokenizer: Mapping[str, Any], settings: Mapping[str, Any], size: int, usual: str, pre: str | None
) -> TokenLists:
    """Return the vocabulary of a tokenizer.json.

    :param settings: tokenizer_config.json
    :param size: rows of the embedding
    :param usual: the name of the pre-tokenizer if several names split text equally
    :param pre: the name of the pre-tokenizer; overrides the files
    :raises FormatError: H104 for another kind of tokenizer, and as `by_id`
    """
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or not isinstance(model.get("vocab"), dict):
        kind = model.get("type") if isinstance(model, dict) else None
        raise refused(f"tokenizer.json has a model of type {quote(str(kind))}; only BPE is supported")
    merges = _merges(model)
    tokens, types = by_id(model["vocab"], added_tokens(tokenizer, settings), size)
    known = set(tokens)
    for left, right in merges:
        if left not in known or right not in known or left + right not in known:
            raise refused(f"the merge of {quote(left)} and {quote(right)} does not join two tokens into a token")
    flags = _first_and_last(tokenizer, settings)
    if model.get("byte_fallback"):
        return _pieces(tokenizer, tokens, types, merges, flags, model.get("unk_token"))
    lines = [f"{left} {right}" for left, right in merges]
    if any(" " in token for token in tokens):  # a merge may use it
        lines = [f"{left.replace(' ', _SPACE)} {right.replace(' ', _SPACE)}" for left, right in merges]
    name, notes = (
        pre_tokenizer_name(tokenizer, usual) if pre is None else (pre, ("the pre-tokenizer was chosen by hand",))
    )
    return TokenLists("gpt2", name, tokens, types, None, lines, flags, notes)


def _merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs that are merged; a model has hundreds of thousands, so there is a fast path for valid ones."""
    found = model.get("merges")
    if not isinstance(found, list) or len(found) > MOST_MERGES:
        raise refused(f"tokenizer.json has no list of at most {MOST_MERGES:,} merges")
    pairs: list[tuple[str, str]] = []
    for merge in found:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        try:
            left, right = parts
        except (TypeError, ValueError):
            left = right = ""
        if not left or not right or type(left) is not str or type(right) is not str or type(parts) is not list:
            raise refused(f"a merge of tokenizer.json is not a pair: {quote(str(merge)[:60])}")
        pairs.append((left, right))
    return pairs


def _pieces(
    tokenizer: Mapping[str, Any],
    tokens: list[str],
    types: list[int],
    merges: list[tuple[str, str]],
    flags: dict[str, bool],
    unknown: object,
) -> TokenLists:
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    last = len(merges)
    scores = [
        -float(ranks.get(token, last)) if kind == NORMAL else 0.0 for token, kind in zip(tokens, types, strict=True)
    ]
    for number, token in enumerate(tokens):
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            types[number] = BYTE
        elif token == unknown:
            types[number] = UNKNOWN
    flags["add_space_prefix"] = _has_space_prefix(tokenizer)
    return TokenLists("llama", "default", tokens, types, scores, None, flags)


def _has_space_prefix(tokenizer: Mapping[str, Any]) -> bool:
    """Whether the normalizer or the pre-tokenizer adds a space before a text."""
    for each in _flattened(tokenizer.get("normalizer"), "normalizers"):
        if each.get("type") == "Prepend" and each.get("prepend") == PIECE_SPACE:
            return True
    for each in _flattened(tokenizer.get("pre_tokenizer"), "pretokenizers"):
        if each.get("type") == "Metaspace":
            older = "always" if each.get("add_prefix_space", True) else "never"
            return bool(each.get("prepend_scheme", older) != "never")
    return False


def _first_and_last(tokenizer: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, bool]:
    """Whether a text gets a first and a last token, according to the post-processor, else to tokenizer_config.json."""
    processor = tokenizer.get("post_processor")
    if processor is not None and not isinstance(processor, Mapping):
        raise refused("post_processor of tokenizer.json is not an object")
    for each in _flattened(processor, "processors"):
        kind = each.get("type")
        if kind == "TemplateProcessing":
            parts = each.get("single")
            if not isinstance(parts, list) or not all(isinstance(part, dict) and len(part) == 1 for part in parts):
                raise refused("the template of tokenizer.json's post_processor is not a list of tokens and texts")
            kinds = ["SpecialToken" in part for part in parts]
            return {"add_bos_token": bool(kinds) and kinds[0], "add_eos_token": len(kinds) > 1 and kinds[-1]}
        if kind in {"BertProcessing", "RobertaProcessing"}:
            return {"add_bos_token": True, "add_eos_token": True}
        if kind != "ByteLevel":
            raise refused(f"post_processor of tokenizer.json is of an unknown type: {quote(str(kind)[:60])}")
    flags = {key: settings[key] for key in ("add_bos_token", "add_eos_token") if isinstance(settings.get(key), bool)}
    return {"add_bos_token": False, "add_eos_token": False} | flags


def _flattened(part: Any, several: str) -> Iterator[Mapping[str, Any]]:
    """Yield a part of a tokenizer, or the parts of a sequence."""
    if isinstance(part, Mapping):
        if part.get("type") == "Sequence":
            found = part.get(several)
            if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
                raise refused(f"a sequence of tokenizer.json has no list of {several}")
            yield from found
        else:
            yield part


# --- tokenizer.model -------------------------------------------------------------------------------------------------
# SentencePiece's own file: a protocol buffer of pieces with scores.
#
#     1  pieces, one each           1 text   2 score, float32   3 type, as `tokenizer.ggml.token_type` has it
#     3  how text is normalized     3 whether a space is put before it   4 whether runs of spaces become one

#: The size of each wire type.
_FIXED: Final = {1: 8, 5: 4}


def from_tokenizer_model(data: bytes, settings: Mapping[str, Any], added: Mapping[str, Any], size: int) -> TokenLists:
    """Return the vocabulary of a tokenizer.model.

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
    """Yield the fields of a message: numbers as int, everything else as its bytes."""
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
    """Return a number with 7 bits in each byte, and the position after it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
    raise refused(f"tokenizer.model ends inside a number at byte {at:,}")


# --- token arrays ----------------------------------------------------------------------------------------------------
# The form of a tokenizer in a GGUF file: tokens by id, their types, and how text is split.

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
    """Return the added tokens of tokenizer.json and of tokenizer_config.json's `added_tokens_decoder`.

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
    """Return the tokens by id, and their types; ids of the embedding without a token become `[PADn]`, as in llama.cpp.

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


# --- pre-tokenizer probe ---------------------------------------------------------------------------------------------
# A pre-tokenizer is recognized by its effect on a probe text, not by a stated name. The library `tokenizers` says where
# tokenizer.json splits the text; this is compared with the declared pre-tokenizers. Names that split equally
# (`llama-bpe`, `falcon3`, `falcon_e`) cannot be distinguished, and need not be: the family's name is used.

#: Texts on which the declared pre-tokenizers differ.
PROBES: Final = (
    CHECK_TEXT,
    "12345678 a1b22\n\n\n  x  \t\ty'S WE'LL don't ++ -- ...!?\r\n(brackets)[99] 中文123",
)

#: Processor time and memory of the library: for the largest published tokenizers it needs 2 s and 300 MB.
_SECONDS: Final = 5
_MEMORY: Final = 512 << 20
#: Seconds after which it is ended on a machine that has no time for it.
_PATIENCE: Final = 30
#: Most steps of each part of a tokenizer that changes texts, and most of those that can make a text longer: each can
#: double it.
_MOST_STEPS: Final = {"normalizer": (256, 16), "pre_tokenizer": (256, 4)}
_GROWING: Final = ("ByteLevel", "Replace", "Prepend", "Metaspace", "Precompiled", "Nmt", "NFKD", "NFD", "NFKC", "NFC")


class CannotTellError(ValueError):
    """The library gave no result; the text is its reason."""


def ask_library(tokenizer: Mapping[str, Any], what: str, texts: Sequence[str]) -> list[list[int]]:
    """Return the library's result for texts.

    :param what: `cuts`, where the pre-tokenizer splits them (in characters), or `ids`
    :raises MissingExtra: without the extra [tokenizer]
    :raises CannotTellError: if the library does not understand the file, or exceeds a limit
    """
    _require_few_steps(tokenizer)
    request = {
        "tokenizer": json.dumps(tokenizer), "what": what, "texts": list(texts), "seconds": _SECONDS, "memory": _MEMORY,
        "path": sys.path,
    }  # fmt: skip
    script = str(Path(__file__).with_name("tokenizers_worker.py"))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", script], input=json.dumps(request).encode(), capture_output=True,
            timeout=_PATIENCE, check=False, env={"TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotTellError(f"it did not end within {counted(_PATIENCE, 'second')}") from None
    if done.returncode != 0 or not done.stdout:
        raise CannotTellError(f"it took more than {counted(_SECONDS, 'second')} or {_MEMORY >> 20} MB, and was stopped")
    reply = json.loads(done.stdout)
    if "missing" in reply:
        raise MissingExtra("asking a tokenizer what it does", "tokenizer")
    if "error" in reply:
        raise CannotTellError(str(reply["error"]))
    found: list[list[int]] = reply["found"]
    return found


def _require_few_steps(tokenizer: Mapping[str, Any]) -> None:
    """Refuse a tokenizer whose parts have so many steps that a short text can take any time or memory.

    :raises CannotTellError: for such a tokenizer
    """
    for part, (most, most_growing) in _MOST_STEPS.items():
        left, steps, growing = [tokenizer.get(part)], 0, 0
        while left:
            found = left.pop()
            if isinstance(found, dict):
                steps += 1
                growing += found.get("type") in _GROWING
            inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
            left += [each for each in inside if isinstance(each, dict | list)]
            if steps > most or growing > most_growing:
                raise CannotTellError(f"its {part} has more steps than any known one")


def pre_tokenizer_name(tokenizer: Mapping[str, Any], usual: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the pre-tokenizer in tokenizer.json, and notes on it.

    :param usual: the name that is used if several split equally
    :raises FormatError: H104 if no declared pre-tokenizer splits like it
    """
    if not isinstance(tokenizer.get("pre_tokenizer"), dict):
        raise refused("tokenizer.json has no pre_tokenizer; use --pre to state how text is split")
    try:
        cuts = ask_library(only_pre_tokenizer(tokenizer), "cuts", PROBES)
    except MissingExtra:
        cuts = _cuts_of_known(tokenizer["pre_tokenizer"])
    except CannotTellError as error:
        raise refused(f"the pre_tokenizer of tokenizer.json cannot be used: {quote(str(error))}") from None
    names = [each.name for each in PRE_TOKENIZERS if [cuts_of(each, text) for text in PROBES] == cuts]
    if not names:
        known = ", ".join(each.name for each in PRE_TOKENIZERS)
        raise refused(f"the pre_tokenizer of tokenizer.json splits text like none of {known}; use --pre to choose one")
    return (usual, ()) if usual in names else (names[0], (f"text is split as {names[0]} does, not as {usual}",))


def only_pre_tokenizer(tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tokenizer that splits text like another one, but has only one token."""
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": tokenizer["pre_tokenizer"], "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }  # fmt: skip


def cuts_of(pre: PreTokenizer, text: str) -> list[int]:
    """Return where a declared pre-tokenizer cuts a text."""
    places = [(0, len(text))]
    for split in map(expression, pre.splits):
        inner = []
        for start, stop in places:
            at = start
            for match in split.finditer(text[start:stop]):
                if match.end() > match.start():
                    if start + match.start() > at:
                        inner.append((at, start + match.start()))
                    inner.append((start + match.start(), start + match.end()))
                    at = start + match.end()
            if at < stop:
                inner.append((at, stop))
        places = inner
    return [start for start, _ in places]


def _cuts_of_known(part: Mapping[str, Any]) -> list[list[int]]:
    """Return the cuts, without the library, of a pre-tokenizer whose expressions are exactly those of a declared one."""
    several = part.get("pretokenizers") if part.get("type") == "Sequence" else [part]
    found = tuple(
        str(each["pattern"].get("Regex"))
        for each in several or ()
        if isinstance(each, dict) and each.get("type") == "Split" and isinstance(each.get("pattern"), dict)
    )
    for pre in PRE_TOKENIZERS:
        if pre.splits == found:
            return [cuts_of(pre, text) for text in PROBES]
    raise MissingExtra("asking a tokenizer what it does", "tokenizer")
