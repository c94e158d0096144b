"""This module repairs bytes that nobody reads, or that all read alike: padding, booleans, ends of files, tails."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.convert.edits import Edit, zeros
from i2s_spec.convert.endian import swapped_tail
from i2s_spec.errors import Span, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.source import chunks
from i2s_spec.linter.repair.bench import Bench
from i2s_spec.linter.repair.declaration import Action, Declined, Outcome, repair
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules.extent import foreign_scales
from i2s_spec.schema.types import I2_S, TAIL_BYTES

#: An array with more bytes that are neither 0 nor 1 is left alone.
MOST_BOOLEANS = 1 << 16


@repair("G406", Fix.SAFE, "padding becomes zeros")
def zero_padding(bench: Bench) -> Iterator[Outcome]:
    """No reader looks at padding, and the GGUF document says what it is (clause 2.7).

    Where the alignment is disputed, so is what is padding: it may be weights, and is looked at again afterwards.
    """
    disputed = next((code for code in ("G217", "G218", "G219", "G222") if any(bench.findings(code))), None)
    for finding in bench.findings("G406"):
        start, stop, _ = finding.span
        if disputed is not None:
            yield Declined("G406", finding.span, f"where the tensors begin is disputed ({disputed}): it may be weights")
            continue
        edit = Edit(finding.span, zeros(stop - start))
        yield Action("G406", finding.span, f"{stop - start:,} bytes of padding become zeros", (edit,), safe=True)


@repair("G215", Fix.SAFE, "booleans become 1")
def plain_booleans(bench: Bench) -> Iterator[Outcome]:
    """Every loader takes any byte but 0 for true (clause 2.5)."""
    for finding in bench.findings("G215"):
        entry = bench.entry(finding)
        start, stop, path = entry.value_span
        edits: list[Edit] = []
        odd = 0
        for part in chunks(bench.source, start, stop):
            odd += len(part) - part.count(0) - part.count(1)
            if odd > MOST_BOOLEANS:
                yield Declined(
                    "G215", finding.span, f"more than {MOST_BOOLEANS:,} bytes are no booleans: it is no array of them"
                )
                break
            if part.strip(b"\0\1"):
                edits += (Edit(Span(start + i, start + i + 1, path), b"\1") for i, byte in enumerate(part) if byte > 1)
            start += len(part)
        else:
            what = "a boolean becomes" if len(edits) == 1 else f"{len(edits):,} booleans become"
            yield Action("G215", finding.span, f"{what} 1 in key {quote(entry.name)}", tuple(edits), safe=True)


@repair("G408", Fix.SAFE, "the last tensor is padded")
def padded_end(bench: Bench) -> Iterator[Outcome]:
    """What is added belongs to no tensor, and a loader that reads the whole data section asks for it (clause 2.7)."""
    for finding in bench.findings("G408"):
        size = bench.source.size
        edit = Edit(Span(size, size, "padding"), zeros(finding.got))
        yield Action("G408", finding.span, f"{finding.got:,} zero bytes are appended", (edit,), safe=True)


@repair("G407", Fix.UNSAFE, "the file is cut behind the last tensor; safe where only zeros go")
def cut_end(bench: Bench) -> Iterator[Outcome]:
    """Bytes behind the last tensor are in none (clause 2.7). Whoever attached others than zeros may miss them."""
    for finding in bench.findings("G407"):
        start, stop, _ = finding.span
        zeros = _scanner.first_nonzero(bench.source, start, stop) < 0
        does = f"{stop - start:,} {'zero ' if zeros else ''}bytes behind the last tensor are cut off"
        yield Action("G407", finding.span, does, (Edit(finding.span, b""),), safe=zeros)


@repair("I301", Fix.UNSAFE, "scales are swapped into the byte order of the file", weights=True)
def swapped_scales(bench: Bench) -> Iterator[Outcome]:
    """Changes what the weights are, so it is never done unasked (clause 6.1)."""
    for finding in bench.findings("I301"):
        edits = []
        base = bench.file.data_start or 0
        for placement in foreign_scales(bench.subject)[0]:
            start = base + placement.end - TAIL_BYTES
            tail = bench.source.read(start, TAIL_BYTES)
            turned = swapped_tail(tail)
            stop = TAIL_BYTES if turned[4:] != tail[4:] else 4
            edits.append(Edit(Span(start, start + stop, f"data[{placement.row}].tail.scale"), turned[:stop]))
        does = f"the scales of {len(edits):,} tensors are swapped: the weights change"
        yield Action("I301", finding.span, does, tuple(edits), safe=False)


@repair("I310", Fix.SAFE, "stale bytes behind scales become zeros, with --scrub-tail")
def scrubbed_tails(bench: Bench) -> Iterator[Outcome]:
    """No reader looks at them (clause 6.1). Only on request: they also say which program wrote the file."""
    yield from _scrubbed(bench, "I310")


@repair("I311", Fix.SAFE, "bytes of other tensors behind scales become zeros, with --scrub-tail")
def scrubbed_copies(bench: Bench) -> Iterator[Outcome]:
    """No reader looks at them (clause 6.1). Only on request: they also say which program wrote the file."""
    yield from _scrubbed(bench, "I311")


def _scrubbed(bench: Bench, code: str) -> Iterator[Outcome]:
    edits = list(_stale(bench)) if bench.wishes.scrub_tail else []
    partial = next(iter(bench.findings("I102")), None) if edits else None
    for finding in bench.findings(code) if edits else ():  # the rule reads all payloads, so only where it matters
        if partial is not None:
            why = (
                f"tensor {quote(partial.details['name'])} ends inside a block: its last weights are read from its tail"
            )
            yield Declined(code, finding.span, why)
            continue
        does = f"the 28 bytes behind the scales of {len(edits):,} tensors become zeros"
        yield Action(code, finding.span, does, tuple(edits), safe=True)


def _stale(bench: Bench) -> Iterator[Edit]:
    for tensor in bench.file.tensors.rows if bench.file.data_start is not None else ():
        if tensor.type is not I2_S or tensor.span.stop > bench.source.size:
            continue
        start, stop, path = tensor.tail_span
        tail = tensor.tail
        if any(tail[4:]) and tail[4:] != 7 * tail[:4]:  # the scale eight times over is no leftover
            yield Edit(Span(start + 4, stop, f"{path}.unused"), zeros(TAIL_BYTES - 4))
