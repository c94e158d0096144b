/* Which codes occur and how often, in plain C, and the probes of memory of the benchmarks. */

/* --- counting ------------------------------------------------------------------------------------------------------ */

/* Words side by side in several lanes: a compiler makes vectors of them, and an operation may take two cycles. */
enum { I2S_LANES = 8 };

static int i2s_scan_portable(const uint8_t *src, int64_t n, int code) {
    const uint64_t low = code & 1 ? 0 : ~(uint64_t)0, high = code & 2 ? 0 : ~(uint64_t)0, even = 0x5555555555555555u;
    int64_t rows, k;
    int q;
    for (; n >= 8 * I2S_LANES; n -= 8 * I2S_LANES * rows, src += 8 * I2S_LANES * rows) {
        uint64_t seen[I2S_LANES] = {0}, any = 0;
        rows = i2s_least(n / (8 * I2S_LANES), 1024);
        for (k = 0; k < rows; k++)
            for (q = 0; q < I2S_LANES; q++) {
                const uint64_t v = i2s_word(src + 8 * (I2S_LANES * k + q));
                seen[q] |= (v ^ low) & ((v >> 1) ^ high);
            }
        for (q = 0; q < I2S_LANES; q++) any |= seen[q] & even;
        if (any) return 1;
    }
    for (k = 0; k < n; k++)
        if (((src[k] ^ low) & ((src[k] >> 1) ^ high) & 0x55) != 0) return 1;
    return 0;
}

/* Two words, which compilers keep in a register of 16 bytes where the processor has them. */
typedef uint64_t i2s_two __attribute__((vector_size(16)));

static inline i2s_two i2s_two_at(const uint8_t *p) {
    i2s_two v;
    memcpy(&v, p, 16);
    return v;
}

/* Three of them to the counts, 2 bits wide, of their low bits, of their high bits, and of the fields that have both. */
static inline void i2s_count_three(const uint8_t *src, i2s_two count[3]) {
    const uint64_t even = 0x5555555555555555u;
    const i2s_two u = i2s_two_at(src), v = i2s_two_at(src + 16), w = i2s_two_at(src + 32);
    const i2s_two x = (u >> 1) & even, y = (v >> 1) & even, z = (w >> 1) & even;
    count[0] = (u & even) + (v & even) + (w & even);
    count[1] = x + y + z;
    count[2] = (x & u) + (y & v) + (z & w);
}

/* Two such counts to bytes; the sum of ten is still one byte. */
static inline i2s_two i2s_count_six(i2s_two a, i2s_two b) {
    const uint64_t pairs = 0x3333333333333333u, nibbles = 0x0F0F0F0F0F0F0F0Fu;
    const i2s_two sum = (a & pairs) + ((a >> 2) & pairs) + (b & pairs) + ((b >> 2) & pairs);
    return (sum & nibbles) + ((sum >> 4) & nibbles);
}

/* Counters 2 bits wide are added up to 4 bits, these to bytes, these to words of 16 bits, each before it could overflow. They
 * stay in registers: more counters side by side are in memory, and took three times as long in some runs. */
enum { I2S_SIX = 6 * 16, I2S_STEP = 10 * I2S_SIX };

static void i2s_count_steps(const uint8_t *src, int64_t steps, uint64_t sum[3]) {
    const uint64_t bytes = 0x00FF00FF00FF00FFu;
    i2s_two wide[3] = {{0}, {0}, {0}};
    int64_t s;
    int i, q;
    for (s = 0; s < steps; s++) {  /* at most 100 of at most 480 to a word of 16 bits */
        i2s_two narrow[3] = {{0}, {0}, {0}};
        for (i = 0; i < 10; i++, src += I2S_SIX) {
            i2s_two a[3], b[3];
            i2s_count_three(src, a);
            i2s_count_three(src + 48, b);
            for (q = 0; q < 3; q++) narrow[q] += i2s_count_six(a[q], b[q]);
        }
        for (q = 0; q < 3; q++) wide[q] += (narrow[q] & bytes) + ((narrow[q] >> 8) & bytes);
    }
    for (q = 0; q < 3; q++)
        for (i = 0; i < 64; i += 16) sum[q] += ((wide[q][0] >> i) & 0xFFFF) + ((wide[q][1] >> i) & 0xFFFF);
}

static inline unsigned i2s_popcount(uint64_t x) {
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

static void i2s_histogram_portable(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const uint64_t even = 0x5555555555555555u;
    uint64_t sum[3] = {0, 0, 0};  /* of low bits, high bits, both in one code */
    int64_t i = 0, steps;
    while ((steps = i2s_least((n - i) / I2S_STEP, 100)) > 0) {
        i2s_count_steps(src + i, steps, sum);
        i += steps * I2S_STEP;
    }
    while (i < n) {
        uint64_t v = 0;
        const int64_t part = i2s_least(n - i, 8);
        memcpy(&v, src + i, (size_t)part);
        sum[0] += i2s_popcount(v & even);
        sum[1] += i2s_popcount((v >> 1) & even);
        sum[2] += i2s_popcount(v & (v >> 1) & even);
        i += part;
    }
    count[1] = sum[0] - sum[2];
    count[2] = sum[1] - sum[2];
    count[3] = sum[2];
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

/* The read probe of the benchmarks: the speed of memory with nothing but an OR. */
static uint64_t i2s_read_portable(const uint8_t *src, int64_t n) {
    const int64_t rows = n / (8 * I2S_LANES);
    uint64_t seen[I2S_LANES] = {0};
    int64_t k;
    int q;
    for (k = 0; k < rows; k++)
        for (q = 0; q < I2S_LANES; q++) seen[q] |= i2s_word(src + 8 * (I2S_LANES * k + q));
    for (q = 1; q < I2S_LANES; q++) seen[0] |= seen[q];
    for (k *= 8 * I2S_LANES; k < n; k++) seen[0] |= src[k];
    return seen[0];
}

static void i2s_write_portable(uint8_t *dst, int64_t n) { memset(dst, 1, (size_t)n); }
