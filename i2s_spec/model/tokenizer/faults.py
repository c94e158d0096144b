"""This module names the faults that make a vocabulary unusable: those of the linter, and further ones of the tokenizer.

They stop the tokenizer only; a model with such a vocabulary still runs on token ids.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.linter.rules.tokenizer.token_lists import duplicate_token, merge_form
from i2s_spec.linter.rules.tokenizer.tokenizer_keys import (
    tokenizer_array_length,
    tokenizer_key_missing,
    tokenizer_unknown,
)
from i2s_spec.schema.architectures.keys import KEY_TYPE
from i2s_spec.schema.faults import (
    MERGE_OF_NO_TOKENS as BAD_MERGE,
)
from i2s_spec.schema.faults import (
    PRE_UNSUPPORTED as PRE_UNKNOWN,
)
from i2s_spec.schema.faults import (
    SCORE_NOT_A_NUMBER as SCORE_NAN,
)
from i2s_spec.schema.faults import (
    TOKENIZER_TOO_LARGE as TOO_LARGE,
)
from i2s_spec.schema.faults import (
    TOKENIZER_UNSUPPORTED as MODEL_UNSUPPORTED,
)

KEY_MISSING: Final = tokenizer_key_missing.fault
MODEL_UNKNOWN: Final = tokenizer_unknown.fault
MERGE_FORM: Final = merge_form.fault
LENGTH: Final = tokenizer_array_length.fault
DUPLICATE: Final = duplicate_token.fault

__all__ = [
    "BAD_MERGE",
    "DUPLICATE",
    "KEY_MISSING",
    "KEY_TYPE",
    "LENGTH",
    "MERGE_FORM",
    "MODEL_UNKNOWN",
    "MODEL_UNSUPPORTED",
    "PRE_UNKNOWN",
    "SCORE_NAN",
    "TOO_LARGE",
]
