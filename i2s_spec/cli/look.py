"""`i2s info`: what is installed, and what this machine can do."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from i2s_spec._version import __version__
from i2s_spec.codec import _cpu, isa

#: What is listed with its version, and the extra that brings it, if it is not part of every install.
_LIBRARIES = {"numpy": "", "construct": "", "click": "", "rich": "", "gguf": "gguf", "tokenizers": "tokenizer"}


def describe() -> dict[str, Any]:
    """Versions, processor features and the code paths in use, as plain data."""
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
    """The tables of kernels, each of which chooses for itself."""
    from i2s_spec.codec.blocks import block_native
    from i2s_spec.codec.quantization import float_passes_native
    from i2s_spec.inspect.evidence import bit_sums
    from i2s_spec.inspect.survey import reader
    from i2s_spec.model.arithmetic import reductions
    from i2s_spec.model.fast import fast_operations
    from i2s_spec.model.reference import matmul

    return {
        "codec": isa.kernel_sets(),
        "blocks": block_native.kernel_sets(),
        "floats": float_passes_native.kernel_sets(),
        "survey": reader.kernel_sets(),
        "evidence": bit_sums.kernel_sets(),
        "products": matmul.kernel_sets(),
        "sums": reductions.kernel_sets(),
        "fast": fast_operations.kernel_sets(),
    }


def needs_of_kernels() -> dict[str, list[list[str]]]:
    """The features that each set of each table asks of a processor."""
    from i2s_spec.codec import _codec, _survey
    from i2s_spec.codec.blocks import _blocks
    from i2s_spec.codec.quantization import _floats
    from i2s_spec.inspect.evidence import _bit_sums
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
    """A table of kernels: the set in use, what those that cannot run miss, and why it is not the one that was asked for."""
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
def command(as_json: bool) -> None:
    """Print what is installed and what this machine can do, for bug reports."""
    facts = describe()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    missing = {name: extra for name, extra in _LIBRARIES.items() if facts["libraries"][name] is None}
    features = [name for name, present in facts["processor"].items() if present]
    rows = [
        ("i2s-spec", facts["version"]),
        ("Python", facts["python"]),
        ("Platform", facts["platform"]),
        ("Libraries", ", ".join(f"{name} {v}" for name, v in facts["libraries"].items() if v)),
        ("Not installed", ", ".join(f"{name} (extra [{extra}])" for name, extra in missing.items()) or "nothing"),
        ("Processor", ", ".join(features) or "no instruction set that matters here"),
        *([("Hidden", f"{', '.join(facts['hidden'])} ({isa.HIDE})")] if facts["hidden"] else []),
        ("Built with", facts["compiler"]),
        *((f"Kernels, {name}", _line(table)) for name, table in facts["tables"].items()),
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
