/* The payload kernels of AArch64. kernels_body.h explains the parameters; `stream` has no effect, because C has no
 * stores past the cache of this processor. Loads and stores of four vectors at once do the interleaving. */

#define I2S_INLINE static inline __attribute__((always_inline))

static inline uint8x16_t i2s_neon_bytes(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    const uint8_t x[16] = {a, b, c, d};
    return vld1q_u8(x);
}

/* Field p of vector q becomes field q of vector p; the first field is in the top bits. */
I2S_INLINE void i2s_neon_transpose(uint8x16_t v[4]) {
    const uint8x16_t pairs = vdupq_n_u8(0x33), nibbles = vdupq_n_u8(0x0F);
    uint8x16_t t;
    /* exchange fields 1 and 3 of the even vectors with fields 0 and 2 of the odd ones */
    t = vandq_u8(veorq_u8(v[0], vshrq_n_u8(v[1], 2)), pairs); v[0] = veorq_u8(v[0], t); v[1] = veorq_u8(v[1], vshlq_n_u8(t, 2));
    t = vandq_u8(veorq_u8(v[2], vshrq_n_u8(v[3], 2)), pairs); v[2] = veorq_u8(v[2], t); v[3] = veorq_u8(v[3], vshlq_n_u8(t, 2));
    /* exchange the low nibbles of the first two with the high nibbles of the last two */
    t = vandq_u8(veorq_u8(v[0], vshrq_n_u8(v[2], 4)), nibbles); v[0] = veorq_u8(v[0], t); v[2] = veorq_u8(v[2], vshlq_n_u8(t, 4));
    t = vandq_u8(veorq_u8(v[1], vshrq_n_u8(v[3], 4)), nibbles); v[1] = veorq_u8(v[1], t); v[3] = veorq_u8(v[3], vshlq_n_u8(t, 4));
}

#include "kernels_elements_neon.h"
#include "kernels_recode_neon.h"
#include "kernels_count_neon.h"

#undef I2S_INLINE
