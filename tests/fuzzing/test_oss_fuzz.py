"""The files for OSS-Fuzz: a build with every harness and its seeds, and the form of the dictionaries."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "fuzz"
OSS_FUZZ = FUZZ / "oss_fuzz"
TARGETS = sorted(path.stem for path in FUZZ.glob("fuzz_*.py"))


def test_build_script_is_sound() -> None:
    script = OSS_FUZZ / "build.sh"
    assert script.read_text("ascii").startswith("#!/bin/bash -eu\n")
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    shellcheck = shutil.which("shellcheck")
    if shellcheck:
        subprocess.run([shellcheck, str(script)], check=True)
    words = script.read_text("ascii")
    assert '"$fuzz"/fuzz_*.py' in words  # a new harness is built without a change here
    assert not [target for target in TARGETS if target in words]


#: Stands for the programs of the image that the build calls; each records its arguments.
PROGRAM = """#!{python}
import json, os, sys
from pathlib import Path
name, words = Path(sys.argv[0]).name, sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([name, os.getcwd(), words]) + "\\n")
if name == "compile_python_fuzzer":
    (Path(os.environ["OUT"]) / Path(words[0]).stem).write_text("LLVMFuzzerTestOneInput")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str, list[str]]]]:
    """The build, run with programs in place of those of the image: what is in `$OUT`, and what was called."""
    tmp_path = tmp_path_factory.mktemp("built")
    for name in ("src", "out", "work", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "i2s-spec").symlink_to(ROOT)
    for name in ("pip3", "compile_python_fuzzer"):
        program = tmp_path / "bin" / name
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
        "SRC": str(tmp_path / "src"),
        "OUT": str(tmp_path / "out"),
        "WORK": str(tmp_path / "work"),
        "CALLS": str(tmp_path / "calls"),
    }
    done = subprocess.run(["bash", "-eu", str(OSS_FUZZ / "build.sh")], env=environment,
                          capture_output=True, encoding="utf-8",
                          cwd=tmp_path / "src" / "i2s-spec", check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    calls = [tuple(json.loads(line)) for line in (tmp_path / "calls").read_text().splitlines()]
    return tmp_path, calls


@pytest.mark.thorough
def test_build_makes_every_harness_with_all_that_belongs_to_it(
    built: tuple[Path, list[tuple[str, str, list[str]]]],
) -> None:
    place, calls = built
    out = place / "out"
    assert calls[0][0] == "pip3"
    assert f"{place / 'src' / 'i2s-spec'}[gguf,testing]" in calls[0][2]
    compiled = {
        Path(words[0]).stem: (folder, words) for name, folder, words in calls if name == "compile_python_fuzzer"
    }
    assert sorted(compiled) == TARGETS
    made = {path.name for path in out.iterdir()}
    assert made == {f"{target}{end}" for target in TARGETS for end in ("", ".dict", ".options", "_seed_corpus.zip")}
    for target, (folder, words) in compiled.items():
        assert folder == str(place / "work")  # beside the checkout's package PyInstaller would not find the extensions
        assert "--collect-data=i2s_spec" in words
        with zipfile.ZipFile(out / f"{target}_seed_corpus.zip") as seeds:
            names = {Path(name).name for name in seeds.namelist()}
        name = target.removeprefix("fuzz_")
        wanted = {path.name for folder in ("corpus", "regressions") if (FUZZ / folder / name).is_dir()
                  for path in (FUZZ / folder / name).iterdir()}  # fmt: skip
        assert names >= wanted
        options = (out / f"{target}.options").read_text()
        assert options.startswith("[libfuzzer]\n")
        assert "max_len = 65536\n" in options


@pytest.mark.thorough
def test_build_names_every_module_that_is_imported_late(
    built: tuple[Path, list[tuple[str, str, list[str]]]],
) -> None:
    named = {word.removeprefix("--hidden-import=") for word in built[1][-1][2] if word.startswith("--hidden-import=")}
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
               for path in (ROOT / "i2s_spec").rglob("*.py")}  # fmt: skip
    assert named == modules
    assert {
        "i2s_spec",
        "i2s_spec.cli.lint",
        "i2s_spec.linter.rules.i2s_extent",
        "i2s_spec.testing.malformed",
    } <= named


def test_dictionaries_are_in_the_form_of_libfuzzer() -> None:
    for path in (FUZZ / "dictionary").glob("*.dict"):
        words = []
        for line in path.read_text("ascii").splitlines():
            if line.startswith("#"):
                continue
            entry = re.fullmatch(r'[A-Za-z0-9_]+="((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\\\|\\"|\\x[0-9a-f]{2})+)"', line)
            assert entry, line
            words.append(entry[1].encode().decode("unicode_escape").encode("latin-1"))
        assert len(words) == len(set(words)) > 100
        assert max(map(len, words)) <= 64
        if path.stem == "gguf":
            key = b"general.alignment"
            assert {b"GGUF", key, len(key).to_bytes(8, "little") + key, (36).to_bytes(4, "little"), (36).to_bytes(4, "big"),
                    b"blk.0.attn_q.weight", b"bitnet-b1.58"} <= set(words)  # fmt: skip
