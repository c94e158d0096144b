"""This module checks a checkpoint's folder by the linter's rules on checkpoints: `lint_checkpoint`.

As for GGUF files, a folder never causes an exception: an error that stops a reader is a finding, and an exception in a
rule is reported as a bug.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from typing import Any, Final

from i2s_spec.checkpoints.findings.folder_files import FolderFiles
from i2s_spec.checkpoints.findings.gathered_facts import gathered_facts, located
from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.source import is_address
from i2s_spec.linter.analysis.checkpoint_facts import PIECE, CheckpointFacts
from i2s_spec.linter.collection import Collection
from i2s_spec.linter.options import Options, defaults, options_of
from i2s_spec.linter.report_data import Report, Sample
from i2s_spec.linter.rule import OTHER_FORMATS, Severity, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.rules.checkpoint.folder_tensors import head
from i2s_spec.linter.rules.checkpoint.ternary_weights import code_3, not_finite
from i2s_spec.linter.selection.profile import INDISPENSABLE, selected
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds

#: Rules about every byte of a tensor; the rule on the head also applies without weights, and then compares types and
#: shapes.
_OF_EVERY_BYTE: Final[tuple[str, ...]] = (head.code, code_3.code, not_finite.code)


def lint_checkpoint(path: str | os.PathLike[str], options: Options | None = None, **keywords: Any) -> Report:
    """Check a folder of safetensors: index and shards, names and shapes, packing, scales, the head.

    From a hub's repository (`hf://ORG/REPO@REVISION`), only the JSON files, the headers of the shards and the scales
    are read, by ranges and at one commit; weights are read only if the option `payload` says how much.

    :param options: which rules apply, and how much of the weights is read; options about runtimes and references apply
        to GGUF files only
    :param keywords: the fields of `Options`, in place of `options`, as for `lint`
    :returns: the report; spans of findings are empty, and name a file of the folder
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    """
    if options is None:
        options = options_of(keywords) if keywords else defaults()
    elif keywords:
        raise TypeError("options and keywords exclude each other")
    name = os.fsdecode(path)
    reading = options.reading if options.payload is not None or not is_address(name) else "none"
    left = _levels(options, options.reading != "none").keys() - (levels := _levels(options, reading != "none")).keys()
    with bounds.using(options.limits), ExitStack() as stack:
        if options.remote is not None:
            from i2s_spec.remote.policy import using

            stack.enter_context(using(options.remote))
        collection = Collection(levels, options.suppressed_in(name))

        def report(error: FormatError, file: str) -> None:
            if (
                is_address(name) and error.code in faults.GONE
            ):  # parts that were not read are no fault of the checkpoint
                raise located(error, file)
            collection.add([finding_of(located(error, file))])

        try:
            folder = FolderFiles(name, stack)
        except FormatError as error:
            collection.add([finding_of(error)])
            return collection.report(name)
        except OSError as error:
            reason = TrustedText(error.strerror or type(error).__name__)
            collection.add([finding_of(FormatError(faults.UNREADABLE, Span(0, 0), reason=reason))])
            return collection.report(name)
        try:
            facts = gathered_facts(folder, reading, report)
            _run(levels, facts, collection, report)
            for shard, change in folder.changed():
                report(change, shard)
        except FormatError as error:
            collection.add([finding_of(error)])
            return collection.report(name, remote=folder.remote)
        size = sum(stored.source.size for stored in {s.source.name: s for s in facts.tensors.values()}.values())
        sampled = _sampled(levels, left, facts) if left or reading == "sample" else None
        return collection.report(name, size=size, sampled=sampled, remote=folder.remote)


def _run(
    levels: Mapping[str, Severity],
    facts: CheckpointFacts,
    collection: Collection,
    report: Callable[[FormatError, str], None],
) -> None:
    """Run the rules.

    :raises FormatError: if a server does not give the bytes that a rule reads
    """
    for code in levels:
        rule = REGISTRY[code]
        try:
            collection.add(rule.findings(facts))
        except FormatError as error:  # the file shrank while the rule ran
            report(error, error.span.path)
        except Exception as error:  # an exception in a rule is our bug; the other rules still run
            collection.bug(code, error)


def _sampled(levels: Mapping[str, Severity], left: Set[str], facts: CheckpointFacts) -> Sample:
    """What was not examined: rules on weights that did not run, and those that saw a part of them."""
    part = _OF_EVERY_BYTE if facts.reading == "sample" else _OF_EVERY_BYTE[:1]
    if facts.reading == "sample" and all(stored.nbytes <= PIECE for stored in facts.tensors.values()):
        part = ()
    return Sample(tuple(sorted(left)), tuple(code for code in sorted(part) if code in levels))


def lint_folder(path: str, options: Options) -> dict[str, Any]:
    """The same as plain data, for `i2s_spec.linter.batch.lint_paths`; the function can be pickled."""
    return lint_checkpoint(path, options).as_dict()


def _levels(options: Options, payload: bool) -> dict[str, Severity]:
    """The active rules with their severities, with or without those on weights."""
    levels = selected(
        options.profile, options.select, options.ignore, options.severity, payload=payload, other_format=True
    )
    return {code: level for code, level in levels.items() if code[0] == OTHER_FORMATS or code in INDISPENSABLE}
