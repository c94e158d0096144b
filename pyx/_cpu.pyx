# cython: language_level=3
# cython: freethreading_compatible=True
"""Which instruction sets this processor offers, and what the extensions were built with."""

cdef extern from "cpu.h":
    const char *I2S_COMPILER
    int i2s_cpu_ssse3() nogil
    int i2s_cpu_avx2() nogil
    int i2s_cpu_f16c() nogil
    int i2s_cpu_avx512bw() nogil
    int i2s_cpu_avx512vnni() nogil
    int i2s_cpu_avx512vpopcntdq() nogil
    int i2s_cpu_neon() nogil
    int i2s_cpu_dotprod() nogil


def features():
    """Every instruction set that matters here, and whether this processor has it."""
    return {
        "ssse3": bool(i2s_cpu_ssse3()),
        "avx2": bool(i2s_cpu_avx2()),
        "f16c": bool(i2s_cpu_f16c()),
        "avx512bw": bool(i2s_cpu_avx512bw()),
        "avx512vnni": bool(i2s_cpu_avx512vnni()),
        "avx512vpopcntdq": bool(i2s_cpu_avx512vpopcntdq()),
        "neon": bool(i2s_cpu_neon()),
        "dotprod": bool(i2s_cpu_dotprod()),
    }


def compiler():
    """The C compiler that built this extension."""
    return I2S_COMPILER.decode("ascii", "replace")

