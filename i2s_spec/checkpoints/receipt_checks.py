"""The checks of a GGUF file against its checkpoint, `CHECKS` a to k: weights, texts, logits, lint, keys.

A `Check` is passed, failed, or not made, with what was compared. A check that could not be made says why. Only a check
that compared something can pass. What the file must hold comes from `reference_import`, never from the importer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.folder import MOST_TOKENIZER
from i2s_spec.checkpoints.reference_import import NET_FLOATS, CheckpointForward, Witness, WitnessMatrix
from i2s_spec.checkpoints.token_files import (
    PROBES,
    CannotTellError,
    ask_library,
    cuts_of,
    from_tokenizer_model,
    only_pre_tokenizer,
)
from i2s_spec.codec import blocks_native
from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.compare.hash import require_own_bytes
from i2s_spec.errors import FormatError, MissingExtra, SettingError, counted, quote
from i2s_spec.model.text.chat import SECONDS, Message, render
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT, load_tokenizer
from i2s_spec.schema.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.checkpoints.folder import CheckpointFolder
    from i2s_spec.gguf.reader import File, Tensor

PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_MADE: Final = "not made"

#: Every check by its letter, in the order in which it is made.
CHECKS: Final = {
    "a": "every tensor of the checkpoint is in the file, once, and nothing else is",
    "b": "codes and floats of every tensor equal those derived from the checkpoint",
    "c": "scales, bit for bit, and what weight_scale does",
    "d": "shares of -1, 0 and +1; no code without a meaning",
    "e": "the order of rows that rotation pairs",
    "f": "token ids of texts, special tokens and the chat template",
    "g": "logits of the file and of the checkpoint",
    "h": "lint finds no error",
    "i": "share of trits that differ from a base model",
    "k": "sizes, rotation and context equal config.json",
}


class Check(NamedTuple):
    """The result of one check.

    :param id: a letter of `CHECKS`
    :param status: `passed`, `failed` or `not made`
    :param detail: what was compared, or why nothing was compared, in a sentence
    :param facts: numbers for JSON
    """

    id: str
    status: str
    detail: str
    facts: Mapping[str, Any] = {}

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id, "checks": CHECKS[self.id], "status": self.status, "detail": self.detail,
            "facts": dict(self.facts),
        }  # fmt: skip


def concluded(id: str, problems: Sequence[str], detail: str, facts: Mapping[str, Any] | None = None) -> Check:
    """Return a check that was made: failed with its first problems, else passed.

    :param detail: the sentence if there are no problems
    """
    if not problems:
        return Check(id, PASSED, detail, facts or {})
    more = f"; and {len(problems) - 3:,} more" if len(problems) > 3 else ""
    return Check(id, FAILED, "; ".join(problems[:3]) + more, {**(facts or {}), "problems": len(problems)})


# --- file tensors ----------------------------------------------------------------------------------------------------
# Whole tensors of a GGUF file for comparison: trits and scales of every type that has them.


class FileMatrix(NamedTuple):
    """A matrix of a file: int8 values [rows, cols], and float32 scales: [1, 1], or one for each group [rows, groups]."""

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]


def type_name(tensor: Tensor) -> str:
    """Return the name of a tensor's type."""
    return tensor.type.name if tensor.type is not None else f"type {tensor.number}"


def floats_of(tensor: Tensor) -> NDArray[np.float32]:
    """Return a float tensor as float32.

    :raises ValueError: for other types
    """
    try:
        return tensor.array().astype(np.float32)
    except TypeError as error:
        raise ValueError(str(error)) from None


def matrix_of(tensor: Tensor) -> FileMatrix | None:
    """Return the trits and scales of a matrix; None for float types.

    :raises ValueError: for unused codes
    """
    name = type_name(tensor)
    if name == "I2_S":
        trits, scale = tensor.ternary().whole()
        return FileMatrix(trits, np.array([[scale]], np.float32))
    if name in BLOCK_TYPES:
        values, scales = blocks_native.unpack(tensor.read(), tensor.shape, name)
        return FileMatrix(values, scales.reshape(len(values), -1))
    return None


def tensor_hashes(file: File, decoded: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the record of each tensor: its type, shape, the hash of its bytes; for trits also their hash, counts
    and scales.

    `trits` is the SHA-256 of int8 -1, 0, +1 row by row: equal in every type that holds the same trits. A matrix that
    is faulty, as by an unused code, has only the hash of its bytes.

    :param decoded: names of the tensors whose trits are wanted; by default all
    :raises FormatError: for a tensor that the file does not hold whole
    :raises ValueError: for a file whose tensors share so many bytes that the time would grow with its square
    """
    require_own_bytes(file, file.tensors.values())
    return {name: _hashes(tensor, decoded is None or name in decoded) for name, tensor in file.tensors.items()}


def _hashes(tensor: Tensor, decoded: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": type_name(tensor), "shape": list(tensor.shape), "data": hashlib.sha256(tensor.read()).hexdigest()
    }  # fmt: skip
    try:
        matrix = matrix_of(tensor) if decoded and len(tensor.shape) == 2 else None
    except FormatError:
        raise
    except ValueError:  # what is wrong with it is lint's to say
        matrix = None
    if matrix is not None:
        counts = [int(np.count_nonzero(matrix.trits == value)) for value in (-1, 0, 1)]
        found |= {
            "trits": hashlib.sha256(np.ascontiguousarray(matrix.trits).data).hexdigest(), "counts": counts,
            "scales": hashlib.sha256(matrix.scales.astype("<f4").tobytes()).hexdigest(),
        }  # fmt: skip
        if matrix.scales.size == 1:
            found["scale"] = float(matrix.scales.item())
    return found


# --- weight checks ---------------------------------------------------------------------------------------------------
# Checks a to e compare the weights of a file with those of the checkpoint.

#: Range of the share of zeros in trained ternary matrices; other shares are reported, and 0 % or 100 % fails.
USUAL_ZEROS: Final = (0.25, 0.65)
#: Largest difference between the shares of -1 and +1 of a whole model.
BALANCE: Final = 0.02

_FACTORS: Final = "rope_freqs.weight"
#: Tensors of the checkpoint that are stored as part of another tensor.
_PARTS: Final = ".weight_scale"


class _Tally:
    """The result of the comparison of all matrices."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.scales: list[str] = []
        self.rows: list[str] = []
        self.codes: list[str] = []
        self.unusual: list[str] = []
        self.counts = np.zeros(3, dtype=np.int64)
        self.rules: dict[str, int] = {}
        self.rounded = 0.0
        self.permuted = 0


def weight_checks(file: File, witness: Witness, latent: Witness | None = None) -> list[Check]:
    """Check a to e.

    :param latent: another revision of the checkpoint, with the floats from which the packed one was made
    """
    expected = witness.expected()
    tally = _Tally()
    for name, module in expected.items():
        if name in file.tensors:
            _compare(file.tensors[name], module, witness, tally)
    checks = [_bijection(file, witness, expected)]
    total = int(tally.counts.sum())
    facts: dict[str, Any] = {"tensors": len(expected), "rules": tally.rules, "largest_rounding": tally.rounded}
    checks.append(concluded("b", tally.values, f"{counted(len(expected), 'tensor')}, {counted(total, 'trit')}", facts))
    scales = "all scales are as derived" if total else "scales are within the floats that check b compares"
    convention, proof = _convention(witness, latent)
    checks.append(concluded("c", tally.scales + convention, f"{scales}; {proof}"))
    shares = tally.counts / max(total, 1)
    if total and abs(shares[0] - shares[2]) > BALANCE:
        tally.codes.append(f"-1 has a share of {shares[0]:.4f} and +1 of {shares[2]:.4f}")
    unusual = (
        f"; unusual shares of zeros in {counted(len(tally.unusual), 'matrix', 'matrices')}" if tally.unusual else ""
    )
    facts = {
        "minus": float(shares[0]),
        "zero": float(shares[1]),
        "plus": float(shares[2]),
        "unusual": tally.unusual[:20],
    }
    if total:
        detail = f"-1 {shares[0]:.4f}, 0 {shares[1]:.4f}, +1 {shares[2]:.4f}{unusual}"
        checks.append(concluded("d", tally.codes, detail, facts))
    else:
        checks.append(Check("d", NOT_MADE, "the matrices are stored as floats, which have no codes"))
    order = "two halves of a head alternate" if tally.permuted and not witness.qwen35 else "as in the checkpoint"
    if tally.permuted and witness.qwen35:
        order += ", and those of value heads in turn for all key heads"
    checks.append(concluded("e", tally.rows, f"the rows of queries and keys are in the order that "
                            f"{witness.architecture} rotates: {order}; no likelihood of a text was measured"))  # fmt: skip
    return checks


def _bijection(file: File, witness: Witness, expected: dict[str, str]) -> Check:
    problems = [f"tensor {quote(name)} is missing" for name in expected if name not in file.tensors]
    extra = [name for name in file.tensors if name not in expected and name != _FACTORS]
    problems += [f"tensor {quote(name)} corresponds to nothing in the checkpoint" for name in extra]
    made = {module if module == "lm_head" else witness.prefix + module for module in expected.values()}
    if not witness.untied:
        made.add("lm_head")  # a copy of the embedding
    for name in sorted(witness.used()):
        module, _, end = name.rpartition(".")
        floats = end == "weight_scale" and not witness.is_packed(module)
        if name in made:
            continue
        if module not in made or end not in ("weight", "weight_scale", "bias") or floats:
            problems.append(f"{quote(name)} of the checkpoint is in no tensor of the file")
    for name, module in expected.items():
        if not (module == "lm_head" or witness.has(module) or witness.prefix + module in witness.folder.tensors):
            problems.append(
                f"the checkpoint has no tensor {quote(f'{witness.prefix}{module}.weight')} for {quote(name)}"
            )
    return concluded(
        "a", problems, f"{counted(len(expected), 'tensor')}; the head is {'its own' if witness.untied else 'tied'}"
    )


def _compare(tensor: Tensor, module: str, witness: Witness, tally: _Tally) -> None:
    name = tensor.name
    word, _, end = name.rpartition(".")
    word = word.rpartition(".")[2]
    try:
        if end == "weight" and witness.is_ternary(word, module):
            want = witness.matrix(module)
            found = matrix_of(tensor)
            tally.rules[want.rule] = tally.rules.get(want.rule, 0) + 1
            _compare_matrix(tensor, found, want, word, witness, tally)
            return
        whole = name.split(".", 2)[-1]
        if whole in NET_FLOATS:
            values = witness.net_floats(whole.partition(".")[0], module)
        elif end == "bias":
            values = witness.permuted(word, witness.floats(f"{module}.bias"))
        elif "norm" in word:
            values = witness.gains(module)
        else:
            values = witness.permuted(word, witness.floats(f"{module}.weight"))
    except (ValueError, KeyError) as error:
        tally.values.append(f"{quote(name)}: {error}")
        return
    _compare_floats(tensor, values, tally)


def _compare_floats(tensor: Tensor, values: NDArray[np.float32], tally: _Tally) -> None:
    """Floats of the file are those of the checkpoint, rounded to the type, half to even."""
    if type_name(tensor) not in ("F32", "F16", "BF16"):
        tally.values.append(f"{quote(tensor.name)} is {type_name(tensor)}, and its source is floats")
        return
    found = floats_of(tensor)
    if found.shape != values.shape or not np.array_equal(found, _rounded(values, type_name(tensor))):
        tally.values.append(f"{quote(tensor.name)} differs from the checkpoint")
        return
    size = np.abs(values)
    present = size > 1e-6
    if present.any():
        tally.rounded = max(tally.rounded, float((np.abs(found - values)[present] / size[present]).max()))


def _compare_matrix(
    tensor: Tensor, found: FileMatrix | None, want: WitnessMatrix, word: str, witness: Witness, tally: _Tally
) -> None:
    name = tensor.name
    trits, scales, _ = witness.in_file_order(word, want)
    kind = type_name(tensor)
    tally.permuted += trits is not want.trits
    if tensor.shape != trits.shape:
        tally.values.append(f"{quote(name)} has the shape {list(tensor.shape)}, and {list(trits.shape)} is right")
        return
    if found is None:
        weights = _rounded(WitnessMatrix(trits, scales, want.rule).weights(), kind)
        if not np.array_equal(floats_of(tensor), weights):
            tally.values.append(f"{quote(name)} differs from the checkpoint")
        return
    tally.counts += [int(np.count_nonzero(found.trits == value)) for value in (-1, 0, 1)]
    if int(found.trits.max(initial=0)) > 1:
        tally.codes.append(f"{quote(name)} has a fourth code")
    zeros = float(np.count_nonzero(found.trits == 0)) / found.trits.size
    if not 0 < zeros < 1:
        tally.codes.append(f"{quote(name)} has a share of zeros of {zeros:g}")
    elif not USUAL_ZEROS[0] <= zeros <= USUAL_ZEROS[1]:
        tally.unusual.append(name)
    if not np.array_equal(found.trits, trits):
        wrong = int(np.count_nonzero(found.trits != trits))
        tally.values.append(f"{quote(name)} has {counted(wrong, 'trit')} that differ from the checkpoint")
        if word in ("attn_q", "attn_k") and np.array_equal(np.sort(found.trits, axis=0), np.sort(trits, axis=0)):
            tally.rows.append(f"{quote(name)} has the rows of the checkpoint in another order than rotation pairs")
    _compare_scales(name, kind, found, scales, tally)


def _compare_scales(name: str, kind: str, found: FileMatrix, want: NDArray[np.float32], tally: _Tally) -> None:
    """Compare scales of groups with nonzero weights, in the float type that is stored; groups of zeros need none."""
    if kind in BLOCK_TYPES and BLOCK_TYPES[kind].scale.type == "F16":
        want = want.astype(np.float16).astype(np.float32)
    groups = found.scales.shape[1]
    if want.shape[1] > groups or groups % want.shape[1]:
        tally.scales.append(
            f"{quote(name)} has {counted(groups, 'scale')} in a row; the checkpoint has {want.shape[1]}"
        )
        return
    each = np.broadcast_to(np.repeat(want, groups // want.shape[1], axis=1), found.scales.shape)
    used = found.trits.reshape(*found.scales.shape, -1).any(axis=2) if found.scales.size > 1 else np.ones((1, 1), bool)
    wrong = used & (found.scales.view(np.uint32) != np.ascontiguousarray(each).view(np.uint32))
    if wrong.any():
        at = tuple(int(place[0]) for place in np.nonzero(wrong))
        tally.scales.append(f"{quote(name)} has the scale {found.scales[at]:.9g}; the checkpoint gives {each[at]:.9g}")


def _rounded(values: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """Floats in the precision of a type."""
    if kind == "F16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if kind == "BF16":
        bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
        half = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
        return half.astype(np.uint32).view(np.float32)
    return values


def _convention(witness: Witness, latent: Witness | None) -> tuple[list[str], str]:
    """Whether the floats of the original confirm the convention of `weight_scale` in config.json; and in words."""
    modules = [
        f"layers.{layer}.{module}" for layer in range(witness.layers) for module in witness.linear(layer).values()
    ]
    packed = [each for each in modules if witness.has(each, "weight_scale")]
    if not packed:
        return [], "there is no weight_scale"
    word = "divides" if witness.divides else "multiplies"
    if latent is None:
        return [], f"weight_scale {word} according to config.json; no float revision was given to prove it"
    problems = []
    for module in packed:
        if not latent.has(module):
            return [f"the float revision has no {quote(module)}"], ""
        mean = float(np.abs(latent.floats(f"{module}.weight")).mean(dtype=np.float64))
        scale = float(witness.matrix(module).scales.item())
        if not 0.9 < scale / mean < 1.1:
            problems.append(f"{quote(module)} has the scale {scale:.4g}, and its floats have the mean {mean:.4g}")
    return (
        problems,
        f"weight_scale {word}: scales are the means of the float revision in {counted(len(packed), 'matrix', 'matrices')}",
    )


# --- model checks ----------------------------------------------------------------------------------------------------
# Checks g, h and k compare the results of a file with those of its checkpoint, and its keys with config.json.

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
        for word, module in witness.linear(layer).items()
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
            codes=lambda module: witness.own_columns(tensors[module], result.taps.get(tensors[module] + _CODES)),
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
    """Return a table of floats in the precision of the file, which check b compares."""
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
    about, base, kind = witness.rope
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
        f"{arch}.rope.freq_base": float(np.float32(base)),
        f"{arch}.rope.dimension_count": witness.rotated,
        f"{arch}.vocab_size": config["vocab_size"],
    }
    if witness.qwen35:
        keys, values, size = witness.net_heads
        want |= {
            f"{arch}.ssm.conv_kernel": config["linear_conv_kernel_dim"], f"{arch}.ssm.state_size": size,
            f"{arch}.ssm.group_count": keys, f"{arch}.ssm.time_step_rank": values, f"{arch}.ssm.inner_size": values * size,
        }  # fmt: skip
    if kind in ("linear", "yarn"):
        want |= {f"{arch}.rope.scaling.type": kind, f"{arch}.rope.scaling.factor": float(np.float32(about["factor"]))}
    problems = [
        f"{key} is {_shown(found.get(key))}; config.json gives {_shown(value)}"
        for key, value in want.items()
        if not _same(found.get(key), value)
    ]
    if witness.qwen35:
        nets = found.get(f"{arch}.attention.recurrent_layers")
        interval = found.get(f"{arch}.full_attention_interval", 4)
        if nets is None and isinstance(interval, int) and interval > 0:
            nets = [(layer + 1) % interval > 0 for layer in range(witness.layers)]
        if nets is None or [bool(each) for each in np.ravel(nets)] != [
            witness.is_net(layer) for layer in range(witness.layers)
        ]:
            problems.append(f"{arch}.full_attention_interval gives other layers with attention than config.json")
        sections = [*about.get("mrope_section", [11, 11, 10]), 0]
        if [*np.ravel(found.get(f"{arch}.rope.dimension_sections", ()))] != sections:
            problems.append(f"{arch}.rope.dimension_sections is not the {sections} of config.json")
    if kind == "llama3" and "rope_freqs.weight" not in file.tensors:
        problems.append("rope_freqs.weight is missing, which rope_type llama3 needs")
    if witness.architecture is None:
        return Check("k", NOT_MADE, f"no architecture is known here for {witness.class_name}")
    return concluded("k", problems, counted(len(want), "key"))


def _same(found: object, value: object) -> bool:
    """Whether a value of a file, which may be an array, is that of a configuration, which is none."""
    return isinstance(found, str | int | float) and found == value


def _shown(value: object) -> str:
    """Return a value of a file or a configuration, in a message."""
    if isinstance(value, str | None):
        return quote(value) if value is not None else "missing"
    return str(value) if isinstance(value, int | float) else "an array"


# --- text checks -----------------------------------------------------------------------------------------------------
# Check f compares how a file and its checkpoint treat texts: token ids, special tokens, the chat template. The ids of
# the checkpoint are those of the library `tokenizers` with its tokenizer.json. For a tokenizer.model there is no
# independent program here, so only its pieces are compared, one by one; the result says so.

_KEY: Final = "tokenizer.chat_template"

#: The parts of the texts.
_TEXTS: Final = (
    "The weights are ternary.", " two  spaces", "\n\nnew\tline\r\n", "don't we'LL I'm", "12345678 and 3.14", "(a[0]->b!=c)",
    "Größe naïve façade", "нещо друго", "你好，世界", "कान्हा", "🦙🚀", "    indented = True", "", "x", " ", "...!?",
    "https://example.org/a?b=c&d=e", "CamelCase_snake_case", "''''re  end   ", CHECK_TEXT,
)  # fmt: skip

#: Conversations with which the templates are rendered.
_CONVERSATIONS: Final = (
    [Message("user", "Hello")],
    [Message("user", "Hello"), Message("assistant", "Hi!"), Message("user", " What are trits? ")],
    [Message("system", "Be brief."), Message("user", "Hello")],
)


def texts(special: list[str]) -> list[str]:
    """200 texts: all parts, pairs of them, and special tokens between them."""
    found = list(_TEXTS)
    for first, one in enumerate(_TEXTS):
        for step in (1, 3, 7):
            found.append(one + _TEXTS[(first + step) % len(_TEXTS)])
    marks = special[:40] or ["<s>"]
    number = 0
    while len(found) < 200:
        found.append(_TEXTS[number % len(_TEXTS)] + marks[number % len(marks)] + _TEXTS[(number * 3 + 1) % len(_TEXTS)])
        number += 1
    return found


def text_check(file: File, folder: CheckpointFolder) -> Check:
    """Check f."""
    problems: list[str] = []
    remarks: list[str] = []
    try:
        if folder.tokenizer is not None:
            remarks.append(_ids(file, folder, problems))
        elif "tokenizer.model" in folder.names:
            remarks.append(_pieces(file, folder, problems))
        else:
            return Check("f", NOT_MADE, "the checkpoint has no tokenizer")
        _special(file, folder, problems)
    except MissingExtra as error:
        return Check("f", NOT_MADE, str(error))
    except (CannotTellError, FormatError, SettingError) as error:
        problems.append(f"the texts cannot be tokenized: {error}")
    try:
        remarks.append(_template(file, folder, problems))
    except MissingExtra as error:
        if not problems:
            return Check("f", NOT_MADE, "; ".join((*remarks, str(error))))
    return concluded("f", problems, "; ".join(remarks))


def _ids(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    assert folder.tokenizer is not None
    added = folder.tokenizer.get("added_tokens") or ()
    special = [str(each.get("content")) for each in added if isinstance(each, dict)]
    some = texts(special)
    theirs = ask_library(folder.tokenizer, "ids", some)
    tokenizer = load_tokenizer(file)
    for text, want in zip(some, theirs, strict=True):
        found = tokenizer.encode(text, parse_special=True)
        if found != want:
            problems.append(
                f"the text {quote(text, 40)} has the ids {found[:8]}, and {want[:8]} by the library tokenizers"
            )
    if isinstance(folder.tokenizer.get("pre_tokenizer"), dict) and tokenizer.choice is not None:
        # With a small vocabulary, several pre-tokenizers give the same ids.
        cuts = ask_library(only_pre_tokenizer(folder.tokenizer), "cuts", PROBES)
        if cuts != [cuts_of(tokenizer.choice.pre, text) for text in PROBES]:
            problems.append(
                f"tokenizer.ggml.pre is {tokenizer.choice.pre.name}, which splits text in another way than tokenizer.json"
            )
    return f"the ids of {counted(len(some), 'text')} are those of the library tokenizers"


def _pieces(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    data = folder.bytes_of("tokenizer.model", MOST_TOKENIZER)
    size = int(folder.config["vocab_size"])
    want = from_tokenizer_model(data, folder.tokenizer_config, folder.json_of("added_tokens.json"), size)
    found = file.metadata
    lists = {key: found.get(f"tokenizer.ggml.{key}", ()) for key in ("tokens", "token_type", "scores")}
    lists = {key: value if isinstance(value, list) else np.ravel(value).tolist() for key, value in lists.items()}
    for key, values in (("tokens", want.tokens), ("token_type", want.types)):
        if lists[key] != values:
            problems.append(f"tokenizer.ggml.{key} is not what tokenizer.model says")
    scores = [round(each, 4) if isinstance(each, float) else None for each in lists["scores"]]
    if scores != [round(each, 4) for each in want.scores or ()]:
        problems.append("tokenizer.ggml.scores is not what tokenizer.model says")
    for key, flag in want.flags.items():
        value = found.get(f"tokenizer.ggml.{key}")
        if not _same(value, flag):
            problems.append(f"tokenizer.ggml.{key} is {_shown(value)}, and {flag} by the files")
    return (
        f"{counted(len(want.tokens), 'piece is', 'pieces are')} those of tokenizer.model; no "
        f"other program was used for the ids of texts"
    )


def _special(file: File, folder: CheckpointFolder, problems: list[str]) -> None:
    """Compare the ids of the special tokens: by their texts, else by the ids in the configurations."""
    tokenizer = load_tokenizer(file)
    tokens = tokenizer.vocabulary.tokens
    settings, places = folder.tokenizer_config, (folder.config, folder.generation)
    for key, word in (("bos", "bos"), ("eos", "eos"), ("padding", "pad"), ("unknown", "unk")):
        text = settings.get(f"{word}_token")
        text = text.get("content") if isinstance(text, dict) else text
        found = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        numbers = [config[f"{word}_token_id"] for config in places if config.get(f"{word}_token_id") is not None]
        if isinstance(text, str):
            if not isinstance(found, int) or not 0 <= found < len(tokens) or tokens[found] != text:
                problems.append(f"tokenizer.ggml.{key}_token_id is {_shown(found)}, which is not {quote(text)}")
        elif numbers:
            want = next(iter(numbers[0]), None) if isinstance(numbers[0], list) else numbers[0]
            if not _same(found, want):
                problems.append(
                    f"tokenizer.ggml.{key}_token_id is {_shown(found)}; the configuration says {_shown(want)}"
                )
    ends = folder.generation.get("eos_token_id")
    for number in ends if isinstance(ends, list) else []:
        if not isinstance(number, int) or number not in tokenizer.ends:
            problems.append(
                f"token {_shown(number)} ends a text according to generation_config.json, but not according to the file"
            )


def _template(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    want, found = folder.chat_template, file.metadata.get(_KEY)
    if found is not None and not isinstance(found, str):
        problems.append(f"{_KEY} is {_shown(found)}, not a text")
        return ""
    if want is None and found is None:
        return "there is no chat template"
    if want is None or found is None:
        problems.append(f"the chat template is only in the {'file' if want is None else 'checkpoint'}")
        return ""
    rendered, refusal, end = 0, "", monotonic() + SECONDS
    for conversation in _CONVERSATIONS:
        try:
            theirs = render({_KEY: want}, conversation, bos="<b>", eos="<e>")
        except FormatError as error:
            refusal = refusal or str(error)
            if monotonic() > end:
                break
            continue  # a template may refuse a role
        rendered += 1
        if want == found:
            return "the chat template is the same text, and can be rendered"
        try:
            ours = render({_KEY: found}, conversation, bos="<b>", eos="<e>")
        except FormatError as error:
            ours = str(error)
        if ours != theirs:
            problems.append(f"the chat template gives {quote(ours, 40)}, and {quote(theirs, 40)} in the checkpoint")
    if not rendered:
        problems.append(f"the chat template was not rendered: {refusal}")
    return f"{counted(rendered, 'conversation is', 'conversations are')} rendered equally"
