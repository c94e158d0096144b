"""This module learns the vocabulary of the stories and encodes text with it.

Like the vocabulary of synthetic models, it is learned by byte-level BPE. A smaller one leaves out the last merges. The
package's own tokenizer encodes the text, from the same arrays that the file will contain, so a model is trained on the
same tokens that it will get later.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from i2s_spec.convert.made_up_vocabulary import BPE_SPECIAL, NORMAL, SyntheticVocabulary, train
from i2s_spec.gguf.reader import open
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer

#: Number of tokens of the whole vocabulary.
SIZE: Final = 512

Encode = Callable[[list[str]], list[list[int]]]


def learn(texts: list[str], target: Path) -> None:
    """Learn a vocabulary and write it."""
    target.write_text(json.dumps(train(texts, SIZE), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def load(source: Path, size: int) -> SyntheticVocabulary:
    """A vocabulary of `size` tokens: bytes, what the first merges make, special tokens."""
    stored = json.loads(source.read_text(encoding="utf-8"))
    text = stored["tokens"][: size - len(BPE_SPECIAL)]
    characters = set(text)
    merges = [merge for merge in stored["merges"] if merge.replace(" ", "") in characters]
    return SyntheticVocabulary(
        tokens=(*text, *(entry.token for entry in BPE_SPECIAL)),
        types=(NORMAL,) * len(text) + tuple(entry.type for entry in BPE_SPECIAL),
        scores=(0.0,) * size,
        merges=tuple(merges),
        ids={entry.key: len(text) + i for i, entry in enumerate(BPE_SPECIAL)},
    )


def encoder(source: Path, size: int) -> tuple[Encode, int, int]:
    """A function from texts to token ids (without special tokens), and the ids of the first and the last token."""
    words = load(source, size)
    header = io.BytesIO()
    with Writer(header) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add("tokenizer.ggml.model", "gpt2")
        writer.add("tokenizer.ggml.pre", "llama-bpe")
        writer.add("tokenizer.ggml.tokens", words.tokens)
        writer.add("tokenizer.ggml.token_type", words.types, "arr[i32]")
        writer.add("tokenizer.ggml.merges", words.merges)
    header.seek(0)
    tokenizer = load_tokenizer(open(header))
    return (
        lambda texts: [tokenizer.encode(text, add_special=False) for text in texts],
        words.ids["bos"],
        words.ids["eos"],
    )
