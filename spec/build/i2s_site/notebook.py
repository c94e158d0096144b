"""The notebook of the tutorials, run: as a page, and as an .ipynb file, with what it showed.

The source is Python in the percent format, which Jupytext, VS Code and Spyder open as a notebook: `# %%` begins a cell of
code, `# %% [markdown]` one of text, in comments. As in Jupyter the value of a cell's last expression is shown, as HTML where
it has that. Cells run in a folder of their own with the files of the examples; nothing that depends on the machine
belongs in them.
"""

from __future__ import annotations

import ast
import html
import io
import json
import re
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_site.checkout import chapters
from i2s_site.examples import FILES, Drift

#: The source, below `spec/`.
SOURCE: Final = "tutorials/notebook.py"

_CELL: Final = re.compile(r"^# %%(?P<markdown> \[markdown\])? *\n", re.MULTILINE)


class Cell(NamedTuple):
    """A cell: its text (code or Markdown), what it printed, and its value as text and as HTML, "" where there is none."""

    markdown: bool
    text: str
    printed: str = ""
    value: str = ""
    table: str = ""


def cells(source: str) -> list[Cell]:
    """Return the cells of a text in the percent format, before they run."""
    found = list(_CELL.finditer(source))
    stops = [each.start() for each in found[1:]] + [len(source)]
    made = []
    for each, stop in zip(found, stops, strict=True):
        text = source[each.end() : stop].strip("\n")
        if each["markdown"]:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        made.append(Cell(bool(each["markdown"]), text))
    return made


def run(source: str) -> list[Cell]:
    """Return the cells with what they showed.

    :raises Drift: where one fails
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    done = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, make in FILES.items():
            Path(name).write_bytes(make())
        for cell in cells(source):
            try:
                done.append(cell if cell.markdown else _ran(cell, space))
            except Exception as error:
                raise Drift(f"a cell fails: {type(error).__name__}: {error}: {cell.text}") from error
    return done


def _ran(cell: Cell, space: dict[str, Any]) -> Cell:
    tree = ast.parse(cell.text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "notebook", "exec"), space)  # the text is this repository's own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), space)
    shown = getattr(value, "_repr_html_", None)
    return cell._replace(
        printed=printed.getvalue(),
        value="" if value is None else repr(value),
        table=shown() if shown is not None else "",
    )


@cache
def _executed(path: Path) -> tuple[Cell, ...]:
    return tuple(run(path.read_text(encoding="utf-8")))


def page(cells: tuple[Cell, ...] | None = None) -> str:
    """Return the notebook as a page of the site."""
    parts = []
    for cell in _executed(chapters() / SOURCE) if cells is None else cells:
        if cell.markdown:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        if cell.printed:
            parts.append(_output(f"<pre><code>{html.escape(cell.printed.rstrip(), quote=False)}</code></pre>"))
        if cell.value:
            parts.append(_output(cell.table or f"<pre><code>{html.escape(cell.value, quote=False)}</code></pre>"))
    return "\n\n".join(parts) + "\n"


def _output(shown: str) -> str:
    while "\n\n" in shown:  # a blank line would end the HTML for Markdown
        shown = shown.replace("\n\n", "\n&#10;\n")
    return f'<div class="i2s-output">{shown}</div>'


def as_ipynb(cells: tuple[Cell, ...] | None = None) -> str:
    """Return the notebook, executed, in Jupyter's format 4.5."""
    made: list[dict[str, Any]] = []
    count = 0
    for number, cell in enumerate(_executed(chapters() / SOURCE) if cells is None else cells):
        about: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": _lines(cell.text)}
        if cell.markdown:
            made.append({"cell_type": "markdown", **about})
            continue
        count += 1
        outputs: list[dict[str, Any]] = []
        if cell.printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(cell.printed)})
        if cell.value:
            data = {"text/plain": _lines(cell.value), **({"text/html": _lines(cell.table)} if cell.table else {})}
            outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
        made.append({"cell_type": "code", "execution_count": count, **about, "outputs": outputs})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    document = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
