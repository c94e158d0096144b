"""The C sources as Clang reads them in place of Microsoft's compiler (clang-cl), without Microsoft's headers.

Stand-ins declare what the sources use from those headers. The sources are only parsed, not compiled, linked or run.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from c_compiler import WARNINGS

HEADERS = Path(__file__).resolve().parent.parent / "pyx"

#: The declarations of Microsoft's headers that the sources use.
STAND_INS = {
    "stddef.h": """
        typedef unsigned long long size_t;
        typedef long long ptrdiff_t;
        #define NULL ((void *)0)
        #define offsetof(type, member) __builtin_offsetof(type, member)
        """,
    "string.h": """
        #include <stddef.h>
        void *memcpy(void *, const void *, size_t);
        void *memset(void *, int, size_t);
        void *memmove(void *, const void *, size_t);
        int memcmp(const void *, const void *, size_t);
        size_t strlen(const char *);
        size_t strcspn(const char *, const char *);
        int strcmp(const char *, const char *);
        int strncmp(const char *, const char *, size_t);
        """,
    "stdlib.h": """
        #include <stddef.h>
        void *malloc(size_t);
        void *calloc(size_t, size_t);
        void *realloc(void *, size_t);
        void free(void *);
        char *getenv(const char *);
        """,
    "malloc.h": "#include <stdlib.h>",
    "math.h": """
        double fabs(double);
        float fabsf(float);
        double sqrt(double);
        float sqrtf(float);
        double exp(double);
        float expf(float);
        float nearbyintf(float);
        float rintf(float);
        float roundf(float);
        float ldexpf(float, int);
        float fmaf(float, float, float);
        float fmaxf(float, float);
        float fminf(float, float);
        #define INFINITY (__builtin_inff())
        #define isfinite(x) __builtin_isfinite(x)
        #define isnan(x) __builtin_isnan(x)
        """,
    "errno.h": """
        int *_errno(void);
        #define errno (*_errno())
        #define EINTR 4
        #define EIO 5
        #define EBADF 9
        #define ENOMEM 12
        #define EINVAL 22
        """,
    "io.h": "long long _get_osfhandle(int);",
    "windows.h": """
        typedef void *HANDLE;
        typedef unsigned long DWORD;
        typedef struct {
            unsigned long long Internal, InternalHigh;
            DWORD Offset, OffsetHigh;
            HANDLE hEvent;
        } OVERLAPPED;
        __declspec(dllimport) int __stdcall ReadFile(HANDLE, void *, DWORD, DWORD *, OVERLAPPED *);
        __declspec(dllimport) DWORD __stdcall GetLastError(void);
        #define INVALID_HANDLE_VALUE ((HANDLE)(long long)-1)
        #define ERROR_HANDLE_EOF 38L
        """,
    "time.h": "struct timespec { long long tv_sec; long tv_nsec; };",
    "signal.h": "",
    "sys/types.h": "",
}

#: Headers that extensions include first.
READ = (
    "bit_sums",
    "blocks",
    "fast",
    "floats",
    "grams",
    "kernels",
    "matmul",
    "permuted",
    "read_at",
    "reduce",
    "survey",
    "text",
)


def test_one_header_has_the_intrinsics() -> None:
    """Clang leaves most of <immintrin.h> out there; `intrinsics.h` brings it in again."""
    for path in sorted(HEADERS.iterdir()):
        if path.name != "intrinsics.h":
            assert "<immintrin.h>" not in path.read_text(), f"{path.name}: include intrinsics.h"


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"])
@pytest.mark.parametrize("name", READ)
def test_a_header_compiles_without_a_message(name: str, target: str, tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("there is no clang")
    for place, text in STAND_INS.items():
        path = tmp_path / "stand_ins" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n" + "\n".join(line.strip() for line in text.strip().splitlines()) + "\n")
    source = tmp_path / "source.c"
    source.write_text(f'#include <stdint.h>\n#include "{name}.h"\n')
    run = subprocess.run(
        ["clang", f"--target={target}", "-fsyntax-only", "-fms-extensions", "-fms-compatibility", "-nostdlibinc",
         "-isystem", str(tmp_path / "stand_ins"), f"-I{HEADERS}", *WARNINGS, "-Wno-unused-function",
         "-Wno-unused-parameter", str(source)],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[:4000]
