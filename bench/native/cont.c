// cont FILE ROUNDS: analyses the block whose ring records are in FILE, ROUNDS times after a warm-up.
// Prints milliseconds per block (median) and ContentionData.
#pragma GCC optimize("O3")
#include <time.h>
#include "encode.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static int compare(const void *a, const void *b) { double p = *(double *)a, q = *(double *)b; return p < q ? -1 : p > q; }
int main(int argc, char **argv) {
  if (argc < 3) return 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file) return 1;
  fseek(file, 0, SEEK_END);
  size_t size = ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size + 64);
  if (fread(bytes, 1, size, file) != size) return 1;
  int rounds = atoi(argv[2]);
  double *ms = calloc(rounds + 1, 8);
  static char text[65536];
  contention_init(size / 84 + 1, 1 << 17, size);
  for (int round = 0; round <= rounds; round++) {
    double start = now();
    scan_begin();
    for (size_t at = 0; at < size;) {
      uint32_t length = word(bytes + at) & 0x1ffff;
      if (!(word(bytes + at) & 0xa0000000u)) scan_record(bytes + at, length - 16);
      at += (length + 15) & ~7u;
    }
    contend();
    text[encode_contention(text, 1, 1000000)] = 0;
    if (round) ms[round - 1] = now() - start;
  }
  qsort(ms, rounds, 8, compare);
  printf("{\"ms\":%.4f,\"contention\":%s}\n", ms[rounds / 2], text);
}
