"""This module reads tokenizer.json: byte-level merges (Llama 3, Qwen), or pieces with merges and bytes (Gemma, Llama 2).

Merges of pieces become scores: earlier merges get higher scores, as in SentencePiece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.vocabulary.pre_tokenizer_probe import pre_tokenizer_name
from i2s_spec.checkpoints.vocabulary.token_arrays import TokenLists, added_tokens, by_id
from i2s_spec.convert.synthetic.vocabulary import PIECE_SPACE
from i2s_spec.errors import quote
from i2s_spec.model.tokenizer.vocabulary import BYTE, MOST_MERGES, NORMAL, UNKNOWN

#: The form of a space inside a byte-level token in a list of merges, where a space separates the parts.
_SPACE: Final = chr(ord(" ") + 256)


def from_tokenizer_json(
    tokenizer: Mapping[str, Any], settings: Mapping[str, Any], size: int, usual: str, pre: str | None
) -> TokenLists:
    """The vocabulary of a tokenizer.json.

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
    """The pairs that are merged; a model has hundreds of thousands, so there is a fast path for valid ones."""
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
    """A part of a tokenizer, or the parts of a sequence."""
    if isinstance(part, Mapping):
        if part.get("type") == "Sequence":
            found = part.get(several)
            if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
                raise refused(f"a sequence of tokenizer.json has no list of {several}")
            yield from found
        else:
            yield part
