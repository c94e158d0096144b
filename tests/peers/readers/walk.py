"""Prints what a library of the C header finds in files, as `tests/exports/walk.c` does: python walk.py LIBRARY FILE."""

import ctypes
import struct
import sys

LAYOUTS, CODE_MAPS = 6, 4
OK, BAD_VALUE, BAD_CODE, END = 0, 3, 6, 7


def checksum(trits):
    total = 2166136261
    for byte in trits:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{total:08x}"


def found(function, file, info, *more):
    """The bytes of a tensor and its matrix, or a status alone."""
    data, size, rows, cols = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64()
    status = function(file, info, *more, *(ctypes.byref(each) for each in (data, size, rows, cols)))
    return status, data, size, rows, cols


def codes(library, big, data, size, rows, cols):
    """Shape and scale, and the checksum of the trits in every dialect."""
    count, where = rows.value * cols.value, ctypes.c_uint64()
    library.i2s_scale.restype = ctypes.c_float
    words = f" {rows.value} {cols.value} {library.i2s_scale(data, ctypes.c_uint64(count), big):.9g}"
    trits = ctypes.create_string_buffer(count)
    for layout in range(LAYOUTS):
        for code_map in range(CODE_MAPS):
            status = library.i2s_decode(data, size, rows, cols, layout, code_map, trits, ctypes.byref(where))
            words += (
                f" {checksum(trits.raw)}"
                if status == OK
                else f" code@{where.value}"
                if status == BAD_CODE
                else " shape"
            )
    return words


def main(path, name):
    library = ctypes.CDLL(path)
    with open(name, "rb") as from_file:
        content = from_file.read()
    file, info = (
        ctypes.create_string_buffer(size()) for size in (library.gguf_file_bytes, library.gguf_tensor_info_bytes)
    )
    status = library.gguf_open(content, ctypes.c_size_t(len(content)), file)
    if status != OK:
        print("status", status)
        return 1
    (version,), (alignment, start) = struct.unpack_from("I", file, 16), struct.unpack_from("QQ", file, 120)
    print("version", version, "alignment", alignment, "data", start)
    while (status := library.gguf_next(file, info)) == OK:
        text, length = struct.unpack_from("PQ", info)
        (number,), (offset,) = struct.unpack_from("i", info, 56), struct.unpack_from("Q", info, 64)
        line = f"{ctypes.string_at(text, length).decode('utf-8', 'replace')} {number} {offset}"
        if number == 36:
            status, *tensor = found(library.i2s_find, file, info)
            line += codes(library, content[4:6] == bytes(2), *tensor) if status == OK else f" status {status}"
        else:
            status, *tensor = found(library.i2s_block_find, file, info, ctypes.byref(ctypes.c_int()))
            line += "" if status in (OK, BAD_VALUE) else f" status {status}"
        print(line)
    return 0 if status == END else 1


sys.exit(main(*sys.argv[1:]))
