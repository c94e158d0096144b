"""An architecture is declared in three files, which CONTRIBUTING lists; each covers every architecture."""

from __future__ import annotations

import io

import pytest

from i2s_spec.convert.new import new
from i2s_spec.convert.random_weights import RECIPES
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.architectures import GRAPHS
from i2s_spec.model.text.chat import FORMATS
from i2s_spec.model.tokenizer.byte_level import BY_NAME
from i2s_spec.schema.architectures import ARCHITECTURES


def test_every_architecture_has_its_three_parts() -> None:
    assert list(ARCHITECTURES) == [each.name for each in ARCHITECTURES.values()]
    assert set(GRAPHS) == set(RECIPES) == set(ARCHITECTURES)
    assert all(each.keys and each.inventory for each in ARCHITECTURES.values())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_parts_fit_each_other(name: str) -> None:
    architecture = ARCHITECTURES[name]
    target = io.BytesIO()
    new(target, name, layers=1, vocab=architecture.small_vocab)
    with open_file(target.getvalue()) as file:
        assert set(file.metadata) <= set(architecture.keys), "the recipe writes keys that are not declared"
        assert all(architecture.match(tensor) for tensor in file.tensors), (
            "the recipe writes tensors without declaration"
        )
    assert architecture.pre_tokenizer is None or architecture.pre_tokenizer in BY_NAME
    assert architecture.chat_format is None or architecture.chat_format in FORMATS
