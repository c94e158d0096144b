/* A decoder for `i2s conform run --ctypes`, made of the C header that `i2s schema --format c` writes:
 *
 * i2s schema --format c -o i2s.h && cc -O2 -shared -fPIC -o libheader.so tests/peers/adapters/from_the_header.c
 * i2s conform run --ctypes ./libheader.so:decode --signature "int(u8*,i8*,u64,u64)" */
#include "i2s.h"

int decode(const uint8_t *data, int8_t *trits, uint64_t rows, uint64_t cols);
int dequantize(const uint8_t *data, float *weights, uint64_t rows, uint64_t cols);

int decode(const uint8_t *data, int8_t *trits, uint64_t rows, uint64_t cols)
{
    size_t size = (size_t)i2s_tensor_bytes(rows * cols); /* a function of this form gets no size */
    return (int)i2s_decode(data, size, rows, cols, I2S_INTERLEAVE_128, I2S_OFFSET_1, trits, NULL);
}

int dequantize(const uint8_t *data, float *weights, uint64_t rows, uint64_t cols)
{
    float scale = i2s_scale(data, rows * cols, 0);
    for (uint64_t k = 0; k < rows * cols; k++)
        weights[k] = (float)(i2s_trits[I2S_OFFSET_1][i2s_code(data, k, rows, cols, I2S_INTERLEAVE_128)]) * scale;
    return 0;
}
