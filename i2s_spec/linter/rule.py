"""This module defines what a rule is, what a finding is, and the registry that holds every rule once.

A rule's documentation is the docstring that it is declared with: the first line is its title, then paragraphs that start
with `Why:`, `Example:` and `Fix:`. `i2s explain`, the rule pages and the JSON list are views of it.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.errors import Fault, FormatError, Span, render

if TYPE_CHECKING:
    from i2s_spec.linter.subject import Subject

Check = Callable[["Subject"], Iterable["Finding"]]


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
    """Whether a repair exists: one that cannot be wrong, one that needs judgement, or none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


#: What most rules apply to.
EVERY_FILE = "every file"

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

#: What the first letter of a code says.
FAMILIES = {
    "G": "the form of the container",
    "I": "I2_S payload and tail",
    "M": "metadata and architecture",
    "T": "tokenizer",
    "S": "security and bounds",
    "P": "portability",
    "H": "files of other formats, which conversions read",
}


class Rule(NamedTuple):
    """One way to be wrong, as the linter knows it.

    `sources` are the ids of the failure in the catalogues this project started from; `provenance` names upstream issues,
    pull requests, tests and CVEs; `cwe` is the weakness that a careless reader has here. `when` says in a few words to
    which files the rule applies, `payload` whether it looks at the weights, which a header-only run does not read. A
    rule is `late` where it asks what is in the weights if they are read: that comes last, as they are read meanwhile.
    """

    fault: Fault
    severity: Severity
    clause: str
    text: str
    sources: tuple[str, ...]
    provenance: tuple[str, ...]
    cwe: int | None
    fix: Fix
    check: Check | None
    when: str = EVERY_FILE
    payload: bool = False
    late: bool = False

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
        """The paragraphs behind the title, by their first word: Why, Example, Fix."""
        found = re.findall(r"^(Why|Example|Fix): (.*?)(?=\n\n|\Z)", self.text, re.DOTALL | re.MULTILINE)
        return {name: " ".join(words.split()) for name, words in found}

    def at(self, span: Span, got: Any = None, want: Any = None, **details: Any) -> "Finding":
        """A finding of this rule."""
        return Finding(self, span, got, want, details)


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


#: Every rule by its code.
REGISTRY: dict[str, Rule] = {}


def rule(
    code: Fault | str,
    slug: str = "",
    message: str = "",
    *,
    severity: Severity = ERROR,
    clause: str,
    sources: str = "",
    provenance: tuple[str, ...] = (),
    cwe: int | None = None,
    fix: Fix = Fix.NONE,
    when: str = EVERY_FILE,
    payload: bool = False,
    late: bool = False,
) -> Callable[[Check], Rule]:
    """Declare the decorated function as a rule; its docstring is the rule's documentation.

    :param code: the rule's code, with `slug` and `message`; or a fault of the reader, which brings all three
    """
    fault = code if isinstance(code, Fault) else Fault(code, slug, message)

    def register(check: Check) -> Rule:
        return _register(
            fault, severity, clause, check.__doc__ or "", sources, provenance, cwe, fix, check, when, payload, late
        )

    return register


def raised(
    fault: Fault,
    text: str,
    *,
    clause: str,
    sources: str = "",
    provenance: tuple[str, ...] = (),
    cwe: int | None = None,
    fix: Fix = Fix.NONE,
    when: str = EVERY_FILE,
) -> Rule:
    """Declare a rule that the reader itself applies: it stops there, and the engine makes the finding."""
    return _register(fault, ERROR, clause, text, sources, provenance, cwe, fix, None, when)


def _register(
    fault: Fault,
    severity: Severity,
    clause: str,
    text: str,
    sources: str,
    provenance: tuple[str, ...],
    cwe: int | None,
    fix: Fix,
    check: Check | None,
    when: str = EVERY_FILE,
    payload: bool = False,
    late: bool = False,
) -> Rule:
    if fault.code in REGISTRY:
        raise ValueError(f"rule code {fault.code} is used twice")
    lines = [line.strip() for line in text.strip().splitlines()]
    made = Rule(
        fault, severity, clause, "\n".join(lines), tuple(sources.split()), provenance, cwe, fix, check, when, payload,
        payload or late,
    )  # fmt: skip
    REGISTRY[fault.code] = made
    return made


def finding_of(error: FormatError) -> Finding:
    """What a fault of the reader is to the linter."""
    return REGISTRY[error.code].at(error.span, error.got, error.want, **error.details)
