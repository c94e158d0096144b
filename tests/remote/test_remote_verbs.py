"""Every command that reads accepts an address; a sample reports what it did not read, and how much it fetched."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import click
import pytest
from examples import share
from range_server import Server, Zeros, every, status

from i2s_spec.cli import main
from i2s_spec.cli.verbs import VERBS as VERBS_OF_CLICK
from i2s_spec.cli.verbs import cli
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path
from i2s_spec.linter.report import FORMATS, make
from i2s_spec.linter.report_data import Totals
from i2s_spec.remote.policy import Policy, current, using

TENSOR = "blk.0.attn_q.weight"


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, *argv: str) -> None:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        self.status: Any = 0
        try:
            main(list(argv))
        except SystemExit as stop:
            self.status = stop.code
        finally:
            sys.stdout, sys.stderr = before
        self.out, self.err = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]


@pytest.fixture
def url(server: Server, model: Path) -> str:
    server.files["/m.gguf"] = model.read_bytes()
    return server.url + "/m.gguf"


@pytest.mark.parametrize(
    "verb",
    [
        ["lint", "--format", "json"], ["show", "--json"], ["dump"], ["dump", TENSOR], ["identify", "--json"],
        ["hash", "--json"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_verb_says_the_same_of_an_address(url: str, model: Path, verb: list[str]) -> None:
    name, *more = verb
    remote, local = Said(name, "--allow-private", url, *more), Said(name, str(model), *more)
    assert (remote.status, remote.err) == (local.status, local.err)
    expected = local.out.replace(str(model), url)
    if name == "lint":
        report, wanted = json.loads(remote.out)["files"][0], json.loads(expected)["files"][0]
        cost = {"requests": 1, "bytes": model.stat().st_size}
        assert report.pop("remote") == {"version": '"one"', "etag": '"one"', **cost}
        assert report.pop("uri") == url
        wanted.pop("uri")
        assert report == wanted
    else:
        assert remote.out == expected
    assert current() == Policy()  # the verb's policy ended with the verb


def test_diff_and_decode(url: str, model: Path, tmp_path: Path) -> None:
    assert Said("diff", "--allow-private", url, str(model)).status == 0
    for place, name in ((url, "a.npy"), (str(model), "b.npy")):
        assert Said("decode", "--allow-private", place, TENSOR, str(tmp_path / name)).status == 0
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


#: Every verb that reads a GGUF file, with what it needs besides.
VERBS = [
    "lint URL", "show URL", "dump URL", "doctor URL", "identify URL", f"decode URL {TENSOR} OUT.npy", "hash URL",
    "diff URL URL", "convert URL OUT --to interleave-64", "quantize URL -o OUT --also blk.0.ffn_norm.weight",
    "export URL -o OUT", "fix URL -o OUT", "sanitize URL -o OUT",
    "run URL --tokens 1,2 -n 1", "perplexity URL --tokens 1,2,3,4,5,6,7,8 --context 4", "embed URL --text x",
    "golden record URL --tokens 1,2 -o OUT",
]  # fmt: skip


def filled(line: str, url: str, folder: Path) -> list[str]:
    names = {"URL": url, "OUT": str(folder / "out"), "OUT.npy": str(folder / "out.npy")}
    return [names.get(word, word) for word in line.split()]


@pytest.mark.parametrize("line", VERBS)
def test_a_server_that_gives_nothing_has_an_exit_code(url: str, server: Server, line: str, tmp_path: Path) -> None:
    argv = filled(line, url, tmp_path)
    refused = Said(*argv)
    assert refused.status == 5
    assert "127.0.0.1 is in no public network; --allow-private allows it" in " ".join(
        (refused.out + refused.err).split()
    )
    assert server.seen == []
    server.faults.append(every(1, status(404)))
    gone = Said(*argv, "--allow-private")
    assert gone.status == 5
    assert "404" in gone.out + gone.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [each for each in VERBS if each.split()[0] in ("convert", "fix", "run", "golden")])
def test_verbs_that_make_something_read_addresses(url: str, line: str, tmp_path: Path) -> None:
    assert Said(*filled(line, url, tmp_path), "--allow-private").status == 0


def test_every_verb_that_reads_is_listed() -> None:
    """Verbs whose first argument is a file have the options of addresses; the others read none."""
    listed = {line.split()[0] for line in VERBS} | {"validate", "import", "verify"}
    for name in VERBS_OF_CLICK:
        command = cli.get_command(click.Context(cli), name)
        leaves = command.commands.values() if isinstance(command, click.Group) else [command]
        has = any(option.name == "allow_private" for leaf in leaves for option in leaf.params)
        assert has == (name in listed), name


def test_limits_of_a_verb(url: str) -> None:
    assert "S917" in Said("lint", "--allow-private", "--remote-limit", "bytes=1000", url).out
    for wrong in ("bytes=0", "size=1", "bytes"):
        assert Said("lint", "--remote-limit", wrong, url).status == 2


def test_the_worst_exit_code_counts(url: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "none.gguf").write_bytes(b"no model")
    gone = url + ".gone"
    for names, code in (([str(model), gone], 5), ([gone, str(tmp_path / "none.gguf")], 3), ([url], 0)):
        assert Said("lint", "--allow-private", "-q", *names).status == code


def test_worker_processes_read_addresses_too(url: str, model: Path) -> None:
    found = Said("lint", "--allow-private", "--jobs", "2", "--format", "jsonl", url, str(model), url + ".gone")
    reports = [json.loads(line) for line in found.out.splitlines()][:3]
    assert [report["ok"] for report in reports] == [True, True, False]
    assert found.status == 5


def test_options_carry_the_policy(url: str) -> None:
    options = pickle.loads(pickle.dumps(Options(remote=Policy(private=True))))
    assert options.remote == Policy(private=True)
    assert lint_path(url, options)["ok"]
    assert [f["code"] for f in lint_path(url, Options())["findings"]] == ["S916"]


def test_without_the_extra_one_sentence_says_what_to_install(url: str) -> None:
    code = "import sys; sys.modules['urllib3'] = None; from i2s_spec.cli import main; main(sys.argv[1:])"
    for verb in ("lint", "show"):
        run = subprocess.run(
            [sys.executable, "-c", code, verb, url], capture_output=True, encoding="utf-8", check=False
        )
        assert (run.returncode, run.stdout) == (2, "")
        assert (
            run.stderr
            == "i2s: reading http:// needs the extra [remote]: pip install -e '.[remote]' in a checkout of i2s-spec\n"
        )


def test_local_files_import_nothing_that_asks_servers(model: Path) -> None:
    code = (
        "import sys; from i2s_spec.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if 'i2s_spec.remote.' in name or 'urllib3' in name], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "lint", str(model)], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stderr == "['i2s_spec.remote.policy']\n"  # the limits, which are plain data


# --- sampling ---


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose matrices are larger than their samples."""
    from i2s_spec.convert.new import new

    path = tmp_path_factory.mktemp("large") / "large.gguf"
    new(path, "bitnet-b1.58", layers=1, embd=1024, ff=2048)
    return path


@pytest.mark.parametrize(
    ("verb", "most"), share([(["show"], 12), (["show", "--no-tensors"], 8), (["show", "--json"], 12)], every=2), ids=str
)
def test_a_server_of_single_ranges_gets_few_requests(server: Server, verb: list[str], most: int) -> None:
    file, _, scales = full_size()
    server.files["/m.gguf"], server.multipart = file, False
    found = Said(verb[0], "--allow-private", f"{server.url}/m.gguf", *verb[1:])
    assert (found.status, found.err) == (0, "")
    assert len(server.seen) <= most
    if verb == ["show", "--json"]:
        about = {each["name"]: each for each in json.loads(found.out)["tensors"]}
        unread = {name for name, each in about.items() if "scale_unread" in each}
        assert all(about[name]["scale"] is None for name in unread)
        assert {name: about[name]["scale"] for name in scales.keys() - unread} == {
            name: scale for name, scale in scales.items() if name not in unread
        }
        assert 2 <= len(scales) - len(unread) <= 12
        assert {*list(scales)[:1], *list(scales)[-1:]}.isdisjoint(unread)
    if verb == ["show"]:
        count = found.out.count("  not read")
        assert f"{count:,} scales were not read: each would be a request of its own" in found.out
        server.seen.clear()
        more = Said("show", "--allow-private", "--remote-limit", "sample=300", f"{server.url}/m.gguf")
        assert "not read" not in more.out
        assert 210 < len(server.seen) < 230


@pytest.mark.parametrize("multipart", [True, False], ids=["many", "single"])
@pytest.mark.parametrize("verb", share([["dump"], ["dump", "--json"], ["dump", "--limit", "100"], ["dump", "data"]], 2))
def test_a_dump_of_a_whole_file_needs_few_requests(server: Server, verb: list[str], multipart: bool) -> None:
    """The output needs few requests; parts that were not read are marked as such, and nothing is invented for them."""
    file, base, scales = full_size()
    server.files["/m.gguf"], server.multipart = file, multipart
    name, *more = verb
    found = Said(name, "--allow-private", f"{server.url}/m.gguf", *more)
    assert (found.status, found.err) == (0, "")
    assert len(server.seen) <= 14
    assert sum(b - a for seen in server.seen for a, b in seen.ranges) < 1.6 * base
    if verb == ["dump", "--json"]:
        nodes = {node["path"]: node for node in json.loads(found.out)["nodes"]}
        tails = [node for path, node in nodes.items() if path.endswith("tail.scale")]
        read = [node["value"] for node in tails if node["kind"] == "field"]
        assert len(tails) == len(scales)
        assert set(read) <= set(scales.values())
        assert len(read) == len(scales) if multipart else 2 <= len(read) < 12
        assert all("not read" in node["what"] for node in tails if node["kind"] == "elided")
    else:
        assert ("bytes, not read" in found.out) is not multipart
    if verb == ["dump"] and not multipart:
        server.seen.clear()
        whole = Said("dump", "--allow-private", "--remote-limit", "sample=400", f"{server.url}/m.gguf")
        assert "not read" not in whole.out
        assert 210 < len(server.seen) < 320


def test_some_scales_of_a_server_of_single_ranges_take_no_others_along(server: Server) -> None:
    file, _, scales = full_size()
    server.files["/m.gguf"], server.multipart = file, False
    with using(Policy(private=True)), open_file(server.url + "/m.gguf") as opened:
        names = iter(scales)
        header = len(server.seen)
        for _ in range(4):
            assert opened.tensors[name := next(names)].scale() == scales[name]
        assert len(server.seen) <= header + 5
        assert {name: opened.tensors[name].scale() for name in names} == dict(list(scales.items())[4:])
        assert len(server.seen) <= header + 5 + 206


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_sample_is_never_reported_as_plain_ok(large: Path, server: Server, form: str) -> None:
    server.files["/large.gguf"] = large.read_bytes()
    for place in (str(large), server.url + "/large.gguf"):
        written = make(form)
        with using(Policy(private=True)):
            report = lint(place, payload="sample", details=type(written).details)
        assert report.ok
        assert report.sampled is not None
        assert set(report.sampled.not_evaluated) >= {"I205", "I207", "I208", "I315", "I316"}
        assert ("I213" in report.sampled.not_evaluated) == place.startswith("http")
        assert "I201" in report.sampled.in_part
        assert not {"I302", "I314"} & {*report.sampled.not_evaluated, *report.sampled.in_part}
        totals = Totals()
        totals.add(report.as_dict())
        text = written.begin() + written.file(report) + written.end(totals)
        assert "sampled" in text
        if form in ("shields", "statistics"):  # which show only a few words
            continue
        assert "I205" in text
        assert ("requests" in text) == place.startswith("http")
        if form in ("text", "concise", "markdown", "html"):
            assert "sampled, no error in what was read" in text


def test_a_sample_that_is_everything_says_so(model: Path) -> None:
    report = lint(str(model), payload="sample")
    assert report.sampled is not None
    assert report.sampled == ((), (), None)
    assert "every rule was evaluated" in make("text").file(report)


def test_a_sampled_report_fits_its_schema(large: Path, url: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    import i2s_spec

    schema = json.loads((Path(i2s_spec.__file__).parent / "linter/report/lint.schema.json").read_text())
    said = Said("lint", "--allow-private", "--payload", "sample", "--format", "json", str(large), url)
    document = json.loads(said.out)
    jsonschema.validate(document, schema)
    assert [("sampled" in file, "remote" in file) for file in document["files"]] == [(True, False), (True, True)]
    assert document["summary"]["sampled"] == 2


# --- a file of full size ---


@cache
def full_size() -> tuple[Zeros, int, dict[str, float]]:
    """A file of the shape of BitNet-b1.58-2B-4T, of which only header and scales are there; where its data begin; scales."""
    rows, ff, key_value, layers = 2560, 6912, 640, 30
    i2s = {
        "attn_q": (rows, rows), "attn_k": (rows, key_value), "attn_v": (rows, key_value), "attn_output": (rows, rows),
        "ffn_gate": (rows, ff), "ffn_up": (rows, ff), "ffn_down": (ff, rows),
    }  # fmt: skip
    tensors = [("token_embd.weight", (rows, 128_256), 1), ("output_norm.weight", (rows,), 0)]
    for layer in range(layers):
        tensors += [(f"blk.{layer}.{name}.weight", ne, 36) for name, ne in i2s.items()]
        tensors += [(f"blk.{layer}.{name}.weight", (rows,), 0) for name in ("attn_norm", "ffn_norm", "attn_sub_norm")]
    texts = [b"token %06d" % number for number in range(128_256)]
    merges = [b"one %05d %05d" % (number, number) for number in range(230_000)]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), 3)
    head += text(b"general.architecture") + struct.pack("<I", 8) + text(b"bitnet-b1.58")
    for key, values in ((b"tokenizer.ggml.tokens", texts), (b"tokenizer.ggml.merges", merges)):
        head += text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))
    offset, scales, places = 0, {}, {}
    for name, ne, kind in tensors:
        head += text(name.encode()) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, offset)
        size = prod(ne) * (4 if kind == 0 else 2)
        if kind == 36:
            size = prod(ne) // 4 + 32
            scales[name] = float(1 + len(scales))
            places[offset + size - 32] = struct.pack("<f", scales[name])
        offset += size
    base = -(-len(head) // 32) * 32
    return Zeros(base + offset, {0: head, **{base + at: data for at, data in places.items()}}), base, scales


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def test_header_and_scales_of_a_file_of_the_full_size(server: Server) -> None:
    file, base, scales = full_size()
    assert base > 8_000_000
    assert len(scales) == 210
    server.files["/cdn"], server.redirects["/m.gguf"] = file, "/cdn?Signature=1"
    with using(Policy(private=True)), open_file(server.url + "/m.gguf") as opened:
        found = {name: tensor.scale() for name, tensor in opened.tensors.items() if name in scales}
        usage = opened.source.usage  # type: ignore[attr-defined]
    assert found == scales
    assert usage.requests == len(server.seen) <= 12
    assert usage.bytes <= 1.1 * base
    server.seen.clear()
    with using(Policy(private=True)):
        report = lint(server.url + "/m.gguf", payload="sample", select=("I3", "G"))
    assert report.remote is not None
    assert report.remote.requests == len(server.seen) <= 16
    assert report.remote.bytes < 4 * base
    assert not report.bugs


@pytest.mark.parametrize(("limit", "read"), share([(12, 3), (1, 2), (40, 31), (10_000, 210)], every=3))
def test_a_sample_of_a_server_of_single_ranges(server: Server, limit: int, read: int) -> None:
    """The scales that were read are those that the budget allows, and the report says how many."""
    file, base, scales = full_size()
    server.multipart = False
    server.files["/cdn"], server.redirects["/m.gguf"] = file, "/cdn?Signature=1"
    with using(Policy(private=True, sample=limit)):
        report = lint(server.url + "/m.gguf", payload="sample")
    assert report.remote is not None
    assert report.sampled is not None
    assert not report.bugs
    assert report.remote.requests == len(server.seen) == 9 + read
    if limit == 12:
        assert report.remote.bytes <= 1.1 * base
    assert report.sampled.scales == (read, len(scales))
    assert ("I302" in report.sampled.in_part) == (read < len(scales))
    assert "M121" in report.sampled.not_evaluated
    text = make("text").file(report)
    assert f"{read} of 210 scales and the codes before them were read" in text
    assert report.as_dict()["scales"] == {"read": read, "of": len(scales)}


@pytest.mark.parametrize(("limit", "most"), share([(12, 36), (40, 90)]))
def test_a_header_of_a_server_of_single_ranges(server: Server, limit: int, most: int) -> None:
    """Places in the weights are probed as far as a sample may cost; what is found is followed in some tensors only."""
    file, _, _ = full_size()  # its payloads are zeros
    server.multipart = False
    server.files["/m.gguf"] = file
    with using(Policy(private=True, sample=limit)):
        report = lint(server.url + "/m.gguf", payload="none", select=("I3", "G"))
    assert report.remote is not None
    zeros = [finding for finding in report.findings if finding.code == "G411"]
    assert 2 <= len(zeros) <= 4
    assert not report.bugs
    assert report.remote.requests == len(server.seen) <= most
    assert report.remote.requests > limit / 2


def test_a_scale_that_was_not_read_is_not_a_finding(server: Server, large: Path) -> None:
    """Of seven matrices the first, the last and those between that the budget allows are looked at."""
    data = bytearray(large.read_bytes())
    with open_file(large) as opened:
        spans = [tensor.tail_span for tensor in opened.tensors.values() if tensor.type.name == "I2_S"]
    for span in spans:
        data[span.start : span.start + 4] = struct.pack("<f", float("nan"))
    server.multipart = False
    server.files["/m.gguf"] = bytes(data)
    for limit in (1, 10_000):
        with using(Policy(private=True, sample=limit)):
            report = lint(server.url + "/m.gguf", payload="sample")
        found = [finding.span.start for finding in report.findings if finding.code == "I302"]
        here = [span.start for span in spans]
        assert found == (here if limit > 1 else [here[0], here[-1]])
        assert report.sampled is not None
        assert report.sampled.scales == (len(found), 7)
        assert not report.bugs


def test_a_header_is_edited_without_fetching_weights(server: Server, tmp_path: Path) -> None:
    """What follows the header is named, not fetched; both together are the file that an edit of the whole would make."""
    origin = tmp_path / "m.gguf"
    assert Said("new", str(origin), "--arch", "llama", "--embd", "1024", "--ff", "8192").status == 0
    server.files["/m.gguf"] = origin.read_bytes()
    head, listed, whole = (tmp_path / name for name in ("head", "ranges.json", "whole.gguf"))
    edit = ("--set", "general.name=another name, a longer one", "--allow-private")
    done = Said("fix", server.url + "/m.gguf", *edit, "--ranges", str(listed), "-o", str(head), "-q")
    assert (done.status, done.err) == (0, "")
    size = origin.stat().st_size
    asked = [(start, min(stop, size)) for seen in server.seen for start, stop in seen.ranges]
    assert sum(stop - start for start, stop in asked) < size / 4, size
    assert Said("fix", str(origin), *edit, "-o", str(whole), "-q").status == 0
    document = json.loads(listed.read_text(encoding="utf-8"))
    assert document["origin"] == server.url + "/m.gguf"
    sources = {"header": head.read_bytes(), "origin": origin.read_bytes()}
    made = b"".join(sources[each["from"]][each["start"] : each["stop"]] for each in document["pieces"])
    assert made == whole.read_bytes()
