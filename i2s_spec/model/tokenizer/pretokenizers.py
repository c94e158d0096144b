"""This module declares how text is split before merges apply: one `PreTokenizer` for each name, and which runtime uses
which.

A pre-tokenizer is a list of regular expressions. The first splits the text into its matches and the parts between them,
the next splits each of those parts, and so on; merges never cross a boundary.

`tokenizer.ggml.pre` names it. The official BitNet-b1.58-2B-4T file has no such key (clause 3.5), and then runtimes
differ: bitnet.cpp and llama.cpp warn and use `default`, ik_llama.cpp uses `llama3`, and Hugging Face reads the
tokenizer's own file, which also says `llama3`. `choose` follows the given runtime.

    >>> choose(None, "bitnet-b1.58", "bitnet.cpp").pre.name, choose(None, "bitnet-b1.58", "hf").pre.name
    ('default', 'llama-bpe')
    >>> choose("qwen2", "qwen3", "bitnet.cpp").pre.name
    'qwen2'
"""

from __future__ import annotations

from typing import Final, NamedTuple

from i2s_spec.errors import SettingError, quote
from i2s_spec.schema.architectures.architecture import declared_architecture


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


def _modern(numbers: str) -> tuple[str, ...]:
    """The expression of Llama 3 and its relatives, which differ in how many digits stay together."""
    words = r"[^\r\n\p{L}\p{N}]?\p{L}+"
    rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return (f"{_CONTRACTIONS}|{words}|{numbers}|{rest}",)


PRE_TOKENIZERS: Final = (
    PreTokenizer("llama-bpe", _modern(r"\p{N}{1,3}"), ("llama3", "llama-v3"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon3", _modern(r"\p{N}{1,3}"), ignore_merges=True, add_bos=True),
    PreTokenizer("falcon_e", _modern(r"\p{N}{1,3}"), ignore_merges=True),
    PreTokenizer("qwen2", _modern(r"\p{N}")),
    PreTokenizer("gpt-2", (_GPT2,), ("gpt2",)),
    PreTokenizer("default", (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
)

#: Every pre-tokenizer by each of its names.
BY_NAME: Final = {name: pre for pre in PRE_TOKENIZERS for name in (pre.name, *pre.aliases)}

#: The default of each runtime if the file names none; for `hf` it depends on the architecture.
RUNTIMES: Final[dict[str, str | None]] = {
    "bitnet.cpp": "default",
    "llama.cpp": "default",
    "ik_llama.cpp": "llama-bpe",
    "hf": None,
}

DEFAULT_RUNTIME: Final = "hf"


class PreTokenizerChoice(NamedTuple):
    """A pre-tokenizer and why it was chosen; `assumed` if the file did not name it."""

    pre: PreTokenizer
    why: str
    assumed: bool = False


def choose(named: str | None, architecture: str, asked: str | None = None) -> PreTokenizerChoice:
    """The pre-tokenizer for a byte-level vocabulary.

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
