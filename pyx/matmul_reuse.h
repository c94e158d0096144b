/* Whether weights come from memory or are still in cache, estimated from when they were last read.
 *
 * The fastest kernel for weights in cache is not the fastest for weights from memory, and only the history of calls
 * tells where they are. So for each product the address of its weights is recorded with the number of bytes of weights
 * read until then; if fewer than half of the last cache were read since, they are assumed to be in it. The result does
 * not depend on it, so the estimate may be wrong: for an entry that another address replaced, or for a new buffer.
 */
#ifndef I2S_MATMUL_REUSE_H
#define I2S_MATMUL_REUSE_H

#include <stdint.h>

#if defined(_WIN32)

static int i2s_reuse_far(const void *weights, int64_t bytes) {
    (void)weights, (void)bytes;
    return 0;
}

#else

#include <stdatomic.h>
#include <unistd.h>

#include "cpu.h"

#define I2S_REUSE_ENTRIES 1024
#define I2S_REUSE_CACHE (16 << 20) /* assumed bytes of a cache of unknown size */

static struct {
    _Atomic uintptr_t weights;
    _Atomic uint64_t read_before;
} i2s_reuse[I2S_REUSE_ENTRIES];
static _Atomic uint64_t i2s_reuse_read = 1;

static int64_t i2s_reuse_limit(void) {
    static _Atomic int64_t known; /* the query is slow in a virtual machine */
    int64_t limit = atomic_load_explicit(&known, memory_order_relaxed);
    if (limit == 0) {
        int64_t cache = i2s_cpu_amd_last_cache();
#if defined(_SC_LEVEL3_CACHE_SIZE)
        if (cache <= 0) cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        limit = (cache > 0 ? cache : I2S_REUSE_CACHE) / 2;
        atomic_store_explicit(&known, limit, memory_order_relaxed);
    }
    return limit;
}

/* Record that these weights are read now, and return whether that was long ago, or never. */
static int i2s_reuse_far(const void *weights, int64_t bytes) {
    const uintptr_t address = (uintptr_t)weights;
    const uint64_t entry = (uint64_t)address * UINT64_C(0x9E3779B97F4A7C15) >> 54;
    const uint64_t now = atomic_fetch_add_explicit(&i2s_reuse_read, (uint64_t)bytes, memory_order_relaxed);
    const uintptr_t was = atomic_exchange_explicit(&i2s_reuse[entry].weights, address, memory_order_relaxed);
    const uint64_t before = atomic_exchange_explicit(&i2s_reuse[entry].read_before, now, memory_order_relaxed);
    return was != address || now - before > (uint64_t)i2s_reuse_limit();
}

#endif
#endif
