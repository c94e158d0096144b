"""A file beside what llama.cpp's loader asks of its architecture; nothing of the table is read for other files.

`loader_differences` compares the file with the table; here is when it does, and how severe its findings can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from i2s_spec.errors import TrustedText
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.rule import WARNING, Severity
from i2s_spec.schema import limits

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.loader_differences import LoaderView
    from i2s_spec.schema.llama_cpp import Table


@analysis
def loader_view(subject: LintContext) -> LoaderView | None:
    """Return the file of a subject against the demands on its architecture; None if it is no model, or of an
    architecture that llama.cpp does not have."""
    known = architecture_view(subject)
    if not known.holds_model or known.in_parts or subject.file.index.keys > limits.MANY_KEYS:
        return None
    if known.architecture is not None and known.architecture.one_model:
        return None  # bitnet.cpp's own; the table need not be read
    table = loader_table()
    architecture = table.architecture(known.name)
    if architecture is None:
        return None
    from i2s_spec.linter.analysis.loader_differences import LoaderView

    return LoaderView(known, architecture, table)


def loader_table() -> Table:
    """Return the table of what the loader asks of each architecture; its first reading takes a few milliseconds."""
    from i2s_spec.schema import llama_cpp

    return llama_cpp.table()


def refuses(subject: LintContext) -> TrustedText:
    """Return the loader that refuses a file, as the end of a sentence; empty for architectures that it does not have."""
    loader = loader_view(subject)
    return TrustedText("" if loader is None else f"; {loader.table.loader} refuses the file")


#: Days after which the table is old: loaders change, and what it says is then a warning.
OLD_AFTER: Final = 365


@analysis
def ceiling(subject: LintContext) -> Severity | None:
    """Return the most severe that a finding from the table can be: a warning once the table is a year old."""
    loader = loader_view(subject)
    return WARNING if loader is not None and is_old(loader.table) else None


def is_old(table: Table) -> bool:
    """Whether the table is so old that loaders may have changed."""
    from datetime import date

    return (date.today() - date.fromisoformat(table.date)).days > OLD_AFTER
