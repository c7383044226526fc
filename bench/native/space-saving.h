// Space-Saving in C: the limit for src/streams/analysis/wasm/space-saving.ts. Same structure, same
// order of eviction, same hash; written here as a C programmer would, with pointers and structs.
#ifndef SPACE_SAVING_H
#define SPACE_SAVING_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint32_t secret[14] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
                              0x299f31d0, 0x082efa98, 0xec4e6c89, 0x452821e6, 0x38d01377,
                              0xbe5466cf, 0x34e90c6c, 0xc0ac29b7, 0xc97c50dd};

static inline uint32_t word(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}

static inline uint64_t product(uint32_t a, uint32_t b) { return (uint64_t)a * b; }

static inline uint64_t sum_address(const uint8_t *at) {
  return product(word(at) + secret[0], word(at + 4) + secret[1]) +
         product(word(at + 8) + secret[2], word(at + 12) + secret[3]) +
         product(word(at + 16) + secret[4], secret[5]);
}

static inline uint64_t sum_slot(const uint8_t *at) {
  return product(word(at) + secret[6], word(at + 4) + secret[7]) +
         product(word(at + 8) + secret[8], word(at + 12) + secret[9]) +
         product(word(at + 16) + secret[10], word(at + 20) + secret[11]) +
         product(word(at + 24) + secret[12], word(at + 28) + secret[13]);
}

static inline uint32_t finish(uint64_t sum) {
  return (uint32_t)(((sum ^ (sum >> 32)) * 0x9e3779b97f4a7c15ull) >> 32);
}

typedef struct {
  uint32_t hash, bucket, next, previous;
  uint64_t error;
  uint8_t key[56];
} counter_t;

typedef struct {
  uint64_t count;
  uint32_t first, next, previous, pad;
} bucket_t;

typedef struct {
  uint32_t capacity, mask, used, lowest, free_count;
  uint64_t *table;
  counter_t *counters;
  bucket_t *buckets;
  uint32_t *free_list;
} tracker_t;

static tracker_t *tracker_new(uint32_t k) {
  tracker_t *t = calloc(1, sizeof *t);
  uint32_t size = 16;
  while (size < k * 2) size <<= 1;
  t->capacity = k;
  t->mask = size - 1;
  t->table = calloc(size, 8);
  t->counters = calloc(k, sizeof(counter_t));
  t->buckets = calloc(k + 2, sizeof(bucket_t));
  t->free_list = calloc(k + 2, 4);
  for (uint32_t bucket = k + 1; bucket >= 1; bucket--) t->free_list[t->free_count++] = bucket;
  return t;
}

static inline void tracker_push(tracker_t *t, uint32_t bucket, uint32_t index) {
  counter_t *counter = &t->counters[index];
  bucket_t *here = &t->buckets[bucket];
  counter->bucket = bucket;
  counter->next = here->first;
  counter->previous = 0;
  if (here->first) t->counters[here->first - 1].previous = index + 1;
  here->first = index + 1;
}

static inline void tracker_unlink(tracker_t *t, bucket_t *bucket, counter_t *counter) {
  if (counter->previous) t->counters[counter->previous - 1].next = counter->next;
  else bucket->first = counter->next;
  if (counter->next) t->counters[counter->next - 1].previous = counter->previous;
}

static inline uint32_t tracker_bucket(tracker_t *t, uint64_t count, uint32_t previous,
                                      uint32_t next) {
  uint32_t bucket = t->free_list[--t->free_count];
  t->buckets[bucket] = (bucket_t){count, 0, next, previous, 0};
  if (previous) t->buckets[previous].next = bucket;
  if (next) t->buckets[next].previous = bucket;
  return bucket;
}

static inline void tracker_increment(tracker_t *t, uint32_t index) {
  counter_t *counter = &t->counters[index];
  uint32_t bucket = counter->bucket;
  bucket_t *here = &t->buckets[bucket];
  uint64_t count = here->count + 1;
  uint32_t next = here->next;
  if (next == 0 || t->buckets[next].count != count) {
    if (here->first == index + 1 && counter->next == 0) {
      here->count = count;
      return;
    }
    uint32_t made = tracker_bucket(t, count, bucket, next);
    tracker_unlink(t, here, counter);
    tracker_push(t, made, index);
    return;
  }
  tracker_unlink(t, here, counter);
  tracker_push(t, next, index);
  if (here->first == 0) {
    if (here->previous) t->buckets[here->previous].next = here->next;
    else t->lowest = here->next;
    if (here->next) t->buckets[here->next].previous = here->previous;
    t->free_list[t->free_count++] = bucket;
  }
}

static inline void tracker_enter(tracker_t *t, uint32_t index, uint32_t hash) {
  t->counters[index].hash = hash;
  uint32_t place = hash & t->mask;
  while (t->table[place]) place = (place + 1) & t->mask;
  t->table[place] = (uint64_t)hash << 32 | (index + 1);
}

static inline void tracker_leave(tracker_t *t, uint32_t index) {
  uint32_t mask = t->mask, hole = t->counters[index].hash & mask;
  while ((uint32_t)t->table[hole] != index + 1) hole = (hole + 1) & mask;
  for (uint32_t place = hole;;) {
    place = (place + 1) & mask;
    uint64_t entry = t->table[place];
    if (entry == 0) break;
    uint32_t home = (uint32_t)(entry >> 32) & mask;
    if (((place - home) & mask) < ((place - hole) & mask)) continue;
    t->table[hole] = entry;
    hole = place;
  }
  t->table[hole] = 0;
}

static inline uint32_t tracker_claim(tracker_t *t, uint32_t hash) {
  uint32_t index;
  if (t->used < t->capacity) {
    index = t->used++;
    t->counters[index].error = 0;
    tracker_enter(t, index, hash);
    if (t->lowest == 0 || t->buckets[t->lowest].count != 1)
      t->lowest = tracker_bucket(t, 1, 0, t->lowest);
    tracker_push(t, t->lowest, index);
    return index;
  }
  index = t->buckets[t->lowest].first - 1;
  tracker_leave(t, index);
  t->counters[index].error = t->buckets[t->lowest].count;
  tracker_enter(t, index, hash);
  tracker_increment(t, index);
  return index;
}

static inline void count_address(tracker_t *t, const uint8_t *address, uint32_t hash) {
  for (uint32_t place = hash & t->mask;; place = (place + 1) & t->mask) {
    uint64_t entry = t->table[place];
    if (entry == 0) break;
    if ((uint32_t)(entry >> 32) != hash) continue;
    uint32_t index = (uint32_t)entry - 1;
    if (memcmp(t->counters[index].key, address, 20) == 0) {
      tracker_increment(t, index);
      return;
    }
  }
  memcpy(t->counters[tracker_claim(t, hash)].key, address, 20);
}

static inline void count_slot(tracker_t *t, const uint8_t *address, const uint8_t *slot,
                              uint32_t hash) {
  for (uint32_t place = hash & t->mask;; place = (place + 1) & t->mask) {
    uint64_t entry = t->table[place];
    if (entry == 0) break;
    if ((uint32_t)(entry >> 32) != hash) continue;
    uint32_t index = (uint32_t)entry - 1;
    const uint8_t *key = t->counters[index].key;
    if (memcmp(key + 20, slot, 32) == 0 && memcmp(key, address, 20) == 0) {
      tracker_increment(t, index);
      return;
    }
  }
  uint8_t *key = t->counters[tracker_claim(t, hash)].key;
  memcpy(key, address, 20);
  memcpy(key + 20, slot, 32);
}

/** The ten largest, by count descending, then key ascending; returns how many. */
static uint32_t tracker_top(tracker_t *t, uint32_t key_bytes, uint32_t limit, counter_t **top) {
  uint32_t found = 0;
#define ABOVE(a, b)                                                                     \
  (t->buckets[(a)->bucket].count != t->buckets[(b)->bucket].count                       \
       ? t->buckets[(a)->bucket].count > t->buckets[(b)->bucket].count                  \
       : memcmp((a)->key, (b)->key, key_bytes) < 0)
  for (uint32_t index = 0; index < t->used; index++) {
    counter_t *counter = &t->counters[index];
    if (found == limit && !ABOVE(counter, top[limit - 1])) continue;
    uint32_t place = found < limit ? found++ : limit - 1;
    for (; place > 0 && ABOVE(counter, top[place - 1]); place--) top[place] = top[place - 1];
    top[place] = counter;
  }
#undef ABOVE
  return found;
}
#endif
