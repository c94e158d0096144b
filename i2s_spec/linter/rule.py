"""Rules and findings, and the registry of all rules.

The documentation of a rule is the docstring of its declaration: the first line is its title, then follow paragraphs
that start with `Why:`, `Example:` and `Fix:`. `i2s explain`, the rule pages and the JSON list are made from it.

`rule` declares a rule with a function that examines a file and yields findings; `raised` declares one that the reader
itself applies. Both enter it into `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from i2s_spec.errors import Fault, FormatError, Span, render, table

#: A function that examines a `linter.analysis.context.LintContext` and yields findings.
Check = Callable[[Any], Iterable["Finding"]]
#: A function that says whether rules apply to a subject; the first line of its docstring says the same to users.
When = Callable[[Any], bool]


def every_file(_: Any) -> bool:
    """every file"""
    return True


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


def _rank(severity: Severity) -> int:
    return severity.rank


class Fix(StrEnum):
    """Whether a repair exists: one that cannot be wrong, one that needs a review, or none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


class WeightUse(StrEnum):
    """What a rule uses of the weights; of those that need them, what they can say of a sample (`--payload sample`)."""

    #: It reads the header, and bytes that belong to no tensor.
    NONE = "none"
    #: It uses the survey of the weights if there is one, and other evidence if not.
    IF_READ = "if they are read"
    #: It needs them. Of a sample its findings are valid, but there may be more in the rest.
    PART = "a part of each tensor"
    #: It uses only scales and tails, which are all read.
    SCALES = "scales and tails"
    #: It needs every byte of a tensor: it skips tensors that were read in part.
    EVERY_BYTE = "every byte of a tensor"
    #: It reads some layers whole, so it does not apply to files on servers.
    LAYERS = "whole layers"
    #: It reads its own positions in many tensors, so it does not apply to servers that give one range per request.
    POSITIONS = "positions in many tensors"


class Stops:
    """Why no reader can continue in a file that breaks a rule: the part that it cannot read, the reason, and the case.

    `case` is `always`, `known size` (all readers compute the same size for the tensor), `past the end` (the declared
    dimensions do not fit the file) or `never a type` (no type has had, or will have, that number).
    """

    def __init__(self, part: str, reason: str, case: str = "always") -> None:
        self.part = part
        self.reason = reason
        self.case = case


#: Reasons that several rules share.
NOT_GGUF = Stops("header", "it is not a GGUF file")
BYTES_MISSING = Stops("header", "the bytes that it refers to are not in the file")
PLACE_UNKNOWN = Stops("header", "the start of what follows cannot be known")
NO_DATA_START = Stops("tensors", "where the data section begins is not defined")
DATA_MISSING = Stops("tensors", "the bytes that it refers to are not in the file")

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
#: The family of the rules that do not apply to GGUF files.
OTHER_FORMATS = "H"


class Rule(NamedTuple):
    """A rule: one kind of mistake that the linter finds.

    `written` is its text as it is in the module.

    `provenance` names upstream issues, pull requests, tests and CVEs; `cwe` is the weakness that a careless reader has
    here. `check` is called for files that `when` accepts, and need not ask again. Rules that use `weights` run last, while
    they are being read. A file that breaks an `ambiguous` rule can be understood in more than one way, and is not
    sanitized. `stops` says that a reader cannot continue.

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
    when: When = every_file
    weights: WeightUse = WeightUse.NONE
    ambiguous: bool = False
    stops: Stops | None = None

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
    def applies_to(self) -> str:
        """The files that it applies to, in a few words."""
        return (self.when.__doc__ or "").partition("\n")[0]

    @property
    def payload(self) -> bool:
        """Whether it needs the weights, which a header-only run does not read."""
        return self.weights not in (WeightUse.NONE, WeightUse.IF_READ)

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

    def findings(self, examined: Any) -> Iterable[Finding]:
        """Yield what `check` finds, if it exists and the rule applies."""
        return self.check(examined) if self.check is not None and self.when(examined) else ()

    def at(self, span: Span, got: Any = None, want: Any = None, **details: Any) -> Finding:
        """Return a finding of this rule."""
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
    #: The most severe that this finding can be, where it is milder than its rule: what an old table says, for example.
    ceiling: Severity | None = None
    #: Whether `i2s fix` repairs it in its file; the engine adds it.
    fix: Fix = Fix.NONE

    @property
    def code(self) -> str:
        return self.rule.fault.code

    @property
    def severity(self) -> Severity:
        return self.rule.severity if self.ceiling is None else min(self.rule.severity, self.ceiling, key=_rank)

    @property
    def message(self) -> str:
        """One plain sentence; everything from the file in it is quoted."""
        return render(self.rule.fault.message, got=self.got, want=self.want, **self.details)

    def at_most(self, ceiling: Severity | None) -> Finding:
        """Return the same finding, not more severe than this."""
        return self._replace(ceiling=ceiling)

    def __repr__(self) -> str:
        return f"<Finding {self.severity.value} {self.code} {self.rule.slug} at {self.span}: {self.message}>"

    def _repr_html_(self) -> str:
        """Return the finding for a notebook, with the text of its rule."""
        facts = [("message", self.message), ("bytes", self.span), ("clause", self.rule.clause)]
        facts += [(name.lower(), words) for name, words in self.rule.sections.items() if name != "Example"]
        return table(f"{self.severity.value} {self.code}: {self.rule.title}", facts)


#: Every rule by its code, once `linter.rules` is imported.
REGISTRY: dict[str, Rule] = {}


def rule(
    code: Fault | str,
    slug: str = "",
    message: str = "",
    *,
    severity: Severity = ERROR,
    clause: str,
    **facts: Any,
) -> Callable[[Check], Rule]:
    """Declare the decorated function as a rule; its docstring is the rule's documentation.

    :param code: the rule's code, with `slug` and `message`; or a fault of the reader, which has all three
    :param facts: other fields of `Rule`
    """
    fault = code if isinstance(code, Fault) else Fault(code, slug, message)

    def register(check: Check) -> Rule:
        return _register(Rule(fault, severity, clause, check.__doc__ or "", check=check, **facts))

    return register


def raised(fault: Fault, text: str, *, clause: str, **facts: Any) -> Rule:
    """Declare a rule that the reader itself applies: it stops there, and the engine makes the finding.

    :param facts: other fields of `Rule`
    """
    return _register(Rule(fault, ERROR, clause, text, **facts))


def _register(made: Rule) -> Rule:
    if made.code in REGISTRY:
        raise ValueError(f"rule code {made.code} is used twice")
    REGISTRY[made.code] = made
    return made


def finding_of(error: FormatError) -> Finding:
    """Return the finding that the linter makes of a fault of the reader."""
    return REGISTRY[error.code].at(error.span, error.got, error.want, **error.details)
