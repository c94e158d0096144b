/* Prints what i2s.h finds in a file: header, alignment, every tensor; of each I2_S tensor the scale and a checksum of its
 * trits under every layout and code map, or the status of the decoder. */
#include "i2s.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t checksum(const int8_t *trits, uint64_t n)
{
    uint32_t sum = 2166136261u;
    for (uint64_t k = 0; k < n; k++)
        sum = (sum ^ (uint8_t)trits[k]) * 16777619u;
    return sum;
}

static i2s_status tensor(const gguf_file *file, const gguf_tensor_info *info)
{
    const uint8_t *data;
    size_t size;
    uint64_t rows, cols, where = 0;
    i2s_status status = i2s_find(file, info, &data, &size, &rows, &cols);
    if (status != I2S_OK)
        return status;
    uint64_t n = rows * cols;
    float scale = i2s_scale(data, n, file->next.big_endian);
    printf(" %llu %llu %.9g", (unsigned long long)rows, (unsigned long long)cols, (double)scale);
    int8_t *trits = (int8_t *)malloc(n), *again = (int8_t *)malloc(n);
    uint8_t *packed = (uint8_t *)malloc(size);
    if (!trits || !again || !packed)
        abort();
    for (int layout = 0; layout < I2S_LAYOUTS; layout++)
        for (int map = 0; map < I2S_CODE_MAPS; map++) {
            status = i2s_decode(data, size, rows, cols, (i2s_layout)layout, (i2s_code_map)map, trits, &where);
            if (status == I2S_OK) {
                printf(" %08x", checksum(trits, n));
                /* what was decoded is encoded to the same codes, and decoded again */
                if (i2s_encode(trits, scale, rows, cols, (i2s_layout)layout, (i2s_code_map)map, I2S_FIRST_FLOAT,
                               file->next.big_endian, packed, size) != I2S_OK ||
                    memcmp(packed, data, n / 4 + 4) != 0)
                    abort();
            } else if (status == I2S_BAD_CODE)
                printf(" code@%llu", (unsigned long long)where);
            else
                printf(" shape");
        }
    free(trits), free(again), free(packed);
    return I2S_OK;
}

/* Whether a tensor of a block type is in the file; other types are not looked at. */
static i2s_status blocks(const gguf_file *file, const gguf_tensor_info *info)
{
    const uint8_t *data;
    size_t size;
    uint64_t rows, cols;
    i2s_block_type type;
    i2s_status status = i2s_block_find(file, info, &type, &data, &size, &rows, &cols);
    return status == I2S_BAD_VALUE ? I2S_OK : status;
}

int main(int argc, char **argv)
{
    (void)argc;
    FILE *from = fopen(argv[1], "rb");
    if (!from)
        return 9;
    fseek(from, 0, SEEK_END);
    size_t size = (size_t)ftell(from);
    rewind(from);
    void *bytes = malloc(size ? size : 1);
    if (!bytes || fread(bytes, 1, size, from) != size)
        return 9;
    fclose(from);

    gguf_file file;
    gguf_tensor_info info;
    i2s_status status = gguf_open(bytes, size, &file);
    if (status != I2S_OK) {
        printf("status %d\n", status);
        free(bytes);
        return 1;
    }
    printf("version %u alignment %llu data %llu\n", file.header.version, (unsigned long long)file.alignment,
           (unsigned long long)file.data_start);
    while ((status = gguf_next(&file, &info)) == I2S_OK) {
        printf("%.*s %d %llu", (int)info.name.length, info.name.bytes, info.type, (unsigned long long)info.offset);
        status = info.type == I2S_TYPE ? tensor(&file, &info) : blocks(&file, &info);
        if (status != I2S_OK)
            printf(" status %d", status);
        printf("\n");
    }
    free(bytes);
    return status == I2S_END ? 0 : 1;
}
