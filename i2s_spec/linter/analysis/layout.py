"""The evidence for the layout of a file from its weights, gathered once for all rules.

The linter examines every layer of a small model and a few layers of a large one, so that its time stays that of
reading. For a large model this is done while other threads read the payloads, before the code map is known: the
canonical map is assumed, and the work is repeated if the codes show another one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import FormatError
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.conditions import float_queries_read, layers_read
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.schema.keys import FLOATS

if TYPE_CHECKING:
    from i2s_spec.gguf.tensor import Tensor
    from i2s_spec.layout_inference.evidence import LayoutEvidence, PairOrder
    from i2s_spec.schema.dialect import CodeMap

#: Most bytes of payloads for which every layer is examined, and the number of layers for larger files.
SMALL: Final = 1 << 24
LAYERS: Final = 2
#: The number of layers whose queries and keys are read again where they are floats, and the bytes read at once.
FLOAT_LAYERS: Final = 8
_READ: Final = 1 << 22
#: Columns that are added up apart (`codec.float_passes`).
_COLUMNS: Final = 32


class Ahead:
    """The evidence that was found while the payloads were read."""

    def __init__(self, evidence: LayoutEvidence | None) -> None:
        self.evidence = evidence


@analysis
def layout_ahead(subject: LintContext) -> Ahead | None:
    """Return the evidence by the canonical code map, if other threads are reading the payloads of a large file; else
    None.

    Also None if the file cannot be read: the survey and the rules report the reason.
    """
    reader = subject.surveying
    if reader is None or reader.i2s_bytes_in_work <= SMALL:
        return None
    if subject.reading.mode != "full" or not layers_read(subject):
        return None
    from i2s_spec.layout_inference.evidence import layout_evidence

    try:
        return Ahead(layout_evidence(subject.file, CANONICAL.code_map, layers=LAYERS))
    except FormatError:
        return None


@analysis
def weight_layout(subject: LintContext) -> LayoutEvidence | None:
    """Return the evidence; None if payloads are not read, a reference is better evidence, or no tensor has a role in
    a layer.
    """
    if not layers_read(subject):
        return None
    survey = subject.survey
    if survey is None or not len(survey):
        return None
    code_map = weight_code_map(subject)
    ahead = layout_ahead(subject) if code_map == CANONICAL.code_map else None
    if ahead is not None:
        return ahead.evidence
    from i2s_spec.layout_inference.evidence import layout_evidence

    size = sum(survey.size(place) for place in range(len(survey)))
    layers = None if size <= SMALL and subject.reading.mode == "full" else LAYERS
    return layout_evidence(subject.file, code_map, threads=subject.reading.threads, layers=layers)


@analysis
def weight_code_map(subject: LintContext) -> CodeMap:
    """Return the code map that the codes of all payloads together show."""
    from i2s_spec.layout_inference.counts import likely_code_map

    return likely_code_map(code_totals(subject))


@analysis
def code_totals(subject: LintContext) -> list[int]:
    """Count the codes 0 to 3 in all payloads together, as far as they were read."""
    zero = one = two = three = 0
    for counts in code_counts(subject):
        zero += counts[0]
        one += counts[1]
        two += counts[2]
        three += counts[3]
    return [zero, one, two, three]


def code_counts(subject: LintContext) -> Iterator[tuple[int, int, int, int]]:
    """Count the codes 0 to 3 in each payload."""
    survey = subject.survey
    return map(survey.counts, range(len(survey))) if survey is not None else iter(())


@analysis
def query_order(subject: LintContext) -> PairOrder | None:
    """Return which rows of queries and keys are rotated together; None if no weights that could show it are read."""
    found = weight_layout(subject)
    if found is not None:
        from i2s_spec.layout_inference.evidence import pair_order

        return pair_order(found)
    return _float_order(subject) if float_queries_read(subject) else None


def _float_order(subject: LintContext) -> PairOrder | None:
    """Return the same for matrices stored as floats: the magnitudes of a row added up stand for its density."""
    from i2s_spec.layout_inference.evidence import ROTATED, order_of_rows

    known = architecture_view(subject)
    h = known.h
    if h is None or h.rope_dims not in (0, h.head_dim):
        return None
    tensors: dict[int, list[tuple[Tensor, int]]] = {}
    for row in known.rows:
        role = row.name.removesuffix(".weight").rpartition(".")[2]
        if role not in ROTATED or row.layer is None or row.i < 0 or row.type not in FLOATS:
            continue
        tensor, own = subject.file.tensors.by_index(row.i), h.at(row.layer)
        if len(row.ne) == 2 and row.ne[0] % _COLUMNS == 0:
            tensors.setdefault(row.layer, []).append((tensor, own.heads_kv if ROTATED[role] else own.heads))
    layers = sorted(tensors)
    few = min(FLOAT_LAYERS, len(layers))
    chosen = [layers[i * (len(layers) - 1) // max(1, few - 1)] for i in range(few)]
    found = ((_magnitudes(subject, tensor), heads) for layer in chosen for tensor, heads in tensors[layer])
    return order_of_rows((rows, heads) for rows, heads in found if rows is not None)


def _magnitudes(subject: LintContext, tensor: Tensor) -> memoryview[int] | None:
    """Return the magnitudes of each row of floats added up, uint32, the largest 2^19; None where one is infinite or
    NaN.
    """
    from i2s_spec.codec import _floats
    from i2s_spec.codec.isa import chosen, table

    cols, rows = tensor.ne
    kind = tensor.type.name if tensor.type is not None else ""
    size = cols * (4 if kind == "F32" else 2)
    kernel, step = chosen(table(_floats.kernel_sets())).row, max(1, _READ // size)
    sums: list[float] = []
    for first in range(0, rows, step):
        many = min(step, rows - first)
        lanes = memoryview(bytearray(many * _COLUMNS * 4))
        words = subject.file.source.read(tensor.span.start + first * size, many * size)
        if _floats.sums(kernel, _floats.KINDS[kind], words, cols // _COLUMNS, lanes.cast("f", (many, _COLUMNS))):
            return None
        flat = lanes.cast("f")
        sums += [sum(flat[at : at + _COLUMNS]) for at in range(0, len(flat), _COLUMNS)]
    largest = max(sums)
    if not 0 < largest < float("inf"):
        return None
    return memoryview(array("I", (int(each / largest * (1 << 19)) for each in sums)))
