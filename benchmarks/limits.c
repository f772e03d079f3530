// What a processor can do at most: bytes read from memory, f32 multiply-adds in registers.
//
//   limits THREADS      prints GB/s of all threads, and GFLOP/s of all threads
//
// Each thread reads memory of its own, more than caches hold. 12 sums are independent:
// two units times a latency of 4 to 5 cycles want at least 10.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
#define WIDTH 64
#else
#define WIDTH 32
#endif
#define BYTES ((size_t)256 << 20)
#define PASSES 3
#define SUMS 12
#define STEPS 80000000L

typedef float floats __attribute__((vector_size(WIDTH)));
typedef unsigned long words __attribute__((vector_size(WIDTH)));

static pthread_barrier_t together;
static volatile float factor = 0.999f, term = 1e-3f;
static volatile unsigned long sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void read_all(const words *from) {
  words sum[4] = {{0}};
  for (size_t i = 0; i < BYTES / WIDTH; i += 4)
    for (int j = 0; j < 4; j++) sum[j] ^= from[i + j];
  sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
  sink = sum[0][0];
}

static void multiply_add(void) {
  floats sum[SUMS], a, b;
  for (int j = 0; j < WIDTH / 4; j++) a[j] = factor, b[j] = term;
  for (int j = 0; j < SUMS; j++) sum[j] = b * (float)j;
  for (long i = 0; i < STEPS; i++)
    for (int j = 0; j < SUMS; j++) sum[j] = sum[j] * a + b;
  for (int j = 1; j < SUMS; j++) sum[0] += sum[j];
  sink = (unsigned long)sum[0][0];
}

static void *thread(void *times) {
  words *memory = aligned_alloc(WIDTH, BYTES);
  if (!memory) exit(1);
  memset(memory, 1, BYTES);
  double *taken = times;
  pthread_barrier_wait(&together);
  double start = now();
  for (int i = 0; i < PASSES; i++) read_all(memory);
  pthread_barrier_wait(&together);
  taken[0] = now() - start;
  start = now();
  multiply_add();
  pthread_barrier_wait(&together);
  taken[1] = now() - start;
  free(memory);
  return NULL;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > 256) return 2;
  pthread_t ids[256];
  double taken[256][2];
  pthread_barrier_init(&together, NULL, threads);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, thread, taken[i])) return 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  double flops = 2.0 * STEPS * SUMS * (WIDTH / 4) * threads;
  printf("%.3f %.3f\n", (double)BYTES * PASSES * threads / taken[0][0] * 1e-9,
         flops / taken[0][1] * 1e-9);
  return 0;
}
