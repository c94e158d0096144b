"""How often Hypothesis tries a law: what the test asks for in the profile `thorough`, and a quarter of it in `quick`."""

from __future__ import annotations

from hypothesis import settings

#: What `examples` counts from: with this many in a profile, a test gets what it asks for.
WHOLE = 100

settings.register_profile("quick", max_examples=WHOLE // 4, deadline=None)
settings.register_profile("thorough", max_examples=WHOLE, deadline=None)


def examples(count: int) -> settings:
    """Settings with this many examples, or the share of them that the profile in use has."""
    return settings(max_examples=max(1, count * settings().max_examples // WHOLE), deadline=None)
