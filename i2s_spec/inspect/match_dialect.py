"""The dialect of a tensor whose weights are known: it is read in every dialect, and what agrees is counted.

The weights may be trits, any multiple of them, or the floats that were made ternary. With a thousand elements or more,
reading in a wrong layout cannot agree by chance: of weights of 25, 50 and 25 % of -1, 0 and +1, a wrong layout gets 38
to 53 % right.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import counted, quote
from i2s_spec.inspect.questions import PROOF, STRONG, WEAK, Evidence, PossibleAnswer, Question, QuestionCase
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, Dialect, Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

#: Elements that are compared at most, and the fewest that decide anything.
COMPARED: Final = 1 << 22
ENOUGH: Final = 1024

#: How far magnitudes that are meant to be one may lie apart, and what counts as 0, as parts of the largest.
SAME: Final = 0.98
NOTHING: Final = 1e-3

#: What share must agree, and how far the next best must be behind. Ternarising floats again differs in ties: 1 to 2 %.
AGREES: Final = 0.9
MARGIN: Final = 0.1


class Match(NamedTuple):
    """How well one dialect explains a tensor: the share of elements that agree, and scale of file over reference."""

    dialect: Dialect
    share: float
    compared: int
    scale_ratio: float | None


class ReferenceMatches(NamedTuple):
    """A tensor against known weights: the matches, the best first, and the best one if it decides."""

    tensor: bytes
    matches: tuple[Match, ...]

    @property
    def decided(self) -> Match | None:
        """The best match, if it agrees well, far better than every other layout and code map, on enough elements."""
        if not self.matches:
            return None
        best = self.matches[0]
        rival = max((match.share for match in self.matches[1:]), default=0.0)
        good = best.share >= AGREES and best.share - rival >= MARGIN and best.compared >= ENOUGH
        return best if good else None


def compare(file: File, tensor: Tensor, weights: NDArray[Any]) -> ReferenceMatches:
    """Read a tensor in every dialect that its shape allows, and compare it with weights of its shape.

    :param weights: integers or floats, shaped as the tensor in NumPy's order
    :raises ValueError: for a tensor that is not I2_S, weights of another shape, and weights that are all 0 or not finite
    :raises TypeError: for weights that are no real numbers
    :raises FormatError: where the file does not hold the tensor
    """
    import numpy as np

    if tensor.type is None or tensor.type.name != "I2_S":
        raise ValueError(f"tensor {quote(tensor.raw_name)} is not I2_S")
    if tuple(weights.shape) != tensor.shape:
        raise ValueError(
            f"the reference has the shape {list(weights.shape)}; tensor {quote(tensor.raw_name)} has {list(tensor.shape)}"
        )
    if weights.dtype.kind not in "iuf":
        raise TypeError(f"the reference holds {weights.dtype}; integers or floats are expected")
    known, scale = ternarised(np.asarray(weights).reshape(-1, tensor.shape[-1])[: rows_compared(tensor)])
    return matched(file, tensor, known, scale)


def rows_compared(tensor: Tensor, most: int = COMPARED) -> int:
    """How many first rows of a tensor are compared: all, or whole groups of 128, which are whole units in every layout.

    :param most: about how many elements these shall be
    """
    rows, cols = prod(tensor.shape[:-1]), tensor.shape[-1]
    if rows * cols <= most:
        return rows
    return max(128, most // cols // 128 * 128) if rows >= 128 else rows


def matched(file: File, tensor: Tensor, known: NDArray[np.int8], scale: float | None) -> ReferenceMatches:
    """How well each dialect that the shape allows explains the first rows of an I2_S tensor.

    :param known: their trits, int8 [rows, cols], of as many rows as `rows_compared` says
    :param scale: what +1 stands for, if that is known
    :raises FormatError: where the file does not hold the tensor
    """
    import numpy as np

    from i2s_spec.codec.native import unpack_codes
    from i2s_spec.codec.observation import read_tail
    from i2s_spec.schema.dialect import CANONICAL

    span = tensor.span
    tensor.require(span)
    rows, cols = known.shape
    payload = file.source.read(span.start, rows * cols // 4)
    stored = float(read_tail(tensor.tail, CANONICAL.tail, file.byte_order))
    ratio = stored / scale if scale else None
    wanted = {trit: known == trit for trit in (-1, 0, 1)}
    matches = []
    for layout in LAYOUTS.values():
        if not layout.in_gguf or not _fits(layout, rows, cols):
            continue
        codes = unpack_codes(payload, (rows, cols), layout)
        found = [codes == code for code in range(4)]
        for code_map in CODE_MAPS.values():
            pairs = ((found[code], wanted[trit]) for code, trit in enumerate(code_map.trits) if trit is not None)
            share = sum(int(np.count_nonzero(one & other)) for one, other in pairs) / codes.size
            matches.append(Match(Dialect(layout, code_map, CANONICAL.tail), share, rows * cols, ratio))
    matches.sort(key=lambda match: -match.share)
    return ReferenceMatches(tensor.raw_name, tuple(matches))


def _fits(layout: Layout, rows: int, cols: int) -> bool:
    return rows % layout.row_block == 0 and rows * cols % layout.block == 0


def ternarised(weights: NDArray[Any]) -> tuple[NDArray[np.int8], float]:
    """Weights as trits, and what +1 stands for: as they are if they are ternary, else rounded by their mean magnitude.

    :raises ValueError: for weights that are all 0, or not finite
    """
    import numpy as np

    magnitude = np.abs(weights.astype(np.float32))
    if not np.isfinite(magnitude).all():
        raise ValueError("the reference holds infinities or NaN")
    largest = float(magnitude.max(initial=0.0))
    if largest == 0:
        raise ValueError("the reference is all zeros, which every layout reads alike")
    sign = np.sign(weights).astype(np.int8)
    near = (magnitude < largest * NOTHING) | (magnitude > largest * SAME)
    if near.all():
        return np.where(magnitude < largest * 0.5, np.int8(0), sign), largest
    mean = float(magnitude.mean(dtype=np.float64))
    return np.where(magnitude < 0.5 * mean, np.int8(0), sign), mean


def weigh(question: Question, comparison: ReferenceMatches) -> Question:
    """Return a question about layout or code map with what the comparison says.

    :param question: `layout` or `code map`
    """
    best = comparison.decided
    part = "layout" if question.name == "layout" else "code_map"
    if best is None:
        return question._replace(would_tell=undecided(comparison))
    case = QuestionCase([(each.name, each.title) for each in question.hypotheses])
    shares: dict[str, float] = {}
    for match in comparison.matches:
        name = str(getattr(match.dialect, part))
        shares[name] = max(shares.get(name, 0.0), match.share)
    where = f"{counted(best.compared, 'element')} of {quote(comparison.tensor)}"
    for name, share in shares.items():
        text = f"decoded in this way, {100 * share:.2f} % of {where} equal the reference"
        if name == str(getattr(best.dialect, part)):
            case.favour(name, text, PROOF)
        else:
            case.against(name, text, PROOF)
    for each in question.hypotheses:
        if each.name not in shares:
            case.against(each.name, "the shape has no place for it", STRONG)
    fresh = case.question(question.name, question.text)
    merged = [
        each._replace(
            favour=each.favour + next(old.favour for old in question.hypotheses if old.name == each.name),
            against=each.against
            + _weaker(next(old.against for old in question.hypotheses if old.name == each.name), each),
        )
        for each in fresh.hypotheses
    ]
    return fresh._replace(hypotheses=tuple(sorted(merged, key=lambda hypothesis: hypothesis.rank)))


def _weaker(against: tuple[Evidence, ...], each: PossibleAnswer) -> tuple[Evidence, ...]:
    """Drop evidence about the writer of the file, which does not count against what the weights show."""
    if any(evidence.weight is PROOF for evidence in each.favour):
        return tuple(evidence._replace(weight=WEAK) for evidence in against)
    return against


def undecided(comparison: ReferenceMatches) -> str:
    """Explain why a comparison decided nothing, and what would decide."""
    if not comparison.matches:
        return "another reference: the shape of this tensor has no place in any layout"
    best = comparison.matches[0]
    return (
        f"another reference: at best {100 * best.share:.1f} % of {counted(best.compared, 'element')} agree with this one "
        f"({best.dialect}); these are not the weights of {quote(comparison.tensor)}, or their rows are in another order"
    )
