"""The vocabularies of synthetic models: a small byte-level BPE of our own, cut or extended to any size.

The vocabulary was trained by `train` on `made_up_vocabulary.txt`, which was written for it, and is kept in
`made_up_vocabulary.json`; `python -m i2s_spec.convert.made_up_vocabulary` reproduces it byte for byte. Smaller
vocabularies leave out the last merges. Larger ones continue with words made of syllables, which merges can build, so a
header of any realistic size is possible.

    >>> small = byte_level(300)
    >>> len(small.tokens), small.tokens[small.ids["bos"]], small.merges[:2]
    (300, '<|begin_of_text|>', ('Ġ t', 'h e'))

    >>> new_words(" ", 3, {"ba"})
    [('be', ['b e']), ('bi', ['b i']), ('bo', ['b o'])]
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.errors import MissingExtra, counted

HERE: Final = Path(__file__)
TEXT: Final = HERE.with_suffix(".txt")
TRAINED: Final = HERE.with_suffix(".json")

#: Tokens of the trained vocabulary, with the special ones.
TRAINED_SIZE: Final = 512

#: Most tokens; no real vocabulary has more.
MOST_TOKENS: Final = 1_048_576

#: The values of `tokenizer.ggml.token_type` (clause 3.5).
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


class SyntheticVocabulary(NamedTuple):
    """Tokens by id, with their properties in a GGUF file; `ids` are those of the special tokens, by the names of keys."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    ids: dict[str, int]


class Special(NamedTuple):
    """A special token: its text, the key that holds its id, its type and score."""

    token: str
    key: str = ""
    type: int = CONTROL
    score: float = 0.0


#: The special tokens of a small byte-level vocabulary; they take the last ids.
BPE_SPECIAL: Final = (
    Special("<|begin_of_text|>", "bos"),
    Special("<|end_of_text|>", "eos"),
    Special("<|eot_id|>", "eot"),
)

#: Those of Llama 3 and 2B-4T: 256, most of them reserved.
LLAMA3_SPECIAL: Final = (
    *BPE_SPECIAL[:2],
    *(Special(f"<|reserved_special_token_{i}|>") for i in range(4)),
    Special("<|start_header_id|>"),
    Special("<|end_header_id|>"),
    Special("<|reserved_special_token_4|>"),
    BPE_SPECIAL[2],
    *(Special(f"<|reserved_special_token_{i}|>") for i in range(5, 251)),
)

#: The special tokens of SentencePiece vocabularies; they take the first ids.
LLAMA_SPECIAL: Final = (
    Special("<unk>", "unknown", UNKNOWN),
    Special("<s>", "bos"),
    Special("</s>", "eos"),
)
GEMMA_SPECIAL: Final = (
    Special("<pad>", "padding", score=-1000.0),
    Special("<eos>", "eos", score=-1000.0),
    Special("<bos>", "bos", score=-1000.0),
    Special("<unk>", "unknown", score=-1000.0),
)

#: How a space is written in byte-level tokens and in SentencePiece pieces.
BYTE_LEVEL_SPACE: Final = "Ġ"
PIECE_SPACE: Final = "▁"


@cache
def alphabet() -> tuple[str, ...]:
    """Return the 256 characters that represent bytes in byte-level tokens, in their usual order.

    Printable characters of Latin-1 represent themselves; the other bytes, in ascending order, U+0100 and the following.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return (*map(chr, printable), *(chr(0x100 + i) for i in range(256 - len(printable))))


def train(texts: Iterable[str], size: int) -> dict[str, Any]:
    """Train a byte-level BPE vocabulary; needs the extra `[tokenizer]`.

    :param texts: the training texts
    :param size: tokens, with the 256 bytes and the special tokens
    :returns: `tokens` (bytes first, then in the order of merges), `merges`, `special`
    :raises ValueError: if the texts are too few for this number of tokens
    """
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise MissingExtra("training a vocabulary", "tokenizer") from None
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(BPE_SPECIAL),
        initial_alphabet=list(alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    merges = [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    tokens = list(dict.fromkeys((*alphabet(), *(merge.replace(" ", "") for merge in merges))))
    if len(tokens) + len(BPE_SPECIAL) != size:
        raise ValueError(f"the texts give {counted(len(tokens) + len(BPE_SPECIAL), 'token')}, not {size}")
    return {"tokens": tokens, "merges": merges, "special": [special.token for special in BPE_SPECIAL]}


@cache
def trained() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens and the merges of the vocabulary in this package."""
    stored = json.loads(TRAINED.read_text(encoding="utf-8"))
    return tuple(stored["tokens"]), tuple(stored["merges"])


def byte_level(size: int, merges: int | None = None, special: Sequence[Special] = BPE_SPECIAL) -> SyntheticVocabulary:
    """Return a vocabulary for `tokenizer.ggml.model` = gpt2: bytes, then merged tokens, then the special tokens.

    :param size: tokens in all, at least 256 and the special ones
    :param merges: the number of merges, if it matters; each token has at least one
    :raises ValueError: for a size or a number of merges that is not possible
    """
    _check_size(size, 256 + len(special))
    tokens, pairs = _cut(size - len(special))
    splits = list(pairs)
    extra = size - len(special) - len(tokens)
    words = new_words(BYTE_LEVEL_SPACE, extra, set(tokens))
    made = [word for word, _ in words]
    most = len(splits) + sum(len(pairs) for _, pairs in words)
    wanted = most if merges is None else merges
    if not len(splits) + len(words) <= wanted <= most:
        raise ValueError(
            f"{counted(size, 'token needs', 'tokens need')} {len(splits) + len(words):,} to "
            f"{counted(most, 'merge')}, not {wanted:,}"
        )
    spare = wanted - len(splits) - len(words)
    for _, pairs in words:
        take = 1 + min(spare, len(pairs) - 1)
        spare -= take - 1
        splits += pairs[:take]

    text = (*tokens, *made)
    return SyntheticVocabulary(
        tokens=(*text, *(entry.token for entry in special)),
        types=(NORMAL,) * len(text) + tuple(entry.type for entry in special),
        scores=(0.0,) * size,
        merges=tuple(splits),
        ids={entry.key: len(text) + i for i, entry in enumerate(special) if entry.key},
    )


def sentence_pieces(size: int, special: Sequence[Special] = LLAMA_SPECIAL) -> SyntheticVocabulary:
    """Return a vocabulary for `tokenizer.ggml.model` = llama: special tokens, bytes as `<0xNN>`, then pieces by rank.

    The score of a piece is its rank, negative. Pieces of several characters come first, then the characters that they
    are made of, as SentencePiece orders them.

    :raises ValueError: for fewer tokens than special tokens and bytes together, or far too many
    """
    _check_size(size, 256 + len(special))
    room = size - 256 - len(special)
    tokens, _ = trained()
    joined = [token.replace(BYTE_LEVEL_SPACE, PIECE_SPACE) for token in tokens[256:]]
    # The most merged pieces that leave room for their characters.
    chars: dict[str, None] = {}
    pieces: list[str] = []
    for piece in joined:
        more = chars | dict.fromkeys(piece)
        if len(pieces) + 1 + len(more) > room:
            break
        chars = more
        pieces.append(piece)
    pieces += chars
    if len(pieces) < room:  # all of them are used: continue with the other characters, then with words
        others = [char for char in alphabet() if char.isascii() and char not in chars]
        pieces += others[: room - len(pieces)]
        pieces += [word for word, _ in new_words(PIECE_SPACE, room - len(pieces), set(pieces))]

    return SyntheticVocabulary(
        tokens=(*(entry.token for entry in special), *(f"<0x{byte:02X}>" for byte in range(256)), *pieces),
        types=(*(entry.type for entry in special), *(BYTE,) * 256, *(NORMAL,) * len(pieces)),
        scores=(*(entry.score for entry in special), *(0.0,) * 256, *(-float(rank) for rank in range(len(pieces)))),
        merges=(),
        ids={entry.key: i for i, entry in enumerate(special) if entry.key},
    )


def _check_size(size: int, least: int) -> None:
    if not least <= size <= MOST_TOKENS:
        raise ValueError(f"a vocabulary of this kind has {least:,} to {MOST_TOKENS:,} tokens, not {size:,}")


def _cut(size: int) -> tuple[list[str], list[str]]:
    """Return the first tokens of the trained vocabulary, at most `size`, and their merges."""
    tokens, merges = trained()
    retained = list(tokens[:size])
    made = set(retained)
    return retained, [merge for merge in merges if merge.replace(" ", "") in made]


def main() -> None:
    """Train the vocabulary of this package again and write it beside this module."""
    if not TEXT.is_file():
        raise SystemExit(f"{TEXT.name} is not installed; it is in a checkout")
    stored = train([TEXT.read_text(encoding="utf-8")], TRAINED_SIZE)
    TRAINED.write_text(json.dumps(stored, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(
        f"{TRAINED.name}: {counted(len(stored['tokens']) + len(stored['special']), 'token')}, "
        f"{counted(len(stored['merges']), 'merge')}"
    )


if __name__ == "__main__":
    main()


# --- syllables -------------------------------------------------------------------------------------------------------
# Different words, to fill a vocabulary; each is built from shorter ones.

#: Syllables of the words that fill a vocabulary, open and closed. No letter both ends a syllable and begins another
#: one, so a word can be split into syllables in only one way, and all words differ. The ends are tokens of the trained
#: vocabulary.
_OPEN: Final = tuple(map("".join, product("bdgk", "aeiou")))
_ENDS: Final = ("ll", "m", "n", "r", "st")
_CLOSED: Final = tuple(syllable + _ENDS[i % 5] for i, syllable in enumerate(_OPEN))


def new_words(space: str, count: int, taken: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return `count` new words with the pairs `a b` that merge to them; a and b come earlier or are in `taken`."""
    words: list[tuple[str, list[str]]] = []
    for word, pairs in _all_words(space):
        if len(words) >= count:
            break
        if word not in taken:
            words.append((word, pairs))
    return words


def _all_words(space: str) -> Iterator[tuple[str, list[str]]]:
    """Yield words of one syllable, of two, and so on; for each length, those without a space come first."""
    for syllable in _OPEN:
        yield syllable, [f"{syllable[0]} {syllable[1]}"]
    for syllable in _CLOSED:
        yield syllable, [f"{syllable[:2]} {syllable[2:]}"]
    syllables = (*_OPEN, *_CLOSED)
    for syllable in syllables:
        yield space + syllable, [f"{space} {syllable}"]
    for length in range(2, 5):
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            yield word, _splits(parts, "")
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            yield space + word, [f"{space} {word}", *_splits(parts, space)]


def _splits(parts: tuple[str, ...], space: str) -> list[str]:
    """Return the ways to cut a word between two syllables."""
    return [f"{space}{''.join(parts[:i])} {''.join(parts[i:])}" for i in range(1, len(parts))]
