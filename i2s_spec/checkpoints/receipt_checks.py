"""This module compares the weights of a file with those of the checkpoint: checks a to e."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.checkpoints.receipt.check_result import NOT_MADE, Check, concluded
from i2s_spec.checkpoints.receipt.checkpoint_witness import LINEAR, Witness, WitnessMatrix
from i2s_spec.checkpoints.receipt.file_tensors import FileMatrix, floats_of, matrix_of, type_name
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.errors import counted, quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

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
    """Checks a to e.

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
    order = "two halves of a head alternate" if tally.permuted else "as in the checkpoint"
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
        if module not in made or end not in ("weight", "weight_scale", "bias") or floats:
            problems.append(f"{quote(name)} of the checkpoint is in no tensor of the file")
    for name, module in expected.items():
        if not (module == "lm_head" or witness.has(module)):
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
        if word in LINEAR and end == "weight":
            want = witness.matrix(module)
            found = matrix_of(tensor)
            tally.rules[want.rule] = tally.rules.get(want.rule, 0) + 1
            _compare_matrix(tensor, found, want, word, witness, tally)
            return
        if end == "bias":
            values = witness.permuted(word, witness.floats(f"{module}.bias"))
        elif "norm" in word:
            values = witness.gains(module)
        else:
            values = witness.floats(f"{module}.weight")
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
    trits, scales = witness.permuted(word, want.trits), want.scales
    if len(scales) > 1:
        scales = witness.permuted(word, scales)
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
    modules = [f"layers.{layer}.{module}" for layer in range(witness.layers) for module in LINEAR.values()]
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
