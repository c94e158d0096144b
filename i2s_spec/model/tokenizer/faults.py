"""This module names what makes a vocabulary unusable: the linter's faults where it has them, and those of the tokenizer.

They stop the tokenizer only; a model with such a vocabulary still runs on token ids.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.architectures.hyperparameters import KEY_TYPE
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

KEY_MISSING: Final = REGISTRY["T001"].fault
MODEL_UNKNOWN: Final = REGISTRY["T002"].fault
MERGE_FORM: Final = REGISTRY["T003"].fault
LENGTH: Final = REGISTRY["T004"].fault
DUPLICATE: Final = REGISTRY["T006"].fault

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
