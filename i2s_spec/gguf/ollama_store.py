"""Models in Ollama's store on this machine: `ollama:NAME` as the path of a GGUF file. Nothing is asked of any server.

A file that is called so has `./` before its name.

    STORE/manifests/registry.ollama.ai/library/NAME/TAG    JSON: layers, each with mediaType, digest and size
    STORE/blobs/sha256-DIGEST                              the bytes of a layer; the model's are a GGUF file

STORE is OLLAMA_MODELS, or ~/.ollama/models. NAME is [HOST/][NAMESPACE/]NAME[:TAG], by default of registry.ollama.ai,
library and latest. Of a manifest only the form is believed: digests have 64 hexadecimal digits, files lie below STORE after
links are followed, and have the size that the manifest gives. The content of a blob is not compared with its digest.

Source: ollama/ollama, manifest/manifest.go and manifest/paths.go; the media types are in manifest/layer.go.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.source import below, read_below
from i2s_spec.schema import faults

PREFIX: Final = "ollama:"

#: What the kinds of layers are called whose files are used with a model.
_BESIDE: Final = ("projector", "adapter")
_MEDIA: Final = "application/vnd.ollama.image."

_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_NAME: Final = re.compile(
    rf"(?:(?:(?P<host>{_PART}(?::\d{{1,5}})?)/)?(?P<space>{_PART})/)?(?P<name>{_PART})(?::(?P<tag>{_PART}))?"
)
_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})")

#: No manifest has more bytes, or layers.
_LARGEST: Final = 1 << 20
_MOST_LAYERS: Final = 1000


class StoredModel(NamedTuple):
    """A model in the store: the path of its GGUF file, and what is used beside it: kind and path of each layer."""

    path: str
    beside: tuple[tuple[str, str], ...]


def store() -> str:
    """Return the folder of the store."""
    return os.environ.get("OLLAMA_MODELS") or os.path.join(os.path.expanduser("~"), ".ollama", "models")


def stored_model(text: str) -> StoredModel:
    """Return the files of a model.

    :param text: `ollama:NAME`
    :raises FormatError: S901 for a name that is none, a model that is not there, and a manifest that is wrong; S902 and S904
        for files that are none, or lie elsewhere
    """
    found = _NAME.fullmatch(text.removeprefix(PREFIX))
    if found is None:
        raise _refused(text, "Ollama's names are NAME, NAMESPACE/NAME or HOST/NAMESPACE/NAME, with :TAG or without")
    parts = (
        found["host"] or "registry.ollama.ai",
        found["space"] or "library",
        found["name"],
        found["tag"] or "latest",
    )
    place = os.path.join("manifests", *parts)
    if not os.path.lexists(os.path.join(store(), place)):
        raise _refused(text, f"there is no {quote(place, 600, bare=True)} in {quote(store(), 4096, bare=True)}")
    try:
        layers = json.loads(read_below(store(), place, _LARGEST))["layers"]
        kinds = [(_kind(layer), layer) for layer in layers[:_MOST_LAYERS]]
    except OSError as error:
        raise _refused(text, f"its manifest: {error.strerror or type(error).__name__}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise _refused(text, "its manifest is no JSON with layers") from None
    models = [layer for kind, layer in kinds if kind == "model"]
    if len(models) != 1:
        raise _refused(text, f"its manifest has {counted(len(models), 'layer')} with a GGUF model, not 1")
    beside = tuple((kind, _blob(text, layer)) for kind, layer in kinds if kind in _BESIDE)
    return StoredModel(_blob(text, models[0]), beside)


def _kind(layer: dict[str, Any]) -> str:
    media = layer["mediaType"]
    return media.removeprefix(_MEDIA) if isinstance(media, str) else ""


def _blob(text: str, layer: dict[str, Any]) -> str:
    """Return the path of a layer's file.

    :raises FormatError: for a digest that is none, and a file that is not there, lies elsewhere or has another size
    """
    digest, size = layer.get("digest"), layer.get("size")
    found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if found is None:
        raise _refused(text, "its manifest has a layer whose digest is not sha256 and 64 hexadecimal digits")
    name = os.path.join("blobs", f"sha256-{found[1]}")
    below(store(), name)
    path = os.path.join(store(), name)
    there = os.path.getsize(path)
    if size != there or isinstance(size, bool):
        raise _refused(text, f"{name} has {counted(there, 'byte')}, and its manifest gives another size")
    return path


def _refused(text: str, why: str) -> FormatError:
    return FormatError(faults.UNREADABLE, Span(0, 0), reason=TrustedText(why)).of_file(text)
