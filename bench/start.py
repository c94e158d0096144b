"""This module measures starts: processor time of whole commands, as multiples of a bare start of Python in the same
round.

Most of a short run is imports, whose time depends on the processor, so seconds cannot be compared between machines. The
unit is `python -S -c pass`: an interpreter without additional imports. Processor time is affected least by other work;
the shortest of a round's windows counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from sysconfig import get_path

from bench.lint import full_size
from bench.measure import Claim, Contender, Result, interleaved, ratios, rows
from bench.parts import Benchmark, Setting
from i2s_spec.convert.synthetic.new import new
from i2s_spec.testing.sample import Draft

ROOT = Path(__file__).resolve().parent.parent

#: The unit of all results.
BARE = "python -S -c pass"
#: Runs of a command in its turn; the shortest counts.
WINDOWS = 5
#: The script of newer installers, abbreviated, and the words for it in rows.
WITHOUT_RE = "import sys\n\nfrom i2s_spec.cli import main\n\nsys.exit(main())\n"
OTHERWISE = "a script without re"


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("commands", commands)]


def commands(setting: Setting) -> Result:
    """Short commands, each as a whole process."""
    small, model, large = setting.folder / "small.gguf", setting.folder / "tiny.gguf", full_size(setting)
    small.write_bytes(Draft().data)
    new(model)
    cache = setting.folder / "bytecode"
    i2s = entry()
    asked: list[tuple[str, list[str], float | None]] = [
        ("i2s --version", ["--version"], 2.0),
        ("i2s lint, two tensors", ["lint", str(small)], 4.0),
        ("i2s lint, a small model", ["lint", str(model)], 6.0),
        ("i2s lint --header-only, a small model", ["lint", "--header-only", str(model)], 4.0),
        ("i2s lint --header-only, a model of 2B", ["lint", "--header-only", str(large)], 6.0),
        ("i2s lint --help", ["lint", "--help"], None),
    ]
    runs: list[tuple[str, list[str], float | None]] = [("python -c pass", ["-c", "pass"], None)]
    runs += [(name, [*i2s, *words], most) for name, words, most in asked]
    if imports_re(i2s):
        script = setting.folder / "i2s"
        script.write_text(WITHOUT_RE, "utf-8")
        runs += [
            (f"{name}; {OTHERWISE}", [str(script), *words], most) for name, words, most in asked if most is not None
        ]
    contenders = [Contender(BARE, _processor_time(["-S", "-c", "pass"], cache))]
    contenders += [Contender(name, _processor_time(arguments, cache)) for name, arguments, _ in runs]
    for contender in contenders:  # byte code and files are in memory from here on
        contender.run()
    times = interleaved(contenders, 1 if setting.quick else 3 * setting.rounds, setting.say)
    claims = [
        Claim(name, ratios(times[name], times[BARE]), f"x {BARE}", most=None if setting.quick else most)
        for name, _, most in runs
    ]
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    notes = (load, f"i2s is {started_by(i2s)}", f"i2s-spec is {installation()}")
    return Result("processor time of whole processes", rows(times), tuple(claims), notes)


def entry() -> list[str]:
    """What Python runs as `i2s`: the installer's script if there is one, as for users; else the module."""
    script = Path(sys.executable).with_name("i2s")
    return [str(script)] if script.is_file() else ["-m", "i2s_spec"]


def imports_re(i2s: Sequence[str]) -> bool:
    """Whether `entry` is a script that imports `re` first, as those of pip before 25.2 do."""
    return i2s[0] != "-m" and "import re" in Path(i2s[0]).read_text("utf-8").splitlines()


def started_by(i2s: Sequence[str]) -> str:
    """How `entry` starts, for the result."""
    if i2s[0] == "-m":
        return "python -m i2s_spec"
    return "the installed script" + (", which imports re, as pip wrote it before 25.2" if imports_re(i2s) else "")


def installation() -> str:
    """How this environment installed the package, and with which installer, for the result."""
    # A checkout's own metadata would be found through its folder in the path.
    found = next(distributions(name="i2s-spec", path=[get_path("purelib"), get_path("platlib")]), None)
    if found is None:
        return "not installed"
    installer = (found.read_text("INSTALLER") or "an unknown installer").strip()
    if installer == "pip":
        with suppress(PackageNotFoundError):  # the version of pip that wrote the script is not recorded
            installer = f"pip (here is {version('pip')})"
    editable = json.loads(found.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable", False)
    if not editable:
        return f"installed from a wheel by {installer}"
    by_finder = any(path.name.startswith("__editable__") and path.suffix == ".py" for path in found.files or ())
    return f"installed editable, by {'a finder of modules' if by_finder else 'a plain path'}, by {installer}"


def _processor_time(arguments: Sequence[str], cache: Path) -> Callable[[], float]:
    """Processor seconds of Python with these arguments, the shortest of several runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("I2S_", "PYTHON"))}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    environment["PYTHONPATH"] = str(ROOT)  # use this checkout, whatever is installed

    def once() -> float:
        run = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment
        )
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: exit code {run.returncode}")
        return usage.ru_utime + usage.ru_stime

    return lambda: min(once() for _ in range(WINDOWS))
