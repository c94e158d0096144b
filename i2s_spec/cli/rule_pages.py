"""The pages of the linter's rules, one for each rule and an index: written to a folder, or compared with one.

Their words are those of the rules' declarations (`linter.explain`), and below them the rule at work (`shown`); what is
added here are links, from a clause to its section of the specification, from an issue, a CVE or a CWE to where it is
published, and marks that make code of commands or keep off the search. The pages depend on the rules, on what the
commands in them print, and on the headings of the chapters beside them, and on nothing else: the same package writes
the same bytes everywhere.
"""

from __future__ import annotations

import re
import struct
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.cli.replay import replay
from i2s_spec.compare.diff import diff
from i2s_spec.draw.text import float32_words
from i2s_spec.errors import FormatError, MissingExtra, Span, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump import NodeLabels, Unknown, target
from i2s_spec.linter.engine import ROW, ROWS, excerpt_of, lint
from i2s_spec.linter.explain import as_markdown
from i2s_spec.linter.fix import fix
from i2s_spec.linter.repair.plan import REPAIRS, chosen
from i2s_spec.linter.report.text import proof
from i2s_spec.linter.rule import FAMILIES, Fix, Rule
from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.container import Opened, is_leaf
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.i2s import codes_of
from i2s_spec.schema.types import I2_S
from i2s_spec.testing.malformed.case import CASES
from i2s_spec.testing.malformed.situations import SITUATIONS, ReferenceCase, Situation, Without, compared

# --- a rule at work --------------------------------------------------------------------------------------------------
# What is printed for a file that breaks it, and what becomes of that place. Before: `i2s lint` of a broken copy. After:
# the changes that `i2s fix` makes of it; where no repair is declared, the same place in the sound file that was broken, or
# how the two differ. Nothing of it is kept: commands are run when it is asked for.

#: Lines of a transcript that are shown; what is in the middle of a longer one is counted.
MOST_LINES: Final = 15

#: What a difference may at most say and still be shown instead of the number of keys or tensors.
FEW_LINES: Final = 6

#: Files up to this size are compared by meaning, and field by field.
SMALL: Final = 1 << 20

#: Scales of a file that are listed.
SHOWN_SCALES: Final = 6

SOUND: Final = "sound.gguf"

_COUNTS: Final = ("header.key_count", "header.tensor_count")
_PATH: Final = re.compile(r"(key_values|tensor_infos|data)\[(\d+)\](.*)")


class Shown(NamedTuple):
    """A rule at work: two texts, and a sentence in front of each; without a text the sentence says why there is none."""

    before_says: str
    before: str
    after_says: str = ""
    after: str = ""


@cache
def shown(rule: Rule) -> Shown:
    """Show a rule at work.

    :raises MissingExtra: where a command cannot be run without an extra
    """
    situation = SITUATIONS.get(rule.code)
    if isinstance(situation, Without):
        return Shown(f"nothing is shown: {situation.why}.", "")
    with tempfile.TemporaryDirectory() as folder:
        if situation is not None:
            return _met(situation, Path(folder))
        if any(case.code == rule.code for case in CASES):
            return _broken(rule, Path(folder))
        for pair in compared():
            if pair.code == rule.code:
                return _compared(rule, pair, Path(folder))
    return Shown("no file of this package breaks the rule.", "")


def _met(situation: Situation, folder: Path) -> Shown:
    """Show a rule that a command meets."""
    if situation.needs is not None and find_spec(situation.needs[0]) is None:
        raise MissingExtra(*situation.needs[1:])
    for name, make in situation.files.items():
        (folder / name).write_bytes(make())
    says, before = "a command that meets it.", _short(replay(situation.command, folder), situation.most or MOST_LINES)
    if situation.broken is None:
        return Shown(says, before)
    name, path, base = situation.broken
    return Shown(says, before, *_in_the_sound_file(situation.files[name](), path, base(), name, folder))


def _broken(rule: Rule, folder: Path) -> Shown:
    """Show a rule with a broken copy: the first that has no other fault and, if that is declared, is repaired."""
    repair: _Repair | None = None
    for case in sorted((case for case in CASES if case.code == rule.code), key=lambda case: len(case.also)):
        name, data = f"{rule.code}-{case.name}.gguf", case.data
        (folder / name).write_bytes(data)
        repair = None if rule.fix is Fix.NONE else _repair_of(rule, folder / name)
        if repair is None or repair.fits:
            break
    others = {finding.code for finding in lint(folder / name).findings} - {rule.code}
    before = replay(f"i2s lint --select {rule.code} {name}" if others else f"i2s lint {name}", folder)
    repaired = "" if repair is None else replay(f"i2s fix {name} --dry-run{repair.options}", folder)
    says = f"a file that breaks this rule{', among others' if others else ' and no other'}."
    if repair is not None and repair.fits:
        unsafe = rule.fix is Fix.UNSAFE
        how = "what a repair makes of it" + ("; it needs judgement, so look at the result." if unsafe else ".")
        return Shown(says, _short(before), how, _short(repaired))
    after_says, after = _in_the_sound_file(data, case.path, case.base, name, folder)
    if repaired:
        after_says = f"the repair declines here, and says why. Below it {after_says}"
    return Shown(says, _short(before), after_says, _short(repaired + after))


class _Repair(NamedTuple):
    """How a broken file is repaired: the options of `i2s fix`, and whether the repair fits there."""

    options: str
    fits: bool


def _repair_of(rule: Rule, path: Path) -> _Repair:
    """Find the repair of a rule's finding in a file, with its own option where it does not fit without."""
    chosen()  # which loads the repairs
    declared, unsafe = REPAIRS[rule.code], rule.fix is Fix.UNSAFE
    select = (rule.code,) if declared.by_name else ()
    options = " --unsafe" * unsafe + f" --select {rule.code}" * declared.by_name
    if any(action.code == rule.code for action in fix(path, unsafe=unsafe, select=select).actions):
        return _Repair(options, fits=True)
    name, _, value = declared.option.partition(" ")
    if name:
        given: dict[str, Any] = {name.removeprefix("--").replace("-", "_"): value or True}
        if any(action.code == rule.code for action in fix(path, unsafe=unsafe, select=select, **given).actions):
            return _Repair(f"{options} {declared.option}", fits=True)
    return _Repair(options, fits=False)


def _compared(rule: Rule, pair: ReferenceCase, folder: Path) -> Shown:
    """Show a rule that only another file of the same model shows to be broken."""
    name = f"{rule.code}-{pair.name}.gguf"
    (folder / name).write_bytes(pair.data)
    (folder / SOUND).write_bytes(pair.reference)
    before = _short(replay(f"i2s lint --reference {SOUND} {name}", folder))
    there = _lines(pair.reference, pair.path, pair.data, pair.path, name)
    return Shown(
        "a file that differs from another one of its model.", before, "the same place in the reference.", there
    )


def _in_the_sound_file(data: bytes, path: str, base: bytes, name: str, folder: Path) -> tuple[str, str]:
    """Return the sentence in front of what the sound file has there, and that.

    :param path: of the field that is wrong
    :param base: the sound file that was broken
    """
    otherwise = "what a sound file has otherwise (`-` only the first, `+` only the second)."
    changes, is_lacking = _difference(data, base, name, folder)
    if 1 < changes.count("\n") <= 1 + FEW_LINES and (is_lacking or path in _COUNTS):
        return otherwise, _short(changes)
    there = _same_place(data, path, base)
    found = None if there is None else _bytes_at(base, there)
    if there is None or (len(data) <= SMALL and found == _bytes_at(data, path)):
        beside = None if there is None else _first_difference(data, path.rpartition(".")[0], base)
        there = there or _such_place(path, base)
        if changes or there is None:
            return (otherwise, _short(changes)) if changes else ("a sound file has nothing there.", "")
        if beside is not None:
            return "the same record in a sound file, where another field differs.", _lines(base, beside)
        return "such a place in a sound file.", _lines(base, there)
    if found is not None and len(found) > ROW * ROWS and len(data) <= SMALL and not path.startswith("data["):
        there = _first_difference(data, path, base) or there
    return "the same place in a sound file.", _lines(base, there, data, path, name)


def _difference(data: bytes, base: bytes, name: str, folder: Path) -> tuple[str, bool]:
    """Return what `i2s diff` prints of a file and the one that was broken, and whether the file only lacks keys.

    The text is empty where they have no tensor in common, and where they cannot be compared.
    """
    if len(data) > SMALL:
        return "", False
    (folder / SOUND).write_bytes(base)
    ours, theirs = _opened(data), _opened(base)
    try:
        if ours is None or theirs is None:
            return "", False
        found = diff(ours, theirs)
    except FormatError:
        return "", False
    if not found.compared or (found.same and not found.container and not found.tails):
        return "", False
    more = any(key.type_before is None for key in found.keys)
    less = found.only_a or any(key.type_after is None for key in found.keys)
    return replay(f"i2s diff {name} {SOUND}", folder), bool(more and not less)


# --- places in the sound and the broken file -------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _opened(data: bytes) -> File | None:
    """Return a file, perhaps with a fault; None for what is not a GGUF file."""
    try:
        return File(BufferSource(data))
    except FormatError:
        return None


def _same_place(data: bytes, path: str, base: bytes) -> str | None:
    """Return the path in the sound file of what a path of a broken one leads to: in the record of the same name, if
    it has one.
    """
    met, name = _PATH.fullmatch(path), _record_name(data, path)
    if met is not None and name is not None and met[3] not in (".key", ".name"):  # else the name itself is wrong
        file = _opened(base)
        names = [] if file is None else _names(file, met[1])
        if name not in names:
            return None
        path = f"{met[1]}[{names.index(name)}]{met[3]}"
    return path if _node(base, path) is not None else None


def _such_place(path: str, base: bytes) -> str | None:
    """Return the first path in the sound file that differs from another one in numbers only."""
    met, file = _PATH.fullmatch(path), _opened(base)
    if met is None or file is None:
        return None
    inner = re.sub(r"\[\d+\]", "[0]", met[3])
    every = (f"{met[1]}[{i}]{inner}" for i in range(len(_names(file, met[1]))))
    return next((each for each in every if _node(base, each) is not None), None)


def _names(file: File, table: str) -> list[bytes]:
    index = file.index
    if table == "key_values":
        return [index.key(i).name for i in range(index.keys)]
    return [index.tensor(i).name for i in range(index.tensors)]


def _record_name(data: bytes, path: str) -> bytes | None:
    """Return the name of the key or tensor that a path leads into; None where it leads to neither, or that cannot be
    read.
    """
    met, file = _PATH.fullmatch(path), _opened(data)
    if met is None or file is None:
        return None
    number, index = int(met[2]), file.index
    if met[1] == "key_values":
        return index.key(number).name if number < index.keys else None
    return index.tensor(number).name if number < index.tensors else None


@lru_cache(maxsize=16)
def _nodes(data: bytes, path: str) -> list[FieldNode]:
    """Return the field at a path, and those in it."""
    file = _opened(data)
    try:
        every = [] if file is None else target(file, path, None, True).nodes
        return [node for node in every if node.path == path or node.path.startswith((f"{path}.", f"{path}["))]
    except Unknown:
        return []


def _node(data: bytes, path: str) -> FieldNode | None:
    """Return the field at a path; of a text the characters without their count."""
    nodes = _nodes(data, path)
    exact = [node for node in nodes if node.path in (path, f"{path}.text")]
    return exact[-1] if exact else nodes[0] if nodes else None


def _bytes_at(data: bytes, path: str) -> bytes | None:
    node = _node(data, path)
    return None if node is None else data[node.start : node.stop]


def _first_difference(data: bytes, path: str, base: bytes) -> str | None:
    """Return the path in the sound file of the first field, in what a path leads to, that has another value there."""
    for node in _nodes(data, path):
        there = _same_place(data, node.path, base) if is_leaf(node) else None
        if there is not None and _bytes_at(base, there) != data[node.start : node.stop]:
            text = there.removesuffix(".length") + ".text"
            return text if there.endswith(".length") and _node(base, text) is not None else there
    return None


def _lines(base: bytes, there: str, data: bytes = b"", path: str = "", name: str = "") -> str:
    """Return the lines of a place in the form of a finding; of weights also what is in them, there and in the broken
    file.
    """
    file, node = _opened(base), _node(base, there)
    assert file is not None
    assert node is not None
    labels = NodeLabels(file)
    for each in _nodes(base, there):
        labels.note(each)
    words, record = labels.value(node)[0], _record_name(base, there)
    if isinstance(node.value, Opened):
        words = f"{there} {words}".rstrip() + f" ({counted(node.stop - node.start, 'byte')})"
    else:
        inside = record is not None and not re.search(r"\.(?:key|name)(?:\.text)?$", there)
        owner = f" of {quote(record)}" if record is not None and inside else ""
        words = f"{there}{owner}: {words}" if words else f"{there}{owner}"
    lines = [f"{SOUND}:0x{node.start:x}..0x{node.stop:x}: {words}"]
    met = _PATH.fullmatch(there)
    excerpt = excerpt_of(file.source, Span(node.start, node.stop, there))
    most = ROW if met is None or not met[3] else ROW * ROWS
    bytes_shown = None if excerpt is None else {"start": excerpt.start, "hex": excerpt.data[:most].hex()}
    report = {"bytes": bytes_shown, "span": {"start": node.start, "stop": node.stop}}
    lines += [f"  {line}" for line in proof(report, file.size)]
    sound, broken = _weights(base, there), _weights(data, path)
    if sound and broken and sound != broken:
        lines += [f"  {sound}", f"  {name}: {broken}"]
    return "\n".join(lines) + "\n"


def _weights(data: bytes, path: str) -> str:
    """Describe the payload that a path leads to, or all scales where it leads to one; empty for other paths."""
    met, file = _PATH.fullmatch(path), _opened(data)
    if met is None or met[1] != "data" or file is None or file.fault is not None:
        return ""
    try:
        if met[3] == ".tail.scale":
            prefix = order_prefix(file.byte_order)
            tensors = (tensor for tensor in file.tensors.rows if tensor.number == I2_S.number)
            scales = [struct.unpack(f"{prefix}f", tensor.tail[:4])[0] for tensor in islice(tensors, SHOWN_SCALES)]
            return f"scales: {', '.join(map(float32_words, scales))}"
        tensor = file.tensors.by_index(int(met[2]))
        if met[3] or tensor.number != I2_S.number:
            return ""
        counts = [0, 0, 0, 0]
        for byte, times in Counter(bytes(tensor.payload)).items():
            for code in codes_of(byte):
                counts[code] += times
    except FormatError:
        return ""  # a tensor that is not all there
    return "codes 0, 1, 2, 3: " + ", ".join(f"{count:,}" for count in counts) + " times"


# --- the example as text and as Markdown -----------------------------------------------------------------------------


def _short(transcript: str, most: int = MOST_LINES) -> str:
    """Return a transcript with no more lines than a page has room for."""
    lines = transcript.splitlines()
    if len(lines) <= most:
        return transcript
    end = 2 if lines[-1].startswith("[exit ") else 1
    left = len(lines) - most + 1
    return "\n".join([*lines[: most - end - 1], f"… {counted(left, 'more line')}", *lines[-end:]]) + "\n"


def as_text(example: Shown) -> str:
    """Return the example for the terminal."""
    lines = []
    for word, says, text in _parts(example):
        lines += [f"{word + ':':<12}{says}", *(f"    {line}".rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def example_markdown(example: Shown) -> str:
    """Return the example as it stands on the page of its rule."""
    parts = ["## Before and after", ""]
    for word, says, text in _parts(example):
        parts += [f"**{word}:** {says}", ""]
        if text:
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
            parts += [f"{fence}{{ .text .i2s-ran }}", text.rstrip("\n"), fence, ""]
    return "\n".join(parts)


def _parts(example: Shown) -> Iterator[tuple[str, str, str]]:
    yield "Before", example.before_says, example.before
    if example.after_says:
        yield "After", example.after_says, example.after


# --- the pages -------------------------------------------------------------------------------------------------------

#: Last line of every page; a file without it is never replaced nor removed. (A first line would hide the title.)
MARK: Final = "<!-- Written by `i2s rules --write` from the rules themselves: edit those. -->\n"

INDEX: Final = "index.md"

_CHAPTER: Final = re.compile(r"\d+-[a-z0-9-]+\.md")
_SECTION: Final = re.compile(r"^## (\d+\.\d+) (.+?) *$", re.MULTILINE)
_RULE_PAGE: Final = re.compile(r"[A-Z]\d{3}\.md")

#: What has an address of its own, as rules name it in their provenance.
_PUBLISHED: Final = (
    (re.compile(r"\bCVE-\d{4}-\d{4,7}\b"), r"[\g<0>](https://nvd.nist.gov/vuln/detail/\g<0>)"),
    (re.compile(r"\bCWE-(\d+)\b"), r"[\g<0>](https://cwe.mitre.org/data/definitions/\1.html)"),
    (re.compile(r"\b([\w-]+/[\w.-]+)#(\d+)\b"), r"[\g<0>](https://github.com/\1/issues/\2)"),
)

#: Commands in quotes and options, as the words of rules have them; on a page they are code.
_TYPED: Final = re.compile(r"'((?:i2s|--)[^'`&\n]+)'|(?<![\w`-])(--[a-z][\w-]*)")

_INTRODUCTION: Final = """\
# Rules

These are the rules of `i2s lint`. A code is never reused, and each code stands for one kind of fault; its first letter is
the family. `i2s explain CODE` prints the text of a rule's page, with `--example` also the example below it; `i2s rules`
prints this list. The output on the pages was printed by the commands that they show; the broken files are those of
`i2s vectors export --malformed DIR`.

An **error** makes a file unusable or ambiguous for some program that reads it, a **warning** reports something
suspicious, and a **note** states a fact.
"""


class Section(NamedTuple):
    """A section of the specification: its clause number, its title and the file of its chapter."""

    clause: str
    title: str
    chapter: str

    @property
    def link(self) -> str:
        """Its address, from the folder of the chapters."""
        return f"{self.chapter}#{slug(f'{self.clause} {self.title}')}"


def slug(heading: str) -> str:
    """Return the anchor that Python-Markdown gives a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def sections(folder: Path) -> dict[str, Section]:
    """Find every section of the chapters in a folder, by its clause number; empty where there are no chapters."""
    found = {}
    for chapter in sorted(folder.glob("*.md")):
        if _CHAPTER.fullmatch(chapter.name):
            for clause, title in _SECTION.findall(chapter.read_text(encoding="utf-8")):
                found[clause] = Section(clause, title, chapter.name)
    return found


def pages(chapters: Path) -> dict[str, str]:
    """Return every page by its file name: one for each rule, and the index.

    :param chapters: the folder of the chapters; the pages are meant for a folder inside it
    :raises MissingExtra: for the first page with an example that needs an extra
    """
    known = sections(chapters)
    rules = list(all_rules())
    made = {}
    for place, rule in enumerate(rules):
        made[f"{rule.code}.md"] = _page(rule, known, _beside(rules, place))
    made[INDEX] = _index(rules, known)
    return made


def words(rule: Rule) -> str:
    """Return the words of a page before links are added, which are those of `i2s explain --example --format
    markdown`.
    """
    return as_markdown(rule) + "\n" + example_markdown(shown(rule))


def write(directory: Path) -> list[str]:
    """Write the pages into a folder, which is made where it is missing; pages of rules that are gone are removed.

    :returns: names of the files that were written or removed; what is current already is left alone
    :raises OSError: where the folder or a file cannot be written, and for a file in a page's place that is not one
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = pages(directory.resolve().parent)
    changed = []
    for name, text in sorted(made.items()):
        path = directory / name
        data = text.encode("utf-8")
        before = path.read_bytes() if path.exists() else None
        if before != data:
            with OutputFile(path, force=before is not None and _ours(before)) as output:
                output.write(data)
            changed.append(name)
    for path in _withdrawn(directory, made):
        path.unlink()
        changed.append(path.name)
    return changed


def check(directory: Path) -> list[str]:
    """Return what is wrong with the pages in a folder, a sentence for each; nothing where all of them are current."""
    made = pages(directory.resolve().parent)
    wrong = []
    for name, text in sorted(made.items()):
        path = directory / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif path.read_bytes() != text.encode("utf-8"):
            wrong.append(f"{name} is not what its rule says" if name != INDEX else f"{name} does not list the rules")
    return wrong + [f"{path.name} belongs to no rule" for path in _withdrawn(directory, made)]


def _withdrawn(directory: Path, made: Collection[str]) -> Iterator[Path]:
    """Yield the pages of rules that are gone: by name and last line they are ours."""
    for path in sorted(directory.glob("*.md")):
        if _RULE_PAGE.fullmatch(path.name) and path.name not in made and _ours(path.read_bytes()):
            yield path


def _ours(data: bytes) -> bool:
    return data.endswith(MARK.encode())


def _beside(rules: list[Rule], place: int) -> str:
    """Return links to the rule before, to the family in the index, and to the rule after."""
    before = [f"[← {rules[place - 1].code}]({rules[place - 1].code}.md)"] if place else []
    after = [f"[{rules[place + 1].code} →]({rules[place + 1].code}.md)"] if place + 1 < len(rules) else []
    return " · ".join([*before, f"[All rules]({INDEX}#{_family_anchor(rules[place].family)})", *after])


def _page(rule: Rule, known: dict[str, Section], beside: str) -> str:
    lines = words(rule).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("## "):
            lines[number] = f"{line} {{ data-search-exclude }}"
            break  # after that stands what commands print, which would drown what it is about
        lines[number] = _TYPED.sub(lambda found: f"`{found[1] or found[2]}`", line)
        if line.startswith("| Clause |"):
            lines[number] = f"| Clause | {_clause(rule.clause, known, with_title=True)} |"
        elif line.startswith("| "):
            for what, link in _PUBLISHED:
                lines[number] = what.sub(link, lines[number])
    return "\n".join([*lines, "", beside, "", MARK])


def _index(rules: list[Rule], known: dict[str, Section]) -> str:
    parts = [_INTRODUCTION]
    for letter, about in FAMILIES.items():
        family = [rule for rule in rules if rule.family == letter]
        if not family:
            continue
        parts += [
            f"## {letter}: {about}",
            "",
            "| Code | Name | Severity | What is wrong | Clause |",
            "|---|---|---|---|---|",
        ]
        for rule in family:
            title, clause = rule.title.replace("|", "\\|").replace("<", "&lt;"), _clause(rule.clause, known)
            parts.append(
                f"| [{rule.code}]({rule.code}.md) | {rule.slug} | {rule.severity.value} | {title} | {clause} |"
            )
        parts.append("")
    return "\n".join([*parts, MARK])


def _family_anchor(letter: str) -> str:
    return slug(f"{letter}: {FAMILIES[letter]}")


def _clause(clause: str, known: dict[str, Section], with_title: bool = False) -> str:
    """Return a clause as a link to its section, or as its number where its chapter is not written."""
    section = known.get(clause)
    if section is None:
        return clause
    words = f"{clause} {section.title}" if with_title else clause
    return f"[{words}](../{section.link})"
