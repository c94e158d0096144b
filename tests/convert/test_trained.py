"""The trained models in the package: they match their cards, and can be written in any form."""

from __future__ import annotations

import io
import json
import sys
import zlib
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share

import i2s_spec as i2s
from i2s_spec.convert.trained import (
    DEFAULT,
    HERE,
    MODELS,
    card,
    gguf_bytes,
    model_of,
    open_trained,
    source,
    write_trained,
)
from i2s_spec.schema.dialect import LAYOUTS

ROOT = Path(__file__).resolve().parents[2]
EACH = pytest.mark.parametrize("name", MODELS)
FORMS = [(name, architecture) for name, architectures in MODELS.items() for architecture in architectures]


def reference(name: str) -> dict[str, Any]:
    """What the network in PyTorch computed at the end of training."""
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "trained" / f"{name}.logits.json").read_text())
    return stored


def written(architecture: str, **options: Any) -> bytes:
    target = io.BytesIO()
    write_trained(target, architecture, **options)
    return target.getvalue()


def ternary(file: Any, dialect: str = "canonical") -> dict[str, Any]:
    """Trits and scale of every ternary tensor."""
    return {
        tensor.name: (tensor.trits(dialect), tensor.scale(dialect))
        for tensor in file.tensors.values()
        if tensor.type.name == "I2_S"
    }


@EACH
def test_the_card_describes_the_file(name: str) -> None:
    data, about = gguf_bytes(name), card(name)
    assert about["file"] == {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    assert about["license"] == about["data"]["license"] == "CC0-1.0"
    with open_trained(name) as file:
        assert file.metadata["general.license"] == "CC0-1.0"
        assert file.metadata["general.architecture"] == about["architecture"] == MODELS[name][0]
        prefix = about["architecture"]
        keys = {
            "layers": "block_count", "embd": "embedding_length", "ff": "feed_forward_length", "context": "context_length",
            "heads": "attention.head_count", "heads_kv": "attention.head_count_kv", "vocab": "vocab_size",
        }  # fmt: skip
        assert {field: file.metadata[f"{prefix}.{key}"] for field, key in keys.items()} == about["sizes"]


@EACH
def test_the_readme_of_the_training_agrees_with_the_card(name: str) -> None:
    text, about = (ROOT / "tests" / "training" / "README.md").read_text(encoding="utf-8"), card(name)
    for fact in (about["file"]["sha256"], f"{about['file']['bytes']:,}", f"{about['training']['unseen_loss']:.2f}"):
        assert fact in text, fact
    log = [json.loads(line) for line in (ROOT / "tests" / "training" / f"{name}.log.jsonl").read_text().splitlines()]
    assert log[-1]["unseen"] == about["training"]["unseen_loss"]


def test_the_package_stays_small() -> None:
    sizes = {
        path.name: len(zlib.compress(path.read_bytes())) for path in HERE.iterdir() if path.suffix in (".xz", ".json")
    }
    assert sum(sizes.values()) <= 600_000, sizes
    assert sizes["llama.gguf.xz"] <= 120_000


@EACH
def test_the_loss_is_far_below_chance(name: str) -> None:
    about = card(name)["training"]
    assert about["unseen_loss"] <= about["uniform_loss"] / 2


@EACH
def test_the_linter_has_nothing_to_say_of_it(name: str) -> None:
    report = i2s.lint(source(name), payload="full")
    allowed = {"M112"} if name == "llama" else set()  # a tied head under `llama` is always noted
    assert {finding.code for finding in report.findings} <= allowed


@EACH
@pytest.mark.parametrize(
    ("numerics", "farthest", "middle"),
    [("bitnet-golden-1", 0.1, 2e-3), ("hf-f32", 0.1, 2e-3), ("fast", 0.3, 2e-2)],  # fast keeps keys and values as F16
)
def test_the_forward_pass_gives_what_the_trained_network_gave(
    name: str, numerics: str, farthest: float, middle: float
) -> None:
    expected = reference(name)
    with i2s.load_model(source(name), numerics=numerics, threads=1) as model:
        logits = np.asarray(model.forward(expected["tokens"]).logits, dtype=np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    # Rounding at ties may change a code of the activations (reference: clause 9), never much more than that.
    best = logits.argmax(-1)
    assert (best == expected["best"]).mean() > 0.98
    at_best = probabilities[np.arange(len(best)), expected["best"]]
    assert np.abs(at_best - expected["log_probability"]).max() < farthest
    assert np.median(np.abs(at_best - expected["log_probability"])) < middle
    last = np.array(expected["last_logits"])
    assert np.linalg.norm(logits[-1] - last) < 0.02 * np.linalg.norm(last)


@EACH
@pytest.mark.skipif(find_spec("tokenizers") is None, reason="tokenizers is not installed")
def test_it_predicts_unseen_stories(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of the card, measured again by this package on some of the same stories."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "training"))
    import corpus

    told = list(corpus.stories("unseen", 12))
    with i2s.load_model(source(name), numerics="fast", threads=1) as model:
        tokenizer = i2s.load_tokenizer(model.file)
        total, count = 0.0, 0
        for story in told:
            ids = [*tokenizer.encode(story, add_special=False), tokenizer.eos]
            ids = [tokenizer.bos, *ids][: card(name)["sizes"]["context"] + 1]
            logits = np.asarray(model.forward(ids[:-1]).logits, dtype=np.float64)
            logits -= logits.max(-1, keepdims=True)
            log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            total -= log[np.arange(len(ids) - 1), ids[1:]].sum()
            count += len(ids) - 1
    assert total / count == pytest.approx(card(name)["training"]["unseen_loss"], rel=0.15)
    for module in ("corpus", "stories", "world", "grammar"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("name", "architecture", "order"), share((*form, order) for form in FORMS for order in ("little", "big"))
)
def test_every_form_has_the_same_trits(name: str, architecture: str, order: Any) -> None:
    with open_trained(name) as file:
        expected = ternary(file)
    for dialect in (layout.name for layout in LAYOUTS.values() if layout.in_gguf):
        file = i2s.open(written(architecture, dialect=dialect, byte_order=order))
        assert (file.byte_order, file.metadata["general.architecture"]) == (order, architecture)
        found = ternary(file, dialect)
        assert found.keys() == expected.keys()
        for tensor, (matrix, scale) in expected.items():
            again, same = found[tensor]
            assert np.array_equal(again, matrix), (dialect, tensor)
            assert same == scale


@pytest.mark.parametrize("to", ["TQ1_0", "TQ2_0", "F16", "BF16", "F32"])
def test_other_types(to: str) -> None:
    file = i2s.open(written("bitnet-25", to=to, byte_order="big"))
    types = {tensor.type.name for tensor in file.tensors.values()}
    assert to in types
    assert "I2_S" not in types


DEFAULT_ARCHITECTURE = MODELS[DEFAULT][0]


@EACH
def test_without_options_it_is_the_file_of_the_package(name: str) -> None:
    assert written(MODELS[name][0]) == gguf_bytes(name)


def test_bitnet_states_its_activation() -> None:
    file = i2s.open(written("bitnet"))
    assert file.metadata["bitnet.hidden_activation"] == "relu2"
    expected = reference(DEFAULT)["tokens"][:16]
    with i2s.load_model(written("bitnet")) as renamed, i2s.load_model(source()) as model:
        assert np.array_equal(renamed.forward(expected).logits, model.forward(expected).logits)


def test_other_architectures_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no trained model of architecture 'qwen3'; there are bitnet-b1\.58"):
        model_of("qwen3")
