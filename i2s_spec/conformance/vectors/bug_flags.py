"""The flags of vectors: names of the mistakes that a vector finds (`schema.mistakes`)."""

from __future__ import annotations

from typing import Final

from i2s_spec.schema.mistakes import MISTAKES

#: Mistakes of models that no vector of this suite shows, and why.
NOT_IN_MODELS: Final = {
    "activation-blocks": "rows of the models are no multiples of 256; vectors of activations have the rule q8_k",
    "int16-wrap-avx2": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "int16-wrap-neon": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "rope-factors-ignored": "no model of the suite has rope_freqs.weight",
    "rope-scale-ignored": "no model of the suite scales positions",
    "pooling-last": "every embedding model of the suite takes the last token",
}

#: Every flag by its name.
FLAGS: Final = {name: mistake for name, mistake in MISTAKES.items() if name not in NOT_IN_MODELS}
