"""This module finds and loads the modules of this package with less work than Python's own finders do for each.

A short command imports a hundred small modules. For each, Python lists folders, asks the file system four times and
splits paths by many calls: more work than reading the module. Here a module is where its name says, and one question to
the file system tells whether its byte code is current; loaders, specs and locks are Python's. Whatever is not that
simple is left to the finders that follow: packages in archives, byte code that is missing, old, optimised or checked by
a hash.

Hooks that others put before Python's finders are asked first, as ever. Only a process of `i2s` installs this finder.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import BuiltinImporter, ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, ExtensionFileLoader, SourceFileLoader
from _imp import _fix_co_filename, extension_suffixes  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False  # as type checkers take it
if TYPE_CHECKING:
    from typing import Any

PACKAGE = "i2s_spec"
#: Byte code that is current by the time and size of its source begins with this.
_HEAD = MAGIC_NUMBER + bytes(4)
#: Bytes that are read of a file of byte code; a longer one is left to Python.
_LONGEST = 40 << 10


#: Memory to read byte code into that no loader has; the same is used again and again, and stays in the processor's cache.
_spare: list[bytearray] = []


class _Loader(SourceFileLoader):
    """Python's loader of source files, which has read the byte code already."""

    #: Where the byte code is, and the end of it.
    read: tuple[bytearray, int]

    def get_code(self, fullname: str) -> Any:
        read = self.__dict__.pop("read", None)
        if read is None:  # somebody asks once more
            return super().get_code(fullname)
        memory, end = read
        code = loads(memoryview(memory)[16:end])
        _spare.append(memory)
        _fix_co_filename(code, self.path)
        return code


class QuickFinder:
    """Finds modules of the package in its folder, by their names."""

    def __init__(self, folder: str) -> None:
        """:param folder: the package's own, an absolute path"""
        self._root = folder
        prefix = sys.pycache_prefix
        self._prefix, self._between = ("", "/__pycache__/") if prefix is None else (prefix.rstrip("/"), "/")
        self._ending = f".{sys.implementation.cache_tag}.pyc"
        self._extension = extension_suffixes()[0]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module whose byte code is current; None for all others."""
        if name[:9] != "i2s_spec.":
            return None
        place = self._root + name[8:].replace(".", "/")
        if "._" in name and (found := self._compiled(name, place)) is not None:
            return found
        source, package = place + ".py", False
        try:
            memory = _spare.pop()
        except IndexError:
            memory = bytearray(_LONGEST)
        try:
            try:
                facts = os.stat(source)
            except FileNotFoundError:
                source, package = place + "/__init__.py", True
                facts = os.stat(source)
            folder, _, leaf = source[:-3].rpartition("/")
            cached = f"{self._prefix}{folder}{self._between}{leaf}{self._ending}"
            opened = os.open(cached, os.O_RDONLY | os.O_CLOEXEC)
            try:
                end = os.readv(opened, [memory])
            finally:
                os.close(opened)
        except OSError:
            return None
        size, changed = facts.st_size & 0xFFFFFFFF, int(facts.st_mtime) & 0xFFFFFFFF
        if end < 16 or end == _LONGEST:
            return None
        if memory[:16] != _HEAD + changed.to_bytes(4, "little") + size.to_bytes(4, "little"):
            return None
        loader = _Loader(name, source)
        loader.read = memory, end
        spec = ModuleSpec(name, loader, origin=source, is_package=package)
        if package:
            spec.submodule_search_locations = [place]
        spec.has_location, spec.cached = True, cached
        return spec

    def _compiled(self, name: str, place: str) -> Any:
        """The spec of an extension; None where there is none of the first kind that Python looks for."""
        path = place + self._extension
        try:
            os.stat(path)
        except OSError:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
        spec.has_location = True
        return spec


def install() -> None:
    """Have modules of this package found quickly from now on, where it is a folder with byte code that Python keeps."""
    package = sys.modules[PACKAGE]
    loader = getattr(package.__spec__, "loader", None)
    folder = str(package.__path__[0])
    if type(loader) is not SourceFileLoader or os.name != "posix" or folder[:1] != "/" or sys.flags.optimize:
        return
    if sys.implementation.cache_tag is None or BuiltinImporter not in sys.meta_path:
        return
    if not any(type(finder) is QuickFinder for finder in sys.meta_path):
        sys.meta_path.insert(sys.meta_path.index(BuiltinImporter), QuickFinder(folder))
