// Scan, contention and JSON of one block in C: the limit for src/streams/analysis/wasm. Same
// tables, same passes, same lists as scan.ts, contention.ts, rank.ts and encode.ts.
#ifndef CONTENTION_H
#define CONTENTION_H
#include <stdio.h>
#include "space-saving.h"

typedef struct { const uint8_t *payload; uint32_t txn, hash, address_hash; } storage_t;
typedef struct { const uint8_t *address; uint32_t hash; } account_t;
typedef struct { uint64_t enter, exit, header, end; } times_t;
typedef struct {
  const uint8_t *payload;
  uint32_t contract, txns, accesses, last, writes, written, chain, writer_chain;
} slot_t;
typedef struct { const uint8_t *address; uint32_t slots, contended, accesses, last; } contract_t;
typedef struct { uint32_t a, b, count, pad; } pair_t;

static storage_t *storages; static account_t *accounts; static times_t *times;
static slot_t *slots; static contract_t *contracts; static pair_t *pairs;
static uint64_t *slot_table, *contract_table;
static uint32_t *order, *starts, *touched_slots, *touched_contracts;
static uint32_t storage_count, account_count, txn_end, txn_headers, slot_count, contract_count;
static uint32_t pair_count, pair_mask, contended, written_contended, longest, touched_s, touched_c;
static size_t pair_room;
static int is_ordered;
static uint8_t *headers; static size_t header_bytes;
static const char digits[] = "0123456789abcdef";

static void contention_init(size_t accesses, size_t txns, size_t bytes) {
  size_t size = 16;
  while (size < accesses * 2) size <<= 1;
  storages = calloc(accesses, sizeof *storages);
  accounts = calloc(bytes / 200 + 1, sizeof *accounts);
  times = calloc(txns, sizeof *times);
  slots = calloc(accesses, sizeof *slots);
  contracts = calloc(accesses, sizeof *contracts);
  slot_table = calloc(size, 8);
  contract_table = calloc(size, 8);
  pair_room = 1 << 22;
  pairs = calloc(pair_room, sizeof *pairs);
  order = calloc(accesses, 4);
  starts = calloc(txns + 2, 4);
  touched_slots = calloc(accesses, 4);
  touched_contracts = calloc(accesses, 4);
  headers = malloc(bytes + (1 << 20));
}

static inline uint64_t wide(const uint8_t *at) { uint64_t v; memcpy(&v, at, 8); return v; }

static void scan_begin(void) {
  storage_count = account_count = txn_end = txn_headers = 0;
  header_bytes = 0;
  is_ordered = 1;
}

static uint32_t last_txn; static const uint8_t *last_address; static uint64_t last_sum;

static inline void touch(uint32_t txn) {
  if (txn <= txn_end) return;
  memset(times + txn_end, 0, (txn - txn_end) * sizeof *times);
  txn_end = txn;
}

// A record: length u32, type u32, transaction + 1 u32, 0, time u64, `length` bytes of payload.
static inline void scan_record(const uint8_t *record, uint32_t length) {
  uint32_t type = word(record + 4), txn = word(record + 8);
  const uint8_t *payload = record + 24;
  if (storage_count == 0) { last_txn = 0; last_address = 0; }
  if (type == 23) {
    if (payload[26]) return;
    if (!last_address || memcmp(payload, last_address, 20)) {
      last_address = payload;
      last_sum = sum_address(payload);
    }
    storages[storage_count++] = (storage_t){payload, txn, finish(last_sum + sum_slot(payload + 27)),
                                            finish(last_sum)};
    if (!txn) return;
    touch(txn);
    if (txn < last_txn) is_ordered = 0;
    last_txn = txn;
  } else if (type == 22) {
    accounts[account_count++] = (account_t){payload + 4, finish(sum_address(payload + 4))};
  } else if (txn) {
    touch(txn);
    times_t *t = &times[txn - 1];
    uint64_t now = wide(record + 16);
    if (type == 15) t->enter = now;
    else if (type == 16) t->exit = now;
    else if (type == 20) t->end = now;
    else if (type == 10) { t->header = now; txn_headers++; }
    if (type == 10 || type == 11 || type == 12) {
      uint32_t head[4] = {type, txn, length, 0};
      memcpy(headers + header_bytes, head, 16);
      memcpy(headers + header_bytes + 16, payload, length);
      header_bytes = (header_bytes + 16 + length + 7) & ~(size_t)7;
    }
  }
}

static uint64_t sum_time(void) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < txn_end; i++) {
    times_t *t = &times[i];
    int perf = t->enter && t->exit;
    uint64_t start = perf ? t->enter : t->header, end = perf ? t->exit : t->end;
    if (start && end > start) total += end - start;
  }
  return total;
}

static inline uint32_t pair_place(uint32_t a, uint32_t b) {
  return (uint32_t)((((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15ull) >> 32) & pair_mask;
}

static void grow_pairs(void) {
  uint32_t old = pair_mask + 1, size = old * 2;
  pair_t *from = malloc(old * sizeof *from);
  memcpy(from, pairs, old * sizeof *from);
  if (size > pair_room) pairs = realloc(pairs, (pair_room = size) * sizeof *pairs);
  pair_mask = size - 1;
  memset(pairs, 0, size * sizeof *pairs);
  for (uint32_t i = 0; i < old; i++) {
    if (!from[i].a) continue;
    uint32_t place = pair_place(from[i].a, from[i].b);
    while (pairs[place].a) place = (place + 1) & pair_mask;
    pairs[place] = from[i];
  }
  free(from);
}

static void close_txn(void) {
  for (uint32_t i = 0; i < touched_c; i++)
    for (uint32_t j = i + 1; j < touched_c; j++) {
      uint32_t p = touched_contracts[i] + 1, q = touched_contracts[j] + 1;
      uint32_t a = p < q ? p : q, b = p < q ? q : p;
      for (uint32_t place = pair_place(a, b);; place = (place + 1) & pair_mask) {
        pair_t *pair = &pairs[place];
        if (pair->a == a && pair->b == b) { pair->count++; break; }
        if (!pair->a) { *pair = (pair_t){a, b, 1, 0}; pair_count++; break; }
      }
      if (pair_count * 2 > pair_mask) grow_pairs();
    }
  touched_c = 0;
  uint32_t chain = 0;
  for (uint32_t i = 0; i < touched_s; i++) {
    slot_t *s = &slots[touched_slots[i]];
    uint32_t before = s->writes ? s->chain : s->writer_chain;
    if (before > chain) chain = before;
  }
  chain++;
  for (uint32_t i = 0; i < touched_s; i++) {
    slot_t *s = &slots[touched_slots[i]];
    if (s->chain < chain) s->chain = chain;
    if (!s->writes) continue;
    s->written = 1;
    if (s->writer_chain < chain) s->writer_chain = chain;
  }
  if (touched_s && chain > longest) longest = chain;
  touched_s = 0;
}

static void contend(void) {
  uint32_t size = 16;
  while (size < storage_count * 2) size <<= 1;
  uint32_t mask = size - 1;
  memset(slot_table, 0, (size_t)size * 8);
  memset(contract_table, 0, (size_t)size * 8);
  pair_mask = mask;
  memset(pairs, 0, (size_t)size * sizeof *pairs);
  slot_count = contract_count = pair_count = contended = written_contended = touched_s = touched_c = 0;
  longest = txn_headers ? 1 : 0;
  if (!is_ordered) {
    memset(starts, 0, (txn_end + 2) * 4);
    for (uint32_t i = 0; i < storage_count; i++) starts[storages[i].txn + 1]++;
    for (uint32_t t = 1; t <= txn_end; t++) starts[t] += starts[t - 1];
    for (uint32_t i = 0; i < storage_count; i++) order[starts[storages[i].txn]++] = i;
  }
  uint32_t current = 0;
  for (uint32_t i = 0; i < storage_count; i++) {
    storage_t *access = &storages[is_ordered ? i : order[i]];
    if (!access->txn) continue;
    if (access->txn != current) { close_txn(); current = access->txn; }
    uint32_t place = access->address_hash & mask, c;
    for (;; place = (place + 1) & mask) {
      uint64_t entry = contract_table[place];
      if (!entry) {
        c = contract_count++;
        contract_table[place] = (uint64_t)access->address_hash << 32 | (c + 1);
        contracts[c] = (contract_t){access->payload, 0, 0, 0, 0};
        break;
      }
      c = (uint32_t)entry - 1;
      if ((uint32_t)(entry >> 32) == access->address_hash &&
          !memcmp(contracts[c].address, access->payload, 20)) break;
    }
    contracts[c].accesses++;
    if (contracts[c].last != current) { contracts[c].last = current; touched_contracts[touched_c++] = c; }
    uint32_t s;
    for (place = access->hash & mask;; place = (place + 1) & mask) {
      uint64_t entry = slot_table[place];
      if (!entry) {
        s = slot_count++;
        slot_table[place] = (uint64_t)access->hash << 32 | (s + 1);
        slots[s] = (slot_t){access->payload, c, 0, 0, 0, 0, 0, 0, 0};
        contracts[c].slots++;
        break;
      }
      s = (uint32_t)entry - 1;
      if ((uint32_t)(entry >> 32) == access->hash && slots[s].contract == c &&
          !memcmp(slots[s].payload + 27, access->payload + 27, 32)) break;
    }
    slot_t *slot = &slots[s];
    uint32_t writes = access->payload[25] != 0;
    slot->accesses++;
    if (slot->last == current) { slot->writes |= writes; continue; }
    slot->txns++;
    slot->last = current;
    slot->writes = writes;
    touched_slots[touched_s++] = s;
  }
  close_txn();
  for (uint32_t s = 0; s < slot_count; s++)
    if (slots[s].txns >= 2) {
      contended++;
      written_contended += slots[s].written;
      contracts[slots[s].contract].contended++;
    }
}
#endif
