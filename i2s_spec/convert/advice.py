"""This module says in plain words which programs can use a file that was converted, and what they make of it.

Only what is known of released programs is said, and only where it concerns the file.
"""

from __future__ import annotations

#: Architectures of BitNet b1.58 2B-4T, whose feed-forward is ReLU squared.
_RELU2 = ("bitnet-b1.58", "bitnet-25")

_RELU2_NEEDED = (
    "The model was trained with ReLU squared, if it is BitNet b1.58 2B-4T; architecture bitnet means SiLU to llama.cpp "
    "and to BitNet's forks, and the output is then wrong without an error: --hidden-activation relu2 says what is meant."
)
_RELU2_READ = (
    "Upstream llama.cpp computes architecture bitnet with SiLU unless it is of a build that reads "
    "bitnet.hidden_activation (ggml-org/llama.cpp#26751, August 2026). Other builds, and BitNet's forks, ignore the key "
    "without a word, and their output is wrong: compare the perplexity (about 17 on wikitext-2; about 100 with SiLU)."
)


def advice(
    types: set[str],
    architecture: str | None,
    former: str | None,
    activation: str | None,
    layout: str | None,
    pre: bool = True,
) -> tuple[str, ...]:
    """What to know of a file before it is loaded, most important first.

    :param types: types that tensors of the file have
    :param architecture: what `general.architecture` says
    :param former: what it said before, if it was changed
    :param activation: what the file says of the feed-forward's activation
    :param layout: of the I2_S tensors, where there are any
    :param pre: whether the file says how text is split before it becomes tokens, or need not
    """
    said: list[str] = []
    upstream = "I2_S" not in types
    if not upstream:
        said.append(
            "Only BitNet's llama.cpp forks and programs made for I2_S read type 36; upstream llama.cpp refuses the file, "
            "and ik_llama.cpp has to requantise it first."
        )
        if layout not in (None, "interleave-128"):
            said.append(
                f"Nothing in the file says that the layout is {layout}: programs that expect another one load it and "
                "compute with wrong weights."
            )
    if upstream and architecture in _RELU2:
        said.append(
            f"Upstream llama.cpp does not know architecture {architecture}, only bitnet: "
            "--arch bitnet --hidden-activation relu2 makes a file that it loads. BitNet's forks of 2025 load this one."
        )
    if architecture == "bitnet":
        if activation == "relu2":
            said.append(_RELU2_READ)
        elif former in _RELU2:
            said.append(_RELU2_NEEDED)
    if upstream and architecture in ("qwen3", "gemma3"):
        said.append(
            f"Upstream llama.cpp loads no {architecture} with *_norm_in tensors (wrong number of tensors): "
            "BitNet's fork of 2026 does."
        )
    if upstream and types & {"TQ1_0", "TQ2_0"}:
        said.append(
            "llama.cpp quantises activations per 256 elements for TQ1_0 and TQ2_0, where I2_S kernels do it per token: "
            "the weights are the same, the results are close and not equal."
        )
    if upstream and not pre:
        said.append(
            "tokenizer.ggml.pre is missing: upstream llama.cpp warns, and splits text by its default rule; for the "
            "tokenizer of 2B-4T it should say llama-bpe."
        )
    return tuple(said)
