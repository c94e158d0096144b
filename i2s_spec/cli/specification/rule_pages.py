"""The pages of the linter's rules, one for each rule and an index: written to a folder, or compared with one.

Their words are those of the rules' declarations (`linter.explain`), and below them the rule at work (`rule_examples`);
what is added here are links, from a clause to its section of the specification, from an issue, a CVE or a CWE to where it
is published, and marks that make code of commands or keep off the search. The pages depend on the rules, on what the
commands in them print, and on the headings of the chapters beside them, and on nothing else: the same package writes the
same bytes everywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.cli.specification import rule_examples
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.linter.explain import as_markdown
from i2s_spec.linter.rule import FAMILIES, Rule
from i2s_spec.linter.rules import all_rules

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
    """The anchor that Python-Markdown gives a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def sections(folder: Path) -> dict[str, Section]:
    """Every section of the chapters in a folder, by its clause number; empty where there are no chapters."""
    found = {}
    for chapter in sorted(folder.glob("*.md")):
        if _CHAPTER.fullmatch(chapter.name):
            for clause, title in _SECTION.findall(chapter.read_text(encoding="utf-8")):
                found[clause] = Section(clause, title, chapter.name)
    return found


def pages(chapters: Path) -> dict[str, str]:
    """Every page by its file name: one for each rule, and the index.

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
    """The words of a page before links are added, which are those of `i2s explain --example --format markdown`."""
    return as_markdown(rule) + "\n" + rule_examples.as_markdown(rule_examples.shown(rule))


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
    """What is wrong with the pages in a folder, a sentence for each; nothing where all of them are current."""
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
    """Pages of rules that are gone: by name and last line they are ours."""
    for path in sorted(directory.glob("*.md")):
        if _RULE_PAGE.fullmatch(path.name) and path.name not in made and _ours(path.read_bytes()):
            yield path


def _ours(data: bytes) -> bool:
    return data.endswith(MARK.encode())


def _beside(rules: list[Rule], place: int) -> str:
    """Links to the rule before, to the family in the index, and to the rule after."""
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
    """A clause as a link to its section, or as its number where its chapter is not written."""
    section = known.get(clause)
    if section is None:
        return clause
    words = f"{clause} {section.title}" if with_title else clause
    return f"[{words}](../{section.link})"
