// The decoders of mlx-kquant for processors, as functions that `i2s conform run --ctypes` calls: each of a whole tensor.
// Compiled with the folder of its source on the path of includes.
#include "kquant_cpu_decode.cpp"

#define DECODER(name)                                                               \
    extern "C" void decode_##name(const uint8_t *data, float *weights, long count) { \
        mlx_kquant::dequantize_##name<float>(data, weights, count);                  \
    }

DECODER(q2_0)
DECODER(pq2_0)
DECODER(ptq1_0)
