"""Remarks of `i2s run` about how it computed."""

from __future__ import annotations

import pytest
from builders import model_bytes

from i2s_spec.cli.run import has_program
from i2s_spec.model.fast_operations import FastOperations
from i2s_spec.model.load import load_model


@pytest.mark.parametrize(
    ("architecture", "type", "program"),
    [("llama", "I2_S", True), ("llama", "Q2_0", False), ("llama", "PTQ1_0", False), ("llama", "F16", True),
     ("qwen35", "F16", False)],
)  # fmt: skip
def test_what_has_a_compiled_program(architecture: str, type: str, program: bool) -> None:
    model = load_model(model_bytes(architecture, type=type), "fast", threads=1)
    operations = model.operations
    assert isinstance(operations, FastOperations)
    assert (operations.plan(model.graph, model.weights, {}) is not None) is program
    assert has_program(model) is program
    assert has_program(load_model(model_bytes(architecture, type=type), threads=1))
