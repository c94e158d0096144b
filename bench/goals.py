"""This module declares the goals that depend on the class of the processor; the other goals are beside the measurements.

Intel's family 6, model 85 (Skylake-SP to Cooper Lake) is a separate class, with goals from what is possible on a Cascade
Lake server. All other processors have the goals of Zen 4 and Sapphire Rapids.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.processor import kind


class Products(NamedTuple):
    """Goals for products of several tokens, as shares of the peak and of torch's speed.

    :param either: reaching one of the two is enough
    """

    peak: float
    torch: float
    either: bool = False


class Goals(NamedTuple):
    """The goals of a class of processors.

    :param products: by the least number of tokens; the last entry that applies counts
    :param prompts: share of the bound, by the number of tokens
    :param behind: share of the bound for decoding after a long context, including keys and values
    :param survey: share of the probe's speed in `lint` with two threads
    """

    products: dict[int, Products]
    prompts: dict[int, float]
    behind: float
    survey: float
    lint: float

    def products_of(self, tokens: int) -> Products:
        """The goals for products of this many tokens."""
        return self.products[max(least for least in self.products if least <= tokens)]


MODEL_85: Final = Goals(
    products={0: Products(0.45, 1.5, True), 32: Products(0.6, 1.5, True), 128: Products(0.75, 1.0)},
    prompts={128: 0.6, 512: 0.6},
    behind=0.8,
    survey=0.8,
    lint=0.65,
)
OTHERS: Final = Goals(
    products={0: Products(0.8, 1.0), 512: Products(0.8, 0.95)},
    prompts={128: 0.6, 512: 0.75},
    behind=0.85,
    survey=0.85,
    lint=0.75,
)


def goals(processor: str | None = None) -> Goals:
    """The goals of a kind of processor, as `bench.processor.kind` names it; of this one by default.

    >>> goals("cascade-lake").products_of(64)
    Products(peak=0.6, torch=1.5, either=True)
    >>> goals("emerald-rapids").products_of(64)
    Products(peak=0.8, torch=1.0, either=False)
    """
    return MODEL_85 if (processor or kind()) in {"skylake-sp", "cascade-lake", "cooper-lake"} else OTHERS
