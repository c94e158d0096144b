"""Small models of every architecture and their records, made once."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.golden import record
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.schema.architectures import ARCHITECTURES

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


@cache
def small_model(architecture: str) -> Model:
    """One layer, or one of each kind, so that a comparison takes a moment; two key heads, so that heads can be mixed up."""
    file = io.BytesIO()
    i2s.new(file, architecture, layers=1 + ARCHITECTURES[architecture].delta_nets, heads=4, heads_kv=2)
    return load_model(file.getvalue(), threads=1)


@pytest.fixture(scope="session")
def model_of() -> Callable[[str], Model]:
    return small_model


@pytest.fixture(scope="session")
def golden_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The record of a small model."""
    made: dict[str, Path] = {}

    def find(architecture: str) -> Path:
        if architecture not in made:
            made[architecture] = tmp_path_factory.mktemp("golden") / architecture
            record(small_model(architecture), TOKENS, made[architecture])
        return made[architecture]

    return find


@pytest.fixture(scope="session")
def taps_of(golden_of: Callable[[str], Path]) -> Callable[[str], dict[str, Any]]:
    """All taps of a small model by name."""
    from i2s_spec.golden.dumps import read_dump

    def find(architecture: str) -> dict[str, Any]:
        dump = read_dump(golden_of(architecture))
        return {name: dump[name].value for name in dump}

    return find
