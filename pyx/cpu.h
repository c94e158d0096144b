/* Which instruction sets this processor offers, detected at run time: one wheel serves every processor of a platform. */
#ifndef I2S_CPU_H
#define I2S_CPU_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Features by the names that compilers have for them. Those of other architectures are missing. */
#define I2S_CPU_FEATURES(X)                                                                                             \
    X(ssse3) X(popcnt) X(avx2) X(fma) X(f16c) X(avxvnni) X(avx512f) X(avx512bw) X(avx512vl) X(avx512dq) X(avx512vnni)  \
    X(avx512vbmi) X(avx512vpopcntdq) X(amxint8) X(neon) X(dotprod) X(i8mm)

enum {
#define I2S_CPU_NUMBER(name) I2S_CPU_##name,
    I2S_CPU_FEATURES(I2S_CPU_NUMBER) I2S_CPU_COUNT
};
static const char *const i2s_cpu_names[] = {
#define I2S_CPU_NAME(name) #name,
    I2S_CPU_FEATURES(I2S_CPU_NAME)
};

/* The features of the processor, and those that count as missing: the names in I2S_HIDE, separated by commas. Tests use
 * this to run as on an older processor. Both are determined once, when the extension is loaded, and a name can only
 * hide a feature. */
static unsigned i2s_cpu_found = 0, i2s_cpu_hidden = 0;

/* The requirements of a set of kernels are found by calling its `available` with each feature hidden in turn; only this
 * thread sees the hidden features. */
#if defined(_MSC_VER) && !defined(__clang__)
#define I2S_OF_THREAD __declspec(thread)
#else
#define I2S_OF_THREAD __thread
#endif
static I2S_OF_THREAD unsigned i2s_cpu_supposed = 0;
#define I2S_CPU_ALL ((1u << I2S_CPU_COUNT) - 1)
#define I2S_CPU_SUPPOSING (1u << 31)
#define I2S_HAS(name)                                                                                                   \
    ((i2s_cpu_supposed ? i2s_cpu_supposed : i2s_cpu_found & ~i2s_cpu_hidden) >> I2S_CPU_##name & 1)

static inline unsigned i2s_cpu_needs(int (*available)(void)) {
    unsigned found = 0, i;
    for (i = 0; i < I2S_CPU_COUNT; i++) {
        i2s_cpu_supposed = I2S_CPU_SUPPOSING | (I2S_CPU_ALL & ~(1u << i));
        if (!available()) found |= 1u << i;
    }
    i2s_cpu_supposed = 0;
    return found;
}

#if defined(__GNUC__) || defined(__clang__)
#if defined(__x86_64__) || defined(__i386__)
#define I2S_CPU_X86 1
#include <cpuid.h>
#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11  /* older compilers do not know it */
#define I2S_KNOWS_AVXVNNI 1
#if defined(__x86_64__) && defined(__linux__)  /* on other systems a program cannot request what it needs */
#define I2S_KNOWS_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif
#elif defined(__aarch64__)
#define I2S_CPU_ARM 1
#if defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 10  /* older compilers do not know it */
#define I2S_KNOWS_I8MM 1
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#define I2S_HWCAP_ASIMDDP (1UL << 20) /* with our own names, because headers of older systems lack them */
#define I2S_HWCAP2_I8MM (1UL << 13)
#elif defined(__APPLE__)
#include <sys/types.h>
#include <sys/sysctl.h>
/* What the system reports for a feature; `unknown` if it does not know the name. */
static int i2s_cpu_sysctl(const char *name, int unknown) {
    int there = 0;
    size_t size = sizeof there;
    return sysctlbyname(name, &there, &size, NULL, 0) == 0 ? there : unknown;
}
#elif defined(_WIN32)
__declspec(dllimport) int __stdcall IsProcessorFeaturePresent(unsigned long feature);
#endif
#endif

#if defined(I2S_KNOWS_AMX)
/* Whether tiles (AMX) with products of bytes exist, and the system saves them and lets this process use them. Linux
 * grants them on request (arch_prctl, ARCH_REQ_XCOMP_PERM of XTILEDATA), and refuses if a signal stack is too small for
 * them. */
static int i2s_cpu_tiles(void) {
    unsigned a, b, c, d, saved;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 3) != 3) return 0; /* AMX-TILE, AMX-INT8 */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;              /* OSXSAVE */
    __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    return (saved >> 17 & 3) == 3 && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#endif

__attribute__((constructor)) static void i2s_cpu_ask(void) {
    const char *at = getenv("I2S_HIDE");
    while (at != NULL && *at) {
        const size_t length = strcspn(at, ",");
        unsigned i;
        for (i = 0; i < I2S_CPU_COUNT; i++)
            if (strlen(i2s_cpu_names[i]) == length && memcmp(at, i2s_cpu_names[i], length) == 0) i2s_cpu_hidden |= 1u << i;
        at += length + (at[length] == ',');
    }
#define I2S_CPU_FIND(name, there) i2s_cpu_found |= (unsigned)((there) != 0) << I2S_CPU_##name;
#if defined(I2S_CPU_X86)
    __builtin_cpu_init();
#define I2S_CPU_ASK(name) I2S_CPU_FIND(name, __builtin_cpu_supports(#name))
    I2S_CPU_ASK(ssse3) I2S_CPU_ASK(popcnt) I2S_CPU_ASK(avx2) I2S_CPU_ASK(fma) I2S_CPU_ASK(avx512f)
    I2S_CPU_ASK(avx512bw) I2S_CPU_ASK(avx512vl) I2S_CPU_ASK(avx512dq) I2S_CPU_ASK(avx512vnni) I2S_CPU_ASK(avx512vbmi)
    I2S_CPU_ASK(avx512vpopcntdq)
#if defined(I2S_KNOWS_AMX)
    if (__builtin_cpu_supports("avx512vnni")) I2S_CPU_FIND(amxint8, i2s_cpu_tiles())
#endif
#if defined(__clang__)  /* which has no names for these two */
    {
        unsigned a, b, c, d;
        if (__get_cpuid(1, &a, &b, &c, &d)) I2S_CPU_FIND(f16c, __builtin_cpu_supports("avx") && (c >> 29 & 1))
#if defined(I2S_KNOWS_AVXVNNI)
        if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) I2S_CPU_FIND(avxvnni, __builtin_cpu_supports("avx2") && (a >> 4 & 1))
#endif
    }
#else
    I2S_CPU_ASK(f16c)
#if defined(I2S_KNOWS_AVXVNNI)
    I2S_CPU_ASK(avxvnni)
#endif
#endif
#elif defined(I2S_CPU_ARM)
    I2S_CPU_FIND(neon, 1)
#if defined(__linux__)
    I2S_CPU_FIND(dotprod, getauxval(AT_HWCAP) & I2S_HWCAP_ASIMDDP)
    I2S_CPU_FIND(i8mm, getauxval(AT_HWCAP2) & I2S_HWCAP2_I8MM)
#elif defined(__APPLE__)  /* the first systems for these processors have no names; every processor has dot products */
    I2S_CPU_FIND(dotprod, i2s_cpu_sysctl("hw.optional.arm.FEAT_DotProd", 1))
    I2S_CPU_FIND(i8mm, i2s_cpu_sysctl("hw.optional.arm.FEAT_I8MM", 0))
#elif defined(_WIN32)
    I2S_CPU_FIND(dotprod, IsProcessorFeaturePresent(43))  /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
    I2S_CPU_FIND(i8mm, IsProcessorFeaturePresent(66))     /* PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE */
#endif
#endif
}
#endif

/* The vectors that GCC makes of plain loops, as words of a target: half of a processor's width, or all of it. Clang has
 * no such word. */
#if defined(__clang__)
#define I2S_BY_256
#define I2S_BY_512
#else
#define I2S_BY_256 ",prefer-vector-width=256"
#define I2S_BY_512 ",prefer-vector-width=512"
#endif

/* The requirements of sets of kernels; a processor with AVX-512 counts as having AVX2 only where it reports it. */
static inline int i2s_cpu_avx2(void) { return I2S_HAS(avx2); }
static inline int i2s_cpu_popcnt(void) { return I2S_HAS(popcnt); }
static inline int i2s_cpu_avx2fma(void) { return I2S_HAS(avx2) && I2S_HAS(fma) && I2S_HAS(f16c); }
static inline int i2s_cpu_avxvnni(void) { return I2S_HAS(avx2) && I2S_HAS(avxvnni); }
static inline int i2s_cpu_avx512bw(void) {
    return i2s_cpu_avx2fma() && I2S_HAS(avx512f) && I2S_HAS(avx512bw) && I2S_HAS(avx512vl) && I2S_HAS(avx512dq);
}
static inline int i2s_cpu_avx512vnni(void) { return i2s_cpu_avx512bw() && I2S_HAS(avx512vnni); }
static inline int i2s_cpu_amx(void) { return i2s_cpu_avx512vnni() && I2S_HAS(amxint8); }
static inline int i2s_cpu_avx512vbmi(void) { return i2s_cpu_avx512bw() && I2S_HAS(avx512vbmi); }
static inline int i2s_cpu_avx512vpopcntdq(void) { return i2s_cpu_avx512bw() && I2S_HAS(avx512vpopcntdq); }
static inline int i2s_cpu_neon(void) { return I2S_HAS(neon); }
static inline int i2s_cpu_dotprod(void) { return I2S_HAS(neon) && I2S_HAS(dotprod); }
static inline int i2s_cpu_i8mm(void) { return i2s_cpu_dotprod() && I2S_HAS(i8mm); }

#if defined(I2S_CPU_X86)
/* Whether the processor is of AMD's family 19h (Zen 3 and Zen 4). This query is slow in a virtual machine. */
static inline int i2s_cpu_amd_19h(void) {
    static _Atomic int known = -1; /* several threads may call this at once */
    if (known < 0) {
        unsigned a, b, c, d;
        __cpuid(0, a, b, c, d);
        const int amd = b == 0x68747541 && d == 0x69746E65 && c == 0x444D4163;
        __cpuid(1, a, b, c, d);
        known = amd && (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
    }
    return known;
}

/* Whether 512-bit operations are executed in halves: AMD's first processors with AVX-512. */
static inline int i2s_cpu_halves_avx512(void) { return i2s_cpu_amd_19h(); }

/* Whether long rows from memory are best processed one or two at a time, with prefetches into the second-level cache: the
 * first-level cache of 32 KiB cannot hold four of them and the next four, so lines prefetched into it are evicted
 * before use. Measured on Zen 4. */
static inline int i2s_cpu_small_first(void) { return i2s_cpu_amd_19h(); }

/* Whether a file is read faster into memory that is not in the second-level cache: the copy of a system call (`rep
 * movsb`) took a tenth to a fifth longer there on Zen 4. */
static inline int i2s_cpu_reads_beyond_second(void) { return i2s_cpu_amd_19h(); }

/* Bytes of the third-level cache of an AMD processor that one core can use, 0 for any other processor; the C library
 * returns the sum for all cores in some virtual machines. */
static inline int64_t i2s_cpu_amd_last_cache(void) {
    unsigned a, b, c, d, i;
    __cpuid(0, a, b, c, d);
    if (!(b == 0x68747541 && d == 0x69746E65 && c == 0x444D4163)) return 0;
    for (i = 0; i < 8 && __get_cpuid_count(0x8000001D, i, &a, &b, &c, &d) && (a & 31); i++)
        if ((a >> 5 & 7) == 3) /* level; ways, partitions, bytes of a line and sets, each minus one */
            return (int64_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((int64_t)c + 1);
    return 0;
}

/* The model of an Intel processor of family 6; 0 for any other. */
static inline int i2s_cpu_intel_model(void) {
    static _Atomic int known = -1; /* several threads may call this at once */
    if (known < 0) {
        unsigned a, b, c, d;
        __cpuid(0, a, b, c, d);
        const int intel = b == 0x756E6547 && d == 0x49656E69 && c == 0x6C65746E;
        __cpuid(1, a, b, c, d);
        known = intel && (a >> 8 & 15) == 6 ? (int)((a >> 4 & 15) | (a >> 12 & 0xF0)) : 0;
    }
    return known;
}

/* Whether prefetched lines are written faster than past the cache: Intel's Skylake-SP, Cascade Lake and Cooper Lake
 * (model 85), where a store past the cache occupies one of a dozen line buffers until memory has taken it. */
static inline int i2s_cpu_owns(void) { return i2s_cpu_intel_model() == 85; }

/* Whether memory that will be read once is best prefetched into the second-level cache: Intel's servers from Sapphire
 * Rapids on, whose second-level cache of 2 MiB can wait for more lines than the first has buffers for. They are
 * recognized by AMX, because virtual machines report other model numbers, or by their models (143, 207, 173, 174) if
 * AMX is hidden. Measured on model 207 and on one with AMX that reports model 167; the others have the same caches. */
static inline int i2s_cpu_asks_second(void) {
    static _Atomic int known = -1; /* several threads may call this at once */
    if (known < 0) {
        const int model = i2s_cpu_intel_model();
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (model) __cpuid_count(7, 0, a, b, c, d);
        known = (d >> 24 & 1) || model == 143 || model == 207 || model == 173 || model == 174; /* bit 24: AMX-TILE */
    }
    return known;
}
#else
static inline int i2s_cpu_owns(void) { return 0; }
static inline int i2s_cpu_asks_second(void) { return 0; }
static inline int i2s_cpu_small_first(void) { return 0; }
static inline int i2s_cpu_reads_beyond_second(void) { return 0; }
static inline int64_t i2s_cpu_amd_last_cache(void) { return 0; }
#endif

#if defined(__clang__)
#define I2S_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define I2S_COMPILER "gcc " __VERSION__
#elif defined(_MSC_VER)
#define I2S_COMPILER "MSVC"
#else
#define I2S_COMPILER "unknown"
#endif

#endif
