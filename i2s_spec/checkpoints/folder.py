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
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.source import Source, is_address, open_regular, source_of
from i2s_spec.safetensors.files import Checkpoint
from i2s_spec.schema import faults

# --- bounded files ---------------------------------------------------------------------------------------------------
# JSON and text files are read as plain data: the size is limited, and a name may occur only once. A file is named by a
# path or, on a hub, by its address.

#: Most bytes of a configuration, and of a tokenizer (Gemma's has 33 MB).
MOST_CONFIG: Final = 1 << 20
MOST_TOKENIZER: Final = 1 << 26
#: A function that is called with the source of an address before it is closed.
Closing = Callable[[Source], object]

#: Most digits of a number; longer ones are too large for a float and cannot be compared with one.
_MOST_DIGITS: Final = 300
#: An escape of a surrogate, which is valid only in a pair.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def refused(reason: str, path: str | os.PathLike[str] | None = None) -> FormatError:
    """H104: the checkpoint cannot be used.

    :param reason: a sentence in which text from the checkpoint is quoted
    """
    error = FormatError(faults.CHECKPOINT_REFUSED, Span(0, 0), reason=TrustedText(reason))
    return error if path is None else error.of_file(path)


def read_bytes(path: str, most: int, closing: Closing | None = None) -> bytes:
    """A whole small file.

    :param path: a path, or the address of a file on a hub
    :param closing: called with the source of an address before it is closed
    :raises FormatError: H104 for more bytes than `most`, before any of them is read (on servers beyond the first range)
    :raises OSError: if it is not a regular file: reading a FIFO could block forever
    """
    if is_address(path):
        return _read_address(path, most, closing)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise _too_large(path, size, most)
        data = file.read(most + 1)
    if len(data) > most:
        raise refused(f"{quote(os.path.basename(path))} has more than {counted(most, 'byte')}", path)
    return data


def _read_address(address: str, most: int, closing: Closing | None) -> bytes:
    source = source_of(address)
    try:
        if source.size > most:
            raise _too_large(address, source.size, most)
        return source.read(0, source.size)
    except FormatError as error:
        raise error.of_file(address) from None
    finally:
        if closing is not None:
            closing(source)
        source.close()


def _too_large(path: str, size: int, most: int) -> FormatError:
    return refused(f"{quote(os.path.basename(path))} has {counted(size, 'byte')}; the limit is {most:,}", path)


def read_text(path: str, most: int, closing: Closing | None = None) -> str:
    """A whole small file as UTF-8."""
    try:
        return read_bytes(path, most, closing).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"{quote(os.path.basename(path))} is not UTF-8 at byte {error.start:,}", path) from None


def read_object(path: str, most: int = MOST_CONFIG, closing: Closing | None = None) -> dict[str, Any]:
    """A JSON file whose outermost value is an object.

    :raises FormatError: H104 for invalid JSON, for a name that occurs twice, for NaN and infinities
    """
    name = quote(os.path.basename(path))
    text = read_text(path, most, closing)
    try:
        found = json.loads(text, parse_int=_whole, object_pairs_hook=_unique, parse_constant=_refuse_constant)
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
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
#: Files that an import reads besides the shards.
TEXTS: Final = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
#: Largest index; that of a model with the most tensors that GGUF allows is smaller.
MOST_INDEX: Final = 1 << 25
_MOST_TEMPLATE: Final = 1 << 20


def files_read(path: str) -> list[str]:
    """The files of a folder that an import may read, with their paths; empty if there is no such folder, or it is on a
    hub."""
    if is_address(path):
        return []
    try:
        names = os.listdir(path)
    except OSError:
        return []
    read = (*TEXTS, INDEX, "README.md")
    return [os.path.join(path, name) for name in names if name in read or name.endswith(".safetensors")]


class CheckpointFolder:
    """The files of a checkpoint; tensors are read on access.

    As a context manager it closes them, and checks whether one changed meanwhile (S903).

    :param path: a folder, or the address of a hub's repository or of a folder in it (`hf://ORG/REPO@REVISION`)
    :raises FormatError: H101, H102 for a broken shard, H104 for a folder that is not a checkpoint; S911 to S918 for
        addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises OSError: where it cannot be read
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        #: The folder; of a hub an address that names the commit.
        self.path = os.fsdecode(path)
        #: What the folder or the repository is called, and `ORG/REPO` of a hub.
        self.title, self.repository = os.path.basename(os.path.abspath(self.path)), None
        if is_address(path):
            from i2s_spec.remote.open import pinned_folder

            self.path, self.title, self.repository, self.names, *_ = pinned_folder(self.path)
        elif os.path.isdir(self.path):
            self.names = sorted(os.listdir(self.path))
        elif os.path.exists(self.path):
            raise refused("a checkpoint is a folder with config.json and safetensors", self.path)
        else:
            raise FileNotFoundError(2, "No such file or directory", self.path)
        if "config.json" not in self.names:
            raise refused("the folder has no config.json", self.path)
        self.config: dict[str, Any] = read_object(self.file("config.json"))
        shards, index = self._shards()
        self.shards = shards
        self.tensors = Checkpoint([self.file(name) for name in shards])
        try:
            if index is not None:
                self._compare(index)
        except BaseException:
            self.tensors.close()
            raise

    @property
    def is_remote(self) -> bool:
        """Whether the folder is on a hub."""
        return is_address(self.path)

    def file(self, name: str) -> str:
        """The path or the address of a file of the folder."""
        return f"{self.path}/{name}" if self.is_remote else os.path.join(self.path, name)

    def json_of(self, name: str, most: int = MOST_CONFIG) -> dict[str, Any]:
        """A JSON file of the folder; empty where there is none."""
        return read_object(self.file(name), most) if name in self.names else {}

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
        if "chat_template.jinja" in self.names:
            return read_text(self.file("chat_template.jinja"), _MOST_TEMPLATE)
        found = self.json_of("chat_template.json", _MOST_TEMPLATE).get("chat_template")
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
        lines = read_text(self.file("README.md"), 1 << 22).splitlines() if "README.md" in self.names else []
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

    def _shards(self) -> tuple[list[str], dict[str, str] | None]:
        """The names of the shards, and the index, if there is one: the shard of each tensor."""
        if INDEX in self.names:
            index = read_object(self.file(INDEX), MOST_INDEX).get("weight_map")
            if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
                raise refused(f"{INDEX} has no weight_map from tensors to files", self.file(INDEX))
            for shard in (shards := sorted(set(index.values()))):
                if os.path.basename(shard) != shard or "\\" in shard or not shard.endswith(".safetensors"):
                    reason = f"{INDEX} names the shard {quote(shard)}, which is not the name of a safetensors file"
                    raise refused(reason, self.file(INDEX))
                if shard not in self.names:
                    raise refused(f"{INDEX} names the shard {quote(shard)}, which is missing", self.file(INDEX))
            return shards, index
        found = [name for name in self.names if name.endswith(".safetensors")]
        found = ["model.safetensors"] if "model.safetensors" in found else found
        if found:
            return found, None
        pickles = [name for name in self.names if name.endswith(PICKLES)]
        if pickles:
            raise refused(
                f"its weights are pickles ({quote(pickles[0])}), which execute code when they are read; they were not "
                "opened. Save the model as safetensors",
                self.path,
            )
        raise refused("the folder has no *.safetensors", self.path)

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
