"""The engine: `lint` checks one file by the active rules and returns a `Report`, whatever its bytes are.

It never raises for a file. An error that stops the reader becomes a finding; the rules then run over what could be
read; a fault that a rule meets while it reads (a file that shrinks meanwhile) becomes a finding, too.

`lint` opens the file (and the reference, by `open_reference`), `_Run` asks the rules one after another, `Collection`
gathers their findings, bounded in number, and `excerpt_of` adds the bytes that show each of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError, Span, TooManyFiles, TrustedText, is_too_many_files, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FetchingSource, Origin, Source, chunks, is_address, source_of
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.conditions import layers_read
from i2s_spec.linter.analysis.context import LintContext, split_set
from i2s_spec.linter.analysis.coverage import unchecked
from i2s_spec.linter.options import Options, either, path_of
from i2s_spec.linter.report_data import Bug, Remote, Report, Sample, Split, Suppressed, split_of
from i2s_spec.linter.rule import Excerpt, Finding, Fix, Rule, Severity, WeightUse, When, every_file, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.selection import profile_named
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from i2s_spec.compare.known_weights import ReferenceWeights

#: The most tensors of a file for which repairs are planned to say which are offered; published models have fewer. Of a
#: file with more, none is offered: `fix` may still make some.
MOST_PLANNED: Final = 2_000


def lint(
    origin: Origin,
    options: Options | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
    place: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> Report:
    """Check one GGUF file by the rules of a profile.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param options: which rules apply, and how the file is read
    :param progress: called now and then with the bytes of payload that were read, and the bytes to read
    :param weights: the reference of the options, if it is open already
    :param place: the path that the file has or will have, if `origin` is none; the other parts of a split model are
        beside it
    :param keywords: the fields of `Options`, in place of `options`: `profile`, `select`, `ignore`, `severity`, `limits`,
        `payload`, `threads`, `runtimes`, `suppressed`, `suppressions`, `reference` and `record` (also
        paths alone), and `details`
    :returns: the report, which lists the rules that were not evaluated if a sample was read; no fault of the file
        raises an exception
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, or a reference without payloads
    :raises SettingError: where I2S_ISA names kernels that cannot be used
    :raises FormatError: for a reference that cannot be read
    """
    if os.environ.get("I2S_ISA") or os.environ.get("I2S_HIDE"):  # kernels are loaded only where they are used
        from i2s_spec.codec import isa

        isa.check()
    options = either(options, keywords)
    path = path_of(origin)
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        stack.enter_context(bounds.using(options.limits))
        if options.remote is not None:
            from i2s_spec.remote.policy import using

            stack.enter_context(using(options.remote))
        run = _Run(options, Reading(options.reading, options.threads, progress), path, weights)
        if place is not None:
            run.place = os.fspath(place)
        try:
            source = source_of(origin)
        except FormatError as error:
            run.add([finding_of(error)])
            return run.report(str(path))
        try:
            run.file(source)
        finally:
            if path is not None:
                source.close()
            run.record_requests(source)
    return run.report(str(path if path is not None else source.name))


def _is_asked(rule: Rule, fetched: bool) -> bool:
    """Whether a rule is checked for a file that is `fetched` from a server, or local.

    A rule about servers is not checked for a local file, and a rule about a later use, such as the tokens of a text, never.
    """
    return fetched if rule.code in faults.REMOTE else rule.check is not None or rule.when is every_file


def open_reference(options: Options) -> AbstractContextManager[ReferenceWeights | None]:
    """Return the reference that options name, as a context manager that closes it; None if they name no reference.

    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    """
    if options.reference is None:
        return nullcontext()
    from i2s_spec.compare.known_weights import ReferenceWeights

    return ReferenceWeights(options.reference)


class _Run:
    """The check of one file by the active rules; collects the findings, bounded in number."""

    def __init__(self, options: Options, reading: Reading, path: str | None, weights: ReferenceWeights | None) -> None:
        levels = options.levels
        self._codes = tuple(levels)
        self._rules = _in_order(self._codes)
        self._collection = Collection(levels, options.suppressed_in(path))
        self._path = path
        self.add = self._collection.add
        self._options = options
        self._reading = reading
        # An address is no path: other parts of a split model are then never searched on this machine.
        self.place = path if path is None or not is_address(path) else None
        self._weights = weights
        self._size: int | None = None
        self._runtimes: tuple[Any, ...] = ()
        self._details: Any = None
        self._sample: Sample | None = None
        self._unchecked: tuple[str, ...] = ()
        self._remote: Remote | None = None
        self._subject: LintContext | None = None
        self._split: Split | None = None

    def file(self, source: Source) -> None:
        """Check the bytes of a source."""
        self._size = source.size
        self._collection.reasons = self._options.suppressed_in(self._path, cache(partial(_sha256, source)))
        try:
            file = File(source)
            self.add(map(finding_of, (*file.passed, *([file.fault] if file.fault is not None else []))))
            place = self.place if self.place is not None else getattr(source, "path", None)
            subject = self._subject = LintContext(file, place, self._reading, self._weights)
            fetched = subject.on_server
            subject.rules_checked = _by_the_reader(self._codes, fetched)
            subject.by_document = profile_named(self._options.profile).by_document
            subject.runtimes_requested = self._options.runtimes
            subject.record = self._options.record
        except FormatError as error:  # one of the very first reads failed
            self.add([finding_of(error)])
            return
        if self._options.reading == "sample":
            self._sample = self._sampled(subject, True)
        try:
            if self._begin(subject) and self._run(subject):
                if self._sample is not None:
                    self._sample = self._sampled(subject, False)
                self._add_details(subject)
                reason = source.changed() or (self._weights.changed() if self._weights is not None else None)
                if reason is not None:
                    span = Span(0, source.size)
                    self.add([finding_of(FormatError(faults.CHANGED, span, reason=TrustedText(reason)))])
        finally:
            subject.end()
        found = self._collection.findings
        if any(each.rule.fix is not Fix.NONE for each in found):
            self._offer(subject, found)
        fetched = self._reading.mode != "full"  # no request is made for bytes that would only be shown
        if found:
            found[:] = [each._replace(excerpt=excerpt_of(source, each.span, fetched=fetched)) for each in found]

    def _offer(self, subject: LintContext, found: list[Finding]) -> None:
        """Add to findings whether `fix` repairs them, where that was planned; of a file on a server, whether their rules
        have repairs."""
        if subject.on_server:
            found[:] = [each._replace(fix=each.rule.fix) for each in found]
            return
        if subject.file.index.tensors > MOST_PLANNED:
            return
        from i2s_spec.linter.repair.plan import offers

        try:
            found[:] = [each._replace(fix=fix) for each, fix in zip(found, offers(subject, found), strict=True)]
        except FormatError as error:  # the file can no longer be read
            self.add([finding_of(error)])
        except Exception as error:
            self._collection.bug("repairs", error)

    def _begin(self, subject: LintContext) -> bool:
        """Start to read the payloads while the rules on the header run; False if the file can no longer be read."""
        try:
            if any(rule.payload for rule in reversed(self._rules)):  # these come last
                subject.begin()
        except FormatError as error:
            self.add([finding_of(error)])
            return False
        except Exception as error:
            self._collection.bug("survey", error)
        return True

    def _run(self, subject: LintContext) -> bool:
        """Run the rules; False if the file can no longer be read."""
        fault = subject.file.fault
        if fault is not None and fault.code == faults.TEXT_DECODED.code:  # nothing was read from the right position
            return True
        met: dict[When, bool] = {every_file: True}  # whether the file meets each condition
        waits = False
        for rule in self._rules:
            check, when = rule.check, rule.when
            if check is None:
                continue
            try:
                if not waits and rule.weights is not WeightUse.NONE:
                    waits = True
                    self._start_layout_evidence(subject)
                if when not in met:
                    met[when] = False  # if the condition fails, its first rule reports that
                    met[when] = when(subject)
                if met[when]:
                    subject.rules_checked += 1
                    self.add(check(subject))
            except FormatError as error:
                self.add([finding_of(error)])
                if error.code in faults.GONE:
                    return False
            except Exception as error:  # an exception in a rule is our bug; the other rules still run
                self._collection.bug(rule.code, error)
        for rule in (REGISTRY[code] for code in self._options.ignored if _is_asked(REGISTRY[code], subject.on_server)):
            if rule.when not in met:
                with suppress(Exception):  # nobody asked for the rule
                    met[rule.when] = rule.when(subject)
            subject.rules_skipped += met.get(rule.when, False)
        if (
            self._options.runtimes
        ):  # what the caller leaves out changes what is listed, not what programs do with the file
            for rule in map(REGISTRY.__getitem__, sorted(self._options.unasked)):
                if rule.check is not None and rule.severity is Severity.ERROR:
                    with suppress(Exception):  # nobody asked for the rule
                        for _ in self._collection.keep_errors(rule.check(subject) if rule.when(subject) else ()):
                            pass
        return True

    def _start_layout_evidence(self, subject: LintContext) -> None:
        """Compute the evidence of the layout while other threads read the payloads, if a rule will need it."""
        if subject.surveying is not None and any(rule.when is layers_read for rule in reversed(self._rules)):
            from i2s_spec.linter.analysis.layout import layout_ahead

            with suppress(Exception):  # the rule meets the fault again and reports it
                layout_ahead(subject)

    def _sampled(self, subject: LintContext, stopped: bool) -> Sample:
        """Return the active rules that did not see all bytes that they check.

        :param stopped: whether the run stopped, so that it is not known what was read
        """
        survey = None if stopped else subject.survey
        if survey is not None and survey.complete:
            return Sample((), ())
        unable, whole = {WeightUse.EVERY_BYTE}, {WeightUse.SCALES}
        if subject.on_server:
            unable.add(WeightUse.LAYERS)
        scales = None
        if survey is not None and survey.is_selection:
            unable.add(WeightUse.POSITIONS)
            scales = len(survey), survey.i2s_tensors
            if scales[0] < scales[1]:
                whole.clear()
        payload = sorted((rule.code, rule.weights) for rule in self._rules if rule.payload)
        return Sample(
            tuple(code for code, reach in payload if reach in unable),
            tuple(code for code, reach in payload if reach not in unable | whole),
            scales,
        )

    def record_requests(self, source: Source) -> None:
        """Record the requests and bytes, if the source is on a server."""
        usage = getattr(source, "usage", None)
        if usage is not None:
            version, etag = (getattr(source, name, None) for name in ("version", "etag"))
            asked = split_set.__wrapped__  # type: ignore[attr-defined]  # the source is closed: only what is known counts
            whole = None if self._subject is None else self._subject.analyses.get(asked)
            more = (0, 0) if whole is None else (whole.requests, whole.bytes)
            self._remote = Remote(version, usage.requests + more[0], usage.bytes + more[1], etag)

    def _add_details(self, subject: LintContext) -> None:
        """Add what was requested besides the findings, and what they do not cover."""
        try:
            if (whole := split_set(subject)) is not None and whole.number is not None:
                self._split = split_of(whole)
            self._unchecked = unchecked(subject)
            subject.errors = tuple(self._collection.errors)
            if self._options.runtimes:
                from i2s_spec.linter.runtimes.verdicts import verdicts

                part = self._sample is not None and bool(self._sample.not_evaluated or self._sample.in_part)
                unread = "the weights were not read" if self._options.reading == "none" else ""
                self._runtimes = verdicts(subject, unread="the weights were read in part" if part else unread)
            if self._options.details is not None:
                self._details = self._options.details(subject)
        except FormatError as error:
            self.add([finding_of(error)])
        except Exception as error:
            self._collection.bug("report", error)

    def report(self, path: str) -> Report:
        """Return the report."""
        return self._collection.report(
            path,
            size=self._size,
            runtimes=self._runtimes,
            details=self._details,
            sampled=self._sample,
            unchecked=self._unchecked,
            remote=self._remote,
            split=self._split,
        )


def _sha256(source: Source) -> str:
    """Return the SHA-256 of a file; empty for one on a server, which is not fetched for that, and for one that goes
    away.
    """
    from hashlib import sha256

    if isinstance(source, FetchingSource):
        return ""
    digest = sha256()
    try:
        for part in chunks(source, 0, source.size):
            digest.update(part)
    except FormatError:  # the rules meet it as well
        return ""
    return digest.hexdigest()


# All files of a run have the same rules: what depends on the rules alone is computed once.


@lru_cache(maxsize=8)
def _in_order(codes: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the active rules. Rules on the header come first: payloads are read meanwhile."""
    return tuple(sorted(map(REGISTRY.__getitem__, codes), key=lambda rule: rule.weights is not WeightUse.NONE))


@lru_cache(maxsize=8)
def _by_the_reader(codes: tuple[str, ...], fetched: bool) -> int:
    """Count the active rules that the reader checks in every file; the others are counted when they are."""
    return sum(rule.check is None and _is_asked(rule, fetched) for rule in _in_order(codes))


# --- the findings of a run -------------------------------------------------------------------------------------------
# Those of active rules, bounded in number; suppressed ones are only counted.


class Collection:
    """Collects findings.

    :param levels: the severity of each active rule in this run, by code
    :param reasons: codes whose findings are counted and not listed, each with the reason
    """

    def __init__(self, levels: Mapping[str, Severity], reasons: Mapping[str, str]) -> None:
        self.levels = levels
        self.findings: list[Finding] = []
        #: Errors by the severities that rules declare, whether or not the run lists them.
        self.errors: list[Finding] = []
        self.bugs: list[Bug] = []
        self.reasons = reasons
        self._most_per_rule = bounds.FINDINGS_PER_RULE
        self._counts: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings of active rules, with the severities of this run."""
        for finding in self.keep_errors(findings):
            level = self.levels.get(finding.code)
            if level is None:
                continue
            if finding.code in self.reasons:
                self._suppressed[finding.code] = self._suppressed.get(finding.code, 0) + 1
                continue
            count = self._counts[finding.code] = self._counts.get(finding.code, 0) + 1
            if count <= self._most_per_rule:
                made = finding.rule
                if made.severity is not level:
                    finding = finding._replace(rule=made._replace(severity=level))  # noqa: PLW2901
                self.findings.append(finding)

    def keep_errors(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings; keep those of rules that declare them errors, as many of each rule as are listed."""
        for finding in findings:
            if finding.severity is Severity.ERROR:
                count = self._errors[finding.code] = self._errors.get(finding.code, 0) + 1
                if count <= self._most_per_rule:
                    self.errors.append(finding)
            yield finding

    def bug(self, where: str, error: Exception) -> None:
        """Add an internal error.

        :raises TooManyFiles: if it is about the number of open files
        :raises Exception: the same exception, if I2S_DEBUG is set
        """
        if is_too_many_files(error):
            raise TooManyFiles from None
        if os.environ.get("I2S_DEBUG"):
            raise error
        self.bugs.append(Bug(where, f"{type(error).__name__}: {quote(str(error), bare=True)}"))

    def report(self, path: str, **more: Any) -> Report:
        """Return the report.

        :param more: further fields of `Report`
        """
        return Report(
            path,
            tuple(sorted(self.findings, key=lambda f: (f.span.start, f.span.stop, f.code))),
            {code: n - self._most_per_rule for code, n in self._counts.items() if n > self._most_per_rule},
            suppressed=tuple(Suppressed(code, n, self.reasons[code]) for code, n in sorted(self._suppressed.items())),
            bugs=tuple(self.bugs),
            **more,
        )


# --- the bytes that show a finding -----------------------------------------------------------------------------------

#: Bytes in a row of a dump; excerpts begin and end at multiples of it.
ROW = 16

#: Most rows of an excerpt.
ROWS = 3


def excerpt_of(source: Source, span: Span, *, fetched: bool = False) -> Excerpt | None:
    """Return the rows of sixteen bytes that contain the span, at most three; for an empty span at the file's end,
    the row before.

    None if there is no byte to show, as for a finding about the whole file, or if the file can no longer be read.

    :param fetched: whether to show only bytes that were fetched already, for a file on a server
    """
    if span.stop == 0:
        return None
    start = min(span.start, max(source.size - 1, 0)) // ROW * ROW
    stop = min(max(span.stop, span.start + 1), start + ROW * ROWS)
    stop = min((stop + ROW - 1) // ROW * ROW, source.size)
    if stop <= start or (fetched and isinstance(source, FetchingSource) and not source.holds(start, stop)):
        return None
    try:
        return Excerpt(start, source.read(start, stop - start))
    except FormatError:
        return None
