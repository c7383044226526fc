// http-load HOST PORT SECONDS CONNECTIONS REQUEST EXPECTED [RATE]: sends one request again and
// again on kept-alive connections, each waiting for its answer. Prints one JSON object: answers per
// second, latencies in microseconds, how many answers did not hold the expected text, and the CPU
// time used. Eight # in the request become a number that is another one each time, so that no two
// requests are alike.
// Without RATE a connection sends its next request when it has its answer (closed loop). With RATE
// requests start at that constant rate, those that find no free connection wait, and latencies
// count from the intended start (open loop).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX 262144
#define CONNECTIONS_MAX 1024
#define SAMPLES_MAX 4000000

struct connection {
  int fd;
  size_t filled;
  uint64_t sent_ns;
  char answer[ANSWER_MAX + 1];
};

static struct connection *connections;
static uint32_t *samples;
static size_t sample_count;
static uint64_t answers, wrong;
static char *request, *number;
static const char *expected;
static unsigned requests;
static size_t request_length;
static double rate;
static uint64_t began, started;
static struct connection **idle;
static int idle_count;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "http-load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void send_request(struct connection *c) {
  c->filled = 0;
  if (number != NULL) {
    char digits[9];
    snprintf(digits, sizeof digits, "%08u", ++requests % 100000000u);
    memcpy(number, digits, 8);
  }
  c->sent_ns = rate > 0 ? began + (uint64_t)((double)started++ * 1e9 / rate) : now_ns();
  if (write(c->fd, request, request_length) != (ssize_t)request_length) fail("write");
}

// The length of the whole answer, 0 while its head is not here yet.
static size_t whole_length(struct connection *c) {
  c->answer[c->filled] = 0;
  char *end = strstr(c->answer, "\r\n\r\n");
  if (end == NULL) return 0;
  char *length = strcasestr(c->answer, "content-length:");
  if (length == NULL || length > end) fail("an answer without content-length");
  return (size_t)(end - c->answer) + 4 + strtoul(length + 15, NULL, 10);
}

static void read_answer(struct connection *c) {
  ssize_t got = read(c->fd, c->answer + c->filled, ANSWER_MAX - c->filled);
  if (got <= 0) fail("the server closed a connection");
  c->filled += (size_t)got;
  size_t whole = whole_length(c);
  if (whole == 0 || c->filled < whole) return;
  answers++;
  if (strstr(c->answer, expected) == NULL) wrong++;
  if (sample_count < SAMPLES_MAX) samples[sample_count++] = (uint32_t)(now_ns() - c->sent_ns);
  if (rate > 0) idle[idle_count++] = c;
  else send_request(c);
}

// Starts what is due while connections are free; returns how long to sleep, in milliseconds.
static int send_due(uint64_t end) {
  for (;;) {
    uint64_t now = now_ns(), due = began + (uint64_t)((double)started * 1e9 / rate);
    if (due >= end || idle_count == 0) return 1;
    if (due > now) return due - now > 2000000 ? (int)((due - now) / 1000000) - 1 : 0;
    send_request(idle[--idle_count]);
  }
}

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static double percentile(double part) {
  return sample_count == 0 ? 0 : samples[(size_t)(part * (double)(sample_count - 1))] / 1000.0;
}

int main(int argc, char **argv) {
  if (argc != 7 && argc != 8) return fprintf(stderr, "six or seven words are needed\n"), 2;
  rate = argc == 8 ? atof(argv[7]) : 0;
  double seconds = atof(argv[3]);
  int count = atoi(argv[4]);
  if (count < 1 || count > CONNECTIONS_MAX) return fprintf(stderr, "connections\n"), 2;
  request = argv[5], expected = argv[6], request_length = strlen(request);
  number = strstr(request, "########");
  connections = calloc((size_t)count, sizeof *connections);
  idle = calloc((size_t)count, sizeof *idle);
  samples = malloc(SAMPLES_MAX * sizeof *samples);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
  if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) return fprintf(stderr, "host\n"), 2;
  int poll = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    struct connection *c = &connections[i];
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){EPOLLIN, {.ptr = c}});
    if (rate > 0) idle[idle_count++] = c;
    else send_request(c);
  }
  struct epoll_event events[CONNECTIONS_MAX];
  began = now_ns();
  uint64_t end = began + (uint64_t)(seconds * 1e9);
  // A busy machine may need longer for its first answer.
  while (now_ns() < end || answers == 0) {
    int ready = epoll_wait(poll, events, CONNECTIONS_MAX, rate > 0 ? send_due(end) : 100);
    for (int i = 0; i < ready; i++) read_answer(events[i].data.ptr);
  }
  double took = (double)(now_ns() - began) / 1e9;
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  qsort(samples, sample_count, sizeof *samples, by_value);
  printf("{\"ops\":%.1f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"answers\":%llu,\"wrong\":%llu,"
         "\"cpu\":%.3f}\n",
         (double)answers / took, percentile(0.5), percentile(0.99), percentile(0.999),
         (unsigned long long)answers, (unsigned long long)wrong, cpu);
  return 0;
}
