"""The one cause of many findings about tensors: names with a prefix, names of a checkpoint, experts that no key counts, a
vision encoder inside a language model, packed codes as floats. The rules on missing and unknown tensors are silent where
there is one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.errors import Span, quote
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view, stripped
from i2s_spec.linter.analysis.checkpoint_facts import common_prefix
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.loader_view import loader_view
from i2s_spec.schema import limits
from i2s_spec.schema.faults import order_prefix

#: How the names of nearly all tensors of models without experts begin.
_ORDINARY: Final = ("blk.", "token_embd.", "output")
#: What tensors of llama.cpp's models are called, after a prefix that does not belong there.
_OF_GGUF: Final = r"(blk\.\d+\.|token_embd\.|output_norm\.|output\.)"
#: What tensors of checkpoints are called, with or without the prefixes of training programs.
_OF_CHECKPOINTS: Final = (
    r"(?:[A-Za-z_]\w*\.)*(?:layers|h|blocks)\.\d+\.(?:self_attn|mlp|attention|input_layernorm|post_attention_layernorm"
    r"|attn\.c_|ln_1|block_sparse_moe|feed_forward)[.\w]*|(?:[A-Za-z_]\w*\.)*(?:embed_tokens|wte|lm_head)\.weight"
)
#: Tensors of encoders for pictures and sound, which have a file of their own.
_OF_ENCODERS: Final = r"(?:v|a|mm)\.[\w.]+"
#: The matrices of a layer.
_MATRICES: Final = r"blk\.\d+\.(?:attn_(?:q|k|v|output)|ffn_(?:gate|up|down))\.weight"
#: The largest byte of four codes, each 0, 1 or 2.
_LARGEST: Final = 0b10101010
#: Values that show whether floats are such bytes.
_LOOKED_AT: Final = 256
_EXPERTS: Final = r"blk\.\d+\.ffn_(?:gate|up|down|gate_up)_exps\.weight"


class RootCause(NamedTuple):
    """Why the tensors of a file do not fit its architecture: in words, for how many tensors, and where it is seen first.
    `rows` are the tensors whose shape it explains."""

    what: str
    tensors: int
    span: Span
    rows: frozenset[int] = frozenset()


@analysis
def root_cause(subject: LintContext) -> RootCause | None:
    """Return the one cause, if there is one; only for files that name an architecture and hold tensors as models do."""
    known = architecture_view(subject)
    count = subject.file.index.tensors
    if not known.name or not 0 < count <= limits.MANY_TENSORS or subject.file.fault is not None:
        return None
    if known.keys.value("general.type") not in (None, "model"):
        return None
    tensor = subject.file.index.tensor
    names = [tensor(i).name.decode("utf-8", "surrogateescape") for i in range(count)]
    if (packed := _packed_codes(subject, known)) is not None:
        return packed
    if all(name.startswith(_ORDINARY) and "_exps." not in name for name in names):
        return None
    return (
        _checkpoint(subject, names) or _prefix(subject, names) or _experts(subject, names) or _encoder(subject, names)
    )


def _checkpoint(subject: LintContext, names: Sequence[str]) -> RootCause | None:
    found = [i for i, name in enumerate(names) if re.fullmatch(_OF_CHECKPOINTS, name)]
    if not found or 2 * len(found) < len(names) or any(re.match(_OF_GGUF, name) for name in names):
        return None
    words = (
        "the tensors have the names of a Hugging Face checkpoint (transformers), such as "
        f"{quote(names[found[0]], 64)}, and loaders know those of llama.cpp, such as blk.0.attn_q.weight: convert the "
        "checkpoint with a converter that renames them"
    )
    return RootCause(words, len(found), subject.name_span(found[0]))


def _prefix(subject: LintContext, names: Sequence[str]) -> RootCause | None:
    common = common_prefix(names)
    prefix = common[: common.rfind(".") + 1]
    while prefix and not all(re.match(_OF_GGUF, name[len(prefix) :]) for name in names):
        prefix = prefix[: prefix.rfind(".", 0, -1) + 1]
    if not prefix or any(re.match(_OF_GGUF, name) for name in names):
        return None
    words = f"the name of every tensor begins with {quote(prefix, 64)}, which no loader expects: remove this prefix"
    return RootCause(words, len(names), subject.name_span(0))


def _experts(subject: LintContext, names: Sequence[str]) -> RootCause | None:
    known = architecture_view(subject)
    key = f"{known.name}.expert_count"
    found = [i for i, name in enumerate(names) if re.fullmatch(_EXPERTS, name)]
    if not found or known.keys.own("expert_count") or not _unknown(subject, found):
        return None
    state = "is 0" if key in known.keys.places else "is missing"
    words = f"the layers have tensors of experts, such as {quote(names[found[0]], 64)}, but the key {key} {state}"
    return RootCause(words, len(found), subject.name_span(found[0]))


def _unknown(subject: LintContext, rows: Sequence[int]) -> bool:
    """Whether the architecture does not have the first of some tensors, as far as that is known."""
    loader = loader_view(subject)
    unknown = architecture_view(subject).undeclared_rows if loader is None else loader.unknown
    return any(row.i == rows[0] for row in unknown)


def _packed_codes(subject: LintContext, known: ArchitectureView) -> RootCause | None:
    """Look for matrices of floats with a quarter of the rows and whole numbers from 0 to 170: what a converter writes
    that takes the bytes of a packed checkpoint for weights."""
    h = known.h
    if h is None or subject.reading.mode == "none":
        return None
    found = []
    for row in known.rows:
        if row.spec is None or row.layer is None or row.layer >= h.layers or not re.fullmatch(_MATRICES, row.name):
            continue
        sizes = h.at(row.layer)
        cols, rows = (getattr(sizes, size) for size in row.spec.ne)
        if stripped(row.ne) == (cols, rows // 4):
            found.append(row)
        elif stripped(row.ne) == (cols, rows) and not found:
            return None  # nearly always: the first matrix is whole
    if not found or not all(_are_codes(subject, row.i) for row in (found[0], found[-1])):
        return None
    first = found[0]
    words = (
        f"the matrices hold packed codes as floats, such as {quote(first.name, 64)}: a quarter of the rows, and whole "
        f"numbers from 0 to {_LARGEST}, each of them four weights of a packed checkpoint (clause 5.5): convert the "
        "checkpoint with a converter that unpacks them, and uses their weight_scale"
    )
    return RootCause(words, len(found), subject.info_span(first.i, "ne"), frozenset(row.i for row in found))


def _are_codes(subject: LintContext, i: int) -> bool:
    """Whether the first values of a tensor of floats are bytes of four codes."""
    import numpy as np

    from i2s_spec.codec.shape import FLOAT_WORDS, widened

    tensor = subject.file.tensors.by_index(i)
    if tensor.kind not in FLOAT_WORDS or tensor.span.stop > subject.file.size:
        return False
    word = np.dtype(order_prefix(subject.file.byte_order) + FLOAT_WORDS[tensor.kind])
    data = subject.file.source.read(tensor.span.start, min(_LOOKED_AT, tensor.elements) * word.itemsize)
    values = widened(np.frombuffer(data, word).astype(word.newbyteorder("="), copy=False), tensor.kind)
    codes = values.astype(np.int64, copy=False) if np.isfinite(values).all() else np.full(1, -1)
    if codes.min() < 0 or codes.max() > _LARGEST or not (codes == values).all():
        return False
    return int(codes.max()) > 2 and all(int((codes >> shift & 3).max()) < 3 for shift in (0, 2, 4, 6))


def _encoder(subject: LintContext, names: Sequence[str]) -> RootCause | None:
    found = [i for i, name in enumerate(names) if re.fullmatch(_OF_ENCODERS, name)]
    if not found or len(found) == len(names) or not _unknown(subject, found):
        return None
    words = (
        f"the file of a language model also holds the tensors of an encoder for pictures or sound, such as "
        f"{quote(names[found[0]], 64)}: llama.cpp wants those in a file of their own, a projector (mmproj)"
    )
    return RootCause(words, len(found), subject.name_span(found[0]))
