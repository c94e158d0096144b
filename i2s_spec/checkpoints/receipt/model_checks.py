"""This module compares the results of a file with those of its checkpoint, and its keys with config.json: g, h, k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.checkpoints.receipt.check_result import NOT_MADE, Check, concluded
from i2s_spec.checkpoints.receipt.checkpoint_forward import CheckpointForward
from i2s_spec.checkpoints.receipt.checkpoint_witness import LINEAR, Witness
from i2s_spec.checkpoints.receipt.file_tensors import type_name
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.errors import counted
from i2s_spec.schema.architectures.architecture import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File

#: How many positions' logits are compared, and the required correlation of each. An activation on a tie may get another
#: code in each of the two; then the code of the file is used (`CheckpointForward`).
POSITIONS: Final = 32
CORRELATION: Final = 0.9999
#: Two logits whose difference is a smaller share of their range may be in either order.
NEAR: Final = 1e-3

_NUMERICS: Final = "hf-f32"
#: The name of the codes before a matrix among the values of a graph.
_CODES: Final = ".act_q8"


def logits_check(file: File, witness: Witness, positions: int = POSITIONS) -> Check:
    """Check g: the file with the numerics `hf-f32`, and the checkpoint with its own forward pass, on the same tokens."""
    from i2s_spec.model.load import load_model

    name = str(file.metadata.get("general.architecture"))
    if name not in ARCHITECTURES:
        return Check("g", NOT_MADE, f"no graph is declared here for architecture {name}")
    vocab, context = int(witness.config["vocab_size"]), int(witness.config["max_position_embeddings"])
    tokens = [int(each) for each in np.random.default_rng(619).integers(0, vocab, min(positions, context))]
    tensors = {
        f"layers.{layer}.{module}": f"blk.{layer}.{word}"
        for layer in range(witness.layers)
        for word, module in LINEAR.items()
    }
    types = {  # runtimes quantize the input of a matrix by its type, and a file can have several types
        module: type_name(tensor)
        for module, name in tensors.items()
        if (tensor := file.tensors.get(f"{name}.weight")) is not None
    }
    table = file.tensors.get("token_embd.weight")
    kind = type_name(table) if table is not None else "F32"
    try:
        model = load_model(file, _NUMERICS)
        codes = [name for name in model.tap_names() if name.endswith(_CODES)]
        result = model.forward(tokens, taps=("result_norm", *codes))
        forward = CheckpointForward(
            witness,
            quantized=lambda module: types[module] not in ("F32", "F16", "BF16"),
            table=lambda values: _stored(values, kind),
            scale=lambda module, values: _stored(values, "F16" if _has_half_scales(types[module]) else "F32"),
            codes=lambda module: result.taps.get(tensors[module] + _CODES),
        )
        hidden = forward.hidden(tokens)
        logits = result.logits is not None
        want = forward.logits(hidden) if logits else hidden
    except (ValueError, KeyError) as error:
        return Check("g", NOT_MADE, f"one of the two cannot be run here: {error}")
    found = result.logits if result.logits is not None else result.taps["result_norm"]
    what = "logits" if logits else "hidden states after the last norm"
    return _agreement(np.asarray(found, np.float32), want, what, forward.ties, argmax=logits)


def _agreement(found: NDArray[np.float32], want: NDArray[np.float32], what: str, ties: int, *, argmax: bool) -> Check:
    if not np.isfinite(found).all() or not np.isfinite(want).all():
        return concluded("g", [f"the {what} are not finite"], "")
    problems, correlations, changed = [], [], 0
    for position, (ours, theirs) in enumerate(zip(found, want, strict=True)):
        correlation = float(np.corrcoef(ours.astype(np.float64), theirs.astype(np.float64))[0, 1])
        correlations.append(correlation)
        if not correlation >= CORRELATION:
            problems.append(f"position {position}: the {what} correlate by {correlation:.6f}")
        best, other = int(theirs.argmax()), int(ours.argmax())
        if argmax and best != other:
            changed += 1
            if theirs[best] - theirs[other] > NEAR * (theirs.max() - theirs.min()):
                problems.append(
                    f"position {position}: token {other:,} has the largest logit, and {best:,} in the checkpoint"
                )
    worst = min(correlations)
    spread = float(np.abs(found - want).max() / max(float(np.abs(want).max()), 1e-30))
    if spread > 0.05 and not problems:
        problems.append(f"the {what} differ by up to {spread:.3g} of the largest")
    facts: dict[str, Any] = {
        "positions": len(found),
        "correlation": worst,
        "ties": ties,
        "largest_difference": spread,
        "argmax": changed,
    }
    same = ""
    if argmax:
        but = f" but for {counted(changed, 'near tie')}" if changed else ""
        same = f", the same largest tokens{but}"
    return concluded(
        "g",
        problems,
        f"{counted(len(found), 'position')}: correlation at least {worst:.7f}{same}; {ties:,} activations on a tie",
        facts,
    )


def _has_half_scales(type: str) -> bool:
    """Whether a type rounds scales to float16, which check c compares."""
    return type in BLOCK_TYPES and BLOCK_TYPES[type].scale.type == "F16"


def _stored(values: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """A table of floats in the precision of the file, which check b compares."""
    if kind == "F16":
        return values.astype(np.float16).astype(np.float32)
    if kind == "BF16":
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return values


def lint_check(file: File, runtimes: Sequence[str] = ()) -> Check:
    """Check h: the findings of `i2s lint`, and what the requested runtimes do with the file."""
    from i2s_spec.linter.engine import lint
    from i2s_spec.linter.rule import Severity

    findings = lint(file.source, threads=1).findings
    errors = [f"{each.code} {each.message}" for each in findings if each.severity is Severity.ERROR]
    codes = sorted({each.code for each in findings if each.severity is not Severity.ERROR})
    others = f"; warnings and notes: {', '.join(codes)}" if codes else ""
    return concluded("h", errors, f"no error{others}; no runtime was requested", {"other_codes": codes})


def keys_check(file: File, witness: Witness) -> Check:
    """Check k: the keys from which a graph is built agree with config.json."""
    config, found = witness.config, file.metadata
    arch = witness.architecture
    heads, heads_kv, width = witness.heads
    about = config.get("rope_parameters") or config.get("rope_scaling") or {}
    about = about.get("full_attention", about)
    kind = about.get("rope_type", about.get("type", "default"))
    want: dict[str, Any] = {
        "general.architecture": arch,
        f"{arch}.block_count": config["num_hidden_layers"],
        f"{arch}.context_length": config["max_position_embeddings"],
        f"{arch}.embedding_length": config["hidden_size"],
        f"{arch}.feed_forward_length": config["intermediate_size"],
        f"{arch}.attention.head_count": heads,
        f"{arch}.attention.head_count_kv": heads_kv,
        f"{arch}.attention.key_length": width,
        f"{arch}.attention.value_length": width,
        f"{arch}.attention.layer_norm_rms_epsilon": float(np.float32(config["rms_norm_eps"])),
        f"{arch}.rope.freq_base": float(np.float32(about.get("rope_theta", config.get("rope_theta", 10000.0)))),
        f"{arch}.rope.dimension_count": width,
        f"{arch}.vocab_size": config["vocab_size"],
    }
    if kind in ("linear", "yarn"):
        want |= {f"{arch}.rope.scaling.type": kind, f"{arch}.rope.scaling.factor": float(np.float32(about["factor"]))}
    problems = [
        f"{key} is {found.get(key)!r}; config.json gives {value!r}"
        for key, value in want.items()
        if found.get(key) != value
    ]
    if kind == "llama3" and "rope_freqs.weight" not in file.tensors:
        problems.append("rope_freqs.weight is missing, which rope_type llama3 needs")
    if witness.architecture is None:
        return Check("k", NOT_MADE, f"no architecture is known here for {witness.class_name}")
    return concluded("k", problems, counted(len(want), "key"))
