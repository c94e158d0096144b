"""The folder of a checkpoint: find its files, read them within bounds, and check that its shards agree with the index.

    config.json                                  the model's configuration
    model.safetensors, model-00001-of-00002...   weights; model.safetensors.index.json says which file has which tensor
    tokenizer.json, tokenizer.model, tokenizer_config.json, chat_template.jinja, generation_config.json

The folder is on this machine, or a repository of a hub: then its files are read by ranges, all from one commit.

Pickles (`pytorch_model.bin`) are never opened: reading one executes its code.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.source import Source, is_address, open_below, source_of
from i2s_spec.safetensors.files import Checkpoint, unique_names
from i2s_spec.schema import faults

# --- bounded files ---------------------------------------------------------------------------------------------------
# JSON and text files are read as plain data: the size is limited, and a name may occur only once.

#: Most bytes of a configuration, and of a tokenizer (Gemma's has 33 MB).
MOST_CONFIG: Final = 1 << 20
MOST_TOKENIZER: Final = 1 << 26

#: Most digits of a number; longer ones are too large for a float and cannot be compared with one.
_MOST_DIGITS: Final = 300
#: An escape of a surrogate, which is valid only in a pair.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def refused(reason: str, path: str | os.PathLike[str] | None = None) -> FormatError:
    """Return H104: the checkpoint cannot be used.

    :param reason: a sentence in which text from the checkpoint is quoted
    """
    error = FormatError(faults.CHECKPOINT_REFUSED, Span(0, 0), reason=TrustedText(reason))
    return error if path is None else error.of_file(path)


def text_of(data: bytes, path: str) -> str:
    """Return a file's bytes as UTF-8.

    :raises FormatError: H104
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"{quote(os.path.basename(path))} is not UTF-8 at byte {error.start:,}", path) from None


def object_of(data: bytes, path: str) -> dict[str, Any]:
    """Return the bytes of a JSON file whose outermost value is an object.

    :raises FormatError: H104 for invalid JSON, for a name that occurs twice, for NaN and infinities
    """
    name, text = quote(os.path.basename(path)), text_of(data, path)
    try:
        found = json.loads(text, parse_int=_whole, object_pairs_hook=unique_names, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise refused(f"{name} is not JSON: {_reason(error)}", path) from None
    if not isinstance(found, dict):
        raise refused(f"{name} is not a JSON object", path)
    if _SURROGATE.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise refused(f"{name} contains a lone surrogate, which UTF-8 cannot encode", path) from None
    return found


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {counted(len(digits), 'digit')}")
    return int(digits)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos:,}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


# --- checkpoint folder -----------------------------------------------------------------------------------------------

INDEX: Final = "model.safetensors.index.json"
#: The file that transformers takes before any index.
SINGLE: Final = "model.safetensors"
#: Files that an import reads besides the shards.
TEXTS: Final = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
CARD: Final = "README.md"
PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
#: Largest index; that of a model with the most tensors that GGUF allows is smaller.
MOST_INDEX: Final = 1 << 25
#: A folder of further templates, which transformers takes by the names of their files.
MORE_TEMPLATES: Final = "additional_chat_templates"
#: Most shards, which are all open at once. Models of a trillion weights have 200.
MOST_SHARDS: Final = 512
MOST_TEMPLATE: Final = 1 << 20
_MOST_CARD: Final = 1 << 22
_ADAPTER: Final = "adapter_config.json"
#: The names of the shards of a model.
_NUMBERED: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors", re.ASCII)


def files_read(path: str) -> list[str]:
    """Return the files of a folder that an import may read, with their paths; empty if there is no such folder, or
    it is on a hub."""
    if is_address(path):
        return []
    try:
        names = os.listdir(path)
    except OSError:
        return []
    read = (*TEXTS, INDEX, CARD)
    return [os.path.join(path, name) for name in names if name in read or name.endswith(".safetensors")]


class CheckpointFolder:
    """The files of a checkpoint; tensors are read on access.

    As a context manager it closes them, and checks whether one changed meanwhile (S903).

    :param path: a folder, or the address of a hub's repository or of a folder in it (`hf://ORG/REPO@REVISION`)
    :param root: the folder that links may lead to as well, for one that was found below it
    :param listed: only list the names; `open` does the rest
    :raises FormatError: H101, H102 for a broken shard, H104 for a folder that is not a checkpoint; S911 to S918 for
        addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises OSError: where it cannot be listed
    """

    def __init__(self, path: str | os.PathLike[str], root: str = "", *, listed: bool = False) -> None:
        #: The folder; of a hub an address that names the commit.
        self.path = os.fsdecode(path)
        #: What the folder or the repository is called, and `ORG/REPO` of a hub with its commit.
        self.title, self.repository = os.path.basename(os.path.abspath(self.path)), None
        self.commit: str | None = None
        #: Requests and bytes that the list of a hub's files has cost.
        self.listing = (0, 0)
        self._also = (root,) if root else ()
        if is_address(path):
            from i2s_spec.remote.open import pinned_folder

            found = pinned_folder(self.path)
            self.path, self.title, self.repository, self.names, self.commit, self.listing = found
        elif not os.path.isdir(self.path) and os.path.exists(self.path):
            raise refused("a checkpoint is a folder with config.json and safetensors", self.path)
        else:
            self.names = sorted(os.listdir(self.path))
        #: What users should know of the choice of files, in sentences.
        self.notes: tuple[str, ...] = ()
        if not listed:
            self.open()

    def open(self) -> None:
        """Read config.json and the headers of the shards.

        :raises FormatError: H101, H102, H104, as above
        """
        if "config.json" not in self.names:
            raise refused(self.without_config(), self.path)
        _ = self.config  # refused before any shard is opened
        shards, index = self.chosen(self.index)
        if not shards:
            raise refused(self.without_weights(), self.path)
        self.shards = self.within_limit(shards)
        sources: list[Source] = []
        try:
            for name in shards:
                sources.append(self.source(name))
            self.tensors = Checkpoint(sources)
            if index is not None:
                self._compare(index)
        except BaseException:
            for source in sources:
                source.close()
            raise

    @property
    def is_remote(self) -> bool:
        """Whether the folder is on a hub."""
        return is_address(self.path)

    def file(self, name: str) -> str:
        """Return the path or the address of a file of the folder, to be named or to be hashed; `source` opens it."""
        return f"{self.path}/{name}" if self.is_remote else os.path.join(self.path, name)

    def source(self, name: str) -> Source:
        """Return a file of the folder, which the caller closes.

        :raises FormatError: H104 for what cannot be opened, is no regular file, or is a link that leads out of the
            folder; S911 to S918 of a hub
        """
        if self.is_remote:
            return source_of(self.file(name))
        try:
            return open_below(self.path, name, *self._also)
        except FormatError as error:
            raise refused(f"{quote(name)} was not read: {error.message}", self.file(name)) from error

    def bytes_of(self, name: str, most: int) -> bytes:
        """Return a whole small file.

        :raises FormatError: H104 for more bytes than `most`, before any of them is read (on servers beyond the first
            range), and as `source` does
        """
        source = self.source(name)
        try:
            if source.size > most:
                reason = f"{quote(name)} has {counted(source.size, 'byte')}; the limit is {most:,}"
                raise refused(reason, self.file(name))
            return source.read(0, source.size)
        except FormatError as error:
            raise error.of_file(self.file(name)) from None
        finally:
            self.done(source)

    def done(self, source: Source) -> None:
        """Close a source that was read whole."""
        source.close()

    def json_of(self, name: str, most: int = MOST_CONFIG) -> dict[str, Any]:
        """Return a JSON file of the folder; empty where there is none."""
        return object_of(self.bytes_of(name, most), self.file(name)) if name in self.names else {}

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json; of a multimodal model also what it says of the text model, as if it stood alone."""
        found = self.json_of("config.json")
        text = found.get("text_config")
        return {**text, **found} if isinstance(text, dict) else found

    @cached_property
    def index(self) -> dict[str, Any] | None:
        """The index of the shards; None where there is none."""
        return self.json_of(INDEX, MOST_INDEX) if INDEX in self.names else None

    @cached_property
    def generation(self) -> dict[str, Any]:
        return self.json_of("generation_config.json")

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self.json_of("tokenizer_config.json", MOST_TOKENIZER)

    @cached_property
    def tokenizer(self) -> dict[str, Any] | None:
        """tokenizer.json; None where there is none."""
        return self.json_of("tokenizer.json", MOST_TOKENIZER) or None

    @cached_property
    def chat_template(self) -> str | None:
        """The chat template: from its own file, else the one called `default` in tokenizer_config.json.

        :raises FormatError: H104 for one that is neither a text nor a list of texts with names
        """
        if (name := "chat_template.jinja") in self.names:
            return text_of(self.bytes_of(name, MOST_TEMPLATE), self.file(name))
        found = self.json_of("chat_template.json", MOST_TEMPLATE).get("chat_template")
        found = self.tokenizer_config.get("chat_template") if found is None else found
        if isinstance(found, list):
            named = [(each.get("name"), each.get("template")) for each in found if isinstance(each, dict)]
            if len(named) != len(found) or not all(isinstance(name, str) for name, _ in named):
                raise refused("chat_template is a list, but its entries are not named templates")
            found = dict(named).get("default")
        if found is None or isinstance(found, str):
            return found
        raise refused(f"chat_template is {quote(str(found)[:40])}, not a string")

    @cached_property
    def card(self) -> dict[str, str]:
        """Plain `name: value` lines of the front matter of README.md."""
        lines = text_of(self.bytes_of(CARD, _MOST_CARD), self.file(CARD)).splitlines() if CARD in self.names else []
        if not lines or lines[0].strip() != "---":
            return {}
        found: dict[str, str] = {}
        for line in lines[1:200]:
            if line.strip() == "---":
                return found
            name, colon, value = line.partition(":")
            if colon and name.isidentifier() and value.strip():
                found[name] = value.strip().strip("'\"")
        return {}

    def close(self) -> None:
        self.tensors.close()

    def __enter__(self) -> CheckpointFolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.tensors.__exit__(*exc)

    # --- which files are the model -----------------------------------------------------------------------------------

    def chosen(self, index: Mapping[str, Any] | None) -> tuple[list[str], dict[str, str] | None]:
        """Return the names of the shards of the model, and the shard of each tensor, if there is an index that counts.

        Of two sets of weights it is the one that transformers takes: one file before the parts of an index.

        :param index: the index file as JSON
        :raises FormatError: H104 for an index that is none, for shards that are missing, and for several sets of parts
        """
        found = [name for name in self.names if name.endswith(".safetensors")]
        parts = [name for name in found if _NUMBERED.fullmatch(name)]
        if SINGLE in found and not (index is not None and SINGLE in _shards_of(index)):
            if parts or index is not None:
                others = parts or [INDEX]
                self.notes = (
                    f"the folder has two sets of weights: {quote(SINGLE)} was taken, as transformers does, and "
                    f"{quote(others[0])}{_and_more(others)} left out",
                )
            return [SINGLE], None
        if index is not None:
            places = self._places(index)
            return sorted(set(places.values())), places
        if not parts:
            return [name for name in found if not name.startswith("adapter_")], None
        sets: dict[tuple[str, int], list[str]] = {}
        for name in parts:
            match = _NUMBERED.fullmatch(name)
            assert match is not None
            sets.setdefault((match[1], int(match[3])), []).append(name)
        if len(sets) > 1:
            several = " and ".join(quote(each[0]) for each in list(sets.values())[:2])
            raise refused(f"{several} are of two sets of weights, and there is no {INDEX} that says which is the model")
        ((_, total), parts), = sets.items()  # fmt: skip
        if len(parts) != total:
            reason = f"{quote(parts[0])} is one of {counted(total, 'shard')}, of which {len(parts):,} are there"
            raise refused(f"{reason}, and there is no {INDEX}")
        self.notes = (f"the shards have no {INDEX}, without which transformers does not load them; all were taken",)
        return parts, None

    def _places(self, index: Mapping[str, Any]) -> dict[str, str]:
        """Return the shard of each tensor, by an index."""
        at, places = self.file(INDEX), index.get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
            raise refused(f"{INDEX} has no weight_map from tensors to files", at)
        if not places:
            raise refused(f"{INDEX} names no tensor: its weight_map is empty", at)
        for shard in sorted(set(places.values())):
            if os.path.basename(shard) != shard or "\\" in shard or not shard.endswith(".safetensors"):
                raise refused(
                    f"{INDEX} names the shard {quote(shard)}, which is not the name of a safetensors file", at
                )
            if shard not in self.names:
                raise refused(f"{INDEX} names the shard {quote(shard)}, which is missing", at)
        return places

    def within_limit(self, shards: list[str]) -> list[str]:
        """Return the same shards.

        :raises FormatError: H104 for more than are opened
        """
        if len(shards) > MOST_SHARDS:
            raise refused(
                f"its weights are in {counted(len(shards), 'file')}; the limit is {counted(MOST_SHARDS, 'shard')}",
                self.path,
            )
        return shards

    def without_config(self) -> str:
        """Describe a folder without config.json."""
        if _ADAPTER not in self.names:
            return "the folder has no config.json"
        try:
            base = self.json_of(_ADAPTER).get("base_model_name_or_path")
        except FormatError:
            base = None
        of = f" of {quote(base)}" if isinstance(base, str) and base else ""
        return (
            f"it is a PEFT adapter (LoRA){of}, which has only the changes of a model; merge it into its base model, and "
            "import the merged model"
        )

    def without_weights(self) -> str:
        """Describe a folder without weights."""
        if any(name.startswith("adapter_") and name.endswith(".safetensors") for name in self.names):
            return "the folder has the weights of a PEFT adapter (LoRA), and none of its base model; merge them first"
        pickles = [name for name in self.names if name.endswith(PICKLES)]
        if not pickles:
            return "the folder has no *.safetensors"
        return (
            f"its weights are pickles ({quote(pickles[0])}), which execute code when they are read; they were not "
            "opened. Save the model as safetensors"
        )

    def _compare(self, index: dict[str, str]) -> None:
        """Check that the index and the shards agree."""
        places = {self.file(name): name for name in self.shards}
        for name, shard in index.items():
            stored = self.tensors.get(name)
            if stored is None:
                raise refused(f"{INDEX} lists tensor {quote(name)}, which no shard has", self.file(INDEX))
            if places.get(os.fsdecode(stored.source.name), shard) != shard:
                raise refused(f"{INDEX} says that tensor {quote(name)} is in {quote(shard)}; it is in another shard",
                              self.file(INDEX))  # fmt: skip
        for name in self.tensors:
            if name not in index:
                raise refused(f"tensor {quote(name)} is in a shard and not in {INDEX}", self.file(INDEX))


def _shards_of(index: Mapping[str, Any]) -> set[object]:
    places = index.get("weight_map")
    return {each for each in places.values() if isinstance(each, str)} if isinstance(places, dict) else set()


def _and_more(names: list[str]) -> str:
    return " was" if len(names) == 1 else f" and {counted(len(names) - 1, 'other')} were"
