"""The words of all reports of a comparison, and the reports that are text: for people, for comments, for programs.

`title`, `about`, `first_wrong`, `diagnosis_words` and `rows` word a result and choose what is shown of it;
`text_lines`, `markdown_lines` and `json_lines` are whole reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, Final, NamedTuple

from i2s_spec.draw.terminal import Column, Line, Piece, plain, table
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import counted
from i2s_spec.golden.code_flips import Flips
from i2s_spec.golden.result import (
    SCHEMA_VERSION,
    Comparison,
    Diagnosis,
    TapResult,
    agreement_words,
    group_words,
)
from i2s_spec.model.graph import INTEGER_TAPS, base

#: Taps up to which every compared one has a row of its own; of more, those that are right share one by name.
MOST_ROWS: Final = 80

#: Names of missing or extra taps that are listed.
MOST_NAMES: Final = 8

TITLES: Final = ("tensor", "result", "rel. L2", "cosine", "max |d|", "at", "ulp", "over", "flips", "limit and notes")


class TableRow(NamedTuple):
    """A row of the table: cells that are escaped for a terminal, and the status that colors it."""

    cells: tuple[str, ...]
    status: str


def title(result: Comparison) -> str:
    """Return the verdict."""
    return f"{'OK' if result.ok else 'WRONG'}: {result.verdict}"


def about(result: Comparison) -> Iterator[tuple[str, str]]:
    """Yield labels and values: what was compared with what, and how."""
    header = result.header
    tokens = len(header.get("token_ids", ()))
    kind = visible(str(header.get("architecture")), bare=True)
    profile = visible(str(header.get("profile")), bare=True)
    yield "record", f"{visible(result.golden, 120, bare=True)} ({kind}, {counted(tokens, 'token')}, profile {profile})"
    yield "candidate", f"{visible(result.candidate, 120, bare=True)} ({result.form})"
    replayed = f", profile {visible(result.profile, bare=True)}" if result.mode != "free-running" else ""
    why = ", as nothing can be replayed from the corners that a text shows" if result.form == "text" else ""
    yield "mode", f"{result.mode}{replayed}{why}"
    counts = [(result.counted(status), word) for status, word in _STATUSES]  # type: ignore[arg-type]
    yield "tensors", ", ".join(f"{count:,} {word}" for count, word in counts if count) or "none"
    whole = result.whole
    if whole is not None:
        more = (
            ""
            if whole.same_top is None
            else f", same most probable token {whole.same_top:.1%}, KL {number(whole.divergence)}"
        )
        yield whole.name, f"{whole.verdict}: relative L2 {number(whole.relative)}, cosine {whole.cosine:.6f}{more}"


def unmatched(result: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the names that only one of the two has: they come last, where there may be hundreds."""
    for status in ("missing", "extra"):
        names = [tap.name for tap in result.taps if tap.status == status]
        # Few runtimes dump the inside of projections, and norms before their gains: what most have comes first.
        names.sort(key=lambda name: base(name) in (*INTEGER_TAPS, "norm"))
        if names:
            shown = ", ".join(visible(name, bare=True) for name in names[:MOST_NAMES])
            yield status, shown + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


_STATUSES: Final = (
    ("ok", "ok"), ("flips", "ok with explained flips"), ("wrong", "wrong"), ("behind", "behind a wrong one"),
    ("shape", "of another shape"), ("skipped", "not comparable"), ("missing", "missing"), ("extra", "extra"),
)  # fmt: skip


def first_wrong(result: Comparison) -> Iterator[str]:
    """Yield where the first wrong tap is wrong."""
    tap = result.first
    if tap is None or tap.measures is None:
        return
    m = tap.measures
    yield (
        f"{visible(tap.name, bare=True)}{list(m.at)} is {number(m.got)}, and should be {number(m.want)}; {m.over:.2%} of "
        f"{counted(m.elements, 'element is', 'elements are')} beyond the limit ({tap.limit})"
    )
    if m.not_finite:
        yield f"{counted(m.not_finite, 'element is', 'elements are')} NaN or infinite and should not be"
    flips = tap.flips
    if flips is not None and flips.unexplained:
        where = f", the first at {list(flips.first)}" if flips.first is not None else ""
        pair = f": {flips.got}, and should be {flips.want}" if flips.got is not None else ""
        yield f"as integers: {flips.unexplained:,} sums or codes differ{where}{pair}"
        if flips.fractional:
            yield (
                f"{counted(flips.fractional, 'output stands', 'outputs stand')} for no integer: "
                f"activations were quantized in another way, or not at all"
            )
    if len(tap.reach) > 1:
        yield f"replayed together: {', '.join(visible(name, bare=True) for name in tap.reach[:8])}"


def diagnosis_words(each: Diagnosis) -> str:
    """Return a diagnosis in a line."""
    left = f", leaves {number(each.remaining)}" if each.remaining is not None and each.fits != "exactly" else ""
    seen = f" (seen in {each.seen})" if each.seen else ""
    return f"[{each.name}] {each.fits}{left}: {each.says}{seen}"


def others(result: Comparison) -> Iterator[str]:
    """Yield what else is wrong on its own inputs."""
    if sum(len(group.taps) for group in result.groups) > 1:
        yield from (group_words(group) for group in result.groups)


def rows(result: Comparison) -> Iterator[TableRow]:
    """Yield the table: every tap that was compared, or of many that are right one row for each name."""
    shown = [tap for tap in result.taps if tap.status not in ("missing", "extra")]
    if len(shown) <= MOST_ROWS:
        yield from (_row(tap) for tap in shown)
        return
    seen: dict[str, list[TapResult]] = {}
    for tap in shown:
        if tap.status == "ok":
            seen.setdefault(base(tap.name), []).append(tap)
    shown_words: set[str] = set()
    for tap in shown:
        if tap.status != "ok":
            yield _row(tap)
        elif (word := base(tap.name)) not in shown_words:
            shown_words.add(word)
            same = seen[word]
            worst = max(same, key=lambda each: each.measures.relative if each.measures is not None else 0.0)
            row = _row(worst)
            name = row.cells[0] if len(same) == 1 else f"{word} ({counted(len(same), 'tensor')}, the worst:)"
            yield row._replace(cells=(name, *row.cells[1:]))


def _row(tap: TapResult) -> TableRow:
    m, flips = tap.measures, tap.flips
    name, notes = visible(tap.name, bare=True), [visible(note, 160, bare=True) for note in tap.notes]
    if tap.diagnoses:
        notes.insert(0, ", ".join(each.name for each in tap.diagnoses[:3]))
    end = "; ".join(part for part in (tap.limit, *notes) if part)
    if m is None:
        return TableRow((name, tap.status, "", "", "", "", "", "", "", end), tap.status)
    shown = (
        "" if flips is None else f"{flips.explained}" + (f" + {flips.unexplained} wrong" if flips.unexplained else "")
    )
    at = ",".join(map(str, m.at)) if m.largest else ""
    ulp = f"{m.ulp:,}" if m.ulp < 10**6 else f"{m.ulp:.1e}"
    cells = (name, tap.status, number(m.relative), f"{m.cosine:.6f}", number(m.largest), at, ulp,
             f"{m.over:.2%}" if m.over else "", shown, end)  # fmt: skip
    return TableRow(cells, tap.status)


def number(value: float | None) -> str:
    """Return a number in few digits."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.3g}" if isfinite(value) else str(float(value))


# --- text ------------------------------------------------------------------------------------------------------------
# For people: the verdict first, what explains it, then a table.

_STYLES: Final = {"wrong": "bold red", "behind": "red", "flips": "yellow", "ok": "green"}


def styled(result: Comparison, width: int | None = None) -> Iterator[Line]:
    """Yield the report as lines of styled pieces.

    :param width: of the terminal, if the table has to fit
    """
    yield [Piece(title(result), "bold green" if result.ok else "bold red")]
    words = agreement_words(result)
    if words and not result.ok:  # the verdict of a right one has them
        yield [Piece(words)]
    yield []
    for what, words in about(result):
        yield [Piece(f"  {what:<14}", "dim"), Piece(words)]
    for note in result.notes:
        yield [Piece("  note          ", "dim"), Piece(note)]
    wrong = list(first_wrong(result))
    if wrong:
        yield []
        yield [Piece("  first wrong   ", "dim"), Piece(wrong[0])]
        yield from ([Piece(" " * 16), Piece(line)] for line in wrong[1:])
    for at, each in enumerate(result.diagnoses):
        yield [Piece("  explained by  " if not at else " " * 16, "dim"), Piece(diagnosis_words(each))]
    for at, line in enumerate(others(result)):
        yield [Piece("  wrong         " if not at else " " * 16, "dim"), Piece(line)]
    shown = list(rows(result))
    if shown:
        yield []
        columns = [Column(name, right=2 <= at <= 8, gives=at == 9) for at, name in enumerate(TITLES)]
        lines = table(columns, [row.cells for row in shown], width)
        yield next(lines)
        for row, pieces in zip(shown, lines, strict=True):
            yield [
                Piece(piece.text, piece.style or _STYLES.get(row.status, "")) if at == 2 else piece
                for at, piece in enumerate(pieces)
            ]
    if result.drift:
        yield []
        yield [Piece("  drift of the layers from the record (relative L2)", "bold")]
        top = max((far for _, far, _ in result.drift), default=0.0) or 1.0
        for layer, far, cosine in result.drift:
            bar = "#" * round(40 * min(1.0, far / top)) if isfinite(far) else "not finite"
            yield [Piece(f"  {layer:>4}  {far:<10.3g} {cosine:.6f}  "), Piece(bar, "cyan")]
    names = list(unmatched(result))
    if names:
        yield []
        yield from ([Piece(f"  {what:<14}", "dim"), Piece(words)] for what, words in names)


def text_lines(result: Comparison) -> Iterator[str]:
    """Return the report as plain text."""
    return (plain(line) + "\n" for line in styled(result))


# --- markdown --------------------------------------------------------------------------------------------------------
# For comments on pull requests and issues: GitHub's Markdown.


def markdown_lines(result: Comparison) -> Iterator[str]:
    """Yield the report; everything that Markdown or HTML could take for its own is escaped."""
    yield f"## {'✅' if result.ok else '❌'} {_markdown_text(title(result))}\n\n"
    if not result.ok and (words := agreement_words(result)):
        yield f"{_markdown_text(words)}\n\n"
    for what, words in about(result):
        yield f"- **{_markdown_text(what)}**: {_markdown_text(words)}\n"
    for note in result.notes:
        yield f"- {_markdown_text(note)}\n"
    wrong = list(first_wrong(result))
    if wrong or result.diagnoses:
        yield "\n### The first wrong tensor\n\n"
        yield from (f"- {_markdown_text(line)}\n" for line in wrong)
        yield from (f"- explained {_markdown_text(diagnosis_words(each))}\n" for each in result.diagnoses)
    more = list(others(result))
    if more:
        yield "\n### Wrong on their own inputs\n\n"
        yield from (f"- {_markdown_text(line)}\n" for line in more)
    shown = list(rows(result))
    if shown:
        yield "\n<details><summary>All tensors</summary>\n\n"
        yield "| " + " | ".join(map(_markdown_text, TITLES)) + " |\n"
        yield "|" + "---|" * len(TITLES) + "\n"
        yield from ("| " + " | ".join(map(_markdown_text, row.cells)) + " |\n" for row in shown)
        yield "\n</details>\n"
    if result.drift:
        yield "\n| layer | relative L2 | cosine |\n|---|---|---|\n"
        yield from (f"| {layer} | {far:.3g} | {cosine:.6f} |\n" for layer, far, cosine in result.drift)
    names = list(unmatched(result))
    yield "\n" if names else ""
    yield from (f"- **{_markdown_text(what)}**: {_markdown_text(words)}\n" for what, words in names)


def _markdown_text(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|#~@!":
        escaped = escaped.replace(mark, "\\" + mark if mark not in "@#" else f"&#{ord(mark)};")
    return escaped


# --- json ------------------------------------------------------------------------------------------------------------
# For programs: one JSON document, described by `compare.schema.json` of the package.

#: What a document repeats of the record's header.
_HEADER: Final = ("profile", "weights", "architecture", "activation", "dialect", "token_ids")


def json_lines(result: Comparison) -> Iterator[str]:
    """Return the document."""
    header = result.header
    return json_document(
        {
            "schema_version": SCHEMA_VERSION,
            "ok": result.ok,
            "verdict": result.verdict,
            "mode": result.mode,
            "profile": result.profile,
            "golden": {
                "path": json_string(result.golden),
                **{key: header.get(key) for key in _HEADER},
            },
            "candidate": {"path": json_string(result.candidate), "form": result.form},
            "agreement": None if result.agreement is None else {
                "exact": result.agreement.exact, "compared": result.agreement.compared,
                "first": None if result.agreement.first is None else json_string(result.agreement.first),
                "how": result.agreement.how or None, "sentence": agreement_words(result) or None,
            },
            "notes": list(result.notes),
            "summary": {status: result.counted(status) for status in
                        ("ok", "flips", "wrong", "behind", "missing", "extra", "shape", "skipped")},
            "first": None if result.first is None else json_string(result.first.name),
            "diagnoses": [_diagnosis(each) for each in result.diagnoses],
            "groups": [
                {"word": json_string(group.word), "taps": [json_string(name) for name in group.taps],
                 "layers": list(group.layers), "diagnosis": group.diagnosis.name if group.diagnosis is not None else None}
                for group in result.groups
            ],
            "whole": None if result.whole is None else {
                "name": result.whole.name, "verdict": result.whole.verdict, "relative_l2": result.whole.relative,
                "cosine": result.whole.cosine, "same_top": result.whole.same_top, "kl_divergence": result.whole.divergence,
            },
            "drift": [{"layer": layer, "relative_l2": far, "cosine": cosine} for layer, far, cosine in result.drift],
            "taps": [_tap(tap) for tap in result.taps],
        }
    )  # fmt: skip


def _tap(tap: TapResult) -> dict[str, Any]:
    m = tap.measures
    return {
        "name": json_string(tap.name),
        "status": tap.status,
        "layer": tap.layer,
        "op": tap.op or None,
        "candidate_name": None if tap.other is None else json_string(tap.other),
        "notes": list(tap.notes),
        "limit": tap.limit or None,
        "span": tap.span,
        "reach": [json_string(name) for name in tap.reach],
        "drift": tap.drift,
        "measures": None if m is None else {
            "relative_l2": m.relative, "cosine": m.cosine, "max_abs": m.largest, "index": list(m.at), "got": m.got,
            "want": m.want, "max_ulp": m.ulp, "over_limit": m.over, "not_finite": m.not_finite, "elements": m.elements,
        },
        "flips": _flips(tap.flips),
        "diagnoses": [_diagnosis(each) for each in tap.diagnoses],
    }  # fmt: skip


def _flips(flips: Flips | None) -> dict[str, Any] | None:
    if flips is None:
        return None
    found = flips._asdict()
    found["first"] = None if flips.first is None else list(flips.first)
    return found


def _diagnosis(each: Diagnosis) -> dict[str, Any]:
    return {
        "name": each.name,
        "fits": each.fits,
        "says": each.says,
        "remaining": each.remaining,
        "seen": each.seen or None,
    }
