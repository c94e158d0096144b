"""This module repairs bytes that no reader uses, or that all read alike: padding, booleans, ends of files, tails."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.convert.container.edits import Edit, zeros
from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.byte_order import swapped_tail
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.regular_file import require_written
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules.ternary.i2s_extent import foreign_scales
from i2s_spec.schema.types import I2_S, TAIL_BYTES

#: An array with more bytes that are neither 0 nor 1 is left alone.
MOST_BOOLEANS = 1 << 16


@repair("G406", Fix.SAFE, "padding becomes zeros")
def zero_padding(workspace: Workspace) -> Iterator[Outcome]:
    """No reader uses padding, and the GGUF document says that it is zero (clause 2.7).

    If the alignment is disputed, the padding may be weights; it is checked again after the alignment is repaired.
    """
    disputed = next((code for code in ("G217", "G218", "G219", "G222") if any(workspace.findings(code))), None)
    for finding in workspace.findings("G406"):
        start, stop, _ = finding.span
        if disputed is not None:
            yield Declined(
                "G406", finding.span, f"where tensors begin is disputed ({disputed}): padding may be weights"
            )
            continue
        edit = Edit(finding.span, zeros(stop - start))
        yield Action(
            "G406",
            finding.span,
            counted(stop - start, "byte of padding becomes zero", "bytes of padding become zeros"),
            (edit,),
            safe=True,
        )


@repair("G215", Fix.SAFE, "booleans become 1")
def plain_booleans(workspace: Workspace) -> Iterator[Outcome]:
    """Every loader takes any byte but 0 for true (clause 2.5)."""
    for finding in workspace.findings("G215"):
        entry = workspace.entry(finding)
        start, stop, path = entry.value_span
        edits: list[Edit] = []
        odd = 0
        for part in chunks(workspace.source, start, stop):
            odd += len(part) - part.count(0) - part.count(1)
            if odd > MOST_BOOLEANS:
                yield Declined(
                    "G215",
                    finding.span,
                    f"more than {MOST_BOOLEANS:,} bytes are neither 0 nor 1: it is not an array of booleans",
                )
                break
            if part.strip(b"\0\1"):
                edits += (Edit(Span(start + i, start + i + 1, path), b"\1") for i, byte in enumerate(part) if byte > 1)
            start += len(part)
        else:
            what = "a boolean becomes" if len(edits) == 1 else counted(len(edits), "boolean becomes", "booleans become")
            yield Action("G215", finding.span, f"{what} 1 in key {quote(entry.name)}", tuple(edits), safe=True)


@repair("G408", Fix.SAFE, "the last tensor is padded")
def padded_end(workspace: Workspace) -> Iterator[Outcome]:
    """The added bytes belong to no tensor; a loader that reads the whole data section expects them (clause 2.7)."""
    for finding in workspace.findings("G408"):
        size = workspace.source.size
        edit = Edit(Span(size, size, "padding"), zeros(finding.got))
        yield Action(
            "G408",
            finding.span,
            f"{counted(finding.got, 'zero byte is', 'zero bytes are')} appended",
            (edit,),
            safe=True,
        )


@repair("G407", Fix.UNSAFE, "the file is cut after the last tensor; safe if only zeros are removed")
def cut_end(workspace: Workspace) -> Iterator[Outcome]:
    """Bytes after the last tensor belong to no tensor (clause 2.7). Bytes other than zeros may have been attached on
    purpose."""
    for finding in workspace.findings("G407"):
        start, stop, _ = finding.span
        require_written(workspace.source)
        zeros = _scanner.first_nonzero(workspace.source, start, stop) < 0
        does = f"{stop - start:,} {'zero ' if zeros else ''}bytes after the last tensor are cut off"
        yield Action("G407", finding.span, does, (Edit(finding.span, b""),), safe=zeros)


@repair("I301", Fix.UNSAFE, "scales are swapped into the byte order of the file", weights=True)
def swapped_scales(workspace: Workspace) -> Iterator[Outcome]:
    """Changes the weights, so it is done only on request (clause 6.1)."""
    for finding in workspace.findings("I301"):
        edits = []
        base = workspace.file.data_start or 0
        for placement in foreign_scales(workspace.subject)[0]:
            start = base + placement.end - TAIL_BYTES
            tail = workspace.source.read(start, TAIL_BYTES)
            turned = swapped_tail(tail)
            stop = TAIL_BYTES if turned[4:] != tail[4:] else 4
            edits.append(Edit(Span(start, start + stop, f"data[{placement.row}].tail.scale"), turned[:stop]))
        does = f"the scales of {counted(len(edits), 'tensor')} are swapped: the weights change"
        yield Action("I301", finding.span, does, tuple(edits), safe=False)


@repair("I310", Fix.SAFE, "stale bytes after scales become zeros, with --scrub-tail", option="--scrub-tail")
def scrubbed_tails(workspace: Workspace) -> Iterator[Outcome]:
    """No reader looks at them (clause 6.1). Only on request: they also say which program wrote the file."""
    yield from _scrubbed(workspace, "I310")


@repair("I311", Fix.SAFE, "bytes of other tensors after scales become zeros, with --scrub-tail", option="--scrub-tail")
def scrubbed_copies(workspace: Workspace) -> Iterator[Outcome]:
    """No reader looks at them (clause 6.1). Only on request: they also say which program wrote the file."""
    yield from _scrubbed(workspace, "I311")


def _scrubbed(workspace: Workspace, code: str) -> Iterator[Outcome]:
    edits = _stale(workspace.subject) if workspace.extra.scrub_tail else []
    partial = next(iter(workspace.findings("I102")), None) if edits else None
    for finding in (
        workspace.findings(code) if edits else ()
    ):  # the rule reads all payloads, so it is asked only if needed
        if partial is not None:
            why = (
                f"tensor {quote(partial.details['name'])} ends inside a block: its last weights are read from its tail"
            )
            yield Declined(code, finding.span, why)
            continue
        does = f"the 28 bytes after the scales of {counted(len(edits), 'tensor')} become zeros"
        yield Action(code, finding.span, does, tuple(edits), safe=True)


@analysis
def _stale(subject: Subject) -> list[Edit]:
    """The edits that zero the bytes after scales, for each I2_S tensor that has other bytes there."""
    file, edits = subject.file, []
    for tensor in file.tensors.rows if file.data_start is not None else ():
        if tensor.type is not I2_S or (stop := tensor.span.stop) > file.size:
            continue
        tail = file.source.read(stop - TAIL_BYTES, TAIL_BYTES)
        if any(tail[4:]) and tail[4:] != 7 * tail[:4]:  # the scale, eight times, is intended
            span = Span(stop - TAIL_BYTES + 4, stop, f"{tensor.tail_span.path}.unused")
            edits.append(Edit(span, zeros(TAIL_BYTES - 4)))
    return edits
