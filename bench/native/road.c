// road FILE SECONDS: plays a decompressed event ring over and over: drops what nobody reads, copies
// the rest into a ring of 64 MiB (of accesses only the bytes that are read), analyses each block where it lies, feeds the trackers, writes both
// frames. One thread. Prints events per second, blocks, and the first pass's sum of unique slots.
#pragma GCC optimize("O3")
#include <time.h>
#include "encode.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
#define RING (64u << 20)
int main(int argc, char **argv) {
  if (argc < 3) return 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file) return 1;
  fseek(file, 0, SEEK_END);
  size_t size = ftell(file);
  rewind(file);
  uint8_t *bytes = calloc(1, size + 4096);
  if (fread(bytes, 1, size, file) != size) return 1;
  double limit = atof(argv[2]);
  uint64_t capacity = wide(bytes + 40), payload_bytes = wide(bytes + 48);
  uint8_t *descriptors = bytes + (2 << 20), *payloads = descriptors + capacity * 64;
  uint8_t *ring = calloc(1, RING);
  static char text[65536], top[65536];
  contention_init(1 << 20, 1 << 17, RING);
  tracker_t *by_account = tracker_new(1000), *by_slot = tracker_new(1000);
  uint64_t events = 0, blocks = 0, unique = 0, passes = 0, bytes_out = 0, position = 0, block_from = 0, started = 0, number = 0;
  double start = now(), secs;
  do {
    for (uint64_t seqno = 1; seqno <= capacity; seqno++, events++) {
      uint8_t *d = descriptors + (seqno - 1) * 64;
      if (wide(d) != seqno) break;
      uint32_t type = d[8] | d[9] << 8, length = word(d + 12);
      uint8_t *payload = payloads + (wide(d + 24) & (payload_bytes - 1));
      if (type == 2) {
        block_from = position;
        started = wide(d + 16);
        number = wide(payload + 32);
      } else if (type == 6) {
        scan_begin();
        for (uint64_t p = block_from; p < position;) {
          uint8_t *record = ring + (p & (RING - 1));
          uint32_t head = word(record), n = head & 0x1fffff;
          if (!(head >> 31)) scan_record(record, n - 16);
          p += (n + 15) & ~7u;
        }
        contend();
        uint64_t ended = wide(d + 16);
        if (passes == 0) unique += slot_count;
        bytes_out += encode_contention(text, number, ended > started ? ended - started : 0);
        for (uint32_t i = 0; i < account_count; i++) count_address(by_account, accounts[i].address, accounts[i].hash);
        for (uint32_t i = 0; i < storage_count; i++)
          count_slot(by_slot, storages[i].payload, storages[i].payload + 27, storages[i].hash);
        bytes_out += encode_top(top, by_account, by_slot);
        blocks++;
      } else if ((type >= 10 && type <= 12) || type == 15 || type == 16 || type == 20 || type == 22 || type == 23) {
        uint32_t used = type == 22 ? 24 : type == 23 ? 60 : length;
        uint32_t n = 16 + used, total = (n + 15) & ~7u;
        uint32_t at = position & (RING - 1);
        if (at + total > RING) {
          uint32_t pad = (RING - at - 8) | 1u << 31;
          memcpy(ring + at, &pad, 4);
          position += RING - at;
          at = 0;
        }
        memcpy(ring + at, &n, 4);
        memcpy(ring + at + 4, &type, 4);
        memcpy(ring + at + 8, d + 40, 4);
        memcpy(ring + at + 16, d + 16, 8);
        if (type == 22) memcpy(ring + at + 24, payload, 24);
        else if (type == 23) memcpy(ring + at + 24, payload, 60);
        else memcpy(ring + at + 24, payload, length);
        position += total;
      }
    }
    passes++;
    secs = now() - start;
  } while (secs < limit);
  printf("{\"perSecond\":%.0f,\"blocks\":%llu,\"unique\":%llu,\"bytes\":%llu}\n", events / secs,
         (unsigned long long)blocks, (unsigned long long)unique, (unsigned long long)bytes_out);
}
