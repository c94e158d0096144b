/* Which instruction sets this processor offers, asked at run time: one wheel serves every processor of a platform. */
#ifndef I2S_CPU_H
#define I2S_CPU_H

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
#define I2S_HAS(name) (__builtin_cpu_init(), __builtin_cpu_supports(name) != 0)
static inline int i2s_cpu_ssse3(void) { return I2S_HAS("ssse3"); }
static inline int i2s_cpu_avx2(void) { return I2S_HAS("avx2"); }
static inline int i2s_cpu_popcnt(void) { return I2S_HAS("popcnt"); }
static inline int i2s_cpu_f16c(void) { return I2S_HAS("f16c"); }
static inline int i2s_cpu_avx512bw(void) { return I2S_HAS("avx512f") && I2S_HAS("avx512bw") && I2S_HAS("avx512vl"); }
static inline int i2s_cpu_avx512vnni(void) { return i2s_cpu_avx512bw() && I2S_HAS("avx512vnni"); }
static inline int i2s_cpu_avx512vpopcntdq(void) { return i2s_cpu_avx512bw() && I2S_HAS("avx512vpopcntdq"); }
#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11  /* older compilers do not know it */
#define I2S_KNOWS_AVXVNNI 1
static inline int i2s_cpu_avxvnni(void) { return I2S_HAS("avx2") && I2S_HAS("avxvnni"); }
#else
static inline int i2s_cpu_avxvnni(void) { return 0; }
#endif
/* Whether 512-bit vectors are done in halves: AMD's first with AVX-512 (family 19h). Asking takes long in a virtual machine. */
static inline int i2s_cpu_halves_avx512(void) {
    static int known = -1;
    if (known < 0) {
        unsigned a, b, c, d;
        __cpuid(0, a, b, c, d);
        const int amd = b == 0x68747541 && d == 0x69746E65 && c == 0x444D4163;
        __cpuid(1, a, b, c, d);
        known = amd && (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
    }
    return known;
}
static inline int i2s_cpu_neon(void) { return 0; }
static inline int i2s_cpu_dotprod(void) { return 0; }
#else
static inline int i2s_cpu_ssse3(void) { return 0; }
static inline int i2s_cpu_avx2(void) { return 0; }
static inline int i2s_cpu_popcnt(void) { return 0; }
static inline int i2s_cpu_f16c(void) { return 0; }
static inline int i2s_cpu_avx512bw(void) { return 0; }
static inline int i2s_cpu_avx512vnni(void) { return 0; }
static inline int i2s_cpu_avx512vpopcntdq(void) { return 0; }
static inline int i2s_cpu_avxvnni(void) { return 0; }
#if defined(__aarch64__)
static inline int i2s_cpu_neon(void) { return 1; }
#if defined(__linux__)
#include <sys/auxv.h>
static inline int i2s_cpu_dotprod(void) { return (getauxval(AT_HWCAP) & (1UL << 20)) != 0; }  /* HWCAP_ASIMDDP */
#elif defined(__APPLE__)
static inline int i2s_cpu_dotprod(void) { return 1; }  /* every Apple processor of this architecture has it */
#else
static inline int i2s_cpu_dotprod(void) { return 0; }
#endif
#else
static inline int i2s_cpu_neon(void) { return 0; }
static inline int i2s_cpu_dotprod(void) { return 0; }
#endif
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
