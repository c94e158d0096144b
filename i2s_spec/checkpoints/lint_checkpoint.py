"""Check a checkpoint's folder by the linter's rules on checkpoints: `lint_checkpoint`.

As for GGUF files, a folder never causes an exception: an error that stops a reader is a finding, and an exception in a
rule is reported as a bug. `FolderFiles` opens the files, and `gathered_facts` gathers what the rules examine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.families import ABSMEAN, DERIVED, PROJECTIONS, SHAPES, Family, ModelSizes, family_of, sizes_of
from i2s_spec.checkpoints.folder import INDEX, MOST_CONFIG, MOST_INDEX, PICKLES, read_object, refused
from i2s_spec.checkpoints.source_weights import looks_ternary
from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.source import FetchingSource, Source, is_address, require_unchanged, source_of
from i2s_spec.linter.analysis.checkpoint_facts import PIECE, WORDS, CheckpointFacts, FamilyFacts
from i2s_spec.linter.engine import Collection
from i2s_spec.linter.options import Options, defaults, options_of
from i2s_spec.linter.report_data import Remote, Report, Sample
from i2s_spec.linter.rule import OTHER_FORMATS, Severity, finding_of
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
    """The same as plain data, for `i2s_spec.linter.paths`; the function can be pickled."""
    return lint_checkpoint(path, options).as_dict()


def _levels(options: Options, payload: bool) -> dict[str, Severity]:
    """The active rules with their severities, with or without those on weights."""
    levels = selected(
        options.profile, options.select, options.ignore, options.severity, payload=payload, other_format=True
    )
    return {code: level for code, level in levels.items() if code[0] == OTHER_FORMATS or code in INDISPENSABLE}


# --- folder files ----------------------------------------------------------------------------------------------------
# The files are on this machine, or on a hub.

#: Most shards that are read from a hub: each needs megabytes and a connection. Models of a trillion weights have 200.
MOST_SHARDS: Final = 512


class FolderFiles:
    """The files of a folder of this machine, or of a hub's repository: read by ranges, all of one commit.

    :param path: a folder, or an address for `pinned_folder`
    :param stack: the exit stack that keeps the shards open
    :raises FormatError: S911 to S918 for addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises OSError: where the folder cannot be listed
    """

    def __init__(self, path: str, stack: ExitStack) -> None:
        self._stack = stack
        self._begin = time.monotonic()
        self._open: list[Source] = []
        self._sound: list[tuple[str, Source]] = []
        self._requests = self._bytes = self._shards = 0
        self.is_remote = is_address(path)
        if self.is_remote:
            from i2s_spec.remote.open import pinned_folder

            found = pinned_folder(path)
            self._place, self.names, self._commit = found.address, frozenset(found.names), found.commit
            self._requests, self._bytes = found.usage
        else:
            self._place, self.names = path, frozenset(os.listdir(path))

    def json(self, name: str, most: int) -> dict[str, Any]:
        """A JSON file.

        :raises FormatError: H104, and S911 to S918 of a hub
        :raises OSError: where it cannot be read
        """
        return read_object(self._file(name), most, self._close)

    def shard(self, name: str) -> Checkpoint:
        """The tensors of a shard; only its header is read.

        :raises FormatError: H101, H102, H104, and S911 to S918 of a hub
        :raises OSError: where it cannot be read
        """
        if self.is_remote and self._shards == MOST_SHARDS:
            reason = TrustedText(f"more than {MOST_SHARDS:,} shards would be read, which is the limit on servers")
            raise FormatError(faults.REMOTE_OVER_BUDGET, Span(0, 0), reason=reason)
        self._check_budget()
        self._shards += 1
        source = source_of(self._file(name))
        self._stack.callback(source.close)
        self._open.append(source)  # requests for a broken shard count, too
        opened = Checkpoint([source])
        self._sound.append((name, source))
        if isinstance(source, FetchingSource):  # all scales are requested together
            scales = (each for each in opened.values() if each.name.endswith("_scale") and each.nbytes <= 4)
            source.expect((each.start, each.stop) for each in scales)
        return opened

    def changed(self) -> Iterator[tuple[str, FormatError]]:
        """Shards that changed since they were opened, each with its error (12.4-2)."""
        for name, source in self._sound:
            try:
                require_unchanged(source)
            except FormatError as error:
                yield name, error

    @property
    def remote(self) -> Remote | None:
        """The requests and bytes since the folder was listed; None for a folder of this machine."""
        return Remote(self._commit, *self._spent()) if self.is_remote else None

    def _file(self, name: str) -> str:
        return f"{self._place}/{name}" if self.is_remote else os.path.join(self._place, name)

    def _close(self, source: Source) -> None:
        usage = getattr(source, "usage", (0, 0))  # a file of the hub's cache costs nothing
        self._requests += usage[0]
        self._bytes += usage[1]

    def _spent(self) -> tuple[int, int]:
        usages = [getattr(source, "usage", (0, 0)) for source in self._open]
        return self._requests + sum(each[0] for each in usages), self._bytes + sum(each[1] for each in usages)

    def _check_budget(self) -> None:
        """Check that all files together stay within the budget of one file, before the next header is read.

        :raises FormatError: S917
        """
        if not self.is_remote:
            return
        from i2s_spec.remote.http_source import over_budget
        from i2s_spec.remote.policy import current

        policy, (requests, size) = current(), self._spent()
        spent = {"bytes": size, "requests": requests, "seconds": time.monotonic() - self._begin}
        for name, value in spent.items():
            if value > (most := getattr(policy, name)):
                raise over_budget(name, most)


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
    """The facts of a folder.

    :param reading: how much of the weights is read: `full`, `sample` or `none`
    :param report: called with each error, and the file's name
    :raises FormatError: if `report` raises it
    """
    files = folder.names

    def json_of(name: str, most: int) -> dict[str, Any] | None:
        try:
            return folder.json(name, most) if name in files else None
        except FormatError as error:
            report(error, name)
        except OSError as error:
            report(refused(f"{quote(name)} cannot be read: {error.strerror}"), name)
        return {}

    config = json_of("config.json", MOST_CONFIG)
    if config is None:
        report(refused("the folder has no config.json"), "config.json")
    index = json_of(INDEX, MOST_INDEX)
    shards: dict[str, Mapping[str, Stored]] = {}
    for name in sorted(each for each in files if each.endswith(".safetensors")):
        try:
            shards[name] = folder.shard(name)
        except FormatError as error:
            report(error, name)
        except OSError as error:
            report(refused(f"{quote(name)} cannot be read: {error.strerror}"), name)
    if not any(each.endswith(".safetensors") for each in files):
        pickles = sorted(each for each in files if each.endswith(PICKLES))
        reason = "the folder has no *.safetensors"
        if pickles:
            reason = f"its weights are pickles ({quote(pickles[0])}), which execute code when they are read"
        report(refused(reason), pickles[0] if pickles else "config.json")
    facts = CheckpointFacts(config or {}, index, files, shards, None, "", reading)
    if config and facts.tensors:
        try:
            facts.family = _family(_Read(config, facts.tensors))
        except _Unknown as reason:
            facts.unknown = str(reason)
        except FormatError as error:
            report(error, "config.json")
    return facts


class _Unknown(Exception):
    """There is no family with ternary weights; the text says why."""


def _family(read: _Read) -> FamilyFacts | None:
    """What a checkpoint of the family must have.

    :raises FormatError: H104 for sizes that no model can have
    :raises _Unknown: where there is no such family
    """
    found = family_of(read)
    if found is None:
        seen = ", ".join(quote(str(read.config.get(key))) for key in ("architectures", "model_type"))
        raise _Unknown(f"no family of ternary models has these architectures and model_type: {seen}")
    prefix = "model." if any(name.startswith("model.") for name in read.tensors) else ""
    if found.rule != ABSMEAN and not _ternary(read, found, prefix):
        raise _Unknown(f"its class can be that of {found.name} models, but its weights are not ternary")
    return _expected(found, sizes_of(read.config), prefix, read)


def _ternary(read: _Read, family: Family, prefix: str) -> bool:
    """Whether any matrix of the first layer is packed, or looks ternary."""
    for module, name in family.layer.items():
        stored = read.tensors.get(f"{prefix}layers.0.{module}.weight")
        if name not in PROJECTIONS or stored is None or len(stored.shape) != 2 or not all(stored.shape):
            continue
        if stored.dtype == "U8":
            return True
        try:
            if stored.dtype in WORDS and looks_ternary(stored):
                return True
        except FormatError:  # another rule reports values that are not finite
            continue
    return False


def _expected(family: Family, sizes: ModelSizes, prefix: str, read: _Read) -> FamilyFacts:
    def shape(words: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(getattr(sizes.h, word) for word in words)

    embedding = f"{prefix}embed_tokens.weight"
    expected = {embedding: shape(("vocab", "embd")), f"{prefix}norm.weight": shape(("embd",))}
    matrices, sub_norms, optional = set(), set(), {f"{prefix}{name}" for name in DERIVED}
    for layer in range(sizes.h.layers):
        at = f"{prefix}layers.{layer}."
        optional |= {f"{at}{name}" for name in DERIVED}
        for module, name in family.layer.items():
            weight = f"{at}{module}.weight"
            if name in family.optional:
                optional.add(weight)
                continue
            expected[weight] = shape(SHAPES[name])
            if name in PROJECTIONS:
                matrices.add(weight)
                optional.add(f"{weight}_scale")
            elif name in _SUB_NORMS:
                sub_norms.add(weight)
            if module in family.biases:
                optional.add(f"{at}{module}.bias")
    return FamilyFacts(
        family.name, expected, frozenset(matrices), frozenset(sub_norms), frozenset(optional), embedding,
        family.tied, family.pooling is not None, family.rule == ABSMEAN,
    )  # fmt: skip


def located(error: FormatError, name: str) -> FormatError:
    """The same error, with the name of the file in the folder."""
    return FormatError(error.fault, Span(0, 0, name), error.got, error.want, **error.details)
