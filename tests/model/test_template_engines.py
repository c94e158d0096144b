"""A chat template in two engines: the texts, the token ids, the first difference, and limits for hostile templates.

llama.cpp is asked in a child process, where it is installed; templates that are there to harm never reach it.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import share
from model.test_chat_template import HOSTILE
from peers.programs import PROGRAM

import i2s_spec as i2s
from i2s_spec.checkup import doctor
from i2s_spec.cli import main
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.gguf.reader import File
from i2s_spec.linter.engine import lint
from i2s_spec.model.text import chat, template_engines
from i2s_spec.model.text.chat import KEY, ask_engine
from i2s_spec.model.text.template_engines import CONVERSATIONS, TemplateChecks, template_checks, write_stand_in

pytest.importorskip("jinja2", reason="the extra [chat] is not installed")

PLAIN = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ADD_BOS = "tokenizer.ggml.add_bos_token"


def with_template(template: str, architecture: str = "llama", **keys: Any) -> File:
    """A small model with a template; keys have `_` in place of dots."""
    model, target = io.BytesIO(), io.BytesIO()
    new(model, architecture, layers=1)
    rewrite(model.getvalue(), target, set={KEY: template, **keys})
    return i2s.open(target.getvalue())


def in_jinja(template: str, **keys: Any) -> TemplateChecks:
    found = template_checks(with_template(template, **keys), engines=("jinja",))
    assert found is not None
    return found


@pytest.fixture
def llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes xllamacpp available to child processes."""
    missing = PROGRAM["xllamacpp"].missing()
    if missing is not None:
        pytest.skip(missing)
    folders = PROGRAM["xllamacpp"].folder.glob("lib/python*/site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, folders)])


def in_both(template: str, **keys: Any) -> TemplateChecks:
    found = template_checks(with_template(template, **keys))
    assert found is not None
    assert not [why for why in found.not_run if "llama.cpp" in why]
    return found


def remarks(found: TemplateChecks) -> list[str]:
    return [text for text, _ in found.remarks()]


# --- Jinja alone -----------------------------------------------------------------------------------------------------


def test_every_conversation_is_rendered_as_transformers_does() -> None:
    """The functions, filters and variables of its environment; tools are None where none are offered."""
    template = (
        "{% for tool in tools or [] %}{{ tool | tojson(sort_keys=True) }}{% endfor %}{{ tools is none }}"
        "{{ documents is none }}{% set space = namespace(count=0) %}"
        "{% for message in messages %}{% set space.count = space.count + 1 %}"
        "{% if loop.index0 == 9 %}{% break %}{% endif %}{% generation %}{{ message.content }}{% endgeneration %}"
        "{% if message.tool_calls %}{{ message.tool_calls[0].function.arguments.rows }}{% endif %}{% endfor %}"
        "{{ space.count }}{{ dict(a=1).a }}{{ strftime_now('%Y') | length }}{{ unk_token is defined }}"
    )
    found = {each.name: each.jinja for each in in_jinja(template).conversations}
    assert found["a question"] is not None
    assert found["a question"].text == "TrueTrueWhat is a trit?114False"
    assert found["a tool"] is not None
    assert found["a tool"].text is not None
    assert found["a tool"].text.startswith('{"function": {"description": "Weigh a matrix: “rows” < 3 & \'columns\'."')
    called = found["a call of a tool"]
    assert called is not None
    assert "FalseTrueWeigh Größe.2{" in (called.text or ""), "arguments are an object"


def test_the_tokens_are_those_of_the_rendered_text() -> None:
    file = with_template("{{ bos_token }}" + PLAIN)
    found = template_checks(file, engines=("jinja",))
    assert found is not None
    assert [each.name for each in found.conversations] == [
        each.name for each in CONVERSATIONS if each.needs in ("", "content")
    ][: len(found.conversations)]
    first = found.conversations[0].jinja
    assert first is not None
    tokenizer = i2s.load_tokenizer(file)
    assert first.tokens == tuple(tokenizer.encode(first.text or "", add_special=False, parse_special=True))
    assert found.same is None


def test_what_a_template_does_not_support_is_not_run() -> None:
    found = in_jinja(PLAIN)
    assert [why for why in found.not_run if "llama.cpp" not in why] == [
        "a tool: the template does not mention tools", "a call of a tool: the template does not mention tool_calls",
        "content parts: the template takes texts only",
    ]  # fmt: skip
    assert found.words == ("not compared: 12 conversations rendered by Jinja", "yellow")
    parts = in_jinja("{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}")
    assert "content parts" in [each.name for each in parts.conversations]


def test_first_tokens_are_counted() -> None:
    twice = in_jinja("{{ bos_token }}" + PLAIN, **{ADD_BOS: True})
    assert twice.first_tokens == {"transformers": 1, "rendered, then tokenized": 2}
    assert remarks(twice)[0] == "first tokens (BOS) of a conversation: 1 (transformers), 2 (rendered, then tokenized)"
    once = in_jinja("{{ bos_token }}" + PLAIN, **{ADD_BOS: False})
    assert once.first_tokens == {"transformers": 1, "rendered, then tokenized": 1}
    assert not [each for each in remarks(once) if "first tokens" in each]


def test_a_file_without_a_template() -> None:
    target = io.BytesIO()
    new(target, "qwen3", layers=1)
    assert template_checks(i2s.open(target.getvalue())) is None


def test_a_tokenizer_that_is_not_known_here_is_said() -> None:
    found = in_jinja(PLAIN, **{"tokenizer.ggml.pre": "made-up"})
    assert found.conversations[0].jinja is not None
    assert (found.conversations[0].jinja.tokens, found.first_tokens.get("rendered, then tokenized")) == (None, None)
    assert [why for why in found.not_run if why.startswith("this package's tokenizer: T909")]


def test_without_jinja_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jinja2.py").write_text("raise ImportError('not here')", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = template_checks(with_template(PLAIN))
    assert found is not None
    assert (found.conversations, found.same, found.words[0]) == ((), None, "not compared")
    assert "Jinja, and so llama.cpp: pip install 'i2s-spec[chat]'" in found.not_run


#: What is refused by a rule before any engine, or stopped by the sandbox: no other engine may get it.
COMPUTED = {
    "a computed loop": "{% set n = 1000 %}{% for i in range(n) %}{% for j in range(n) %}{% for k in range(n) %}{% endfor %}"
                       "{% endfor %}{% endfor %}",
    "a computed range": "{% for i in range(99999 * messages | length * 50) %}{% endfor %}",
    "doubled text": "{% set s = namespace(t='xxxx') %}{% for i in range(60) %}{% set s.t = [s.t, s.t] | join %}{% endfor %}",
    "much output": "{% for i in range(9999) %}{{ messages | tojson }}{% endfor %}",
    "a computed attribute": "{{ messages[('__cla', 'ss__') | join] }}",
}  # fmt: skip


@pytest.mark.requirement("R12.5-1")
@pytest.mark.parametrize("what", share({**HOSTILE, **COMPUTED}, every=3))
def test_hostile_templates_reach_no_other_engine(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(request: dict[str, Any], *limits: Any) -> tuple[list[dict[str, Any]], str]:
        asked.append(request["engine"])
        return ask_engine(request, 1) if request["engine"] == "jinja" else ([], "never run here")

    monkeypatch.setattr(template_engines, "ask_engine", ask)
    template = {**HOSTILE, **COMPUTED}[what]
    found = template_checks(with_template(template))
    assert found is not None
    assert found.same is None
    harmless = {"a refusal", "a syntax error", "an include", "an import", "a changed list", "unknown text"}
    assert "llama.cpp" not in asked or what in harmless
    assert all(len(each) < 700 and each.isprintable() for each in (*remarks(found), found.words[0]))


def test_what_a_template_writes_is_escaped() -> None:
    found = in_jinja("{{ raise_exception('\\x1b[2J\\u202e') }}")
    assert found.broken
    assert found.words == ("no engine that was run renders it: 'TemplateError: \\x1b[2J\\u202e'", "red")


# --- both engines ----------------------------------------------------------------------------------------------------


def test_equal_in_both_engines(llama_cpp: None) -> None:
    found = in_both("{{ bos_token }}" + PLAIN, **{ADD_BOS: True})
    assert found.same, remarks(found)
    assert found.words[0] == "yes: 12 conversations, the same texts and tokens by transformers' Jinja and by llama.cpp"
    assert found.first_tokens == {"transformers": 1, "llama.cpp": 1, "rendered, then tokenized": 2}
    json.dumps(found.as_dict())


def test_llama_cpp_adds_a_first_token_that_transformers_does_not(llama_cpp: None) -> None:
    found = in_both(PLAIN, **{ADD_BOS: True})
    assert not found.differing, remarks(found)
    assert (found.same, found.words[1]) == (False, "yellow")
    assert found.first_tokens == {"transformers": 0, "llama.cpp": 1, "rendered, then tokenized": 1}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("message.role +", "message.role | center(12) +"), "llama.cpp refuses it: 'Error: Unknown (built-in) filter"),
        (("message.content +", "([message.content] | list).pop() +"), "Jinja refuses it: 'SecurityError: access to"),
        (("'<|im_start|>assistant\n'", "'' ~ (enable_thinking is defined)"),
         "Jinja '?<|im_end|>\\x0aFalse', llama.cpp '?<|im_end|>\\x0aTrue'; llama.cpp sets enable_thinking to true"),
        (("message.content +", "message.content|safe + '<' +"), "&lt;"),
    ],
    ids=["a filter", "a method", "a variable", "marked text"],
)  # fmt: skip
def test_the_first_difference_is_named(llama_cpp: None, change: tuple[str, str], word: str) -> None:
    template = PLAIN.replace(*change)
    assert template != PLAIN
    for begun, keys in ((template, {}), ("{{ bos_token }}" + template, {ADD_BOS: False})):
        found = in_both(begun, **keys)
        assert found.same is False
        assert found.words[0].startswith("no: ")
        first = remarks(found)[0]
        assert first.startswith("a question, ")
        assert word in first


def test_a_system_message_that_one_engine_moves(llama_cpp: None) -> None:
    """llama.cpp puts a system message into the first question if a template refuses it."""
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + PLAIN
    found = in_both(template)
    assert [each.name for each in found.differing] == [each.name for each in CONVERSATIONS if "system" in each.name]
    assert "Jinja refuses it: 'TemplateError: no system', llama.cpp gives '" in remarks(found)[0]


def test_white_space_and_loops_are_the_same(llama_cpp: None) -> None:
    template = (
        "{%- for message in messages %}\n  {%- if not loop.first -%}  |  {%- endif %}\n{{ loop.index }}{{ loop.last }}\n"
        "  {% if message.content is string %}\n{{ message.content | trim | tojson }}\n  {% endif %}\n{% endfor %}\n\n"
    )
    found = in_both(template)
    assert not found.differing, remarks(found)


def test_tools(llama_cpp: None) -> None:
    template = (
        "{%- for tool in tools %}{{ tool | tojson }}\n{% endfor %}{%- for m in messages %}{{ m.role }}: {{ m.content }}"
        "{%- for call in m.tool_calls %}<call>{{ call.function.name }} {{ call.function.arguments | tojson }}</call>"
        "{%- endfor %}\n{% endfor %}"
    )
    found = in_both(
        template.replace("tool in tools", "tool in tools or []").replace("m.tool_calls", "m.tool_calls or []")
    )
    assert {"a tool", "a call of a tool"} <= {each.name for each in found.conversations}
    assert not found.differing, remarks(found)
    assert [each.name for each in in_both(template).differing], "transformers passes tools that are None"


def test_another_template_for_tools(llama_cpp: None) -> None:
    tools = "{{ bos_token }}{% for tool in tools %}{{ tool.function.name }}{% endfor %}" + PLAIN
    found = in_both("{{ bos_token }}" + PLAIN, **{f"{KEY}.tool_use": tools, ADD_BOS: True})
    assert found.same, remarks(found)
    texts = {each.name: each.llama_cpp.text for each in found.conversations if each.llama_cpp is not None}
    assert (texts["a tool"] or "").startswith("weigh<|im_start|>user")


def test_tokens_that_were_not_compared_are_not_claimed(llama_cpp: None) -> None:
    found = in_both(PLAIN, architecture="bitnet", **{"tokenizer.ggml.model": "t5"})
    assert found.same
    assert "the same texts; their tokens were not compared" in found.words[0]
    assert [why for why in found.not_run if why.startswith("this package's tokenizer: T901")]


def test_an_empty_template_is_chatml_to_llama_cpp(llama_cpp: None) -> None:
    found = in_both("")
    assert remarks(found)[0].startswith(
        "a question, character 0: Jinja '', llama.cpp '<|im_start|>user\\x0aWhat is a t'; and"
    )


def test_llama_cpp_does_not_load_the_vocabulary(llama_cpp: None) -> None:
    found = template_checks(with_template(PLAIN, **{"tokenizer.ggml.pre": "made-up"}))
    assert found is not None
    assert found.same is None
    assert [why for why in found.not_run if why.startswith("llama.cpp: it does not load the vocabulary: ")]
    assert "unknown pre-tokenizer type" in found.not_run[-1]


def test_sentence_pieces_are_split_alike(llama_cpp: None) -> None:
    found = in_both(PLAIN, architecture="bitnet", **{ADD_BOS: True})
    assert not found.differing, remarks(found)
    assert found.first_tokens["llama.cpp"] == 1


def test_an_engine_that_crashes_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was rendered before is compared."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if json.loads(options["input"])["engine"] == "jinja":
            return subprocess.run(command, **options)  # noqa: PLW1510  # `check` is among the options
        return subprocess.CompletedProcess(
            command, -signal.SIGSEGV, b'{"text": "x", "tokens": [1]}\n{"text": "cut', b""
        )

    monkeypatch.setattr(chat, "run_worker", run)
    found = template_checks(with_template(PLAIN))
    assert found is not None
    assert found.not_run[-1] == (
        "llama.cpp: it ended with SIGSEGV, in the conversation 'a question without add_generation_prompt'"
    )
    assert [each.name for each in found.conversations if each.compared] == ["a question"]
    assert found.words[0] == "no: 1 of 1 conversation differs"


LATE_LOG = """
import os, threading, time

class Fields:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Fields(), Fields(), Fields()

class Server:
    def __init__(self, parameters):
        def write():
            for part in (b"0.01 E srv: chat template parsing ", b"error: no such", b" filter\\n0.02 E srv: more\\n"):
                time.sleep(0.1)
                os.write(2, part)

        threading.Thread(target=write).start()
        raise RuntimeError("Failed to init server")
"""


def test_the_log_of_llama_cpp_comes_after_its_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread writes it, on a loaded machine long after the error."""
    (tmp_path / "xllamacpp.py").write_text(LATE_LOG, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = in_both(PLAIN)
    assert "llama.cpp refuses it: 'no such filter'" in remarks(found)[0]


def test_no_room_for_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(template_engines, "write_stand_in", full)
    found = template_checks(with_template(PLAIN))
    assert found is not None
    assert found.not_run[-1] == "llama.cpp: [Errno 28] No space left on device"


# --- the model of zeros ----------------------------------------------------------------------------------------------


def test_the_stand_in_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    file = with_template(PLAIN)
    write_stand_in(file, path)
    report = lint(path)
    assert report.ok, report
    with i2s.open(path) as found:
        kept = {key for key in file.metadata if key.startswith("tokenizer.")}
        assert kept == {key for key in found.metadata if key.startswith("tokenizer.")}
        assert found.metadata[KEY] == PLAIN
        assert found.size < 1 << 20


def test_no_stand_in_of_a_file_without_tokens(tmp_path: Path) -> None:
    target = io.BytesIO()
    rewrite(with_template(PLAIN), target, drop_keys=["tokenizer.ggml.tokens"])
    with pytest.raises(ValueError, match="0 tokens"):
        write_stand_in(i2s.open(target.getvalue()), tmp_path / "a.gguf")


# --- the verb --------------------------------------------------------------------------------------------------------


def test_doctor_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.gguf"
    new(path, "llama", layers=1)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--deep", str(path)])
    page = capsys.readouterr().out
    assert ended.value.code == 0
    assert "\nIs its chat template the same to the engines?  " in page
    part = page.partition("Is its chat template")[2].partition("Who runs it?")[0]
    assert max(map(len, part.splitlines())) <= 100
    with pytest.raises(SystemExit):
        main(["doctor", "--deep", "--json", str(path)])
    found = json.loads(capsys.readouterr().out)["deep"]["template"]
    assert found["conversations"][0]["jinja"]["text"] == "User: What is a trit?<|eot_id|>Assistant: "


def test_a_template_that_no_engine_renders_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(bytes(with_template("{{ nothing.of.that }}").source.view or b""))
    found = doctor(path, deep=True).deep
    assert found is not None
    assert found.template is not None
    assert found.sound is not bool(found.template.broken)
