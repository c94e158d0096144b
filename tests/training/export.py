"""This module writes a trained network as a GGUF file, with the keys and tensors of real files of its architecture.

Latent weights become trits and a scale, the mean of |W|. The released quantizer writes the same scale, because it takes
the largest |weight| of weights that already are trit times scale. The table is stored as F16, which holds it exactly,
gains as F32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from network import Network, TernaryLinear, ternary
from vocabulary import load

from i2s_spec.codec.native import pack
from i2s_spec.convert.new import write_model
from i2s_spec.convert.random_weights import Size
from i2s_spec.schema.architectures import Placed

ABOUT = {
    "general.description": "A small ternary model of short stories, trained for the i2s-spec package.",
    "general.license": "CC0-1.0",
}


def write_gguf(target: Path, name: str, architecture: str, network: Network, vocabulary: Path) -> None:
    """Write a network to a file; one that is there is replaced."""
    sizes = network.sizes

    def data(placed: Placed) -> Any:
        path = placed.name.removesuffix(".weight")
        if path == "token_embd":
            return network.table().detach().numpy().astype(np.float16)
        module = network.get_submodule(path)
        if isinstance(module, TernaryLinear):
            trits, scale = ternary(module.weight.detach())
            return pack(trits.numpy().astype(np.int8), float(scale))
        return module.weight.detach().numpy().astype(np.float32)  # type: ignore[union-attr,operator]

    write_model(
        target,
        architecture,
        Size(sizes.layers, sizes.embd, sizes.ff, sizes.heads, sizes.heads_kv, sizes.vocab, sizes.context),
        load(vocabulary, sizes.vocab),
        data,
        about={"general.name": f"i2s-spec-{name}", **ABOUT},
        without=("tokenizer.chat_template", "output.weight"),
        force=True,
    )
