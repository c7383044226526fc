// Reads the metrics stream over many WebSockets and tells how many frames came, how late, and
// whether any was missing. The receiving end of the load benches: small, so that the machine's time
// goes to the server that is measured.
//
//   ws-sink <port> <path> <sockets> <seconds> [<last seq>]
//
// Prints "ready" when all sockets are open, and one JSON object after <seconds>, or as soon as every
// socket has got <last seq>, which may also be told on stdin while it runs. A frame begins {"seq":<n>,"<Kind>":{"at":<monotonic ns> ...
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { head_max = 96, buckets = 40000 };

typedef struct {
  int fd;
  uint8_t head[head_max]; // WebSocket header and the beginning of the payload
  uint64_t have;          // bytes of this frame so far
  uint64_t size;          // bytes of this frame in all; 0 while unknown
  uint64_t seq;
} sock;

static uint64_t latency[buckets]; // by 10 us up to 400 ms
static uint64_t frames, gaps, late, bytes, begin;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t number_after(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? strtoull(at + strlen(name), 0, 10) : 0;
}

static void frame_done(sock *s) {
  size_t start = (s->head[1] & 127) < 126 ? 2 : (s->head[1] & 127) == 126 ? 4 : 10;
  size_t known = s->size < head_max ? s->size : head_max;
  char text[head_max + 1];
  memcpy(text, s->head + start, known - start);
  text[known - start] = 0;
  uint64_t seq = number_after(text, "{\"seq\":");
  int is_resume = strstr(text, "\"Resume\":") != 0;
  if (seq == 0 || is_resume) {
    if (is_resume && seq) s->seq = seq;
    return;
  }
  uint64_t at = number_after(text, "\"at\":");
  // Older than this run: the snapshot that a stream of an earlier round greets with.
  if (at && at < begin) return;
  frames++;
  if (s->seq && seq != s->seq + 1) gaps++;
  s->seq = seq;
  if (!at) return;
  uint64_t us10 = (now_ns() - at) / 10000;
  if (us10 < buckets) latency[us10]++;
  else late++;
}

static void take(sock *s, const uint8_t *data, size_t length) {
  bytes += length;
  while (length) {
    size_t part = length;
    if (!s->size) {
      // Byte by byte only until the length is known.
      s->head[s->have++] = *data++;
      length--;
      uint8_t short_length = s->have >= 2 ? s->head[1] & 127 : 0;
      if (s->have < 2) continue;
      if (short_length < 126) s->size = 2 + short_length;
      else if (short_length == 126 && s->have == 4) s->size = 4 + ((uint64_t)s->head[2] << 8 | s->head[3]);
      else if (short_length == 127 && s->have == 10) {
        s->size = 0;
        for (int i = 2; i < 10; i++) s->size = s->size << 8 | s->head[i];
        s->size += 10;
      }
      if (!s->size) continue;
      part = 0;
    } else {
      if (part > s->size - s->have) part = s->size - s->have;
      if (s->have < head_max) {
        size_t keep = head_max - s->have < part ? head_max - s->have : part;
        memcpy(s->head + s->have, data, keep);
      }
      s->have += part;
      data += part;
      length -= part;
    }
    if (s->have == s->size) {
      frame_done(s);
      s->have = s->size = 0;
    }
  }
}

static void open_socket(sock *s, int port, const char *path, const uint8_t *rest[], size_t *rest_length) {
  s->fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(s->fd, (struct sockaddr *)&to, sizeof to)) { perror("connect"); exit(1); }
  char ask[512];
  int n = snprintf(ask, sizeof ask,
    "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path);
  if (write(s->fd, ask, n) != n) exit(1);
  static uint8_t answer[1 << 16];
  size_t got = 0;
  for (;;) {
    ssize_t r = read(s->fd, answer + got, sizeof answer - 1 - got);
    if (r <= 0) { fprintf(stderr, "no upgrade\n"); exit(1); }
    got += r;
    answer[got] = 0;
    char *end = strstr((char *)answer, "\r\n\r\n");
    if (!end) continue;
    if (memcmp(answer, "HTTP/1.1 101", 12)) { fprintf(stderr, "%s\n", answer); exit(1); }
    *rest = (uint8_t *)end + 4;
    *rest_length = answer + got - *rest;
    break;
  }
  fcntl(s->fd, F_SETFL, O_NONBLOCK);
}

static double quantile(double q) {
  uint64_t total = late, seen = 0;
  for (int i = 0; i < buckets; i++) total += latency[i];
  if (!total) return 0;
  for (int i = 0; i < buckets; i++) if ((seen += latency[i]) >= q * total) return i * 10 + 5;
  return buckets * 10;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  int port = atoi(argv[1]), count = atoi(argv[3]);
  double seconds = atof(argv[4]);
  uint64_t last = argc > 5 ? strtoull(argv[5], 0, 10) : 0;
  struct rlimit files = {count + 64, count + 64};
  setrlimit(RLIMIT_NOFILE, &files);
  sock *socks = calloc(count, sizeof(sock));
  int poll_fd = epoll_create1(0);
  begin = now_ns();
  for (int i = 0; i < count; i++) {
    const uint8_t *rest;
    size_t rest_length;
    open_socket(&socks[i], port, argv[2], &rest, &rest_length);
    take(&socks[i], rest, rest_length);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &socks[i]};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, socks[i].fd, &event);
  }
  struct epoll_event told = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, 0, &told);
  printf("ready\n");
  fflush(stdout);
  uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), first = 0, newest = 0;
  static uint8_t buffer[1 << 18];
  int closed = 0, done = 0;
  while (now_ns() < end && !closed && !(last && done == count)) {
    struct epoll_event events[256];
    int n = epoll_wait(poll_fd, events, 256, 20);
    for (int i = 0; i < n; i++) {
      sock *s = events[i].data.ptr;
      if (s == NULL) {
        ssize_t length = read(0, buffer, sizeof buffer - 1);
        epoll_ctl(poll_fd, EPOLL_CTL_DEL, 0, 0);
        if (length <= 0) continue;
        buffer[length] = 0, last = strtoull((char *)buffer, 0, 10), done = 0;
        for (int k = 0; k < count; k++) done += socks[k].seq >= last;
        continue;
      }
      ssize_t r = read(s->fd, buffer, sizeof buffer);
      if (r == 0 || (r < 0 && errno != EAGAIN)) { closed++; epoll_ctl(poll_fd, EPOLL_CTL_DEL, s->fd, 0); continue; }
      if (r < 0) continue;
      int was_done = last && s->seq >= last;
      uint64_t before = frames;
      take(s, buffer, r);
      if (frames > before) { if (!first) first = now_ns(); newest = now_ns(); }
      if (last && !was_done && s->seq >= last) done++;
    }
  }
  double span = first && newest > first ? (newest - first) / 1e9 : 0;
  printf("{\"frames\":%lu,\"gaps\":%lu,\"closed\":%d,\"bytes\":%lu,\"span\":%.6f,\"elapsed\":%.6f,"
         "\"p50\":%.0f,\"p99\":%.0f,\"p999\":%.0f}\n",
         frames, gaps, closed, bytes, span, (newest - begin) / 1e9, quantile(0.5), quantile(0.99), quantile(0.999));
  return 0;
}
