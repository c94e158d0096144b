"""Compare a candidate's values with a record, and find the first one that is wrong, and why (clause 10.4).

    compare("golden/", "theirs.npz", model="model.gguf")

In *op-replay* every operation is computed again from the candidate's own inputs; in *layer-forced* mode every layer,
from what the candidate says enters it; in *free-running* mode the record's values are compared with the candidate's, as
they stand. Only the first needs no allowance for drift, and it is the one to use; the first two need the model, which
is never taken from where the record says it was.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from i2s_spec.errors import SettingError, quote
from i2s_spec.golden import free_running, layer_forced, op_replay
from i2s_spec.golden.candidate import Candidate, Record
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.fitting import fit
from i2s_spec.golden.result import MODES, Comparison, Mode, TapResult, grouped, sentence
from i2s_spec.golden.store import read_header
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.schema import dialect as dialects

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from i2s_spec.model.forward import Model
    from i2s_spec.model.numerics import NumericProfile

Progress = Callable[[int, int], object]


def compare(
    golden: str | os.PathLike[str],
    candidate: str | os.PathLike[str],
    *,
    model: Model | str | os.PathLike[str] | None = None,
    mode: Mode | None = None,
    numerics: str | NumericProfile | None = None,
    prefix: str = "",
    threads: int | None = None,
    force: bool = False,
    diagnose: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Compare what a runtime computed with a record.

    :param golden: the folder of a record
    :param candidate: a record, .npz, .npy of logits or log-probabilities, .safetensors, folder of .npy or .bin, or
        text of eval-callback
    :param model: the model of the record, loaded or as a path; its weights must be those of the record
    :param mode: `op-replay`, `layer-forced` or `free-running`; without a model, and for texts, the last whatever is asked
        for, and `notes` say so
    :param numerics: the numeric profile to replay with; the record's unless given
    :param prefix: of the candidate's names: only those, without it
    :param threads: of a model that is loaded here
    :param force: replay with a model although the linter finds errors in it
    :param diagnose: look for the mistake that explains the first wrong tap
    :param progress: called with (taps done, taps)
    :raises SettingError: for what is not a record or no dump, and for a model that is not the record's
    :raises FormatError: for a candidate or a model that cannot be read; S903 where the candidate changes meanwhile
    """
    if mode is not None and mode not in MODES:
        raise SettingError(f"there is no mode {quote(str(mode))}; there are {', '.join(get_args(Mode))}")
    record = Record(golden)
    theirs = Candidate(read_dump(candidate, prefix), record)
    also = _require_same_tokens(record, theirs)
    with _loaded(record, model, numerics, threads, force) as loaded:
        bfloat16 = theirs.detect_bfloat16()
        fits = loaded is not None and numerics is None and not bfloat16
        reference = fit(loaded, record, theirs) if loaded is not None and fits else loaded
        chosen, notes = _mode(mode, reference, theirs)
        result = Comparison(
            chosen, str(golden), str(candidate), theirs.dump.kind,
            reference.numerics.name if reference is not None else record.header["profile"],
            notes=[*also, *notes], header={key: value for key, value in record.header.items() if key != "taps"},
        )  # fmt: skip
        if result.profile != record.header["profile"]:
            why = ", with which it agrees for the longest" if fits else ""
            result.notes.append(f"held against what the model gives under {result.profile}{why}; the record's numerics "
                                f"are {quote(str(record.header['profile']), bare=True)}")  # fmt: skip
        if bfloat16:
            result.notes.append("the candidate's values are bfloat16 or F16: limits are those of bfloat16's steps")
        if chosen == "op-replay" and reference is not None:
            op_replay.run(result, reference, record, theirs, diagnose, progress)
        elif chosen == "layer-forced" and reference is not None:
            layer_forced.run(result, reference, record, theirs, diagnose, progress)
        else:
            free_running.run(result, reference, record, theirs, diagnose, progress)
        free_running.drift(result, record, theirs)
        _leftovers(result, record, theirs)
        result.groups = grouped(result)
        result.ok, result.verdict = sentence(result)
        theirs.dump.require_unchanged()
        if loaded is None or result.ok or not (mistakes := _mistakes(record, loaded)):
            return result
        words = f"the record repeats mistakes of the runtime that its numerics emulate: {'; '.join(mistakes)}"
        right = _beside_a_right_record(loaded, record, candidate, mode=mode, prefix=prefix, diagnose=diagnose)
        if not right.ok:
            result.notes.append(words)
            return result
        right.golden = str(golden)
        right.notes.append(f"{words}; the candidate does not, and is right")
        return right


def _mistakes(record: Record, model: Model) -> tuple[str, ...]:
    """Return the mistakes that a record repeats on purpose, in words; () where its activation was asked for."""
    profile = NUMERIC_PROFILES.get(record.header["profile"])
    activation = record.header.get("activation")
    if profile is None or (isinstance(activation, dict) and activation.get("rule") == "override"):
        return ()
    return profile.deviations(model.architecture, model.file.metadata)


def _beside_a_right_record(
    model: Model, record: Record, candidate: str | os.PathLike[str], **settings: Any
) -> Comparison:
    """Return the comparison with a record under the normative numerics, made for it."""
    from i2s_spec.golden.recording import record as make
    from i2s_spec.model.load import load_model

    right = load_model(model.file, dialect=model.weights.dialect, threads=model.threads, force=True)
    with tempfile.TemporaryDirectory() as folder:
        make(right, record.tokens, Path(folder) / "record")
        return compare(Path(folder) / "record", candidate, model=right, **settings)


def _require_same_tokens(record: Record, theirs: Candidate) -> list[str]:
    """Refuse a record of other tokens; return notes on other weights, architectures and dialects."""
    if theirs.dump.kind != "record":
        return []
    header = read_header(theirs.dump.path)
    if header["token_ids"] != record.header["token_ids"]:
        raise SettingError(
            f"the candidate is a record of other tokens: {len(header['token_ids']):,}, beginning with "
            f"{header['token_ids'][:4]}; {len(record.tokens):,}, beginning with {record.header['token_ids'][:4]}, are wanted"
        )
    differ = [word for word in ("weights", "architecture", "dialect") if header.get(word) != record.header.get(word)]
    return [f"the candidate is a record with other {' and '.join(differ)}"] if differ else []


def _mode(mode: Mode | None, model: Model | None, theirs: Candidate) -> tuple[Mode, list[str]]:
    """Return the mode that is possible, and why it is not the one that was asked for."""
    if theirs.dump.kind == "text" and mode != "free-running":
        return "free-running", ["a text shows corners only, compared to the resolution in which they are printed"]
    if model is None and mode != "free-running":
        return "free-running", ["no model was given, so nothing could be replayed: compared free-running with the stored "
                                "taps; --model MODEL finds the first wrong operation"]  # fmt: skip
    return mode or "op-replay", []


def _loaded(
    record: Record, model: Model | str | os.PathLike[str] | None, numerics: Any, threads: int | None, force: bool
) -> AbstractContextManager[Model | None]:
    """Return the reference, checked against the record; what is loaded here is closed at the end."""
    from i2s_spec.model.forward import Model

    header = record.header
    if model is None:
        return nullcontext()
    if isinstance(model, Model):
        _require_same(record, model)
        return nullcontext(model.replace(numerics=numerics) if numerics is not None else model)
    from i2s_spec.gguf.source import open_regular
    from i2s_spec.model.load import load_model

    open_regular(model).close()  # an error names a path that is not there, or no file
    activation = header.get("activation")
    name = activation.get("name") if isinstance(activation, dict) else None
    try:
        dialect = dialects.parse(str(header.get("dialect", "canonical")))
    except ValueError as error:
        raise SettingError(f"the dialect of the record is unknown: {error}") from None
    opened = load_model(
        os.fspath(model), numerics=header["profile"].rstrip("*") if numerics is None else numerics, threads=threads,
        dialect=dialect, activation=name if isinstance(name, str) else None, force=force,
    )  # fmt: skip
    try:
        _require_same(record, opened)
    except BaseException:
        opened.close()
        raise
    return opened


def _require_same(record: Record, model: Model) -> None:
    """Refuse a model that the record was not made of."""
    from i2s_spec.compare.hash import hash as identity_of

    header = record.header
    name = model.architecture.name
    if name != header.get("architecture"):
        raise SettingError(f"the record is of {quote(str(header.get('architecture')))}; the model is of {name}")
    found = identity_of(model.file, model.weights.dialect, threads=model.threads).weights
    if found != header.get("weights"):
        raise SettingError(
            f"the model is not the record's: its weights are {found[:16]}..., the record was made of "
            f"{quote(str(header.get('weights'))[:16], bare=True)}..."
        )
    model.check_tokens(record.tokens)


def _leftovers(result: Comparison, record: Record, theirs: Candidate) -> None:
    """Add the values that only one of the two has, or has in another shape."""
    known = {tap.name for tap in result.taps}
    for name in record.shapes:
        if name not in known:
            tap = TapResult(name, "missing", record.layer(name), record.op(name))
            if name in theirs.shapes_off:
                tap.status = "shape"
                want = list(record.shapes[name])
                tap.notes = (f"of shape {list(theirs.shapes_off[name])[:8]}; {want} is expected",)
            elif name in theirs.unclear and name in theirs.names:
                tap.status = "skipped"
                tap.notes = ("the dump has another number of values of this name",)
            result.taps.append(tap)
    order = {name: at for at, name in enumerate(record.shapes)}
    result.taps.sort(key=lambda tap: order.get(tap.name, len(order)))
    for tap in result.taps:
        other = theirs.names.get(tap.name)
        if other is not None and other != tap.name:
            tap.other = other or Path(theirs.dump.path).name
            tap.notes = (*tap.notes, f"called {quote(other, bare=True)}" if other else "without a name")
        if tap.name in theirs.notes:
            tap.notes = (*tap.notes, theirs.notes[tap.name])
    result.taps.extend(TapResult(name, "extra") for name in theirs.extra)
