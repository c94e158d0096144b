/* The part of the ternary products that other extensions use: the kernel table and the threads, one set for each
 * process.
 *
 * `_matmul` offers a pointer to this as a capsule; `_fast` takes it. Both are compiled from the same headers.
 */
#ifndef I2S_MATMUL_INTERFACE_H
#define I2S_MATMUL_INTERFACE_H

#include "matmul.h"

typedef struct {
    const i2s_matmul_set *sets;
    void (*run)(i2s_pool_part run, void *job, int64_t parts, int64_t threads);
} i2s_matmul_interface;

static inline void i2s_matmul_offer(i2s_matmul_interface *to) {
    to->sets = i2s_matmul_sets;
    to->run = i2s_pool_run;
}

#endif
