"""This module declares what loaders do with wrong values in a valid header: they refuse the file, abort, or load it.

`Runtime.endings` names one of the tables. The entries of a table were observed with a build of that commit, and cite
the source line; for other faults, only the declarations of the architecture apply.

file-type          general.file_type of another type than u32
experts            more experts used than there are, or none although there are some rope-scaling       a
                   rope.scaling.type that the loader has no name for no-layers          block_count 0 context-length
                   context_length 0 rope-base          a base of the rotation that is negative, 0, infinite or not a
                   number
epsilon            an epsilon of norms that is not above 0
token-arrays       tokens or merges that are not arrays of text
merge-empty        an empty merge
token-twice        two tokens of the same text
special-token      the number of the first or the last token of texts is beyond the tokens
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from i2s_spec.schema.architectures.keys import NEWER_PRE_TOKENIZERS


class Ending(NamedTuple):
    """The outcome for a model: it is refused, the program crashes, or it is loaded; with the source."""

    outcome: Literal["no", "crash", "yes"]
    source: str


_FORK: Final = "XsquirrelC/llama.cpp@0f0e7dae:"
_IK: Final = "ikawrakow/ik_llama.cpp@8337e4c:"

#: bitnet.cpp of 2024 and 2025.
FORK_ENDINGS: Final = (
    ("file-type", Ending("crash", _FORK + "ggml/src/ggml.c:23375")),
    ("experts", Ending("crash", _FORK + "src/llama.cpp:5512")),
    ("rope-scaling", Ending("crash", _FORK + "src/llama.cpp:5546")),
    ("no-layers", Ending("crash", _FORK + "src/llama.cpp:2558")),
    ("context-length", Ending("yes", _FORK + "src/llama.cpp:5505")),
    ("rope-base", Ending("yes", _FORK + "src/llama.cpp:5541")),
    ("epsilon", Ending("crash", _FORK + "ggml/src/ggml.c:12091")),
    ("token-arrays", Ending("crash", _FORK + "ggml/src/ggml.c:23345")),
    ("merge-empty", Ending("crash", _FORK + "src/llama.cpp:6326")),
    ("token-twice", Ending("crash", _FORK + "src/llama.cpp:6596")),
    ("special-token", Ending("crash", _FORK + "src/llama.cpp:7064")),
)

#: ik_llama.cpp, if its source has the same lines.
IK_ENDINGS: Final = (
    ("experts", Ending("crash", _IK + "src/llama-hparams.cpp:172")),
    ("rope-scaling", Ending("crash", _IK + "src/llama-hparams.cpp:208")),
    ("token-twice", Ending("crash", _IK + "src/llama-vocab.cpp:2261")),
)

#: The names of `rope.scaling.type` that both know.
ROPE_SCALINGS: Final = ("none", "linear", "yarn")

#: Names of `tokenizer.ggml.pre` that others know but a loader does not, with the source.
FORK_2024_PRE: Final = (frozenset({*NEWER_PRE_TOKENIZERS, "falcon_e"}), _FORK + "src/llama.cpp:6512")
FORK_2025_PRE: Final = (frozenset(NEWER_PRE_TOKENIZERS), _FORK + "src/llama.cpp:6512")
IK_PRE: Final = (
    frozenset({"cohere2moe", "falcon_e", "granite-embed-multi-311m", "granite-embed-multi-97m", "minicpm5", "sarvam-moe",
               "talkie", "whitespace"}),
    _IK + "src/llama-vocab.cpp:2171",
)  # fmt: skip
