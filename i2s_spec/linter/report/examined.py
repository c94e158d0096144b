"""This module describes the basis of a verdict: what the file is, how many rules were checked, how much was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.text import size_words, visible
from i2s_spec.errors import counted
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.analysis.weight_layout import weight_layout
from i2s_spec.schema.types import I2_S, RETIRED

if TYPE_CHECKING:
    from i2s_spec.inspect.survey.result import Survey

#: Most tensor types that are named; tensors of further types are counted together.
NAMED: Final = 3


def examined(subject: Subject) -> dict[str, Any] | None:
    """What was examined, as plain data; nothing more is read for it.

    :returns: `architecture`, `version`, `byte_order`, `size`; `tensors` and `types`, the number of tensors, in all and
    of each type, the most frequent first; `rules`, how many were checked, and `ignored`, how many of the profile were
    not; `reading`, how much of the weights was requested, and `read`, how many bytes of the file were read, None if the
    header ends too early; `layout`, whether the weights decide it: `decided`, `undecided`, or None if no rule examined
    it. None for a file that is not GGUF
    """
    if subject.file.version is None:
        return None
    file, tensor = subject.file, subject.file.index.tensor
    numbers = Counter(tensor(i).type for i in range(file.index.tensors))
    # Use only cached results, which rules have asked for already.
    survey = vars(subject).get("survey")
    return {
        "architecture": visible(subject.architecture, bare=True),
        "version": file.version,
        "byte_order": file.index.byte_order,
        "size": file.size,
        "tensors": file.index.tensors,
        "types": {
            _type(subject, number): count for number, count in sorted(numbers.items(), key=lambda each: -each[1])
        },
        "rules": subject.asked,
        "reading": subject.reading.mode,
        "ignored": subject.ignored,
        "read": None if file.infos_end is None else _read(subject, file.infos_end, survey),
        "layout": _layout(subject) if survey is not None and I2_S.number in numbers else None,
    }


def _read(subject: Subject, header: int, survey: Survey | None) -> int:
    """How many bytes were read: all of them if every tensor was read, because rules also read the bytes between tensors."""
    if survey is None:
        return header
    every = len(survey) + len(survey.others) == subject.file.index.tensors
    return subject.file.size if every and survey.mode == "full" else min(subject.file.size, header + survey.read)


def _type(subject: Subject, number: int) -> str:
    known = subject.file.tensors.common_type(number)
    return known.name if known is not None else RETIRED.get(number, f"type {number}")


def _layout(subject: Subject) -> str | None:
    """Whether the weights decided their layout, if a rule examined it."""
    asked = subject.results.get(weight_layout.__wrapped__)  # type: ignore[attr-defined]
    return None if asked is None else "undecided" if asked.usual is None else "decided"


def what(about: Mapping[str, Any]) -> str:
    """The file in a few words: `bitnet-b1.58, 24 tensors (14 I2_S, 10 F32)`."""
    words = [about["architecture"] or "no architecture"]
    if about["version"] != 3:
        words.append(f"GGUF version {about['version']}")
    if about["byte_order"] != "little":
        words.append(f"{about['byte_order']}-endian")
    if about["read"] is None:
        return ", ".join(words)
    count = about["tensors"]
    types = [f"{number:,} {name}" for name, number in about["types"].items()]
    if len(types) > NAMED:
        types[NAMED:] = [f"{count - sum(list(about['types'].values())[:NAMED]):,} of other types"]
    words.append(counted(count, "tensor") + (f" ({', '.join(types)})" if types else ""))
    return ", ".join(words)


def sentence(about: Mapping[str, Any]) -> str:
    """What was examined, in one line."""
    rules = f"{counted(about['rules'], 'rule')} checked" + (
        f" and {about['ignored']:,} left out" if about["ignored"] else ""
    )
    if about["read"] is None:
        return f"{what(about)}; {rules}, the header cannot be read to its end"
    read, size = size_words(about["read"]), size_words(about["size"])
    how = "" if read == size else {"none": " (header only)", "sample": " (weights sampled)"}.get(about["reading"], "")
    amount = f"all {size}" if read == size else f"{read} of {size}"
    doubt = "; the weights do not show their layout" if about["layout"] == "undecided" else ""
    return f"{what(about)}; {rules}, {amount} read{how}{doubt}"
