"""Adapters that violate the protocol: each gets one clear sentence, and no process or file of it remains."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import pytest
from hand_made import adapter, payloads

from i2s_spec.conformance import protocol
from i2s_spec.conformance.protocol import AdapterFault, AdapterProcess, read_cases
from i2s_spec.conformance.runner import GIVE_UP, ProtocolAsker, SimpleAsker, run_cases
from i2s_spec.conformance.score import RunResult, Status
from i2s_spec.fuzzing.bounded_process import Bounds, cause

QUICK = Bounds(seconds=0.6, memory=256 << 20)
PATIENT = Bounds(seconds=300, memory=256 << 20)
PYTHON = [sys.executable, "-I", "-S", "-u", "-c"]


def started(script: str, bounds: Bounds = QUICK) -> AdapterFault:
    """The fault of an adapter that fails at its start."""
    asker = ProtocolAsker([*PYTHON, script], bounds)
    try:
        with pytest.raises(AdapterFault) as caught:
            asker.start()
    finally:
        asker.close()
    return caught.value


@pytest.mark.parametrize(
    ("kind", "sentence", "script"),
    [
        ("timeout", "the adapter did not answer `start` within 0.6 s", "import time; time.sleep(60)"),
        ("protocol", "line 1 of the answers is not JSON (Expecting value): 'hello'", "input()\nprint('hello')\ninput()"),
        ("protocol", "line 1 of the answers is JSON, but not an object: '[1]'", "input()\nprint([1])\ninput()"),
        ("protocol", "line 1 of the answers is not JSON (RecursionError): '" + "[" * 120 + "'",
         "input()\nprint('[' * 200000)\ninput()"),
        ("protocol", "the answer to `start` has the version 'None'; this is version 1", "input()\nprint('{}')\ninput()"),
        ("start", "the adapter ended with status 3 before it answered `start`; its error output ends: no such module",
         "import sys; print('no such module', file=sys.stderr); sys.exit(3)"),
        ("start", "the adapter was ended by SIGSEGV before it answered `start`", "import os; os.kill(os.getpid(), 11)"),
        ("start", "the adapter closed its output before it answered `start`",
         "import os, time; os.close(1); time.sleep(60)"),
    ],
    ids=["silent", "no JSON", "no object", "nested", "no version", "exits", "dies", "closes"],
)  # fmt: skip
def test_faults_at_the_start(kind: str, sentence: str, script: str) -> None:
    bounds = QUICK if kind == "timeout" else PATIENT
    fault = started(script, bounds)
    assert (fault.kind, str(fault).replace('\\"', '"')) == (kind, sentence.replace('\\"', '"'))


class Clock:
    """A clock that stands still until a file exists; from the second reading after that, every time limit is exceeded."""

    def __init__(self, file: Path) -> None:
        self.file, self.there = file, False
        self.sleep = time.sleep

    def monotonic(self) -> float:
        over, self.there = self.there, self.file.exists()
        return 1e9 if over else 0.0


@pytest.mark.parametrize(
    ("writes", "sentence"),
    [
        ("sys.stdout.write('{}\\n')",
         "the answer to `start` came only after the input was closed: flush the output after each line"),
        ("sys.stdout.write('{\"version'); sys.stdout.flush()",
         "the answer to `start` has no end of line: '{\\\"version'"),
    ],
    ids=["not flushed", "no newline"],
)  # fmt: skip
def test_output_without_end_of_line_times_out(
    tmp_path: Path, writes: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "written"
    script = f"import sys\nfor line in sys.stdin: {writes}; open({str(written)!r}, 'w').close()"
    monkeypatch.setattr(protocol, "time", Clock(written))
    asker = ProtocolAsker([sys.executable, "-I", "-S", "-c", script], QUICK)  # without -u, Python buffers the output
    with pytest.raises(AdapterFault) as caught:
        asker.start()
    asker.close()
    assert (caught.value.kind, str(caught.value).replace('\\"', '"')) == ("timeout", sentence.replace('\\"', '"'))


def test_endless_output_is_stopped() -> None:
    fault = started("import os\ninput()\nwhile True: os.write(1, b'x' * 65536)", PATIENT)
    assert (fault.kind, str(fault)) == ("output", "the adapter wrote 16 MiB without an end of line")
    fault = started("import os\nwhile True: os.write(1, b'{}\\n')", PATIENT)
    assert fault.kind == "protocol"
    assert "write one line for each request" in str(fault) or "has the version 'None'" in str(fault)
    fault = started("import os\nwhile True: os.write(2, b'x' * (1 << 20))", PATIENT)
    assert (fault.kind, str(fault)) == ("output", "the adapter wrote more than 64 MiB to a file or to its error output")


def test_an_adapter_that_uses_too_much_memory() -> None:
    fault = started("x = bytearray(400 << 20)\nimport time; time.sleep(60)", PATIENT)
    assert fault.kind == "memory"
    assert str(fault).endswith("MiB of memory; 256 MiB are allowed")


def test_a_bomb_of_processes_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    script = f"""
import os, time
for i in range(100):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    open({str(tmp_path)!r} + "/" + str(pid), "w").close()
time.sleep(60)
"""
    fault = started(script, PATIENT)
    assert (fault.kind, str(fault)) == ("processes", "the adapter started more than 64 processes")
    deadline = time.monotonic() + 100
    left = [int(path.name) for path in tmp_path.iterdir()]
    assert len(left) > 60
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if _runs(pid)]
        time.sleep(0.01)
    assert left == []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_a_missing_program_is_named() -> None:
    with pytest.raises(AdapterFault, match="there is no program 'no-such-adapter' that can be run"):
        AdapterProcess(["no-such-adapter"], QUICK)
    with pytest.raises(AdapterFault, match="there is no program 'no-such-adapter' that can be run"):
        SimpleAsker(["no-such-adapter"], QUICK).start()


def test_an_adapter_that_does_not_read() -> None:
    script = "import time; time.sleep(60)"
    with AdapterProcess([*PYTHON, script], QUICK) as process, pytest.raises(AdapterFault) as caught:
        process.ask({"cmd": "x" * (1 << 20)})
    assert str(caught.value) == "the adapter did not read its input for 0.6 s"


def ran(tmp_path: Path, change: str, bounds: Bounds = PATIENT, times: int = 1) -> RunResult:
    folder = payloads(tmp_path / "vectors")
    for _ in range(times - 1):
        folder.entries += [{**entry, "id": f"I2S-{len(folder.entries) + i + 1:04d}"}
                           for i, entry in enumerate(folder.entries[:2])]  # fmt: skip
        folder.write()
    script = tmp_path / "adapter.py"
    script.write_text(adapter(change))
    suite = read_cases(folder.path)
    return run_cases(ProtocolAsker([sys.executable, str(script)], bounds), suite.cases, suite.version)


def test_a_crash_is_one_failure_and_the_adapter_is_started_again(tmp_path: Path) -> None:
    change = (
        "old = decode\ndef decode(data, args, op):\n    if op == 'decode': os.abort()\n    return old(data, args, op)"
    )
    run = ran(tmp_path, change)
    assert [each.status for each in run.results] == [Status.FAIL, Status.PASS]
    assert run.results[0].fault == "crash"
    assert run.results[0].message.startswith("the adapter was ended by SIGABRT instead of an answer")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("thread 'main' panicked at src/main.rs:3:5:\nindex 7 of 4\nstack backtrace:\n   0: x\nnote: Some are omitted\n",
         "thread 'main' panicked at src/main.rs:3:5: index 7 of 4"),
        ("thread 'main' panicked at 'no such type', src/main.rs:3:5\nnote: run with `RUST_BACKTRACE=1`\n",
         "thread 'main' panicked at 'no such type', src/main.rs:3:5"),
        ("reading\n\nValueError: no such type\n\n", "ValueError: no such type"),
        ("thread 'main' panicked at src/main.rs:3:5:", "thread 'main' panicked at src/main.rs:3:5:"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_panic_in_rust_is_its_own_line(text: str, line: str) -> None:
    assert cause(text) == line


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("START.pop('implementation')", 'the answer to `start` lacks "implementation": {"name": ...}'),
        ("START.pop('ops')", 'the answer to `start` lacks "ops": [...], what the adapter can be asked for'),
        ("START['ops'] = ['dequantise']", "no op in the answer to `start` is known; there are container, decode, "),
        ("START['features'] = 'all'", '"features" in the answer to `start` is not a list of texts'),
    ],
)
def test_wrong_answers_to_start(tmp_path: Path, change: str, sentence: str) -> None:
    with pytest.raises(AdapterFault) as caught:
        ran(tmp_path, change)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ("{'seq': 77, 'digest': '0' * 64}", "the answer has the seq '77'; 1 was asked for"),
        ("{'seq': 1}", "the answer says nothing: it needs one of digest, json, verdict, rejected, skipped, errored"),
        ("{'seq': 1, 'digest': 'abc'}", "'abc' is not a digest: sha256: and 64 hexadecimal digits"),
        ("{'seq': 1, 'base64': '!'}", '"base64" in the answer is not base64'),
        (
            "{'seq': 1, 'rejected': True, 'phase': 'later'}",
            "the answer has the phase 'later'; there are magic, header, ",
        ),
        ("{'seq': 1, 'verdict': 'maybe'}", "the answer has the verdict 'maybe'; it is valid or invalid"),
        ("{'seq': 1, 'digest': '0' * 64, 'x': '\\n'}", ""),
    ],
)
def test_wrong_answers_to_a_case(tmp_path: Path, extra: str, sentence: str) -> None:
    change = f"old = answer\ndef answer(message):\n    return {extra} if message.get('seq') == 1 else old(message)"
    run = ran(tmp_path, change)
    assert run.results[0].status is Status.FAIL
    assert run.results[0].message.startswith(sentence)
    assert run.results[0].fault == ("protocol" if sentence else "")
    assert run.results[1].status is Status.PASS


def test_two_lines_for_one_request(tmp_path: Path) -> None:
    change = "old = answer\ndef answer(message):\n    print('{}')\n    return old(message)"
    with pytest.raises(AdapterFault, match=r"after its answer: write one line for each request|has the version"):
        ran(tmp_path, change)


def test_a_run_is_given_up_after_faults_in_a_row(tmp_path: Path) -> None:
    run = ran(tmp_path, "def decode(*_): os._exit(9)", times=4)
    assert [each.status for each in run.results] == [Status.FAIL] * GIVE_UP + [Status.NOT_RUN] * 3
    assert run.given_up.startswith(f"the run stopped after {GIVE_UP} consecutive faults; the last: the adapter")
    assert not run.ok


def test_digest_and_bytes_must_agree(tmp_path: Path) -> None:
    change = "old = answer\ndef answer(message):\n    found = old(message)\n    return {**found, 'digest': '0' * 64}"
    run = ran(tmp_path, change)
    assert run.results[0].message == "the digest is not that of the bytes that the adapter then gives"


def test_no_file_descriptor_stays_open(tmp_path: Path) -> None:
    ran(tmp_path, "")
    gc.collect()  # garbage of earlier tests must not close files during the measurement
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        started("import sys; sys.exit(1)", PATIENT)
    assert len(os.listdir("/proc/self/fd")) <= before
