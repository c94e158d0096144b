"""This module defines `likelihood`: it runs the race on a text and decides which hypothesis about a file is right.

>>> from i2s_spec.convert.trained.model import open_trained
>>> with open_trained("llama") as file:
...     found = likelihood(file)
>>> found.predicts, found.standings[0].name
(True, 'as it is')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from i2s_spec.convert.trained.card import unseen_text
from i2s_spec.errors import FormatError, SettingError, counted
from i2s_spec.inspect.evidence.balance import likely_code_map
from i2s_spec.inspect.identify.packing import USED
from i2s_spec.model.likelihood.possible_mistakes import ROLES, hypotheses, ternary_roles
from i2s_spec.model.likelihood.race import FIRST, MOST, Progress, Runner, beats, behind, chance, race
from i2s_spec.model.load import load_model
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.identify.identification import Identification
    from i2s_spec.model.forward import Model

#: Characters of a text that are tokenized: enough for the tokens of a race.
CHARACTERS: Final = 1 << 16


class Standing(NamedTuple):
    """The result of a hypothesis: its mean loss in nats, the number of tokens, by how many nats and standard errors it
    is behind the best, and why it was dropped (empty if it was not)."""

    name: str
    title: str
    loss: float
    tokens: int
    nats: float
    sigmas: float
    lost: str


class Likelihood(NamedTuple):
    """The outcome, the best hypothesis first; or only `why_not`, the reason why there is none.

    `predicts` says whether the best hypothesis predicts the text better than chance (`chance`, in nats per token),
    `dialect` in which dialect its I2_S tensors were read (empty if it has none), `tokens` how many tokens were scored
    at most, and `not_tried` which hypotheses do not apply to the types of its matrices, in words.
    """

    standings: tuple[Standing, ...] = ()
    chance: float = 0.0
    predicts: bool = False
    dialect: str = ""
    tokens: int = 0
    why_not: str = ""
    not_tried: str = ""

    @property
    def remaining(self) -> tuple[Standing, ...]:
        """The hypotheses that were not dropped."""
        return tuple(each for each in self.standings if not each.lost)

    @property
    def answer(self) -> str | None:
        """The hypothesis that was decided for; None if several remain, or none predicts the text."""
        left = self.remaining
        return left[0].name if self.predicts and len(left) == 1 else None

    @property
    def wrong(self) -> bool:
        """Whether something is certainly wrong with the file: another hypothesis predicts better."""
        return self.predicts and all(each.name != "as it is" for each in self.remaining)

    @property
    def margin(self) -> float:
        """By how many nats the best hypothesis leads the next one."""
        others = [each.nats for each in self.standings[1:] if np.isfinite(each.loss)]
        return min(others, default=0.0)


def read_as(found: Identification) -> Dialect:
    """The dialect in which the tensors of an identified file are read: the identified layout, else that of programs,
    with the code map of the histogram only if the file cannot be read otherwise."""
    layout = found.question("layout").answer if found.i2s else None
    code_map, total = CANONICAL.code_map, sum(found.counts)
    if found.counts[code_map.unused] >= max(1.0, USED * total):
        code_map = likely_code_map(found.counts)
    return Dialect(LAYOUTS[layout.name] if layout is not None else CANONICAL.layout, code_map, CANONICAL.tail)


def likelihood(
    file: File,
    text: str | None = None,
    *,
    dialect: Dialect = CANONICAL,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Likelihood:
    """Run the model of a file under each hypothesis on a text.

    Findings of the linter do not prevent the run: such mistakes are what is searched for.

    :param file: an open file
    :param text: the text that the model should predict; by default a short English one that is part of the package
    :param dialect: the dialect in which I2_S tensors are read
    :param threads: how many threads may work
    :param progress: called with (tokens computed, tokens in all, as far as is known)
    """
    try:
        return _measured(file, unseen_text() if text is None else text, dialect, threads, progress)
    except (SettingError, FormatError) as error:
        return Likelihood(why_not=f"the model cannot be run: {error}")


def _measured(file: File, text: str, dialect: Dialect, threads: int | None, progress: Progress | None) -> Likelihood:
    if "tokenizer.ggml.tokens" not in file.metadata:
        return Likelihood(why_not="the file has no tokenizer, so no text can be tokenized")
    model = load_model(file, "fast", threads, dialect=dialect, force=True)
    if model.architecture.embedding_model:
        return Likelihood(why_not=f"{model.architecture.name} is an embedding model: it predicts no text")
    tokenizer = load_tokenizer(file)
    first = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
    tokens = tokenizer.encode(text[:CHARACTERS], bos=False, eos=False)
    pieces = split(tokens, first, model.context_length)
    scored = sum(len(piece) - 1 for piece in pieces)
    if scored < FIRST:
        return Likelihood(why_not=f"the text has {counted(scored, 'token')} to predict; at least {FIRST} are needed")
    runners = [Runner(each) for each in hypotheses(model)]
    race(runners, model, pieces, progress)
    packed = any(model.weights.tensor_type(name) == "I2_S" for name in file.tensors)
    found = _outcome(runners, chance(pieces, model.vocab_size, MOST), str(dialect) if packed else "")
    return found._replace(not_tried=_not_tried(model))


def _not_tried(model: Model) -> str:
    """The hypotheses that do not apply to the types of matrices; empty if all apply."""
    present = {each for each in ROLES if f"blk.0.{each}.weight" in model.weights}
    others = [each for each in ROLES if each in present - ternary_roles(model)]
    if not others:
        return ""
    which = "all matrices" if len(others) == len(present) else ", ".join(others)
    return f"codes, signs, transposition, order of heads and scales of {which}: none has ternary codes with one scale"


def split(tokens: Sequence[int], first: Sequence[int], context: int) -> list[list[int]]:
    """A text in sequences that fit into the context, each after the first token that the vocabulary adds, if any."""
    room = max(1, context - len(first))
    pieces: list[list[int]] = []
    for start in range(0, len(tokens), room):
        if sum(len(piece) - 1 for piece in pieces) >= MOST:
            break
        pieces.append([*first, *tokens[start : start + room]][: MOST + 1])
    return pieces


def _outcome(runners: Sequence[Runner], luck: NDArray[np.float64], dialect: str) -> Likelihood:
    order = sorted(runners, key=lambda each: (bool(each.lost), each.mean))
    best = order[0]
    predicts = not best.lost and beats(best.losses, luck[: best.losses.size])
    standings = []
    for each in order:
        nats, sigmas = behind(best.losses, each.losses) if np.isfinite(each.mean) else (float("inf"), float("inf"))
        about = each.hypothesis
        standings.append(Standing(about.name, about.title, each.mean, each.losses.size, nats, sigmas, each.lost))
    part = luck[: max(1, best.losses.size)]
    return Likelihood(tuple(standings), float(part.mean()), predicts, dialect, best.losses.size)
