"""CUDA C: decode, dequantise, codes of activations, and products, for one token and for many.

Like the shaders, the text is a definition to copy from. Unlike them it divides, because CUDA rounds divisions correctly,
and it has two products in the form in which a GPU is fast: `i2s_product_dp4a` and `i2s_product_mma`. Their sums are
integers, so every form gives the same bits.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.exports.wgsl import I2S, NO_TRIT, block_number, packed_trits
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, FOURTH_WEIGHT, GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.types import I2_S, TAIL_BYTES

#: The kernels, in the order of the text.
KERNELS: Final = (
    "i2s_decode",
    "i2s_dequantise",
    "i2s_codes",
    "i2s_product",
    "i2s_product_dp4a",
    "i2s_product_mma",
    "i2s_epilogue",
)


def text() -> str:
    """Return the kernels."""
    return "\n".join([_HEAD, _constants(), _TENSOR, _INSTRUCTIONS, _places(), _blocks(), _ELEMENT, _kernels(), _FAST])


def _constants() -> str:
    def enumerated(what: str, names: list[str]) -> str:
        members = [f"  I2S_{what}_{name.upper().replace('-', '_')}," for name in names]
        return "\n".join(["enum {", *members, "};", ""])

    kinds = [
        f"  I2S_KIND_{each.name} = {block_number(each)}, // type {each.type.number}" for each in GROUP_LAYOUTS.values()
    ]
    return "\n".join([
        f"enum {{ I2S_NO_TRIT = {NO_TRIT} }}; // the value of a code without a meaning",
        "enum {",
        f"  I2S_KIND = {I2S},",
        *kinds,
        "};",
        enumerated("LAYOUT", list(LAYOUTS)) + enumerated("CODE_MAP", list(CODE_MAPS)),
    ])  # fmt: skip


def _switch(head: str, on: str, cases: dict[int, str]) -> str:
    lines = [f"    case {number}: return {value};" for number, value in cases.items()]
    return "\n".join([f"__device__ {head} {{", f"  switch ({on}) {{", *lines, "    default: return 0;", "  }", "}", ""])


def _places() -> str:
    parameters = "(int order, i2s_size k, i2s_size rows, i2s_size cols)"
    each = list(enumerate(LAYOUTS.values()))
    return "\n".join([
        "// Byte of the payload that holds the code of element k (flat, row by row), and its shift there: clause 5.5.",
        _switch(f"i2s_size i2s_byte_of{parameters}", "order", {i: in_c(layout.byte_of.text) for i, layout in each}),
        _switch(f"i2s_size i2s_shift_of{parameters}", "order", {i: in_c(layout.shift_of.text) for i, layout in each}),
        "// The trits of the codes 0 to 3, plus 1, two bits each; 3 for the code without a meaning: clause 5.4.",
        _switch("unsigned i2s_trits_of(int code_map)", "code_map", {i: f"{trits}u" for i, trits in packed_trits().items()}),
    ])  # fmt: skip


def _blocks() -> str:
    places = ["  {1, 1, 0, 0, 0, 0, 0, 0, 0},"]
    for each in GROUP_LAYOUTS.values():
        scale = each.scale
        numbers = (
            each.block, each.nbytes, 0 if scale.apart else each.front_bytes, scale.offset, scale.nbytes,
            int(scale.per == "row"), int(scale.apart), int(each.coding == "digits"), int(each.fourth == "reserved"),
        )  # fmt: skip
        places.append(f"  {{{', '.join(map(str, numbers))}}},")
    numbered = [(block_number(each), each) for each in GROUP_LAYOUTS.values()]
    byte = {number: by_parts(each, "byte_of", in_c) for number, each in numbered}
    place = {number: by_parts(each, "place_of", in_c) for number, each in numbered}
    return "\n".join([
        _PLACE,
        "__constant__ I2sPlace i2s_places[] = { // by I2S_KIND",
        *places,
        "};",
        "",
        "// Byte of a block that holds the code of its element k, and which bits or which digit of it.",
        _switch("unsigned i2s_block_byte_of(int kind, unsigned k)", "kind", byte),
        _switch("unsigned i2s_block_place_of(int kind, unsigned k)", "kind", place),
    ])  # fmt: skip


_HEAD: Final = f"""\
// i2s.cu: I2_S tensors (type {I2_S.number}) and ternary types with a scale for each group. Written by
// `i2s schema --format cuda` from the schema of the I2_S specification, whose clauses the comments cite. Do not edit it;
// generate it again. SPDX-License-Identifier: MIT
//
// For nvcc and NVRTC, compute capability 8.0 or later. Blocks have a whole number of warps. Results do not depend on
// options of the compiler, -use_fast_math among them.

typedef unsigned long long i2s_size;
"""

_TENSOR: Final = """\
struct I2sTensor {
  const unsigned char *bytes; // as they are in the file
  i2s_size rows, cols;
  int kind, order, code_map; // of the constants; layout and code map are those of I2_S
  int big_endian;
};
"""

_INSTRUCTIONS: Final = """\
// Four instructions; define I2S_INSTRUCTIONS and these functions for a processor that has others.
#ifndef I2S_INSTRUCTIONS
// With -use_fast_math, which includes -ftz=true, __fmul_rn and __fdiv_rn flush subnormal numbers; these do not.
__device__ __forceinline__ float i2s_multiply(float a, float b) {
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

__device__ __forceinline__ float i2s_divide(float a, float b) {
  float quotient;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
  return quotient;
}

// sum + a b of four int8 each.
__device__ __forceinline__ int i2s_dp4a(unsigned a, unsigned b, int sum) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

// sums += a b, of 16 rows, 32 columns and 8 tokens, spread over the registers of a warp.
__device__ __forceinline__ void i2s_mma(int *sums, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
"""

_PLACE: Final = f"""\
// How a type with a scale for each group is packed: clause 5.6.
struct I2sPlace {{
  unsigned elements, bytes; // of a block
  unsigned front; // bytes of a row in front of its blocks
  unsigned scale, scale_bytes; // where the scale is: in the block, or in front of the row
  int per_row, apart; // apart: the scales of all rows follow all blocks
  int digits; // base 3, or two bits a code
  int reserved; // whether code {FOURTH_CODE} has no meaning
}};
"""

_ELEMENT: Final = f"""\
// A scale of two or four bytes as float32, which holds every half exactly.
__device__ float i2s_scale(const unsigned char *at, unsigned count, int big_endian) {{
  unsigned bits = 0;
  for (unsigned i = 0; i < count; i++) {{
    bits |= (unsigned)at[i] << 8 * (big_endian ? count - 1 - i : i);
  }}
  if (count == 4) {{
    return __uint_as_float(bits);
  }}
  const unsigned sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, low = bits & 1023;
  if (exponent == 31) {{
    return __uint_as_float(sign | 0x7f800000 | low << 13);
  }}
  if (exponent != 0) {{
    return __uint_as_float(sign | exponent + 112 << 23 | low << 13);
  }}
  if (low == 0) {{
    return __uint_as_float(sign);
  }}
  const unsigned shift = __clz(low) - 21; // until the highest bit is the one that is not stored
  return __uint_as_float(sign | 113 - shift << 23 | (low << shift & 1023) << 13);
}}

// The first byte of the row and of the block of element k.
__device__ const unsigned char *i2s_row_at(const I2sTensor &tensor, const I2sPlace &place, i2s_size k) {{
  return tensor.bytes + k / tensor.cols * (place.front + tensor.cols / place.elements * place.bytes);
}}

__device__ const unsigned char *i2s_block_at(const I2sTensor &tensor, const I2sPlace &place, i2s_size k) {{
  return i2s_row_at(tensor, place, k) + place.front + k % tensor.cols / place.elements * place.bytes;
}}

// The weight of element k without its scale; I2S_NO_TRIT for a code without a meaning.
__device__ int i2s_weight(const I2sTensor &tensor, i2s_size k) {{
  if (tensor.kind == I2S_KIND) {{
    const unsigned byte = tensor.bytes[i2s_byte_of(tensor.order, k, tensor.rows, tensor.cols)];
    const unsigned code = byte >> i2s_shift_of(tensor.order, k, tensor.rows, tensor.cols) & 3;
    const unsigned trit = i2s_trits_of(tensor.code_map) >> 2 * code & 3;
    return trit == 3 ? I2S_NO_TRIT : (int)trit - 1;
  }}
  const I2sPlace &place = i2s_places[tensor.kind];
  const unsigned inside = k % tensor.cols % place.elements;
  unsigned byte = i2s_block_at(tensor, place, k)[i2s_block_byte_of(tensor.kind, inside)];
  const unsigned bits = i2s_block_place_of(tensor.kind, inside);
  if (!place.digits) {{
    const int code = byte >> bits & 3;
    return code == {FOURTH_CODE} && place.reserved ? I2S_NO_TRIT : code - 1;
  }}
  for (unsigned i = 0; i < bits && i < {DIGITS_PER_BYTE - 1}; i++) {{
    byte = byte * 3 & 255;
  }}
  return (int)(byte * 3 >> 8) - 1;
}}

__device__ float i2s_scale_of(const I2sTensor &tensor, i2s_size k) {{
  if (tensor.kind == I2S_KIND) {{
    return i2s_scale(tensor.bytes + tensor.rows * tensor.cols / {CODES_PER_BYTE}, 4, tensor.big_endian);
  }}
  const I2sPlace &place = i2s_places[tensor.kind];
  const unsigned char *at = place.per_row ? i2s_row_at(tensor, place, k) : i2s_block_at(tensor, place, k);
  if (place.apart) {{
    const i2s_size row = k / tensor.cols;
    at = tensor.bytes + tensor.rows * (tensor.cols / place.elements * place.bytes) + row * place.scale_bytes;
  }}
  return i2s_scale(at + place.scale, place.scale_bytes, tensor.big_endian);
}}
"""


def _kernels() -> str:
    from i2s_spec.model.reference.bitlinear import FLOOR, LARGEST

    return f"""\
// The weight of each element as int8; one thread for each. A tensor of I2_S has {TAIL_BYTES} bytes after its payload.
extern "C" __global__ void i2s_decode(I2sTensor tensor, signed char *weights) {{
  const i2s_size k = (i2s_size)blockIdx.x * blockDim.x + threadIdx.x;
  if (k < tensor.rows * tensor.cols) {{
    weights[k] = (signed char)i2s_weight(tensor, k);
  }}
}}

// The weight of each element times its scale as float32.
extern "C" __global__ void i2s_dequantise(I2sTensor tensor, float *values) {{
  const i2s_size k = (i2s_size)blockIdx.x * blockDim.x + threadIdx.x;
  if (k < tensor.rows * tensor.cols) {{
    values[k] = i2s_multiply((float)i2s_weight(tensor, k), i2s_scale_of(tensor, k));
  }}
}}

// The codes of activations as int8, with the factor and the sum of the codes of each token; one block for each token:
// clause 9.8. Magnitudes are compared as the integers that have their bits, so a NaN is the greatest.
extern "C" __global__ void i2s_codes(const float *activations, signed char *codes, float *factors, int *sums,
                                     i2s_size cols) {{
  __shared__ unsigned greatest;
  __shared__ int total;
  const i2s_size first = blockIdx.x * cols;
  if (threadIdx.x == 0) {{
    greatest = 0;
    total = 0;
  }}
  __syncthreads();
  unsigned most = 0;
  for (i2s_size c = threadIdx.x; c < cols; c += blockDim.x) {{
    most = max(most, __float_as_uint(activations[first + c]) & 0x7fffffffu);
  }}
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) {{
    atomicMax(&greatest, most);
  }}
  __syncthreads();
  double amax = (double)__uint_as_float(greatest);
  if (amax < {FLOOR}) {{
    amax = {FLOOR};
  }}
  const float factor = __double2float_rn(__ddiv_rn({LARGEST}, amax));
  int sum = 0;
  for (i2s_size c = threadIdx.x; c < cols; c += blockDim.x) {{
    const int rounded = __float2int_rn(i2s_multiply(activations[first + c], factor)); // half to even; 0 for NaN
    const int code = min(max(rounded, -128), 127);
    codes[first + c] = (signed char)code;
    sum += code;
  }}
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) {{
    atomicAdd(&total, sum);
  }}
  __syncthreads();
  if (threadIdx.x == 0) {{
    factors[blockIdx.x] = factor;
    sums[blockIdx.x] = total;
  }}
}}

// For each token and row the sum of weights times codes, without scales; a warp for each. It takes every type, and code
// {FOURTH_CODE} counts as {FOURTH_WEIGHT}. The grid has rows in x and tokens in y.
extern "C" __global__ void i2s_product(I2sTensor tensor, const signed char *codes, int *products) {{
  const i2s_size row = (i2s_size)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= tensor.rows) {{
    return;
  }}
  int sum = 0;
  for (i2s_size c = threadIdx.x % 32; c < tensor.cols; c += 32) {{
    const int weight = i2s_weight(tensor, row * tensor.cols + c);
    sum += (weight == I2S_NO_TRIT ? {FOURTH_WEIGHT} : weight) * codes[blockIdx.y * tensor.cols + c];
  }}
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) {{
    products[blockIdx.y * tensor.rows + row] = sum;
  }}
}}
"""


_FAST: Final = """\
// The same for one token, for I2_S in interleave-128/offset-1; each thread takes 16 bytes at a time. Several matrices share
// a launch: blocks are numbered through, and matrix m has those from `first_block` on. Dynamic shared memory: as many bytes
// as the widest matrix has columns.
struct I2sProduct {
  const uint4 *weights; // rows of cols / 4 bytes; at a multiple of 16 bytes, as `codes`
  const uint4 *codes; // int8 of one token
  const int *sum; // of these codes
  int *products; // one for each row
  int rows, cols; // columns: a multiple of 128
  int threads; // of a row: 4, 8, 16 or 32
  int first_block; // of it, and of those before: the sum of ceil(rows * threads / threads of a block)
};

extern __shared__ uint4 i2s_shared_codes[];

extern "C" __global__ void i2s_product_dp4a(const I2sProduct *matrices, int count) {
  int m = -1; // each thread looks at another matrix
  for (int start = 0; start < count; start += blockDim.x) {
    const int i = start + threadIdx.x;
    m += __syncthreads_count(i < count && matrices[i].first_block <= (int)blockIdx.x);
  }
  const I2sProduct matrix = matrices[m];
  // 64 weights are in 16 bytes of a block, and belong to 16 columns in each of its quarters. Codes of a quarter that
  // neighboring threads need at the same time are side by side.
  const int chunks = matrix.cols / 64;
  for (int i = threadIdx.x; i < matrix.cols / 16; i += blockDim.x) {
    const int block = i / 8, quarter = i % 8 / 2, half = i % 2;
    i2s_shared_codes[quarter * chunks + 2 * block + half] = matrix.codes[i];
  }
  __syncthreads();
  const int row = (blockIdx.x - matrix.first_block) * (blockDim.x / matrix.threads) + threadIdx.x / matrix.threads;
  const int lane = threadIdx.x % matrix.threads;
  int sum = 0;
  if (row < matrix.rows) {
    const uint4 *weights = matrix.weights + (i2s_size)row * chunks;
#pragma unroll 4
    for (int chunk = lane; chunk < chunks; chunk += matrix.threads) {
      const uint4 w = __ldg(weights + chunk);
#pragma unroll
      for (int quarter = 0; quarter < 4; quarter++) {
        const uint4 q = i2s_shared_codes[quarter * chunks + chunk];
        const int shift = 6 - 2 * quarter;
        sum = i2s_dp4a(w.x >> shift & 0x03030303, q.x, sum);
        sum = i2s_dp4a(w.y >> shift & 0x03030303, q.y, sum);
        sum = i2s_dp4a(w.z >> shift & 0x03030303, q.z, sum);
        sum = i2s_dp4a(w.w >> shift & 0x03030303, q.w, sum);
      }
    }
  }
  for (int apart = matrix.threads / 2; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(~0u, sum, apart);
  }
  if (row < matrix.rows && lane == 0) {
    matrix.products[row] = sum - *matrix.sum; // codes are trits + 1
  }
}

// The same for many tokens, on tensor cores; rows: a multiple of 16. The order of interleave-128 is that of the registers
// of `mma`: the word at byte 4 t of a block of a row, shifted right by 6, 4, 2 and 0 bits, is what a thread with number
// t holds of the weights in columns 0, 32, 64 and 96 on. A block has 256 threads, for 128 rows (x) and 64 tokens (y).
struct I2sStep {
  uint4 codes[2];
  unsigned weights[4];
};

__device__ __forceinline__ void i2s_load(I2sStep &step, const uint4 *codes, const unsigned *weights, i2s_size rows_apart) {
  const uint4 none = {0, 0, 0, 0};
  step.codes[0] = codes ? codes[0] : none;
  step.codes[1] = codes ? codes[1] : none;
  step.weights[0] = weights ? weights[0] : 0; // of row g, and of row g + 8; then 16 columns further
  step.weights[1] = weights ? weights[rows_apart] : 0;
  step.weights[2] = weights ? weights[4] : 0;
  step.weights[3] = weights ? weights[rows_apart + 4] : 0;
}

extern "C" __global__ void __launch_bounds__(256) i2s_product_mma(const unsigned *weights, const signed char *codes,
                                                                  const int *sums, int *products, int rows, int cols,
                                                                  int tokens) {
  // The codes of 128 columns. 16 bytes more for each token, so that eight tokens are in different banks.
  __shared__ __align__(16) unsigned char tile[2][64][144];
  const int group = threadIdx.x % 32 / 4, place = threadIdx.x % 4;
  const int row = blockIdx.x * 128 + threadIdx.x / 32 * 16 + group, token = blockIdx.y * 64;
  const int line = threadIdx.x / 4, part = threadIdx.x % 4 * 32; // of the tile, which this thread fills
  const i2s_size words = cols / 16;
  const unsigned *from = row < rows ? weights + row * words + place : 0;
  const uint4 *next = token + line < tokens ? (const uint4 *)(codes + (i2s_size)(token + line) * cols + part) : 0;
  int sum[8][4] = {};
  I2sStep step;
  i2s_load(step, next, from, 8 * words);
  for (int block = 0; block < cols / 128; block++) {
    unsigned char(*now)[144] = tile[block % 2];
    uint4 *filled = (uint4 *)(now[line] + part);
    filled[0] = step.codes[0];
    filled[1] = step.codes[1];
    const unsigned packed[4] = {step.weights[0], step.weights[1], step.weights[2], step.weights[3]};
    __syncthreads();
    if (block + 1 < cols / 128) { // read while the tensor cores work
      from = from ? from + 8 : 0;
      next = next ? next + 8 : 0;
      i2s_load(step, next, from, 8 * words);
    }
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
      unsigned a[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        a[i] = packed[i] >> 6 - 2 * quarter & 0x03030303;
      }
#pragma unroll
      for (int n = 0; n < 8; n++) {
        const unsigned *q = (const unsigned *)(now[8 * n + group] + 32 * quarter) + place;
        const unsigned b[2] = {q[0], q[4]};
        i2s_mma(sum[n], a, b);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int at = token + 8 * n + 2 * place + i % 2;
      if (at < tokens && row < rows) {
        products[(i2s_size)at * rows + row + i / 2 * 8] = sum[n][i] - sums[at];
      }
    }
  }
}

// Sums as float32: divided by the factor of the token, times the scale of the tensor; three roundings.
extern "C" __global__ void i2s_epilogue(const int *products, const float *factors, float scale, float *values,
                                        i2s_size rows, i2s_size tokens) {
  const i2s_size at = (i2s_size)blockIdx.x * blockDim.x + threadIdx.x;
  if (at < rows * tokens) {
    values[at] = i2s_multiply(i2s_divide(__int2float_rn(products[at]), factors[at / rows]), scale);
  }
}
"""
