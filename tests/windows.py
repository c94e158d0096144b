"""C programs for 64-bit Windows: compiled by Clang, linked with MinGW's libraries, run by Wine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_compiler import WARNINGS

HEADERS = Path(__file__).resolve().parent.parent / "pyx"
#: Programs and paths of Wine; Debian's is not on the PATH.
WINE = ("wine64", "/usr/lib/wine/wine64", "wine")
#: Folders in which Debian and other distributions keep Wine's own Windows libraries.
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/wine/x86_64-windows", "/usr/lib/wine/x86_64-windows",
             "/usr/lib64/wine/x86_64-windows")  # fmt: skip
LINKER = "x86_64-w64-mingw32-gcc"


def compiled_for_windows(source: Path, folder: Path, *flags: str) -> Path:
    """Compile a driver, every warning an error; skip where the compiler or the libraries are not there.

    Clang, as the package is built on Windows: code of GCC aligns no vector of 32 bytes on the stack there.
    """
    for needed in ("clang", LINKER):
        if shutil.which(needed) is None:
            pytest.skip(f"no compiler for Windows: {needed} is not there")
    of_source, program = folder / "of_source.o", folder / "driver.exe"
    for command in (
        ["clang", "--target=x86_64-w64-windows-gnu", *WARNINGS, *flags, f"-I{HEADERS}",
         "-c", str(source), "-o", str(of_source)],
        [LINKER, "-static", str(of_source), "-o", str(program)],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
    return program


def caller_of_wine(folder: Path) -> Callable[..., list[str]]:
    """What runs a program of Windows and gives the lines that it prints; it must end with 0.

    :param folder: an empty one, which Wine takes for a disk
    """
    wine = next(filter(None, map(shutil.which, WINE)), None)
    if wine is None:
        pytest.skip("no Wine: apt install wine64")
    furnish(folder)
    off = "mscoree,mshtml,winemenubuilder.exe="  # Wine would search for packages that these need; the tests do not
    environment = os.environ | {"WINEPREFIX": str(folder), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": off}

    def lines(program: Path, *words: str | Path) -> list[str]:
        command = [wine, str(program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.splitlines()

    return lines


def furnish(folder: Path) -> None:
    """Make the Windows disk that a console program needs, with links to Wine's libraries. Wine itself would copy 700 MB,
    which takes ten seconds; it still does so if the libraries are not found."""
    libraries = next((path for path in map(Path, LIBRARIES) if (path / "kernel32.dll").is_file()), None)
    if libraries is None:
        return
    (folder / "drive_c" / "windows").mkdir(parents=True)
    (folder / "drive_c" / "windows" / "system32").symlink_to(libraries)
    (folder / "dosdevices").mkdir()
    (folder / "dosdevices" / "c:").symlink_to("../drive_c")
    (folder / "dosdevices" / "z:").symlink_to("/")
    (folder / ".update-timestamp").write_text("disable\n")  # otherwise Wine would update the folder by copying files
