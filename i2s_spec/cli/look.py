"""`i2s show`, `i2s dump` and `i2s info`: the content of a file, its bytes, and what is installed here.

`show` has header, keys, tensors and totals on one page.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from i2s_spec._version import __version__
from i2s_spec.cli.model_input import named, origin
from i2s_spec.cli.options import INPUT, OUTPUT, fault_status, form_option, reading, remote_options, shown, write_answer
from i2s_spec.codec import _cpu, isa
from i2s_spec.draw import terminal
from i2s_spec.draw.text import fault_words, json_document
from i2s_spec.errors import EXIT_FINDINGS, FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.inspect.show import ELEMENTS, listed, members, split_members, unreadable
from i2s_spec.inspect.show_text import page, plots
from i2s_spec.schema import faults

#: Of more than a thousand keys (or tensors), the text shows this many first and last ones.
ENDS = (900, 100)


@click.command(
    "show",
    epilog="Example:  i2s new tiny.gguf && i2s show tiny.gguf",
    short_help="Show header, keys, tensors and totals of a file.",
)
@click.argument("file", type=INPUT, required=False)
@form_option(
    ["text", "json", "record", "cyclonedx"],
    help="json has every key and tensor; record is what `i2s lint --expect` compares headers with; cyclonedx is a bill of "
    "materials.",
    schema="show.schema.json",
)
@click.option("--all", "everything", is_flag=True, help="Every key and tensor; in JSON, every element of every value.")
@click.option("--no-tensors", is_flag=True, help="Leave out the tensor table; totals are still shown.")
@click.option(
    "--context",
    type=click.IntRange(1, 1 << 31),
    metavar="N",
    help="Add how much memory the model takes in llama.cpp with a context of N tokens.",
)
@click.option("--kv", type=click.Choice(["f16", "q8_0"]), help="With --context: type of the cache. [default: f16]")
@click.option(
    "-o", "--output", type=OUTPUT, metavar="FILE", help="With --format record or cyclonedx: write it to FILE."
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--plot", is_flag=True, help="Draw scales by layer and shares of codes instead, in blocks or ASCII.")
@remote_options
def show_command(
    file: str | None,
    form: str,
    everything: bool,
    no_tensors: bool,
    context: int | None,
    kv: str | None,
    output: str | None,
    force: bool,
    plot: bool,
) -> int:
    """Show the content of a GGUF file: header, keys, tensors, totals by type.

    Shapes are in NumPy's order (rows x columns); GGUF's own order, `ne`, is the reverse. Offsets count from the start
    of the file. The scale is the float32 at the start of an I2_S tensor's tail. Without FILE it uses the trained model
    that comes with i2s-spec. FILE may be an address (hf://ORG/REPO/PATH, https://, s3://): header and scales are
    fetched. From a server that gives one range at a time, only some scales are fetched: --remote-limit sample=N sets
    how much. The first part of a split model, with the others beside it, is shown with the tensors of all parts.

    Exit code: 0; 1 if a fault stops the reading (the part before it is shown); 3 if FILE is not a GGUF file; 5 if its
    server does not give it.
    """
    if kv is not None and context is None:
        raise click.UsageError("--kv needs --context N, the tokens that the cache has room for")
    more = everything or no_tensors or context is not None
    if plot and (more or form != "text"):
        raise click.UsageError("--plot draws scales and codes, and takes no other option of show")
    if form in _DOCUMENTS:
        if more:
            raise click.UsageError(f"--format {form} takes no other option of show")
        return _document(file, form, output, force)
    if output is not None:
        raise click.UsageError("-o FILE needs --format record or --format cyclonedx")
    as_json = form == "json"
    try:
        opened = File(source_of(origin(file)))
    except FormatError as error:
        return _finish(unreadable(named(file), error), error, as_json, named(file))
    with opened:
        opened.warn()
        if plot:
            _plot(opened)
            return _exit_code(opened.fault, named(file))
        if as_json:
            about = members(opened, None if everything else ELEMENTS)
        else:
            about = members(opened, ELEMENTS, None if everything else ENDS)
        if no_tensors:
            about["tensors"] = []
        if opened.fault is None and (
            split := split_members(opened, None if everything or as_json else ENDS, not no_tensors)
        ):
            about["split"] = split
        if context is not None and opened.fault is None:
            about["memory"] = _memory(opened, context, kv or "f16")
        if not as_json:
            about = listed(about)
        return _finish(about, opened.fault, as_json, named(file))


def _document(file: str | None, form: str, output: str | None, force: bool) -> int:
    """Write a document on one file whose header can be read, or print it."""
    from i2s_spec.gguf.reader import open as open_file

    with reading(named(file)), open_file(origin(file)) as opened:
        write_answer(json_document(_DOCUMENTS[form](opened)), output, force)
    return 0


def _record(file: File) -> dict[str, Any]:
    from i2s_spec.compare.header_record import header_record

    return header_record(file)


def _bill_of_materials(file: File) -> dict[str, Any]:
    from i2s_spec.compare.cyclonedx import bill_of_materials

    return bill_of_materials(file)


#: The documents besides show's own.
_DOCUMENTS: Final[Mapping[str, Callable[[File], dict[str, Any]]]] = {"record": _record, "cyclonedx": _bill_of_materials}


def _finish(about: dict[str, Any], fault: FormatError | None, as_json: bool, name: str) -> int:
    if as_json:
        sys.stdout.writelines(json_document(about))
    else:
        terminal.write(page(about, terminal.columns(sys.stdout)), sys.stdout)
    return _exit_code(fault, name)


def _memory(file: File, context: int, kv: str) -> dict[str, Any]:
    """Return the sizes that `memory` gives, and where the weights lie on a GPU."""
    from i2s_spec.inspect.memory import all_tensors, memory
    from i2s_spec.linter.runtimes.devices import weight_places

    found = memory(file, context, kv)
    places = None if found.weights is None else weight_places(file, all_tensors(file))
    return {**found.as_dict(), "cuda": None if places is None else places._asdict()}


def _plot(file: File) -> None:
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    terminal.write(plots(file, terminal.columns(sys.stdout), blocks=encoding.startswith("utf")), sys.stdout)


def _exit_code(fault: FormatError | None, name: str) -> int:
    """Return what the command exits with; a fault that stopped the reading is printed."""
    return 0 if fault is None else fault_status(fault, name)


# --- dump ------------------------------------------------------------------------------------------------------------
# The bytes of a file on the left, what they mean on the right.

#: A terminal that is narrower than this gets eight bytes in a line.
WIDE = 132


@click.command(
    "dump",
    epilog="Example:  i2s new tiny.gguf && i2s dump tiny.gguf blk.0.attn_q.weight",
    short_help="Show a file or a part of it as hex, ASCII and tree.",
)
@click.argument("file", type=INPUT)
@click.argument("what", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of array elements and of lines of bytes."
)
@click.option("--all", "everything", is_flag=True, help="No limit.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: one document, with a node on each line.")
@click.option(
    "--line-bytes", type=click.Choice(["8", "16", "32"]), help="Bytes per line; 16, or 8 on a narrow terminal."
)
@remote_options
def dump_command(
    file: str, what: str | None, limit: int | None, everything: bool, as_json: bool, line_bytes: str | None
) -> int:
    """Dump a GGUF file, or one part of it, as hex, ASCII and tree.

    WHAT is a byte range (0x1000..0x1040, 0x1000+64, 4096:64), an address, the name of a key or of a tensor, or a path of
    the tree (header, key_values[3].value, data[2].tail). Without it the whole structure is shown, arrays and data
    elided. Codes of an I2_S payload are shown with their bits, trits and elements in the canonical layout, those of types
    with a scale for each group (Q2_0, PTQ1_0, TQ2_0 ...) with their weights and elements, block by block.

    Exit code: 0; 1 if a fault stops the reading (the part before it is shown); 3 if FILE is not a GGUF file.
    """
    from i2s_spec.inspect.dump import Unknown, document, lines, target

    name = shown(file)
    try:
        opened = File(source_of(file))
    except FormatError as error:
        click.echo(f"i2s: {name}: {fault_words(error)}", err=True)
        return faults.exit_code_of(error.code)
    with opened:
        opened.warn()
        try:
            wanted = target(opened, what, limit, everything)
        except Unknown as error:
            raise click.UsageError(str(error)) from error
        if as_json:
            sys.stdout.writelines(json_document(document(opened, wanted)))
        else:
            columns = terminal.columns(sys.stdout)
            width = int(line_bytes) if line_bytes else 8 if columns is not None and columns < WIDE else 16
            terminal.write(lines(opened, wanted, width, columns), sys.stdout)
        if opened.fault is None:
            return 0
        sys.stdout.flush()
        click.echo(f"i2s: {name}: {fault_words(opened.fault)}", err=True)
        return faults.exit_code_of(opened.fault.code) if opened.fault.code in faults.NO_INPUT else EXIT_FINDINGS


# --- info ------------------------------------------------------------------------------------------------------------
# What is installed, and what this machine can do.

#: What is listed with its version, and the extra that brings it, if it is not part of every install.
_LIBRARIES = {"numpy": "", "construct": "", "click": "", "rich": "", "gguf": "gguf", "tokenizers": "tokenizer"}


#: What is said of an installation without compiled kernels.
NOT_COMPILED = (
    "none compiled (no C compiler, no headers of Python, or I2S_BUILD=plain, at installation); "
    "definitions in NumPy are used, slower"
)


def describe() -> dict[str, Any]:
    """Return versions, processor features and the code paths in use, as plain data."""
    from importlib.metadata import PackageNotFoundError, version  # imports `email` and `zipfile`

    libraries: dict[str, str | None] = {}
    for name in _LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            libraries[name] = None
    needs = needs_of_kernels()
    tables = {name: _kernels(sets, needs[name]) for name, sets in tables_of_kernels().items()}
    return {
        "schema_version": 1,
        "version": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": libraries,
        "processor": _cpu.features(),
        "hidden": _cpu.hidden(),
        "compiler": _cpu.compiler(),
        "kernels": tables["codec"]["sets"],
        "kernel": tables["codec"]["in_use"],
        "asked": os.environ.get(isa.VARIABLE) or None,
        "tables": tables,
    }


def tables_of_kernels() -> dict[str, tuple[isa.KernelSet, ...]]:
    """Return the tables of kernels, each of which chooses for itself."""
    from i2s_spec.codec import blocks_native, encoding
    from i2s_spec.inspect import survey_reader
    from i2s_spec.layout_inference import profiles
    from i2s_spec.model import fast_operations
    from i2s_spec.model.reference import matmul, reductions

    return {
        "codec": isa.kernel_sets(),
        "blocks": blocks_native.kernel_sets(),
        "floats": encoding.kernel_sets(),
        "survey": survey_reader.kernel_sets(),
        "evidence": profiles.sum_kernel_sets(),
        "products": matmul.kernel_sets(),
        "sums": reductions.kernel_sets(),
        "fast": fast_operations.kernel_sets(),
    }


def needs_of_kernels() -> dict[str, list[list[str]]]:
    """Return the features that each set of each table asks of a processor."""
    from i2s_spec.codec import _blocks, _codec, _floats, _survey
    from i2s_spec.layout_inference import _bit_sums
    from i2s_spec.model import _fast, _matmul, _reduce

    modules = {
        "codec": _codec, "blocks": _blocks, "floats": _floats, "survey": _survey, "evidence": _bit_sums,
        "products": _matmul, "sums": _reduce, "fast": _fast,
    }  # fmt: skip
    features = list(_cpu.features())
    return {
        table: [[name for bit, name in enumerate(features) if needs >> bit & 1] for needs in module.kernel_needs()]
        for table, module in modules.items()
    }


def _kernels(sets: tuple[isa.KernelSet, ...], needs: list[list[str]]) -> dict[str, Any]:
    """Return a table of kernels: the set in use, what those that cannot run miss, and why it is not the one that was
    asked for.
    """
    runs = {each.name: each.available for each in sets}
    used, asked = isa.chosen(sets).name, os.environ.get(isa.VARIABLE) or None
    note = None
    if asked not in (None, used):
        note = f"{isa.VARIABLE} is {asked}, which {'is not in this table' if asked not in runs else 'cannot run here'}"
    has = _cpu.features()
    missing = {
        each.name: [feature for feature in wants if not has[feature]]
        for each, wants in zip(sets, needs, strict=True)
        if not each.available
    }
    return {"in_use": used, "sets": runs, "missing": missing, "note": note}


@click.command(
    "info", epilog="Example:  i2s info --json", short_help="Print versions, processor features, kernels in use."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info_command(as_json: bool) -> None:
    """Print what is installed and what this machine can do, for bug reports."""
    facts = describe()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    tables = facts["tables"]
    missing = {name: extra for name, extra in _LIBRARIES.items() if facts["libraries"][name] is None}
    features = [name for name, present in facts["processor"].items() if present]
    rows = [
        ("i2s-spec", facts["version"]),
        ("Python", facts["python"]),
        ("Platform", facts["platform"]),
        ("Libraries", ", ".join(f"{name} {v}" for name, v in facts["libraries"].items() if v)),
        ("Not installed", ", ".join(f"{name} (extra [{extra}])" for name, extra in missing.items()) or "nothing"),
        *([("Processor", ", ".join(features) or "no instruction set that matters here")] if facts["compiler"] else []),
        *([("Hidden", f"{', '.join(facts['hidden'])} ({isa.HIDE})")] if facts["hidden"] else []),
        *(
            [("Built with", facts["compiler"]), *((f"Kernels, {name}", _line(each)) for name, each in tables.items())]
            if facts["compiler"]
            else [("Kernels", NOT_COMPILED)]
        ),
    ]
    for name, words in rows:
        click.echo(f"{name + ':':<19}{words}")


def _line(table: dict[str, Any]) -> str:
    shown = ", ".join(_kernel(name, table["missing"].get(name), table["in_use"]) for name in table["sets"])
    return shown if table["note"] is None else f"{shown}; {table['note']}"


def _kernel(name: str, missing: list[str] | None, used: str) -> str:
    if name == used:
        return f"{name} (in use)"
    return name if missing is None else f"{name} (needs {', '.join(missing)})"
