"""This module asks which program packed the I2_S tensors of a file, by the marks that quantizers leave."""

from __future__ import annotations

from i2s_spec.errors import all_of, counted, quote
from i2s_spec.inspect.identify.evidence import PROOF, STRONG, WEAK, Question, QuestionCase
from i2s_spec.inspect.identify.observed import Observed
from i2s_spec.schema.dialect import CODE_MAPS
from i2s_spec.schema.programs.producers import QUANTIZERS


def quantizer(seen: Observed, wrote_keys: str | None = None) -> Question:
    """Which program packed the I2_S tensors?

    :param wrote_keys: the answer to `converter`
    """
    case = QuestionCase([*((each.name, each.title) for each in QUANTIZERS), ("other", "another writer")])
    _weigh_version(seen, case)
    _weigh_converter(seen, case, wrote_keys)
    _weigh_extents(seen, case)
    _weigh_tails(seen, case)
    _weigh_numbers(seen, case)
    _weigh_scales(seen, case)
    tell = "the weights that it was made from, or its author"
    if seen.survey is None:
        tell = "the payloads, which were not read"
    return case.question("quantizer", "What packed its I2_S tensors?", tell)


def _weigh_version(seen: Observed, case: QuestionCase) -> None:
    """general.quantization_version: llama-quantize always writes it, the Python converters never."""
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
        for other in case.names:
            if other != "i2s-spec":
                case.against(other, f"general.name is {quote(name)}, as i2s new writes it", STRONG)
    for each in QUANTIZERS:
        if each.architectures and seen.architecture and seen.architecture not in each.architectures:
            names = " or ".join(each.architectures)
            case.against(each.name, f"the architecture is {quote(seen.architecture)}; it writes {names}", STRONG)


def _weigh_converter(seen: Observed, case: QuestionCase, wrote_keys: str | None) -> None:
    """Programs that convert and quantize in one go leave keys and tails that fit each other."""
    alone = {"convert-hf-2026": "convert-hf", "convert-embedding": "convert-embedding"}.get(wrote_keys or "")
    if alone is None or "general.quantization_version" in seen.keys:
        return
    if seen.tails and set(seen.tails) == {"zero"}:
        text = "it wrote the keys, nothing shows that another program rewrote them, and it can pack I2_S itself"
        case.favour(alone, text, STRONG)


def _weigh_extents(seen: Observed, case: QuestionCase) -> None:
    """How many bytes each tensor was given."""
    extents, total = seen.extents, sum(seen.extents.values())
    if not total:
        return
    chunked = extents["chunks"]
    if chunked > total // 2:
        text = f"{chunked} of {total} I2_S tensors have room for several tails: each chunk of rows wrote its own"
        case.favour("llama-quantize-threads", text, STRONG)
        for name in case.names:
            if name != "llama-quantize-threads":
                case.against(name, text, STRONG)
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
    """What lies after the scales."""
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
        for each in QUANTIZERS:
            if "stale" in each.tails:
                case.favour(each.name, text, WEAK)
            else:
                case.against(each.name, text, STRONG)
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
        text = f"{all_of(total, 'tail holds', 'tails hold')} the scale eight times"
        for each in QUANTIZERS:
            if "replicated" in each.tails:
                case.favour(each.name, text, STRONG)
            else:
                case.against(each.name, text, STRONG)
    elif not seen.tails["replicated"]:
        case.against("t-mac", "the scale is not there eight times", STRONG)


def _weigh_numbers(seen: Observed, case: QuestionCase) -> None:
    """Type numbers, and codes that only some quantizers write."""
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
    """Which numbers the scales are."""
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
