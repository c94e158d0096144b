"""The options of `lint`, and the configuration files that set them.

Each option is declared once, as a field of `Options` (how one file is linted; the library takes it) or of `RunOptions`
(how a run of the command goes). A declaration gives the option of the command line (`i2s_spec.cli.options`), the key of
`i2s.toml`, the field of the dataclass, and its part of the key under which a run over many files keeps its results
(`i2s_spec.linter.cluster.check`).

    >>> options = Options(profile="security", ignore=("S1",))
    >>> options.reading, "S101" in options.levels
    ('none', False)

`found` reads the configuration for a folder from `i2s.toml` and from `[tool.i2s]` of `pyproject.toml`; `parsed` and
`checked_keys` check what stands in these files against the declarations.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import FormatError, SettingError, counted, quote
from i2s_spec.gguf.source import Origin, below, read_regular
from i2s_spec.inspect.survey import Mode
from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection import (
    PROFILES,
    READINGS,
    Suppression,
    reading_of,
    selected,
    suppressed_codes,
    suppressed_in,
)
from i2s_spec.schema.limits import NAMED, checked

if TYPE_CHECKING:
    from i2s_spec.compare import Reference
    from i2s_spec.compare.header_record import HeaderRecord
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


class Short:
    """A flag that stands for one value of an option; `name` is that of click's parameter."""

    def __init__(self, flag: str, name: str, value: str, help: str) -> None:
        self.flag = flag
        self.name = name
        self.value = value
        self.help = help


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
    """Return a field of a dataclass that is an option of `lint`.

    :param keyed: whether results that were made under another value of it do not count; not so for what `levels` and
    `reading` follow from, and for what changes only the speed
    :param more: the other fields of `Option`
    """
    metadata = {"option": Option(flags, help, group, kind, default, **more), "keyed": keyed}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(*classes: type) -> dict[str, Option]:
    """Return the options that are declared in these classes, by the names of the fields."""
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
    :param record: the header that the file should have
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
    record: HeaderRecord | None = None
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
            record=self.record is not None,
        )
        suppressed_codes(self.suppressed)
        for suppression in self.suppressions:
            suppressed_codes(dict.fromkeys(suppression.codes, suppression.reason))
        object.__setattr__(self, "reading", reading)
        object.__setattr__(self, "levels", levels)

    @property
    def ignored(self) -> frozenset[str]:
        """Codes of the rules of the profile that do not apply because of `select` and `ignore`."""
        return self._left_out_of(self.profile) if self.select or self.ignore else frozenset()

    @property
    def unasked(self) -> frozenset[str]:
        """Codes of the rules of the default profile that do not apply, for whatever reason of the caller."""
        return self._left_out_of("default")

    def _left_out_of(self, profile: str) -> frozenset[str]:
        every = selected(
            profile,
            payload=self.reading != "none",
            runtimes=self.runtimes,
            reference=self.reference is not None,
            record=self.record is not None,
        )
        return frozenset(every) - frozenset(self.levels)

    def suppressed_in(self, path: str | None, digest: Callable[[], str] = lambda: "") -> dict[str, str]:
        """Return the codes whose findings in a file are counted but not listed, each with the reason.

        :param digest: gives the SHA-256 of the file; called only if a suppression is bound to one
        """
        if path is None or not self.suppressions:
            return suppressed_codes(self.suppressed)
        return suppressed_codes({**self.suppressed, **suppressed_in(path, self.suppressions, digest)})


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
        shorts=(
            Short("--json", "as_json", "json", "The same as --format json."),
            Short("--statistics", "statistics", "statistics", "The same as --format statistics: counts by rule only."),
        ),
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
    force: bool = option(
        "--force",
        kind=OptionKind.FLAG,
        default=False,
        group=OptionGroup.REPORT,
        help="Let reports replace files that are no reports.",
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
        metavar="RECORD|DIALECT",
        group=OptionGroup.COMPARISON,
        help="Compare the header with a record that `i2s show --format record` wrote. With --reference also: how the I2_S "
        "tensors of FILE should be packed.  [default: canonical]",
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
    """Return the default options."""
    return Options()


def either(options: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return options that are given as such, or as keyword arguments.

    :raises TypeError: for both
    """
    if options is None:
        return options_of(keywords) if keywords else defaults()
    if keywords:
        raise TypeError("options and keywords exclude each other")
    return options


def options_of(keywords: Mapping[str, Any]) -> Options:
    """Make options from keyword arguments: any kind of sequence is accepted, and plain paths as reference and record."""
    given = dict(keywords)
    for name in ("select", "ignore", "suppressions"):
        if name in given:
            given[name] = tuple(given[name])
    for name in ("severity", "limits", "suppressed"):
        given[name] = dict(given.get(name) or {})
    reference = given.get("reference")
    if reference is not None:
        from i2s_spec.compare import Reference

        given["reference"] = reference if isinstance(reference, Reference) else Reference(reference)
    if isinstance(given.get("record"), str | os.PathLike):
        from i2s_spec.compare.header_record import HeaderRecord

        given["record"] = HeaderRecord(os.fspath(given["record"]))
    return Options(**given)


def path_of(origin: Origin) -> str | None:
    """Return the path of a file, if it is given by its path."""
    return os.fspath(origin) if isinstance(origin, str | os.PathLike) else None


# --- configuration files ---------------------------------------------------------------------------------------------
# The files are searched in the current folder and its parents, never beside the checked files, which are not trusted. A
# key in the nearest `i2s.toml` overrides the same key in the nearest `pyproject.toml` that has the table.
#
#     profile = "security"
#     fail-on = "warning"
#     ignore = ["P101", { files = "old/*.gguf", codes = ["I"], reason = "kept as a bad example", sha256 = "..." }]
#     severity = { M = "warning" }
#     limits = { tensors = 4096 }

#: Largest configuration file, in bytes.
LARGEST = 1 << 20

#: With blanks and quotes removed, a `pyproject.toml` with a table for this program contains one of these, or an escape
#: in a name.
_MENTIONS = (b"tool.i2s", b"tool]", b"tool=", b"\\u", b"\\U")


class Config(NamedTuple):
    """The contents of configuration files: a value for each key, the suppressions, and where each key was found."""

    values: Mapping[str, Any] = {}
    suppressions: tuple[Suppression, ...] = ()
    places: Mapping[str, str] = {}

    #: Whether the files were found by search, not named by the caller.
    was_found: bool = False

    def settings(self, cls: type, given: Mapping[str, Any], asked: Collection[str]) -> dict[str, Any]:
        """Return the values of the options that a class declares, for its constructor.

        What the caller asked for comes first, then what these files hold, then defaults. Of a setting that is a table,
        entries of the files that the caller does not set anew stay.

        :param given: the value of each option, which is its default unless the caller asked for it
        :param asked: the names of the options that the caller asked for
        """
        values = {}
        for name, option in declared(cls).items():
            values[name] = given[name]
            if option.key is None or option.key not in self.values:
                continue
            configured = self.values[option.key]
            if isinstance(configured, dict):
                values[name] = {**configured, **given[name]}
            elif name not in asked:
                values[name] = tuple(configured) if isinstance(configured, list) else configured
        return values

    def affecting_findings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return each file that changes what is found or what fails a run, with the keys that do it."""
        keys: dict[str, list[str]] = {}
        for key, place in self.places.items():
            if key in VERDICT_KEYS:
                keys.setdefault(shown(place), []).append(key)
        return tuple((place, tuple(sorted(held))) for place, held in sorted(keys.items()))

    def without_verdict_keys(self) -> Config:
        """Return the configuration without the keys that change what is found or what fails a run."""
        left = {key: value for key, value in self.values.items() if key not in VERDICT_KEYS}
        return Config(left, (), {key: place for key, place in self.places.items() if key in left}, self.was_found)


def found(folder: str = os.curdir, explicit: str | None = None) -> Config:
    """Return the configuration for a folder.

    :param explicit: a file to use instead of searching; in a `pyproject.toml`, only its table counts
    :raises SettingError: if a file cannot be read, or holds an unknown key or a bad value; it names file and key
    """
    if explicit is not None:
        table = _table(explicit)
        if table is None:
            raise SettingError(f"{shown(explicit)} has no table [tool.i2s]")
        return _config([(explicit, table)])
    tables: list[tuple[str, dict[str, Any]]] = []
    for name in ("pyproject.toml", "i2s.toml"):
        for place in _upwards(folder):
            path = os.path.join(place, name)
            if not os.path.isfile(path):
                continue
            try:  # nobody named it: its keys and values are not those of another file of the user
                below(place, name)
            except FormatError as error:
                raise SettingError(f"{shown(path)}: {error.message}") from None
            if (table := _table(path)) is not None:
                tables.append((path, table))
                break
    return _config(tables)._replace(was_found=True)


def _upwards(folder: str) -> list[str]:
    place, places = os.path.abspath(folder), []
    while place not in places:
        places.append(place)
        place = os.path.dirname(place)
    return places


def _table(path: str) -> dict[str, Any] | None:
    """Return the settings for this program in a file; None for a `pyproject.toml` without any."""
    try:
        data = read_regular(path, LARGEST)
    except OSError as error:
        raise SettingError(f"{shown(path)}: {error.strerror or type(error).__name__}") from None
    ours = os.path.basename(path) != "pyproject.toml"
    plain = data.translate(None, b" \t\"'")
    if not ours and not any(mention in plain for mention in _MENTIONS):  # spares most runs the TOML parser
        return None
    return parsed(path, data, ours)


def _config(tables: list[tuple[str, dict[str, Any]]]) -> Config:
    """Join tables to one configuration; later ones override earlier ones."""
    if not tables:  # most runs
        return Config()
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    suppressions: tuple[Suppression, ...] = ()
    for path, table in tables:
        for key, value in table.items():
            checked_keys(path, key, value)
            values[key], places[key] = value, path
            kind = OPTIONS[KEYS[key]].kind
            if kind is OptionKind.ACCEPTED:
                suppressions = tuple(suppression(path, item) for item in value if isinstance(item, dict))
                values[key] = [item for item in value if isinstance(item, str)]
            elif kind is OptionKind.FILE:
                values[key] = os.path.relpath(os.path.join(os.path.dirname(path), value))
    return Config(values, suppressions, places)


# --- keys of configuration files and their values --------------------------------------------------------------------

#: Most names in a dotted key: the parser's time grows with their square.
MOST_NAMES = 64

#: A string on one line: dots in it are not those of a key.
_QUOTED: Final = rb"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"

#: Keys of a suppression, and one that it may have.
_SUPPRESSION = {"files", "codes", "reason"}
_DIGEST = "sha256"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "must be a string"


def _texts(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    return None if good else "must be a list of strings"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _count(value: Any, least: int = 1) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return None if good else f"must be a number of at least {least}"


def _table_of(wanted: type, words: str, value: Any) -> str | None:
    good = isinstance(value, dict) and all(type(item) is wanted for item in value.values())
    return None if good else f"must be a table of {words}"


def _ignored(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(item, str | dict) for item in value)
    return None if good else "must be a list of codes and of tables with files, codes and reason"


def _wrong(option: Option, value: Any) -> str | None:
    """Return what is wrong with the value of an option in a file, if anything."""
    match option.kind:
        case OptionKind.CHOICE:
            good = isinstance(value, str) and value in option.choices
            return None if good else f"must be one of {', '.join(option.choices)}"
        case OptionKind.COUNT:
            return _count(value, option.least)
        case kind:
            return _CHECKS[kind](value)


#: For the other kinds of options in files, a function that says what is wrong with a value, if anything.
_CHECKS: Final[Mapping[OptionKind, Callable[[Any], str | None]]] = {
    OptionKind.FLAG: _flag,
    OptionKind.TEXT: _text,
    OptionKind.FILE: _text,
    OptionKind.WORDS: _texts,
    OptionKind.ACCEPTED: _ignored,
    OptionKind.LEVELS: partial(_table_of, str, "severities by code"),
    OptionKind.BOUNDS: partial(_table_of, int, "numbers by name"),
}

#: Options whose values are tried by making `Options`, which has words for what is wrong with them.
_TRIED: Final = (OptionKind.WORDS, OptionKind.ACCEPTED, OptionKind.LEVELS, OptionKind.BOUNDS)


def keys_of(*classes: type) -> dict[str, str]:
    """Return every key that these classes declare, with the name of the field."""
    options = [(name, each) for name, each in declared(*classes).items() if each.key is not None]
    return {str(each.key): name for name, each in sorted(options, key=lambda found: found[1].group.value)}


#: The options by their field's name, and their names by the key.
OPTIONS: Final = declared(Options, RunOptions)
KEYS: Final = keys_of(Options, RunOptions)

#: Keys that change what is found, or which findings fail a run.
VERDICT_KEYS: Final = frozenset(key for key, name in KEYS.items() if OPTIONS[name].affects_verdict)


def parsed(path: str, data: bytes, ours: bool) -> dict[str, Any] | None:
    """Return the settings in the bytes of a file; None where it has no table for this program.

    :param ours: whether the whole file is for this program
    :raises SettingError: where it is not TOML
    """
    if any(line.count(b".") >= MOST_NAMES for line in re.sub(_QUOTED, b"", data).split(b"\n")):
        raise SettingError(f"{shown(path)}: a line has a dotted key of more than {MOST_NAMES} names")
    import tomllib  # few runs have a table

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number with more digits than Python reads
        raise SettingError(f"{shown(path)}: this is not TOML: {quote(str(error), bare=True)}") from None
    if ours:
        return document
    tool = document.get("tool")
    table = tool.get("i2s") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingError(f"{shown(path)}: tool.i2s must be a table")
    return table


def checked_keys(path: str, key: str, value: Any) -> None:
    """Check a key and its value.

    :raises SettingError: for an unknown key or an invalid value
    """
    if key not in KEYS:
        raise SettingError(f"{shown(path)}: unknown key {quote(key)}; there are: {', '.join(KEYS)}")
    name, option = KEYS[key], OPTIONS[KEYS[key]]
    wrong = _wrong(option, value)
    if wrong is not None:
        raise SettingError(f"{shown(path)}: {key} {wrong}")
    if option.kind in _TRIED:
        try:
            tried: Any = _strings(value) if isinstance(value, list) else value
            Options(**{name: tried})
        except ValueError as error:
            raise SettingError(f"{shown(path)}: {key}: {error}") from None


def _strings(values: list[Any]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str))


def suppression(path: str, table: dict[str, Any]) -> Suppression:
    """Return the suppression that a table of the key `ignore` declares.

    :raises SettingError: for an unknown or missing key, or an invalid value
    """
    for key in sorted(table.keys() | _SUPPRESSION):
        if key not in _SUPPRESSION | {_DIGEST}:
            names = ", ".join(sorted(_SUPPRESSION | {_DIGEST}))
            raise SettingError(f"{shown(path)}: ignore: unknown key {quote(key)}; there are: {names}")
        value = table.get(key)
        wrong = "is missing" if value is None else _texts(value) if key == "codes" else _text(value)
        if wrong is None and key == "codes" and not value:
            wrong = "is empty"
        if wrong is None and key == "reason" and not str(value).strip():
            wrong = "must not be empty"
        if wrong is None and key == _DIGEST and re.fullmatch("[0-9a-fA-F]{64}", str(value)) is None:
            wrong = "must be a SHA-256: 64 hexadecimal digits"
        if wrong is not None:
            raise SettingError(f"{shown(path)}: ignore: {key} {wrong}")
    reason, digest = " ".join(table["reason"].split()), str(table.get(_DIGEST, "")).lower()
    made = Suppression(table["files"], tuple(table["codes"]), reason, os.path.dirname(path), digest)
    try:
        Options(suppressions=(made,))
    except ValueError as error:
        raise SettingError(f"{shown(path)}: ignore: {error}") from None
    return made


def shown(path: str) -> str:
    """Return a path as messages show it: relative to the current folder, and quoted if it is empty."""
    return quote(os.path.relpath(path), limit=4096, bare=True) if path else quote(path)
