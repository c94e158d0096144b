// Runs kernels in CUDA C on a processor, a block at a time. Threads of a block are coroutines: each runs until it waits for
// its warp or its block. `i2s.cu` is included after this, and `EMULATED_KERNELS` lists its kernels.
#include <ucontext.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

struct Dimensions { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

struct Barrier {
  unsigned size = 0, waiting = 0, passed = 0;
};

struct Thread {
  ucontext_t context;
  Dimensions index;
  bool ended = false;
};

static Dimensions blockIdx, blockDim;
static ucontext_t scheduler;
static Thread *running;
static std::vector<Barrier> warps;
static Barrier whole_block;
static unsigned exchanged[1024][6]; // registers that a thread shows to its warp
#define threadIdx (running->index)

static void wait_at(Barrier &barrier) {
  const unsigned turn = barrier.passed;
  if (++barrier.waiting == barrier.size) {
    barrier.waiting = 0;
    barrier.passed++;
  }
  while (barrier.passed == turn) {
    swapcontext(&running->context, &scheduler);
  }
}

// What a thread of the warp shows; each reads it before any shows something else.
template <class Use> static void in_warp(const unsigned *shown, unsigned count, Use use) {
  Barrier &warp = warps[threadIdx.x / 32];
  std::memcpy(exchanged[threadIdx.x], shown, count * sizeof(unsigned));
  wait_at(warp);
  use(exchanged + threadIdx.x / 32 * 32);
  wait_at(warp);
}

#define __device__ static inline
#define __global__
#define __constant__ static const
#define __shared__ static
#define __forceinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads)
#define I2S_INSTRUCTIONS

static float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
static unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
static unsigned __clz(unsigned value) { return value ? __builtin_clz(value) : 32; }
static double __ddiv_rn(double a, double b) { return a / b; }
static float __double2float_rn(double value) { return static_cast<float>(value); }
static float __int2float_rn(int value) { return static_cast<float>(value); }
static int __float2int_rn(float value) {
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0f) return 2147483647;
  if (value < -2147483648.0f) return -2147483647 - 1;
  return static_cast<int>(std::nearbyint(value));
}
template <class Number> static Number max(Number a, Number b) { return a < b ? b : a; }
template <class Number> static Number min(Number a, Number b) { return b < a ? b : a; }
static uint4 __ldg(const uint4 *at) { return *at; }
static void atomicMax(unsigned *at, unsigned value) { *at = max(*at, value); }
static void atomicAdd(int *at, int value) { *at += value; }
static void __syncthreads() { wait_at(whole_block); }
static int __syncthreads_count(int condition) {
  static int total;
  total += condition != 0;
  wait_at(whole_block);
  const int found = total;
  wait_at(whole_block);
  if (threadIdx.x == 0) total = 0;
  wait_at(whole_block);
  return found;
}
static unsigned __reduce_max_sync(unsigned, unsigned value) {
  unsigned found = 0;
  in_warp(&value, 1, [&](unsigned (*of)[6]) { for (int i = 0; i < 32; i++) found = max(found, of[i][0]); });
  return found;
}
static int __reduce_add_sync(unsigned, int value) {
  unsigned found = 0, shown = value;
  in_warp(&shown, 1, [&](unsigned (*of)[6]) { for (int i = 0; i < 32; i++) found += of[i][0]; });
  return found;
}
static int __shfl_xor_sync(unsigned, int value, int apart) {
  unsigned found = 0, shown = value;
  in_warp(&shown, 1, [&](unsigned (*of)[6]) { found = of[threadIdx.x % 32 ^ apart][0]; });
  return found;
}

static float i2s_multiply(float a, float b) { return a * b; }
static float i2s_divide(float a, float b) { return a / b; }
static int int8_of(unsigned word, unsigned i) { return static_cast<signed char>(word >> 8 * i & 255); }
static int i2s_dp4a(unsigned a, unsigned b, int sum) {
  for (unsigned i = 0; i < 4; i++) sum += int8_of(a, i) * int8_of(b, i);
  return sum;
}
// The registers of mma.m16n8k32 as NVIDIA's PTX ISA draws them: with thread t = 4 g + p, register i of A has row g + 8 (i % 2)
// and columns 4 p + 16 (i / 2) on, that of B column g and rows 4 p + 16 i on, sum i has row g + 8 (i / 2), column 2 p + i % 2.
static void i2s_mma(int *sums, const unsigned *a, const unsigned *b) {
  const unsigned shown[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  in_warp(shown, 6, [&](unsigned (*of)[6]) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < 4; i++) {
      const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 32; k++) {
        const unsigned place = k % 16 / 4;
        sums[i] += int8_of(of[row % 8 * 4 + place][row / 8 + k / 16 * 2], k % 4) *
                   int8_of(of[column * 4 + place][4 + k / 16], k % 4);
      }
    }
  });
}

// A kernel with its arguments as cuLaunchKernel has them: a pointer to each.
struct Kernel {
  virtual ~Kernel() {}
  virtual void call(void **arguments) const = 0;
};
template <class... Arguments> struct Typed : Kernel {
  void (*function)(Arguments...);
  explicit Typed(void (*f)(Arguments...)) : function(f) {}
  template <std::size_t... I> void spread(void **arguments, std::index_sequence<I...>) const {
    function(*static_cast<std::remove_reference_t<Arguments> *>(arguments[I])...);
  }
  void call(void **arguments) const override { spread(arguments, std::index_sequence_for<Arguments...>()); }
};
template <class... Arguments> static std::unique_ptr<Kernel> typed(void (*function)(Arguments...)) {
  return std::make_unique<Typed<Arguments...>>(function);
}

static const Kernel *launched;
static void **launched_with;
static void run_thread() {
  launched->call(launched_with);
  running->ended = true;
}

static bool launch(const Kernel &kernel, unsigned grid_x, unsigned grid_y, unsigned block, void **arguments) {
  constexpr std::size_t stack = 1 << 16;
  const std::unique_ptr<char[]> stacks(new char[stack * block]);
  static bool backward; // every other block: a thread that does not wait for others finds nothing of theirs
  launched = &kernel;
  launched_with = arguments;
  blockDim = {block, 1, 1};
  for (unsigned y = 0; y < grid_y; y++) {
    for (unsigned x = 0; x < grid_x; x++) {
      blockIdx = {x, y, 0};
      backward = !backward;
      std::vector<Thread> threads(block);
      warps.assign((block + 31) / 32, Barrier{32, 0, 0});
      whole_block = Barrier{block, 0, 0};
      for (unsigned i = 0; i < block; i++) {
        threads[i].index = {i, 0, 0};
        getcontext(&threads[i].context);
        threads[i].context.uc_stack.ss_sp = stacks.get() + i * stack;
        threads[i].context.uc_stack.ss_size = stack;
        threads[i].context.uc_link = &scheduler;
        makecontext(&threads[i].context, run_thread, 0);
      }
      for (unsigned left = block, before = block + 1, idle = 0; left > 0;) {
        for (unsigned i = 0; i < block; i++) {
          Thread &thread = threads[backward ? block - 1 - i : i];
          if (thread.ended) continue;
          running = &thread;
          swapcontext(&scheduler, &thread.context);
          left -= thread.ended;
        }
        idle = left == before ? idle + 1 : 0;
        before = left;
        if (idle > 1u << 20) return false; // threads that wait for one that has ended
      }
    }
  }
  return true;
}
