# cython: language_level=3
# cython: freethreading_compatible=True
"""Which instruction sets this processor offers, and the compiler that built the extensions."""

from libc.stdlib cimport getenv

cdef extern from *:
    """
    #include "cpu.h"

    /* Every name of a set of kernels, and the minimum that a set of this name needs: each table of kernels has
     * its own sets. From the slowest to the fastest. */
    static int i2s_cpu_always(void) { return 1; }
    static const struct {
        const char *name;
        int (*available)(void);
    } i2s_cpu_sets[] = {
        {"portable", i2s_cpu_always},
    #if defined(I2S_CPU_X86)
        {"avx2", i2s_cpu_avx2},
    #if defined(I2S_KNOWS_AVXVNNI)
        {"avxvnni", i2s_cpu_avxvnni},
    #endif
        {"avx512vl", i2s_cpu_avx512bw},
        {"avx512", i2s_cpu_avx512bw},
    #if defined(I2S_KNOWS_AMX)
        {"amx", i2s_cpu_amx},
    #endif
    #elif defined(I2S_CPU_ARM)
        {"neon", i2s_cpu_neon},
        {"dotprod", i2s_cpu_dotprod},
    #if defined(I2S_KNOWS_I8MM)
        {"i8mm", i2s_cpu_i8mm},
    #endif
    #endif
    };
    enum { I2S_CPU_SETS = sizeof(i2s_cpu_sets) / sizeof(i2s_cpu_sets[0]) };
    """
    ctypedef struct i2s_cpu_set:
        const char *name
        int (*available)() noexcept nogil
    const i2s_cpu_set *i2s_cpu_sets
    int I2S_CPU_SETS
    const char *I2S_COMPILER
    const char *const *i2s_cpu_names
    int I2S_CPU_COUNT
    unsigned i2s_cpu_found
    unsigned i2s_cpu_hidden


def features():
    """Every relevant feature, and whether this processor has it; hidden features count as missing."""
    return {i2s_cpu_names[i].decode("ascii"): bool((i2s_cpu_found & ~i2s_cpu_hidden) >> i & 1) for i in range(I2S_CPU_COUNT)}


def hidden():
    """The features that the processor has but that are hidden."""
    return [i2s_cpu_names[i].decode("ascii") for i in range(I2S_CPU_COUNT) if (i2s_cpu_found & i2s_cpu_hidden) >> i & 1]


def kernel_names():
    """The names that sets of kernels have, slowest first, and whether this processor can run any set of that name."""
    return [(i2s_cpu_sets[i].name.decode("ascii"), bool(i2s_cpu_sets[i].available())) for i in range(I2S_CPU_SETS)]


def asked():
    """The value of I2S_ISA, empty where it has none: asked for with every payload, so that it must cost nothing."""
    cdef const char *value = getenv("I2S_ISA")
    return value.decode("utf-8", "surrogateescape") if value != NULL else ""


def compiler():
    """The C compiler that built this extension."""
    return I2S_COMPILER.decode("ascii", "replace")
