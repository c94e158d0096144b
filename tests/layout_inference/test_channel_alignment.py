"""The two profiles that distinguish layouts best agree only in the right layout, and in no layout for random weights."""

from __future__ import annotations

import io

import numpy as np
import pytest
from builders import model_bytes
from planted import layouts, opened

from i2s_spec.convert.trained import write_trained
from i2s_spec.layout_inference import profiles
from i2s_spec.layout_inference.channel_alignment import POINTS, ChannelAlignment, channel_alignment
from i2s_spec.layout_inference.evidence import layout_evidence
from i2s_spec.schema.dialect import CODE_MAPS


def aligned(data: bytes) -> ChannelAlignment:
    with opened(data) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    made = channel_alignment(found)
    assert made is not None
    return made


def trained(architecture: str, layout: str) -> bytes:
    out = io.BytesIO()
    write_trained(out, architecture, dialect=layout)
    return out.getvalue()


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama"])
def test_the_right_layout_lines_up(architecture: str, layout: str) -> None:
    found = aligned(trained(architecture, layout))
    assert [each.layout for each in found.layouts] == layouts()
    by_name = {each.layout: abs(each.correlation) for each in found.layouts}
    right = by_name.pop(layout)
    assert right > 2 * max(by_name.values())
    assert right > 0.3
    for each in found.layouts:
        assert len(each.points) == min(POINTS, found.channels)
        assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in each.points)
        x, y = (np.array(side) for side in zip(*each.points, strict=True))
        score = profiles.score(x, y)
        assert score is not None
        assert score / np.sqrt(x.size - 1) == pytest.approx(each.correlation, abs=0.15)


def test_random_weights_line_up_nowhere() -> None:
    found = aligned(model_bytes("bitnet-b1.58", layers=2, embd=256, ff=384))
    assert max(abs(each.correlation) for each in found.layouts) < 0.3
