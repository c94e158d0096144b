"""The notebook of the tutorials: it runs, the page shows its output, and Jupyter can open the file."""

from __future__ import annotations

import json

import pytest

from i2s_site import notebook
from i2s_site.examples import Drift

TEXT = """# %% [markdown]
# # Title
#
# words

# %%
x = 20
print("<b>")

# %%
class Table:
    def _repr_html_(self) -> str:
        return "<i>a\\n\\nb</i>"
Table()

# %%
x + 1
"""


def test_cells_share_their_names_and_show_their_last_value() -> None:
    markdown, printing, table, number = notebook.run(TEXT)
    assert (markdown.markdown, markdown.text) == (True, "# Title\n\nwords")
    assert (printing.printed, printing.value) == ("<b>\n", "")
    assert table.table == "<i>a\n\nb</i>"
    assert (number.value, number.printed, number.table) == ("21", "", "")
    page = notebook.page((markdown, printing, table, number))
    assert page.startswith("# Title\n\nwords\n\n```python\nx = 20\n")
    assert '<div class="i2s-output"><pre><code>&lt;b&gt;</code></pre></div>' in page
    assert "<i>a\n&#10;\nb</i>" in page


def test_a_cell_that_fails_is_named() -> None:
    with pytest.raises(Drift, match="a cell fails: ZeroDivisionError: division by zero: 1 / 0"):
        notebook.run("# %%\n1 / 0\n")


def test_the_file_is_what_jupyter_opens() -> None:
    text = notebook.as_ipynb()
    document = json.loads(text)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {kind for cell in code for output in cell["outputs"] for kind in output.get("data", {})}
    assert kinds == {"text/plain", "text/html"}
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.reads(text, 4))


def test_the_page_shows_the_verdict() -> None:
    text = notebook.page()
    assert "the gate went through SiLU" in text
    assert "<td>I305</td><td>error</td>" in text
