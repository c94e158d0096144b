"""The options of `lint`: each is declared once, as a field of `Options` or of `RunOptions`.

A declaration gives the option of the command line (`i2s_spec.cli.lint_options`), the key of `i2s.toml`
(`i2s_spec.linter.config_keys`), the field of the dataclass, and its part of the key under which a run over many files
keeps its results (`i2s_spec.linter.cluster.options_key`). `Options` says how one file is linted, and is what the library
takes; `RunOptions` says how a run of the command goes.

    >>> options = Options(profile="security", ignore=("S1",))
    >>> options.reading, "S101" in options.levels
    ('none', False)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.errors import counted
from i2s_spec.gguf.source import Origin
from i2s_spec.inspect.survey.reading import Mode
from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection.profile import PROFILES, READINGS, reading_of, selected, suppressed_codes
from i2s_spec.schema.limits import NAMED, checked

if TYPE_CHECKING:
    from i2s_spec.linter.reference import Reference
    from i2s_spec.linter.selection.suppressions import Suppression
    from i2s_spec.remote.policy import Policy


class OptionKind(Enum):
    """What an option takes on the command line, and what stands for it in a configuration file."""

    CHOICE = auto()  # one of `choices`; a string
    FLAG = auto()  # nothing; true or false
    COUNT = auto()  # a number of at least `least`; a number
    TEXT = auto()  # a text; a string
    FILE = auto()  # the path of a file; a string, relative to the folder of the configuration
    INPUT = auto()  # the path of a file or a folder; not in files
    WORDS = auto()  # words with commas between them, any number of times; a list of strings
    ACCEPTED = auto()  # the same; a list of strings and of tables with files, codes and reason
    LEVELS = auto()  # CODE=LEVEL, any number of times; a table of strings
    BOUNDS = auto()  # NAME=VALUE, any number of times; a table of numbers
    REPORT = auto()  # the path of a file to write a report to, which is no GGUF file; not in files
    REPORTS = auto()  # FORM=FILE, any number of times; not in files
    RATES = auto()  # HOST=REQUESTS/SECONDS, any number of times; not in files


class OptionGroup(Enum):
    """What options are about. Messages about keys list them in this order."""

    RULES = auto()
    COMPARISON = auto()
    SPEED = auto()
    CLUSTER = auto()
    REPORT = auto()
    VERDICT = auto()
    FILES = auto()


class Short(NamedTuple):
    """A flag that stands for one value of an option; `name` is that of click's parameter."""

    flag: str
    name: str
    value: str
    help: str


class Option(NamedTuple):
    """The declaration of an option.

    :param flags: its names on the command line
    :param env: the environment variable that sets it
    :param key: its key in configuration files
    :param affects_verdict: it changes what is found or what fails a run, so reports name the file that sets it
    :param shorts: flags for some of its values; if they are `exclusive`, two of them or another value are an error
    :param sorted_help: the help lists the choices in alphabetical order
    """

    flags: tuple[str, ...]
    help: str
    group: OptionGroup
    kind: OptionKind
    default: Any = None
    env: str | None = None
    key: str | None = None
    affects_verdict: bool = True
    choices: tuple[str, ...] = ()
    sorted_help: bool = False
    least: int = 1
    metavar: str | None = None
    shorts: tuple[Short, ...] = ()
    exclusive: bool = False


def option(
    *flags: str, help: str, group: OptionGroup, kind: OptionKind, default: Any = None, keyed: bool = True, **more: Any
) -> Any:
    """A field of a dataclass that is an option of `lint`.

    :param keyed: whether results that were made under another value of it do not count; not so for what `levels` and
    `reading` follow from, and for what changes only the speed
    :param more: the other fields of `Option`
    """
    metadata = {"option": Option(flags, help, group, kind, default, **more), "keyed": keyed}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(*classes: type) -> dict[str, Option]:
    """The options that are declared in these classes, by the names of the fields."""
    return {each.name: found for cls in classes for each in fields(cls) if (found := each.metadata.get("option"))}


#: Where results of a run over many files go unless --results says otherwise.
RESULTS = "i2s-results.jsonl"


@dataclass(frozen=True)
class Options:
    """How files are linted.

    :param profile: which rules apply; `default` is as strict as the strictest loader that knows type 36
    :param select: prefixes of codes, or slugs, that apply instead of those of the profile
    :param ignore: prefixes or slugs that do not apply
    :param severity: severities by prefix or slug, over those of the profile
    :param limits: bounds by name, over those of `i2s_spec.schema.limits`
    :param payload: how much of the weights is read: `full`, a bounded part of each tensor (`sample`), or `none`; by
    default what the profile says, mostly `full`
    :param threads: how many threads read the weights
    :param runtimes: whether to say which runtimes load the file and compute correctly with it
    :param suppressed: prefixes or slugs whose findings are counted and not listed, each with the reason
    :param suppressions: the same for files whose name matches a pattern
    :param skip_lfs: a Git LFS pointer is no finding: the file is reported as skipped
    :param reference: another file of the same model, whose weights are right. It decides what the file alone does not show
    :param details: called with the file while it is open; its result is the report's `details`
    :param remote: which requests to servers are allowed for a file that is given by its address; by default the current
    policy
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, and a reference without payloads
    """

    profile: str = option(
        "--profile",
        kind=OptionKind.CHOICE,
        choices=tuple(PROFILES),
        default="default",
        group=OptionGroup.RULES,
        env="I2S_PROFILE",
        key="profile",
        help="Which rules apply; `i2s rules --profile NAME` lists them.",
    )
    select: tuple[str, ...] = option(
        "--select",
        keyed=False,
        kind=OptionKind.WORDS,
        metavar="CODE,...",
        default=(),
        group=OptionGroup.RULES,
        env="I2S_SELECT",
        key="select",
        help="Apply only these rules: codes, the beginnings of codes, or slugs.",
    )
    ignore: tuple[str, ...] = option(
        "--ignore",
        keyed=False,
        kind=OptionKind.ACCEPTED,
        metavar="CODE,...",
        default=(),
        group=OptionGroup.RULES,
        env="I2S_IGNORE",
        key="ignore",
        help="Do not apply these rules.",
    )
    severity: Mapping[str, Severity | str] = option(
        "--severity",
        keyed=False,
        kind=OptionKind.LEVELS,
        metavar="CODE=LEVEL",
        default={},
        group=OptionGroup.RULES,
        env="I2S_SEVERITY",
        key="severity",
        help="Set the severity of a rule: error, warning or note.",
    )
    limits: Mapping[str, int] = option(
        "--limit",
        kind=OptionKind.BOUNDS,
        metavar="NAME=VALUE",
        default={},
        group=OptionGroup.RULES,
        env="I2S_LIMIT",
        key="limits",
        help=f"Set a bound: {', '.join(NAMED)}.",
    )
    payload: Mode | None = option(
        "--payload",
        keyed=False,
        kind=OptionKind.CHOICE,
        choices=READINGS,
        group=OptionGroup.RULES,
        env="I2S_PAYLOAD",
        key="payload",
        help="How much of the weights is read.  [default: set by the profile, usually full]",
        exclusive=True,
        shorts=(
            Short("--header-only", "header_only", "none", "The same as --payload none."),
            Short("--sample", "sample", "sample", "The same as --payload sample: a bounded part of each tensor."),
        ),
    )
    threads: int = option(
        "--threads",
        keyed=False,
        kind=OptionKind.COUNT,
        default=1,
        group=OptionGroup.SPEED,
        env="I2S_THREADS",
        key="threads",
        affects_verdict=False,
        help="Threads that read the weights of one file.",
    )
    runtimes: bool = option(
        "--runtimes",
        kind=OptionKind.FLAG,
        default=False,
        group=OptionGroup.COMPARISON,
        env="I2S_RUNTIMES",
        key="runtimes",
        affects_verdict=False,
        help="Say which runtimes load and compute each file.",
    )
    suppressed: Mapping[str, str] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    skip_lfs: bool = option(
        "--skip-lfs",
        kind=OptionKind.FLAG,
        default=False,
        group=OptionGroup.FILES,
        env="I2S_SKIP_LFS",
        key="skip-lfs",
        help="Skip Git LFS pointers instead of reporting them.",
    )
    reference: Reference | None = None
    details: Callable[[Any], Any] | None = None
    remote: Policy | None = field(default=None, metadata={"keyed": False})
    #: The active rules by code, each with its severity.
    levels: Mapping[str, Severity] = field(init=False, compare=False, repr=False)
    #: How much of the weights is read.
    reading: Mode = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.payload not in (None, *READINGS):
            raise ValueError(f"unknown reading {self.payload!r} of payloads; there are: {', '.join(READINGS)}")
        if self.threads < 1:
            raise ValueError(f"{counted(self.threads, 'thread')} cannot read: at least 1 is needed")
        dict(checked(self.limits))
        reading: Mode = self.payload or reading_of(self.profile)
        if self.reference is not None:
            if reading == "none":
                raise ValueError("a reference needs payloads to be read: use payload='full' or 'sample'")
            self.reference.check()
        levels = selected(
            self.profile,
            self.select,
            self.ignore,
            self.severity,
            payload=reading != "none",
            runtimes=self.runtimes,
            reference=self.reference is not None,
        )
        suppressed_codes(self.suppressed)
        for suppression in self.suppressions:
            suppressed_codes(dict.fromkeys(suppression.codes, suppression.reason))
        object.__setattr__(self, "reading", reading)
        object.__setattr__(self, "levels", levels)

    @property
    def ignored(self) -> frozenset[str]:
        """Codes of the rules of the profile that do not apply because of `select` and `ignore`."""
        if not self.select and not self.ignore:
            return frozenset()
        profile = selected(
            self.profile, payload=self.reading != "none", runtimes=self.runtimes, reference=self.reference is not None
        )
        return frozenset(profile) - frozenset(self.levels)

    def suppressed_in(self, path: str | None) -> dict[str, str]:
        """The codes whose findings in a file are counted but not listed, each with the reason."""
        if path is None or not self.suppressions:
            return suppressed_codes(self.suppressed)
        from i2s_spec.linter.selection.suppressions import suppressed_in

        return suppressed_codes({**self.suppressed, **suppressed_in(path, self.suppressions)})


@dataclass(frozen=True, eq=False, repr=False)
class RunOptions:
    """How a run of `i2s lint` goes: what it reports, in what form, and what fails it."""

    form: str = option(
        "--format",
        "--output-format",
        kind=OptionKind.CHOICE,
        choices=tuple(FORMATS),
        sorted_help=True,
        default="text",
        group=OptionGroup.REPORT,
        env="I2S_FORMAT",
        key="format",
        affects_verdict=False,
        help="Form of the report.",
        shorts=(Short("--json", "as_json", "json", "The same as --format json."),),
    )
    output: str | None = option(
        "-o",
        "--output",
        kind=OptionKind.REPORT,
        group=OptionGroup.REPORT,
        help="Write the report to this file instead of standard output (-).",
    )
    reports: Mapping[str, str] = option(
        "--report",
        kind=OptionKind.REPORTS,
        metavar="FORM=FILE",
        default={},
        group=OptionGroup.REPORT,
        help="Write the report to a file as well, in this form.",
    )
    jobs: int = option(
        "--jobs",
        kind=OptionKind.COUNT,
        least=0,
        default=1,
        group=OptionGroup.SPEED,
        env="I2S_JOBS",
        key="jobs",
        affects_verdict=False,
        help="Processes that check files; 0 for one on each processor.",
    )
    engine: str | None = option(
        "--engine",
        kind=OptionKind.CHOICE,
        choices=("dask",),
        group=OptionGroup.CLUSTER,
        help="Check the files on Dask and keep the results, so that a run that ended early can go on. FILE may then "
        "also be an address, a list (NAME.txt) or a manifest (NAME.jsonl). Needs the extra [dask].",
    )
    scheduler: str | None = option(
        "--scheduler",
        kind=OptionKind.TEXT,
        metavar="ADDRESS",
        group=OptionGroup.CLUSTER,
        help="The cluster to use.  [default: --jobs processes here]",
    )
    results: str | None = option(
        "--results",
        kind=OptionKind.FILE,
        metavar="FILE.jsonl",
        group=OptionGroup.CLUSTER,
        help=f"File of the results; a Parquet table of them is written beside it at the end.  [default: {RESULTS}]",
    )
    rates: Mapping[str, tuple[float, float]] = option(
        "--rate",
        kind=OptionKind.RATES,
        metavar="HOST=REQUESTS/SECONDS",
        default={},
        group=OptionGroup.CLUSTER,
        help="Limit the requests of all workers together to a host.",
    )
    in_flight: int | None = option(
        "--in-flight",
        kind=OptionKind.COUNT,
        metavar="BYTES",
        group=OptionGroup.CLUSTER,
        help="Limit the total size of the files that workers check or have queued.  [default: 4294967296]",
    )
    reference: str | None = option(
        "--reference",
        kind=OptionKind.INPUT,
        metavar="OTHER",
        group=OptionGroup.COMPARISON,
        help="Compare the weights with those of another file of the model: GGUF, safetensors, or a folder of these. It "
        "decides questions that one file leaves open, such as the layout of random weights.",
    )
    reference_dialect: str | None = option(
        "--reference-dialect",
        kind=OptionKind.TEXT,
        metavar="DIALECT",
        group=OptionGroup.COMPARISON,
        help="How the I2_S tensors of OTHER are packed.  [default: canonical]",
    )
    expect: str | None = option(
        "--expect",
        kind=OptionKind.TEXT,
        metavar="DIALECT",
        group=OptionGroup.COMPARISON,
        help="How the I2_S tensors of FILE should be packed.  [default: canonical]",
    )
    fail_on: str = option(
        "--fail-on",
        kind=OptionKind.CHOICE,
        choices=(*(severity.value for severity in Severity), "never"),
        default="error",
        group=OptionGroup.VERDICT,
        env="I2S_FAIL_ON",
        key="fail-on",
        help="Exit with 1 if a finding is at or above this severity. A file that cannot be read always gives 3.",
    )
    baseline: str | None = option(
        "--baseline",
        kind=OptionKind.FILE,
        group=OptionGroup.VERDICT,
        env="I2S_BASELINE",
        key="baseline",
        help="Leave out the findings in this file; fail if one of them no longer occurs.",
    )
    write_baseline: bool = option(
        "--write-baseline",
        kind=OptionKind.FLAG,
        default=False,
        group=OptionGroup.VERDICT,
        help="Write the findings of this run to the baseline.",
    )
    config: str | None = option(
        "--config",
        kind=OptionKind.FILE,
        group=OptionGroup.FILES,
        env="I2S_CONFIG",
        help="Configuration to use instead of looking for i2s.toml and pyproject.toml.",
    )
    no_config: bool = option(
        "--no-config", kind=OptionKind.FLAG, default=False, group=OptionGroup.FILES, help="Look for no configuration."
    )
    quiet: bool = option(
        "-q",
        "--quiet",
        kind=OptionKind.FLAG,
        default=False,
        group=OptionGroup.FILES,
        help="Only findings and verdicts: nothing about files without findings, no advice.",
    )

    @property
    def threshold(self) -> Severity | None:
        """The lowest severity that fails the run; None for never."""
        return None if self.fail_on == "never" else Severity(self.fail_on)


@cache
def defaults() -> Options:
    """The default options."""
    return Options()


def options_of(keywords: Mapping[str, Any]) -> Options:
    """Options from keyword arguments: any kind of sequence is accepted, and a plain path as the reference."""
    given = dict(keywords)
    if "excused" in given:  # this option's name in version 0.1.0
        given["suppressed"] = given.pop("excused")
    for name in ("select", "ignore", "suppressions"):
        if name in given:
            given[name] = tuple(given[name])
    for name in ("severity", "limits", "suppressed"):
        given[name] = dict(given.get(name) or {})
    reference = given.get("reference")
    if reference is not None:
        from i2s_spec.linter.reference import Reference

        given["reference"] = reference if isinstance(reference, Reference) else Reference(reference)
    return Options(**given)


def path_of(origin: Origin) -> str | None:
    """The path of a file, if it is given by its path."""
    return os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
