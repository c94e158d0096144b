"""The checks of a GGUF file against its checkpoint, `CHECKS` a to k: weights, texts, logits, lint, keys.

A `Check` is passed, failed, or not made, with what was compared. A check that could not be made says why. Only a check
that compared something can pass. What the file must hold is what an import of the checkpoint makes now, with the types
of the file (`imported_again`); so the checks find files that were changed, or that came from an importer that works in
another way. Whether this importer is right is proved elsewhere, by the logits of transformers and of llama.cpp.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.import_checkpoint import Imported, import_folder
from i2s_spec.checkpoints.plan import FLOAT_TYPES, Choices
from i2s_spec.checkpoints.source_weights import float_windows
from i2s_spec.checkpoints.token_files import PROBES, CannotTellError, ask_library, cuts_of, only_pre_tokenizer
from i2s_spec.codec import blocks_native
from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.codec.shape import from_bfloat16, to_bfloat16
from i2s_spec.compare.hash import require_own_bytes
from i2s_spec.convert.encode import TARGETS
from i2s_spec.errors import FormatError, MissingExtra, SettingError, counted, quote
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.text.chat import SECONDS, Message, render
from i2s_spec.model.tokenizer.byte_level import BY_NAME
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT, load_tokenizer
from i2s_spec.safetensors.packed import PackedWeights
from i2s_spec.schema import faults
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
    "a": "every tensor of another import is in the file, once, and nothing else is",
    "b": "codes and floats of every tensor equal those of another import",
    "c": "scales, bit for bit, and what weight_scale does",
    "d": "shares of -1, 0 and +1; no code without a meaning",
    "e": "the order of rows that rotation pairs",
    "f": "token ids of texts, special tokens and the chat template",
    "g": "logits of the file and of another import",
    "h": "lint finds no error",
    "i": "share of trits that differ from a base model",
    "k": "sizes, rotation and context equal those of another import",
}
#: The checks that compare the file with another import.
COMPARED: Final = "abcefgk"


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

    def weights(self) -> NDArray[np.float32]:
        """Return the trits times their scales, float32 [rows, cols]."""
        scales = np.repeat(self.scales, self.trits.shape[1] // self.scales.shape[1], axis=1)
        return self.trits * scales


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
    name = tensor.kind
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
        "type": tensor.kind, "shape": list(tensor.shape), "data": hashlib.sha256(tensor.read()).hexdigest()
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


# --- another import --------------------------------------------------------------------------------------------------


class Again(NamedTuple):
    """Another import of the checkpoint of a file.

    :param file: the file that it made
    :param tensors: the hash of each of its tensors
    """

    file: File
    imported: Imported
    tensors: Mapping[str, Mapping[str, Any]]


@contextmanager
def imported_again(
    folder: CheckpointFolder, file: File, family: str | None, rule: str | None, weight_scale: str | None
) -> Iterator[Again | str]:
    """Import the checkpoint of a file to a temporary folder, with the types and the pre-tokenizer of the file.

    The folder lies where the system has its temporary files, and needs as much room as the file.

    :returns: the import, or why the importer refuses the checkpoint (H104)
    """
    types = {
        name: type
        for name, tensor in file.tensors.items()
        if (type := tensor.kind) in (TARGETS if len(tensor.shape) == 2 else FLOAT_TYPES)
    }
    choices = Choices(to="F32", embedding="F32", fallback="F32", rule=rule, threads=os.cpu_count() or 1, types=types)
    pre = file.metadata.get("tokenizer.ggml.pre")
    with TemporaryDirectory(prefix="i2s-") as place:
        path = os.path.join(place, "again.gguf")
        try:
            imported = import_folder(
                folder, path, choices, family, weight_scale, pre if isinstance(pre, str) and pre in BY_NAME else None
            )
        except FormatError as error:
            if error.fault is not faults.CHECKPOINT_REFUSED:
                raise
            yield f"the checkpoint cannot be imported: {error.details['reason']}"
            return
        with open_file(path) as again:
            yield Again(again, imported, tensor_hashes(again, ()))


def refused_checks(reason: str) -> list[Check]:
    """Return the checks that need another import, where there is none."""
    return [Check(id, FAILED if id in "ab" else NOT_MADE, reason) for id in COMPARED]


# --- weight checks ---------------------------------------------------------------------------------------------------
# Checks a, b, c and e compare the tensors of a file with those of another import, d looks at the file alone.

#: Range of the share of zeros in trained ternary matrices; other shares are reported, and 0 % or 100 % fails.
USUAL_ZEROS: Final = (0.25, 0.65)
#: Largest difference between the shares of -1 and +1 of a whole model.
BALANCE: Final = 0.02


class _Differences(NamedTuple):
    """What differs from another import, in sentences."""

    values: list[str]
    scales: list[str]
    rows: list[str]


def weight_checks(
    file: File,
    tensors: Mapping[str, Mapping[str, Any]],
    again: Again,
    folder: CheckpointFolder,
    latent: CheckpointFolder | None = None,
) -> list[Check]:
    """Make the checks a, b, c and e.

    :param tensors: the record of each tensor of the file
    :param latent: another revision of the checkpoint, with the floats from which the packed one was made
    """
    found = _Differences([], [], [])
    for name, want in again.tensors.items():
        if name in tensors and any(tensors[name][key] != want[key] for key in want):
            _compare(file.tensors[name], again.file.tensors[name], found)
    problems = [f"tensor {quote(name)} is missing" for name in again.tensors if name not in tensors]
    problems += [f"tensor {quote(name)} is not in another import" for name in tensors if name not in again.tensors]
    count, trits = len(again.tensors), sum(sum(each.get("counts", ())) for each in tensors.values())
    recognized = again.imported.recognized
    order = "two halves of a head alternate" if recognized.family.rows == "neighbors" else "as in the checkpoint"
    if recognized.family.parameters:
        order += ", and those of value heads in turn for all key heads"
    scales = "all scales are those of another import" if trits else "scales are within the floats that check b compares"
    convention, proof = _convention(again, folder, latent)
    facts = {"tensors": count, "rules": dict(again.imported.rules)}
    return [
        concluded("a", problems, f"{counted(count, 'tensor')}; the head is {'tied' if again.imported.tied else 'its own'}"),
        concluded("b", found.values, f"{counted(count, 'tensor')}, {counted(trits, 'trit')}", facts),
        concluded("c", found.scales + convention, f"{scales}; {proof}"),
        concluded("e", found.rows, f"the rows of queries and keys are in the order that {recognized.family.architecture} "
                  f"rotates: {order}; no likelihood of a text was measured"),
    ]  # fmt: skip


def _compare(tensor: Tensor, other: Tensor, found: _Differences) -> None:
    """Compare a tensor with that of another import; equal values may have different types."""
    name, kinds = quote(tensor.name), (tensor.kind, other.kind)
    if tensor.shape != other.shape:
        found.values.append(f"{name} has the shape {list(tensor.shape)}, and {list(other.shape)} is right")
        return
    try:
        ours, theirs = (matrix_of(each) if len(each.shape) == 2 else None for each in (tensor, other))
        if ours is not None and theirs is not None:
            _compare_matrices(tensor.name, ours, theirs, found)
            return
        values, want = (
            floats_of(each) if matrix is None else matrix.weights()
            for each, matrix in ((tensor, ours), (other, theirs))
        )
    except FormatError:
        raise
    except ValueError as error:
        made = f"; another import makes {kinds[1]}" if kinds[0] != kinds[1] else ""
        found.values.append(f"{name}: {error}{made}")
        return
    if not np.array_equal(_rounded(values, kinds[1]), _rounded(want, kinds[0])):
        found.values.append(f"{name} differs from another import")


def _compare_matrices(tensor: str, ours: FileMatrix, theirs: FileMatrix, found: _Differences) -> None:
    """Compare trits, and the scales of groups that have weights other than 0."""
    name = quote(tensor)
    if wrong := int(np.count_nonzero(ours.trits != theirs.trits)):
        differ = counted(wrong, "trit that differs", "trits that differ")
        found.values.append(f"{name} has {differ} from another import")
        if tensor.endswith((".attn_q.weight", ".attn_k.weight")) and np.array_equal(
            np.sort(ours.trits, axis=0), np.sort(theirs.trits, axis=0)
        ):
            found.rows.append(f"{name} has the rows of another import in another order than rotation pairs")
    used = ours.trits.reshape(*ours.scales.shape, -1).any(axis=2) | (ours.scales.size == 1)
    places = np.nonzero(used & (ours.scales.view(np.uint32) != theirs.scales.view(np.uint32)))
    if places[0].size:
        at = int(places[0][0]), int(places[1][0])
        found.scales.append(f"{name} has the scale {ours.scales[at]:.9g}; another import has {theirs.scales[at]:.9g}")


def _rounded(values: NDArray[np.float32], type: str) -> NDArray[np.float32]:
    """Return floats in the precision of a type."""
    if type == "F16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    return from_bfloat16(to_bfloat16(values)) if type == "BF16" else values


def _convention(again: Again, folder: CheckpointFolder, latent: CheckpointFolder | None) -> tuple[list[str], str]:
    """Return what refutes the convention of `weight_scale`, by the floats of another revision; and the result in words."""
    convention = again.imported.recognized.convention
    packed = PackedWeights(folder.tensors, convention).matrices
    if not packed:
        return [], "there is no weight_scale"
    word = "multiplies" if convention == "multiply" else "divides"
    if latent is None:
        return [], f"weight_scale {word} according to config.json; no float revision was given to prove it"
    problems, floats = [], {name.partition("layers.")[2]: stored for name, stored in latent.tensors.items()}
    for module, matrix in packed.items():
        stored = floats.get(f"{module.partition('layers.')[2]}.weight")
        if stored is None:
            return [f"the float revision has no {quote(module)}"], ""
        total = sum(float(np.abs(part).sum(dtype=np.float64)) for part in float_windows(stored))
        mean, scale = total / max(math.prod(stored.shape), 1), float(matrix.scale)
        if not 0.9 * mean < scale < 1.1 * mean:
            problems.append(f"{quote(module)} has the scale {scale:.4g}, and its floats have the mean {mean:.4g}")
    return (
        problems,
        f"weight_scale {word}: scales are the means of the float revision in {counted(len(packed), 'matrix', 'matrices')}",
    )


def codes_check(tensors: Mapping[str, Mapping[str, Any]]) -> Check:
    """Make check d, on the records of the tensors."""
    problems, unusual, counts = [], [], np.zeros(3, dtype=np.int64)
    for name, each in tensors.items():
        if len(each["shape"]) != 2 or (each["type"] != "I2_S" and each["type"] not in BLOCK_TYPES):
            continue
        own = each.get("counts", (0, 0, 0))
        counts += own
        if sum(own) < math.prod(each["shape"]):
            problems.append(f"{quote(name)} has a fourth code")
            continue
        zeros = own[1] / max(sum(own), 1)
        if not 0 < zeros < 1:
            problems.append(f"{quote(name)} has a share of zeros of {zeros:g}")
        elif not USUAL_ZEROS[0] <= zeros <= USUAL_ZEROS[1]:
            unusual.append(name)
    total = int(counts.sum())
    if not total and not problems:
        return Check("d", NOT_MADE, "the matrices are stored as floats, which have no codes")
    minus, zero, plus = (float(share) for share in counts / max(total, 1))
    if abs(minus - plus) > BALANCE:
        problems.append(f"-1 has a share of {minus:.4f} and +1 of {plus:.4f}")
    more = f"; unusual shares of zeros in {counted(len(unusual), 'matrix', 'matrices')}" if unusual else ""
    facts = {"minus": minus, "zero": zero, "plus": plus, "unusual": unusual[:20]}
    return concluded("d", problems, f"-1 {minus:.4f}, 0 {zero:.4f}, +1 {plus:.4f}{more}", facts)


# --- model checks ----------------------------------------------------------------------------------------------------
# Checks g, h and k compare the results of a file with those of another import, and its keys.

#: How many positions' logits are compared, and the required correlation of each.
POSITIONS: Final = 32
CORRELATION: Final = 0.9999
#: Two logits whose difference is a smaller share of their range may be in either order.
NEAR: Final = 1e-3

_NUMERICS: Final = "hf-f32"


def logits_check(file: File, again: File, positions: int = POSITIONS) -> Check:
    """Make check g: the file and another import on the same tokens, with the numerics `hf-f32`."""
    arch = str(again.metadata["general.architecture"])
    if arch not in ARCHITECTURES:
        return Check("g", NOT_MADE, f"no graph is declared here for architecture {arch}")
    vocab, context = (int(again.metadata[f"{arch}.{key}"]) for key in ("vocab_size", "context_length"))
    tokens = [int(each) for each in np.random.default_rng(619).integers(0, vocab, min(positions, context))]
    try:
        (found, logits), (want, _) = (_results(each, tokens) for each in (file, again))
    except (ValueError, KeyError) as error:
        return Check("g", NOT_MADE, f"one of the two cannot be run here: {error}")
    if found.shape != want.shape:
        return concluded("g", [f"the results have the shape {list(found.shape)}, and {list(want.shape)}"], "")
    return _agreement(found, want, "logits" if logits else "hidden states after the last norm", argmax=logits)


def _results(file: File, tokens: list[int]) -> tuple[NDArray[np.float32], bool]:
    """Return the logits of a file, or the hidden states of one without logits; and whether they are logits."""
    from i2s_spec.model.load import load_model

    result = load_model(file, _NUMERICS).forward(tokens, taps=("result_norm",))
    logits = result.logits
    return np.asarray(result.taps["result_norm"] if logits is None else logits, np.float32), logits is not None


def _agreement(found: NDArray[np.float32], want: NDArray[np.float32], what: str, *, argmax: bool) -> Check:
    if not np.isfinite(found).all() or not np.isfinite(want).all():
        return concluded("g", [f"the {what} are not finite"], "")
    problems, correlations, changed = [], [], 0
    for position, (ours, theirs) in enumerate(zip(found, want, strict=True)):
        with np.errstate(all="ignore"):  # results that are all equal correlate with none
            correlation = float(np.corrcoef(ours.astype(np.float64), theirs.astype(np.float64))[0, 1])
        correlations.append(correlation)
        if not correlation >= CORRELATION:
            problems.append(f"position {position}: the {what} correlate by {correlation:.6f}")
        best, other = int(theirs.argmax()), int(ours.argmax())
        if argmax and best != other:
            changed += 1
            if theirs[best] - theirs[other] > NEAR * (theirs.max() - theirs.min()):
                problems.append(
                    f"position {position}: token {other:,} has the largest logit, and {best:,} in another import"
                )
    worst = min(correlations)
    spread = float(np.abs(found - want).max() / max(float(np.abs(want).max()), 1e-30))
    if spread > 0.05 and not problems:
        problems.append(f"the {what} differ by up to {spread:.3g} of the largest")
    facts = {"positions": len(found), "correlation": worst, "largest_difference": spread, "argmax": changed}
    but = f" but for {counted(changed, 'near tie')}" if changed else ""
    same = f", the same largest tokens{but}" if argmax else ""
    return concluded("g", problems, f"{counted(len(found), 'position')}: correlation at least {worst:.7f}{same}", facts)


def lint_check(file: File) -> Check:
    """Make check h: the findings of `i2s lint`."""
    from i2s_spec.linter.engine import lint
    from i2s_spec.linter.rule import Severity

    findings = lint(file.source, threads=1).findings
    errors = [f"{each.code} {each.message}" for each in findings if each.severity is Severity.ERROR]
    codes = sorted({each.code for each in findings if each.severity is not Severity.ERROR})
    others = f"; warnings and notes: {', '.join(codes)}" if codes else ""
    return concluded("h", errors, f"no error{others}; no runtime was requested", {"other_codes": codes})


def keys_check(file: File, again: File) -> Check:
    """Make check k: the keys from which a graph is built are those of another import."""
    arch = again.metadata["general.architecture"]
    want = {
        key: each for key, each in again.metadata.items() if key == "general.architecture" or key.startswith(f"{arch}.")
    }
    return concluded("k", _other_values(file, want), counted(len(want), "key"))


def _other_values(file: File, want: Mapping[str, Any]) -> list[str]:
    """Return the keys of a file that have other values than wanted, in sentences."""
    return [
        f"{key} is {_shown(file.metadata.get(key))}; another import has {_shown(value)}"
        for key, value in want.items()
        if not _same(file.metadata.get(key), value)
    ]


def _same(found: object, value: object) -> bool:
    """Whether two values of keys are equal, whichever types of numbers they have; scores may be rounded."""
    if isinstance(value, str | int | float):
        return isinstance(found, str | int | float) and found == value
    ours, theirs = (each if isinstance(each, list) else np.ravel(np.asarray(each)).tolist() for each in (found, value))
    if ours == theirs:
        return True
    numbers = len(ours) == len(theirs) and all(isinstance(each, float) for each in (*ours, *theirs))
    return numbers and bool(np.allclose(ours, theirs, rtol=0, atol=1e-4))


def _shown(value: object) -> str:
    """Return a value of a key, in a message."""
    if isinstance(value, str | None):
        return quote(value) if value is not None else "missing"
    return str(value) if isinstance(value, int | float) else "an array"


# --- text checks -----------------------------------------------------------------------------------------------------
# Check f compares how a file and its checkpoint treat texts: token ids, special tokens, the chat template. The ids of
# the checkpoint are those of the library `tokenizers` with its tokenizer.json. For a tokenizer.model there is no
# independent program here, so its pieces are compared with those of another import; the result says so.

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
    """Return 200 texts: all parts, pairs of them, and special tokens between them."""
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


def text_check(file: File, again: File, folder: CheckpointFolder) -> Check:
    """Make check f."""
    problems: list[str] = []
    remarks: list[str] = []
    keys = {key: value for key, value in again.metadata.items() if key.startswith("tokenizer.ggml.")}
    try:
        if "tokenizer.model" not in folder.names:
            remarks.append(_ids(file, folder, problems))
            keys = {key: value for key, value in keys.items() if key.endswith("_token_id")}
        else:
            pieces = counted(len(keys["tokenizer.ggml.tokens"]), "piece is", "pieces are")
            remarks.append(f"{pieces} those of tokenizer.model; no other program was used for the ids of texts")
        problems += _other_values(file, keys)
        ends, others = (sorted(load_tokenizer(each).ends) for each in (file, again))
        if ends != others:
            problems.append(f"texts end at the tokens {ends[:8]}, and at {others[:8]} in another import")
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
            at = next(
                (i for i, (a, b) in enumerate(zip(found, want, strict=False)) if a != b), min(len(found), len(want))
            )
            problems.append(
                f"the text {quote(text, 40)} has the ids {found[at : at + 8]} from index {at} on, and "
                f"{want[at : at + 8]} by the library tokenizers"
            )
    if isinstance(folder.tokenizer.get("pre_tokenizer"), dict) and tokenizer.choice is not None:
        # With a small vocabulary, several pre-tokenizers give the same ids.
        cuts = ask_library(only_pre_tokenizer(folder.tokenizer), "cuts", PROBES)
        if cuts != [cuts_of(tokenizer.choice.pre, text) for text in PROBES]:
            problems.append(
                f"tokenizer.ggml.pre is {tokenizer.choice.pre.name}, which splits text in another way than tokenizer.json"
            )
    return f"the ids of {counted(len(some), 'text')} are those of the library tokenizers"


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
