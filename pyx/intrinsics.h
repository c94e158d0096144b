/* All intrinsics of x86-64, independent of the file's target: each set of kernels has a target of its own.
 *
 * When Clang replaces Microsoft's compiler, <immintrin.h> omits what the whole file may not use. Its parts are headers
 * of Clang, in this order; each can be included again. */
#ifndef I2S_INTRINSICS_H
#define I2S_INTRINSICS_H
#include <immintrin.h>
#if defined(_MSC_VER) && defined(__clang__)
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <bmi2intrin.h>
#include <lzcntintrin.h>
#include <popcntintrin.h>
#include <fmaintrin.h>
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#include <avx512bitalgintrin.h>
#include <avx512cdintrin.h>
#include <avx512vpopcntdqintrin.h>
#include <avx512vpopcntdqvlintrin.h>
#include <avx512vnniintrin.h>
#include <avx512vlvnniintrin.h>
#if __clang_major__ >= 12
#include <avxvnniintrin.h>
#endif
#include <avx512dqintrin.h>
#include <avx512vlbitalgintrin.h>
#include <avx512vlbwintrin.h>
#include <avx512vlcdintrin.h>
#include <avx512vldqintrin.h>
#include <avx512vbmiintrin.h>
#include <avx512vbmivlintrin.h>
#include <avx512vbmi2intrin.h>
#include <avx512vlvbmi2intrin.h>
#endif
#endif
