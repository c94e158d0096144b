"""Rules about single tensor infos (names, shapes, types), and about unusual sizes and counts of a file."""

from collections.abc import Iterator
from math import prod
from typing import Final

from i2s_spec.errors import TrustedText, quote
from i2s_spec.gguf.placement import sound_shape
from i2s_spec.gguf.reader import Tensor
from i2s_spec.linter.analysis.conditions import with_i2s
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import BYTES_MISSING, DATA_MISSING, WARNING, Finding, Fix, Stops, raised, rule
from i2s_spec.schema import faults, limits, types
from i2s_spec.schema.faults import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN
from i2s_spec.schema.limits import INT64_END
from i2s_spec.schema.types import BY_NAME, READINGS, padded

raised(
    faults.TENSOR_INFOS_TRUNCATED,
    """The file ends inside its tensor table.

    Why: the file has fewer tensor infos than the header counts, or it was truncated. Upstream refuses the file; the
    BitNet fork may fail an assertion.

    Example: a download that stopped in the header.

    Fix: fetch the file again; if it is complete, write the right count.
    """,
    clause="2.6",
    cwe=125,
    stops=BYTES_MISSING,
)

raised(
    faults.TOO_MANY_DIMENSIONS,
    """A tensor has more than four dimensions.

    Why: ggml stores four. A reader that copies as many as the file states writes past its array.

    Example: n_dims = 5.

    Fix: merge dimensions.
    """,
    clause="2.6",
    provenance=(
        "CVE-2024-21802",
        "antirez/gguf-tools#25",
        "openvinotoolkit/openvino.genai#4170",
        "zackshen/gguf#15",
        "llama.cpp tests/test-gguf.cpp TENSORS_BAD_N_DIMS",
    ),
    cwe=787,
    stops=Stops("header", BYTES_MISSING.reason, "past the end"),
)


@rule(faults.NAME_TOO_LONG, clause="2.6", fix=Fix.UNSAFE, cwe=120,
      provenance=("llama.cpp tests/test-gguf.cpp TENSORS_BAD_NAME_SIZE",), ambiguous=True)  # fmt: skip
def name_too_long(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name is longer than 63 bytes.

    Why: ggml stores names in 64 bytes including a final NUL. Upstream refuses the file; the BitNet fork truncates the
    name, which is then not found, or found twice.

    Example: a name of 64 bytes.

    Fix: shorten the name.
    """
    for i, name in subject.odd_names:
        if len(name) > limits.TENSOR_NAME_BYTES:
            yield name_too_long.at(subject.name_span(i), got=len(name), want=limits.TENSOR_NAME_BYTES, index=i)


@rule("G303", "duplicate-name", "tensor name {name} is given {got:time}", clause="2.6",
      fix=Fix.UNSAFE, cwe=694,
      provenance=("llama.cpp tests/test-gguf.cpp TENSORS_DUPLICATE_NAME",), ambiguous=True)  # fmt: skip
def duplicate_name(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name occurs twice.

    Why: C++ loaders refuse the file, and JavaScript readers take one of the two tensors. A scanner and a loader can
    therefore see different weights.

    Example: two tensors 'output_norm.weight'.

    Fix: keep the intended tensor.
    """
    for i, name, count in subject.repeated(tensors=True):
        yield duplicate_name.at(subject.name_span(i), got=count, want=1, name=name)


@rule("G304", "empty-name", "tensor {index} has an empty name", clause="2.6", fix=Fix.UNSAFE, ambiguous=True)
def empty_name(subject: LintContext) -> Iterator[Finding]:
    """A tensor has no name.

    Why: llama.cpp and its relatives accept the tensor but cannot find it, so the number of tensors differs from
    the one they expect.

    Example: a tensor info that begins with a length of 0.

    Fix: name the tensor, or remove it.
    """
    for i, name in subject.odd_names:
        if not name:
            span = subject.name_span(i)
            yield empty_name.at(span._replace(start=span.start - 8, path=f"{span.path}.length"), got=0, index=i)


@rule("G305", "name-control-character", "the name of tensor {index}, {name}, contains a character that is not printable",
      clause="2.6", fix=Fix.UNSAFE, cwe=158)  # fmt: skip
def name_control_character(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name contains NUL, another control character or an invisible mark.

    Why: C code compares names up to the first NUL. Control characters act on the terminal that prints the name. With
    invisible marks, two different names look the same.

    Example: 'output.weight\\x00x'.

    Fix: remove the characters.
    """
    for i, name in subject.odd_names:
        text = _decoded(name)
        if text is not None and not text.isprintable():
            yield name_control_character.at(subject.name_span(i), name=name, index=i)


@rule("G306", "name-not-utf8", "the name of tensor {index}, {name}, is not valid UTF-8", clause="2.6",
      fix=Fix.UNSAFE, cwe=176, ambiguous=True)  # fmt: skip
def name_not_utf8(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name is not valid UTF-8.

    Why: strings in a GGUF file are UTF-8. Loaders written in C do not check this; others fail with an exception.

    Example: a name with the byte 0xFF.

    Fix: write the name in ASCII.
    """
    for i, name in subject.odd_names:
        if _decoded(name) is None:
            yield name_not_utf8.at(subject.name_span(i), name=name, index=i)


@rule("G307", "name-like-a-path", "tensor name {name} looks like a path", severity=WARNING, clause="2.6",
      cwe=22)  # fmt: skip
def name_like_a_path(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name looks like a path.

    Why: a tool that writes each tensor to a file with the tensor's name would write outside its folder.

    Example: '../../etc/passwd'.

    Fix: separate the parts of the name by dots.
    """
    for i, name in subject.odd_names:
        if b"/" in name or b"\\" in name or name in (b".", b".."):
            yield name_like_a_path.at(subject.name_span(i), name=name)


@rule("G309", "no-dimensions", "tensor {name} has no dimensions", clause="2.6", fix=Fix.UNSAFE, ambiguous=True)
def no_dimensions(subject: LintContext) -> Iterator[Finding]:
    """A tensor has no dimensions.

    Why: upstream reads it as a single number; the BitNet fork asserts that there is at least one dimension, and ends
    the process.

    Example: n_dims = 0.

    Fix: write one dimension of 1.
    """
    for tensor in subject.odd_tensors:
        if not tensor.ne:
            yield no_dimensions.at(subject.info_span(tensor.index, "n_dims"), got=0, want=1, name=tensor.raw_name)


@rule("G310", "empty-dimension", "tensor {name} has a dimension of 0: {got}", clause="2.6",
      fix=Fix.UNSAFE, cwe=369,
      provenance=("ggml-org/llama.cpp#26946", "llama.cpp tests/test-gguf.cpp TENSORS_ZERO_DIM"),
      ambiguous=True)  # fmt: skip
def empty_dimension(subject: LintContext) -> Iterator[Finding]:
    """A tensor has a dimension of 0.

    Why: upstream accepts it. The BitNet fork and ik_llama.cpp fail an assertion and end the process; other readers
    divide by zero.

    Example: ne = (256, 0).

    Fix: remove the tensor.
    """
    for tensor in subject.odd_tensors:
        if 0 in tensor.ne:
            span = subject.dimension_span(tensor.index, tensor.ne.index(0))
            yield empty_dimension.at(span, got=tensor.ne, name=tensor.raw_name)


@rule("G311", "huge-dimension", "tensor {name} has a dimension of 2^63 or more: {got}", clause="2.6",
      cwe=190,
      provenance=("llama.cpp tests/test-gguf.cpp TENSORS_BAD_SHAPE",), ambiguous=True, stops=DATA_MISSING)  # fmt: skip
def huge_dimension(subject: LintContext) -> Iterator[Finding]:
    """A tensor has a dimension that is negative as a signed number.

    Why: loaders store dimensions as signed 64-bit integers, in which this value is negative.

    Example: ne = (2^64 - 1, 1).

    Fix: write the intended dimension.
    """
    for tensor in subject.odd_tensors:
        if tensor.ne and max(tensor.ne) >= INT64_END:
            which = next(i for i, length in enumerate(tensor.ne) if length >= INT64_END)
            span = subject.dimension_span(tensor.index, which)
            yield huge_dimension.at(span, got=tensor.ne, name=tensor.raw_name)


@rule("G312", "too-many-elements", "tensor {name} of shape {shape} has {got:element}, more than 2^63 - 1",
      clause="2.6", cwe=190,
      provenance=("CVE-2026-33298", "ggml-org/llama.cpp#18674", "ggml-org/llama.cpp#25401",
                  "gpustack/gguf-parser-go#20", "zackshen/gguf#15",
                  "llama.cpp tests/test-gguf.cpp TENSORS_NE_TOO_BIG"), ambiguous=True, stops=DATA_MISSING)  # fmt: skip
def too_many_elements(subject: LintContext) -> Iterator[Finding]:
    """The product of a tensor's dimensions does not fit 63 bits.

    Why: in 64-bit integers the product wraps around to a small number, and the size check passes.

    Example: ne = (4194305, 4194305, 211106198978564), whose product wraps to 4.

    Fix: write the intended shape.
    """
    for tensor in subject.odd_tensors:
        if tensor.ne and 0 not in tensor.ne and max(tensor.ne) < INT64_END <= prod(tensor.ne):
            span = subject.info_span(tensor.index, "ne")
            yield too_many_elements.at(span, got=prod(tensor.ne), shape=tensor.ne, name=tensor.raw_name)


@rule(faults.TYPE_UNKNOWN, clause="2.6", cwe=129,
      provenance=("ggml-org/llama.cpp#19856", "llama.cpp tests/test-gguf.cpp TENSORS_BAD_TYPE"),
      ambiguous=True,
      stops=Stops("tensors", "the size of a tensor of this type cannot be known", "never a type"))  # fmt: skip
def type_unknown(subject: LintContext) -> Iterator[Finding]:
    """A tensor has a type number that ggml does not define.

    Why: loaders use the number as an index of a table. Those that do not check it read beyond the table or divide by
    zero. Forks add types under numbers that are free at the time; where a fork is known to use the number, the message
    names it. One finding covers all tensors with the same number.

    Example: type 99, or -1.

    Fix: write the type that the data has.
    """
    unknown: dict[int, list[Tensor]] = {}
    for tensor in subject.odd_tensors:
        undecided = tensor.number in subject.second_readings
        if tensor.type is None and tensor.number not in types.RETIRED and not undecided:
            unknown.setdefault(tensor.number, []).append(tensor)
    for number, tensors in unknown.items():
        more = f", and so have {len(tensors) - 1:,} others" if len(tensors) > 1 else ""
        from i2s_spec.schema.type_registry import tensor_type_words

        meanings = tensor_type_words(number)
        yield type_unknown.at(
            subject.info_span(tensors[0].index, "type"), got=number, name=tensors[0].raw_name, others=TrustedText(more),
            meaning=TrustedText(f"; it is {meanings}" if meanings else ""),
        )  # fmt: skip


@rule("G314", "type-retired", "tensor {name} has type {got}, {was}, which ggml has retired", clause="2.6",
      provenance=("ggml-org/llama.cpp#17105",), ambiguous=True)  # fmt: skip
def type_retired(subject: LintContext) -> Iterator[Finding]:
    """A tensor has a type number that ggml has retired.

    Why: the tables of loaders have an empty entry there, with block size 0. They refuse the tensor, since its size is
    unknown.

    Example: type 33, once Q4_0_8_8.

    Fix: convert the original checkpoint again.
    """
    retired = [tensor for tensor in subject.odd_tensors if tensor.number in types.RETIRED]
    legacy = {placement.row for placement in subject.placements if subject.is_legacy(placement)} if retired else ()
    for tensor in retired:
        if tensor.index not in legacy:
            span = subject.info_span(tensor.index, "type")
            was = types.RETIRED[tensor.number]
            yield type_retired.at(span, got=tensor.number, name=tensor.raw_name, was=was)


@rule(faults.BLOCK_SPLIT, clause="2.6", provenance=("ggml-org/llama.cpp#17105",), ambiguous=True)
def row_not_whole_blocks(subject: LintContext) -> Iterator[Finding]:
    """A row is not a whole number of the type's blocks.

    Why: quantized types pack blocks of 32, 64, 128 or 256 elements along a row, and there are no partial blocks.

    Example: Q8_0 with ne0 = 100.

    Fix: use a type whose block size divides the row, or an unquantized type.
    """
    for tensor in subject.odd_tensors:
        kind = tensor.type
        if kind is not None and sound_shape(tensor.ne) and tensor.ne[0] % kind.block:
            span = subject.info_span(tensor.index, "ne")
            yield row_not_whole_blocks.at(span, got=tensor.ne[0], want=kind.block, name=tensor.raw_name)


@rule("G318", "number-collision", "tensor {name} has type {got}, read as {read} by its size{more}; others read {other}",
      severity=WARNING, clause="2.6", provenance=("microsoft/BitNet#620",))  # fmt: skip
def number_collision(subject: LintContext) -> Iterator[Finding]:
    """A tensor's type number means different types in different forks.

    Why: 39 is TL2 in BitNet files before May 2026 and MXFP4 elsewhere, 42 is TL2 in newer ones and Q2_0 elsewhere, 40
    is I2_SR in one fork and NVFP4 elsewhere. Here the size fits only the fork's meaning; another loader computes
    another size and reads other bytes. One finding covers all tensors with the same type.

    Example: type 39 with the size of a TL2 tensor.

    Fix: the file itself needs no repair. Load it with the fork that wrote it, or convert it.
    """
    found: dict[types.TensorType, list[Tensor]] = {}
    for tensor in subject.odd_tensors:
        readings = types.READINGS.get(tensor.number, ())
        if tensor.type is None or tensor.type.name == "Q2_0_G128":  # another rule reports more about these
            continue
        if len(readings) > 1 and tensor.type in readings[1:]:
            found.setdefault(tensor.type, []).append(tensor)
    for kind, tensors in found.items():
        more = f", as are {len(tensors) - 1:,} more" if len(tensors) > 1 else ""
        yield number_collision.at(
            subject.info_span(tensors[0].index, "type"), got=kind.number, name=tensors[0].raw_name, read=kind.name,
            more=TrustedText(more), other=types.READINGS[kind.number][0].name,
        )  # fmt: skip


@rule("G319", "scale-companion", "tensor {name} ends in '_scale', which BitNet's writer does not list in the tensor table",
      severity=WARNING, clause="2.6", fix=Fix.UNSAFE, when=with_i2s)  # fmt: skip
def scale_companion(subject: LintContext) -> Iterator[Finding]:
    """A tensor's name ends in '_scale'.

    Why: BitNet's own Python writer does not list such tensors; it stores their bytes after the weights that they belong
    to. A listed one therefore comes from another writer, and the fork's loader finds one tensor too many: 'wrong number
    of tensors'. NAME.scale and NAME.input_scale beside a weight are others, which llama.cpp reads.

    Example: 'blk.0.attn_q.weight_scale'.

    Fix: store the scale in the tail of the I2_S tensor, and remove this tensor.
    """
    for i, name in () if subject.lacks_tails else subject.odd_names:
        if subject.is_stray_scale(name):
            yield scale_companion.at(subject.name_span(i), name=name)


@rule("G320", "tensor-count-short", "the header counts {got:tensor}, and more tensor infos follow: {more}; the first is "
      "{name}", clause="2.6", fix=Fix.UNSAFE, cwe=130, ambiguous=True)  # fmt: skip
def tensor_count_short(subject: LintContext) -> Iterator[Finding]:
    """There are more tensor infos than the header counts.

    Why: readers expect the data section after the last counted info, so they look for every payload in the wrong place.
    They read noise as weights and scales, without an error.

    Example: a header that counts 331 tensors, and a table of 332.

    Fix: write the right count.
    """
    more = subject.uncounted
    count = subject.file.index.tensor_count
    if more is not None and count is not None:
        yield tensor_count_short.at(
            TENSOR_COUNT_SPAN, got=count, want=count + more.tensors, more=more.tensors, name=more.first
        )


def _decoded(name: bytes) -> str | None:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return None


# --- type numbers whose meaning a program changed --------------------------------------------------------------------

_OLD: Final = BY_NAME["Q2_0_G128"]


def with_type_42(subject: LintContext) -> bool:
    """files with tensors of type 42"""
    return _OLD.number in subject.type_numbers


@rule("G321", "groups-of-128", "tensors of type 42 ({count}) have groups of 128 weights, {want:byte}, as PrismML wrote "
      "them before August 2026: programs for groups of 64 {stop}; i2s convert --to Q2_0 makes a file that they read",
      clause="2.6",
      when=with_type_42, command="i2s convert {path} OUT.gguf --to Q2_0",
      provenance=("PrismML-Eng/llama.cpp#167", "ggml-org/llama.cpp#25833", "ggml-org/llama.cpp#29058"))  # fmt: skip
def groups_of_128(subject: LintContext) -> Iterator[Finding]:
    """Tensors of type 42 are packed in groups of 128 weights.

    Why: PrismML used the number 42 for its Q2_0 before llama.cpp did, with one scale for 128 weights. llama.cpp has
    used one scale for 64 weights since July 2026, and PrismML's own fork since August. Current programs compute larger
    sizes for these tensors and refuse the file with a message about the offset of a tensor. Only PrismML's branch
    prism-v5 loads it.

    Example: Ternary-Bonsai-27B-Q2_0.gguf, whose output_norm.weight has offset 337715200 where 357580800 is expected.

    Fix: `i2s convert FILE OUT --to Q2_0` writes each scale twice, which is exact. `--to PQ2_0` keeps the bytes under
    the number 142, for PrismML's fork.
    """
    rows = [tensor for tensor in subject.odd_tensors if tensor.type is _OLD]
    if not rows:
        return
    found = subject.file.tensors.number_reading(_OLD.number)
    rooms = found is not None and found.by == "content"
    stop = TrustedText("read other weights, since the offsets are theirs") if rooms else _stop(subject)
    yield groups_of_128.at(
        subject.info_span(rows[0].index, "type"), got=_OLD.number, want=_OLD.bytes, count=_count(subject, _OLD.number),
        stop=stop,
    )  # fmt: skip


def with_second_numbers(subject: LintContext) -> bool:
    """files with tensors whose type number single programs use for types of their own"""
    return not types.SECOND_NUMBERS.isdisjoint(subject.type_numbers)


@rule("G322", "second-meaning", "tensors of type {got} ({count}) are {meaning}, {size}; {others}", clause="2.6",
      when=with_second_numbers,
      provenance=("ggml-org/llama.cpp#22836", "unixsysdev/llama-turboquant#6", "rlx-gguf 0.2.19", "oxibonsai-core 0.2.3",
                  "ruvllm 2.5.0"))  # fmt: skip
def second_meaning(subject: LintContext) -> Iterator[Finding]:
    """The type number of tensors has the meaning of a single program.

    Why: programs take numbers that others use, or will use, for types of their own. The room of the tensors and their
    contents show which type it is; readers that follow ggml take it for another one, compute other sizes, and refuse
    the file or read other weights. One finding covers all tensors with the number.

    Example: type 30 with 66 bytes for 256 weights, BITNET_T158 of ruvllm, where ggml has BF16.

    Fix: load the file with the program that wrote it, or convert the original checkpoint.
    """
    from i2s_spec.schema.program_types import of_type  # of few files

    for number, found in subject.second_readings.items():
        second = of_type(found.type)
        if second is None:
            continue
        usual = next(iter(READINGS.get(number, ())), None)
        others = "other readers refuse the number"
        if usual is not None:
            others = f"others take them for {usual.name}, and "
            others += _stop(subject) if usual.family == "ggml" else "read other weights"
        rows = ", with the rows as the first dimension" if second.rows_first else ""
        yield second_meaning.at(
            subject.info_span(subject.first_of_type(number), "type"), got=number, count=_count(subject, number),
            meaning=TrustedText(str(second)), size=TrustedText(second.tell + rows), others=TrustedText(others),
        )  # fmt: skip


@rule(faults.MEANING_UNDECIDED, clause="2.6", when=with_second_numbers, ambiguous=True)
def meaning_undecided(subject: LintContext) -> Iterator[Finding]:
    """The type number of tensors may have several meanings, and nothing in the file decides between them.

    Why: small tensors have the room of several types, and a room may contradict what lies in it. Weights that are read
    in a wrong meaning are numbers without sense, so that no command decodes, converts, moves or cuts such tensors.

    Example: type 42 with the room of groups of 128 weights, in which the contents are groups of 64.

    Fix: ask who wrote the file for the name of the program, or convert the original checkpoint.
    """
    for number, found in subject.second_readings.items():
        if found.is_undecided:
            yield meaning_undecided.at(
                subject.info_span(subject.first_of_type(number), "type"), got=number,
                count=TrustedText(f" ({_count(subject, number):,})"),
                kinds=TrustedText(found.names), why=TrustedText(found.why),
            )  # fmt: skip


def _count(subject: LintContext, number: int) -> int:
    index = subject.file.index
    return sum(index.tensor(i).type == number for i in range(index.tensors))


_NOT_WEIGHTS: Final = {BY_NAME[name].number: name for name in types.NOT_WEIGHTS}
#: The matrix of integers that a model has: the experts of each token, which are looked up, never multiplied.
_LOOKED_UP: Final = b".ffn_gate_tid2eid.weight"


def with_other_numbers(subject: LintContext) -> bool:
    """files with Q8_1, Q8_K, I8, I16, I32, I64 or F64 tensors"""
    return not subject.type_numbers.isdisjoint(_NOT_WEIGHTS)


@rule("G415", "not-a-weight-type", "{name} is a matrix of {got}{more}: llama.cpp has no product with matrices of this type, "
      "and ends at the first token", clause="2.6",
      when=with_other_numbers, provenance=("llama.cpp ggml-cpu.c, type_traits_cpu",))  # fmt: skip
def not_a_weight_type(subject: LintContext) -> Iterator[Finding]:
    """A matrix of weights has a type that weights cannot have.

    Why: Q8_1 and Q8_K are types of activations in memory, and ggml multiplies by no matrix of integers or F64. llama.cpp
    v0.5.0 loads a llama file with such a matrix and is killed at the first token, whether the matrix is an embedding or
    a projection; asked to check tensors (--check-tensors), it refuses Q8_1. One finding covers all tensors of a type.

    Example: blk.0.ffn_down.weight of type F64, from a checkpoint that was converted as it was.

    Fix: convert the checkpoint again, to F16, BF16 or F32, and quantize that.
    """
    index, found = subject.file.index, dict[int, list[int]]()
    for i in range(index.tensors):
        info = index.tensor(i)
        is_weight = info.name.endswith(b".weight") and not info.name.endswith(_LOOKED_UP)
        if info.type in _NOT_WEIGHTS and is_weight and prod(info.ne[1:]) > 1:
            found.setdefault(info.type, []).append(i)
    for number, rows in found.items():
        more = f", as are {len(rows) - 1:,} more" if len(rows) > 1 else ""
        yield not_a_weight_type.at(
            subject.info_span(rows[0], "type"), got=TrustedText(_NOT_WEIGHTS[number]), name=index.tensor(rows[0]).name,
            more=TrustedText(more),
        )  # fmt: skip


def _stop(subject: LintContext) -> TrustedText:
    """Return the error of a loader that assumes groups of 64, at the first tensor whose offset then differs."""
    index, step = subject.file.index, subject.effective_alignment
    expected = 0
    for i in range(index.tensors):
        info = index.tensor(i)
        ne, offset = info.ne, info.offset
        kind = next((kind for kind in READINGS.get(info.type, ()) if kind.family == "ggml"), None)
        if offset != expected:
            return TrustedText(f"stop at tensor {quote(info.name, 64)}, which has offset {offset}, expected {expected}")
        if kind is None or not ne or ne[0] % kind.block:
            break
        expected += padded(kind.nbytes(ne), step)
    return TrustedText("read past their end")


# --- unusual sizes and counts ----------------------------------------------------------------------------------------
# They are legal, but bounded here and worth a finding.

raised(
    faults.TOO_MANY_KEYS,
    """The file has more key-values than any reader should accept.

    Why: the key-values exist, but no model needs so many, and readers that take quadratic time never finish. i2s stops
    at 1,048,576.

    Example: 2,000,000 keys in a file of 30 MB.

    Fix: put lists into arrays.
    """,
    clause="12.2",
    cwe=770,
)

raised(
    faults.TOO_MANY_TENSORS,
    """The file has more tensors than any reader should accept.

    Why: the tensors exist, but no model needs so many, and readers that take quadratic time never finish. i2s stops at
    1,048,576.

    Example: 2,000,000 tensors of one element each.

    Fix: join tensors.
    """,
    clause="12.2",
    cwe=770,
)

raised(
    faults.ALIGNMENT_TOO_LARGE,
    """general.alignment is larger than 1 MiB.

    Why: the padding grows with the alignment, sums of padded sizes can overflow, and the data section of a tiny file
    begins gigabytes after its header.

    Example: general.alignment = 2^31.

    Fix: lay the tensors out again with an alignment of 32.
    """,
    clause="12.2",
    provenance=("ggml-org/llama.cpp#24759",),
    cwe=190,
)


@rule("S103", "many-keys", "the file has {got:key-value}; more than {want} is unusual", severity=WARNING, clause="12.2",
      cwe=407)  # fmt: skip
def many_keys(subject: LintContext) -> Iterator[Finding]:
    """The file has an unusual number of key-values.

    Why: readers that compare keys pair by pair to find duplicates take minutes or hours: for 200,000 keys in 4 MB,
    common readers need more than a minute.

    Example: 200,000 keys.

    Fix: put lists into arrays.
    """
    count = subject.file.index.key_count or 0
    if limits.MANY_KEYS < count <= limits.MAX_KEYS:
        yield many_keys.at(KEY_COUNT_SPAN, got=count, want=limits.MANY_KEYS)


@rule("S104", "many-tensors", "the file has {got:tensor}; more than {want} is unusual", severity=WARNING, clause="12.2",
      cwe=407)  # fmt: skip
def many_tensors(subject: LintContext) -> Iterator[Finding]:
    """The file has an unusual number of tensors.

    Why: readers that compare names pair by pair to find duplicates take minutes or hours: for 100,000 tensors in 4 MB,
    common readers need more than a minute.

    Example: 100,000 tensors of one element.

    Fix: join tensors.
    """
    count = subject.file.index.tensor_count or 0
    if limits.MANY_TENSORS < count <= limits.MAX_TENSORS:
        yield many_tensors.at(TENSOR_COUNT_SPAN, got=count, want=limits.MANY_TENSORS)


@rule("S105", "large-alignment", "general.alignment is {got}; more than {want} is unusual", severity=WARNING,
      clause="12.2", fix=Fix.UNSAFE)  # fmt: skip
def large_alignment(subject: LintContext) -> Iterator[Finding]:
    """general.alignment is unusually large.

    Why: 32 is enough for every processor, and memory pages have 4 KiB to 64 KiB. A larger alignment only adds padding,
    in which data can be hidden.

    Example: general.alignment = 262,144.

    Fix: lay the tensors out again with an alignment of 32.
    """
    i, alignment = subject.file.index.alignment_key, subject.file.alignment
    if i is not None and alignment is not None and alignment > limits.USUAL_ALIGNMENT:
        span = subject.file.index.key(i).value_span
        yield large_alignment.at(span, got=alignment, want=limits.USUAL_ALIGNMENT)
