"""This module defines rules, findings, and the registry of all rules.

The documentation of a rule is the docstring of its declaration: the first line is its title, then follow paragraphs
that start with `Why:`, `Example:` and `Fix:`. `i2s explain`, the rule pages and the JSON list are made from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Fault, FormatError, Span, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: A function that examines a `linter.analysis.subject.Subject` and yields findings.
Check = Callable[[Any], Iterable["Finding"]]


class Severity(StrEnum):
    """The severity of a finding: an error makes the file unusable or ambiguous, a warning suspicious; a note is a fact."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for a note, 2 for an error."""
        return _RANKS[self]


_RANKS: Final = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Fix(StrEnum):
    """Whether a repair exists: one that cannot be wrong, one that needs a review, or none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


class Needs(StrEnum):
    """What a rule needs besides the file; it applies only if that is given."""

    NOTHING = "nothing"
    RUNTIMES = "a report on runtimes"
    REFERENCE = "another file of the same model"
    OTHER_FORMAT = "a file of another format, which a conversion reads"


class Sampled(StrEnum):
    """What a rule on payloads can say if only a part of each tensor was read (`--payload sample`)."""

    #: It uses only scales and tails, which are all read.
    WHOLE = "whole"
    #: Its findings are valid, but there may be more in the rest.
    PART = "part"
    #: It needs every byte of a tensor: it skips tensors that were read in part.
    NOT = "not"
    #: It reads some layers whole, so it does not apply to files on servers.
    LOCAL = "local"
    #: It reads its own positions in many tensors, so it does not apply to servers that give one range per request.
    SPREAD = "spread"


class Stops(NamedTuple):
    """Why no reader can continue in a file that breaks a rule: the part that it cannot read, the reason, and the case.

    `case` is `always`, `known size` (all readers compute the same size for the tensor), `past the end` (the declared
    dimensions do not fit the file) or `never a type` (no type has had, or will have, that number).
    """

    part: str
    reason: str
    case: str = "always"


#: Reasons that several rules share.
NOT_GGUF = Stops("header", "it is not a GGUF file")
BYTES_MISSING = Stops("header", "the bytes that it refers to are not in the file")
PLACE_UNKNOWN = Stops("header", "the start of what follows cannot be known")
NO_DATA_START = Stops("tensors", "where the data section begins is not defined")
DATA_MISSING = Stops("tensors", "the bytes that it refers to are not in the file")

#: The files that most rules apply to.
EVERY_FILE = "every file"

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

#: The meaning of the first letter of a code.
FAMILIES = {
    "G": "the form of the container",
    "I": "I2_S payload and tail",
    "B": "payloads with a scale for each group",
    "M": "metadata and architecture",
    "T": "tokenizer",
    "S": "security and bounds",
    "P": "portability",
    "H": "checkpoints and other files that conversions read",
}


class Rule(NamedTuple):
    """A rule: one kind of mistake that the linter finds.

    `written` is its text as it is in the module.

    `provenance` names upstream issues, pull requests, tests and CVEs; `cwe` is the weakness that a careless reader has
    here. `when` says in a few words to which files the rule applies, `payload` whether it needs the weights, which a
    header-only run does not read. A `late` rule uses the survey of the weights if they are read, so it runs last, while
    they are being read. A file that breaks an `ambiguous` rule can be understood in more than one way, and is not
    sanitized. `stops` says that a reader cannot continue. A rule `reads_table` if it compares another part of the file
    with the tensor infos. `sampled` applies only to rules on payloads.

    `fix_with` are the options of `i2s fix` that its repair needs, if they differ from those of other repairs of its
    kind; `command` is another command that repairs the file, with `{path}` and the finding's `{got}`.
    """

    fault: Fault
    severity: Severity
    clause: str
    written: str
    provenance: tuple[str, ...] = ()
    cwe: int | None = None
    fix: Fix = Fix.NONE
    fix_with: str = ""
    command: str = ""
    check: Check | None = None
    when: str = EVERY_FILE
    payload: bool = False
    late: bool = False
    needs: Needs = Needs.NOTHING
    ambiguous: bool = False
    stops: Stops | None = None
    reads_table: bool = False
    sampled: Sampled = Sampled.PART

    @property
    def code(self) -> str:
        return self.fault.code

    @property
    def slug(self) -> str:
        return self.fault.slug

    @property
    def family(self) -> str:
        return self.fault.code[0]

    @property
    def text(self) -> str:
        """The text of its page: a title, then paragraphs."""
        return "\n".join(line.strip() for line in self.written.strip().splitlines())

    @property
    def title(self) -> str:
        """One sentence: what is wrong."""
        return self.text.partition("\n")[0]

    @property
    def sections(self) -> dict[str, str]:
        """The paragraphs after the title, by their first word: Why, Example, Fix."""
        import re

        found = re.findall(r"^(Why|Example|Fix): (.*?)(?=\n\n|\Z)", self.text, re.DOTALL | re.MULTILINE)
        return {name: " ".join(words.split()) for name, words in found}

    def __repr__(self) -> str:
        return f"<Rule {self.code} {self.slug}: {self.severity.value}>"

    def at(self, span: Span, got: Any = None, want: Any = None, **details: Any) -> Finding:
        """A finding of this rule."""
        return Finding(self, span, got, want, details)


class Excerpt(NamedTuple):
    """Bytes of a file, and their position."""

    start: int
    data: bytes


class Finding(NamedTuple):
    """A broken rule, the bytes that show it, and the values involved.

    The engine adds an excerpt: the first bytes of the span, with some around them.
    """

    rule: Rule
    span: Span
    got: Any
    want: Any
    details: dict[str, Any]
    excerpt: Excerpt | None = None

    @property
    def code(self) -> str:
        return self.rule.fault.code

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    @property
    def message(self) -> str:
        """One plain sentence; everything from the file in it is quoted."""
        return render(self.rule.fault.message, got=self.got, want=self.want, **self.details)

    def __repr__(self) -> str:
        return f"<Finding {self.severity.value} {self.code} {self.rule.slug} at {self.span}: {self.message}>"

    def _repr_html_(self) -> str:
        """The finding for a notebook, with the text of its rule."""
        from i2s_spec.display import table

        facts = [("message", self.message), ("bytes", self.span), ("clause", self.rule.clause)]
        facts += [(name.lower(), words) for name, words in self.rule.sections.items() if name != "Example"]
        return table(f"{self.severity.value} {self.code}: {self.rule.title}", facts)


class Facts(NamedTuple):
    """The facts by which rules are selected; they are known before the module of the rule is imported.

    `weakness` says whether the rule names a CWE, `checked` whether it has its own function, `general` whether it
    applies to every file.
    """

    code: str
    slug: str
    severity: Severity
    needs: Needs
    payload: bool
    late: bool
    weakness: bool
    checked: bool
    general: bool


def facts_of(rule: Rule) -> Facts:
    """The facts by which a rule is selected."""
    return Facts(
        rule.code, rule.slug, rule.severity, rule.needs, rule.payload, rule.late, rule.cwe is not None,
        rule.check is not None, rule.when == EVERY_FILE,
    )  # fmt: skip


class Registry(dict[str, "Rule"]):
    """Every rule by its code. The module that declares a rule is imported when the rule is requested; all modules are
    imported when the registry is iterated over.

    `homes` has the module of each rule that can be imported, `places` that of each rule that was declared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.homes: Mapping[str, str] = {}
        self.places: dict[str, str] = {}
        self._indexed: Mapping[str, Facts] = {}
        self._whole = True

    def attach(self, homes: Mapping[str, str], indexed: Mapping[str, Facts]) -> None:
        """Register the modules of rules, to be imported when the rules are requested."""
        self.homes, self._indexed, self._whole = homes, indexed, False

    def facts(self) -> Iterable[Facts]:
        """The facts of every rule, without importing further modules, in the order of the modules."""
        known = self._indexed
        more = [code for code in dict.keys(self) if code not in known]
        return [*known.values(), *(facts_of(dict.__getitem__(self, code)) for code in more)] if more else known.values()

    def declared(self, code: str) -> bool:
        """Whether the module of a rule was imported and has declared it."""
        return dict.__contains__(self, code)

    def _load_all(self) -> None:
        if not self._whole:
            self._whole = True
            for home in dict.fromkeys(self.homes.values()):
                __import__(home)

    def __missing__(self, code: str) -> Rule:
        __import__(self.homes[code])  # raises KeyError for an unknown code
        return dict.__getitem__(self, code)

    def __contains__(self, code: object) -> bool:
        return dict.__contains__(self, code) or code in self.homes

    def get(self, code: str, default: Any = None) -> Any:
        """The rule of a code; the default for an unknown code."""
        known = code in self
        return self[code] if known else default

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._load_all()
        return super().__len__()

    def keys(self) -> Any:
        self._load_all()
        return super().keys()

    def values(self) -> Any:
        self._load_all()
        return super().values()

    def items(self) -> Any:
        self._load_all()
        return super().items()


#: Every rule by its code.
REGISTRY = Registry()


def rule(
    code: Fault | str,
    slug: str = "",
    message: str = "",
    *,
    severity: Severity = ERROR,
    clause: str,
    payload: bool = False,
    late: bool = False,
    **facts: Any,
) -> Callable[[Check], Rule]:
    """Declare the decorated function as a rule; its docstring is the rule's documentation.

    :param code: the rule's code, with `slug` and `message`; or a fault of the reader, which has all three
    :param facts: other fields of `Rule`
    """
    fault = code if isinstance(code, Fault) else Fault(code, slug, message)

    def register(check: Check) -> Rule:
        text = check.__doc__ or ""
        facts["check"] = check
        return _register(
            check.__module__, fault, severity, clause, text, payload=payload, late=payload or late, **facts
        )

    return register


def raised(fault: Fault, text: str, *, clause: str, **facts: Any) -> Rule:
    """Declare a rule that the reader itself applies: it stops there, and the engine makes the finding.

    :param facts: other fields of `Rule`
    """
    return _register(sys._getframe(1).f_globals["__name__"], fault, ERROR, clause, text, **facts)


def _register(home: str, fault: Fault, severity: Severity, clause: str, text: str, **facts: Any) -> Rule:
    if REGISTRY.declared(fault.code):
        raise ValueError(f"rule code {fault.code} is used twice")
    REGISTRY.places[fault.code] = home
    made = REGISTRY[fault.code] = Rule(fault, severity, clause, text, **facts)
    return made


def finding_of(error: FormatError) -> Finding:
    """The severity that the linter gives to a fault of the reader."""
    return REGISTRY[error.code].at(error.span, error.got, error.want, **error.details)
