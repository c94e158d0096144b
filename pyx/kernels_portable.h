/* The portable kernels: plain C for every compiler and processor, in loops that compilers vectorize: one simple
 * operation at a time on a tile of memory that stays in the nearest cache, `restrict` for distinct pointers, constants
 * for the common layouts. kernels_body.h explains the parameters; `stream` has no effect here. */

#define I2S_TILE 4096

#if defined(__GNUC__) || defined(_MSC_VER)
#define I2S_RESTRICT __restrict
#else
#define I2S_RESTRICT restrict
#endif

static inline uint64_t i2s_word(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline void i2s_put(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }

static inline int64_t i2s_least(int64_t a, int64_t b) { return a < b ? a : b; }

#include "kernels_elements_portable.h"
#include "kernels_recode_portable.h"
#include "kernels_count_portable.h"
