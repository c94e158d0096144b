"""This module gathers what the HTML page shows of a file besides its findings, while the file is open.

The result is plain data of bounded size; every text from the file is one printable line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.text import exact_size_words, float32_words, visible
from i2s_spec.errors import counted
from i2s_spec.linter.report.html.regions import RECORDS, regions

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence
    from i2s_spec.inspect.survey.result import Survey
    from i2s_spec.linter.analysis.subject import Subject

#: Characters of a key, a name or a value that the page shows.
NAME: Final = 64

_BLOCK: Final = re.compile(r"^blk\.(\d{1,4})\.", re.ASCII)


def gather(subject: Subject) -> dict[str, Any]:
    """What the page needs of one file.

    :returns: facts, totals, the first keys and tensors (with their contents), the regions of the map, and the verdicts
    of runtimes
    :raises FormatError: if the file can no longer be read
    """
    from i2s_spec.inspect.show import members
    from i2s_spec.linter.runtimes.verdicts import verdicts

    file = subject.file
    about = members(file, 6, (RECORDS, 0))
    survey = subject.survey
    known = {} if survey is None else {survey.row(place): place for place in range(len(survey))}
    others = {} if survey is None else {other.row: other for other in _first(survey)}
    tensors = [_tensor(tensor, survey, known, others) for tensor in about["tensors"]]
    keys = [_key(key) for key in about["keys"]]
    runtimes = [verdict.as_dict() for verdict in verdicts(subject)] if about["header"]["version"] is not None else []
    return {
        "facts": list(_facts(about, subject)),
        "totals": _totals(about["totals"]),
        "keys": keys,
        "keys_left": file.index.keys - len(keys),
        "tensors": tensors,
        "tensors_left": file.index.tensors - len(tensors),
        "regions": [list(region) for region in regions(file)],
        "reading": subject.reading.mode,
        "alignment": None if survey is None else _alignment(subject),
        "runtimes": runtimes,
    }


def _alignment(subject: Subject) -> dict[str, Any] | None:
    """The channels of the file's weights under each layout, as plain data."""
    from i2s_spec.linter.analysis.weight_layout import weight_layout

    found = weight_layout(subject)
    return None if found is None else alignment_of(found)


def alignment_of(found: LayoutEvidence) -> dict[str, Any] | None:
    """`channel_alignment` as plain data, with the layout that the weights show; None for a file without such channels."""
    from i2s_spec.inspect.evidence.channel_alignment import channel_alignment

    aligned = channel_alignment(found)
    if aligned is None:
        return None
    decided = found.decided
    return {
        "tensor": aligned.tensor,
        "partner": aligned.partner,
        "channels": aligned.channels,
        "decided": None if decided is None else decided.name,
        "answer": "mixed" if found.mixed else "undecided" if decided is None else "decided",
        "layouts": [
            {"layout": each.layout, "correlation": round(each.correlation, 4), "points": [list(p) for p in each.points]}
            for each in aligned.layouts
        ],
    }


def _first(survey: Survey) -> Iterator[Any]:
    return (survey.others[place] for place in range(min(len(survey.others), RECORDS)))


def _facts(about: dict[str, Any], subject: Subject) -> Iterator[tuple[str, str]]:
    header, size = about["header"], about["size"]
    yield "size", exact_size_words(size)
    if header["version"] is None:
        return
    order = f", {header['byte_order']}-endian" if header["byte_order"] else ""
    yield "container", f"GGUF version {header['version']}{order}"
    if subject.architecture:
        yield "architecture", visible(subject.architecture, NAME, bare=True)
    counts = f"{counted(header['key_count'], 'key-value')}, {counted(header['tensor_count'], 'tensor')}"
    if header["header_bytes"] is None:
        yield "header", f"{counts} promised"
    else:
        yield "header", f"{counts} in {exact_size_words(header['header_bytes'])}"
    if header["data_start"] is not None:
        source = "general.alignment" if header["alignment_declared"] else "the default"
        yield "data", f"from 0x{header['data_start']:x}, aligned to {header['alignment']:,} ({source})"
    yield "parameters", f"{about['totals']['elements']:,}"


def _totals(totals: dict[str, Any]) -> list[list[Any]]:
    rows = [(total["type"] or f"type {total['type_number']}", total) for total in totals["by_type"][:40]]
    return [
        [name, total["tensors"], total["elements"], total["bytes"], total["bits_per_element"]]
        for name, total in (*rows, ("all", totals))
    ]


def _key(key: dict[str, Any]) -> dict[str, Any]:
    from i2s_spec.inspect.show_text import value_words

    return {
        "key": _shown(key["key"]),
        "type": key["type"],
        "value": value_words(key),
        "start": key["start"],
        "stop": key["stop"],
    }


def _tensor(
    tensor: dict[str, Any], survey: Survey | None, known: dict[int, int], others: dict[int, Any]
) -> dict[str, Any]:
    name, scale = _shown(tensor["name"]), tensor["scale"]
    made: dict[str, Any] = {
        "row": tensor["index"],
        "name": name,
        "group": _BLOCK.sub("", name).removesuffix(".weight"),
        "layer": int(found[1]) if (found := _BLOCK.match(name)) else None,
        "type": tensor["type"] or f"type {tensor['type_number']}",
        "shape": tensor["shape"],
        "elements": tensor["elements"],
        "start": tensor["start"],
        "bytes": tensor["bytes"],
        "problem": None if tensor["problem"] is None else tensor["problem"]["code"],
        "scale": None if scale is None else float32_words(scale),
        "value": scale if scale is not None and math.isfinite(scale) else None,
    }
    if survey is not None and tensor["index"] in known:
        seen = survey[known[tensor["index"]]]
        made |= {"counts": list(seen.counts), "complete": seen.complete, "tail": seen.tail_class}
        made |= {"bytes_of_tail": seen.tail.hex(" "), "run": _run(seen.longest_run)}
    elif tensor["index"] in others:
        other = others[tensor["index"]]
        made |= {"complete": other.complete, "run": _run(other.longest_run), "odd": other.non_finite}
    return made


def _run(run: Any) -> list[int] | None:
    """The longest run of one byte: where in the tensor it begins, how long it is, and the byte."""
    return None if run is None else list(run)


def _shown(text: Any) -> str:
    """Text as `describe` gives it, as one printable line."""
    return visible(bytes.fromhex(text["hex"]) if isinstance(text, dict) else text, NAME, bare=True)
