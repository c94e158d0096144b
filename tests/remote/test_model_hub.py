"""Files on a hub: repositories, commits, tokens, the cache, and refusals by the hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from finding_codes import codes
from range_server import Server, every, once, status

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.paths import lint_path, lint_paths
from i2s_spec.remote.open import files_of, open_remote
from i2s_spec.testing.sample import NOTED, Model

pytestmark = pytest.mark.usefixtures("private")

COMMIT = "c" * 40
FIRST = "hf://org/repo/first.gguf"


def test_a_file_is_resolved_once(hub: Server) -> None:
    with open_file(FIRST) as file:
        assert file.metadata["general.architecture"] == "bitnet-b1.58"
        assert getattr(file.source, "version", None) == COMMIT
        file.tensors["blk.0.attn_q.weight"].scale()
    assert [seen.path for seen in hub.seen] == [
        "/org/repo/resolve/main/first.gguf",
        "/cdn/org/repo/first.gguf?Signature=s3cret",
    ]


@pytest.mark.parametrize("name", ["{}/org/repo", "{}/org/repo/tree/main", "hf://org/repo"])
def test_a_repository_stands_for_its_models(hub: Server, name: str) -> None:
    names = [path for path, report in lint_paths([name.format(hub.url)]) if report["summary"]["readable"]]
    assert names == ["hf://org/repo/b/second.gguf", FIRST]


@pytest.mark.parametrize("name", ["{}/org/deep/tree/main/quants/small", "hf://org/deep/quants/small"])
def test_a_folder_stands_for_the_models_below_it(hub: Server, name: str) -> None:
    data = hub.files["/cdn/org/repo/first.gguf"]
    names = ("quants/small/a.gguf", "quants/small/more/b.GGUF", "quants/smaller/c.gguf", "quants/large", "text/x.txt")
    hub.repository("org/deep", dict.fromkeys(names, data))
    found = ["hf://org/deep/quants/small/a.gguf", "hf://org/deep/quants/small/more/b.GGUF"]
    assert [path for path, report in lint_paths([name.format(hub.url)]) if report["summary"]["readable"]] == found
    assert list(files_of("hf://org/deep/quants/large")) == [("hf://org/deep/quants/large", False)]  # a file
    with pytest.raises(FormatError, match=r"S916.*a folder without any \*\.gguf file"):
        list(files_of("hf://org/deep/text"))
    hub.seen.clear()
    assert list(files_of("hf://org/deep/no/model.gguf")) == [("hf://org/deep/no/model.gguf", False)]
    assert hub.seen == []  # a name that ends like a file's needs no request
    ((path, report),) = lint_paths(["hf://org/deep/no/where"])
    assert (path, [each["code"] for each in report["findings"]]) == ("hf://org/deep/no/where", ["S912"])


def test_a_page_that_was_pasted(hub: Server) -> None:
    with open_file(f"{hub.url}/org/repo/blob/main/b/second.gguf?download=true") as file:
        assert file.tensors


def test_a_repository_of_one_file_can_be_opened_as_that_file(hub: Server) -> None:
    with pytest.raises(FormatError, match=r"S916.*2 GGUF files"):
        open_file("hf://org/repo")
    hub.repository("org/one", {"only.gguf": hub.files["/cdn/org/repo/first.gguf"]})
    with open_file("hf://org/one") as file:
        assert file.tensors


def test_names_from_a_hub_are_not_used_as_paths(hub: Server) -> None:
    names = ["../../etc/x.gguf", "/etc/x.gguf", "a/./x.gguf", "a\\x.gguf", "a\x1b.gguf", "a?b.gguf", "good/x.gguf", ""]
    hub.repository("org/odd", dict.fromkeys(names, b""))
    assert list(files_of("hf://org/odd")) == [("hf://org/odd/good/x.gguf", False)]


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"siblings": 3}', b'{"siblings": [{"rfilename": 1}]}', b"[" * 5000])
def test_invalid_descriptions_are_refused(hub: Server, text: bytes) -> None:
    hub.files["/api/models/org/repo/revision/main"] = text
    with pytest.raises(FormatError, match=r"S91[68]"):
        list(files_of("hf://org/repo"))


def test_the_token_goes_to_the_hub_alone(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with open_file(FIRST):
        pass
    sent = [seen.headers.get("Authorization") for seen in hub.seen]
    assert sent == ["Bearer hf_secret", None]
    hub.files["/f"] = b"GGUF"
    open_remote(hub.other_url + "/f").close()  # type: ignore[union-attr]
    assert "Authorization" not in hub.seen[-1].headers


@pytest.mark.parametrize("token", ["hf_secret\nX-More: 1", "hf_secret\u20ac", "hf_secret word"])
def test_invalid_tokens_are_neither_sent_nor_printed(hub: Server, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    for ask in (open_file, lambda text: list(files_of(text))):
        with pytest.raises(FormatError, match=r"S911.*HF_TOKEN is not") as error:
            ask("hf://org/repo" if ask is not open_file else FIRST)
        assert "secret" not in str(error.value)
    assert hub.seen == []


@pytest.mark.parametrize(
    ("code", "error", "fault", "words"),
    [
        (401, "GatedRepo", "S911", "gated"), (403, "GatedRepo", "S911", "HF_TOKEN"),
        (401, "RepoNotFound", "S912", "private"),
        (404, "EntryNotFound", "S912", "no such file"), (404, "RevisionNotFound", "S912", "no such revision"),
        (401, "", "S911", "401"), (404, "", "S912", "404"),
    ],
)  # fmt: skip
def test_refusals_of_a_hub_are_reported(hub: Server, code: int, error: str, fault: str, words: str) -> None:
    hub.faults.append(every(1, status(code, X_Error_Code=error)))
    with pytest.raises(FormatError, match=rf"{fault}.*{words}"):
        open_file(FIRST)
    report = lint_path(FIRST)
    assert [finding["code"] for finding in report["findings"]] == [fault]
    assert not report["summary"]["readable"]
    assert not report["ok"]


def test_a_signature_that_expired_is_renewed_at_the_commit(hub: Server) -> None:
    big = bytes(5 << 20)
    hub.repository("org/big", {"x.gguf": big})
    source = open_remote("hf://org/big/x.gguf")
    assert not isinstance(source, str)
    hub.faults.append(once(3, status(403)))
    assert source.read(4 << 20, 10) == bytes(10)
    paths = [seen.path.partition("?")[0] for seen in hub.seen]
    assert paths[2:] == ["/cdn/org/big/x.gguf", f"/org/big/resolve/{COMMIT}/x.gguf", "/cdn/org/big/x.gguf"]
    source.close()


# --- the cache ---


@pytest.fixture
def cached(hub: Server, tmp_path: Path, model: Path) -> Path:
    """The cache of the hub's client holds the first file."""
    root = tmp_path / "cache" / "models--org--repo"
    for folder in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (root / folder).mkdir(parents=True)
    (root / "blobs" / "b10b").write_bytes(model.read_bytes())
    (root / "refs" / "main").write_text(COMMIT)
    (root / "snapshots" / COMMIT / "first.gguf").symlink_to("../../blobs/b10b")
    return root


def test_a_cached_file_is_used(hub: Server, cached: Path) -> None:
    with open_file(FIRST) as file:
        assert (file.name, file.size) == (FIRST, len(hub.files["/cdn/org/repo/first.gguf"]))
    assert len(hub.seen) == 2  # the version was requested, and no content
    with open_file(f"hf://org/repo@{COMMIT}/first.gguf"):
        pass
    assert len(hub.seen) == 2
    assert lint_path(FIRST)["ok"]


def test_an_older_file_of_the_cache_is_not_used(hub: Server, cached: Path) -> None:
    hub.extra["/org/repo/resolve/main/first.gguf"]["X-Repo-Commit"] = "d" * 40
    with open_file(FIRST) as file:
        assert getattr(file.source, "version", None) == "d" * 40


def test_offline(hub: Server, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with open_file(FIRST):
        pass
    assert list(files_of("hf://org/repo")) == [(FIRST, False)]
    for name in ("hf://org/repo/b/second.gguf", "hf://org/other"):
        with pytest.raises(FormatError, match="S914"):
            open_file(name)
    assert hub.seen == []


def test_a_link_that_leaves_the_cache_is_not_followed(hub: Server, cached: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.gguf").write_bytes(b"outside")
    link = cached / "snapshots" / COMMIT / "first.gguf"
    link.unlink()
    link.symlink_to(tmp_path / "outside.gguf")
    with open_file(FIRST) as file:
        assert file.size > 100


def shards(folder: Path) -> dict[str, bytes]:
    """Three parts of a model without tensors."""
    from i2s_spec.gguf.writer import Writer

    files = {}
    for number in range(3):
        path = folder / "shard.gguf"
        with path.open("wb") as out, Writer(out) as writer:
            writer.add("general.architecture", "bitnet-b1.58")
            writer.add("split.no", number, "uint16")
            writer.add("split.count", 3, "uint16")
        files[f"x/m-{number + 1:05d}-of-00003.gguf"] = path.read_bytes()
    return files


def test_a_split_model_on_a_hub_is_checked_as_a_set(hub: Server) -> None:
    """With its first part, in a few requests for the header of each other part; all of one commit."""
    model = Model("llama")
    parts = model.split(0, 5, len(model.tensors) - 5)
    names = [f"x/m-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    hub.repository("org/set", dict(zip(names, parts, strict=True)))
    first = f"{hub.url}/org/set/blob/main/{names[0]}?download=true"
    hub.seen.clear()
    report = lint_path(first)
    assert codes(report) == set()
    assert report["split"] == {
        "part": 1, "of": 3, "complete": True, "tensors": 12,
        "unread": "the contents of the other 2 parts, of which only headers were read",
    }  # fmt: skip
    assert report["remote"]["requests"] <= len(hub.seen) <= 3 * 2 + 1
    assert not [seen.path for seen in hub.seen if "/resolve/main/" in seen.path][1:]
    hub.seen.clear()
    later = lint_path(f"hf://org/set/{names[1]}")
    assert (later["findings"], later["split"]["complete"]) == ([], False)
    assert not [seen.path for seen in hub.seen if names[0] in seen.path or names[2] in seen.path]
    twice = [*parts[:2], model.split(0, 4, len(model.tensors) - 4)[2]]
    hub.repository("org/broken", dict(zip(names, twice, strict=True)))
    broken = [finding["code"] for finding in lint_path(f"hf://org/broken/{names[0]}")["findings"]]
    assert set(broken) - NOTED == {"G234"}


def test_cached_shards_know_their_companions(hub: Server, cached: Path, tmp_path: Path) -> None:
    for name, data in shards(tmp_path).items():
        place = cached / "snapshots" / COMMIT / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        hub.repository("org/repo", {name: data})
    assert codes(lint_path(f"hf://org/repo@{COMMIT}/x/m-00002-of-00003.gguf")) == set()
    (cached / "snapshots" / COMMIT / "x" / "m-00003-of-00003.gguf").unlink()
    (finding,) = lint_path(f"hf://org/repo@{COMMIT}/x/m-00002-of-00003.gguf")["findings"]
    assert finding["code"] == "G231"


def test_shards_know_their_companions(hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = shards(tmp_path)
    hub.repository("org/split", files)
    hub.repository("org/part", dict(list(files.items())[:2]))
    # A local file of that name is not used.
    (tmp_path / "hf:" / "org" / "part" / "x").mkdir(parents=True)
    (tmp_path / "hf:" / "org" / "part" / "x" / "m-00003-of-00003.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    for name, missing in (("split", 0), ("part", 1)):
        reports = [report for _, report in lint_paths([f"hf://org/{name}"])]
        found = [f["message"] for report in reports for f in report["findings"] if f["code"] == "G231"]
        assert len(reports) == 3 - missing
        assert len(found) == (2 if missing else 0)
        assert all("1 of the other parts is not in its folder" in message for message in found)
