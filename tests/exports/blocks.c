/* Decodes every ternary tensor with a scale for each group that i2s.h finds in a file, or raw bytes as one matrix:
 * blocks FILE, or blocks FILE type rows cols big-endian. Writes weights as int8, then scales as float32, to stdout. */
#include "i2s.h"

#include <stdio.h>
#include <stdlib.h>

static int decoded(const uint8_t *data, size_t size, uint64_t rows, uint64_t cols, i2s_block_type type, int big_endian)
{
    uint64_t where = 0, groups = i2s_block_groups(type, rows, cols);
    int8_t *weights = malloc(rows * cols);
    float *scales = malloc(groups * sizeof *scales);
    if (!weights || !scales)
        abort();
    i2s_status status = i2s_block_decode(data, size, rows, cols, type, big_endian, weights, scales, &where);
    fprintf(stderr, "%s %d %llu %llu %llu\n", i2s_block_layouts[type].name, status, (unsigned long long)rows,
            (unsigned long long)cols, (unsigned long long)where);
    if (status == I2S_OK) {
        fwrite(weights, 1, rows * cols, stdout);
        fwrite(scales, sizeof *scales, groups, stdout);
    }
    free(weights), free(scales);
    return status;
}

int main(int argc, char **argv)
{
    FILE *from = fopen(argv[1], "rb");
    if (!from)
        return 9;
    fseek(from, 0, SEEK_END);
    size_t size = (size_t)ftell(from);
    rewind(from);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes || fread(bytes, 1, size, from) != size)
        return 9;
    fclose(from);
    if (argc == 6) {
        i2s_block_type type = 0;
        while (type < I2S_BLOCK_TYPES && strcmp(i2s_block_layouts[type].name, argv[2]))
            type++;
        uint64_t rows = strtoull(argv[3], 0, 10), cols = strtoull(argv[4], 0, 10);
        if (i2s_block_tensor_bytes(type, rows, cols) != size)
            return 8;
        decoded(bytes, size, rows, cols, type, argv[5][0] == '1');
    } else {
        gguf_file file;
        gguf_tensor_info info;
        if (gguf_open(bytes, size, &file) != I2S_OK)
            return 1;
        while (gguf_next(&file, &info) == I2S_OK) {
            const uint8_t *data;
            size_t length;
            uint64_t rows, cols;
            i2s_block_type type;
            i2s_status status = i2s_block_find(&file, &info, &type, &data, &length, &rows, &cols);
            fprintf(stderr, "%.*s ", (int)info.name.length, info.name.bytes);
            if (status == I2S_OK)
                decoded(data, length, rows, cols, type, file.next.big_endian);
            else
                fprintf(stderr, "status %d\n", status);
        }
    }
    free(bytes);
    return 0;
}
