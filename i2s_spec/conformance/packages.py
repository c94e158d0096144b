"""Packages of the suite for PyPI, npm, Go and crates: the same files, and a few lines for each registry.

Every package is made from the one list of files of `vectors.all_vectors.suite_files`, so they cannot differ; the same
version makes the same bytes each time. Nothing is uploaded.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from i2s_spec.conformance.vectors.all_vectors import SUITE_VERSION, suite_files
from i2s_spec.gguf.atomic_file import publish_folder, refuse_full_folder, unfinished_folder

_ABOUT: Final = (
    "Test vectors for decoders of I2_S and other ternary GGUF types, with expected answers (data only, 0BSD)"
)

_README: Final = f"""# i2s-vectors

{_ABOUT}.

`{{folder}}/manifest.json` lists the vectors, `{{folder}}/INTERPRETING.md` says how to run them.
{{use}}
"""

_PYPROJECT: Final = f"""[build-system]
requires = ["setuptools>=80"]
build-backend = "setuptools.build_meta"

[project]
name = "i2s-vectors"
version = "{SUITE_VERSION}"
description = "{_ABOUT}"
readme = "README.md"
license = "0BSD"
requires-python = ">=3.9"

[tool.setuptools]
packages = ["i2s_vectors"]

[tool.setuptools.package-data]
i2s_vectors = ["vectors/**"]
"""

_PYTHON: Final = '''"""Test vectors as files: `folder()` is where manifest.json is."""

from pathlib import Path


def folder() -> Path:
    """The folder of the suite."""
    return Path(__file__).resolve().parent / "vectors"
'''

_GO: Final = """// Package i2svectors holds test vectors for decoders of I2_S and other ternary GGUF types.
package i2svectors

import "embed"

// Files is the suite; vectors/manifest.json lists the vectors.
//
//go:embed all:vectors
var Files embed.FS
"""

_CARGO: Final = f"""[package]
name = "i2s-vectors"
version = "{SUITE_VERSION}"
edition = "2021"
license = "0BSD"
description = "{_ABOUT}"

[lib]
path = "lib.rs"
"""

_JAVASCRIPT: Final = """import { fileURLToPath } from "node:url";

/** The folder of the suite; manifest.json in it lists the vectors. */
export const folder = fileURLToPath(new URL("./vectors/", import.meta.url));
"""


def tarball() -> bytes:
    """Return the suite as a .tar.gz; the same bytes each time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data in suite_files():
            info = tarfile.TarInfo(f"i2s-vectors-{SUITE_VERSION}/{path}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), compresslevel=6, mtime=0)


def write_package(target: str | os.PathLike[str], registry: str, source: bytes | None = None) -> int:
    """Write the folder of a package; the registry's own tool makes the upload from it.

    :param target: a folder that does not exist or is empty
    :param registry: one of `REGISTRIES`
    :param source: the tarball; made if it is not given
    :returns: how many files were written
    :raises ValueError: for another registry
    :raises FileExistsError: where the folder has something in it
    """
    if registry not in REGISTRIES:
        raise ValueError(f"packages are made for {', '.join(REGISTRIES)}, not {registry!r}")
    target = Path(target)
    refuse_full_folder(target)
    files = _unpacked(source if source is not None else tarball())
    made = REGISTRIES[registry](files)
    with unfinished_folder(target) as part:
        for path, data in made.items():
            Path(part, path).parent.mkdir(parents=True, exist_ok=True)
            Path(part, path).write_bytes(data)
        publish_folder(part, target)
    return len(made)


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Return the files of a tarball, by their path below its folder."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for info in archive:
            stream = archive.extractfile(info)
            if stream is not None:
                found[info.name.partition("/")[2]] = stream.read()
    return found


def _below(files: dict[str, bytes], folder: str, use: str) -> dict[str, bytes]:
    """Return the suite in a folder of the package, with the license and a README at the top."""
    readme = _README.format(folder=folder, use=use).encode()
    return {
        "LICENSE": files["LICENSE"],
        "README.md": readme,
        **{f"{folder}/{path}": data for path, data in files.items()},
    }


def _pypi(files: dict[str, bytes]) -> dict[str, bytes]:
    use = "\n`i2s_vectors.folder()` gives the folder."
    return {
        **_below(files, "i2s_vectors/vectors", use),
        "pyproject.toml": _PYPROJECT.encode(),
        "i2s_vectors/__init__.py": _PYTHON.encode(),
    }


def _npm(files: dict[str, bytes]) -> dict[str, bytes]:
    package = {
        "name": "i2s-vectors",
        "version": SUITE_VERSION,
        "description": _ABOUT,
        "license": "0BSD",
        "type": "module",
        "exports": {".": "./index.js", "./vectors/*": "./vectors/*"},
        "files": ["index.js", "vectors"],
    }
    use = '\n`import { folder } from "i2s-vectors"` gives the folder.'
    return {
        **_below(files, "vectors", use),
        "package.json": (json.dumps(package, indent=2) + "\n").encode(),
        "index.js": _JAVASCRIPT.encode(),
    }


def _go(files: dict[str, bytes]) -> dict[str, bytes]:
    use = "\n`i2svectors.Files` is an embed.FS with them. The module path is that of the repository it is put in."
    return {
        **_below(files, "vectors", use),
        "go.mod": b"module i2svectors\n\ngo 1.19\n",
        "vectors.go": _GO.encode(),
    }


def _cargo(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a crate, which names each vector with `include_bytes!`, so that it needs neither a build
    script nor a dependency."""
    rows = "".join(f'    ("{path}", include_bytes!("vectors/{path}")),\n' for path in files)
    library = (
        "//! Test vectors for decoders of I2_S and other ternary GGUF types.\n\n"
        "/// Every file of the suite by its path; `manifest.json` lists the vectors.\n"
        f"pub static FILES: &[(&str, &[u8])] = &[\n{rows}];\n\n"
        "/// The bytes of a file of the suite.\n"
        "pub fn file(path: &str) -> Option<&'static [u8]> {\n"
        "    FILES.iter().find(|(name, _)| *name == path).map(|(_, data)| *data)\n}\n"
    )
    use = '\n`i2s_vectors::file("manifest.json")` gives the bytes of a file.'
    return {**_below(files, "vectors", use), "Cargo.toml": _CARGO.encode(), "lib.rs": library.encode()}


#: What makes the files of a package, by its registry.
REGISTRIES: Final[dict[str, Callable[[dict[str, bytes]], dict[str, bytes]]]] = {
    "pypi": _pypi,
    "npm": _npm,
    "go": _go,
    "cargo": _cargo,
}


def digest(data: bytes) -> str:
    """Return the SHA-256 of a tarball, for whoever publishes it."""
    return sha256(data).hexdigest()
