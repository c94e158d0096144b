"""A test of a file by a text: the loss of its model under hypotheses about what may be wrong with it (clause 7.8).

`likelihood` runs `sequential_test` on a text and decides which hypothesis about the file is right; `verdict`, `as_dict` and
`lines` say it.

    >>> from i2s_spec.convert.trained import open_trained
    >>> with open_trained("llama") as file:
    ...     found = likelihood(file)
    >>> found.predicts, found.standings[0].name
    (True, 'as it is')

    >>> import numpy as np
    >>> beats(np.full(40, 2.0), np.linspace(2.5, 3.5, 40)), beats(np.full(40, 2.0), np.linspace(1.0, 3.5, 40))
    (True, False)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite, log, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.convert.trained import unseen_text
from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.errors import FormatError, SettingError, counted
from i2s_spec.inspect.packing import USED
from i2s_spec.layout_inference.counts import likely_code_map
from i2s_spec.model.forward import logits_of
from i2s_spec.model.load import load_model
from i2s_spec.model.text.hypotheses import ROLES, hypotheses, ternary_roles
from i2s_spec.model.text.perplexity import log_likelihoods
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Dialect
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.identify import Identification
    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model
    from i2s_spec.model.text.hypotheses import PossibleMistake

#: Characters of a text that are tokenized: enough for the tokens of a test.
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
    """Return the dialect in which the tensors of an identified file are read: the identified layout, else that of
    programs, with the code map of the histogram only if the file cannot be read otherwise."""
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
    sequential_test(runners, model, pieces, progress)
    packed = any(model.weights.tensor_type(name) == "I2_S" for name in file.tensors)
    found = _outcome(runners, chance(pieces, model.vocab_size, MOST), str(dialect) if packed else "")
    return found._replace(not_tried=_not_tried(model))


def _not_tried(model: Model) -> str:
    """Return the hypotheses that do not apply to the types of matrices; empty if all apply."""
    present = {each for each in ROLES if f"blk.0.{each}.weight" in model.weights}
    others = [each for each in ROLES if each in present - ternary_roles(model)]
    if not others:
        return ""
    which = "all matrices" if len(others) == len(present) else ", ".join(others)
    return f"codes, signs, transposition, order of heads and scales of {which}: none has ternary codes with one scale"


def split(tokens: Sequence[int], first: Sequence[int], context: int) -> list[list[int]]:
    """Return a text in sequences that fit into the context, each after the first token that the vocabulary adds, if
    any.
    """
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


# --- sequential test -------------------------------------------------------------------------------------------------
# All hypotheses read the same tokens. They are run in rounds, each with more tokens than before; the tokens that a
# hypothesis has read stay in its cache, so no token is computed twice. The one with the least loss leads. A hypothesis
# is dropped when
#
#     it is behind the leader by `NATS` in sum, and by `SIGMAS` standard errors of the mean difference token by token.
#
# The first criterion is Ville's inequality: if the text were drawn from the hypothesis, its likelihood would fall
# behind that of another one by a factor of e^20.7 with a probability of at most 10^-9, however often it is tested; so
# it is valid at any stopping time. The second is for texts that no model has drawn: the lead must not come from a few
# tokens. Logits that are not finite, or a probability of 0 for a token, lose at once.
#
# Every model must beat `chance`, which predicts each token by its frequency so far in the text. It knows nothing of
# language, and a model that is not trained does not beat it. A hypothesis that chance beats is dropped as well, and if
# the leader is no better than chance after `FUTILE` tokens, the test ends undecided.

#: A hypothesis is dropped if it is behind by this many nats (a probability of 10^-9) and this many standard errors.
NATS: Final = 20.723266
SIGMAS: Final = 6.0
#: Tokens that have been scored after each round. For a trained model, most wrong hypotheses have lost after 32, for
#: random weights between 64 and 96; every round costs a change of weights.
ROUNDS: Final = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
#: Tokens that are scored in the first round, and in all rounds.
FIRST: Final = ROUNDS[0]
MOST: Final = ROUNDS[-1]
#: Tokens after which a test is given up if the leader does not beat chance.
FUTILE: Final = 256

#: Why a hypothesis without losses is dropped.
NOT_FINITE: Final = "its logits are not finite"

Progress = Callable[[int, int], object]


class Runner:
    """One hypothesis under test: `losses` of the tokens that it has read, in nats, float64.

    `lost` says why it was dropped; it is empty as long as it is not.
    """

    def __init__(self, hypothesis: PossibleMistake) -> None:
        self.hypothesis = hypothesis
        self.losses: NDArray[np.float64] = np.empty(0)
        self.lost = ""
        self._caches: dict[int, Cache] = {}

    @property
    def mean(self) -> float:
        """The mean loss."""
        return float(self.losses.mean()) if self.losses.size and self.lost != NOT_FINITE else inf

    def read(self, model: Model, pieces: Sequence[Sequence[int]], count: int) -> None:
        """Continue until this many tokens are scored.

        :param model: the unchanged model
        :param pieces: the text, in sequences that fit into the model's context
        """
        model = self.hypothesis.change(model)
        try:
            with np.errstate(all="ignore"):
                found = list(self._scored(model, pieces, count))
        except FormatError as error:
            if error.fault is not LOGITS_NOT_FINITE:
                raise
            self.drop(NOT_FINITE)
            return
        self.losses = np.concatenate([self.losses, *found])
        if not np.isfinite(self.losses).all():
            self.drop("it gives a token the probability 0")

    def drop(self, why: str) -> None:
        """Drop it for a reason, and free its caches."""
        self.lost = why
        self._caches.clear()

    def _scored(self, model: Model, pieces: Sequence[Sequence[int]], count: int) -> Iterator[NDArray[np.float64]]:
        start = 0
        for number, piece in enumerate(pieces):
            stop = start + len(piece) - 1  # the first token of a piece has no prediction
            done, until = max(self.losses.size, start), min(stop, count)
            if done < until:
                ids = [(token + self.hypothesis.shift) % model.vocab_size for token in piece]
                cache = self._caches.setdefault(number, model.new_cache(len(piece)))
                logits = logits_of(model.forward(ids[done - start : until - start], cache=cache))
                yield -log_likelihoods(logits, ids[done - start + 1 : until - start + 1])
            if until == stop:
                self._caches.pop(number, None)
            start = stop


def beats(leader: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether losses are certainly less than others, token by token; the longer series is cut."""
    return behind(leader, other)[0] >= NATS and behind(leader, other)[1] >= SIGMAS


def behind(leader: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Return by how many nats losses exceed others, and by how many standard errors of their mean difference."""
    n = min(leader.size, other.size)
    differences = other[:n] - leader[:n]
    if n < 2:
        return 0.0, 0.0
    total, error = float(differences.sum()), float(differences.std(ddof=1)) * sqrt(n)
    return total, total / error if error > 0 else (inf if total > 0 else 0.0)


def chance(pieces: Sequence[Sequence[int]], vocab: int, count: int) -> NDArray[np.float64]:
    """Return the losses of tokens if each is predicted by its frequency so far, with half an occurrence of every
    token added.
    """
    seen: Counter[int] = Counter()
    losses: list[float] = []
    for piece in pieces:
        for token in piece[1:]:
            losses.append(log(len(losses) + vocab / 2) - log(seen[token] + 0.5))
            seen[token] += 1
    return np.array(losses[:count])


def sequential_test(
    runners: Sequence[Runner], model: Model, pieces: Sequence[Sequence[int]], progress: Progress | None = None
) -> None:
    """Test all hypotheses until one is left or the text ends; each records why it was dropped.

    :param pieces: the text, in sequences that fit into the model's context
    :param progress: called with (tokens computed, tokens in all if nothing more is dropped)
    """
    total = min(MOST, sum(len(piece) - 1 for piece in pieces))
    luck = chance(pieces, model.vocab_size, total)
    done = 0
    for count in [*(each for each in ROUNDS if each < total), total]:
        running = [each for each in runners if not each.lost]
        for at, each in enumerate(running):
            before = each.losses.size
            each.read(model, pieces, count)
            done += count - before
            if progress is not None:
                progress(done, done + (len(running) - at - 1) * (count - before))
        leader = _drop([each for each in running if not each.lost], luck)
        if leader is None or sum(not each.lost for each in runners) < 2:
            return
        if count >= FUTILE and leader.losses.sum() >= luck[:count].sum():
            return


def _drop(running: Sequence[Runner], luck: NDArray[np.float64]) -> Runner | None:
    """Drop hypotheses that the leader or chance beats; returns the leader, if one is left."""
    leader = min(running, key=lambda each: each.mean, default=None)
    for each in running:
        if leader is not None and each is not leader and beats(leader.losses, each.losses):
            each.drop("behind")
        elif beats(luck, each.losses):
            each.drop("behind chance")
    return leader if leader is not None and not leader.lost else None


# --- report ----------------------------------------------------------------------------------------------------------
# The outcome of a test in words, and as plain data as `identify.schema.json` describes it.

#: How many hypotheses are listed by default.
SHOWN: Final = 8

RIGHT, WRONG, UNDECIDED = "right", "wrong", "undecided"


def verdict(found: Likelihood) -> str:
    """Return the verdict: `right` if the unchanged model predicts the text best, `wrong` if it certainly does not."""
    if found.wrong:
        return WRONG
    leads = found.predicts and found.standings[0].name == "as it is"
    return RIGHT if leads else UNDECIDED


def as_dict(found: Likelihood) -> dict[str, Any]:
    """Return the outcome as plain data."""
    return {
        "verdict": verdict(found),
        "answer": found.answer,
        "undecided": [each.name for each in found.remaining] if found.answer is None else [],
        "margin": round(found.margin, 3),
        "chance": round(found.chance, 4),
        "dialect": found.dialect or None,
        "tokens": found.tokens,
        "hypotheses": [
            {
                "name": each.name,
                "title": each.title,
                "loss": _finite(each.loss),
                "tokens": each.tokens,
                "behind": _finite(each.nats),
                "sigmas": _finite(each.sigmas),
                "dropped": each.lost or None,
            }
            for each in found.standings
        ],
        "not_tried": found.not_tried or None,
        "why_not": found.why_not or None,
    }


def _finite(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


def sentence(found: Likelihood) -> str:
    """Return the verdict in words."""
    if found.why_not:
        return f"cannot tell: {found.why_not}"
    best, left = found.standings[0], [each.name for each in found.remaining]
    if not found.predicts:
        return (
            "undecided: under no hypothesis does the model predict the text better than the frequency of its tokens; "
            "it was not trained, or something else is wrong"
        )
    also = f"; the text does not distinguish {_listed(left[1:])} from it" if left[1:] else ""
    if verdict(found) == RIGHT:
        return f"no hypothesis is better: the unchanged model predicts the text best{also}"
    if verdict(found) == WRONG:
        return f"{best.name}: {best.title}{also}"
    return f"undecided between {_listed(left)}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lines(found: Likelihood, everything: bool = False) -> Iterator[Line]:
    """Yield the outcome as text.

    :param everything: all hypotheses, not only the best
    """
    style = {RIGHT: "green", WRONG: "red"}.get(verdict(found), "yellow")
    yield [Piece("Does it predict text as it should?", "bold"), Piece("  "), Piece(sentence(found), style)]
    if found.why_not:
        return
    read = f"read as {found.dialect}, " if found.dialect else ""
    yield [Piece(f"  {read}{counted(found.tokens, 'token')}; by the frequency of tokens {found.chance:.3f}", "dim")]
    if found.not_tried:
        yield [Piece(f"  not tried: {found.not_tried}", "dim")]
    yield [Piece(f"  {'nats a token':>12}  {'tokens':>6}  {'behind by':>10}  {'sigmas':>6}  hypothesis", "dim")]
    shown = found.standings if everything else found.standings[:SHOWN]
    for each in shown:
        yield [Piece(f"  {_row(each)}")]
    left = found.standings[len(shown) :]
    if left:
        behind = ", all of them behind" if all(each.lost for each in left) else ""
        yield [Piece(f"  and {len(left)} more{behind}; -v shows them", "dim")]


def _row(each: Standing) -> str:
    loss = f"{each.loss:.3f}" if isfinite(each.loss) else "-"
    nats, sigmas = (f"{value:,.1f}" if isfinite(value) else "-" for value in (each.nats, each.sigmas))
    why = (
        f" ({each.lost})"
        if each.lost.startswith("it")
        else ""
        if each.lost
        else " (not distinguished)"
        if each.nats
        else ""
    )
    return f"{loss:>12}  {each.tokens:>6,}  {nats:>10}  {sigmas:>6}  {each.name}{why}"
