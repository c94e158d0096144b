"""Rules about what runtimes, conversions and programs that use a model make of a file."""

from i2s_spec.linter.rules.programs import (
    model_use,
    runtime_support,
)

__all__ = [
    "model_use",
    "runtime_support",
]
