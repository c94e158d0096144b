"""The table of the page on exports, from what `python tests/peers exports` found; the annexes with shaders and kernels."""

from __future__ import annotations

import datetime
import json
from typing import Final

from i2s_site import decoders
from i2s_site.checkout import root
from i2s_site.runtimes import table
from i2s_spec.exports import cuda, wgsl

_ANNEX: Final = """\
# {title}

This annex is normative. It says in {language} what the clauses say that its comments cite; where both differ, the clauses
apply. `i2s schema --format {form}` writes it from the declarations of
[5.3](../05-payload.md#53-blocks-remainders-and-row-boundaries) to
[5.6](../05-payload.md#56-types-with-a-scale-for-each-group); [its page](../exports.md#{anchor}) says on what it was run.

```{form}
{text}```
"""


def shaders_page() -> str:
    """Return the annex with the shaders."""
    return _ANNEX.format(title="Compute shaders", language="WGSL", form="wgsl", anchor="wgsl", text=wgsl.text())


def kernels_page() -> str:
    """Return the annex with the kernels."""
    return _ANNEX.format(title="CUDA kernels", language="CUDA C", form="cuda", anchor="cuda-c", text=cuda.text())


def read_by() -> str:
    """Return a row for each language and tool that read the files."""
    run = {each.id: each for each in decoders.runs()}
    shaders, kernels = run["wgsl-from-the-schema"], run["cuda-from-the-schema"]
    rows = json.loads((root() / "tests" / "peers" / "exports.json").read_text(encoding="utf-8"))["rows"]
    return table(
        ["export", "read in", "with", "sound files, each field equal", "malformed files that end in an error", "run"],
        [
            [
                row["export"],
                row["title"],
                row["version"],
                " of ".join(map(str, row["sound"])),
                " of ".join(map(str, row["malformed"])),
                "in CI" if row["in_ci"] else _date(row["date"]),
            ]
            for row in rows
        ]
        + [
            ["WGSL", "wgpu", shaders.version, _vectors(shaders), "", "in CI"],
            ["CUDA C", "emulation on a processor, no GPU", kernels.version, _vectors(kernels), "", "in CI"],
        ],
    )


def schemas() -> dict[str, str]:
    """Return the JSON Schemas of the package by their places on the site."""
    package = root() / "i2s_spec"
    return {f"schemas/{path.name}": path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.schema.json"))}


def schema_list() -> str:
    """Return a row for each JSON Schema: the document that it describes."""
    titles = {name: json.loads(text) for name, text in schemas().items()}
    return table(["schema", "describes"], [[f"[{name[8:]}]({name})", each["title"]] for name, each in titles.items()])


def _vectors(run: decoders.Run) -> str:
    right, asked = (sum(each[i] for each in run.operations.values()) for i in (0, 1))
    return f"{right} of {asked} vectors"


def _date(text: str) -> str:
    date = datetime.date.fromisoformat(text)
    return f"by hand, {date.day} {date:%B %Y}"
