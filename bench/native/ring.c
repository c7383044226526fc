// ring MODE SECONDS WORDS: a ring of fixed slots between two pthreads, as fast as C can have it.
// Modes: one = published record by record; batch = by 32; poll = one-way latency, polling reader;
// sleep = one-way latency, the reader sleeps in a futex. Prints one JSON object.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 4096u
#define SAMPLES_MAX 2000000
#define PACE_NS 50000

static _Alignas(128) atomic_uint head;
static _Alignas(128) atomic_uint tail;
static _Alignas(128) atomic_uint asleep;
static _Alignas(128) atomic_int stopped;
static uint32_t *slots;
static int words, is_latency, is_sleeping, batch;
static double seconds;
static uint32_t written, written_sum;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void wake(void) {
  if (!is_sleeping || atomic_load(&asleep) == 0) return;
  atomic_store(&asleep, 0);
  syscall(SYS_futex, &asleep, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void *produce(void *unused) {
  (void)unused;
  uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
  uint32_t at = 0, seen = 0, sum = 0;
  for (;;) {
    if (is_latency) {
      uint64_t due = now_ns() + PACE_NS;
      while (now_ns() < due) {}
      if (now_ns() > end) break;
    } else if ((at & 255) == 0 && now_ns() > end) break;
    for (int b = 0; b < batch; b++) {
      while (at - seen >= SLOTS) seen = atomic_load_explicit(&tail, memory_order_acquire);
      uint32_t *slot = slots + (size_t)(at & (SLOTS - 1)) * words;
      if (is_latency) *(uint64_t *)slot = now_ns();
      else {
        for (int i = 0; i < words; i++) slot[i] = at + i;
        sum += 3 * at + words - 1 + (at & (words - 1));
      }
      at++;
    }
    atomic_store_explicit(&head, at, is_sleeping ? memory_order_seq_cst : memory_order_release);
    wake();
  }
  written = at;
  written_sum = sum;
  atomic_store(&stopped, 1);
  wake();
  return 0;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

int main(int count, char **values) {
  if (count != 4) return 2;
  is_sleeping = !strcmp(values[1], "sleep");
  is_latency = is_sleeping || !strcmp(values[1], "poll");
  batch = !strcmp(values[1], "batch") ? 32 : 1;
  seconds = atof(values[2]);
  words = atoi(values[3]);
  slots = aligned_alloc(128, (size_t)SLOTS * words * 4);
  memset(slots, 0, (size_t)SLOTS * words * 4);
  uint64_t *samples = malloc(SAMPLES_MAX * sizeof *samples);
  pthread_t producer;
  pthread_create(&producer, 0, produce, 0);
  uint32_t at = 0, sum = 0;
  uint64_t began = 0;
  for (;;) {
    uint32_t end = atomic_load_explicit(&head, memory_order_acquire);
    if (end == at) {
      if (atomic_load(&stopped) && atomic_load(&head) == at) break;
      if (is_sleeping) {
        atomic_store(&asleep, 1);
        if (atomic_load(&head) == at && !atomic_load(&stopped))
          syscall(SYS_futex, &asleep, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0);
      }
      continue;
    }
    if (began == 0) began = now_ns();
    for (; at != end; at++) {
      uint32_t *slot = slots + (size_t)(at & (SLOTS - 1)) * words;
      if (!is_latency) sum += slot[0] + slot[words - 1] + slot[at & (words - 1)];
      else if (at < SAMPLES_MAX) samples[at] = now_ns() - *(uint64_t *)slot;
    }
    atomic_store_explicit(&tail, at, memory_order_release);
  }
  double took = (double)(now_ns() - began);
  pthread_join(producer, 0);
  printf("{\"ops\":%.0f,\"read\":%u,\"readSum\":%u,\"written\":%u,\"writtenSum\":%u", at / took * 1e9,
         at, sum, written, written_sum);
  if (is_latency && at > 0) {
    size_t n = at < SAMPLES_MAX ? at : SAMPLES_MAX;
    qsort(samples, n, sizeof *samples, ascending);
    printf(",\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f", samples[n / 2] / 1e3,
           samples[(size_t)(n * 0.99)] / 1e3, samples[(size_t)(n * 0.999)] / 1e3);
  }
  printf("}\n");
  return 0;
}
