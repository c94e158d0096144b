"""This module makes words and files for the command line."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

from candidates_build import Candidates

from i2s_spec.linter.report import FORMATS
from i2s_spec.testing.sample import Draft


def command_lines() -> Candidates:
    sound = Draft().data
    configs = {
        "profile": 'profile = "security"\nfail-on = "warning"\n', "odd-key": "nonsense = 1\n", "bad": "[[[", "binary": "\x00\xff", "select": 'select = ["G", "M0"]\nignore = ["P101", {files = "*.gguf", codes = ["I", "M"], reason = "kept"}]\n',
        "severity": 'severity = {M = "warning", G101 = "error"}\nlimits = {tensors = 4096}\npayload = "none"\nruntimes = true\nthreads = 2\nskip-lfs = true\n',
        "wrong-kinds": 'threads = "two"\n', "count": "threads = 0\n", "texts": "select = [1]\n", "table": 'severity = {G = 1}\n', "one-of": 'profile = "odd"\n', "flag": 'runtimes = 1\n',
        "ignored": "ignore = [1]\n", "excuse-key": 'ignore = [{files = "*", codes = ["G"], reason = "r", odd = 1}]\n', "excuse-missing": 'ignore = [{files = "*"}]\n', "excuse-empty": 'ignore = [{files = "*", codes = [], reason = "r"}]\n',
        "excuse-blank": 'ignore = [{files = "*", codes = ["G"], reason = "  "}]\n', "excuse-code": 'ignore = [{files = "**/a?/*", codes = ["odd"], reason = "r"}]\n', "select-odd": 'select = ["ODD"]\n', "severity-odd": 'severity = {G = "odd"}\n',
        "limits-odd": "limits = {odd = 1}\n", "baseline": 'baseline = "missing.json"\n', "baseline-empty": 'baseline = ""\n', "tool": '[tool.i2s]\nprofile = "strict"\n', "tool-odd": 'tool = 3\n', "tool-number": '[tool]\ni2s = 3\n', "tool-other": '[tool.other]\nx = 1\n',
        "nested": "a = " + "[" * 900 + "\n", "ignore-prefix": 'ignore = ["odd"]\n', "jobs": 'jobs = 2\nformat = "json"\n', "excuse-folders": 'ignore = [{files = "/more/**", codes = ["G", "P"], reason = "r"}]\n', "empty": "",
    }  # fmt: skip
    for name, text in configs.items():
        content = text.encode("utf-8", "surrogateescape")
        yield f"config-{name}", b"lint sound.gguf --config @\n" + content
        yield f"i2s-toml-{name}", b"=i2s.toml lint sound.gguf more\n" + content
        yield f"pyproject-{name}", b"=pyproject.toml lint sound.gguf\n" + content
        yield f"explicit-pyproject-{name}", b"=pyproject.toml lint sound.gguf --config @\n" + content
    baselines = {
        "none": "", "list": "[]", "version": '{"schema_version": 2, "files": {}}', "sound": '{"schema_version": 1, "files": {}}', "stale": '{"schema_version": 1, "files": {"sound.gguf": {"M005": {"x": 1}, "ODD1": {"y": 2}}}}',
        "gone": '{"schema_version": 1, "files": {"gone.gguf": {"G101": {"": 1}}}}', "broken": '{"schema_version": 1, "files": {"more/b.gguf": {"G108": {"key_values[2].key": 1}, "G109": {"...": 3}, "G201": {"x": 5}}}}',
        "zero": '{"schema_version": 1, "files": {"a": {"G101": {"x": 0}}}}', "kinds": '{"schema_version": 1, "files": {"a": {"G101": 3}}}', "deep": "[" * 900, "files": '{"schema_version": 1, "files": 3}',
    }  # fmt: skip
    for name, text in baselines.items():
        for words in (
            "lint sound.gguf more --baseline @",
            "lint more --baseline @ --write-baseline",
            "lint more/b.gguf empty --baseline @ --select G,P",
            "lint more --baseline @ --limit findings=1",
        ):
            yield f"baseline-{name}-{words.count(' ')}-{len(words)}", f"{words}\n{text}".encode()
    yield "baseline-missing", b"lint more --baseline none.json\n"
    yield "baseline-new", b"lint more sound.gguf --baseline none.json --write-baseline\n"
    lists = {
        "two": "sound.gguf\nmore/a.gguf\n",
        "nul": "sound.gguf\0more",
        "long": "x" * 5000,
        "blank": "\n\r\n",
        "glob": "m*/*.gguf\nnone*\n**\nmore/**\nem?ty\n",
        "crlf": "sound.gguf\r\n",
        "folder": "more\nempty\nmore\n",
    }
    for name, text in lists.items():
        yield f"list-{name}", f"=list lint @@\n{text}".encode()
        yield f"stdin-{name}", f"lint @-\n{text}".encode()
        yield (
            f"words-{name}",
            b"lint " + " ".join(text.replace("\0", "\n").replace("\r", "").split()).encode()[:300] + b"\n",
        )
    for words in ("lint @nowhere", "lint @more", "lint .", "lint /dev/null", "show /dev/null", "show .", "show empty", "lint nowhere.gguf", "lint more --jobs 2", "lint more sound.gguf @ --jobs 2 --format jsonl", "show /dev/nowhere/x",
                  "explain G101", "explain g101 tail-missing --format json", "explain G10", "explain odd --format markdown", "explain I104 --format markdown", "explain M001 --format text", "explain I104 --example", "explain nothing-like-it",
                  "rules", "rules --json", "rules --profile security", "rules --profiles", "rules G I1", "rules odd", "info", "info --json", "identify sound.gguf", "diff sound.gguf more/a.gguf", "hash sound.gguf --tensors"):  # fmt: skip
        yield "words-" + "-".join(words.replace("/", "_").split()), words.encode() + b"\n" + sound
    for form in FORMATS:
        yield f"lint-{form}", f"lint sound.gguf @ more --format {form} --runtimes\n".encode() + sound[:300]
        yield (
            f"lint-{form}-quiet",
            f"lint sound.gguf @ more -q --format {form} --fail-on never --report json=out.json -o out.txt\n".encode()
            + sound[:300],
        )
        yield (
            f"lfs-{form}",
            f"lint @ --skip-lfs --format {form}\n".encode()
            + b"version https://git-lfs.github.com/spec/v1\noid sha256:"
            + b"0" * 64
            + b"\nsize 12345\n",
        )
        yield f"empty-{form}", f"lint @ --format {form}\n".encode()
    for words in ("show @ --json", "show @ --all", "dump @ --json", "fix @ -o out.gguf", "fix @ --dry-run --unsafe --json", "fix @ --dialect interleave-64 --unsafe -o out.gguf --force", "sanitize @ -o out.gguf", "sanitize @ --dry-run --json",
                  "sanitize @ --keep-unknown -o out.gguf --force", "convert @ out.gguf --endian big", "convert @ out.gguf --to F16", "decode @ first.weight out.npy", "fix @ -o sound.gguf", "fix @ -o sound.gguf --force", "fix @ -o more", "fix @ -o no/where.gguf",
                  "fix @ -o @ --force", "sanitize @ -o @ --force", "lint @ --limit keys=1", "lint @ --limit odd=1", "lint @ --severity G=odd", "lint @ --threads 2 --sample", "lint @ --header-only --select I", "fix @ -o /dev/full --force", "fix @ -o ."):  # fmt: skip
        for name, content in (
            ("sound", sound),
            ("cut", sound[:700]),
            ("trailing", sound + b"x"),
            ("gap", sound + bytes(64)),
        ):
            yield (
                f"{'-'.join(words.replace('@ ', '').replace('/', '_').split())}-{name}",
                words.encode() + b"\n" + content,
            )
