"""Remarks of `i2s run` about how it computed."""

from __future__ import annotations

import pytest
from builders import model_bytes

from i2s_spec.cli.run import has_program
from i2s_spec.model.fast_operations import FastOperations
from i2s_spec.model.load import load_model


@pytest.mark.parametrize(("type", "program"), [("I2_S", True), ("Q2_0", False), ("PTQ1_0", False), ("F16", True)])
def test_scales_that_differ_have_no_compiled_program(type: str, program: bool) -> None:
    model = load_model(model_bytes("llama", layers=1, type=type), "fast", threads=1)
    operations = model.operations
    assert isinstance(operations, FastOperations)
    assert (operations.plan(model.graph, model.weights, {}) is not None) is program
    assert has_program(model) is program
    assert has_program(load_model(model_bytes("llama", layers=1, type=type), threads=1))
