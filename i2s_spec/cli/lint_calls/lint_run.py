"""This module runs `i2s lint` on a command line that was read, by click or as a `plain_call`: it needs no click itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import EXIT_FINDINGS, FormatError, counted, quote
from i2s_spec.linter.batch.lint_paths import lint_paths
from i2s_spec.linter.config import Config, found
from i2s_spec.linter.engine import open_reference
from i2s_spec.linter.options import Options
from i2s_spec.linter.report import Format, details_of, kind
from i2s_spec.linter.report_data import Totals
from i2s_spec.linter.rule import Severity

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from i2s_spec.cli.progress import Bar
    from i2s_spec.gguf.atomic_file import OutputFile
    from i2s_spec.linter.reference import Reference
    from i2s_spec.linter.reference.weights import ReferenceWeights
    from i2s_spec.linter.selection.baseline import Baseline
    from i2s_spec.linter.selection.suppressions import Suppression
    from i2s_spec.remote.policy import Policy


class WrongCallError(ValueError):
    """A command line that cannot be followed; it is found before a file is opened."""


#: Where a setting comes from that whoever runs the program gives.
GIVEN = ("COMMANDLINE", "ENVIRONMENT")


class Settings:
    """What holds for this run: the command line before the environment before configuration files before defaults."""

    _KEYS = {"form": "format", "fail_on": "fail-on", "skip_lfs": "skip-lfs"}  # noqa: RUF012

    def __init__(self, given: dict[str, Any], sources: dict[str, str], config: Config) -> None:
        self._given = given
        self._sources = sources
        self._config = config

    def __getitem__(self, name: str) -> Any:
        if self._sources.get(name) in GIVEN:
            return self._given[name]
        return self._config.get(self._KEYS.get(name, name), self._given[name])

    def merged(self, name: str) -> dict[str, Any]:
        """A setting that is a table: entries of the configuration that were not given anew stay."""
        return {**self._config.get(name, {}), **self._given[name]}

    @property
    def form(self) -> str:
        """The name of the format."""
        return "json" if self._given["as_json"] else str(self["form"])

    @property
    def payload(self) -> Any:
        """How much of the payloads is read; None for what the profile says."""
        flags = {"none": self._given["header_only"], "sample": self._given["sample"]}
        asked = [mode for mode, flag in flags.items() if flag]
        on_line = self._sources.get("payload") == "COMMANDLINE"
        if len(asked) > 1 or (asked and on_line and self._given["payload"] not in asked):
            raise WrongCallError("--header-only, --sample and --payload exclude each other")
        return asked[0] if asked else self["payload"]


def options_of(
    setting: Settings, config: Config, details: Callable[[Any], Any] | None, reference: Reference | None
) -> Options:
    """How files are linted in this run.

    :raises WrongCallError: where something cannot be followed, such as a code that no rule has
    """
    try:
        options = Options(
            profile=setting["profile"],
            select=tuple(setting["select"]),
            ignore=tuple(setting["ignore"]),
            severity=setting.merged("severity"),
            limits=setting.merged("limits"),
            payload=setting.payload,
            threads=setting["threads"],
            runtimes=setting["runtimes"],
            suppressions=config.suppressions,
            skip_lfs=setting["skip_lfs"],
            details=details,
            remote=_policy(),
        )
    except ValueError as error:
        raise WrongCallError(str(error)) from None
    try:
        return options if reference is None else options.replaced(reference=reference)
    except ValueError as error:
        raise WrongCallError(f"--reference: {error}") from None


def _policy() -> Policy | None:
    """What may be asked of servers, for other processes; None where nothing was said about it."""
    policy = sys.modules.get("i2s_spec.remote.policy")  # without it nobody set anything
    return None if policy is None else policy.current()


def lint_run(files: tuple[str, ...], given: dict[str, Any], sources: dict[str, str], command: str = "") -> int:
    """Check files and print the reports; the exit code.

    :param given: the value of every option by the name that click gives it
    :param sources: where the values come from: COMMANDLINE, ENVIRONMENT or DEFAULT
    :param command: the call as it was typed, for formats that say it
    :raises WrongCallError: where an option cannot be followed
    """
    # Read when NumPy is first imported. Its products here are small, and processes and threads are the linter's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    config = Config() if given["no_config"] else found(explicit=given["config"])
    if config.was_found and given["profile"] == "security" and sources.get("profile") in GIVEN:
        _say_ignored(config)
        config = config.without_verdict_keys()
    setting = Settings(given, sources, config)
    forms = [kind(name) for name in (setting.form, *given["reports"].values())]
    details = details_of(forms)
    reference = _reference(given["reference"], given["reference_dialect"], given["expect"])
    options = options_of(setting, config, details, reference)
    threshold = None if (fail_on := setting["fail_on"]) == "never" else Severity(fail_on)
    write = given["write_baseline"]
    baseline = _baseline(setting, options, write)
    jobs = setting["jobs"] or _processors()
    if given["engine"] is not None and config.get("jobs", None) is None and sources.get("jobs") not in GIVEN:
        jobs = _processors()

    totals = Totals(None if write else threshold, config.affecting_findings())
    if forms[0].__module__ != "i2s_spec.linter.report.text" or given["output"] is not None:
        for remark in totals.remarks:
            _remark(f"i2s: configuration: {remark}")
    idle = set(options.suppressions)
    bar = None
    if sys.stderr.isatty() and not given["quiet"]:
        from i2s_spec.cli.progress import Bar

        bar = Bar()
    with ExitStack() as stack:
        if forms[1:] or given["output"] is not None or given["engine"] is not None:
            from i2s_spec.cli.termination import cleaned_up

            stack.enter_context(cleaned_up())
        weights = stack.enter_context(_opened(options))
        sheets = _sheets(forms, given, threshold, stack)
        for sheet, say in sheets:
            sheet.command, sheet.profile = command, options.profile
            say(sheet.begin())
        run = stack.enter_context(closing(_reports(files, options, jobs, bar, weights, given)))
        for path, found_there in run:
            file_report = found_there if baseline is None else baseline.apply(path, found_there, write)
            if bar is not None:
                bar.hide()
            if idle and file_report["excused"]:
                idle -= _used(idle, path, file_report)
            totals.add(file_report)
            for sheet, say in sheets:
                say(sheet.file(file_report))
        gone = [] if baseline is None or write else list(baseline.stale())
        if gone:
            totals.fail(EXIT_FINDINGS)
        for sheet, say in sheets:
            say(sheet.end(totals))
    _afterwards(
        baseline,
        write,
        gone,
        [suppression for suppression in options.suppressions if suppression in idle and not given["quiet"]],
    )
    return totals.exit_code


def _sheets(
    forms: Sequence[type[Format]], given: dict[str, Any], threshold: Severity | None, stack: ExitStack
) -> list[tuple[Format, Callable[[str], None]]]:
    """Each format that was asked for, and what takes its text: the terminal, or a file that appears when all is well."""
    sheets: list[tuple[Format, Callable[[str], None]]] = []
    # Colours need a terminal that wants them; https://no-color.org
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if forms[1:] or given["output"] is not None:
        from i2s_spec.gguf.atomic_file import OutputFile
    for form, place in zip(forms, (given["output"], *given["reports"]), strict=True):
        if place in (None, "-"):
            sheet = form(colour, given["quiet"], threshold)
            sheet.columns = _columns()
            sheets.append((sheet, _print))
            continue
        output = stack.enter_context(OutputFile(place, force=True))
        # A report beside the one that is quiet is for later readers, and whole.
        quiet = given["quiet"] and place == given["output"]
        sheets.append((form(False, quiet, threshold), partial(_write, output)))
    return sheets


def _reports(
    files: tuple[str, ...],
    options: Options,
    jobs: int,
    bar: Bar | None,
    weights: ReferenceWeights | None,
    given: dict[str, Any],
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Path and report of each file, from here or from a cluster."""
    if given["engine"] is None:
        return lint_paths(files, options, jobs, bar, weights, _checkpoint)
    from i2s_spec.cli.cluster_run import engine_run

    return engine_run(files, options, jobs, given, _checkpoint)


def _checkpoint(path: str, options: Options) -> dict[str, Any]:
    """The report on a folder of safetensors; what it needs is imported only for one."""
    from i2s_spec.checkpoints.findings.lint_checkpoint import lint_folder

    return lint_folder(path, options)


def _used(suppressions: set[Suppression], path: str, report: Any) -> set[Suppression]:
    """The suppressions that covered a finding; what tells is imported only where there are any."""
    from i2s_spec.linter.selection.suppressions import used

    return used(suppressions, path, report)


def _say_ignored(config: Config) -> None:
    """Say what a configuration that was found would have changed, had the profile security not been asked for."""
    for place, keys in config.affecting_findings():
        what = f"{', '.join(keys)} of {place} do not count under --profile security; --config {place} makes them count"
        _remark(f"i2s: configuration: {what}")


def _reference(path: str | None, dialect: str | None, expected: str | None) -> Reference | None:
    """What the files are compared with, if that was asked for."""
    if path is None:
        if dialect is not None or expected is not None:
            raise WrongCallError("--reference-dialect and --expect need --reference")
        return None
    from i2s_spec.linter.reference import Reference

    return Reference(path, dialect or "canonical", expected or "canonical")


def _opened(options: Options) -> AbstractContextManager[ReferenceWeights | None]:
    """The weights of the reference, opened once for the run.

    :raises WrongCallError: where it cannot be read
    """
    try:
        return open_reference(options)
    except FormatError as error:
        from i2s_spec.draw.text import fault_words

        reason = fault_words(error)
    except ValueError as error:
        raise WrongCallError(f"--reference: {error}") from None
    except OSError as error:
        reason = str(error.strerror or error)
    assert options.reference is not None
    raise WrongCallError(f"--reference {quote(str(options.reference.origin), 4096, bare=True)}: {reason}") from None


def _remark(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(output: OutputFile, text: str) -> None:
    output.write(text.encode("utf-8"))


def _print(text: str) -> None:
    """Write a piece of the report; what the stream's encoding cannot say, it says as a number."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _baseline(setting: Settings, options: Options, write: bool) -> Baseline | None:
    path = setting["baseline"]
    if path is None:
        if write:
            raise WrongCallError("--write-baseline needs --baseline FILE, the file to write")
        return None
    from i2s_spec.linter.selection.baseline import Baseline

    if write and not os.path.lexists(path):
        return Baseline(path, options.levels)
    return Baseline.read(path, options.levels)


def _afterwards(baseline: Baseline | None, write: bool, gone: list[str], idle: Iterable[Suppression]) -> None:
    """Print what concerns the run as a whole, to stderr."""
    if baseline is not None and write:
        count = baseline.write()
        remark = f"{counted(count, 'entry', 'entries')} in {quote(baseline.path, bare=True)}"
        if left := baseline.unreadable:
            stay = counted(left, "unreadable file is not in it, and fails", "unreadable files are not in it, and fail")
            remark += f"; {stay} later runs too"
        _remark(f"i2s: {remark}")
    for sentence in gone:
        _remark(f"i2s: baseline: {sentence}")
    if gone and baseline is not None:
        _remark(f"i2s: take them out with --baseline {quote(baseline.path, bare=True)} --write-baseline")
    for suppression in idle:
        codes, files = (quote(text, bare=True) for text in (", ".join(suppression.codes), suppression.files))
        _remark(f"i2s: note: the suppression of {codes} in {files} covered nothing")


def _columns() -> int | None:
    """Columns of the terminal that reports go to; None where they go elsewhere."""
    if not sys.stdout.isatty():
        return None
    from i2s_spec.draw.terminal import columns

    return columns(sys.stdout)


def _processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
