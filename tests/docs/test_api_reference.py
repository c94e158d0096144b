"""The API reference: every public name is on its page, with the declared signature."""

from __future__ import annotations

import re
from pathlib import Path

import i2s_spec
from i2s_site import api_reference, checkout, examples


def example(first: int, *rest: str, named: str | None = "a'b", other: float = 1.5) -> list[Path]:
    """Do nothing with `first`.

    More of it.

    :param first: a number,
        on two lines
    :returns: nothing <b>
    :raises ValueError: never
    """
    raise ValueError(first, rest, named, other)


def test_every_public_name_is_shown() -> None:
    page = (checkout.chapters() / "api.md").read_text(encoding="utf-8")
    for name in i2s_spec._HOMES:
        assert f"\ni2s_spec.{name}\n" in page, name


def test_every_public_name_has_an_example_that_is_run() -> None:
    """`test_every_fence_holds` runs them."""
    run = "\n".join(each.source for each in examples.examples() if each.page == "api.md" and each.kind == "python")
    names = [*i2s_spec._HOMES, "golden.record", "golden.compare"]
    assert [name for name in names if re.search(rf"\bi2s\.{name}\b", run) is None] == []


def test_an_entry_says_what_is_declared() -> None:
    shown = """(first: int, *rest: str, named: str | None = "a'b", other: float = 1.5) -> list[Path]"""
    assert api_reference._signature(example) == shown
    assert "    data: Any,\n" in api_reference._signature(api_reference.named("i2s_spec.unpack"))
    said = "".join(api_reference._doc(example))
    assert "<p>Do nothing with <code>first</code>.</p><p>More of it.</p>" in said
    assert "<dt><code>first</code></dt><dd>a number, on two lines</dd>" in said
    assert "<dt>returns</dt><dd>nothing &lt;b&gt;</dd>" in said
    assert "<dt>raises <code>ValueError</code></dt><dd>never</dd>" in said


def test_entries_have_no_unparsed_fields() -> None:
    for name in i2s_spec._HOMES:
        assert ":param" not in api_reference.entry(f"i2s_spec.{name}"), name
