#!/bin/sh
# Two surprises about intrinsics of CUDA C, both seen without a GPU:
#
#   - __fmul_rn and __fdiv_rn are documented by their rounding, and are used so that results do not depend on options of
#     the compiler. With -use_fast_math, which includes -ftz=true, they are still rounded to nearest, but flush subnormal
#     numbers: mul.rn.ftz.f32, div.rn.ftz.f32. A program that needs every bit writes the instruction.
#   - NVRTC 12.0 and 12.1 compile a call of __dp4a without an error or a warning, but into the call of a function that is
#     nowhere. PTX for a driver looks like a success until it is loaded; code for one architecture fails at once, in the
#     assembler. 12.4 has the instruction. A wheel that is chosen for being old, so that old drivers read its PTX, has this.
#
# How it is shown: one kernel, compiled by the NVRTC of three wheels.
#
# Seen with nvidia-cuda-nvrtc-cu12 12.0.76, 12.1.105 and 12.4.127 from PyPI, Linux x86-64:
#
#     12.0.76   plain: mul.rn.f32 div.rn.f32; fast math: mul.rn.ftz.f32 div.rn.ftz.f32; __dp4a: a missing function
#     12.1.105  plain: mul.rn.f32 div.rn.f32; fast math: mul.rn.ftz.f32 div.rn.ftz.f32; __dp4a: a missing function
#     12.4.127  plain: mul.rn.f32 div.rn.f32; fast math: mul.rn.ftz.f32 div.rn.ftz.f32; __dp4a: dp4a.s32.s32
#
# Ends with 0 if all of this is still so, otherwise with 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > show.py <<'PYTHON'
import ctypes
import re
import sys
from pathlib import Path

FLOATS = 'extern "C" __global__ void f(float *x) { x[0] = __fmul_rn(x[1], x[2]); x[3] = __fdiv_rn(x[4], x[5]); }'
DOT = 'extern "C" __global__ void f(int *x) { x[0] = __dp4a(x[1], x[2], x[3]); }'
WANTED = {"12.0.76": "a missing function", "12.1.105": "a missing function", "12.4.127": "dp4a.s32.s32"}


def ptx(nvrtc, text, *options):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"f.cu", 0, None, None)
    words = [b"-arch=compute_80", *options]
    status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    assert status == 0, status
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, found)
    return found.value.decode()


version = sys.argv[1]
(path,) = Path(version).glob("nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
nvrtc = ctypes.CDLL(str(path.resolve()))
plain, fast = (" ".join(re.findall(r"(?:mul|div)\.\S*f32", ptx(nvrtc, FLOATS, *some))) for some in ((), (b"-use_fast_math",)))
text = ptx(nvrtc, DOT)
dot = "a missing function" if ".extern .func" in text else re.findall(r"dp4a\.\S+", text)[0]
print(f"{version:9} plain: {plain}; fast math: {fast}; __dp4a: {dot}")
found = plain == "mul.rn.f32 div.rn.f32", fast == "mul.rn.ftz.f32 div.rn.ftz.f32", dot == WANTED[version]
sys.exit(not all(found))
PYTHON

status=0
for version in 12.0.76 12.1.105 12.4.127; do
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target "$version" \
        "nvidia-cuda-nvrtc-cu12==$version"
    python3 show.py "$version" || status=1
done
exit $status
