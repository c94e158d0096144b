"""This module defines what a rule is, what a finding is, and the registry that holds every rule once.

A rule's documentation is the docstring that it is declared with: the first line is its title, then paragraphs that start
with `Why:`, `Example:` and `Fix:`. `i2s explain`, the rule pages and the JSON list are views of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from i2s_spec.errors import Fault, FormatError, Span, TrustedText, render
from i2s_spec.light_typing import Any, NamedTuple

#: A function that looks at a `linter.analysis.subject.Subject`, and yields findings.
Check = Callable[[Any], Iterable["Finding"]]


class Severity(StrEnum):
    """How bad a finding is: an error makes the file unusable or ambiguous, a warning suspicious, a note is a fact."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for a note, 2 for an error."""
        return ("note", "warning", "error").index(self.value)


class Fix(StrEnum):
    """Whether a repair exists: one that cannot be wrong, one that somebody has to review, or none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


class Needs(StrEnum):
    """What a rule needs beside the file; it applies where that is there."""

    NOTHING = "nothing"
    RUNTIMES = "a report on runtimes"
    REFERENCE = "another file of the same model"
    OTHER_FORMAT = "a file of another format, which a conversion reads"


class Sampled(StrEnum):
    """What a rule on payloads says where a part of each tensor was read (`--payload sample`)."""

    #: Nothing but scales and tails count, which are all read.
    WHOLE = "whole"
    #: What it finds is there; what it does not find may be in the rest.
    PART = "part"
    #: It needs every byte of a tensor: of one that was read in part it says nothing.
    NOT = "not"
    #: It reads some layers whole: not of a server.
    LOCAL = "local"
    #: It reads places of its own in many tensors: not of a server that gives one range at a time.
    SPREAD = "spread"


class Stops(NamedTuple):
    """Why no reader can read on in a file that breaks a rule: which part it cannot read, the reason, and in which case.

    `case` is `always`, `known size` (of a tensor whose size every reader computes alike), `past the end` (the dimensions
    that are declared do not fit the file) or `never a type` (no type has had, or will have, that number).
    """

    part: str
    reason: str
    case: str = "always"


#: Reasons that several rules have.
NOT_GGUF = Stops("header", "it is not a GGUF file")
BYTES_MISSING = Stops("header", "the bytes that it speaks of are not in the file")
PLACE_UNKNOWN = Stops("header", "where what follows begins cannot be known")
NO_DATA_START = Stops("tensors", "where the data section begins is not defined")
DATA_MISSING = Stops("tensors", "the bytes that it speaks of are not in the file")

#: What most rules apply to.
EVERY_FILE = "every file"

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

#: What the first letter of a code says.
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
    """One way to be wrong, as the linter knows it.

    `provenance` names upstream issues, pull requests, tests and CVEs; `cwe` is the weakness that a careless reader has
    here. `when` says in a few words to which files the rule applies, `payload` whether it looks at the weights, which a
    header-only run does not read. A rule is `late` where it asks what is in the weights if they are read: that comes
    last, as they are read meanwhile. A file that breaks an `ambiguous` rule can be understood in more than one way, and
    is not sanitised. `stops` says that a reader cannot read on. A rule `reads_table` where it compares another part of
    the file with the tensor infos. `sampled` is about rules on payloads alone.

    `fix_with` are the options of `i2s fix` that its repair takes, where they are not those of all repairs of its kind;
    `command` is another command that mends the file, over `{path}` and the finding's `{got}`.
    """

    fault: Fault
    severity: Severity
    clause: str
    text: str
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


def weights(count: int) -> TrustedText:
    """The noun after a number of weights.

    >>> weights(1), weights(2)
    ('weight', 'weights')
    """
    return TrustedText("weight" if count == 1 else "weights")


class Excerpt(NamedTuple):
    """Bytes of a file, and where they begin."""

    start: int
    data: bytes


class Finding(NamedTuple):
    """A rule that does not hold, the bytes that show it, and the values involved.

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
        """The finding for a notebook, with what its rule says."""
        from i2s_spec.display import table

        facts = [("message", self.message), ("bytes", self.span), ("clause", self.rule.clause)]
        facts += [(name.lower(), words) for name, words in self.rule.sections.items() if name != "Example"]
        return table(f"{self.severity.value} {self.code}: {self.rule.title}", facts)


#: Every rule by its code.
REGISTRY: dict[str, Rule] = {}


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

    :param code: the rule's code, with `slug` and `message`; or a fault of the reader, which brings all three
    :param facts: other fields of `Rule`
    """
    fault = code if isinstance(code, Fault) else Fault(code, slug, message)

    def register(check: Check) -> Rule:
        text = check.__doc__ or ""
        return _register(fault, severity, clause, text, check=check, payload=payload, late=payload or late, **facts)

    return register


def raised(fault: Fault, text: str, *, clause: str, **facts: Any) -> Rule:
    """Declare a rule that the reader itself applies: it stops there, and the engine makes the finding.

    :param facts: other fields of `Rule`
    """
    return _register(fault, ERROR, clause, text, **facts)


def _register(fault: Fault, severity: Severity, clause: str, text: str, **facts: Any) -> Rule:
    if fault.code in REGISTRY:
        raise ValueError(f"rule code {fault.code} is used twice")
    lines = [line.strip() for line in text.strip().splitlines()]
    made = REGISTRY[fault.code] = Rule(fault, severity, clause, "\n".join(lines), **facts)
    return made


def finding_of(error: FormatError) -> Finding:
    """What a fault of the reader is to the linter."""
    return REGISTRY[error.code].at(error.span, error.got, error.want, **error.details)
