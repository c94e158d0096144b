"""Repairs are limited: in their number, in the places that they change, and in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hostile_files import FILES
from repairs import BREAKINGS

from i2s_spec.convert.rewrite import write_edited
from i2s_spec.gguf.source import FileSource
from i2s_spec.linter import engine
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.repair import plan as repair_plan
from i2s_spec.linter.repair import workspace
from i2s_spec.linter.repair.plan import chosen, plan
from i2s_spec.linter.rule import Fix
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, Model, array, key_value


def with_keys(*keys: object) -> bytes:
    """The sample with more keys."""
    draft = Draft()
    file = draft.records()
    file.key_values = [*file.key_values, *keys]
    return draft.built(file)


def test_none_of_too_many_findings_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file can hold a million of them, and no model holds ten thousand."""
    assert workspace.MOST_REPAIRED == 10_000
    monkeypatch.setattr(workspace, "MOST_REPAIRED", 20)
    odd = [key_value(b"x%d" % i, ValueType.BOOL, 2) for i in range(21)]
    fixed = fix(with_keys(*odd[:20]))
    assert (len(fixed.actions), fixed.declined) == (20, ())
    fixed = fix(with_keys(*odd))
    assert fixed.actions == ()
    (declined,) = fixed.declined
    assert (declined.code, declined.why[:28]) == ("G215", "G215 has more than 20 findin")
    assert declined.at.path == f"key_values[{len(Draft().records().key_values)}].value"


def test_too_many_copies_of_a_key_are_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One finding, and as many repairs as there are copies."""
    monkeypatch.setattr(repair_plan, "MOST_REPAIRED", 20)
    for copies, taken in ((21, 20), (22, 0)):
        fixed = fix(with_keys(*[key_value(b"x", ValueType.UINT8, 1)] * copies), unsafe=True, select=["G203"])
        assert len(fixed.actions) == taken
        assert [each.why for each in fixed.declined] == ["it takes more than 20 repairs"] * (not taken)


def test_no_repairs_are_planned_where_more_tensor_infos_are_than_models_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infos count, also if all have one name."""
    data = FILES["same-names"](1 / 512)
    planned: list[int] = []
    monkeypatch.setattr(
        repair_plan, "offers", lambda subject, found: planned.append(len(found)) or [Fix.NONE] * len(found)
    )
    infos = int.from_bytes(data[8:16], "little")
    for most, plans in ((infos - 1, 0), (infos, 1)):
        monkeypatch.setattr(engine, "MOST_PLANNED", most)
        found = [each for each in lint(data).findings if each.rule.fix is not Fix.NONE]
        assert any(each.code == "G303" for each in found)
        assert all(each.fix is Fix.NONE for each in found)  # nothing is promised that was not planned
        assert len(planned) == plans


def test_repairs_that_change_too_many_places_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_plan, "MOST_EDITS", 20)
    odd = [key_value(b"x%d" % i, ValueType.ARRAY, array(ValueType.BOOL, [2] * 10)) for i in range(3)]
    assert len(fix(with_keys(*odd[:2])).actions) == 2
    fixed = fix(with_keys(*odd))
    assert fixed.actions == ()
    assert [each.why for each in fixed.declined] == ["it takes more than 20 changes of bytes"]


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    size = 64 << 20
    data = Model("llama").changed(BREAKINGS["M012"]).built()
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    source = FileSource(path)
    tracemalloc.start()
    made = plan(source, chosen(["M012"]))
    written = write_edited(made.source, tmp_path / "out.gguf")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    source.close()
    assert written >= len(data) + size
    assert peak < 8 << 20
