"""This module asks how the tensors of a file are packed: code map, tail, and the layout.

The histogram of codes is the same under every layout (clause 5.5). What tells one from another: the order in weights that
somebody trained (clause 7.7), who packed them, weights that are known, and remainders that a quantizer left.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import counted, quote
from i2s_spec.inspect.evidence.balance import FAR, balance
from i2s_spec.inspect.identify.evidence import CERTAIN, PROOF, STRONG, WEAK, Question, QuestionCase
from i2s_spec.inspect.identify.observed import Observed
from i2s_spec.inspect.identify.weights import reconsidered, weigh_weights
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, CodeMap, Layout, parse
from i2s_spec.schema.programs.producers import QUANTIZER
from i2s_spec.schema.programs.releases import RELEASES

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence
    from i2s_spec.inspect.survey.tensor_survey import TensorSurvey

#: A code that stands for nothing may be damage below this share; from it on, it is a code that is used.
USED: Final = 0.01

#: Layouts that occur in GGUF files.
IN_GGUF: Final = tuple(layout for layout in LAYOUTS.values() if layout.in_gguf)


def code_map(seen: Observed, quantizer: Question) -> Question:
    """What do the codes 0 to 3 stand for?

    :param quantizer: the question of `packer`, which may answer this one
    """
    case = QuestionCase([(each.name, f"codes 0 to 3: {_trits(each)}; {each.known_as}") for each in CODE_MAPS.values()])
    counts, total = seen.counts, sum(seen.counts)
    if total:
        shares = [count / total for count in counts]
        for each in CODE_MAPS.values():
            _weigh_map(each, counts, shares, case)
    if quantizer.answer is not None and quantizer.answer.name in QUANTIZER:
        known = QUANTIZER[quantizer.answer.name]
        if known.layouts and known.code_map:  # else it destroys what it writes, or writes what it is told
            case.favour(known.code_map, f"{known.title} writes these codes", STRONG)
    return case.question("code map", "What do its codes stand for?", "known weights (--reference)")


def _weigh_map(each: CodeMap, counts: tuple[int, int, int, int], shares: list[float], case: QuestionCase) -> None:
    unused = each.unused
    if shares[unused] >= USED:
        case.against(each.name, f"code {unused}, which would be undefined, is {_percent(shares[unused])} of all", PROOF)
        return
    if counts[unused]:
        case.against(
            each.name, f"code {unused}, which would be undefined, occurs {counted(counts[unused], 'time')}", WEAK
        )
    else:
        case.favour(each.name, f"code {unused}, which would be undefined, does not occur", WEAK)
    minus, zero, plus = (shares[each.code_of(trit)] for trit in (-1, 0, 1))
    shown = f"{_percent(minus)} would be -1, {_percent(zero)} 0, {_percent(plus)} +1"
    signs = min(each.code_of(-1), each.code_of(1)), max(each.code_of(-1), each.code_of(1))
    found = balance(counts, unused)
    off = f"{found.sigmas[signs]:.3g} standard deviations off balance"
    if found.pair == signs:
        case.favour(each.name, f"{shown}: both signs are equally frequent, {off}", STRONG)
    elif found.pair is not None:
        case.against(each.name, f"{shown}: {off}, but in trained weights both signs are equally frequent", STRONG)
    elif found.sigmas[signs] <= FAR:
        case.favour(each.name, f"{shown}: {off}, which is possible for other code maps, too", WEAK)


def _trits(each: CodeMap) -> str:
    return ", ".join("nothing" if trit is None else f"{trit:+d}" if trit else "0" for trit in each.trits)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def tail(seen: Observed) -> Question:
    """What is after the payloads?"""
    case = QuestionCase(
        [
            ("first-float/zeros", "one float32, then zeros"),
            ("first-float/leftovers", "one float32, then bytes that were never written"),
            ("replicated-8", "the same float32 eight times"),
        ]
    )
    names = {"zero": "first-float/zeros", "stale": "first-float/leftovers", "replicated": "replicated-8"}
    total = sum(seen.tails.values())
    for kind, name in names.items():
        count = seen.tails[kind]
        if total and count:
            case.favour(name, f"{count} of {counted(total, 'tail')}", PROOF if count == total else WEAK)
        elif total:
            case.against(name, f"none of {counted(total, 'tail')}", PROOF)
    if total and 0 < seen.tails["stale"] < total and not seen.tails["replicated"]:
        text = "one buffer was reused for all tensors, and was fresh at first"
        case.favour("first-float/leftovers", text, STRONG if seen.stale_tails.found else WEAK)
    return case.question("tail", "What is after the scale?")


def layout(seen: Observed, release: Question, quantizer: Question, weights: LayoutEvidence | None = None) -> Question:
    """Where does the code of each element lie?

    :param release, quantizer: questions that may answer this one
    :param weights: what the weights themselves tell
    """
    case = QuestionCase([(each.name, each.known_as) for each in IN_GGUF])
    _weigh_release(case, release)
    _weigh_quantizer(case, quantizer)
    _weigh_shapes(case, seen)
    if quantizer.answer is not None and quantizer.answer.name == "llama-quantize":
        for tensor in seen.payloads():
            _weigh_remainder(case, tensor)
    if weights is not None:
        weigh_weights(case, weights)
    tell = (
        "weights that it was made from (--reference FILE.npy --tensor NAME, or a GGUF or safetensors file with them), "
        "the output of a correct program, or the machine on which it was quantized"
    )
    question = case.question("layout", "Where do its codes lie?", tell)
    return question if weights is None else reconsidered(question, weights)


def _weigh_release(case: QuestionCase, release: Question) -> None:
    if release.answer is None:
        return
    known = next(each for each in RELEASES if each.name == release.answer.name)
    name = parse(known.dialect).layout.name
    if release.confidence == CERTAIN:
        case.favour(name, f"the release {known.name} is packed so", PROOF)
        for other in case.names:
            if other != name:
                case.against(other, f"the release {known.name} is {name}", PROOF)
    elif known.size is not None:  # a file of that very length, not only a model of that shape
        case.favour(name, f"the release {known.name} is packed so", STRONG)


def _weigh_quantizer(case: QuestionCase, quantizer: Question) -> None:
    answer = quantizer.answer
    if answer is None or answer.name not in QUANTIZER:
        return
    known = QUANTIZER[answer.name]
    if not known.layouts:
        return
    if len(known.layouts) == 1:
        case.favour(known.layouts[0], f"{known.title} writes this layout on every machine", STRONG)
    for name in case.names:
        if name in known.layouts:
            if len(known.layouts) > 1:
                case.favour(name, f"{known.title} can write this layout", WEAK)
        else:
            case.against(name, f"{known.title} never writes this layout", STRONG)


def _weigh_shapes(case: QuestionCase, seen: Observed) -> None:
    """Shapes that a layout has no place for: such a tensor can only have been packed so by accident."""
    for each in IN_GGUF:
        if each.row_block == 1:
            continue
        odd = ((name, ne) for _, name, ne, _, _ in seen.i2s() if len(ne) > 1 and prod(ne[1:]) % each.row_block)
        for name, ne in odd:
            text = f"{quote(name)} has {counted(prod(ne[1:]), 'row')}, and it packs whole groups of {each.row_block}"
            case.against(each.name, text, WEAK)
            break


def _weigh_remainder(case: QuestionCase, tensor: TensorSurvey) -> None:
    """A C quantizer leaves what is not a whole block at 0: how many bytes those are depends on the layout (clause 5.3)."""
    if tensor.last_run is None:
        return
    n = prod(tensor.ne)
    layouts = [LAYOUTS[name] for name in QUANTIZER["llama-quantize"].layouts]
    left = {each.name: unwritten(each, tensor.ne) for each in layouts}
    if n % 4 or len(set(left.values())) < 2:
        return
    run = tensor.last_run
    zeros = run.length if run.value == 0 else 0
    for name, count in left.items():
        if count > zeros:
            text = (
                f"the last {counted(count, 'byte')} of {quote(tensor.name)} would be unwritten zeros; "
                f"only {zeros} of them are zero"
            )
            case.against(name, text, PROOF, tensor.span(tensor.payload_bytes - count, tensor.payload_bytes))
        elif zeros >= count + 8:
            text = (
                f"{quote(tensor.name)} ends with {counted(zeros, 'zero byte')}, of which it "
                f"would have written {zeros - count}"
            )
            case.against(name, text, STRONG)
        elif not count and not zeros and all(more for other, more in left.items() if other != name):
            text = f"{quote(tensor.name)} is written to its end, as only this layout does where the shape is such"
            case.favour(name, text, STRONG)
        elif count:
            text = f"the last {counted(count, 'byte')} of {quote(tensor.name)} are unwritten zeros, as it leaves them"
            case.favour(name, text, STRONG, tensor.span(tensor.payload_bytes - count, tensor.payload_bytes))


def unwritten(each: Layout, ne: tuple[int, ...]) -> int:
    """Bytes at the end of a payload that a C quantizer of a layout never writes."""
    n = prod(ne)
    if each.row_block > 1:
        return n // 4 - (n // ne[0] // each.row_block) * ne[0]
    return n % each.block // 4
