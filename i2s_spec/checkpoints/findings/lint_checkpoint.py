"""This module checks a checkpoint's folder by the linter's rules on checkpoints: `lint_checkpoint`.

As for a GGUF file, a folder is never a reason to raise: what stops a reader is a finding, and a rule of ours that fails is
reported as a bug.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from i2s_spec.checkpoints.findings.gathered_facts import gathered_facts, located
from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.linter.collection import Collection, in_force
from i2s_spec.linter.options import Options, defaults, options_of
from i2s_spec.linter.report_data import Report
from i2s_spec.linter.rule import Needs, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.selection.profile import INDISPENSABLE, selected
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds


def lint_checkpoint(path: str | os.PathLike[str], options: Options | None = None, **keywords: Any) -> Report:
    """Check a folder of safetensors: index and shards, names and shapes, packing, scales, the head.

    :param options: which rules apply, and how much of the weights is read; what is about runtimes or a reference counts for
        GGUF files only
    :param keywords: the fields of `Options`, in place of `options`, as for `lint`
    :returns: the report; spans of findings have no bytes, and name the file of the folder
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading
    """
    if options is None:
        options = options_of(keywords) if keywords else defaults()
    elif keywords:
        raise TypeError("options and keywords exclude each other")
    name = os.fsdecode(path)
    levels = selected(
        options.profile, options.select, options.ignore, options.severity,
        payload=options.reading != "none", other_format=True,
    )  # fmt: skip
    rules = in_force({code: levels[code] for code in levels if _applies(code)}, REGISTRY)
    with bounds.using(options.limits), ExitStack() as stack:
        collection = Collection(rules, options.suppressed_in(name))

        def report(error: FormatError, file: str) -> None:
            collection.add([finding_of(located(error, file))])

        try:
            facts = gathered_facts(name, options.reading, stack, report)
        except OSError as error:
            reason = TrustedText(error.strerror or type(error).__name__)
            collection.add([finding_of(FormatError(faults.UNREADABLE, Span(0, 0), reason=reason))])
            return collection.report(name)
        for code, rule in rules.items():
            if rule.check is None:
                continue
            try:
                collection.add(rule.check(facts))
            except FormatError as error:  # a file that shrinks under the rule
                report(error, error.span.path)
            except Exception as error:  # a rule that fails is our bug; the others still run
                collection.bug(code, error)
        size = sum(stored.source.size for stored in {s.source.name: s for s in facts.tensors.values()}.values())
        return collection.report(name, size=size)


def lint_folder(path: str, options: Options) -> dict[str, Any]:
    """The same as plain data, for `i2s_spec.linter.batch.lint_paths`; it pickles."""
    return lint_checkpoint(path, options).as_dict()


def _applies(code: str) -> bool:
    return code in INDISPENSABLE or REGISTRY[code].needs is Needs.OTHER_FORMAT
