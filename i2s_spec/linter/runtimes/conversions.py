"""Which conversion of a file makes one that a program computes: the verdicts on its header with tensors of another type.

Nothing here is a list of what suits whom. For each type that `i2s convert` can give the ternary tensors, the header is
copied in memory with these types, and programs get their verdicts on it as on any file. `conversions` gives those that
help, `cautions` what is known to go wrong with a file that was just converted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from i2s_spec.convert.recipes import CHAT_TEMPLATE
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.runtimes import devices, records
from i2s_spec.linter.runtimes.records import FileForm, RunRecord
from i2s_spec.linter.runtimes.verdicts import (
    CORRECTLY,
    CRASH,
    EXPECTED,
    NO,
    NOT_COMPARED,
    NOT_TRIED,
    WITH_OPTION,
    WRONGLY,
    YES,
    Verdict,
    VerdictByName,
    verdicts,
)  # fmt: skip
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import declared_architecture
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, parse
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.llama_cpp import table
from i2s_spec.schema.runtimes import RUNTIME, Runtime
from i2s_spec.schema.types import BY_NAME, I2_S, I2_S_BLOCK, ValueType, padded

#: Types that are tried, the best first; a device has an order of its own (`devices.PREFERRED`).
TARGETS: Final = ("TQ2_0", "TQ1_0", "Q2_0", "IQ2_BN", "I2_S", "PTQ1_0", "F16", "F32")

#: The types of tensors that are converted.
_TERNARY: Final = frozenset({I2_S.name, *GROUP_LAYOUTS})

#: Headers that are copied, in bytes, and their tensors: more than any model has. Each tensor costs 0.3 ms, as
#: programs get verdicts on several copies.
_MOST_BYTES: Final = 256 << 20
_MOST_TENSORS: Final = 1_536

#: Tensors of which scales are compared, and bytes of each.
_SAMPLED_TENSORS: Final = 16
_SAMPLED_BYTES: Final = 1 << 16

_GOOD: Final = (CORRECTLY, EXPECTED)


class ProgramAfter(NamedTuple):
    """What a program does with a converted file.

    :param result: `correctly`, `expected`, `not compared`, or `not tried` of a program in front of one that computes it
    :param condition: what must hold that the file does not state, as `if ...`
    :param device: where, if that makes a difference: `CPU`, `CUDA`
    :param option: what it must be called with there
    :param faster: whether it computes the unconverted file as well, and slower
    """

    title: str
    result: str
    condition: str = ""
    device: str = ""
    option: str = ""
    faster: bool = False


class UsefulConversion(NamedTuple):
    """A type for the ternary tensors of a file, and the programs that compute the copy."""

    type: str
    programs: tuple[ProgramAfter, ...]

    def command(self, path: str, dialect: str = "canonical") -> str:
        """Return the command that makes the copy.

        :param path: as it is written on a command line
        :param dialect: how the I2_S tensors of the file are packed
        """
        packed = "" if parse(dialect) == CANONICAL else f" --from {dialect}"
        return f"i2s convert {path} OUT.gguf --to {self.type}{packed}"

    @property
    def words(self) -> str:
        """What programs do with the copy, as a sentence without a full stop."""
        groups: dict[ProgramAfter, list[str]] = {}
        for each in self.programs:
            groups.setdefault(each._replace(title=""), []).append(each.title)
        return "; ".join(_of_group(each, titles) for each, titles in groups.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the conversion as plain data."""
        return {"to": self.type, "programs": [each._asdict() for each in self.programs]}


def _of_group(each: ProgramAfter, titles: Sequence[str]) -> str:
    """Return what programs with one result do, as a part of a sentence."""
    names, s = ", ".join(titles), "" if len(titles) > 1 else "s"
    where = {"": "", "CPU": " on the CPU", "CUDA": " on the GPU with CUDA"}[each.device]
    after = f"{where}{f', with {each.option}' if each.option else ''}{f', {each.condition}' if each.condition else ''}"
    if each.faster:
        return f"{names} compute{s} the copy faster{after}"
    if each.result == CORRECTLY:
        return f"{names} compute{s} the copy correctly{after}"
    if each.result == EXPECTED:
        return f"{names} should compute the copy correctly{after}"
    if each.result == NOT_COMPARED:
        return f"{names} load{s} the copy; what is computed was not compared"
    are = "are built, computes the copy (they were" if len(titles) > 1 else "is built, computes the copy (it was"
    return f"llama.cpp, on which {names} {are} not run)"


def conversions(file: File, now: Sequence[Verdict]) -> tuple[UsefulConversion, ...]:
    """Return the conversions after which programs compute a file that they now refuse or compute wrongly, or compute
    it faster.

    :param file: a sound file, :param now: the verdicts on it
    :returns: each with the programs that it is best for; empty if the file has no ternary tensors
    """
    tensors = _ternary(file)
    if not tensors:
        return ()
    copies = _Copies(file, tensors)
    found: dict[str, list[ProgramAfter]] = {}
    for verdict in now:
        runtime = RUNTIME[verdict.runtime]
        if runtime.kind == "reader" or runtime.after:
            continue
        for type_name, program in _best(copies, runtime, verdict):
            programs = found.setdefault(type_name, [])
            if (elsewhere := program._replace(device="CPU")) in programs:  # the best type on both devices
                programs[programs.index(elsewhere)] = program._replace(device="")
            else:
                programs.append(program)
    return tuple(UsefulConversion(name, tuple(found[name])) for name in TARGETS if name in found)


def _best(copies: _Copies, runtime: Runtime, now: Verdict) -> Iterator[tuple[str, ProgramAfter]]:
    """Yield the best type for a program, for each device on which it was run."""
    good_now = now.loads == YES and now.computes in _GOOD
    if not good_now and now.loads not in (NO, CRASH, WITH_OPTION) and now.computes != WRONGLY:
        return
    if not runtime.on_devices:
        if not good_now:
            yield from _first(copies, runtime, TARGETS)
        return
    form = records.form(copies.subject)
    for device, preferred in devices.PREFERRED.items():
        order = (*preferred, *(each for each in TARGETS if each not in preferred))
        if good_now:
            slow = form.matrices & devices.SLOW[device]
            order = preferred if slow else ()
        for type_name, program in _first(copies, runtime, order):
            if device == "CUDA" and dict(copies.verdicts(type_name)[runtime.name].devices).get(device) != "computes":
                continue
            option = devices.option(records.form(copies.of(type_name)), runtime) if device == "CUDA" else ""
            yield (
                type_name,
                program._replace(
                    device=device, option=option, faster=good_now, condition="" if good_now else program.condition
                ),
            )


def _first(copies: _Copies, runtime: Runtime, order: Iterable[str]) -> Iterator[tuple[str, ProgramAfter]]:
    """Yield the first type with which a program computes the copy; else the first that it loads."""
    loaded: tuple[str, ProgramAfter] | None = None
    for name in order:
        if not copies.fits(name):
            continue
        after = copies.verdicts(name)[runtime.name]
        title = (
            after.title.replace(", ", " ", 1)
            if runtime.kind == "front"
            else after.title.partition(", ")[0].partition(":")[0]
        )
        if after.loads == YES and after.computes in _GOOD:
            yield name, ProgramAfter(title, after.computes, _condition(after))
            return
        if loaded is not None:
            continue
        if runtime.kind == "front" and runtime.of and after.loads == NOT_TRIED:
            engine = copies.verdicts(name)[runtime.of]
            if engine.loads == YES and engine.computes in _GOOD:
                loaded = name, ProgramAfter(title, NOT_TRIED)
        elif after.loads == YES and runtime.recorded and after.computes in (NOT_COMPARED, NOT_TRIED):
            loaded = name, ProgramAfter(title, NOT_COMPARED)
    if loaded is not None:
        yield loaded


def _condition(verdict: Verdict) -> str:
    """Return the condition of a verdict that depends on what a file does not state."""
    first = verdict.reasons[0].text
    return first.removeprefix("expected, ").partition(":")[0] if first.startswith("expected, if ") else ""


def remarks(file: File, now: Sequence[Verdict], found: Sequence[UsefulConversion]) -> tuple[str, ...]:
    """Return further remarks on a file that is given to a program: that no conversion makes one that llama.cpp
    computes correctly, because it applies another activation; and which programs take its chat template for another.

    :param now: the verdicts on the file, :param found: the conversions that help
    """
    return (*_obstacles(file, now, found), *_templates(file))


def _templates(file: File) -> Iterator[str]:
    """Yield programs that replace the chat template of BitNet-2B-4T."""
    key = b"tokenizer.chat_template"
    if file.fault is not None or not file.index.keys_named((key,)) or file.metadata.get(key.decode()) != CHAT_TEMPLATE:
        return
    facts: dict[str, list[str]] = {}
    for runtime in RUNTIME.values():
        if (fact := runtime.fact("template")) is not None:
            facts.setdefault(fact.text, []).append(runtime.title.partition(", ")[0])
    yield from (f"{' and '.join(dict.fromkeys(titles))} {text}" for text, titles in facts.items())


def _obstacles(file: File, now: Sequence[Verdict], found: Sequence[UsefulConversion]) -> tuple[str, ...]:
    """Return the reasons why no conversion makes a file that llama.cpp computes correctly, if its graph is the reason."""
    named = file.metadata.get("general.architecture") if file.fault is None else None
    own = declared_architecture(named, file.metadata, file.tensors) if isinstance(named, str) else None
    if own is None or (own.activation != "relu2" and not own.takes_activation):
        return ()
    wanted = file.metadata.short(f"{named}.hidden_activation") or own.activation
    made = []
    for verdict in now:
        runtime = RUNTIME[verdict.runtime]
        fact = runtime.fact("activation")
        helped = any(each.device for conversion in found for each in conversion.programs)
        if not runtime.on_devices or fact is None or helped or verdict.computes in _GOOD:
            continue
        if wanted == "relu2":
            made.append(f"no conversion makes {runtime.name} compute it correctly: {fact.text}; this model needs ReLU²")
    return tuple(made)


def _ternary(file: File) -> list[int]:
    """Return the rows of tensors that a conversion changes; empty for a file that is too large to look at, or has
    unknown types.
    """
    index = file.index
    if file.fault is not None or file.data_section.shift is not None or index.tensors > _MOST_TENSORS:
        return []
    if not 0 < (file.data_start or 0) <= _MOST_BYTES:
        return []
    kinds = [file.tensors.common_type(index.tensor(i).type) for i in range(index.tensors)]
    if any(kind is None for kind in kinds):
        return []
    return [i for i, kind in enumerate(kinds) if kind is not None and kind.name in _TERNARY and index.tensor(i).ne]


class _Copies:
    """Copies of a file's header with its ternary tensors in other types, made when they are asked for."""

    def __init__(self, file: File, tensors: list[int]) -> None:
        self.file = file
        self.tensors = tensors
        self.subject = LintContext(file)
        self._subjects: dict[str, LintContext] = {}
        self._verdicts: dict[str, VerdictByName] = {}
        self._fitting: dict[str, bool] = {}

    def fits(self, name: str) -> bool:
        """Whether a type can hold the tensors, and not all of them have it already."""
        if name not in self._fitting:
            self._fitting[name] = self._fits(name)
        return self._fitting[name]

    def _fits(self, name: str) -> bool:
        block = GROUP_LAYOUTS[name].block if name in GROUP_LAYOUTS else I2_S_BLOCK if name == I2_S.name else 1
        infos = [self.file.index.tensor(i) for i in self.tensors]
        number = BY_NAME[name].number
        if all(info.type == number for info in infos) or any(info.ne[0] % block for info in infos):
            return False
        return name not in _TERNARY or all(self._holds_scales(i, name) for i in self.tensors[:_SAMPLED_TENSORS])

    def _holds_scales(self, i: int, name: str) -> bool:
        """Whether weights that share a scale in a type have one in the file, too: of many scales, the first are read."""
        info = self.file.index.tensor(i)
        kind = self.file.tensors.common_type(info.type)
        if kind is None or kind.name not in GROUP_LAYOUTS or kind.name == name:
            return True
        layout = GROUP_LAYOUTS[kind.name]
        together = prod(info.ne) if name == I2_S.name else GROUP_LAYOUTS[name].group_elements(info.ne[0])
        if layout.group_elements(info.ne[0]) % together == 0:
            return True
        if layout.scale.apart or self.subject.on_server:  # one request for each tensor is too much
            return False
        step, scale = layout.group_bytes(info.ne[0]), layout.scale
        length = min(kind.nbytes(info.ne), max(_SAMPLED_BYTES, 2 * step)) // step * step
        data = self.file.source.read((self.file.data_start or 0) + info.offset, length)
        return len({data[at + scale.offset : at + scale.offset + scale.nbytes] for at in range(0, length, step)}) <= 1

    def of(self, name: str) -> LintContext:
        """Return the copy in a type."""
        if name not in self._subjects:
            self._subjects[name] = LintContext(File(_HeaderCopy(self.file, self.tensors, name)))
        return self._subjects[name]

    def verdicts(self, name: str) -> Mapping[str, Verdict]:
        """Return the verdicts on the copy, by the names of runtimes."""
        if name not in self._verdicts:
            self._verdicts[name] = VerdictByName(self.of(name))
        return self._verdicts[name]


class _HeaderCopy:
    """The header of a file with some tensors in another type, as a source.

    All bytes of tensors are 1: a file that begins with zeros is examined for data at another place.
    """

    view = None

    def __init__(self, file: File, tensors: list[int], name: str) -> None:
        order: ByteOrder = file.byte_order
        start, alignment = file.data_start or 0, file.alignment or limits.DEFAULT_ALIGNMENT
        header = bytearray(file.source.read(0, start))
        changed, offset = set(tensors), 0
        for i in range(file.index.tensors):
            info = file.index.tensor(i)
            kind = BY_NAME[name] if i in changed else file.tensors.common_type(info.type)
            assert kind is not None
            header[info.type_span.start : info.type_span.stop] = kind.number.to_bytes(4, order)
            header[info.offset_span.start : info.offset_span.stop] = offset.to_bytes(8, order)
            offset += padded(kind.nbytes(info.ne), alignment)
        self.name = file.source.name
        self.size = start + offset
        self._header = bytes(header)

    def read(self, start: int, length: int) -> bytes:
        part = self._header[start : start + length]
        return part + b"\1" * (min(length, max(0, self.size - start)) - len(part))

    def readinto(self, start: int, buffer: memoryview) -> None:
        buffer[:] = self.read(start, len(buffer))

    def changed(self) -> str | None:
        return None

    def close(self) -> None: ...


# --- cautions --------------------------------------------------------------------------------------------------------
# What is known to go wrong with a file that was just written, although it is sound: from the same runs and tables.

#: Keys that change what a graph computes, without the architecture's name.
_GRAPH_KEYS: Final = ("rope.scaling.type", "rope.scaling.factor", "rope.freq_base", "attention.sliding_window")


def cautions(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return what programs that load a new file are known to do wrongly, in sentences, most important first.

    :param path: of the file
    """
    with open_file(path) as file:
        if file.fault is not None:
            return ()
        subject = LintContext(file)
        found = [*_unread_keys(file), *_of_runs(subject)]
    return tuple(dict.fromkeys(found))


def _unread_keys(file: File) -> Iterator[str]:
    """Yield keys of the graph that llama.cpp's loader does not read for the architecture."""
    named = file.metadata.get("general.architecture")
    reads = table().architecture(named) if isinstance(named, str) else None
    if reads is None:
        return
    known = {row.name for row in reads.keys}
    unread = [key for each in _GRAPH_KEYS if (key := f"{named}.{each}") in file.metadata and key not in known]
    for key in unread:
        value = file.metadata.short(key) if file.metadata.entry(key).type != ValueType.ARRAY else "an array"
        if value not in (0, None, "none"):
            yield f"{table().loader} does not read {key} (here {value!r}) in files of architecture {named}"


#: Features of which a program that computed one of a kind wrongly is named for the others: it ignores the keys.
_KINDS_OF_FEATURES: Final = ("rotary scaling ", "rotary factors", "a window of attention")


def _of_runs(subject: LintContext) -> Iterator[str]:
    """Yield what runs and the limits of kernels show of programs that load the types of the file."""
    form = records.form(subject)
    kinds = [kind for kind in _KINDS_OF_FEATURES if any(each.startswith(kind) for each in form.features)]
    for verdict in verdicts(subject):
        runtime = RUNTIME[verdict.runtime]
        if runtime.kind != "engine" or runtime.after:
            continue
        limited = tuple(each.text for each in runtime.limits)
        for reason in verdict.reasons:
            if reason.effect in ("crash", "wrong", "cpu") and limited and reason.text.endswith(limited):
                yield f"{verdict.title}: {reason.text}"
        for kind in kinds if verdict.loads not in (NO, CRASH) else ():
            if (run := _wrong_because_of(runtime, form, kind)) is not None:
                feature = next(each for each in run.file.form.features if each.startswith(kind))
                yield f"{verdict.title} computed a file with {feature} wrongly ({run.citation})"
        if runtime.on_devices and verdict.loads == YES and "Q2_0" in form.matrices:
            yield f"{verdict.title}: {devices.SLOW_Q2_0}"


def _wrong_because_of(runtime: Runtime, form: FileForm, kind: str) -> RunRecord | None:
    """Return a run with a wrong result that differs from a right one in a feature of a kind alone, of the same
    architecture.
    """
    runs = [run for run in records.runs_of(runtime) if run.file.form.architecture == form.architecture]
    right = [run.file.form.features for run in runs if run.result == "right"]
    for run in runs:
        features = run.file.form.features
        own = {each for each in features if each.startswith(kind)}
        if run.result == "wrong" and own and features - own in right:
            return run
    return None
