/* The portable kernels: plain C for every compiler and processor, in loops that compilers vectorise: one simple thing at a
 * time to a tile of memory that stays in the nearest cache, `restrict` where pointers are apart, constants where the common
 * layouts have them. What the parameters mean is said in kernels_body.h; `stream` means nothing here. */

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
