// The JSON of ContentionData and TopAccesses in C: the limit for encode.ts of
// src/streams/analysis/wasm. Numbers with a fraction are written with 17 digits, which is less work
// than the shortest form.
#ifndef ENCODE_H
#define ENCODE_H
#include "contention.h"

static char *out;
static void put(const char *text) { size_t n = strlen(text); memcpy(out, text, n); out += n; }
static void put_u64(uint64_t value) {
  char text[20]; int n = 0;
  do text[n++] = '0' + value % 10; while (value /= 10);
  while (n) *out++ = text[--n];
}
static void put_f64(double value) { out += sprintf(out, "%.17g", value); }
static void put_hex(const uint8_t *at, int length) {
  memcpy(out, "\"0x", 3); out += 3;
  for (int i = 0; i < length; i++) { *out++ = digits[at[i] >> 4]; *out++ = digits[at[i] & 15]; }
  *out++ = '"';
}
static int slot_before(const slot_t *a, const slot_t *b) {
  if (a->txns != b->txns) return a->txns > b->txns;
  if (a->accesses != b->accesses) return a->accesses > b->accesses;
  int by = memcmp(a->payload, b->payload, 20);
  return by ? by < 0 : memcmp(a->payload + 27, b->payload + 27, 32) < 0;
}
static int contract_before(const contract_t *a, const contract_t *b) {
  if (a->contended != b->contended) return a->contended > b->contended;
  if (a->slots != b->slots) return a->slots < b->slots;
  return memcmp(a->address, b->address, 20) < 0;
}
static const uint8_t *end_of(const pair_t *p, int higher) {
  const uint8_t *a = contracts[p->a - 1].address, *b = contracts[p->b - 1].address;
  return (memcmp(a, b, 20) < 0) == higher ? b : a;
}
static int pair_before(const pair_t *a, const pair_t *b) {
  if (a->count != b->count) return a->count > b->count;
  int by = memcmp(end_of(a, 0), end_of(b, 0), 20);
  return by ? by < 0 : memcmp(end_of(a, 1), end_of(b, 1), 20) < 0;
}
#define RANK(type, list, limit, items, count, wanted, before)                       \
  type *list[limit]; uint32_t list##_n = 0;                                         \
  for (uint32_t i = 0; i < (count); i++) {                                          \
    type *item = &items[i];                                                         \
    if (!(wanted)) continue;                                                        \
    if (list##_n == limit && !before(item, list[limit - 1])) continue;              \
    uint32_t place = list##_n < limit ? list##_n++ : limit - 1;                     \
    for (; place > 0 && before(item, list[place - 1]); place--) list[place] = list[place - 1]; \
    list[place] = item;                                                             \
  }
static size_t encode_contention(char *to, uint64_t number, uint64_t wall) {
  uint64_t txn_ns = sum_time();
  out = to;
  put("{\"block_number\":"); put_u64(number);
  put(",\"block_wall_time_ns\":"); put_u64(wall);
  put(",\"total_tx_time_ns\":"); put_u64(txn_ns);
  put(",\"parallel_efficiency_pct\":"); put_f64(txn_ns > wall ? (double)(txn_ns - wall) / (double)txn_ns * 100 : 0);
  put(",\"total_unique_slots\":"); put_u64(slot_count);
  put(",\"contended_slot_count\":"); put_u64(contended);
  put(",\"contention_ratio\":"); put_f64(slot_count ? (double)contended / slot_count : 0);
  put(",\"total_txn_count\":"); put_u64(txn_headers);
  put(",\"written_contended_slot_count\":"); put_u64(written_contended);
  put(",\"critical_path_txn_count\":"); put_u64(longest);
  RANK(slot_t, top, 20, slots, slot_count, item->txns >= 2, slot_before)
  put(",\"top_contended_slots\":[");
  for (uint32_t i = 0; i < top_n; i++) {
    put(i ? ",{\"address\":" : "{\"address\":"); put_hex(top[i]->payload, 20);
    put(",\"slot\":"); put_hex(top[i]->payload + 27, 32);
    put(",\"txn_count\":"); put_u64(top[i]->txns);
    put(",\"access_count\":"); put_u64(top[i]->accesses); put("}");
  }
  RANK(contract_t, hot, 15, contracts, contract_count, item->contended, contract_before)
  put("],\"top_contended_contracts\":[");
  for (uint32_t i = 0; i < hot_n; i++) {
    put(i ? ",{\"address\":" : "{\"address\":"); put_hex(hot[i]->address, 20);
    put(",\"total_slots\":"); put_u64(hot[i]->slots);
    put(",\"contended_slots\":"); put_u64(hot[i]->contended);
    put(",\"total_accesses\":"); put_u64(hot[i]->accesses);
    put(",\"contention_score\":"); put_f64((double)hot[i]->contended / hot[i]->slots); put("}");
  }
  RANK(pair_t, edge, 15, pairs, pair_mask + 1, item->a, pair_before)
  put("],\"contract_edges\":[");
  for (uint32_t i = 0; i < edge_n; i++) {
    put(i ? ",{\"contract_a\":" : "{\"contract_a\":"); put_hex(end_of(edge[i], 0), 20);
    put(",\"contract_b\":"); put_hex(end_of(edge[i], 1), 20);
    put(",\"shared_txn_count\":"); put_u64(edge[i]->count); put("}");
  }
  put("]}");
  return out - to;
}
static void put_counter(tracker_t *t, counter_t *c) {
  put(",\"count\":"); put_u64(t->buckets[c->bucket].count);
  put(",\"error\":"); put_u64(c->error); put("}");
}
static size_t encode_top(char *to, tracker_t *by_account, tracker_t *by_slot) {
  counter_t *top[10];
  out = to;
  put("{\"account\":[");
  uint32_t n = tracker_top(by_account, 20, 10, top);
  for (uint32_t i = 0; i < n; i++) {
    put(i ? ",{\"key\":" : "{\"key\":"); put_hex(top[i]->key, 20); put_counter(by_account, top[i]);
  }
  put("],\"storage\":[");
  n = tracker_top(by_slot, 52, 10, top);
  for (uint32_t i = 0; i < n; i++) {
    put(i ? ",{\"key\":[" : "{\"key\":["); put_hex(top[i]->key, 20); put(",");
    put_hex(top[i]->key + 20, 32); put("]"); put_counter(by_slot, top[i]);
  }
  put("]}");
  return out - to;
}
#endif
