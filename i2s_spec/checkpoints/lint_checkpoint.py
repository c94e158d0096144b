"""Check a checkpoint's folder by the linter's rules on checkpoints: `lint_checkpoint`.

As for GGUF files, a folder never causes an exception: an error that stops a reader is a finding, and an exception in a
rule is reported as a bug. `FolderFiles` opens the files, and `gathered_facts` gathers what the rules examine.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.families import (
    ABSMEAN,
    BY_FAMILY,
    DERIVED,
    GATES,
    PROJECTIONS,
    TERNARY,
    Family,
    ModelSizes,
    family_of,
    foreign_form,
    prefix_of,
    recognize,
    sizes_of,
    tensors_of_layer,
)
from i2s_spec.checkpoints.folder import (
    CARD,
    INDEX,
    MORE_TEMPLATES,
    MOST_CONFIG,
    MOST_SHARDS,
    MOST_TEMPLATE,
    MOST_TOKENIZER,
    PICKLES,
    TEXTS,
    CheckpointFolder,
    refused,
)
from i2s_spec.checkpoints.import_checkpoint import prepared
from i2s_spec.checkpoints.plan import Choices
from i2s_spec.checkpoints.source_weights import looks_ternary, not_ternary
from i2s_spec.checkpoints.token_files import token_lists, tokenizer_values
from i2s_spec.errors import FormatError, MissingExtra, Span, TrustedText, counted, quote
from i2s_spec.gguf.source import FetchingSource, Source, below, is_address, require_unchanged
from i2s_spec.linter.analysis.checkpoint_facts import PIECE, WORDS, CheckpointFacts, FamilyFacts
from i2s_spec.linter.analysis.conditions import checkpoints
from i2s_spec.linter.engine import Collection, lint
from i2s_spec.linter.options import Options, either
from i2s_spec.linter.report_data import Remote, Report, Sample
from i2s_spec.linter.rule import OTHER_FORMATS, Finding, Severity, finding_of
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.rules.checkpoint import code_3, head, not_finite
from i2s_spec.linter.selection import INDISPENSABLE, selected
from i2s_spec.safetensors.files import Checkpoint, Stored
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds

#: Rules about every byte of a tensor; the rule on the head also applies without weights, and then compares types and
#: shapes.
_OF_EVERY_BYTE: Final[tuple[str, ...]] = (head.code, code_3.code, not_finite.code)


def lint_checkpoint(path: str | os.PathLike[str], options: Options | None = None, **keywords: Any) -> Report:
    """Check a folder of safetensors: index and shards, names and shapes, packing, scales, the head, the tokenizer.

    There is an error exactly where an import refuses the folder, whichever type it is to write. Chat templates and the
    texts in headers of shards are checked by the rules on texts of GGUF files.

    From a hub's repository (`hf://ORG/REPO@REVISION`), only the JSON files, the headers of the shards and the scales
    are read, by ranges and at one commit; weights are read only if the option `payload` says how much.

    :param options: which rules apply, and how much of the weights is read; options about runtimes and references apply
        to GGUF files only
    :param keywords: the fields of `Options`, in place of `options`, as for `lint`
    :returns: the report; spans of findings are empty, and name a file of the folder
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    """
    options = either(options, keywords)
    return _report(os.fsdecode(path), options, "")


def _report(name: str, options: Options, root: str) -> Report:
    """Return the report on a folder.

    :param root: the folder below which it was found
    """
    reading = options.reading if options.payload is not None or not is_address(name) else "none"
    left = _levels(options, options.reading != "none").keys() - (levels := _levels(options, reading != "none")).keys()
    with bounds.using(options.limits), ExitStack() as stack:
        if options.remote is not None:
            from i2s_spec.remote.policy import using

            stack.enter_context(using(options.remote))
        collection = Collection(levels, options.suppressed_in(name))
        wrong: set[str] = set()

        def report(error: FormatError, file: str) -> None:
            wrong.add(error.code)
            if (
                is_address(name) and error.code in faults.GONE
            ):  # parts that were not read are no fault of the checkpoint
                raise located(error, file)
            collection.add([finding_of(located(error, file))])

        try:
            folder = FolderFiles(name, stack, root)
        except FormatError as error:
            collection.add([finding_of(error)])
            return collection.report(name)
        except OSError as error:
            reason = TrustedText(error.strerror or type(error).__name__)
            collection.add([finding_of(FormatError(faults.UNREADABLE, Span(0, 0), reason=reason))])
            return collection.report(name)
        try:
            facts = gathered_facts(folder, reading, report)
            wrong |= _run(levels, facts, collection, report)
            collection.add(_text_findings(facts))
            for shard, change in folder.changed():
                report(change, shard)
            unasked = _as_import(folder, facts, levels, wrong, report)
        except FormatError as error:
            collection.add([finding_of(error)])
            return collection.report(name, remote=folder.remote)
        size = sum(stored.source.size for stored in {s.source.name: s for s in facts.tensors.values()}.values())
        sampled = _sampled(levels, left, facts) if left or reading == "sample" else None
        unchecked = (*unasked, *_not_examined(facts))
        return collection.report(name, size=size, sampled=sampled, remote=folder.remote, unchecked=unchecked)


def _run(
    levels: Mapping[str, Severity],
    facts: CheckpointFacts,
    collection: Collection,
    report: ReportFault,
) -> set[str]:
    """Run the rules on checkpoints.

    :returns: the codes of what was found, if it is an error by itself
    :raises FormatError: if a server does not give the bytes that a rule reads
    """
    wrong: set[str] = set()
    for code in levels:
        rule = REGISTRY[code]
        if rule.family != OTHER_FORMATS and code not in INDISPENSABLE:
            continue
        try:
            findings = list(rule.findings(facts))
            collection.add(findings)
            wrong |= {code for finding in findings if finding.severity is Severity.ERROR}
        except FormatError as error:  # the file shrank while the rule ran
            report(error, error.span.path)
        except Exception as error:  # an exception in a rule is our bug; the other rules still run
            collection.bug(code, error)
    return wrong


def _as_import(
    folder: FolderFiles,
    facts: CheckpointFacts,
    levels: Mapping[str, Severity],
    wrong: Set[str],
    report: ReportFault,
) -> list[str]:
    """Do what an import does before it writes, and report what it refuses and no rule has said.

    The types are those that hold every number. Matrices of floats that are ternary already and vectors are read, unless
    only a part of the weights is to be.

    :param wrong: the codes of what was found; it grows with what is reported here
    :returns: what could not be asked, in words
    """
    unasked: list[str] = []
    if facts.family is None:
        return unasked
    family = BY_FAMILY[facts.family.name]
    try:
        if not facts.unreadable & set(TEXTS):
            lists = token_lists(folder, sizes_of(facts.config).h.vocab, family.pre)
            tokenizer_values(folder, lists)
    except MissingExtra as error:
        unasked.append(f"how the tokenizer splits text ({error})")
    except FormatError as error:
        report(error, error.span.path or next((name for name in _TOKENIZERS if name in folder.names), "config.json"))
    own = {code for code, rule in REGISTRY.items() if rule.when is checkpoints and rule.severity is Severity.ERROR}
    own -= {code for code in own if REGISTRY[code].payload and facts.reading == "none"}
    if own - levels.keys() or wrong:
        return unasked  # rules that were left out say the rest, and so do findings
    try:
        folder.open()
        recognized, sizes = recognize(folder), sizes_of(folder.config)
        rule = None if facts.reading != "none" else family.rule  # what looks for a rule reads some of every matrix
        choices = Choices("F32", "F32", rule=rule, compare=facts.reading == "full")
        tensors, *_ = prepared(folder, recognized, sizes, choices)
        for tensor in tensors if facts.reading == "full" else ():
            if tensor.rule == TERNARY and tensor.matrix is not None:
                tensor.matrix()
            elif len(tensor.shape) == 1:
                deque(tensor.data(), maxlen=0)
    except FormatError as error:
        report(error, "config.json")
    return unasked


#: How many files that were not examined are named.
LISTED: Final = 4
#: The files of a tokenizer, the one that counts first.
_TOKENIZERS: Final = ("tokenizer.model", "tokenizer.json")


def _not_examined(facts: CheckpointFacts) -> Iterator[str]:
    """Yield the files of the folder that nothing was looked for in, in words."""
    known = {
        *TEXTS,
        CARD,
        *(file.partition("/")[0] for file, *_ in facts.texts),
        *([INDEX] if facts.index is not None else []),
        *facts.shards,
    }
    left = sorted(facts.files - known)
    if left:
        more = f" and {counted(len(left) - LISTED, 'other file')}" if len(left) > LISTED else ""
        yield f"the contents of {', '.join(map(quote, left[:LISTED]))}{more}"


def _sampled(levels: Mapping[str, Severity], left: Set[str], facts: CheckpointFacts) -> Sample:
    """Return what was not examined: rules on weights that did not run, and those that read a part of them."""
    part = _OF_EVERY_BYTE if facts.reading == "sample" else _OF_EVERY_BYTE[:1]
    if facts.reading == "sample" and all(stored.nbytes <= PIECE for stored in facts.tensors.values()):
        part = ()
    return Sample(tuple(sorted(left)), tuple(code for code in sorted(part) if code in levels))


def lint_folder(path: str, options: Options, root: str = "") -> dict[str, Any]:
    """Return the same as plain data, for `i2s_spec.linter.paths`; the function can be pickled.

    :param root: the folder below which it was found; links may lead to what is below that
    """
    return _report(path, options, root).as_dict()


def _levels(options: Options, payload: bool) -> dict[str, Severity]:
    """Return the active rules with their severities, with or without those on weights."""
    levels = selected(
        options.profile, options.select, options.ignore, options.severity, payload=payload, other_format=True
    )
    return {
        code: level
        for code, level in levels.items()
        if code[0] == OTHER_FORMATS or code in INDISPENSABLE or code.startswith(TEXT_RULES)
    }


# --- folder files ----------------------------------------------------------------------------------------------------
# The files are on this machine, or on a hub.


class FolderFiles(CheckpointFolder):
    """The files of a folder, each opened on its own; on a hub all together stay within the budget of one file.

    :param path: a folder, or an address for `pinned_folder`
    :param stack: the exit stack that keeps the shards open
    :param root: the folder below which it was found
    :raises FormatError: S911 to S918 for addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises OSError: where the folder cannot be listed
    """

    def __init__(self, path: str, stack: ExitStack, root: str = "") -> None:
        self._stack = stack
        self._begin = time.monotonic()
        self._shards: dict[str, Source] = {}
        self._sound: list[str] = []
        self._small: dict[str, bytes] = {}
        super().__init__(path, root, listed=True)
        self._requests, self._bytes = self.listing

    def source(self, name: str) -> Source:
        """Return a file; a shard that is open already is not opened again.

        :raises FormatError: as for any folder, and S917 where its files together cost too much
        """
        if name in self._shards:
            return self._shards[name]
        self._check_budget()
        return super().source(name)

    def bytes_of(self, name: str, most: int) -> bytes:
        """Return a whole small file; those of a MiB at most are read only once."""
        data = self._small.get(name)
        if data is None or len(data) > most:
            data = super().bytes_of(name, most)
            if len(data) <= MOST_CONFIG:
                self._small[name] = data
        return data

    def done(self, source: Source) -> None:
        usage = getattr(source, "usage", (0, 0))  # a file of the hub's cache costs nothing
        self._requests += usage[0]
        self._bytes += usage[1]
        super().done(source)

    def shard(self, name: str) -> Checkpoint:
        """Return the tensors of a shard; only its header is read.

        :raises FormatError: H101, H102, H104, and S911 to S918 of a hub
        """
        self._shards[name] = source = self.source(name)  # requests for a broken shard count, too
        self._stack.callback(source.close)
        opened = Checkpoint([source])
        self._sound.append(name)
        if isinstance(source, FetchingSource):  # all scales are requested together
            scales = (each for each in opened.values() if each.name.endswith("_scale") and each.nbytes <= 4)
            source.expect((each.start, each.stop) for each in scales)
        return opened

    def changed(self) -> Iterator[tuple[str, FormatError]]:
        """Yield shards that changed since they were opened, each with its error (12.4-2)."""
        for name in self._sound:
            try:
                require_unchanged(self._shards[name])
            except FormatError as error:
                yield name, error

    @property
    def remote(self) -> Remote | None:
        """The requests and bytes since the folder was listed; None for a folder of this machine."""
        return Remote(self.commit, *self._spent()) if self.is_remote else None

    def _spent(self) -> tuple[int, int]:
        usages = [getattr(source, "usage", (0, 0)) for source in self._shards.values()]
        return self._requests + sum(each[0] for each in usages), self._bytes + sum(each[1] for each in usages)

    def _check_budget(self) -> None:
        """Check that all files together stay within the budget of one file, before the next one is read.

        :raises FormatError: S917
        """
        if not self.is_remote:
            return
        from i2s_spec.remote.policy import current
        from i2s_spec.remote.transport import over_budget

        policy, (requests, size) = current(), self._spent()
        spent = {"bytes": size, "requests": requests, "seconds": time.monotonic() - self._begin}
        for name, value in spent.items():
            if value > (most := getattr(policy, name)):
                raise over_budget(name, most)


# --- texts -----------------------------------------------------------------------------------------------------------
# Rules on texts in GGUF files also hold for those of a checkpoint: they are put into a file that has nothing else.

#: The rules on texts.
TEXT_RULES: Final = "S2"
#: Most of a text that is examined; rules say what of a longer one was not read.
_MOST_TEXT: Final = 1 << 20
_MOST_TEXTS: Final = 256


def _texts(folder: FolderFiles, metadata: Mapping[str, Any]) -> list[tuple[str, str, bool, str]]:
    """Return the texts of a folder: file, what it is in words that need no escaping, whether it is a template, and
    the text.

    Every template counts, whichever of them an import takes; what cannot be read has its own finding.
    """
    found: list[tuple[str, str, bool, str]] = []
    for name in [*folder.names, *_more_templates(folder)]:
        with suppress(FormatError):
            if name.endswith(".jinja"):
                text = folder.bytes_of(name, MOST_TEMPLATE).decode(errors="replace")
                found.append((name, f"the chat template {quote(name)}", True, text))
            elif name.endswith(".json") and ("chat_template" in name or name in _CONFIGS):
                found += _templates_in(name, folder.json_of(name, MOST_TOKENIZER).get("chat_template"))
    for shard, about in metadata.items():
        for key, value in about.items() if isinstance(about, dict) else ():
            text = value if isinstance(value, str) else ""
            template = "chat_template" in key or "{%" in text or "{{" in text
            found.append((shard, f"{quote(key)} in the header of {quote(shard)}", template, text))
    names = [name for name in folder.names if not name.isprintable()]
    return [*found, *((name, "the name of a file", False, name) for name in names)][:_MOST_TEXTS]


#: JSON files that may have chat templates.
_CONFIGS: Final = ("tokenizer_config.json", "processor_config.json")


def _more_templates(folder: FolderFiles) -> list[str]:
    """Return the templates in a folder of their own; of a hub only the files of the folder itself are known."""
    if folder.is_remote or MORE_TEMPLATES not in folder.names:
        return []
    try:
        names = os.listdir(below(folder.path, MORE_TEMPLATES))
    except (FormatError, OSError):
        return []
    return [f"{MORE_TEMPLATES}/{name}" for name in sorted(names) if name.endswith(".jinja")]


def _templates_in(file: str, value: Any) -> Iterator[tuple[str, str, bool, str]]:
    """Yield the templates of a JSON file: one, or several by name."""
    if isinstance(value, list):
        value = {str(each.get("name")): each.get("template") for each in value if isinstance(each, dict)}
    for name, text in value.items() if isinstance(value, dict) else [("", value)]:
        if isinstance(text, str):
            yield file, f"the chat template {f'{quote(name)} ' if name else ''}in {quote(file)}", True, text


def _text_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Yield the findings of the rules on texts, each at its file."""
    if not facts.texts:
        return
    keys: list[bytes] = []
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(facts.texts))
    for number, (_, _, template, text) in enumerate(facts.texts):
        keys.append(f"{'tokenizer.chat_template' if template else 'checkpoint.text'}.{number}".encode())
        value = text.encode("utf-8", "replace")[:_MOST_TEXT]
        data += struct.pack("<Q", len(keys[-1])) + keys[-1] + struct.pack("<IQ", 8, len(value)) + value
    for finding in lint(data, Options(select=(TEXT_RULES,))).findings:
        for number, (file, what, _, _) in enumerate(facts.texts):
            if finding.span.path.startswith(f"key_values[{number}]."):
                details = {
                    name: TrustedText(what) if value == keys[number] else value
                    for name, value in finding.details.items()
                }
                yield finding._replace(span=Span(0, 0, file), details=details, excerpt=None)


# --- gathered facts --------------------------------------------------------------------------------------------------
# An import refuses a folder at the first fault; here every file that cannot be read is one finding, and the rest is
# still examined.

#: The norms before the attention output projection and the FFN down projection.
_SUB_NORMS: Final = ("attn_sub_norm", "ffn_sub_norm")

ReportFault = Callable[[FormatError, str], None]


class _Read(NamedTuple):
    """The facts that decide the family: config.json, and the tensors by name."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]


def gathered_facts(folder: FolderFiles, reading: str, report: ReportFault) -> CheckpointFacts:
    """Return the facts of a folder.

    :param reading: how much of the weights is read: `full`, `sample` or `none`
    :param report: called with each error, and the file's name
    :raises FormatError: if `report` raises it
    """
    unreadable: set[str] = set()

    def tried(name: str, read: Callable[[], Any], default: Any) -> Any:
        try:
            return read()
        except FormatError as error:
            unreadable.add(name)
            report(error, name)
            return default

    config = tried("config.json", lambda: folder.config, {})
    if "config.json" not in folder.names:
        report(refused(folder.without_config()), "config.json")
    index = tried(INDEX, lambda: folder.index, {})
    shards: dict[str, Mapping[str, Stored]] = {}
    metadata: dict[str, Any] = {}
    names, index = _shard_names(folder, index, report)
    for name in names:
        opened = tried(name, partial(folder.shard, name), None)
        if opened is not None:
            shards[name] = opened
            metadata[name] = next(iter(opened.metadata.values()))
    texts: dict[str, Callable[[], Any]] = {
        "generation_config.json": lambda: folder.generation,
        "tokenizer_config.json": lambda: folder.tokenizer_config,
        CARD: lambda: folder.card,
    }
    if "tokenizer.model" in folder.names:
        texts["added_tokens.json"] = lambda: folder.json_of("added_tokens.json")
    else:
        texts["tokenizer.json"] = lambda: folder.tokenizer
    for name, each in texts.items():
        tried(name, each, None)
    if "tokenizer_config.json" not in unreadable:
        own = next((name for name in folder.names if name.startswith("chat_template.")), "tokenizer_config.json")
        tried(own, lambda: folder.chat_template, None)
    facts = CheckpointFacts(
        config, index, frozenset(folder.names), shards, reading, unreadable=frozenset(unreadable), notes=folder.notes,
        texts=_texts(folder, metadata), code=tuple(_code(folder)),
    )  # fmt: skip
    if config and facts.tensors:
        read = _Read(config, facts.tensors)
        facts.foreign = foreign_form(read)
        try:
            facts.family = None if facts.foreign else _family(read)
        except _Unknown as reason:
            facts.unknown = str(reason)
        except FormatError as error:
            report(error, "config.json")
    return facts


def _shard_names(
    folder: FolderFiles, index: Mapping[str, Any] | None, report: ReportFault
) -> tuple[list[str], Mapping[str, Any] | None]:
    """Return the shards to read, and the index if it counts. With one that is wrong, which a rule says, all are
    read.
    """
    names: list[str] = []
    try:
        names, places = folder.chosen(index)
        index = None if places is None else index
        folder.within_limit(names)
    except FormatError as error:
        if index is None or names:
            report(error, INDEX)
            return [], index
        names = [name for name in folder.names if name.endswith(".safetensors")][:MOST_SHARDS]
    if not names:
        pickle = next((name for name in folder.names if name.endswith(PICKLES)), "config.json")
        report(refused(folder.without_weights()), pickle)
    return names, index


def _code(folder: FolderFiles) -> Iterator[tuple[str, str]]:
    """Yield the files that execute code when they are loaded, and the settings that load some: file, and what it is."""
    for name in folder.names:
        if name.endswith(PICKLES):
            yield name, "is a pickle, which executes code when it is read; it was not opened"
        elif name.endswith(".py"):
            yield name, "is a Python module, which trust_remote_code executes; it was not opened"
    for name in ("config.json", "tokenizer_config.json"):
        found = None
        with suppress(FormatError):
            found = folder.json_of(name, MOST_TOKENIZER).get("auto_map")
        if found:
            some = next(iter(found.values()), None) if isinstance(found, dict) else found
            some = some[0] if isinstance(some, list) and some else some
            yield name, f"names Python code in auto_map, {quote(str(some)[:80])}, which trust_remote_code executes"


class _Unknown(Exception):
    """There is no family with ternary weights; the text says why."""


def _family(read: _Read) -> FamilyFacts | None:
    """Return what a checkpoint of the family must have.

    :raises FormatError: H104 for sizes that no model can have
    :raises _Unknown: where there is no such family
    """
    found = family_of(read)
    if found is None:
        seen = ", ".join(quote(str(read.config.get(key))) for key in ("architectures", "model_type"))
        raise _Unknown(f"no family of ternary models has these architectures and model_type: {seen}")
    prefix = prefix_of(read.tensors)
    if found.rule != ABSMEAN and (why := _not_ternary(read, found, prefix)) is not None:
        raise _Unknown(f"its class can be that of {found.name} models, but its weights are not ternary{why}")
    return _expected(found, sizes_of(read.config), prefix, read)


def _not_ternary(read: _Read, family: Family, prefix: str) -> str | None:
    """Explain why the weights are not ternary, as the end of a sentence; None if a matrix of the first layer is packed
    or looks ternary."""
    why = ""
    for module, name in family.layer.items():
        stored = read.tensors.get(f"{prefix}layers.0.{module}.weight")
        if name not in PROJECTIONS or stored is None or len(stored.shape) != 2 or not all(stored.shape):
            continue
        if stored.dtype == "U8":
            return None
        try:
            if stored.dtype in WORDS and looks_ternary(stored):
                return None
            why = why or (f": {not_ternary(stored).details['reason']}" if stored.dtype in WORDS else "")
        except FormatError:  # another rule reports values that are not finite
            continue
    return why


def _expected(family: Family, sizes: ModelSizes, prefix: str, read: _Read) -> FamilyFacts:
    h, embedding = sizes.h, f"{prefix}embed_tokens.weight"
    expected: dict[str, tuple[int, ...]] = {embedding: (h.vocab, h.embd), f"{prefix}norm.weight": (h.embd,)}
    matrices, sub_norms, optional = set(), set(), {f"{prefix}{name}" for name in DERIVED}
    optional |= {name for name in read.tensors if name.startswith(tuple(family.left_out))}
    for layer in range(h.layers):
        at = f"{prefix}layers.{layer}."
        optional |= {f"{at}{name}" for name in DERIVED}
        optional |= {f"{at}{module}.weight" for module, word in family.layer.items() if word in family.optional}
        for each in tensors_of_layer(family, h, layer):
            weight = f"{at}{each.source}"
            expected[weight] = each.shape
            stored = read.tensors.get(weight)
            if each.word in PROJECTIONS or (each.word in GATES and stored is not None and stored.dtype == "U8"):
                matrices.add(weight)
                optional.add(f"{weight}_scale")
            elif each.word in _SUB_NORMS:
                sub_norms.add(weight)
            if each.module in family.biases:
                optional.add(f"{at}{each.module}.bias")
    return FamilyFacts(
        family.name, expected, frozenset(matrices), frozenset(sub_norms), frozenset(optional), embedding,
        family.tied, family.pooling is not None, family.rule == ABSMEAN,
    )  # fmt: skip


def located(error: FormatError, name: str) -> FormatError:
    """Return the same error, with the name of the file in the folder."""
    return FormatError(error.fault, Span(0, 0, name), error.got, error.want, **error.details)
