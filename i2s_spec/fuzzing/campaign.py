"""A campaign: file after file to the decoder, each answer compared with what is owed, each find made small.

    campaign = Campaign(Command(["./my-reader"]), seed=1)
    for event in campaign.run(runs=500):
        ...
    campaign.findings

`CampaignSettings` says how it is run, a `CampaignFind` is a wrong answer, and a `Folder` keeps the campaign on the
disk. `minimised` makes a find small:

    >>> from i2s_spec.testing.sample import Draft
    >>> data = minimised(Draft().data, lambda data: b"sample.eps" in data, runs=400, seconds=60)
    >>> len(data) < 60, b"sample.eps" in data
    (True, True)
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from i2s_spec.errors import FormatError, quote
from i2s_spec.fuzzing.bounded_process import Bounds, Child, Command, Outcome
from i2s_spec.fuzzing.expectations import (
    DecoderPolicy,
    Expectation,
    ExpectedAnswer,
    Kind,
    Statuses,
    alike,
    answer,
    expected_answer,
    signature,
    verdict,
)
from i2s_spec.fuzzing.inputs import MOST_BYTES, DecoderInput, Inputs
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.testing.anatomy import COUNTED_BY, dissect
from i2s_spec.testing.mutations import contents_of, laid_out

#: How often the state is written, in seconds.
_SAVE: Final = 5.0
#: Files that had a new answer are kept up to this many.
_MOST_LEARNED: Final = 2000


class Campaign:
    """A decoder and what was found out about it.

    As a context manager it saves its state at the end, also where it is interrupted.

    :param command: the decoder
    :param folder: where the corpus is; None for one that is gone afterwards
    :param seeds: more files to begin with
    :raises ValueError: where the folder holds something else
    """

    def __init__(
        self,
        command: Command,
        settings: CampaignSettings | None = None,
        folder: str | Path | None = None,
        seeds: Sequence[bytes] = (),
    ) -> None:
        self.settings = settings or CampaignSettings()
        self.command = command
        self._folder = Folder(folder, self._identity(seeds)) if folder is not None else None
        state = self._folder.state if self._folder is not None else {}
        self.index: int = state.get("index", 0)
        try:
            self.findings = [CampaignFind(**found) for found in state.get("findings", ())]
        except TypeError as error:
            raise ValueError("the state of the campaign is damaged; name another folder") from error
        self.totals: Counter[str] = Counter(state.get("totals", {}))
        self._answers: set[str] = set(state.get("answers", ()))
        self._learned: list[str] = list(state.get("learned", ()))
        self._inputs = Inputs(self.settings.seed, self.settings.most_bytes, seeds)
        self._inputs.learned = self._folder.learned() if self._folder is not None else []
        self._saved = time.monotonic()
        self._temporary = tempfile.TemporaryDirectory(prefix="i2s-fuzz-")
        self._place = Path(self._temporary.name)

    def _identity(self, seeds: Sequence[bytes]) -> dict[str, Any]:
        settings = self.settings
        return {
            "command": [*self.command.words],
            "stdin": self.command.stdin,
            "seed": settings.seed,
            "reads": settings.policy.reads.value,
            "supports": sorted(settings.policy.supports),
            "profile": settings.policy.profile,
            "must_reject": sorted(settings.policy.obligations),
            "accept": sorted(settings.statuses.accept),
            "reject": sorted(settings.statuses.reject) if settings.statuses.reject is not None else None,
            "bounds": asdict(settings.bounds),
            "jobs": settings.jobs,
            "most_bytes": settings.most_bytes,
            "seeds": [sha256(data).hexdigest() for data in seeds],
        }

    def __enter__(self) -> Campaign:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()
        self._temporary.cleanup()

    def run(self, runs: int | None = None, seconds: float | None = None) -> Iterator[int]:
        """Give the decoder the next files; after each batch, how many they were in all.

        :param runs: how many, from where the campaign stands
        :param seconds: stop after this time; a batch that has begun is brought to its end
        """
        began, done = time.monotonic(), 0
        while (runs is None or done < runs) and (seconds is None or time.monotonic() - began < seconds):
            count = self.settings.jobs if runs is None else min(self.settings.jobs, runs - done)
            batch = [self._inputs.at(self.index + i) for i in range(count)]
            self._try(batch)
            done += count
            if time.monotonic() - self._saved > _SAVE:
                self.save()
            yield done

    def replay(self, files: Sequence[tuple[str, bytes]]) -> Iterator[int]:
        """Give the decoder these files and no others; nothing is made small."""
        for done, (name, data) in enumerate(files, 1):
            self._try([DecoderInput("replay", name, data)], small=False)
            yield done

    def save(self) -> None:
        """Write the state, where the campaign has a folder."""
        self._saved = time.monotonic()
        if self._folder is not None:
            self._folder.save(
                {
                    "index": self.index,
                    "totals": dict(sorted(self.totals.items())),
                    "findings": [asdict(found) for found in self.findings],
                    "answers": sorted(self._answers),
                    "learned": self._learned,
                }
            )

    def _try(self, batch: Sequence[DecoderInput], small: bool = True) -> None:
        children: list[Child] = []
        try:
            for number, made in enumerate(batch):
                children.append(self._child(made.data, f"input-{number}.gguf"))
            expectations = [expected_answer(made.data, self.settings.policy) for made in batch]
            outcomes = [child.outcome() for child in children]
        except BaseException:
            for child in children:
                child.end()
            raise
        for made, expectation, outcome in zip(batch, expectations, outcomes, strict=True):
            self._weigh(made, expectation, outcome, small)
            self.index += 1

    def _weigh(self, made: DecoderInput, expectation: ExpectedAnswer, outcome: Outcome, small: bool) -> None:
        """Hold an answer against what is owed; keep what is new."""
        statuses = self.settings.statuses
        accepted = statuses.accepted(outcome)
        self.totals["runs"] += 1
        if accepted is not None:
            self.totals["accepted" if accepted else "rejected"] += 1
        self.totals[
            f"must {expectation.answer}" if expectation.answer is not Expectation.EITHER else "may do either"
        ] += 1
        kind = verdict(outcome, expectation, statuses)
        if kind is not None:
            self.totals[kind] += 1
            self._note(kind, made, expectation, outcome, small)
        new = answer(outcome)
        if new not in self._answers and len(self._answers) < _MOST_LEARNED:
            self._answers.add(new)
            self._inputs.learned.append(made.data)
            if self._folder is not None:
                self._learned.append(self._folder.learn(made.data))

    def _note(self, kind: Kind, made: DecoderInput, expectation: ExpectedAnswer, outcome: Outcome, small: bool) -> None:
        known = signature(kind, outcome, expectation)
        for found in self.findings:
            if found.signature == known:
                found.times += 1
                return
        again = self._look(made.data)
        confirmed = alike(again[0], kind)
        data = made.data
        if confirmed and small and self.settings.effort:
            data = self._small(made.data, kind, known)
            if data != made.data:
                expectation = expected_answer(data, self.settings.policy)
        digest = sha256(data).hexdigest()
        rule = f"-{expectation.code}" if expectation.code else ""
        found = CampaignFind(
            kind=kind.value,
            signature=known,
            code=expectation.code,
            slug=expectation.slug,
            clause=expectation.clause,
            reason=expectation.reason,
            outcome=outcome.name,
            stderr_tail=outcome.stderr_tail.strip()[-600:],
            seconds=round(outcome.seconds, 3),
            memory=outcome.memory,
            stage=made.stage,
            index=self.index,
            what=made.what,
            file=f"{kind}{rule}-{digest[:12]}.gguf",
            size=len(data),
            sha256=digest,
            original_size=len(made.data),
            confirmed=confirmed,
        )
        self.findings.append(found)
        if self._folder is not None:
            self._folder.find(found.file, data, asdict(found))
            self.save()

    def _small(self, data: bytes, kind: Kind, known: str) -> bytes:
        """Return a smaller file on which the same is found; what takes long to show gets fewer tries."""
        patience = max(30.0, 12 * self.settings.bounds.seconds)

        def happens(smaller: bytes) -> bool:
            if kind in (Kind.ACCEPTS, Kind.REJECTS):  # most of what is tried owes something else: no run is needed
                answer = Expectation.REJECT if kind is Kind.ACCEPTS else Expectation.ACCEPT
                owed = expected_answer(smaller, self.settings.policy)
                if owed.answer is not answer or f"{kind} {owed.code or 'sound'}" != known:
                    return False
            return self._look(smaller)[1] == known if kind is not Kind.HANG else self._look(smaller)[0] is kind

        return minimised(data, happens, runs=self.settings.effort, seconds=patience)

    def _look(self, data: bytes) -> tuple[Kind | None, str]:
        """Return what is found on a file, and by what it is known."""
        outcome = self._child(data, "again.gguf").outcome()
        expectation = expected_answer(data, self.settings.policy)
        kind = verdict(outcome, expectation, self.settings.statuses)
        return kind, signature(kind, outcome, expectation) if kind is not None else ""

    def _child(self, data: bytes, name: str) -> Child:
        path = self._place / name
        path.write_bytes(data)
        return Child(self.command, path, self.settings.bounds)


# --- settings and finds ----------------------------------------------------------------------------------------------


@dataclass
class CampaignFind:
    """A find: what happened, on which file, and how often since. Times and memory are those of the first run.

    `confirmed` says whether it happened again when the same file was tried again.
    """

    kind: str
    signature: str
    code: str | None
    slug: str | None
    clause: str | None
    reason: str
    outcome: str
    stderr_tail: str
    seconds: float
    memory: int
    stage: str
    index: int
    what: str
    file: str
    size: int
    sha256: str
    original_size: int
    confirmed: bool
    times: int = 1


@dataclass(frozen=True)
class CampaignSettings:
    """How a campaign is run.

    :param seed: of everything that is left to chance
    :param bounds: for one file
    :param statuses: what exit statuses mean
    :param policy: what the decoder is held to
    :param most_bytes: largest file that it is given
    :param jobs: runs at a time
    :param effort: runs that making one find small may take; 0 leaves it as it is
    """

    seed: int = 0
    bounds: Bounds = field(default_factory=Bounds)
    statuses: Statuses = field(default_factory=Statuses)
    policy: DecoderPolicy = field(default_factory=DecoderPolicy)
    most_bytes: int = MOST_BYTES
    jobs: int = 1
    effort: int = 300


# --- folder ----------------------------------------------------------------------------------------------------------
# It keeps what was found, files that had a new answer, and how far the campaign has come. `state.json` is written as a
# whole or not at all; the same campaign goes on where it stopped. `findings/` has a file and a page for each find,
# `corpus/` the files with new answers, named after what is in them. A folder that holds something else, or the campaign
# of another command or seed, is refused.

STATE: Final = "state.json"
FINDINGS: Final = "findings"
CORPUS: Final = "corpus"
STATE_VERSION: Final = 1


class Folder:
    """The folder of a campaign.

    :param path: made where it is missing
    :param identity: what makes two campaigns the same: command, seed, policy
    :raises ValueError: where the folder is not one of this campaign
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._identity = json.loads(json.dumps(identity))
        self.state: dict[str, Any] = {}
        shown = quote(str(self.path), limit=4096, bare=True)
        if self.path.exists() and (not self.path.is_dir() or (not self._state.exists() and any(self.path.iterdir()))):
            raise ValueError(f"{shown} is there already and holds no campaign; name another folder")
        if self._state.exists():
            try:
                self.state = json.loads(self._state.read_text(encoding="ascii"))
                retained = self.state["identity"] if self.state["state_version"] == STATE_VERSION else None
                self._check_shape()
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{shown}/{STATE} is not a state of a campaign; name another folder") from error
            if retained != self._identity:
                differ = (
                    ", ".join(k for k in self._identity if (retained or {}).get(k) != self._identity[k]) or "version"
                )
                raise ValueError(f"{shown} holds a campaign that differs in: {differ}; name another folder")
        for folder in (self.path, self.path / FINDINGS, self.path / CORPUS):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def _state(self) -> Path:
        return self.path / STATE

    def _check_shape(self) -> None:
        """Check that names are those that we give ourselves: a state is never a way to read another file."""
        for name in (*self.state["learned"], *(found["file"] for found in self.state["findings"])):
            if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError("a name in the state is no name of a file")

    def learned(self) -> list[bytes]:
        """Return the files with new answers, in the order in which they came."""
        return [(self.path / CORPUS / name).read_bytes() for name in self.state.get("learned", ())]

    def learn(self, data: bytes) -> str:
        """Keep a file with a new answer, and return its name."""
        name = f"{sha256(data).hexdigest()[:16]}.gguf"
        _put(self.path / CORPUS / name, data)
        return name

    def find(self, name: str, data: bytes, about: Mapping[str, Any]) -> None:
        """Keep a find: its file and what is known of it."""
        _put(self.path / FINDINGS / name, data)
        page = json.dumps(about, indent=2, ensure_ascii=True).encode()
        _put(self.path / FINDINGS / f"{name.removesuffix('.gguf')}.json", page + b"\n")

    def save(self, state: Mapping[str, Any]) -> None:
        """Note how far the campaign has come."""
        self.state = {"state_version": STATE_VERSION, "identity": self._identity, **state}
        _put(self._state, json.dumps(self.state, indent=1, ensure_ascii=True).encode() + b"\n")


def _put(path: Path, data: bytes) -> None:
    with OutputFile(path, force=True) as output:
        output.write(data)


# --- small finds -----------------------------------------------------------------------------------------------------
# Whole records go first, then stretches of bytes, then what bytes can be zero. The result is a file on which the same
# thing still happens; it is tried anew after each step, under bounds of runs and time. Record by record keeps a sound
# file sound, so that also a rejected sound file becomes small.


class _Budget:
    """How much may still be tried, and the best file so far."""

    def __init__(self, data: bytes, happens: Callable[[bytes], bool], runs: int, seconds: float) -> None:
        self.best = data
        self._happens = happens
        self._runs = runs
        self._until = time.monotonic() + seconds
        self._tried = {data}

    @property
    def spent(self) -> bool:
        return self._runs <= 0 or time.monotonic() >= self._until

    def better(self, data: bytes) -> bool:
        """Try a file; keep it where the same thing happens."""
        if self.spent or data in self._tried:
            return False
        self._tried.add(data)
        self._runs -= 1
        if not self._happens(data):
            return False
        self.best = data
        return True


def minimised(data: bytes, happens: Callable[[bytes], bool], runs: int = 300, seconds: float = 60.0) -> bytes:
    """Return a smaller file on which the same thing happens; `data` itself where none is found.

    :param happens: whether it happens on a file; not called on `data`
    :param runs: how many files are tried at most
    :param seconds: how long at most
    """
    budget = _Budget(data, happens, runs, seconds)
    before = None
    while before != budget.best and not budget.spent:
        before = budget.best
        _fewer_records(budget)
        _shorter(budget)
        _fewer_bytes(budget)
    _zeros(budget)
    return budget.best


def _fewer_records(budget: _Budget) -> None:
    """Leave out records: half of a section, a quarter, and so on."""
    for section in COUNTED_BY:
        step = max(1, len(dissect(budget.best).records[section]) // 2)
        while step and not budget.spent:
            start = 0
            while start < len(dissect(budget.best).records[section]) and not budget.spent:
                shorter = _without(budget.best, section, start, start + step)
                if shorter is None or not budget.better(shorter):
                    start += step
            step //= 2


def _without(data: bytes, section: str, start: int, stop: int) -> bytes | None:
    """Return a file without some records; the data of tensors that are left out go too, where the file can be laid
    out anew.
    """
    anatomy = dissect(data)
    records = anatomy.records[section][start:stop]
    if not records:
        return None
    if anatomy.sound and section == "tensor_infos":
        from i2s_spec.gguf.reader import File
        from i2s_spec.gguf.source import BufferSource
        from i2s_spec.schema import container

        try:
            file, contents = container.parse(data), contents_of(File(BufferSource(data)))
        except FormatError:
            return None
        del file.tensor_infos[start:stop]
        del contents[start:stop]
        made = laid_out(file, contents, anatomy.alignment or 32)
        if len(made) < len(data):
            return made
    shorter = anatomy.replaced(records[0].start, records[-1].stop, b"")
    return anatomy.counted(shorter, section, -len(records))


def _shorter(budget: _Budget) -> None:
    """Cut the file at a boundary: the first at which it still happens, looked for by halves."""
    places = dissect(budget.best).boundaries
    low, high = 0, len(places)
    while low < high and not budget.spent:
        middle = (low + high) // 2
        if len(budget.best[: places[middle]]) < len(budget.best) and budget.better(budget.best[: places[middle]]):
            high = middle
        else:
            low = middle + 1


def _fewer_bytes(budget: _Budget) -> None:
    """Leave out stretches of bytes, from half of the file down to 4."""
    step = len(budget.best) // 2
    while step >= 4 and not budget.spent:
        at = len(budget.best) - step
        while at >= 0 and not budget.spent:
            budget.better(budget.best[:at] + budget.best[at + step :])
            at -= step
        step //= 2


def _zeros(budget: _Budget) -> None:
    """Make stretches of bytes zero, so that those that matter stand out."""
    step = max(1, len(budget.best) // 2)
    while step >= 4 and not budget.spent:
        for at in range(0, len(budget.best), step):
            part = budget.best[at : at + step]
            if any(part):
                budget.better(budget.best[:at] + bytes(len(part)) + budget.best[at + step :])
        step //= 2
