"""The published text: pages of rules are current, links resolve, and chapters agree with the schema."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from examples import some

from i2s_site import benchmarks, checkout, generated
from i2s_spec.cli import rule_pages
from i2s_spec.cli.rules import rules_command
from i2s_spec.codec import reference
from i2s_spec.codec.quantize import RULES as RULES_OF_QUANTIZATION
from i2s_spec.codec.quantize import ternarise
from i2s_spec.linter.analysis import payload_stats
from i2s_spec.linter.explain import as_markdown, find
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import all_rules
from i2s_spec.schema import container, dialect, i2s, limits, types

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec"
CHAPTERS = sorted(SPEC.glob("[0-9]*.md"))

#: Numbers of all planned chapters: code may cite one that is not yet written.
NUMBERS = {str(number) for number in range(1, 13)}
WRITTEN = {chapter.name.partition("-")[0] for chapter in CHAPTERS}

REQUIREMENT = re.compile(
    r"^- \*\*\[(R[\d.]+-\d+)\]\(#(R[\d.]+-\d+)\)\*\*\{ #(R[\d.]+-\d+) \}(.*?)\n(?=\n|\Z)", re.M | re.S
)
LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """A page without its code, where brackets mean something else."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def sections() -> dict[str, str]:
    """The text of every section of the chapters, by its clause."""
    texts = {}
    for chapter in CHAPTERS:
        parts = re.split(r"^## (\d+\.\d+) .*$", chapter.read_text(encoding="utf-8"), flags=re.M)
        texts.update(zip(parts[1::2], parts[2::2], strict=True))
    return texts


SECTIONS = sections()


# Pages of rules.


#: Rules whose pages are generated here: those that a test names, and a few others. `test_site` makes all.
NAMED = {"G001", "G109", "G219"}
SHOWN = [rule for rule in all_rules() if rule.code in {*NAMED, *(each.code for each in list(all_rules())[::60])}]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_pages, "all_rules", lambda: SHOWN)


def test_pages_are_the_same_wherever_they_are_made() -> None:
    """In another process, with another order of sets, in another folder, with colors and other settings."""
    code = (
        "import sys; from i2s_spec.cli import rule_pages; from i2s_spec.linter.explain import find;"
        "print([rule_pages.words(find(code)) for code in sys.argv[1:]])"
    )
    chosen = some(["G001", "G203", "I104", "I201", "I308", "M002", "M104", "P101", "P201", "S201", "S901", "T006"])
    run = subprocess.run(
        [sys.executable, "-c", code, *chosen], capture_output=True, check=True, encoding="utf-8", cwd="/",
        env={**os.environ, "PYTHONHASHSEED": "1", "I2S_LINT_FORMAT": "json", "FORCE_COLOR": "1", "COLUMNS": "40"},
    )  # fmt: skip
    assert run.stdout == f"{[rule_pages.words(find(code)) for code in chosen]}\n"


@pytest.fixture
def folder(tmp_path: Path, shown: None) -> Path:
    """A folder of current pages, beside the chapters that they link to."""
    for chapter in CHAPTERS:
        (tmp_path / chapter.name).write_bytes(chapter.read_bytes())
    rule_pages.write(tmp_path / "rules")
    return tmp_path / "rules"


def test_written_pages_are_current(folder: Path) -> None:
    assert rule_pages.check(folder) == []
    assert {path.name for path in folder.iterdir()} == {f"{rule.code}.md" for rule in SHOWN} | {"index.md"}
    assert rule_pages.write(folder) == []


def test_outdated_pages_are_named_and_mended(folder: Path) -> None:
    page = folder / "G219.md"
    page.write_text("old\n\n" + rule_pages.MARK, encoding="utf-8")
    (folder / "G001.md").unlink()
    (folder / "G999.md").write_text("# G999\n" + rule_pages.MARK, encoding="utf-8")
    (folder / "index.md").write_text(rule_pages.MARK, encoding="utf-8")
    wrong = ["G001.md is missing", "G219.md is not what its rule says", "index.md does not list the rules"]
    assert rule_pages.check(folder) == [*wrong, "G999.md belongs to no rule"]
    assert rule_pages.write(folder) == ["G001.md", "G219.md", "index.md", "G999.md"]
    assert rule_pages.check(folder) == []


def test_foreign_files_stay(folder: Path) -> None:
    notes, other, taken = folder / "notes.md", folder / "X123.md", folder / "G219.md"
    for path in (notes, other, taken):
        path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        rule_pages.write(folder)
    taken.unlink()
    rule_pages.write(folder)
    assert notes.read_text(encoding="utf-8") == other.read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("shown")
def test_a_page_leads_to_the_rules_before_and_after_it() -> None:
    made, codes = rule_pages.pages(SPEC), [rule.code for rule in SHOWN]
    for before, code, after in zip([None, *codes], codes, [*codes[1:], None], strict=False):
        links = made[f"{code}.md"].splitlines()[-3].split(" · ")
        assert links[1 if before else 0].startswith("[All rules](index.md#")
        assert links[:1] == [f"[← {before}]({before}.md)"] or before is None
        assert links[-1:] == [f"[{after} →]({after}.md)"] or after is None
        assert len(links) == 1 + (before is not None) + (after is not None)


@pytest.mark.usefixtures("shown")
def test_pages_without_chapters_have_no_links_to_them(tmp_path: Path) -> None:
    made = rule_pages.pages(tmp_path)
    assert "| Clause | 2.7 |" in made["G219.md"]
    assert (
        "| [G219](G219.md) | alignment-not-power-of-two | error | general.alignment is not a power of two. | 2.7 |"
        in made["index.md"]
    )


@pytest.mark.usefixtures("shown")
def test_pages_link_to_what_is_published() -> None:
    page = rule_pages.pages(SPEC)["G109.md"]
    assert "[CWE-770](https://cwe.mitre.org/data/definitions/770.html)" in page
    assert "[CVE-2024-21836](https://nvd.nist.gov/vuln/detail/CVE-2024-21836)" in page
    assert "[ggml-org/llama.cpp#15711](https://github.com/ggml-org/llama.cpp/issues/15711)" in page
    assert "[2.2 Header](../02-container.md#22-header)" in page


@pytest.mark.usefixtures("shown")
def test_pages_hold_no_markup_of_the_examples() -> None:
    for name, page in rule_pages.pages(SPEC).items():
        text = re.sub(r"^(`{3,})\{ \.text \.i2s-ran \}\n.*?^\1$", "", page, flags=re.M | re.S)
        assert "<" not in text.removesuffix(rule_pages.MARK), name
        assert "```" not in text, name
        assert text.count("\n# ") + text.startswith("# ") == 1, name


@pytest.mark.usefixtures("shown")
def test_command_writes_and_checks(tmp_path: Path) -> None:
    run = CliRunner().invoke(rules_command, ["--check", str(tmp_path / "rules")], standalone_mode=False)
    assert (run.return_value, "G001.md is missing" in run.stdout) == (1, True)
    assert "--write" in run.stderr
    run = CliRunner().invoke(rules_command, ["--write", str(tmp_path / "rules")], standalone_mode=False)
    assert run.return_value == 0
    assert run.stdout.startswith(f"{len(SHOWN) + 1} pages in ")
    run = CliRunner().invoke(rules_command, ["--check", str(tmp_path / "rules")], standalone_mode=False)
    assert (run.return_value, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("args", ["G --write x", "--write x --check x", "--format json --check x"])
def test_command_refuses_what_does_not_go_together(args: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(rules_command, args.split())
    assert run.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_command_lists_rules_as_before() -> None:
    run = CliRunner().invoke(rules_command, ["G1", "--format", "json"], standalone_mode=False)
    listed = json.loads(run.stdout)["rules"]
    assert {rule["code"][:2] for rule in listed} == {"G1"}


# Links and numbers.


def anchors(path: Path) -> set[str]:
    """What can be linked to in a page: its headings as Python-Markdown names them, and ids given in braces."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found, seen = set(re.findall(r"\{ #(\S+) \}", text)), Counter[str]()
    for heading in re.findall(r"^#+ (.+?) *$", text, flags=re.M):
        slug = rule_pages.slug(heading.replace("`", ""))
        found.add(f"{slug}_{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken_links(folder: Path) -> Iterator[str]:
    """Every relative link of the pages under a folder that leads nowhere."""
    for page in sorted(folder.rglob("*.md")):
        for target in LINK.findall(prose(page)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (page.parent / name).resolve() if name else page
            if not other.is_file() or not other.is_relative_to(folder) or (anchor and anchor not in anchors(other)):
                yield f"{page.relative_to(folder)}: {target}"


def test_links_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder that mkdocs reads: the pages that somebody wrote, and the generated ones without their examples."""
    monkeypatch.setattr(rule_pages, "words", as_markdown)
    for page in checkout.pages():
        place = tmp_path / page.relative_to(SPEC)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(generated.with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in (generated.pages() | generated.rules()).items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for path in [path for path in SPEC.rglob("*") if path.is_file() and "build" not in path.parts]:
        if path.suffix != ".md":
            place = tmp_path / path.relative_to(SPEC)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    assert list(broken_links(tmp_path)) == []


def test_the_link_checker_sees_broken_links(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# A b\n## C, `d`\n## C, d\n[1](b.md) [2](#a-b) [3](#c-d_1) [4](#c-d_2) [x\ny](no.md)\n`[5](no)`\n[6](../a.md)\n",
        encoding="utf-8",
    )
    (tmp_path / "b.md").write_text("```\n# no\n```\n**R**{ #R1 }\n[7](a.md#R1) [8](#R1) [9](#no)", encoding="utf-8")
    assert list(broken_links(tmp_path)) == [
        "a.md: #c-d_2", "a.md: no.md", "a.md: ../a.md", "b.md: a.md#R1", "b.md: #no",
    ]  # fmt: skip


def test_the_site_has_every_chapter() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"^  - (\d+-\S+\.md)$", config, re.M) == sorted(chapter.name for chapter in CHAPTERS)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_sections_are_numbered_in_order(chapter: Path) -> None:
    number = chapter.name.partition("-")[0].lstrip("0")
    text = chapter.read_text(encoding="utf-8")
    assert re.findall(r"^# (\d+) \S", text, re.M) == [number]
    clauses = re.findall(r"^## (.*)$", text, re.M)
    assert [clause.split()[0] for clause in clauses] == [f"{number}.{i}" for i in range(1, len(clauses) + 1)]


@pytest.mark.parametrize("clause", SECTIONS)
def test_requirements_are_numbered_in_order(clause: str) -> None:
    text = SECTIONS[clause]
    found = REQUIREMENT.findall(text)
    wanted = [f"R{clause}-{i}" for i in range(1, len(found) + 1)]
    assert [name for name, _, _, _ in found] == wanted
    assert all(name == link == anchor for name, link, anchor, _ in found)
    assert len(re.findall(r"^- \*\*", text, re.M)) == len(found), "a requirement is written in another way"


@pytest.mark.parametrize("clause", SECTIONS)
def test_requirements_have_a_level_that_fits_their_rules(clause: str) -> None:
    """A rule that gives errors stands beside a MUST, one that gives warnings beside a SHOULD."""
    severity = {rule.code: rule.severity for rule in all_rules()}
    for name, _, _, text in REQUIREMENT.findall(SECTIONS[clause]):
        assert re.search(r"\b(MUST|SHOULD|MAY)\b", text), name
        for code in re.findall(r"rules/([A-Z]\d{3})\.md", text):
            if severity[code] is Severity.ERROR:
                assert "MUST" in text, (name, code)
            if severity[code] is Severity.WARNING:
                assert "SHOULD" in text, (name, code)


# Citations in the code, and facts that chapters repeat.


def cited() -> Iterator[tuple[str, str]]:
    """Every clause that the package names, with where it does."""
    for rule in all_rules():
        yield rule.clause, f"rule {rule.code}"
    for path in sorted((ROOT / "i2s_spec").rglob("*.py*")) + sorted((ROOT / "pyx").rglob("*.*")):
        if path.suffix not in (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".h"):
            continue
        text = path.read_text(encoding="utf-8")
        for several in re.findall(r"\bclauses?\s+(\d+\.\d+(?:(?:,| and| to)\s+\d+\.\d+)*)", text):
            for clause in re.findall(r"\d+\.\d+", several):
                yield clause, str(path.relative_to(ROOT))
        if path.parent.name == "schema":
            for clause in re.findall(r"\"(\d{1,2}\.\d{1,2})\"", text):
                yield clause, str(path.relative_to(ROOT))


def test_cited_clauses_exist() -> None:
    clauses = list(cited())
    assert len(clauses) > 100
    for clause, where in clauses:
        chapter = clause.partition(".")[0]
        assert chapter in NUMBERS, (clause, where)
        if chapter in WRITTEN:
            assert clause in SECTIONS, (clause, where)


@pytest.mark.parametrize("rule", list(all_rules()), ids=lambda rule: rule.code)
def test_rules_stand_beside_their_clause(rule: Any) -> None:
    if rule.clause.partition(".")[0] in WRITTEN:
        assert f"[{rule.code}](rules/{rule.code}.md)" in SECTIONS[rule.clause]


def rows(clause: str) -> list[list[str]]:
    """The cells of every table row of a section."""
    lines = re.findall(r"^\| (.*) \|$", SECTIONS[clause], re.M)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


@pytest.mark.parametrize(
    ("record", "clause"),
    [
        (container.container("little"), "2.1"),
        (container.header("little"), "2.2"),
        (container.key_value("little"), "2.4"),
        (container.tensor_info("little"), "2.6"),
        (i2s.tail("little"), "6.1"),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_tables_of_fields(record: Any, clause: str) -> None:
    shown = {row[0]: row for row in rows(clause)}
    assert [name for name in shown if name.startswith("`")][: len(record.fields)] == [
        f"`{f.name}`" for f in record.fields
    ]
    for field in record.fields:
        assert field.meaning in shown[f"`{field.name}`"]


def test_table_of_the_header() -> None:
    at = 0
    for field, row in zip(container.header("little").fields, rows("2.2")[1:], strict=True):
        width = field.subcon.sizeof()
        assert row[1:3] == [str(at), "4 bytes" if field.name == "magic" else f"u{8 * width}"]
        at += width


def test_table_of_value_types() -> None:
    size = {types.ValueType.STRING: "8 + length", types.ValueType.ARRAY: "12 + elements"}
    wanted = [[str(int(t)), t.label, size.get(t, str(types.SMALLEST_VALUE[t]))] for t in types.ValueType]
    assert rows("2.5")[1:] == wanted


def tensor_type_row(kind: types.TensorType) -> list[str]:
    of_its_own = {
        types.two_bits_and_tail: "[5.2](05-payload.md#52-size)" if kind.name == "I2_S" else "as I2_S",
        types.two_bits_row_scales: "as I2_S, and 4 for each row",
        types.tl2_size: "see below",
    }
    size = str(kind.bytes) + (f", and {kind.row_bytes} for each row" if kind.row_bytes else "")
    whose = kind.family + (f"; {kind.note}" if kind.note else "")
    return [str(kind.number), kind.name, str(kind.block), of_its_own[kind.size] if kind.size else size, whose]


def test_table_of_tensor_types() -> None:
    shown = [row for row in rows("2.6") if row[0].isdecimal()]
    assert shown == [tensor_type_row(kind) for kind in types.TENSOR_TYPES]


def test_size_of_tl2() -> None:
    [formula] = re.findall(r"TL2 takes `(.*?)` bytes", SECTIONS["2.6"])
    for ne0, ne1 in ((256, 4), (1536, 4096), (2560, 6912), (8640, 3200)):
        size = -(-eval(formula, {"max": max, "ne0": ne0, "ne1": ne1}) // 32) * 32 + 32
        assert size == types.tl2_size((ne0, ne1))


def test_table_of_dialects() -> None:
    sign = {-1: "−1", 0: "0", 1: "+1", None: "·"}
    wanted = [
        ["layout", f"`{x.name}`", f"byte `{x.byte_of}` <br> shift `{x.shift_of}`",
         x.known_as + ("" if x.in_gguf else "; never in GGUF")]
        for x in dialect.LAYOUTS.values()
    ]  # fmt: skip
    for code_map in dialect.CODE_MAPS.values():
        trits = ", ".join(sign[trit] for trit in code_map.trits)
        wanted.append(["code map", f"`{code_map.name}`", f"codes 0 to 3: {trits}", code_map.known_as])
    for tail in dialect.TAILS.values():
        copies = "once" if tail.copies == 1 else f"{tail.copies} times"
        wanted.append(["tail", f"`{tail.name}`", f"the scale {copies}", tail.known_as])
    table = generated.table("dialects").splitlines()
    assert [line.strip("| ").split(" | ") for line in table[2:]] == wanted
    assert "```i2s-table\ndialects " in SECTIONS["5.5"]
    for name in re.findall(r"`(interleave-[\w/-]+)`", SECTIONS["5.5"]):
        assert str(dialect.parse(name)) == name


def test_bounds_of_odd_payloads() -> None:
    """What chapter 5 says is reported is what the linter reports."""
    text = " ".join(SECTIONS["5.4"].split())
    assert f"reports runs of {payload_stats.REGION:,} bytes: {4 * payload_stats.REGION:,} identical codes" in text
    assert f"{payload_stats.END} zero bytes, a whole block, at the end of a payload" in text
    assert f"{payload_stats.SMALL_END} where the payload has fewer than {payload_stats.END_FROM:,} bytes" in text
    low, high = payload_stats.USUAL_ZEROS
    assert f"a share of zeros outside {100 * low:.0f} to {100 * high:.0f} %" in text


def test_table_of_codes() -> None:
    shown = [[int(code), int(bits.strip("`"), 2), trit] for code, bits, trit in rows("5.4")[1:]]
    sign = {-1: "−1", 0: "0", 1: "+1", None: "undefined"}
    assert shown == [[code, code, sign[trit]] for code, trit in enumerate(dialect.CANONICAL.code_map.trits)]


def test_table_of_limits() -> None:
    declared = {name: value for name, value in vars(limits).items() if name.isupper() and type(value) is int}
    declared |= {limit.attribute: limit.default for limit in limits.NAMED.values()}
    shown = {row[0].strip("`"): int(row[1].replace(",", "")) for row in rows("12.2")[1:]}
    assert shown == declared


def test_table_of_quantization_rules() -> None:
    assert [row[0].strip("`") for row in rows("8.2")[1:]] == list(RULES_OF_QUANTIZATION)


def test_table_of_weights_and_their_codes() -> None:
    """What section 8.3 says of single weights is what the definition makes of them."""
    cases = {
        "0.0, −0.0": ([0.0, -0.0], [1, 1]),
        "float32(1e-6)": ([np.float32(1e-6)], [1]),
        "the next float32 above it": ([np.nextafter(np.float32(1e-6), np.float32(1))], [2]),
        "NaN": ([np.nan], [0]),
        "+∞, −∞": ([np.inf, -np.inf], [2, 0]),
    }
    table = {row[0]: [int(code) for code in row[1].split(",")] for row in rows("8.3")[1:]}
    for words, (weights, codes) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trits, _ = ternarise(np.array([*weights, 1.0], dtype=np.float32))
        assert (trits[:-1] + 1).tolist() == codes
        assert set(table[words]) == set(codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert float(ternarise(np.array([5e-7, -1e-7], dtype=np.float32))[1]) == np.float32(5e-7)


# The block that is decoded by hand.


def fences(clause: str) -> list[str]:
    return re.findall(r"^```text[^\n]*\n(.*?)^```", SECTIONS[clause], re.M | re.S)


def example() -> tuple[bytes, bytes, list[int]]:
    payload, scale, trits = fences("5.4")
    return bytes.fromhex(payload), bytes.fromhex(scale), ["-0+".index(sign) - 1 for sign in trits.split()]


def by_hand(payload: bytes, k: int) -> int:
    """The code of element k as section 5.3 says it, its two formulas run as they stand there."""
    [formulas] = [text for text in fences("5.3") if text.startswith("byte ")]
    at = {name: eval(text, {"k": k}) for name, text in (line.split(None, 1) for line in formulas.splitlines())}
    return payload[at["byte"]] >> at["shift"] & 3


def test_the_example_is_decoded_as_it_says() -> None:
    payload, _, trits = example()
    assert [by_hand(payload, k) - 1 for k in range(128)] == trits


def test_benchmarks_of_another_day_state_their_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = benchmarks.processors("codec")[0]
    committed = checkout.root() / "tests" / "bench" / "results" / f"{kind}.json"
    result = json.loads(committed.read_text(encoding="utf-8"))["codec"]
    for benchmark in result["benchmarks"].values():
        benchmark.pop("machine", None)
    later = {**result["machine"], "date": "2031-02-03", "load": 7.25}
    result["benchmarks"]["PTQ1_0"]["machine"] = later
    changed = tmp_path / "tests" / "bench" / "results" / f"{kind}.json"
    changed.parent.mkdir(parents=True)
    changed.write_text(json.dumps({"codec": result}), encoding="utf-8")
    monkeypatch.setattr(benchmarks, "root", lambda: tmp_path)
    shown = benchmarks.table("codec")
    for facts in (result["machine"], later):
        assert shown.count(f"{facts['date']}, {kind} ") == 1
        assert f"load {facts['load']} at the start" in shown


def test_the_example_is_what_the_codec_decodes() -> None:
    payload, scale, trits = example()
    decoded, value = reference.unpack(payload + scale + bytes(28), (1, 128))
    assert decoded[0].tolist() == trits
    assert float(value) == 0.75 == struct.unpack("<f", scale)[0]
    for byte, text in ((0, "00 01 01 01"), (1, "01 00 10 10")):
        assert f"`{payload[byte]:02x}`, in bits `{text}`" in re.sub(r"\s+", " ", SECTIONS["5.4"])
        assert [int(bits, 2) for bits in text.split()] == [by_hand(payload, k) for k in range(byte, 128, 32)]


def test_the_example_goes_on_as_it_says() -> None:
    payload, _, trits = example()
    text = re.sub(r"\s+", " ", SECTIONS["5.4"])
    [formula] = re.findall(r"element `k` of all 512 is `(.*?)`", text)
    whole = [eval(formula, {"k": k}) for k in range(512)]
    assert whole[:128] == trits
    packed = reference.pack(np.array(whole).reshape(4, 128), 0.75)
    assert packed[:32] == payload
    assert hashlib.sha256(packed[:128]).hexdigest() in text
    assert packed[128:] == bytes.fromhex("0000403f") + bytes(28)
