"""A change that is one idea is made in as few files as it needs, and everything else follows.

Each test makes a change in a copy of the checkout (a layout, an architecture, the record of a run, a rule, an option, a
message, a report format) and runs the commands and tests of the copy. `PLACES` names the files that are changed, and the
lines before which text is inserted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from finding_codes import codes

ROOT: Final = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.thorough


class Place(NamedTuple):
    """A file of the checkout, and the text before which something is inserted; without a text, the end of the file."""

    path: str
    before: str = ""


#: All places that the changes touch.
PLACES: Final = {
    "layout": Place("i2s_spec/schema/dialect.py", ")\n\n#: Every code map"),
    "architecture": Place("i2s_spec/schema/architectures.py", ")\n\n#: Every declared architecture by its name"),
    "recipe": Place("i2s_spec/convert/recipes.py", "}  # fmt: skip\n\n#: Named shapes"),
    "graph": Place("i2s_spec/model/architectures.py", "Make = Callable["),
    "graph name": Place("i2s_spec/model/architectures.py", "}\n\n\ndef graph_of("),
    "record": Place("i2s_spec/linter/runtimes/records.json", '\n],\n"devices": ['),
    "runtime": Place("i2s_spec/schema/runtimes.py", ")  # fmt: skip\n\nRUNTIME: Final"),
    "rule": Place("i2s_spec/linter/rules/keys.py"),
    "broken copy": Place("i2s_spec/testing/malformed/container.py"),
    "message": Place("i2s_spec/linter/rules/placement.py", "the file ends at byte {got}, but its"),
    "option": Place("i2s_spec/linter/options.py", "    suppressed: Mapping[str, str] = "),
    "format": Place("i2s_spec/linter/report/markdown.py"),
    "format name": Place("i2s_spec/linter/report/__init__.py", '    "markdown": ('),
}

#: Folders of a checkout that a copy does without, at its top and anywhere.
AT_THE_TOP: Final = frozenset({".git", ".venv", "shared", "build", "dist"})
ANYWHERE: Final = shutil.ignore_patterns("__pycache__", ".hypothesis", ".*_cache", "node_modules", "*.so", "*.egg-info")


def left_out(folder: str, names: list[str]) -> set[str]:
    """What is not copied of a folder."""
    return ANYWHERE(folder, names) | (AT_THE_TOP & set(names) if Path(folder) == ROOT else set())


class Copy:
    """A copy of the checkout, with the files that a change touched."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.work = folder / "work"
        self.work.mkdir()
        shutil.copytree(ROOT, self.root, ignore=left_out, symlinks=True)
        for compiled in ROOT.glob("i2s_spec/**/*.so"):
            (self.root / compiled.relative_to(ROOT)).symlink_to(compiled)
        self.touched: set[str] = set()

    def insert(self, name: str, text: str) -> None:
        place = PLACES[name]
        path = self.root / place.path
        content = path.read_text(encoding="utf-8")
        if place.before:
            assert content.count(place.before) == 1, f"{place.path} has no longer one place to insert a {name}"
            content = content.replace(place.before, text + place.before)
        else:
            content += text
        path.write_text(content, encoding="utf-8")
        self.touched.add(place.path)

    def python(self, *args: str, status: int = 0, cwd: Path | None = None) -> str:
        """The output of a Python that imports the copy."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("I2S_", "PYTEST_"))}
        environment |= {
            "PYTHONPATH": str(self.root),
            "I2S_DEBUG": "1",
            "COLUMNS": "160",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, *args]
        done = subprocess.run(
            command,
            cwd=cwd or self.work,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=900,
            check=False,
        )
        assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def i2s(self, *args: str, status: int = 0) -> str:
        """The output of a command."""
        return self.python("-m", "i2s_spec", *args, status=status)

    def lint(self, *args: str, status: int = 0) -> dict[str, Any]:
        """The report on the only file."""
        report: dict[str, Any] = json.loads(self.i2s("lint", *args, "--format", "json", status=status))["files"][0]
        return report

    def tests(self, *paths: str) -> None:
        """Tests of the copy pass."""
        options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not thorough")
        self.python("-m", "pytest", *options, *paths, cwd=self.root)

    def page(self, name: str) -> str:
        """A generated page of the site."""
        if not (self.root / "pages").exists():
            self.python("-m", "i2s_spec", "spec", "write", "pages", cwd=self.root)
        return (self.root / "pages" / name).read_text(encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


# A layout.

#: In no real program, and with groups in an order for which there is no kernel.
LAYOUT: Final = """\
    Layout(
        "swapped-32",
        byte_of=Formula("k // 32 * 8 + k % 8"),
        shift_of=Formula("6 - (k % 32 // 16 + k % 16 // 8 * 2) * 2"),
        block=32,
        known_as="a test",
    ),
"""


def test_a_layout(copy: Copy) -> None:
    copy.insert("layout", LAYOUT)
    assert len(copy.touched) == 1
    copy.python("-c", "from i2s_spec.convert.trained import write_trained as w; w('t.gguf', dialect='swapped-32')")
    _one_layout_is_converted(copy)
    _one_layout_is_recognized(copy)
    _one_layout_is_exported(copy)
    copy.python("-m", "i2s_spec", "vectors", "register", cwd=copy.root)
    copy.i2s("vectors", "export", "suite")
    assert (copy.work / "suite" / "manifest.json").read_text(encoding="utf-8").count("layout.swapped-32") >= 3
    assert "| `swapped-32` | **`swapped-32`** |" in copy.page("layouts.md")
    assert "| layout | `swapped-32` | byte `k // 32 * 8 + k % 8`" in copy.page("05-payload.md")
    copy.tests(
        "tests/schema/test_dialect.py", "tests/codec/test_native.py", "tests/codec/test_reference_payload.py",
        "tests/codec/test_reference_recode.py", "tests/codec/test_native_any_layout.py",
        "tests/exports/test_json_form_exports.py", "tests/testing/test_mutator.py", "tests/testing/test_strategies.py",
        "tests/layout_inference/test_channel_alignment.py", "tests/compare/test_known_weights_lint_reference.py",
        "tests/linter/report/test_html.py", "tests/cli/test_transcripts.py",
    )  # fmt: skip


def _one_layout_is_converted(copy: Copy) -> None:
    copy.i2s("new", "a.gguf")
    copy.i2s("convert", "a.gguf", "b.gguf", "--to", "swapped-32")
    copy.i2s("convert", "b.gguf", "c.gguf", "--from", "swapped-32", "--to", "canonical")
    one, other, back = ((copy.work / f"{name}.gguf").read_bytes() for name in "abc")
    assert one == back != other
    tensor = "blk.0.attn_q.weight"
    for model, dialect in (("a", "canonical"), ("b", "swapped-32")):
        copy.i2s("decode", f"{model}.gguf", tensor, f"{model}.npy", "--dialect", dialect)
    assert np.array_equal(np.load(copy.work / "a.npy"), np.load(copy.work / "b.npy"))
    copy.i2s("encode", "a.npy", "a.i2s", "--dialect", "swapped-32", "--scale", "0.5")
    payload = (copy.work / "a.i2s").read_bytes()[:-32]
    assert payload in other, "encode and convert pack alike"
    weights = [copy.i2s("hash", "a.gguf"), copy.i2s("hash", "b.gguf", "--dialect", "swapped-32")]
    assert len({line.splitlines()[-1] for line in weights}) == 1
    assert "I2_S" in copy.i2s("show", "b.gguf")


def _one_layout_is_recognized(copy: Copy) -> None:
    report = copy.lint("t.gguf", status=1)
    found = next(finding for finding in report["findings"] if finding["code"] == "I213")
    assert "laid out as swapped-32" in found["message"]
    identified = copy.i2s("identify", "t.gguf")
    assert "Where do its codes lie?  swapped-32 (certain)" in identified
    copy.i2s("convert", "t.gguf", "r.gguf", "--from", "swapped-32", "--to", "canonical")
    assert copy.lint("r.gguf")["ok"]


def _one_layout_is_exported(copy: Copy) -> None:
    for form in ("ksy", "hexpat", "c", "wgsl", "cuda", "json"):
        text = copy.i2s("schema", "--format", form).lower()
        assert "swapped_32" in text or "swapped-32" in text, form
    assert "swapped-32" in copy.python("-c", "from i2s_spec.exports import javascript; print(javascript.text())")


# An architecture.

ARCHITECTURE: Final = """\
    Architecture(
        "tinyllama-x",
        "a made-up decoder",
        (
            inventory.TOKEN_EMBD, inventory.ATTN_NORM, inventory.FFN_DOWN, inventory.FFN_GATE, inventory.FFN_UP,
            inventory.FFN_NORM, inventory.ATTN_SUB_NORM, inventory.ATTN_K, inventory.ATTN_OUTPUT, inventory.ATTN_Q,
            inventory.ATTN_V, inventory.OUTPUT_NORM,
        ),
        own_keys=(Key("{arch}.tiny", ("u32",), keys.OPTIONAL, ("people",), "Made up.", "3.2"),),
        activation="silu",
        rope="neox",
        head="tied",
        whole_head_rope=True,
    ),
"""
RECIPE: Final = """\
    "tinyllama-x": Recipe(
        (*_LLAMA_KEYS, "{arch}.rope.scaling.type"), Size(2, 128, 128, 4, 2, 272, 512),
        made_up_vocabulary.byte_level, 10000.0, 1e-5, "gpt2", "llama-bpe",
    ),
"""
GRAPH: Final = '''\
def tinyllama_x(g: Builder, h: Hyperparameters, s: GraphSettings) -> Graph:
    """A made-up decoder: llama with a sub-norm before Wo."""
    x = _embedded(g)
    for i in range(h.layers):
        with g.in_layer(i):
            a = g.rms("attn_norm", x, eps=h.eps)
            q, k, v = (g.linear(f"{c}cur", a, f"attn_{c.lower()}") for c in "QKV")
            q, k = _rope(g, "Qcur", q, h.at(i).heads, h, s), _rope(g, "Kcur", k, h.at(i).heads_kv, h, s)
            o = _attention(g, q, k, v, h.at(i), s, soft_max="kq_soft_max_ext")
            o = g.rms("attn_sub_norm", o, eps=h.eps)
            x = g.add("add", "ffn_inp", x, g.linear("attn_out", o, "attn_output"))
            b = g.rms("ffn_norm", x, eps=h.eps)
            u, t = g.linear("ffn_up", b, "ffn_up"), g.linear("ffn_gate", b, "ffn_gate")
            m = g.add("multiply", "ffn_gate_par", _activated(g, t, s), u)
            x = g.add("add", "l_out", x, g.linear("ffn_out", m, "ffn_down"))
    return _logits(g, x, h, s)


'''


def _with_architecture(copy: Copy) -> None:
    copy.insert("architecture", ARCHITECTURE)
    copy.insert("recipe", RECIPE)
    copy.insert("graph", GRAPH)
    copy.insert("graph name", '    "tinyllama-x": tinyllama_x,\n')


def test_an_architecture(copy: Copy) -> None:
    _with_architecture(copy)
    assert len(copy.touched) == 3
    copy.i2s("new", "x.gguf", "--arch", "tinyllama-x")
    report = copy.lint("x.gguf", "--runtimes")
    assert report["ok"]
    assert codes(report) == {"P201"}
    tried = {each["runtime"]: each["loads"] for each in report["runtimes"] if each["loads"] != "not tried"}
    assert tried == {"ollama": "no"}, "it refuses the type, whatever the architecture is"
    assert "tinyllama-x" in copy.i2s("show", "x.gguf")
    copy.i2s("run", "x.gguf", "-p", "hello", "-n", "3", "--ids")
    copy.i2s("golden", "record", "x.gguf", "--tokens", "1,2,3", "-o", "record")
    assert list((copy.work / "record").iterdir())
    _rules_of_metadata_apply(copy)
    _generators_pick_it_up(copy)
    for page, row in (
        ("03-metadata.md", "| `tinyllama-x` | a made-up decoder | gpt2 |"), ("03-metadata.md", "| `tinyllama-x.tiny` |"),
        ("04-inventories.md", "| `tinyllama-x` | attn_norm, ffn_down,"), ("09-inference.md", "`tinyllama-x` | silu |"),
    ):  # fmt: skip
        assert row in copy.page(page)
    copy.tests(
        "tests/model/test_architecture_parts.py", "tests/schema/test_architectures_architecture.py",
        "tests/linter/test_untried_architectures.py", "tests/linter/test_records_run_citations.py",
        "tests/linter/test_metadata_rules.py", "tests/linter/test_inventory_rules.py", "tests/testing/test_strategies.py",
    )  # fmt: skip


def _rules_of_metadata_apply(copy: Copy) -> None:
    """A missing tensor, a missing key and a value that is out of bounds are found."""
    program = """\
        from pathlib import Path
        from i2s_spec.testing.sample import Model
        Path("tensor.gguf").write_bytes(Model("tinyllama-x").without("blk.0.attn_sub_norm.weight").built())
        Path("key.gguf").write_bytes(Model("tinyllama-x").drop("{arch}.block_count").built())
        Path("value.gguf").write_bytes(Model("tinyllama-x").set("{arch}.attention.layer_norm_rms_epsilon", -1.0).built())
    """
    copy.python("-c", dedent(program))
    assert "M101" in codes(copy.lint("tensor.gguf", status=1))
    assert "M002" in codes(copy.lint("key.gguf", status=1))
    assert "M004" in codes(copy.lint("value.gguf", status=1))


def _generators_pick_it_up(copy: Copy) -> None:
    program = """\
        from i2s_spec.testing.mutator import dictionary
        words = dictionary()
        print(b"tinyllama-x" in words, b"tinyllama-x.tiny" in words)
    """
    assert copy.python("-c", dedent(program)).split() == ["True", "True"]


# The record of a run.

RUNTIME: Final = """\
    Runtime(
        "engine-x", "engine-x, 1.0", "engine", "1.0", _NOT_READ, frozenset(), "run engine-x/llama.i2_s",
        programs=("engine-x",), recorded=True,
    ),
"""


def test_the_record_of_a_run(copy: Copy) -> None:
    run = {
        "id": "engine-x/llama.i2_s", "program": "engine-x", "version": "1.0", "date": "2026-12-01", "file": "llama.i2_s",
        "loads": True, "end": "status 0", "printed": ["loaded"], "shown": "", "computed": [],
    }  # fmt: skip
    copy.insert("record", ",\n  " + json.dumps(run))
    copy.insert("runtime", RUNTIME)
    assert len(copy.touched) == 2
    copy.i2s("new", "llama.gguf", "--arch", "llama", "--embd", "256", "--ff", "512")
    copy.i2s("new", "qwen3.gguf", "--arch", "qwen3")
    found = {each["runtime"]: each for each in copy.lint("llama.gguf", "--runtimes")["runtimes"]}["engine-x"]
    assert (found["loads"], found["computes"]) == ("yes", "not tried")
    assert run["id"] in {reason["citation"]["record"] for reason in found["reasons"] if reason["citation"]}
    other = {each["runtime"]: each for each in copy.lint("qwen3.gguf", "--runtimes")["runtimes"]}["engine-x"]
    assert (other["loads"], other["reasons"][0]["source"]) == ("not tried", "")
    page = copy.page("runtimes.md")
    assert "engine-x, 1.0" in page
    assert "2026-12-01" in page
    copy.tests("tests/linter/test_records_run_citations.py", "tests/schema/test_runtimes_declared.py")


# A rule, and its message.

RULE: Final = '''

@rule("G998", "key-of-a-test", "the key {got} is there", severity=WARNING, clause="2.4")
def key_of_a_test(subject: LintContext) -> Iterator[Finding]:
    """The file has the key `i2s.test`.

    Why: a test wants to see it.

    Example: `i2s.test` = 1.

    Fix: remove the key.
    """
    metadata = subject.file.metadata
    if "i2s.test" in metadata:
        yield key_of_a_test.at(metadata.entry("i2s.test").span, got="i2s.test")
'''
BROKEN_COPY: Final = """\
add("key_of_a_test", "G998", f"key_values[{len(Draft().records().key_values)}]",
    lambda: with_keys(key_value(b"i2s.test", ValueType.UINT32, 1)))
"""


def test_a_rule(copy: Copy) -> None:
    copy.insert("rule", RULE)
    copy.insert("broken copy", BROKEN_COPY)
    assert len(copy.touched) == 2
    program = (
        "from i2s_spec.testing.malformed import malformed; case = next(c for c in malformed() if c.code == 'G998')"
    )
    copy.python("-c", f"{program}; open('broken.gguf', 'wb').write(case.data)")
    assert codes(copy.lint("broken.gguf")) == {"G998"}
    assert "a test wants to see it" in copy.i2s("explain", "G998")
    assert "the key i2s.test is there" in copy.i2s("explain", "G998", "--example").replace("'", "")
    rules = json.loads(copy.i2s("rules", "--format", "json"))["rules"]
    assert "G998" in {each["code"] for each in rules}
    sarif = json.loads(copy.i2s("lint", "broken.gguf", "--format", "sarif"))
    assert "G998" in {result["ruleId"] for result in sarif["runs"][0]["results"]}
    before = _text_files(copy.root)
    assert "a test wants to see it" in copy.page("rules/G998.md")
    copy.tests(
        "tests/linter/test_rules.py", "tests/linter/test_engine_broken_copies.py", "tests/cli/test_transcripts.py"
    )
    changed = {name for name, text in _text_files(copy.root).items() if before.get(name) != text}
    assert not changed, "the text of another file says something about all rules"


def _text_files(root: Path) -> dict[str, bytes]:
    """What is in git: the sources of the site, tests and package, by their paths."""
    folders = ("spec", "tests", "i2s_spec")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in root.joinpath(folder).rglob("*")
        if path.is_file() and path.suffix in (".py", ".md", ".txt", ".json", ".tsv", ".toml")
    }


def test_a_message(copy: Copy) -> None:
    copy.insert("message", "TOO SHORT: ")
    assert len(copy.touched) == 1
    _short_file(copy)
    message = next(finding["message"] for finding in copy.lint("short.gguf", status=1)["findings"])
    assert message.startswith("TOO SHORT: the file ends at byte ")
    for form in ("text", "sarif", "junit", "github", "markdown", "html"):
        assert "TOO SHORT: " in copy.i2s("lint", "short.gguf", "--format", form, status=1), form


def _short_file(copy: Copy) -> None:
    """A model that lacks its last bytes."""
    copy.i2s("new", "x.gguf")
    (copy.work / "short.gguf").write_bytes((copy.work / "x.gguf").read_bytes()[:-40])


# An option.

OPTION: Final = """\
    test_level: int = option(
        "--test-level",
        kind=OptionKind.COUNT,
        default=3,
        group=OptionGroup.RULES,
        env="I2S_TEST_LEVEL",
        key="test-level",
        help="How much a test does.",
    )
"""


def test_an_option(copy: Copy) -> None:
    """The command line, its help, the configuration, the environment, the library and the key of results have it."""
    copy.insert("option", OPTION)
    assert len(copy.touched) == 1
    assert "How much a test does." in copy.i2s("lint", "--help")
    copy.i2s("new", "x.gguf")
    copy.i2s("lint", "x.gguf", "--test-level", "5")
    copy.i2s("lint", "x.gguf", "--test-level", "0", status=2)
    (copy.work / "i2s.toml").write_text("test-level = 7\n", encoding="utf-8")
    copy.i2s("lint", "x.gguf")
    program = """\
        from i2s_spec.linter.options import Options, found
        from i2s_spec.linter.cluster.check import options_key
        import i2s_spec as i2s
        print(found().values["test-level"], Options().test_level)
        print(options_key(Options(test_level=4)) != options_key(Options()))
        print(i2s.lint("x.gguf", test_level=4).ok)
    """
    assert copy.python("-c", dedent(program)).split() == ["7", "3", "True", "True"]
    (copy.work / "i2s.toml").write_text("test-level = 0\n", encoding="utf-8")
    copy.i2s("lint", "x.gguf", status=2)
    copy.tests("tests/linter/test_option_declarations.py", "tests/linter/test_options_config.py")


# A report format.

FORMAT: Final = '''

class Codes(Format):
    """The codes of the findings, a line for each file."""

    def _file(self, file_report: FileReport) -> str:
        return " ".join(finding["code"] for finding in file_report["findings"]) + "\\n"
'''


def test_a_report_format(copy: Copy) -> None:
    module = PLACES["format"].path.removesuffix(".py").replace("/", ".")
    copy.insert("format", FORMAT)
    copy.insert("format name", f'    "codes": ("{module}", "Codes"),\n')
    assert len(copy.touched) == 2
    _short_file(copy)
    assert "codes" in copy.i2s("lint", "--help")
    assert copy.i2s("lint", "short.gguf", "--format", "codes", status=1).split() == ["G401"]
    copy.i2s("lint", "short.gguf", "--report", "codes=codes.txt", status=1)
    assert (copy.work / "codes.txt").read_text(encoding="utf-8").split() == ["G401"]
