"""A run over vectors: passes, failures and their explanation, lists of known failures, and reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from hand_made import ARGS, PAYLOAD, SHAPE, TRITS, WEIGHTS, Folder, adapter, payloads
from one_process import i2s as i2s_here

from i2s_spec.codec import native
from i2s_spec.codec.change_groups import pack_blocks
from i2s_spec.conformance import score
from i2s_spec.conformance.explanations import explained
from i2s_spec.conformance.protocol import AdapterFault, AdapterProcess, VectorCase, read_cases
from i2s_spec.conformance.report import FORMS, ndjson, read_ndjson
from i2s_spec.conformance.runner import ProtocolAsker, SimpleAsker, run_cases
from i2s_spec.conformance.score import RunResult, Status, difference
from i2s_spec.conformance.vectors.all_vectors import HERE
from i2s_spec.errors import SettingError
from i2s_spec.fuzzing.bounded_process import Bounds

BOUNDS = Bounds(seconds=300, memory=512 << 20)


def ran(folder: Folder, change: str = "") -> RunResult:
    script = folder.path / "adapter.py"
    script.write_text(adapter(change))
    suite = read_cases(folder.path)
    return run_cases(ProtocolAsker([sys.executable, str(script)], BOUNDS), suite.cases, suite.version)


def test_a_right_adapter_passes(tmp_path: Path) -> None:
    run = ran(payloads(tmp_path))
    assert [(each.id, each.status, each.text) for each in run.results] == [
        ("I2S-0001", Status.PASS, ""),
        ("I2S-0002", Status.PASS, ""),
    ]
    assert run.ok
    assert (run.implementation.name, run.suite_version) == ("hand-made", "1.2.3")


def test_the_first_difference_and_its_mistake(tmp_path: Path) -> None:
    change = """
def decode(data, args, op):
    k = np.arange(512)
    codes = np.frombuffer(data, np.uint8)[k // 4] >> (6 - k % 4 * 2) & 3
    values = codes.astype(np.int8) - 1
    return values.astype("<f4") * np.float32(0.75) if op == "dequant" else values
"""
    run = ran(payloads(tmp_path), change)
    assert [each.status for each in run.results] == [Status.FAIL, Status.FAIL]
    for each in run.results:
        assert each.mistake == "the layout sequential-msb was read"
        assert each.message.startswith("row 0, column ")
        assert each.message.endswith("of 512 differ")
    words = "one mistake explains 2 of 2 failures: the layout sequential-msb was read"
    assert FORMS["text"]([run]).splitlines()[-1] == f"hand-made 1: 0 of 2 vectors passed; {words}; suite 1.2.3"
    assert f"\n{words.capitalize()}.\n" in FORMS["markdown"]([run])
    del run.results[1]  # a single failure already has its own line
    assert "explains" not in FORMS["text"]([run])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("START['ops'] = ['forward']", "the adapter does not do decode"),
        ("START['features'] = ['type.tq1_0']", "the adapter lacks type.i2_s"),
        ("START['dialects'] = ['arm-64']", "the adapter does not read the layout x86-128"),
        ("START['limits'] = {'max_bytes': 10}", "the input is larger than the 10 bytes that the adapter takes"),
        ("old = answer\ndef answer(m):\n    return {'ok': False} if m['cmd'] == 'dialect' else old(m)",
         "the adapter does not read the layout x86-128"),
        ("old = answer\ndef answer(m):\n    return {'seq': 1, 'skipped': True, 'message': 'ARM only', 'issue_url': 'u'} "
         "if m.get('seq') == 1 else old(m)", "ARM only (u)"),
    ],
)  # fmt: skip
def test_unsupported_vectors_are_skipped(tmp_path: Path, change: str, word: str) -> None:
    run = ran(payloads(tmp_path), change)
    assert (run.results[0].status, run.results[0].message) == (Status.SKIPPED, word)
    assert run.ok is any(result.status is Status.PASS for result in run.results)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "START['features'] = ['type.i2s']",
            "it claims 'type.i2s', which none of them names; most of them need type.i2_s",
        ),
        ("START['features'] = []", "the adapter claims the features of none; most of them need type.i2_s"),
        ("START['ops'] = ['quantize']", "they are about decode, dequant, and the adapter does quantize"),
    ],
)
def test_a_run_that_asks_nothing_fails(tmp_path: Path, change: str, words: str) -> None:
    run = ran(payloads(tmp_path / "v"), change)
    assert run.given_up.startswith("no vector was asked: ")
    assert words in run.given_up
    assert not run.ok


def test_containers_differ_at_a_path() -> None:
    one = VectorCase("I2S-0001", "container", Path("x"))
    assert difference(one, b'{"version":3}', b'{"version":"3"}') == '$.version is "3"; expected 3'
    assert difference(one, b'{"version":3}', b'{"version"') == "the answer to `container` is not JSON; it has 10 bytes"
    assert difference(one, b'{"version":3}', b'{"version": 3}') == (
        "the answer has 14 bytes, and the same content as the 13 of its canonical form"
    )
    tokens = VectorCase("I2S-0002", "tokenize", Path("x"))
    assert difference(tokens, b'{"ids":[1,2,3]}', b'{"ids":[1,5,3]}') == "$.ids[1] is 5; expected 2"
    assert difference(tokens, b'{"ids":[1,2,3]}', bytes(12)) == "the answer to `tokenize` is not JSON; it has 12 bytes"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"ids": [5, 6, 7, 8, 9]}, ""),
        ({"ids": [5, 6, 7, 1, 1]}, ""),  # another token at the near tie, and whatever follows
        ({"ids": [5, 6, 7], "seconds": 3}, ""),
        ({"ids": [5, 6, 1, 8, 9]}, "$.ids[2] is 1; expected 7"),
        ({"ids": [5, 6]}, "$.ids has 2 entries; expected 3"),
        ({"ids": ["5", 6, 7, 8, 9]}, '$.ids[0] is "5"; expected 5'),
        ({"tokens": [5, 6, 7, 8, 9]}, "$.ids is missing"),
        ([5, 6, 7, 8, 9], "$ is [5, 6, 7, 8, 9]; expected"),
        ({"ids": None}, "$.ids is null; expected"),
    ],
)
@pytest.mark.parametrize("form", ["json", "base64", "output"])
def test_tokens_agree_up_to_the_first_near_tie(tmp_path: Path, answer: object, message: str, form: str) -> None:
    folder = Folder(tmp_path)
    compare = {"class": "prefix", "least": 3, "margin": 0.01}
    folder.add("generate", b"", json={"ids": [5, 6, 7, 8, 9]}, compare=compare, args={"tokens": [1, 2], "count": 5})
    replies = {
        "json": f"return {{'seq': m['seq'], 'json': {answer!r}}}",
        "base64": f"import base64; text = json.dumps({answer!r}).encode(); "
        "return {'seq': m['seq'], 'base64': base64.b64encode(text).decode()}",
        "output": f"Path(m['output']['path']).write_text(json.dumps({answer!r})); "
        "return {'seq': m['seq'], 'output': True}",
    }
    change = "START['ops'] = ['generate']\nold = answer\ndef answer(m):\n    if m['cmd'] != 'run': return old(m)\n    "
    (result,) = ran(folder, change + replies[form]).results
    assert result.status is (Status.FAIL if message else Status.PASS), result.text
    assert result.message.startswith(message)


def test_an_error_that_the_adapter_reports_is_a_failure(tmp_path: Path) -> None:
    change = """
old = answer
def answer(m):
    return {"seq": 1, "errored": True, "context": {"message": "no memory"}} if m.get("seq") == 1 else old(m)
"""
    run = ran(payloads(tmp_path), change)
    assert (run.results[0].status, run.results[0].message, run.ok) == (Status.ERRORED, "no memory", False)


def test_answers_are_judged_by_the_verdict_of_the_vector(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    args = {"args": ARGS, "features": ["type.i2_s"]}
    folder.add("decode", PAYLOAD, verdict="invalid", phase="payload", comment="code 3", **args)
    folder.add("decode", PAYLOAD, verdict="either", **args)
    folder.add("decode", PAYLOAD, verdict="survive", **args)
    folder.add("decode", PAYLOAD, TRITS.tobytes(), **args)
    run = ran(folder)
    assert [each.status for each in run.results] == [Status.FAIL, Status.NOTED, Status.PASS, Status.PASS]
    assert run.results[0].message == "it accepts what is invalid (code 3)"
    assert run.results[1].message == "accepts it"
    refuse = """
old = answer
def answer(m):
    no = {"seq": m.get("seq"), "rejected": True, "phase": "extent", "message": "no"}
    return no if m["cmd"] == "run" else old(m)
"""
    run = ran(folder, refuse)
    assert [each.status for each in run.results] == [Status.PASS, Status.NOTED, Status.PASS, Status.FAIL]
    assert (run.results[0].phase, run.results[0].phase_right, run.phases) == ("extent", False, (0, 1))
    assert run.results[3].message == "it rejects what is valid: no"


REFUSE = """
old = answer
def answer(m):
    return {"seq": m.get("seq"), "rejected": True} if m["cmd"] == "run" and REFUSES(m["input"]["path"]) else old(m)
"""


@pytest.mark.parametrize(
    ("refuses", "found"),
    [
        ("lambda path: False", [Status.PASS, Status.FAIL, Status.FAIL]),
        ("lambda path: True", [Status.FAIL, Status.FAIL, Status.FAIL]),
        ("lambda path: '0001' not in path", [Status.PASS, Status.PASS, Status.PASS]),
        ("lambda path: '0002' in path", [Status.PASS, Status.PASS, Status.FAIL]),
    ],
)
def test_a_refusal_counts_only_beside_its_sound_twin(tmp_path: Path, refuses: str, found: list[Status]) -> None:
    folder = Folder(tmp_path)
    folder.add("decode", PAYLOAD, TRITS.tobytes(), args=ARGS)
    for _ in range(2):
        folder.add("decode", PAYLOAD, verdict="invalid", phase="payload", args=ARGS, twin="I2S-0001")
    change = f"REFUSES = {refuses}\n{REFUSE}"
    run = ran(folder, change)
    assert [each.status for each in run.results] == found
    suite = read_cases(folder.path)
    asker = ProtocolAsker([sys.executable, "-c", adapter(change)], BOUNDS)
    alone = run_cases(asker, suite.chosen(["I2S-0002"]), suite.version)  # the twin is asked, and is not counted
    assert [each.status for each in alone.results] == found[1:2]
    if found[0] is Status.FAIL:
        assert run.results[1].message.startswith("it does not accept the sound file either, I2S-0001")


def test_a_refusal_whose_twin_is_skipped_is_skipped(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("decode", PAYLOAD, TRITS.tobytes(), args=ARGS, features=["big-endian"])
    folder.add("decode", PAYLOAD, verdict="invalid", phase="payload", args=ARGS, twin="I2S-0001")
    run = ran(folder, f"START['features'] = []\nREFUSES = lambda path: True\n{REFUSE}")
    assert [each.status for each in run.results] == [Status.SKIPPED, Status.SKIPPED]
    assert run.results[1].message == "its sound twin I2S-0001 is skipped: the adapter lacks big-endian"


def test_features_can_be_claimed_for_each_operation(tmp_path: Path) -> None:
    run = ran(payloads(tmp_path / "v"), "START['features'] = {'decode': ['type.i2_s'], 'dequant': ['type.tq1_0']}")
    assert [each.status for each in run.results] == [Status.PASS, Status.SKIPPED]
    record = tmp_path / "run.ndjson"
    record.write_text(ndjson(run), encoding="utf-8")
    assert read_ndjson(record).implementation == run.implementation
    with pytest.raises(AdapterFault, match="nor an object of such lists by operation"):
        ran(payloads(tmp_path / "w"), "START['features'] = {'decode': 3}")


def test_messages_fit_their_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = json.loads((HERE / "messages.schema.json").read_text(encoding="utf-8"))
    met: list[str] = []

    def said(process: AdapterProcess, message: dict[str, object]) -> dict[str, object]:
        answer = process._asked(message)
        for each, parts in ((message, ("start", "dialect", "run")), (answer, ("started", "reads", "answer"))):
            part = next(part for part in parts if _fits(each, schema, part))
            met.append(part)
        return answer

    monkeypatch.setattr(AdapterProcess, "ask", said)
    wrong = "def decode(*_): return np.zeros(512, np.int8)"
    assert not ran(payloads(tmp_path), wrong).ok
    assert set(met) == {"start", "started", "dialect", "reads", "run", "answer"}
    for bad in ({"seq": 1}, {"seq": 1, "phase": "middle", "rejected": True}, {"seq": 1, "digest": "0"}):
        assert not _fits(bad, schema, "answer")


def _fits(message: dict[str, object], schema: dict[str, object], part: str) -> bool:
    return jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/{part}"}]}).is_valid(message)


def test_a_whole_run_has_a_bound(tmp_path: Path) -> None:
    folder = payloads(tmp_path)
    suite = read_cases(folder.path)
    asker = ProtocolAsker([sys.executable, "-c", adapter("time.sleep(0.2)")], BOUNDS)
    run = run_cases(asker, suite.cases, suite.version, seconds=1e-9)
    assert (run.given_up, run.ok) == ("the run stopped after 1e-09 s, with 2 vectors left", False)
    assert {each.status for each in run.results} == {Status.NOT_RUN}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('{"kv": [{"key": "b"}, {"key": "a", "n": 1}], "tensors": [{"name": "t"}]}', Status.PASS),
        ('{"kv": {"b": {}, "a": {"n": 1}}, "tensors": [{"name": "t"}]}', Status.PASS),
        ('{"kv": {"b": {}, "a": {"n": 2}}, "tensors": [{"name": "t"}]}', Status.FAIL),
        ('{"kv": {"a": {"n": 1}}, "tensors": [{"name": "t"}]}', Status.FAIL),
    ],
)
@pytest.mark.parametrize("how", ["json", "base64"])
def test_containers_can_be_compared_without_their_order(tmp_path: Path, answer: str, status: Status, how: str) -> None:
    folder = Folder(tmp_path)
    folder.add("container", b"", json={"kv": [{"key": "a", "n": 1}, {"key": "b"}], "tensors": [{"name": "t"}]})
    value = answer if how == "json" else f"base64.b64encode(json.dumps({answer}).encode()).decode()"
    change = f"""
import base64
old = answer
def answer(m):
    return {{"seq": 1, "order": "any", "{how}": {value}}} if m["cmd"] == "run" else old(m)
START["ops"] = ["container"]
"""
    assert ran(folder, change).results[0].status is status


def test_values_beside_bytes_do_not_hide_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    logits = np.array([[1, 2, 3, 5], [9, 4, 2, 1]], "<f4")
    folder.add("forward", b"", logits.tobytes(), compare={"class": "corr", "corr": 0.999, "rank": 1, "columns": 4})
    change = f"""
old = answer
def answer(m):
    if m["cmd"] != "run": return old(m)
    Path(m["output"]["path"]).write_bytes(bytes.fromhex({(logits * np.float32(1.0001)).tobytes().hex()!r}))
    return {{"seq": 1, "digest": "sha256:" + "0" * 64, "json": {{"note": 1}}}}
START["ops"] = ["forward"]
"""
    assert ran(folder, change).results[0].text == ""


def test_outdated_known_failures_are_reported(tmp_path: Path) -> None:
    folder, listed = payloads(tmp_path / "v"), tmp_path / "known.txt"
    wrong = "old = decode\ndef decode(data, args, op): return old(data, args, op) * (-1 if op == 'decode' else 1)"
    run = ran(folder, wrong)
    assert score.write_list(run, listed) == 1
    assert run.results[0].mistake == "every sign is the other one"
    score.apply(run, score.read_list(listed), whole=True)
    assert (run.ok, run.known) == (True, {"I2S-0001"})

    passed = ran(folder)
    score.apply(passed, score.read_list(listed), whole=True)
    assert (passed.ok, passed.unexpected) == (False, ["I2S-0001 is a known failure, and passes"])

    skipped = ran(folder, "START['ops'] = ['dequant']")
    score.apply(skipped, score.read_list(listed), whole=True)
    assert skipped.unexpected == ["I2S-0001 is a known failure, and is skipped"]

    listed.write_text("I2S-0001  # another message\nI2S-0099\n")
    other = ran(folder, wrong)
    score.apply(other, score.read_list(listed), whole=False)
    assert len(other.unexpected) == 1
    assert other.unexpected[0].startswith("I2S-0001 is a known failure with another message: row 0, column ")
    other.unexpected.clear()
    score.apply(other, {"I2S-0099": ""}, whole=True)
    assert other.unexpected == ["I2S-0099 is a known failure, and no vector has this id"]
    listed.write_text("two words\n")
    with pytest.raises(SettingError, match="line 1 of the list of known failures"):
        score.read_list(listed)


# --- comparing and explaining -------------------------------------------------------------------------------------


def case(tmp_path: Path, op: str, data: bytes, method: str = "exact", **more: object) -> VectorCase:
    path = tmp_path / "input"
    path.write_bytes(data)
    compare = {
        "class": method,
        **{key: more.pop(key) for key in ("ulp", "rtol", "rank", "corr", "columns") if key in more},
    }
    return VectorCase("I2S-0001", op, path, compare=compare, args={**ARGS, **more})


def test_mistakes_have_names(tmp_path: Path) -> None:
    decode, dequant = case(tmp_path, "decode", PAYLOAD), case(tmp_path, "dequant", PAYLOAD, "bits")

    def of(got: object, which: VectorCase = decode, want: object = TRITS) -> str:
        return explained(which, want.tobytes(), got.tobytes())  # type: ignore[attr-defined]

    assert of(TRITS) == ""
    assert of(-TRITS) == "every sign is the other one"
    assert of(TRITS * 0) == "every value is 0"
    assert (
        of(native.unpack(PAYLOAD, SHAPE, "interleave-64", unused_code="zero")[0]) == "the layout interleave-64 was read"
    )
    swapped = np.array([0, 1, -1], np.int8)[TRITS + 1]
    assert of(swapped) == "the code map zero-first was read"
    turned = (np.frombuffer(PAYLOAD, np.uint8)[np.arange(512) // 128 * 32 + np.arange(512) % 32]
              >> np.arange(512) % 128 // 32 * 2 & 3).astype(np.int8) - 1  # fmt: skip
    assert of(turned) == "the layout interleave-128 with the bits from the other end was read"
    assert of(TRITS.astype("<f4"), dequant, WEIGHTS) == "the trits are right, and the scale was not applied"
    tripled = TRITS.astype("<f4") * np.float32(2.25)
    assert of(tripled, dequant, WEIGHTS) == "the trits are right, and the scale is 2.25 for 0.75"
    inverse = TRITS.astype("<f4") * (np.float32(1) / np.float32(0.75))
    assert of(inverse, dequant, WEIGHTS) == "the trits are right, and the reciprocal of the scale was applied"
    signed = np.where(WEIGHTS == 0, np.float32(-0.0), WEIGHTS)
    assert of(signed, dequant, WEIGHTS) == "only the sign of zeros differs"


def test_a_layout_is_named_before_a_transposition(tmp_path: Path) -> None:
    """In this matrix both mistakes move elements alike; a wrong layout is more likely in readers of I2_S."""
    trits = np.tile(np.array([-1, 0, 1, 1], np.int8).repeat(8), 16)
    data = native.pack(trits, 0.75)
    got = native.unpack(data, (4, 128), "sequential-msb")[0].reshape(-1)
    assert np.array_equal(got, trits.reshape(4, 128).T.reshape(-1))
    asked = case(tmp_path, "decode", data, shape=[128, 4])
    assert explained(asked, trits.tobytes(), got.tobytes()) == "the layout sequential-msb was read"


def test_mistakes_of_code_3(tmp_path: Path) -> None:
    data = bytearray(PAYLOAD)
    data[0] |= 0xC0
    zero = native.unpack(bytes(data), SHAPE, unused_code="zero")[0]
    two = zero.copy()
    two[0, 0] = 2
    assert explained(case(tmp_path, "decode", bytes(data)), zero.tobytes(), two.tobytes()) == "the code 3 became +2"


@pytest.mark.parametrize(
    ("type_", "sentence", "shift"),
    [
        ("Q2_0", "the codes were read from the highest bits of a byte", lambda k: (2 + k // 4, 6 - k % 4 * 2)),
        ("TQ2_0", "the codes were read one after the other", lambda k: (k // 4, k % 4 * 2)),
    ],
)
def test_mistakes_of_blocks(tmp_path: Path, type_: str, sentence: str, shift: object) -> None:
    data = pack_blocks(TRITS, 0.75, type_)
    block, size = (64, 18) if type_ == "Q2_0" else (256, 66)
    byte, place = shift(np.arange(block))  # type: ignore[operator]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, size)
    wrong = (blocks[:, byte] >> place & 3).astype(np.int8) - 1
    asked = case(tmp_path, "decode", data, type=type_.lower())
    assert explained(asked, TRITS.tobytes(), wrong.tobytes()) == sentence


def test_mistakes_of_writers(tmp_path: Path) -> None:
    asked = case(tmp_path, "quantize", WEIGHTS.tobytes())
    other = native.pack(TRITS, 0.75, "sequential-lsb")
    assert explained(asked, PAYLOAD, other) == "the layout sequential-lsb was written"
    assert explained(asked, PAYLOAD, native.pack(TRITS, 0.5)) == "the payload is right, and the scale differs"
    assert (
        explained(asked, PAYLOAD, PAYLOAD[:-1] + b"\1")
        == "payload and scale are right, and the bytes after the scale differ"
    )


def test_classes_of_comparison(tmp_path: Path) -> None:
    def of(method: str, got: object, **more: object) -> str:
        asked = case(tmp_path, "forward", b"", method, shape=[], **more)
        want = np.array([1.0, 2.0, 3.0, 4.0], "<f4")
        return difference(asked, want.tobytes(), np.array(got, "<f4").tobytes())

    near = np.nextafter(np.float32(2), np.float32(3))
    assert of("bits", [1, near, 3, 4]) == (
        "element 1 is 2.000000238418579 (0x40000001); expected 2.0 (0x40000000); 1 of 4 differ"
    )
    assert of("ulp", [1, near, 3, 4], ulp=1) == ""
    assert of("ulp", [1, near, 3, 4], ulp=0) != ""
    assert of("rtol", [1, 2.001, 3, 4], rtol=1e-2) == ""
    assert of("rtol", [1, 2.1, 3, 4], rtol=1e-2) != ""
    assert of("rtol", [1, np.nan, 3, 4], rtol=1e-2) != ""
    assert of("corr", [1, 2, 3, 4.1], corr=0.99) == ""
    assert "the values correlate with 0.4" in of("corr", [2, 3, 1, 4], corr=0.99)
    assert of("corr", [1, 2, 4, 3.99], corr=0.5, rank=1, columns=2) != ""
    assert of("corr", [1, 2, 4, 3.99], corr=0.5, rank=2, columns=2) == ""
    assert of("rank", [1, 2, 4, 3], rank=1) == "the largest of the last 4 values is that of 2; expected 3"
    assert of("rank", [1, 2, 3, np.nan]) == "value 3 is not finite"
    nan = np.array([0x7FC00000, 0xFFC12345], "<u4").view("<f4")
    assert difference(case(tmp_path, "dequant", b"", "bits"), nan[:1].tobytes(), nan[1:].tobytes()) == ""
    assert of("bits", [1, 2]) == "the answer has 8 bytes; expected 16"
    ordered = case(tmp_path, "dequant", b"", "ulp", ulp=1)
    assert difference(ordered, np.float32(0).tobytes(), np.float32(-0.0).tobytes()) == ""


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda entry: entry.update(input={**entry["input"], "path": "../x"}), "leads out of the folder"),
        (lambda entry: entry.update(input={**entry["input"], "sha256": "0" * 64}), "has another SHA-256"),
        (lambda entry: entry.pop("op"), "KeyError"),
    ],
)
def test_a_folder_that_is_damaged(tmp_path: Path, change: object, sentence: str) -> None:
    folder = payloads(tmp_path)
    change(folder.entries[0])  # type: ignore[operator]
    folder.write()
    with pytest.raises(SettingError, match=sentence):
        read_cases(tmp_path)


def test_log_probabilities_count_as_logits(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    logits = np.array([[1, 2, 3, 5], [9, 4, 2, 1]], "<f4")
    shifted = (logits - np.array([[50], [-80]], "<f4")).astype("<f4")
    folder.add("forward", b"", logits.tobytes(), compare={"class": "corr", "corr": 0.999, "rank": 1, "columns": 4})
    change = f"""
import base64
old = answer
def answer(m):
    return {{"seq": 1, "base64": base64.b64encode(bytes.fromhex({shifted.tobytes().hex()!r})).decode(), **more}} \\
        if m["cmd"] == "run" else old(m)
START["ops"] = ["forward"]
"""
    assert ran(folder, f"more = {{}}\n{change}").results[0].text.startswith("the values correlate with")
    assert ran(folder, f"more = {{'shift': 'rows'}}\n{change}").results[0].status is Status.PASS


def test_simple_programs(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "v")
    folder.add("container", b"GGUF1", json={"version": 3})
    folder.add("container", b"bad", verdict="invalid", phase="magic")
    folder.add("verdict", b"GGUF2", json={"verdict": "valid"})
    folder.add("container", b"GGUF3", json={"version": 2})
    folder.add("container", b"crash", verdict="survive")
    folder.add("container", b"GGUF-text", json={})
    folder.add("decode", b"", b"")
    script = tmp_path / "reader.py"
    script.write_text(
        "import os, sys\ndata = sys.stdin.buffer.read()\nif data == b'crash': os.abort()\n"
        "if data[:4] != b'GGUF': sys.exit('bad magic')\nprint('{\"version\": 3}' if b'text' not in data else 'no')\n"
    )
    suite = read_cases(folder.path)
    run = run_cases(SimpleAsker([sys.executable, "-I", "-S", str(script)], BOUNDS), suite.cases, suite.version)
    found = [(each.status, each.text) for each in run.results]
    assert found == [
        (Status.PASS, ""),
        (Status.PASS, ""),
        (Status.PASS, ""),
        (Status.FAIL, "$.version is 3; expected 2"),
        (Status.FAIL, "the program was ended by SIGABRT"),
        (Status.FAIL, "the output is not JSON (Expecting value): 'no\\x0a'"),
        (Status.SKIPPED, "the adapter does not do decode"),
    ]


# --- reports -------------------------------------------------------------------------------------------------------


def test_reports(tmp_path: Path) -> None:
    hostile = "START['implementation']['name'] = '<b>|x\\x1b[31m'\ndef decode(*_): return np.zeros(512, np.int8)"
    good, bad = ran(payloads(tmp_path / "a")), ran(payloads(tmp_path / "b"), hostile)
    text = FORMS["text"]([good])
    assert text.splitlines()[-1] == "hand-made 1: 2 of 2 vectors passed; suite 1.2.3"
    for form, make in FORMS.items():
        shown = make([good, bad])
        assert "\x1b" not in shown, form
        assert "<b>" not in shown or form in ("text", "ndjson"), form
    cases = ElementTree.fromstring(FORMS["junit"]([bad])).findall("testsuite/testcase")
    assert [each.find("failure") is not None for each in cases] == [True, True]
    assert json.loads(FORMS["shields"]([good])) == {
        "schemaVersion": 1, "label": "I2_S vectors", "message": "2 of 2", "color": "brightgreen",
    }  # fmt: skip
    assert json.loads(FORMS["shields"]([bad]))["color"] == "red"
    record = tmp_path / "run.ndjson"
    record.write_text(ndjson(bad))
    again = read_ndjson(record)
    assert again.results == bad.results
    assert ndjson(again) == ndjson(bad)
    assert str(tmp_path) not in ndjson(bad)
    for old, new in (('"id": ', '"id": null, "x": '), ('"suite_version": ', '"suite_version": [], "x": '),
                     ('"op": ', '"op": 1, "y": '), ('"name": ', '"homepage": {}, "name": ')):  # fmt: skip
        record.write_text(ndjson(bad).replace(old, new))
        with pytest.raises(SettingError, match="not the record of a run"):
            read_ndjson(record)
    record.write_text(ndjson(bad).replace('"date": "', '"date": "\\u001b[2J\\u202e\\u2028'))
    for form in FORMS.values():
        assert not {"\x1b", "\u202e", "\u2028"} & set(form([read_ndjson(record)]))
    record.write_text(ndjson(bad).rpartition('{"record": "footer"')[0])
    with pytest.raises(SettingError, match="is not the record of a run"):
        read_ndjson(record)


# --- the command ---------------------------------------------------------------------------------------------------


def i2s(*words: object) -> subprocess.CompletedProcess[str]:
    return i2s_here(Path.cwd(), *map(str, words))


def test_the_command(tmp_path: Path) -> None:
    folder, script, listed = payloads(tmp_path / "v"), tmp_path / "adapter.py", tmp_path / "known.txt"
    script.write_text(adapter("old = decode\ndef decode(*a): return -old(*a)"))
    run = ["conform", "run", "--vectors", folder.path]
    done = i2s(
        *run, "--report", f"ndjson={tmp_path / 'r.ndjson'}", "--known", listed, "--fix", "--", sys.executable, script
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0, "hand-made 1: 0 of 2 vectors passed; 2 failures are known; suite 1.2.3",
    )  # fmt: skip
    assert i2s("conform", "report", "--format", "text", tmp_path / "r.ndjson").stdout == done.stdout
    one = i2s(*run, "--only", "dequant", "--", sys.executable, script)
    assert one.returncode == 1
    assert one.stdout.startswith("I2S-0002 dequant: row 0, column ")
    for words, sentence in (
        (["--fix", "--", "true"], "--fix needs the list's name"),
        ([], "name one adapter: a command after `--`"),
        (
            ["--only", "nothing", "--", "true"],
            "no vector matches 'nothing'. A pattern is an id such as I2S-0001, an operation "
            "(decode, dequant), a feature (type.i2_s), or a flag",
        ),
        (["--only", "decode,dequant", "--", "true"], "give --only once for each word"),
        (["--only", "decode", "--skip", "decode", "--", "true"], "no vector is left of those that --only names"),
        (["--ctypes", "x", "--signature", "void(u8*,f32*,i64)"], "is not LIB:SYMBOL"),
        (["--ctypes", "x:y", "--signature", "float(x)"], "is not that of a decoder"),
        (["--report", "pdf=x", "--", "true"], "is not FORM=FILE"),
    ):
        done = i2s(*run, *words)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("how", [[], ["--simple"]])
def test_whether_there_is_a_program_is_known_before_the_suite_is_written(
    how: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written: list[object] = []
    monkeypatch.setattr("i2s_spec.conformance.vectors.all_vectors.write_suite", written.append)
    done = i2s_here(tmp_path, "conform", "run", *how, "--", "no-such-adapter")
    assert (done.returncode, done.stderr) == (2, "i2s: there is no program 'no-such-adapter' that can be run\n")
    assert not written


def test_the_smoke_test_of_an_adapter(tmp_path: Path) -> None:
    script = tmp_path / "adapter.py"
    script.write_text(adapter())
    done = i2s("conform", "smoke", "--", sys.executable, script)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "hand-made 1 answers, and does decode, dequant.",
            "The order of bits is right: 2 rows of 512 trits came back as they were packed.",
            "The scale in the 32 bytes after the codes was found: +1 became 0.75.",
        ],
    )
    script.write_text(
        adapter(
            "old = decode\ndef decode(d, a, op): return old(d, a, 'decode').astype('<f4' if op > 'decode' else 'i1')"
        )
    )
    done = i2s("conform", "smoke", "--", sys.executable, script)
    assert done.returncode == 1
    assert done.stdout.splitlines()[2].endswith("the trits are right, and the scale was not applied.")
    done = i2s("conform", "smoke", "--", "no-such-adapter")
    assert (done.returncode, done.stdout) == (1, "there is no program 'no-such-adapter' that can be run.\n")
    for words in (["cat"], ["true"], ["echo", "hello"], [sys.executable, "-c", "print(1)"]):
        done = i2s("conform", "smoke", "--", *words)
        assert done.returncode == 1
        assert "That is not how an adapter of i2s-cp/1 begins: " in done.stdout, words
        assert '{"cmd":"start","version":1}' in done.stdout
