"""This module defines how a campaign is run, and what a find is."""

from __future__ import annotations

from dataclasses import dataclass, field

from i2s_spec.fuzzing.child import Bounds
from i2s_spec.fuzzing.inputs import MOST_BYTES
from i2s_spec.fuzzing.oracle import DecoderPolicy
from i2s_spec.fuzzing.verdict import Statuses


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
