"""`i2s info`: what is installed, and what this machine can do."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from i2s_spec import __version__
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
    return {
        "schema_version": 1,
        "version": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": libraries,
        "processor": _cpu.features(),
        "compiler": _cpu.compiler(),
        "kernels": {each.name: each.available for each in isa.kernel_sets()},
        "kernel": isa.chosen().name,
    }


@click.command("info", epilog="Example:  i2s info --json", short_help="Versions, processor features, kernels in use.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(as_json: bool) -> None:
    """Say what is installed and what this machine can do: put it into bug reports."""
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
        ("Built with", facts["compiler"]),
        ("Kernels", ", ".join(_kernel(name, runs, facts["kernel"]) for name, runs in facts["kernels"].items())),
    ]
    for name, words in rows:
        click.echo(f"{name + ':':<15}{words}")


def _kernel(name: str, runs: bool, used: str) -> str:
    if name == used:
        return f"{name} (in use)"
    return name if runs else f"{name} (not on this processor)"
