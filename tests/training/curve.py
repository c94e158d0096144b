"""This module draws the loss curves of a training log."""

from __future__ import annotations

import math

from i2s_spec.draw.chart import Curve, alone, curves


def drawn(records: list[dict[str, float]], name: str, vocab: int) -> str:
    """The loss on training text and on unseen text, as an SVG file.

    :param vocab: tokens of the model; a uniform guess has the loss ln(vocab)
    """
    training = [(record["tokens"], record["loss"]) for record in records]
    unseen = [(record["tokens"], record["unseen"]) for record in records if "unseen" in record]
    more = (
        f"From {training[0][1]:.2f} nats at the start (a uniform guess has {math.log(vocab):.2f}) to {training[-1][1]:.2f} "
        f"on training text and {unseen[-1][1]:.2f} on unseen text, after {training[-1][0]:,} tokens."
    )
    lines = [
        Curve(training, "a", f"training {training[-1][1]:.2f}"),
        Curve(unseen, "b", f"unseen {unseen[-1][1]:.2f}"),
    ]
    return alone(curves(lines, f"Loss of {name} in nats for a token", more, "tokens seen")) + "\n"
