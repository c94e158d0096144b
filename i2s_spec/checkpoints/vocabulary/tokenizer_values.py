"""This module makes the keys `tokenizer.*` of a GGUF file from the tokenizer's files of a checkpoint.

Special tokens: tokenizer_config.json gives their texts, config.json and generation_config.json their ids; if these
differ, the text counts, as in llama.cpp's converter. If several tokens end a text, the one that ends a turn becomes
`eot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from i2s_spec.checkpoints.source.bounded_json import MOST_TOKENIZER, read_bytes, refused
from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
from i2s_spec.checkpoints.vocabulary.byte_pair_tokens import from_tokenizer_json
from i2s_spec.checkpoints.vocabulary.sentencepiece_model import from_tokenizer_model
from i2s_spec.checkpoints.vocabulary.token_arrays import TokenLists
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.model.tokenizer.pretokenizers import BY_NAME

#: Special tokens by the name in their key, with their names in Hugging Face's files.
SPECIAL: Final = {
    "bos": "bos", "eos": "eos", "unknown": "unk", "seperator": "sep", "padding": "pad", "cls": "cls", "mask": "mask",
}  # fmt: skip

#: Tokens that end a turn, if several tokens end a text.
_TURN_ENDS: Final = ("<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>")


def token_lists(folder: CheckpointFolder, size: int, usual: str, pre: str | None = None) -> TokenLists:
    """The vocabulary of a checkpoint, from tokenizer.json, else from tokenizer.model.

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
        data = read_bytes(folder.file("tokenizer.model"), MOST_TOKENIZER)
        added = folder.json_of("added_tokens.json")
        return from_tokenizer_model(data, folder.tokenizer_config, added, size)
    if folder.tokenizer is None:
        raise refused("the folder has neither tokenizer.json nor tokenizer.model")
    return from_tokenizer_json(folder.tokenizer, folder.tokenizer_config, size, usual, pre)


def special_ids(folder: CheckpointFolder, lists: TokenLists) -> dict[str, int]:
    """The ids of special tokens by the name in their key (`bos`, `eos`, `eot`, `unknown` ...).

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
    """The keys and their values, in the order of files."""
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
