"""What a verdict does not cover: parts of a file that no rule examined, in words for people."""

from __future__ import annotations

from typing import Final

from i2s_spec.errors import counted, quote
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.conditions import base_model
from i2s_spec.linter.analysis.context import LintContext, split_set
from i2s_spec.linter.analysis.loader_view import loader_view
from i2s_spec.linter.analysis.payload_stats import examined_types

#: Said of a run that reads only headers.
CONTENTS: Final = "the contents of tensors (only the header was read)"
#: Most types that are named.
_NAMED: Final = 4
_MODEL: Final = "keys, tensors and shapes"


def unchecked(subject: LintContext) -> tuple[str, ...]:
    """Return the parts that no rule examined, in words; empty if everything that there is a rule for was examined.

    Only what follows from the file is said here, not which rules a profile leaves out.
    """
    file = subject.file
    if file.fault is not None:
        return ("what follows the fault in the header",)
    whole = split_set(subject)
    if not file.index.tensors and whole is None:
        return ()  # the verdict says that it is a vocabulary, or holds nothing
    words = (
        _of_model(subject) if whole is None or whole.complete else "",
        whole.unread if whole is not None else "",
        CONTENTS if subject.reading.mode == "none" else _of_contents(subject),
    )
    return tuple(filter(None, words))


def _of_contents(subject: LintContext) -> str:
    """Return the tensors whose contents no rule could examine, in words; a sample says itself what it leaves out."""
    types = examined_types(subject)
    if types is None or subject.reading.mode == "sample":
        return ""
    parts = [f"the contents of tensors of {', '.join(types.unknown[:_NAMED])}"] if types.unknown else []
    parts += [f"the contents of {counted(types.unread, 'tensor')} that cannot be read"] if types.unread else []
    return "; ".join(parts)


def _of_model(subject: LintContext) -> str:
    known, kind = architecture_view(subject), subject.kind
    if kind is not None and not kind.is_model:
        return kind.unjudged(base_model(subject) is not None)
    if not known.name:
        return f"{_MODEL} (the file names no architecture)"
    if known.in_parts:
        return "tensors that the header does not count"
    loader = loader_view(subject)
    if loader is not None:
        open_rows = loader.architecture.unresolved
        return f"{counted(open_rows, 'row')} of the table of {loader.table.loader}" if open_rows else ""
    if known.is_declared:
        return ""
    return f"{_MODEL} (architecture {quote(known.name, 40)} is not known)"
