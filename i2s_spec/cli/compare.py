"""`i2s diff` and `i2s hash`: what differs between two files, by meaning, and what identifies one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.options import (
    INPUT,
    OUTPUT,
    form_option,
    reading,
    remote_options,
    shown,
    threads_option,
    usage_errors,
    write_answer,
    writing,
)
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import EXIT_FINDINGS, FormatError, RecordError, counted
from i2s_spec.gguf.source import is_address

if TYPE_CHECKING:
    from i2s_spec.compare.diff import Difference, OtherDialect
    from i2s_spec.compare.hash import Identity
    from i2s_spec.compare.lineage import Fingerprint, Total


@click.command(
    "diff",
    epilog="Example:  i2s new a.gguf && i2s new b.gguf --seed 1 && i2s diff a.gguf b.gguf",
    short_help="Compare two files by meaning.",
)
@click.argument("a", type=INPUT)
@click.argument("b", type=INPUT)
@click.option(
    "--dialect-a", default="canonical", show_default=True, metavar="DIALECT", help="How A's I2_S tensors are packed."
)
@click.option(
    "--dialect-b", default="canonical", show_default=True, metavar="DIALECT", help="How B's I2_S tensors are packed."
)
@click.option(
    "--lineage", is_flag=True, help="Of a base model A and its fine-tune B: changed trits by layer, all-zero rows."
)
@click.option("--all", "everything", is_flag=True, help="List every tensor, even if many differ in the same way.")
@form_option(
    ["text", "json", "html"], help="html draws the changed trits by layer and tensor.", schema="diff.schema.json"
)
@click.option("-o", "--output", type=OUTPUT, metavar="FILE", help="Write the answer to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@threads_option()
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code shows the result.")
@remote_options
def diff_command(
    a: str,
    b: str,
    dialect_a: str,
    dialect_b: str,
    lineage: bool,
    everything: bool,
    form: str,
    output: str | None,
    force: bool,
    threads: int,
    quiet: bool,
) -> int:
    """Compare the GGUF files A and B by meaning: keys, inventory, trits, scales, data of other tensors.

    Order, padding, alignment, byte order, dialect and the meaningless bytes of a tail do not count as differences; they
    are listed last. If many tensors differ in the same way, the first five are listed and the others counted; --all and
    --json list every tensor. With --lineage a table says how many trits of each layer changed from A to B: where that
    is 0.0 %, a fine-tune was lost. Rows that are all zero in a base model stay so in its fine-tunes.

    Exit code: 0 if the files mean the same, 1 if not.
    """
    from i2s_spec.compare.diff import diff, other_dialect
    from i2s_spec.gguf.reader import open as open_file

    output = None if output == "-" else output
    with (
        usage_errors(ValueError),
        reading(None, form == "json"),
        open_file(a) as one,
        open_file(b) as other,
        progress_bar("comparing", quiet) as progress,
    ):
        found = diff(one, other, dialect_a, dialect_b, threads=threads, progress=progress)
        packed = None
        if not quiet and form == "text":
            packed = other_dialect(one, other, found, dialect_a, dialect_b, threads)
    if output is not None or not quiet or form != "text":
        write_answer(_answer(found, a, b, form, lineage, everything, packed), output, force)
    return 0 if found.same else EXIT_FINDINGS


def _answer(
    found: Difference, a: str, b: str, form: str, lineage: bool, everything: bool, packed: OtherDialect | None
) -> Iterator[str]:
    from i2s_spec.cli.verbs import command_line
    from i2s_spec.compare.diff_text import document, lines
    from i2s_spec.compare.lineage import lineage_lines, lineage_page

    if form == "json":
        yield from json_document(document(found, a, b))
    elif form == "html":
        typed = command_line(click.get_current_context())
        yield lineage_page(found.lineage, list(lines(found, everything)), a, b, typed)
    else:
        yield from (
            f"{line}\n" for line in (*(lineage_lines(found.lineage) if lineage else ()), *lines(found, everything))
        )
        if packed is not None:
            yield from _advice(packed, a, b)


def _advice(packed: OtherDialect, a: str, b: str) -> Iterator[str]:
    """Yield what one of the files must be packed as for the weights to be the same, and what to type."""
    from i2s_spec.linter.report_data import on_command_line

    name, path = ("A", a) if packed.side == "a" else ("B", b)
    one, other, odd = (on_command_line(shown(each)) for each in (a, b, path))
    what = (
        "the trits of all tensors are equal"
        if packed.left == 0
        else f"{counted(packed.left, 'tensor differs', 'tensors differ')} in trits"
    )
    yield f"if {name} is {packed.dialect}, {what}: i2s diff {one} {other} --dialect-{packed.side} {packed.dialect}\n"
    yield f"next: i2s convert {odd} OUT.gguf --from {packed.dialect} --to canonical\n"


# --- hash ------------------------------------------------------------------------------------------------------------
# Identities of a file, of its metadata, and of its weights whatever their layout.

SCHEMA_VERSION = 1


@click.command(
    "hash",
    epilog="Example:  i2s new tiny.gguf && i2s hash tiny.gguf --tensors",
    short_help="Print digests of file, metadata and weights.",
)
@click.argument("files", nargs=-1, metavar="FILE...", type=INPUT)
@click.option(
    "--write", "target", type=OUTPUT, metavar="LIST", help="Also write the digests to a file that sha256sum -c reads."
)
@click.option(
    "--check", "listed", type=INPUT, metavar="LIST", help="Compare files with such a list, also of sha256sum."
)
@click.option("--force", is_flag=True, help="Overwrite LIST if it exists.")
@click.option(
    "--dialect",
    default="canonical",
    show_default=True,
    metavar="DIALECT",
    help="How the files' I2_S tensors are packed.",
)
@click.option("--tensors", "each", is_flag=True, help="Print the digest of every tensor, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every tensor.")
@click.option("--lineage", is_flag=True, help="Print the all-zero rows, too: a fine-tune keeps those of its base.")
@click.option(
    "--base",
    type=INPUT,
    help="Compare all-zero rows with those of a base model, a file that --lineage --json printed.",
)
@threads_option()
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar.")
@remote_options
def hash_command(
    files: tuple[str, ...],
    target: str | None,
    listed: str | None,
    force: bool,
    dialect: str,
    each: bool,
    as_json: bool,
    lineage: bool,
    base: str | None,
    threads: int,
    quiet: bool,
) -> int:
    """Print the SHA-256 of GGUF files, of their metadata, and of their weights.

    With several files it also says which of them have the same weights; --json then prints a list named files.

    Two files have the same metadata where keys, types and values are the same, in any order and byte order. They
    have the same weights where tensors of the same names and shapes hold the same trits and scales, or the same data:
    layout, tail bytes, padding, order, byte order and metadata do not count, and a float matrix that is exactly ternary
    equals the I2_S tensor with its scale.

    With --lineage the all-zero rows of ternary tensors are listed, too. Training switches channels off, and a fine-tune
    keeps them off, so these rows are a fingerprint of the family: store it with --json, and compare a later file with
    it by --base.

    FILE may be a folder: every *.gguf file below it. The first part of a split model, with the others beside it, stands
    for the model: metadata and weights are those of the same model in one file. A later part is hashed alone.

    --write also writes a list for sha256sum -c, in whose comments are the digests of the weights; --check compares files
    with a list, of this form or of sha256sum. Of a file with other bytes it says whether the weights are the same.

    The module i2s_spec.compare.hash says exactly what is hashed, so that other programs can compute the same.

    Exit code of --check: 0 if all files agree, 1 if not.
    """
    if listed is not None:
        if files or target is not None or lineage or base is not None or each:
            raise click.UsageError("--check takes the files from its list, and only --json, --threads and --quiet")
        return _check(listed, threads, as_json, quiet)
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    if target is not None and any(map(is_address, files)):
        raise click.UsageError("--write lists files of this machine; a list cannot name an address")
    known = None if base is None else _read_base(base)
    lineage = lineage or known is not None
    files = tuple(_models(files))
    several, lines = len(files) > 1, list[str]()
    documents: list[dict[str, Any]] = []
    same: dict[str, list[str]] = {}
    for file in files:
        found, part = _identity(file, dialect, threads, lineage, as_json, quiet)
        same.setdefault(found.weights, []).append(file)
        lines += _checksums(file, dialect, found)
        shared = None if known is None else _shared(known, found)
        if as_json:
            documents.append(_document(file, dialect, found, lineage, shared, part))
            continue
        if several:
            click.echo(shown(file))
        for line in _lines(file, found, lineage, shared, each, part):
            click.echo(f"  {line}" if several else line)
    if as_json:
        whole = {"schema_version": SCHEMA_VERSION, "files": documents} if several else documents[0]
        sys.stdout.writelines(json_document(whole))
    else:
        for names in same.values():
            if len(names) > 1:
                click.echo(f"the same weights: {', '.join(shown(name) for name in names)}")
    if target is not None:
        from i2s_spec.gguf.atomic_file import OutputFile

        with writing(target), OutputFile(target, force=force) as output:
            output.write(b"".join(os.fsencode(line) + b"\n" for line in lines))
    return 0


def _checksums(file: str, dialect: str, found: Identity) -> Iterator[str]:
    """Yield the lines of a list on one file, or on all parts of a split model."""
    from i2s_spec.compare.checksums import line, weights_line

    for name, digest in zip(_names_of_parts(file, found) or [file], found.parts or [found.file], strict=True):
        yield line(digest, name)
    yield weights_line(found.weights, dialect, file)


def _check(path: str, threads: int, as_json: bool, quiet: bool) -> int:
    """Compare files with a list of checksums, and say of each what was found."""
    from i2s_spec.compare import checksums
    from i2s_spec.compare.hash import hash as identity_of
    from i2s_spec.gguf.source import FileSource, read_regular

    def weights(name: str, dialect: str) -> str | None:
        source = FileSource(name)
        try:
            return identity_of(source, dialect, threads=threads).weights
        except ValueError:  # no GGUF file, or not packed so
            return None
        finally:
            source.close()

    try:
        listed = checksums.read(read_regular(path, checksums.LARGEST))
    except ValueError as error:
        raise RecordError(f"{shown(path)} is no list of checksums: {error}") from None
    found: list[checksums.CheckedFile] = []
    with progress_bar("hashing", quiet) as progress:
        for each in checksums.check(listed, weights, progress):
            found.append(each)
            if not as_json and not (quiet and each.same):
                click.echo(f"{shown(each.name)}: {checksums.words(each)}")
    wrong = not all(each.same for each in found)
    if as_json:
        rows = [{**each._asdict(), "name": json_string(each.name)} for each in found]
        sys.stdout.writelines(json_document({"schema_version": SCHEMA_VERSION, "files": rows}))
    elif wrong:
        click.echo(f"i2s: {checksums.summary(found)}", err=True)
    return EXIT_FINDINGS if wrong else 0


def _models(files: Iterable[str]) -> Iterator[str]:
    """Yield the files that are hashed: those of a folder, without later parts of split models whose first part is
    there.

    :raises click.UsageError: for a folder without any
    """
    from i2s_spec.gguf.split_set import part_name
    from i2s_spec.linter.paths import inputs

    for file in files:
        if is_address(file) or not os.path.isdir(file):
            yield file
            continue
        inside = list(inputs([file]))
        for each in inside:
            if isinstance(each.problem, FormatError):  # a link out of the folder, which is not left out in silence
                raise each.problem
        found = [each.path for each in inside if not each.problem and not each.checkpoint]
        if not found:
            raise click.UsageError(f"{shown(file)} is a folder without any *.gguf file")
        for path in found:
            name = part_name(path)
            if name is None or name.number == 0 or name.of(0) not in found:
                yield path


def _identity(
    file: str, dialect: str, threads: int, lineage: bool, as_json: bool, quiet: bool
) -> tuple[Identity, tuple[int, int] | None]:
    """Return what identifies one file, or the split model of which it is the first part; and which part it is, and of
    how many.

    :raises click.UsageError: where the dialect does not fit
    """
    from i2s_spec.compare.hash import hash as identity_of
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.gguf.split_set import split_set

    with (
        usage_errors(ValueError),
        reading(file, as_json),
        open_file(file) as opened,
        progress_bar("hashing", quiet) as progress,
    ):
        whole = split_set(opened)
        part = None if whole is None or whole.number is None else (whole.number + 1, whole.count)
        return identity_of(opened, dialect, threads=threads, progress=progress, lineage=lineage), part


def _lines(
    file: str, found: Identity, lineage: bool, shared: Total | None, each: bool, part: tuple[int, int] | None
) -> Iterator[str]:
    """Yield the lines on one file."""
    of = "" if part is None else f"  of part {part[0]:,} of {part[1]:,} alone"
    if found.parts:
        of = f"  of all {counted(len(found.parts), 'part')}"
        for digest_of_part, name in zip(found.parts, _names_of_parts(file, found), strict=True):
            yield f"file      {digest_of_part}  {shown(name)}"
    else:
        yield f"file      {found.file}"
    yield from (f"metadata  {found.metadata}{of}", f"weights   {found.weights}{of}")
    if lineage:
        from i2s_spec.compare.lineage import digest

        zero = [tensor.zero_rows for tensor in found.tensors if tensor.zero_rows is not None]
        rows_of = f"{sum(int(rows.sum()) for rows in zero):,} of {counted(sum(rows.size for rows in zero), 'row')}"
        yield f"zero rows {digest(found.zero_rows)}  {rows_of} of {counted(len(zero), 'ternary tensor')}"
    if shared is not None:
        yield from _kinship_lines(shared)
    if each:
        for tensor in found.tensors:
            yield f"{tensor.digest}  {tensor.kind:<8} {visible(tensor.name, 200, bare=True)}"


def _names_of_parts(file: str, found: Identity) -> list[str]:
    from i2s_spec.gguf.split_set import part_name

    name = part_name(file)
    return [] if name is None else [name.of(number) for number in range(len(found.parts))]


def _document(
    file: str,
    dialect: str,
    found: Identity,
    lineage: bool,
    shared: Total | None,
    part: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return everything about one file as plain data."""
    from i2s_spec.compare.hash import zero_row_data
    from i2s_spec.compare.lineage import digest

    rows = [
        {
            "name": json_string(each.name), "shape": each.shape, "kind": each.kind, "scale": each.scale,
            "sha256": each.digest, **zero_row_data(each),
        }
        for each in found.tensors
    ]  # fmt: skip
    about = {
        "schema_version": SCHEMA_VERSION, "path": json_string(file), "dialect": dialect, "file": found.file,
        "metadata": found.metadata, "weights": found.weights,
    }  # fmt: skip
    if part is not None:
        about["part"] = {"number": part[0], "of": part[1]}
    if found.parts:
        names = zip(_names_of_parts(file, found), found.parts, strict=True)
        about["parts"] = [{"path": json_string(name), "file": digest_of_part} for name, digest_of_part in names]
    if lineage:
        about["zero_rows"] = digest(found.zero_rows)
    if shared is not None:
        about["base"] = {
            "tensors": shared.tensors, "rows": shared.rows,
            "zero_rows": {"base": shared.zero_a, "file": shared.zero_b, "both": shared.zero_both},
        }  # fmt: skip
    return {**about, "tensors": rows}


def _read_base(path: str) -> Fingerprint:
    """Return the all-zero rows of a base model.

    :raises click.UsageError: for what `--lineage --json` has not printed
    """
    from i2s_spec.compare.hash import MOST_BYTES, read_fingerprint
    from i2s_spec.gguf.source import read_regular

    data = read_regular(path, MOST_BYTES)
    try:
        return read_fingerprint(data)
    except ValueError as error:
        raise click.UsageError(
            f"{visible(path, bare=True)} is not what 'i2s hash --lineage --json' prints: {error}"
        ) from None


def _shared(known: Fingerprint, found: Identity) -> Total:
    from i2s_spec.compare.lineage import kinship

    return kinship(known, found.zero_rows)


def _kinship_lines(shared: Total) -> Iterator[str]:
    from i2s_spec.compare.lineage import family_lines

    if not shared.tensors:
        yield "no ternary tensor has the name and the rows of one of the base"
    elif not shared.zero_a:
        yield "the base has no all-zero rows that could be compared"
    else:
        yield from family_lines(shared, "the base", "this file")
