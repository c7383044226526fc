// grpc-client PORT STREAMS SECONDS LENGTH REQUEST_HEX [TOKEN]: opens one Subscribe stream on each of
// STREAMS connections, sends the request, and counts the gRPC messages that come, each of which must
// be LENGTH bytes long. `XX` in the request stands for a byte that differs from stream to stream.
// Prints one JSON object: messages per second, wrong ones, and the share of a core that this client
// needed, which says whether the client was the limit.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define STREAMS_MAX 1024
#define WINDOW_MAX 0x7fffffffu
#define REFILL_BYTES (32u << 20)
#define PREFIX_BYTES 5

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };

struct connection {
  int fd;
  size_t filled;
  uint32_t unacknowledged;
  // Where we are inside the stream of messages: bytes of the prefix seen, of the message left.
  unsigned char prefix[PREFIX_BYTES];
  int prefix_seen;
  uint32_t message_left;
  unsigned char buffer[BUFFER_BYTES];
};

static struct connection *connections[STREAMS_MAX];
static uint64_t messages, wrong, reads;
static uint32_t expected_length;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
  fprintf(stderr, "grpc-client: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void send_all(int fd, const void *bytes, size_t length) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t sent = write(fd, at, length);
    if (sent <= 0) fail("write");
    at += sent;
    length -= sent;
  }
}

static void frame_head(unsigned char *out, uint32_t length, int type, int flags, uint32_t stream) {
  out[0] = length >> 16, out[1] = length >> 8, out[2] = length;
  out[3] = type, out[4] = flags;
  out[5] = stream >> 24, out[6] = stream >> 16, out[7] = stream >> 8, out[8] = stream;
}

// A header field that no table knows.
static size_t literal(unsigned char *out, const char *name, const char *value) {
  size_t names = strlen(name), values = strlen(value), at = 0;
  out[at++] = 0, out[at++] = names;
  memcpy(out + at, name, names), at += names;
  out[at++] = values;
  memcpy(out + at, value, values);
  return at + values;
}

static void send_window(int fd, uint32_t stream, uint32_t bytes) {
  unsigned char out[13];
  frame_head(out, 4, WINDOW_UPDATE, 0, stream);
  out[9] = bytes >> 24, out[10] = bytes >> 16, out[11] = bytes >> 8, out[12] = bytes;
  send_all(fd, out, sizeof out);
}

static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static void subscribe(struct connection *c, int number, const char *hex, const char *token) {
  unsigned char out[1024], settings[21];
  send_all(c->fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  // No push, and the widest window for each stream.
  frame_head(settings, 12, SETTINGS, 0, 0);
  memcpy(settings + 9, "\0\2\0\0\0\0\0\4\x7f\xff\xff\xff", 12);
  send_all(c->fd, settings, sizeof settings);
  send_window(c->fd, 0, WINDOW_MAX - 65535);
  size_t at = 9;
  at += literal(out + at, ":method", "POST");
  at += literal(out + at, ":scheme", "http");
  at += literal(out + at, ":path", "/geyser.Geyser/Subscribe");
  at += literal(out + at, ":authority", "127.0.0.1");
  at += literal(out + at, "content-type", "application/grpc");
  at += literal(out + at, "te", "trailers");
  if (token[0] != 0) at += literal(out + at, "x-token", token);
  frame_head(out, at - 9, HEADERS, 4, 1);
  send_all(c->fd, out, at);
  uint32_t length = strlen(hex) / 2;
  frame_head(out, PREFIX_BYTES + length, DATA, 1, 1);
  memset(out + 9, 0, PREFIX_BYTES);
  out[13] = length;
  for (uint32_t index = 0; index < length; index++) {
    unsigned byte = '0' + number % 64;
    if (hex[2 * index] != 'X') sscanf(hex + 2 * index, "%2x", &byte);
    out[14 + index] = byte;
  }
  send_all(c->fd, out, 14 + length);
}

// Walks over the payload of a DATA frame, from message to message.
static void count_messages(struct connection *c, const unsigned char *at, uint32_t left) {
  while (left > 0) {
    if (c->message_left > 0) {
      uint32_t step = c->message_left < left ? c->message_left : left;
      c->message_left -= step, at += step, left -= step;
      if (c->message_left == 0) messages++;
      continue;
    }
    c->prefix[c->prefix_seen++] = *at++, left--;
    if (c->prefix_seen < PREFIX_BYTES) continue;
    c->prefix_seen = 0;
    const unsigned char *p = c->prefix;
    c->message_left = (uint32_t)p[1] << 24 | p[2] << 16 | p[3] << 8 | p[4];
    if (p[0] != 0 || c->message_left != expected_length) wrong++;
  }
}

static void read_frames(struct connection *c) {
  ssize_t got = read(c->fd, c->buffer + c->filled, BUFFER_BYTES - c->filled);
  if (got <= 0) fail("the server closed");
  reads++;
  c->filled += got;
  size_t at = 0;
  while (c->filled - at >= 9) {
    unsigned char *head = c->buffer + at;
    uint32_t length = head[0] << 16 | head[1] << 8 | head[2];
    if (c->filled - at < 9 + length) break;
    unsigned char reply[17];
    if (head[3] == DATA) {
      count_messages(c, head + 9, length);
      c->unacknowledged += length;
    } else if (head[3] == SETTINGS && !(head[4] & 1)) {
      frame_head(reply, 0, SETTINGS, 1, 0);
      send_all(c->fd, reply, 9);
    } else if (head[3] == PING && !(head[4] & 1)) {
      frame_head(reply, 8, PING, 1, 0);
      memcpy(reply + 9, head + 9, 8);
      send_all(c->fd, reply, 17);
    } else if (head[3] == RST_STREAM || head[3] == GOAWAY || (head[3] == HEADERS && head[4] & 1)) {
      errno = EPROTO;
      fail("the stream ended");
    }
    at += 9 + length;
  }
  memmove(c->buffer, c->buffer + at, c->filled - at);
  c->filled -= at;
  if (c->unacknowledged < REFILL_BYTES) return;
  send_window(c->fd, 0, c->unacknowledged);
  send_window(c->fd, 1, c->unacknowledged);
  c->unacknowledged = 0;
}

int main(int count, char **words) {
  if (count < 6) return fprintf(stderr, "see the first lines of the source\n"), 2;
  int port = atoi(words[1]), streams = atoi(words[2]);
  double seconds = atof(words[3]);
  expected_length = strtoul(words[4], NULL, 10);
  if (streams < 1 || streams > STREAMS_MAX) return 2;
  struct pollfd polled[STREAMS_MAX];
  for (int index = 0; index < streams; index++) {
    struct connection *c = calloc(1, sizeof *c);
    c->fd = connect_to(port);
    subscribe(c, index, words[5], count > 6 ? words[6] : "");
    connections[index] = c;
    polled[index] = (struct pollfd){.fd = c->fd, .events = POLLIN};
  }
  // A fifth of the time to get going, then the measurement, which has at least one message.
  double start = now() + seconds / 5, end = start + seconds, cpu_start = 0;
  uint64_t before = 0, reads_before = 0;
  int is_measuring = 0;
  while (now() < end || messages == before) {
    if (!is_measuring && now() >= start) {
      is_measuring = 1;
      start = now(), before = messages, reads_before = reads, cpu_start = cpu();
    }
    if (poll(polled, streams, 1000) < 0) fail("poll");
    for (int index = 0; index < streams; index++)
      if (polled[index].revents) read_frames(connections[index]);
  }
  double took = now() - start;
  printf("{\"ops\":%.0f,\"messages\":%llu,\"wrong\":%llu,\"cpu\":%.2f,\"perRead\":%.1f}\n",
         (messages - before) / took, (unsigned long long)(messages - before),
         (unsigned long long)wrong, (cpu() - cpu_start) / took,
         (double)(messages - before) / (reads - reads_before + 1));
  return 0;
}
