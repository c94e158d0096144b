/* The walker of GGUF headers that `i2s schema --format c` writes, under libFuzzer: it stays inside the given bytes, its
 * results are consistent, and it decodes every I2_S tensor in each layout or returns a status.
 */
#include <stdio.h>
#include <stdlib.h>

#include "i2s.h"

enum { MOST = 1 << 16 };

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "walker: %s\n", what);
    abort();
}

/* Decode a tensor in each layout, and pack it again: the codes must be equal. */
static void decoded(const uint8_t *data, size_t size, uint64_t rows, uint64_t cols) {
    const uint64_t n = rows * cols;
    int8_t *trits;
    uint8_t *again;
    int layout, map;
    if (n > MOST) return;
    trits = malloc(n);
    again = malloc(size);
    for (layout = 0; trits && again && layout < I2S_LAYOUTS; layout++) {
        for (map = 0; map < I2S_CODE_MAPS; map++) {
            uint64_t where = n;
            i2s_status status = i2s_decode(data, size, rows, cols, (i2s_layout)layout, (i2s_code_map)map, trits, &where);
            require(status != I2S_BAD_CODE || where < n, "the unused code is outside the tensor");
            if (status != I2S_OK) continue;
            status = i2s_encode(trits, 1.0f, rows, cols, (i2s_layout)layout, (i2s_code_map)map, I2S_FIRST_FLOAT, 0, again, size);
            require(status == I2S_OK, "what was decoded cannot be encoded");
            require(memcmp(data, again, size - I2S_TAIL_BYTES) == 0, "what is encoded again is other codes");
        }
    }
    free(trits);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gguf_file file;
    gguf_tensor_info info, found;
    i2s_status status = gguf_open(bytes, size, &file);
    uint64_t count = 0;
    if (status != I2S_OK) {
        require(status < I2S_END, "opening ends with I2S_END");
        return 0;
    }
    require(file.data_start % file.alignment == 0, "the data section is not aligned");
    while ((status = gguf_next(&file, &info)) == I2S_OK) {
        const uint8_t *data;
        size_t length;
        uint64_t rows, cols;
        char name[256];
        count++;
        require((const uint8_t *)info.name.bytes >= bytes, "a name begins before the file");
        require((const uint8_t *)info.name.bytes + info.name.length <= bytes + size, "a name ends behind the file");
        require(info.n_dims <= GGUF_MAX_DIMENSIONS, "too many dimensions");
        if (info.name.length < sizeof name && memchr(info.name.bytes, 0, info.name.length) == NULL) {
            memcpy(name, info.name.bytes, info.name.length);
            name[info.name.length] = 0;
            require(gguf_find(&file, name, &found) == I2S_OK, "a tensor is not found by its name");
        }
        if (i2s_find(&file, &info, &data, &length, &rows, &cols) != I2S_OK) continue;
        require(data >= bytes && data + length <= bytes + size, "a tensor lies outside the file");
        decoded(data, length, rows, cols);
    }
    require(status == I2S_END && count == file.header.tensor_count, "not every tensor was given");
    return 0;
}
