/* An adapter in C99 written from the specification: decode and dequant of I2_S, without a hash or a JSON library.
 * cc -O2 -o adapter tests/peers/adapters/from_the_text.c && i2s conform run -- ./adapter */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The position after "key":. The runner's requests have no blanks there. */
static const char *value(const char *line, const char *key) {
    char head[64];
    snprintf(head, sizeof head, "\"%s\":", key);
    const char *at = strstr(line, head);
    return at ? at + strlen(head) : "";
}

/* A path, in which only quotes and backslashes are escaped. */
static void path_of(const char *line, const char *key, char *path, size_t size) {
    const char *at = value(value(line, key), "path");
    size_t n = 0;
    for (at += *at == '"'; *at && *at != '"' && n + 1 < size; at++)
        path[n++] = *at == '\\' ? *++at : *at;
    path[n] = 0;
}

static long seq;
static void reject(const char *phase) { printf("{\"seq\":%ld,\"rejected\":true,\"phase\":\"%s\"}\n", seq, phase); }

static void run(const char *line) {
    char in[4096], out[4096];
    path_of(line, "input", in, sizeof in);
    path_of(line, "output", out, sizeof out);
    char *end;
    size_t cols = strtoull(value(line, "shape") + 1, &end, 10), rows = strtoull(end + 1, NULL, 10);
    size_t count = cols * rows, size = count / 4;
    int arm = !strncmp(value(line, "layout"), "\"arm-64", 7), floats = !strncmp(value(line, "op"), "\"dequant", 8);
    size_t block = arm ? 64 : 128, step = block / 4; /* clause 5.5: blocks of 128 or 64 codes in 32 or 16 bytes */
    unsigned char *data = malloc(size + 33);
    FILE *file = fopen(in, "rb");
    size_t got = file && data ? fread(data, 1, size + 33, file) : 0;
    if (file) fclose(file);
    if (got != size + 32) { free(data); reject("extent"); return; }
    float scale;
    memcpy(&scale, data + size, 4); /* clause 6.1: the scale follows the codes */
    signed char *trits = calloc(count, 1);
    float *weights = calloc(count, sizeof *weights);
    for (size_t k = 0; k < count / block * block; k++) {
        int code = data[k / block * step + k % step] >> (6 - 2 * (k % block / step)) & 3;
        if (code == 3) { free(data); free(trits); free(weights); reject("payload"); return; }
        trits[k] = (signed char)(code - 1);
    }
    for (size_t k = 0; k < count; k++) weights[k] = (float)trits[k] * scale;
    file = fopen(out, "wb");
    if (file) {
        if (floats) fwrite(weights, sizeof *weights, count, file);
        else fwrite(trits, 1, count, file);
        fclose(file);
    }
    free(data), free(trits), free(weights);
    printf("{\"seq\":%ld,\"output\":true}\n", seq); /* the bytes are in the file: the runner computes their digest */
}

int main(void) {
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        if (strstr(line, "\"cmd\":\"stop\"")) break;
        seq = strtol(value(line, "seq"), NULL, 10);
        if (strstr(line, "\"cmd\":\"start\""))
            puts("{\"version\":1,\"implementation\":{\"name\":\"C, from the text\",\"version\":\"1\",\"language\":\"c\"},"
                 "\"ops\":[\"decode\",\"dequant\"],\"features\":[\"type.i2_s\",\"subnormals\",\"layout.x86-128\",\"layout.arm-64\","
                 "\"tail.replicated-8\",\"strict.codes\",\"strict.extent\"]}");
        else if (strstr(line, "\"cmd\":\"dialect\"")) puts("{\"ok\":true}");
        else run(line);
        fflush(stdout);
    }
    return 0;
}
