"""This module declares the programs that are run, finds where they are installed, and installs those that are missing.

Each program has a separate environment in the user's cache, never shared with this project. A program of PyPI that is
installed beside this project (the extra `runtimes`) is used from there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, NamedTuple

#: Seconds that an installation may take.
_PATIENCE: Final = 900


class Program(NamedTuple):
    """A program in a package registry.

    :param name: the package's name, :param version: the version whose runs are recorded
    :param child: the script in `children/` that runs it on one file; empty if it is run on vectors alone
    :param computes: whether that script returns log-probabilities on request
    :param also: additional packages of the same registry, with their versions
    :param everything: whether it runs on files of all architectures; otherwise only on those of llama
    :param wide: whether it runs on files with rows of 512 and 1,024 elements; `only`, on no others
    :param names: a pattern of the names of files that it runs on
    :param package: the package's name, if a package is run in two ways
    :param memory: resident bytes that it may use for one small file
    """

    name: str
    version: str
    registry: Literal["PyPI", "npm"]
    child: str = ""
    computes: bool = False
    also: tuple[str, ...] = ()
    everything: bool = False
    wide: Literal["no", "yes", "only"] = "no"
    names: str = ""
    package: str = ""
    memory: int = 1 << 30

    @property
    def folder(self) -> Path:
        """The folder of its installation, unless it is installed beside this project."""
        if self.child == "run_ggml.py":  # the tests of block types use the same library
            return Path(os.environ.get("I2S_GGML") or _cache() / "ggml")
        return _cache() / "runtimes" / f"{self.registered.lstrip('@').replace('/', '-')}-{self.version}"

    @property
    def registered(self) -> str:
        """The name in the registry."""
        return self.package or self.name

    def missing(self) -> str | None:
        """Why it cannot run, or None if it can."""
        if self.registry == "npm" and self.child.endswith(".mjs") and shutil.which("node") is None:
            return f"{self.name} needs node"
        if not self._found():
            return f"{self.name} {self.version} is not installed: python tests/peers install {self.name}"
        return None

    def command(self) -> list[str]:
        """The words that run its script; the names of answer and file, and the tokens, follow."""
        script = str(Path(__file__).parent / "children" / self.child)
        if self.registry == "npm":
            interpreter = "node" if self.child.endswith(".mjs") else sys.executable
            return [interpreter, script, str(self.folder / "node_modules" / self.registered)]
        python = sys.executable if self._beside() else str(self.folder / "bin" / "python")
        return [python, script]

    def _beside(self) -> bool:
        """Whether exactly this version is installed in the running environment."""
        try:
            return self.registry == "PyPI" and metadata.version(self.registered) == self.version
        except metadata.PackageNotFoundError:
            return False

    def _found(self) -> bool:
        if self.registry == "npm":
            try:
                text = (self.folder / "node_modules" / self.registered / "package.json").read_text(encoding="utf-8")
            except OSError:
                return False
            return bool(json.loads(text)["version"] == self.version)
        distribution = f"{self.registered.replace('-', '_')}-{self.version}.dist-info"
        return self._beside() or any(self.folder.glob(f"lib/python*/site-packages/{distribution}"))

    def install(self) -> str | None:
        """Install it if it is missing; returns the reason if that failed, or None.

        Only built packages are installed, and no script of a package runs.
        """
        if self._found():
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = [f"{self.registered}{'@' if self.registry == 'npm' else '=='}{self.version}", *self.also]
        if self.registry == "npm":
            options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]
            steps = [["npm", "install", *options, "--prefix", str(self.folder), *wanted]]
        else:
            python = str(self.folder / "bin" / "python")
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
            steps = [[sys.executable, "-m", "venv", str(self.folder)], [*pip, *wanted]]
        for step in steps:
            try:
                done = subprocess.run(step, capture_output=True, encoding="utf-8", check=False, timeout=_PATIENCE)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{step[0]}: {error}"
            if done.returncode:
                return (done.stderr.strip().splitlines() or [f"{step[0]} ended with status {done.returncode}"])[-1]
        return self.missing()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "i2s-spec"


#: What transformers needs to run models: a build of PyTorch for processors, and its reader of GGUF.
_TRANSFORMERS: Final = ("torch==2.13.0", "accelerate==1.15.0", "gguf==0.19.0")

#: Programs that are run on small files.
PROGRAMS: Final[tuple[Program, ...]] = (
    Program("xllamacpp", "2026.10.11549", "PyPI", "run_xllamacpp.py", computes=True, everything=True, wide="yes"),
    Program(
        "node-llama-cpp", "3.22.1", "npm", "run_node_llama_cpp.mjs", computes=True, everything=True, wide="yes",
        also=("@node-llama-cpp/linux-x64@3.22.1",),
    ),
    Program("@node-llama-cpp/linux-x64", "3.22.1", "npm", "run_ggml.py"),
    Program(
        "ik-llama-cpp-python", "0.1.5", "PyPI", "run_ik_llama_cpp.py", computes=True, everything=True, wide="yes",
        memory=2 << 30,
    ),
    Program(
        "pytritium", "1.1.0rc2", "PyPI", "run_pytritium.py", everything=True, wide="only", names=r"bitnet|llama\.f16\.w"
    ),
    Program(
        "transformers", "5.24.0", "PyPI", "run_transformers.py", computes=True, everything=True, wide="only",
        names=r"(llama|qwen3-lm|gemma3-lm|trained\.llama)\.(?!i2_s\.default)|bitnet(-b1\.58)?\.(f16|i2_s)\.wide$",
        also=_TRANSFORMERS, memory=6 << 30,
    ),
    Program(
        "transformers-exports", "5.24.0", "PyPI", "run_transformers.py", computes=True, everything=True, wide="only",
        names=r".*\.i2_s\.wide", package="transformers", also=_TRANSFORMERS, memory=6 << 30,
    ),
    Program("mistralrs", "0.9.5", "PyPI", "run_mistralrs.py", everything=True, memory=2 << 30),
    Program("openvino-genai", "2026.4.1.0", "PyPI", "run_openvino_genai.py", everything=True, memory=2 << 30),
    Program("gguf", "0.19.0", "PyPI", "run_gguf_py.py"),
    Program("gguf-parser", "0.1.1", "PyPI", "run_gguf_parser.py"),
    Program("modelaudit", "0.2.54", "PyPI", "run_modelaudit.py"),
    Program("@huggingface/gguf", "0.4.6", "npm", "run_huggingface_gguf.mjs"),
    Program("hyllama", "0.2.2", "npm", "run_hyllama.mjs"),
)  # fmt: skip

#: Programs that are run on the test vectors alone.
READERS: Final[tuple[Program, ...]] = (
    Program("gguf-inspect", "0.1.0", "PyPI"),
    Program("quantbenchx", "0.3.0", "PyPI"),
    Program("c4nary", "0.3.1", "PyPI"),
    Program("libgguf", "0.2.2", "PyPI", also=("numpy",)),
)

PROGRAM: Final = {program.name: program for program in (*PROGRAMS, *READERS)}
