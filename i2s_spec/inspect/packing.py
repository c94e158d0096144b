"""Questions about how the tensors of a file are packed: code map, tail, layout, and the program that packed them.

The histogram of codes is the same under every layout (clause 5.5). What tells one from another: the order in
trained weights (clause 7.7), the program that packed them, known weights, and remainders that a quantizer left.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.text import json_string
from i2s_spec.errors import all_of, counted, quote
from i2s_spec.gguf.writer_forms import NEOGPU, SKAINET, WriterForm, writer_form
from i2s_spec.inspect.questions import CERTAIN, PROOF, STRONG, WEAK, Observed, Question, QuestionCase, Weight
from i2s_spec.layout_inference.counts import FAR, balance, zero_channels
from i2s_spec.layout_inference.evidence import pair_order
from i2s_spec.layout_inference.hypotheses import named
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, LAYOUTS, CodeMap, Layout, parse
from i2s_spec.schema.releases import QUANTIZER, QUANTIZERS, RELEASES

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import TensorSurvey
    from i2s_spec.layout_inference.evidence import LayoutEvidence
    from i2s_spec.layout_inference.hypotheses import Decision

# --- weights ---------------------------------------------------------------------------------------------------------
# What the weights show of their layout, as evidence in the question about the layout, and as plain data.

#: Tensors of a mixed file that a text names.
NAMED = 4


def weigh_weights(case: QuestionCase, found: LayoutEvidence) -> None:
    """Add what the weights say for and against each layout; nothing if they decide nothing."""
    decided, whole = found.decided, found.whole
    if decided is None:
        return
    many = f"{counted(whole.freedom, 'comparison')} over {counted(found.layers, 'layer')}"
    best = whole.sums[decided.name]
    for name in case.names:
        score = whole.sums.get(name)
        if score is None:
            continue
        if name == decided.name:
            text = f"{many} of its weights score {score:,.0f}, and {best - whole.margin:,.0f} in the next best layout"
            case.favour(name, text, PROOF)
        else:
            case.against(name, f"in this layout its weights score {score:,.0f}; in {decided.name} {best:,.0f}", PROOF)


def undecided(found: LayoutEvidence) -> str:
    """Explain why the weights decide nothing; empty if they do."""
    if found.mixed:
        others = [f"{quote(one.matrix.name)} is {one.decision.name}" for one in found.otherwise(found.usual or "")]
        more = f", and {len(others) - NAMED} more" if len(others) > NAMED else ""
        return f"its tensors are mixed: most are {found.usual}, but {', '.join(others[:NAMED])}{more}"
    if found.decided is None:
        whole = found.whole
        if whole.margin >= whole.wanted:
            return "trained weights, but in this file gains and Gram matrices contradict each other"
        return (
            "trained weights, but those of this file show no layout, like random weights (the score "
            f"of the best layout leads by {whole.margin:.0f}; {whole.wanted:.0f} is needed)"
        )
    return "" if found.decided.plain else f"its weights are laid out as {found.decided.name}"


def reconsidered(question: Question, found: LayoutEvidence) -> Question:
    """Return the question about the layout, where the weights leave it open and say why."""
    why = undecided(found)
    if not why:
        return question
    if found.decided is None and not found.mixed:
        tell = f"{why}; {question.would_tell}"
        return question._replace(would_tell=tell) if question.answer is None else question
    case = QuestionCase([(each.name, each.title) for each in question.hypotheses])
    for name in case.names:
        case.against(name, why, STRONG)
    return case.question(question.name, question.text, f"{why}; what else would decide: {question.would_tell}")


def rotation(found: LayoutEvidence) -> Question | None:
    """Answer which rows of queries and keys are rotated together; None if the weights do not show it."""
    pairs = pair_order(found)
    if pairs.order is None:
        return None
    case = QuestionCase([("neox", "rows in the two halves of a head"), ("norm", "rows beside each other")])
    sums = f"{pairs.halves:,.0f} for the halves of a head and {pairs.neighbors:,.0f} for neighboring rows"
    text = (
        f"the densities of rows show it: "
        f"{counted(pairs.comparisons, 'comparison scores', 'comparisons score')} {sums}; chance gives {pairs.wanted:.0f}"
    )
    case.favour(pairs.order, text, STRONG)
    return case.question("rotation", "Which rows of queries and keys are rotated together?", "a text: --likelihood")


def as_dict(found: LayoutEvidence) -> dict[str, Any]:
    """Return the evidence as plain data."""
    return {
        "layout": found.decided.name if found.decided is not None else None,
        "mixed": found.mixed,
        "layers": found.layers,
        "file": _decision(found.whole),
        "profiles": _decision(found.profiles),
        "grams": _decision(found.grams),
        "pairs": _pairs(found),
        "zero_channels": [
            {**each._asdict(), "score": round(each.score, 3)}
            for each in zero_channels(found.counts, found.decided or named(CANONICAL.layout.name))
        ],
        "tensors": [{"name": json_string(one.matrix.name), **_decision(one.decision)} for one in found.tensors],
        "comparisons": [
            {"tensor": json_string(one.matrix.name), "text": one.text, "scores": _rounded(one.scores[True])}
            for one in found.comparisons
        ],
    }


def _pairs(found: LayoutEvidence) -> dict[str, Any]:
    pairs = pair_order(found)
    return {
        "order": pairs.order,
        "halves": round(pairs.halves, 3),
        "neighbors": round(pairs.neighbors, 3),
        "wanted": round(pairs.wanted, 3),
        "comparisons": pairs.comparisons,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "decided": decision.name,
        "best": decision.best,
        "margin": round(decision.margin, 3),
        "wanted": round(decision.wanted, 3),
        "comparisons": decision.freedom,
        "scores": _rounded(decision.sums),
    }


def _rounded(scores: Any) -> dict[str, float]:
    return {name: round(score, 3) for name, score in scores.items()}


# --- packing ---------------------------------------------------------------------------------------------------------
# The questions `code_map`, `tail` and `layout`.

#: A code that stands for nothing may be damage below this share; from it on, it is a code that is used.
USED: Final = 0.01

#: Layouts that occur in GGUF files.
IN_GGUF: Final = tuple(layout for layout in LAYOUTS.values() if layout.in_gguf)


def code_map(seen: Observed, quantizer: Question) -> Question:
    """Answer what the codes 0 to 3 stand for.

    :param quantizer: the question of `quantizer`, which may answer this one
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
    """Answer what follows the payloads."""
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
    """Answer where the code of each element lies.

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
        case.against_others(name, f"the release {known.name} is {name}", PROOF)
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
    """Weigh shapes that a layout has no place for: only by accident is such a tensor packed so."""
    for each in IN_GGUF:
        if each.row_block == 1:
            continue
        odd = ((name, ne) for _, name, ne, _, _ in seen.i2s() if len(ne) > 1 and prod(ne[1:]) % each.row_block)
        for name, ne in odd:
            text = f"{quote(name)} has {counted(prod(ne[1:]), 'row')}, and it packs whole groups of {each.row_block}"
            case.against(each.name, text, WEAK)
            break


def _weigh_remainder(case: QuestionCase, tensor: TensorSurvey) -> None:
    """Weigh the zeros that a C quantizer leaves for an incomplete block: how many depends on the layout (clause 5.3)."""
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


# --- packer ----------------------------------------------------------------------------------------------------------
# The question `quantizer`: which program packed the I2_S tensors of a file, by the marks that quantizers leave.


def quantizer(seen: Observed, wrote_keys: str | None = None) -> Question:
    """Answer which program packed the I2_S tensors.

    :param wrote_keys: the answer to `converter`
    """
    case = QuestionCase([*((each.name, each.title) for each in QUANTIZERS), ("other", "another writer")])
    form = writer_form(seen.file)
    _weigh_form(case, form)
    _weigh_version(seen, case)
    _weigh_converter(seen, case, wrote_keys)
    if form is None:
        _weigh_extents(seen, case)
    _weigh_tails(seen, case)
    _weigh_numbers(seen, case)
    _weigh_scales(seen, case)
    tell = "the weights that it was made from, or its author"
    if seen.survey is None:
        tell = "the payloads, which were not read"
    return case.question("quantizer", "What packed its I2_S tensors?", tell)


def _weigh_form(case: QuestionCase, form: WriterForm | None) -> None:
    """Weigh the form that a single program gives to whole files."""
    for known in (NEOGPU, SKAINET):
        if form is not known:
            case.against(known.name, f"in its files {known.words}", PROOF)
    if form is not None:
        case.favour(form.name, form.words, STRONG if form.tail else PROOF)
        case.against_others(form.name, form.words, STRONG)


def _weigh_version(seen: Observed, case: QuestionCase) -> None:
    """Weigh general.quantization_version: llama-quantize always writes it, the Python converters never."""
    there = "general.quantization_version" in seen.keys
    for each in QUANTIZERS:
        if each.version is None:
            continue
        if there == each.version:
            text = "general.quantization_version is there" if there else "general.quantization_version is missing"
            case.favour(each.name, f"{text}, as in all its files", WEAK)
        else:
            case.against(each.name, f"general.quantization_version is {'there' if there else 'missing'}", STRONG)
    name = seen.value("general.name")
    if isinstance(name, str) and name.startswith("synthetic-"):
        case.favour("i2s-spec", f"general.name is {quote(name)}: i2s new made the file", STRONG)
        case.against_others("i2s-spec", f"general.name is {quote(name)}, as i2s new writes it", STRONG)
    for each in QUANTIZERS:
        if each.architectures and seen.architecture and seen.architecture not in each.architectures:
            names = " or ".join(each.architectures)
            case.against(each.name, f"the architecture is {quote(seen.architecture)}; it writes {names}", STRONG)


def _weigh_converter(seen: Observed, case: QuestionCase, wrote_keys: str | None) -> None:
    """Weigh keys and tails that fit each other, as programs leave them that convert and quantize in one go."""
    alone = {"convert-hf-2026": "convert-hf", "convert-embedding": "convert-embedding"}.get(wrote_keys or "")
    if alone is None or "general.quantization_version" in seen.keys:
        return
    if seen.tails and set(seen.tails) == {"zero"}:
        text = "it wrote the keys, nothing shows that another program rewrote them, and it can pack I2_S itself"
        case.favour(alone, text, STRONG)


def _weigh_extents(seen: Observed, case: QuestionCase) -> None:
    """Weigh the bytes that each tensor was given."""
    extents, total = seen.extents, sum(seen.extents.values())
    if not total:
        return
    chunked = extents["chunks"]
    if chunked > total // 2:
        text = f"{chunked} of {total} I2_S tensors have room for several tails: each chunk of rows wrote its own"
        case.favour("llama-quantize-threads", text, STRONG)
        case.against_others("llama-quantize-threads", text, STRONG)
    else:
        case.against("llama-quantize-threads", "no tensor has room for more than one tail", STRONG)
    for kind, what in (
        ("unpacked", "one byte for each weight, as a writer does that takes I2_S for a type of one byte"),
        ("bare", "no room for the tail: the writer forgot it"),
        ("scale", "room for the scale but not for the rest of the tail, as one C runtime counts it"),
        ("blocks", "a payload of whole blocks, as one Go runtime counts it"),
    ):
        if extents[kind] > total // 2:
            text = f"{extents[kind]} of {total} I2_S tensors have {what}"
            case.favour("other", text, STRONG)
            for each in QUANTIZERS:
                case.against(each.name, text, STRONG)


def _weigh_tails(seen: Observed, case: QuestionCase) -> None:
    """Weigh the bytes after the scales."""
    total = sum(seen.tails.values())
    if not total:
        return
    left = seen.stale_tails
    if left.first is not None:
        one = left.first
        text = (
            f"the 28 bytes after the scale of {quote(one.name)} are bytes {one.start:,} to {one.stop:,} of "
            f"{quote(one.source)}: one buffer held both ({left.found} of "
            f"{counted(left.traced, 'tail that', 'tails that')} hold anything)"
        )
        case.favour("llama-quantize", text, STRONG, one.span)
        case.favour("llama-quantize-threads", text, STRONG, one.span)
        case.favour("development-fork", text, WEAK, one.span)
        for name in ("convert-hf", "convert-embedding", "i2s-spec", "t-mac", "pre-release"):
            case.against(name, text, PROOF, one.span)
        case.against("other", text, STRONG, one.span)
    elif seen.tails["stale"]:
        text = f"{seen.tails['stale']} of {counted(total, 'tail')} hold other bytes than zeros after the scale"
        _by_tail(case, "stale", text, WEAK)
    if seen.tails["zero"] == total:
        text = f"{all_of(total, 'tail is', 'tails are')} zero after the scale"
        for each in QUANTIZERS:
            if "zero" in each.tails:
                case.favour(each.name, text, WEAK)
        if left.spared:
            more = f"{text}, also where an earlier tensor would have left its bytes in the buffer"
            case.against("llama-quantize", more, STRONG)
            case.against("llama-quantize-threads", more, STRONG)
    if seen.tails["replicated"] == total:
        _by_tail(case, "replicated", f"{all_of(total, 'tail holds', 'tails hold')} the scale eight times", STRONG)
    elif not seen.tails["replicated"]:
        case.against("t-mac", "the scale is not there eight times", STRONG)


def _by_tail(case: QuestionCase, tail: str, text: str, weight: Weight) -> None:
    """Favour the quantizers that write such tails, and speak against the others."""
    for each in QUANTIZERS:
        if tail in each.tails:
            case.favour(each.name, text, weight)
        else:
            case.against(each.name, text, STRONG)


def _weigh_numbers(seen: Observed, case: QuestionCase) -> None:
    """Weigh type numbers, and codes that only some quantizers write."""
    if seen.numbers:
        for each in QUANTIZERS:
            if not set(seen.numbers) & set(each.numbers):
                case.against(each.name, f"I2_S has the number {min(seen.numbers)} here", STRONG)
            elif set(seen.numbers) - {36}:
                case.favour(each.name, f"I2_S has the number {min(seen.numbers)} here, as before its release", STRONG)
    zero, one, two, three = seen.counts
    codes = zero + one + two + three
    if codes and two == 0 and three > codes // 100:
        case.favour("pre-release", "code 2 does not occur, and code 3 does: the codes of 2024", STRONG)
    for code, count in enumerate((zero, one, two, three)):
        if count <= codes // 100:
            continue
        for each in QUANTIZERS:
            if each.code_map and CODE_MAPS[each.code_map].unused == code and each.name != "llama-quantize-threads":
                text = f"code {code}, which it never writes, is {100 * count / codes:.0f} % of all"
                case.against(each.name, text, STRONG)


def _weigh_scales(seen: Observed, case: QuestionCase) -> None:
    """Weigh the values of the scales."""
    # NaN, infinity, 0 and subnormal numbers end in zeros too, and no quantizer computed them.
    words = [word for word in seen.scale_bits() if 0x0080_0000 <= word & 0x7FFF_FFFF < 0x7F80_0000]
    if len(words) < 4:
        return
    bf16 = sum(word & 0xFFFF == 0 for word in words)
    half = sum(word & 0x1FFF == 0 for word in words)
    if bf16 == len(words):
        text = (
            f"{all_of(len(words), 'scale is', 'scales are')} exact in BF16, as weight_scale of a packed checkpoint is"
        )
        case.favour("convert-hf", text, STRONG)
    elif half == len(words):
        text = f"{all_of(len(words), 'scale is', 'scales are')} exact in F16: the quantizer read an F16 file"
        case.favour("llama-quantize", text, WEAK)
        case.favour("llama-quantize-threads", text, WEAK)
    if any(word >> 31 for word in words):
        text = "scales have a sign"
        case.favour("pre-release", text, STRONG)
        case.favour("t-mac", text, STRONG)
        case.against("llama-quantize", f"{text}: a largest absolute value has none", STRONG)
        for name in ("convert-hf", "convert-embedding"):
            case.against(name, text, STRONG)
    half_norms = "F16" in seen.norm_types
    inputs = any(name.endswith(b"_norm_in.weight") for name in seen.names)
    if half_norms and inputs:
        case.favour("convert-embedding", "norms are F16, and projections have norms of their own", STRONG)
