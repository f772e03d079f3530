// Measures what a processor can do at most: bytes read from memory, and multiply-adds in
// registers with every instruction for them that it has.
//
//   limits THREADS      prints a line for each limit of all threads: number, unit, name
//
// Each thread reads memory of its own, more than caches hold. 12 sums are independent:
// two units times a latency of 4 to 5 cycles want at least 10.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define BYTES ((size_t)256 << 20)
#define PASSES 3
#define SUMS 12
#define STEPS 20000000L
#define TILE_STEPS 2000000L

typedef long words __attribute__((vector_size(32)));

static pthread_barrier_t together;
static words *memory[256];
static volatile long sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void read_all(int thread) {
  words sum[4] = {{0}};
  for (int pass = 0; pass < PASSES; pass++)
    for (size_t i = 0; i < BYTES / sizeof(words); i += 4)
      for (int j = 0; j < 4; j++) sum[j] ^= memory[thread][i + j];
  sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
  sink = sum[0][0];
}

// A function that repeats one instruction. The empty assembly keeps the compiler from
// computing the sums in advance, and from leaving them out.
#define REPEAT(name, type, start, step)                            \
  static void name(int thread) {                                   \
    (void)thread;                                                  \
    type sum[SUMS], one = start;                                   \
    for (int j = 0; j < SUMS; j++) sum[j] = start;                 \
    for (long i = 0; i < STEPS; i++) {                             \
      __asm__ volatile("" : "+v"(one));                            \
      for (int j = 0; j < SUMS; j++) sum[j] = step;                \
    }                                                              \
    for (int j = 0; j < SUMS; j++) __asm__ volatile("" ::"v"(sum[j])); \
  }

#ifdef __FMA__
REPEAT(fma_ymm, __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps(sum[j], one, one))
#endif
#ifdef __AVX512F__
REPEAT(fma_zmm, __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps(sum[j], one, one))
#endif
#ifdef __AVX512BF16__
REPEAT(dot_bf16, __m512, _mm512_setzero_ps(),
       _mm512_dpbf16_ps(sum[j], (__m512bh)one, (__m512bh)one))
#endif
#ifdef __AVX512VNNI__
REPEAT(dot_i8, __m512i, _mm512_set1_epi8(1), _mm512_dpbusd_epi32(sum[j], one, one))
#endif

#if defined(__AMX_BF16__) && defined(__AMX_INT8__)
typedef struct {
  unsigned char palette, start_row, zero[14];
  unsigned short row_bytes[16];
  unsigned char rows[16];
} shapes;

// Four tiles of sums, 16 rows of 64 bytes each, and two tiles that are multiplied.
#define REPEAT_TILES(name, product)                                      \
  static void name(int thread) {                                         \
    (void)thread;                                                        \
    shapes six = {.palette = 1};                                         \
    for (int i = 0; i < 6; i++) six.row_bytes[i] = 64, six.rows[i] = 16; \
    _tile_loadconfig(&six);                                              \
    for (long i = 0; i < TILE_STEPS; i++) {                              \
      product(0, 4, 5);                                                  \
      product(1, 4, 5);                                                  \
      product(2, 4, 5);                                                  \
      product(3, 4, 5);                                                  \
    }                                                                    \
    _tile_release();                                                     \
  }
REPEAT_TILES(amx_bf16, _tile_dpbf16ps)
REPEAT_TILES(amx_i8, _tile_dpbssd)
#endif

static const struct {
  const char *name, *unit;
  void (*run)(int thread);
  double work;  // of one thread: bytes, or twice the multiply-adds
} limits[] = {
    {"memory", "GB/s", read_all, (double)BYTES * PASSES},
#ifdef __FMA__
    {"f32 ymm", "GFLOP/s", fma_ymm, 2.0 * 8 * SUMS * STEPS},
#endif
#ifdef __AVX512F__
    {"f32 zmm", "GFLOP/s", fma_zmm, 2.0 * 16 * SUMS * STEPS},
#endif
#ifdef __AVX512BF16__
    {"vdpbf16ps", "GFLOP/s", dot_bf16, 2.0 * 32 * SUMS * STEPS},
#endif
#ifdef __AVX512VNNI__
    {"vpdpbusd", "GOP/s", dot_i8, 2.0 * 64 * SUMS * STEPS},
#endif
#if defined(__AMX_BF16__) && defined(__AMX_INT8__)
    {"AMX bf16", "GFLOP/s", amx_bf16, 4.0 * 2 * 16 * 16 * 32 * TILE_STEPS},
    {"AMX i8", "GOP/s", amx_i8, 4.0 * 2 * 16 * 16 * 64 * TILE_STEPS},
#endif
};
#define COUNT (sizeof(limits) / sizeof(*limits))

static double taken[COUNT];

static void *run_all(void *number) {
  int thread = (int)(long)number;
  memory[thread] = aligned_alloc(64, BYTES);
  if (!memory[thread]) exit(1);
  memset(memory[thread], 1, BYTES);
  for (size_t i = 0; i < COUNT; i++) {
    pthread_barrier_wait(&together);
    double start = now();
    limits[i].run(thread);
    pthread_barrier_wait(&together);
    if (thread == 0) taken[i] = now() - start;
  }
  free(memory[thread]);
  return NULL;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > 256) return 2;
#ifdef __AMX_TILE__
  // Linux gives a process the tiles only if it asks for them: arch_prctl, feature 18.
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1;
#endif
  pthread_t ids[256];
  pthread_barrier_init(&together, NULL, threads);
  for (long i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, run_all, (void *)i)) return 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < COUNT; i++) {
    double each_s = limits[i].work * threads / taken[i] * 1e-9;
    printf("%.3f %s %s\n", each_s, limits[i].unit, limits[i].name);
  }
  return 0;
}
