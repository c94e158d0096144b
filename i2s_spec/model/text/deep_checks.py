"""Checks of a file that run its model: whether its outputs are finite, whether it predicts a text as it should, and whether
engines render its chat template alike.

>>> from i2s_spec.convert.trained import open_trained
>>> from i2s_spec.inspect.identify import identify
>>> with open_trained("llama") as file:
...     found = deep_checks(file, identify(file))
>>> found.finite, found.why_not
(True, '')
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.errors import FormatError, counted
from i2s_spec.model.load import load_model
from i2s_spec.model.text.likelihood import Likelihood, as_dict, likelihood, lines, read_as
from i2s_spec.model.text.template_engines import TemplateChecks, template_checks

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.identify import Identification

#: Tokens that are computed: enough for a not-a-number to reach the outputs.
TOKENS: Final = 4
#: Bytes of the largest file whose model is run, and the longest time that the test by a text takes, in seconds.
MOST_BYTES: Final = 16 << 30
MOST_SECONDS: Final = 900.0


class DeepChecks(NamedTuple):
    """The results.

    `finite` says whether all values of a few tokens are finite, None if the model cannot be run; then `why_not` says why.
    `first` is the first value that is not. `likelihood` is the test by a text, `template` the chat template in the engines
    that render it, None if there is none.
    """

    finite: bool | None
    likelihood: Likelihood
    why_not: str = ""
    first: str = ""
    template: TemplateChecks | None = None

    @property
    def sound(self) -> bool:
        """Whether no check found anything wrong. Engines that render a template differently are no fault of the model."""
        broken = self.template is not None and bool(self.template.broken)
        return self.finite is not False and not self.likelihood.wrong and not broken

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain data; the test by a text as `identify.schema.json` describes it."""
        return {
            "finite": self.finite, "first": self.first or None, "why_not": self.why_not or None,
            "likelihood": as_dict(self.likelihood),
            "template": None if self.template is None else self.template.as_dict(),
        }  # fmt: skip

    def lines(self) -> Iterator[Line]:
        """Yield the results as text."""
        answer = {
            True: ("yes", "green"), False: (f"no: {self.first} is the first that is not", "red"),
            None: (f"cannot tell: {self.why_not}", "yellow"),
        }  # fmt: skip
        yield [Piece("Are the values that it computes finite?  ", "bold"), Piece(*answer[self.finite])]
        yield from lines(self.likelihood)


class _OutOfTimeError(Exception):
    """The test by a text took too long."""


def deep_checks(
    file: File, identified: Identification, threads: int | None = None, seconds: float = MOST_SECONDS
) -> DeepChecks:
    """Run the model of a file, and render its chat template.

    :param file: an open file, :param identified: what was found of it, from which its I2_S tensors are read
    :param threads: how many threads may work
    :param seconds: after this time, the test by a text is given up
    """
    template = template_checks(file)
    if file.size > MOST_BYTES or file.fault is not None:
        large = f"the file has more than {counted(MOST_BYTES, 'byte')}"
        why = large if file.fault is None else f"the file cannot be read whole, because of {file.fault.code}"
        return DeepChecks(None, Likelihood(why_not=why), why, template=template)
    dialect = read_as(identified)
    finite, first, why = _finite(file, str(dialect), threads)
    end = monotonic() + seconds

    def bounded(done: int, total: int) -> None:
        if monotonic() > end:
            raise _OutOfTimeError

    try:
        found = likelihood(file, dialect=dialect, threads=threads, progress=bounded)
    except ValueError as error:  # a file that consists of holes
        found = Likelihood(why_not=str(error))
    except _OutOfTimeError:
        found = Likelihood(
            why_not=f"it was given up after {seconds:,.0f} seconds; i2s identify --likelihood has no limit"
        )
    return DeepChecks(finite, found, why, first, template)


def _finite(file: File, dialect: str, threads: int | None) -> tuple[bool | None, str, str]:
    """Return whether the values of a few tokens are finite, the first that is not, and why the model cannot be run."""
    try:
        model = load_model(file, "fast", threads, dialect=dialect, force=True)
        tokens = np.arange(TOKENS) * max(1, model.vocab_size // TOKENS) % model.vocab_size
        with np.errstate(all="ignore"):
            result = model.forward(tokens[: model.context_length], taps=["*"])
    except (FormatError, ValueError) as error:
        return None, "", str(error)
    output = result.logits if result.logits is not None else result.embedding
    values = {**result.taps, "the output": output}
    first = next((name for name, value in values.items() if not np.isfinite(value).all()), "")
    return not first, first, ""
