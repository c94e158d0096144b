"""Encode text with a byte-level vocabulary: split by regular expressions, bytes as letters, merges by rank.

The library `tokenizers` does the work if it is installed (extra `[tokenizer]`), else `Splitting`. `ByteLevel` builds
either from the vocabulary of the file, and refuses input on which the library would abort or give wrong results
silently. `PRE_TOKENIZERS` declares how text is split, and `choose` follows a runtime where the file does not say it:

    >>> choose(None, "bitnet-b1.58", "bitnet.cpp").pre.name, choose(None, "bitnet-b1.58", "hf").pre.name
    ('default', 'llama-bpe')
    >>> choose("qwen2", "qwen3", "bitnet.cpp").pre.name
    'qwen2'
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from i2s_spec.convert.made_up_vocabulary import alphabet
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.model.tokenizer.vocabulary import CONTROL, USER_DEFINED, Vocabulary
from i2s_spec.schema.architectures import declared_architecture

_MARKS: Final = (CONTROL, USER_DEFINED)

#: Longest run of white space, in characters: the expressions backtrack over it, and the library gives up at three times
#: as much.
MOST_WHITE_SPACE: Final = 1_000_000


def _letters() -> dict[int, str]:
    """Return the character that represents each byte in tokens."""
    printable = [byte for byte in range(256) if chr(byte) in set(alphabet())]
    others = [byte for byte in range(256) if byte not in printable]
    return dict(zip((*printable, *others), alphabet(), strict=True))


LETTER_OF: Final = _letters()
BYTE_OF: Final = {letter: byte for byte, letter in LETTER_OF.items()}


def to_bytes(token: str) -> bytes:
    """Return the bytes that a byte-level token represents; characters outside the alphabet represent themselves.

    >>> to_bytes("Ġworld")
    b' world'
    """
    return b"".join(
        bytes((BYTE_OF[letter],)) if letter in BYTE_OF else letter.encode("utf-8", "surrogateescape")
        for letter in token
    )


class ByteLevel:
    """Encodes pieces of text without special tokens.

    :raises FormatError: for a broken vocabulary
    """

    def __init__(self, vocabulary: Vocabulary, pre: PreTokenizer) -> None:
        merges, words = vocabulary.merges, dict(vocabulary.ids)
        # Control tokens are not words, whatever their text, unless merges use them.
        marks = {token for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind in _MARKS}
        marks -= marks.intersection(chain(chain.from_iterable(merges), map("".join, merges), alphabet()))
        if not _is_text("".join(words)):  # tokens that are not UTF-8 never occur in text
            marks.update(token for token in words if not _is_text(token))
            merges = [pair for pair in merges if _is_text(pair[0] + pair[1])]
        for token in marks:
            del words[token]
        self._missing = frozenset(byte for byte, letter in LETTER_OF.items() if letter not in words)
        self._ids = (
            _library(words, merges, pre) or Splitting(words, merges, pre.splits, LETTER_OF, pre.ignore_merges).encode
        )

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a piece of text.

        :raises SettingError: for text with a byte that has no token in the vocabulary, or with too long a run of white
        space
        """
        if self._missing and (missing := self._missing.intersection(text.encode())):
            raise SettingError(f"the vocabulary has no token for the byte 0x{min(missing):02x}, which is in the text")
        if len(text) > MOST_WHITE_SPACE:
            longest = max((match.end() - match.start() for match in re.finditer(r"\s+", text)), default=0)
            if longest > MOST_WHITE_SPACE:
                raise SettingError(
                    f"the text has {counted(longest, 'character')} of white space in a row; "
                    f"the limit is {MOST_WHITE_SPACE:,}"
                )
        return self._ids(text)


def _library(
    words: dict[str, int], merges: Sequence[tuple[str, str]], pre: PreTokenizer
) -> Callable[[str], list[int]] | None:
    """Return the library's tokenizer, if it is installed."""
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    except ImportError:
        return None
    model: Any = models.BPE(words, list(merges), ignore_merges=pre.ignore_merges)
    tokenizer: Any = Tokenizer(model)
    splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in pre.splits]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    return ids


def _is_text(token: str) -> bool:
    """Whether a token is UTF-8 (invalid bytes were read as surrogates)."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- splitting -------------------------------------------------------------------------------------------------------
# In pure Python, text is split by the expressions of a pre-tokenizer, and the letters of each part are merged by rank,
# the lowest first, of equal ones the leftmost. It gives the same ids as the library, but is slower for new parts;
# letters, numbers and punctuation are those of Python's Unicode version.

#: Characters of Unicode's property White_Space; Python's own class has four more separators.
_WHITE: Final = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: The parts of an expression that Python writes differently.
_CLASS: Final = re.compile(r"\\p\{([LMNP])\}|\\([sS])|\\.|[\[\]]", re.DOTALL)

#: Most parts whose ids are cached.
_RETAINED: Final = 1 << 14


@cache
def _categories() -> str:
    """Return the first letter of the general category of every code point."""
    return "".join(map(unicodedata.category, map(chr, range(0x110000))))[::2]


@cache
def _members(category: str) -> str:
    """Return the characters of a general category, in the syntax of a character class."""
    runs = re.finditer(f"{category}+", _categories())
    return "".join(rf"\U{run.start():08x}-\U{run.end() - 1:08x}" for run in runs)


@cache
def expression(source: str) -> re.Pattern[str]:
    r"""Return an expression with `\p{...}` and Unicode's white space, translated for Python's `re`.

    >>> expression(r" ?\p{L}+|\s+(?!\S)").findall("Wörter  und")
    ['Wörter', ' ', ' und']
    """
    inside = False

    def python(match: re.Match[str]) -> str:
        nonlocal inside
        if match[0] in "[]":
            inside = match[0] == "["
            return match[0]
        if match[1] is None and match[2] is None:
            return match[0]
        members = _WHITE if match[2] else _members(match[1])
        return members if inside else f"[{'^' if match[2] == 'S' else ''}{members}]"

    return re.compile(_CLASS.sub(python, source))


class Splitting:
    """Encodes pieces of text by the words of a vocabulary, its merges, and the expressions of a pre-tokenizer."""

    def __init__(
        self,
        words: Mapping[str, int],
        merges: Iterable[tuple[str, str]],
        splits: Sequence[str],
        letters: Mapping[int, str],
        ignore_merges: bool,
    ) -> None:
        self._words, self._letters, self._ignore_merges = words, letters, ignore_merges
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._splits = [expression(each) for each in splits]
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a piece of text."""
        parts = [text] if text else []
        for split in self._splits:
            parts = [inner for part in parts for inner in _cut(split, part)]
        ids: list[int] = []
        for part in parts:
            known = self._known.get(part)
            if known is None:
                known = self._merged("".join([self._letters[byte] for byte in part.encode()]))
                if len(self._known) < _RETAINED:
                    self._known[part] = known
            ids += known
        return ids

    def _merged(self, letters: str) -> list[int]:
        """Return the ids of one part, by merging the pair of neighbors with the lowest rank until there is none."""
        if self._ignore_merges and letters in self._words:
            return [self._words[letters]]
        ranks, parts = self._ranks, list(letters)
        after, before = [*range(1, len(parts)), -1], list(range(-1, len(parts) - 1))
        pairs = [(rank, at, pair) for at, pair in enumerate(pairwise(parts))
                 if (rank := ranks.get(pair)) is not None]  # fmt: skip
        heapq.heapify(pairs)
        while pairs:
            _, left, pair = heapq.heappop(pairs)
            right = after[left]
            if right < 0 or (parts[left], parts[right]) != pair:
                continue  # one of them has been merged with another one meanwhile
            parts[left] += parts[right]
            parts[right] = ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            for first, second in ((before[left], left), (left, after[left])):
                if (
                    first >= 0
                    and second >= 0
                    and (rank := ranks.get(pair := (parts[first], parts[second]))) is not None
                ):
                    heapq.heappush(pairs, (rank, first, pair))
        return [self._words[part] for part in parts if part]


def _cut(split: re.Pattern[str], text: str) -> Iterable[str]:
    """Yield the matches of an expression, and the parts between them."""
    at = 0
    for match in split.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        if match.end() > match.start():
            yield match[0]
        at = match.end()
    if at < len(text):
        yield text[at:]


# --- pre-tokenizers --------------------------------------------------------------------------------------------------
# One `PreTokenizer` for each name, and which runtime uses which. A pre-tokenizer is a list of regular expressions. The
# first splits the text into its matches and the parts between them, the next splits each of those parts, and so on;
# merges never cross a boundary.
#
# `tokenizer.ggml.pre` names it. The official BitNet-b1.58-2B-4T file has no such key (clause 3.5): bitnet.cpp, llama.cpp
# and ik_llama.cpp then warn and use `default`, and Hugging Face reads the tokenizer's own file, which says `llama3`.


class PreTokenizer(NamedTuple):
    """How text is split, and other properties that the name implies."""

    name: str
    splits: tuple[str, ...]
    #: Its other names.
    aliases: tuple[str, ...] = ()
    #: Whether a part that is a whole token becomes that token, without merges.
    ignore_merges: bool = False
    #: Whether a text gets a first token if the file does not say.
    add_bos: bool = False


_CONTRACTIONS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def _modern(numbers: str, letters: str = r"\p{L}") -> tuple[str, ...]:
    """Return the expression of Llama 3 and its relatives, which differ in how many digits stay together, and whether
    marks are letters."""
    word = letters if letters == r"\p{L}" else f"[{letters}]"
    rest = rf" ?[^\s{letters}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return (rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{word}+|{numbers}|{rest}",)


PRE_TOKENIZERS: Final = (
    PreTokenizer("llama-bpe", _modern(r"\p{N}{1,3}"), ("llama3", "llama-v3"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon3", _modern(r"\p{N}{1,3}"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon_e", _modern(r"\p{N}{1,3}"), ignore_merges=True),
    PreTokenizer("qwen2", _modern(r"\p{N}")),
    PreTokenizer("qwen35", _modern(r"\p{N}", r"\p{L}\p{M}")),
    PreTokenizer("gpt-2", (_GPT2,), ("gpt2",)),
    PreTokenizer("default", (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
)

#: Every pre-tokenizer by each of its names.
BY_NAME: Final = {name: pre for pre in PRE_TOKENIZERS for name in (pre.name, *pre.aliases)}

#: The default of each runtime if the file names none; for `hf` it depends on the architecture.
RUNTIMES: Final[dict[str, str | None]] = {
    "bitnet.cpp": "default",
    "llama.cpp": "default",
    "ik_llama.cpp": "default",
    "hf": None,
}

DEFAULT_RUNTIME: Final = "hf"


class PreTokenizerChoice(NamedTuple):
    """A pre-tokenizer and why it was chosen; `assumed` if the file did not name it."""

    pre: PreTokenizer
    why: str
    assumed: bool = False


def choose(named: str | None, architecture: str, asked: str | None = None) -> PreTokenizerChoice:
    """Return the pre-tokenizer for a byte-level vocabulary.

    :param named: the value of `tokenizer.ggml.pre`; None if the key is missing
    :param architecture: the value of `general.architecture`
    :param asked: the name of a pre-tokenizer, which overrides the file; or that of a runtime (`RUNTIMES`), which
    decides only if the file names none; None means `hf`
    :raises SettingError: for a name that is neither
    :raises KeyError: if the file names one that is not known here
    """
    if asked is not None and asked not in RUNTIMES:
        if asked not in BY_NAME:
            known = ", ".join((*BY_NAME, *RUNTIMES))
            raise SettingError(f"there is no pre-tokenizer {quote(asked)}; there are {known}")
        return PreTokenizerChoice(BY_NAME[asked], "as asked")
    if named is not None:
        return PreTokenizerChoice(BY_NAME[named], "named by the file")
    runtime = asked or DEFAULT_RUNTIME
    declared = declared_architecture(architecture)
    trained = None if declared is None else declared.pre_tokenizer
    name = RUNTIMES[runtime] or trained or "default"
    if RUNTIMES[runtime] is None and trained is not None:
        return PreTokenizerChoice(
            BY_NAME[name], f"the tokenizer that {architecture} models were trained with", assumed=True
        )
    return PreTokenizerChoice(BY_NAME[name], f"as {runtime} does", assumed=True)
