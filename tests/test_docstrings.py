"""Examples in docstrings are run: each says what its function gives."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest
from house import NAMES

#: Modules that run as programs of their own.
PROGRAMS = {"i2s_spec.__main__", "i2s_spec.model.text.chat_template_worker", "i2s_spec.checkpoints.tokenizers_worker"}

WITH_EXAMPLES = sorted(
    name for name, path in NAMES.items() if name not in PROGRAMS and ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.failed == 0
    assert found.attempted > 0
