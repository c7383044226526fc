// ss FILE KEY_BYTES K ROUNDS: feeds the keys in FILE to a Space-Saving tracker, ROUNDS + 1 times;
// the first round warms up. Prints updates per second and the largest counters.
#pragma GCC optimize("O3")
#include <stdio.h>
#include <time.h>
#include "space-saving.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv) {
  if (argc < 5) return 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file) return 1;
  uint32_t bytes = atoi(argv[2]), rounds = atoi(argv[4]);
  fseek(file, 0, SEEK_END);
  size_t size = ftell(file), count = size / bytes;
  rewind(file);
  uint8_t *keys = malloc(size + 64);
  if (fread(keys, 1, size, file) != size) return 1;
  tracker_t *t = tracker_new(atoi(argv[3]));
  double start = 0;
  for (uint32_t round = 0; round <= rounds; round++) {
    if (round == 1) start = now();
    for (size_t i = 0; i < count; i++) {
      const uint8_t *key = keys + i * bytes;
      if (bytes == 20) count_address(t, key, finish(sum_address(key)));
      else count_slot(t, key, key + 20, finish(sum_address(key) + sum_slot(key + 20)));
    }
  }
  double secs = now() - start;
  counter_t *top[10];
  uint32_t n = tracker_top(t, bytes, 10, top);
  printf("{\"perSecond\":%.0f,\"counts\":[", count * rounds / secs);
  for (uint32_t i = 0; i < n; i++)
    printf("%s%llu", i ? "," : "", (unsigned long long)t->buckets[top[i]->bucket].count);
  printf("]}\n");
}
