/* The payload kernels of x86, written once over 32-byte vectors and compiled for each instruction set.
 *
 * kernels.h includes this file once for each set, with I2S_NAME(x) (the suffix of the functions), I2S_TARGET (the function
 * attribute that switches the set on), I2S_WIDE (its widest vector of 64-bit words) and I2S_SEQUENTIAL, which may unpack the
 * first part of a sequential payload in another way, and says how many bytes. What the parameters mean:
 *
 * `group`, `lsb`: every layout is one scheme with two parameters. Bytes come in runs of `group`, and the four codes of byte
 * j of a run belong to elements j, group + j, 2 group + j and 3 group + j of a block of 4 group elements; the first of them
 * is in the top bits, or with `lsb` in the bottom bits. group is 32 for interleave-128, 16 for interleave-64, 1 for the
 * sequential layouts, the number of columns for rows-1x4, and a quarter of the elements for row-blocks-4.
 *
 * `map`: what an unpacked byte stands for. `remap`: NULL, or what i2s_remap_portable takes.
 *
 * `stream`: store past the cache, for a result that does not fit it. If the result is not aligned or the group is odd,
 * ordinary stores are used. If results are larger than payloads, `way` offers a third way: I2S_OWNED, ordinary stores
 * to lines that were prefetched.
 *
 * Memory is prefetched I2S_AHEAD bytes before its use: the computation on a line keeps the processor from detecting the
 * next lines early enough. Sums and maxima are computed in trees, because an operation may take two cycles.
 */

#define I2S_INLINE static inline __attribute__((always_inline)) I2S_TARGET

#include "kernels_vectors_body.h"
#include "kernels_elements_body.h"
#include "kernels_recode_body.h"
#include "kernels_count_body.h"

#undef I2S_INLINE
