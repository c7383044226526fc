// The limits that ShredStream is measured against: plain C on the same system calls, and the ends
// of the wire around a forwarder. One program, one mode a run; prints one JSON object.
//
//   send COUNT SECONDS SIZE PORT        sendmmsg, 48 packets to each of COUNT targets, again
//   flood RATE SECONDS PORT             well-formed shreds at a pace to one port (0: unpaced)
//   sink PORT                           a filter drops all; on SIGTERM tells how many came
//   receive PORT                        recvmmsg until SIGTERM
//   forward WAITS COUNT IN OUT          recvmmsg -> sendmmsg to COUNT targets; block or poll
//   probe RATE COUNT SECONDS IN OUT     sends shreds, reads the copies, tells their delays
//
// Targets are 127.0.1.1, 127.0.1.2, … at one port.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 48, SLOT = 2048, SHRED = 1203, DROPS = 8 };
static volatile sig_atomic_t stopped;
static void stop(int signal) { (void)signal; stopped = 1; }

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int open_socket(int port) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = 32 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  struct timeval wait = {0, 20000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (bind(fd, (void *)&a, sizeof a)) { perror("bind"); exit(1); }
  return fd;
}

static struct sockaddr_in *targets_of(int count, int port) {
  struct sockaddr_in *d = calloc(count, sizeof *d);
  for (int i = 0; i < count; i++) {
    d[i].sin_family = AF_INET;
    d[i].sin_port = htons(port);
    d[i].sin_addr.s_addr = htonl(0x7f000101 + i);
  }
  return d;
}

// A data shred that passes every check but the proof; each number is another id.
static void write_shred(unsigned char *p, uint64_t number) {
  uint64_t slot = 1000 + number / 30000;
  uint32_t index = number % 30000, set = index & ~31u;
  uint16_t version = 1, parent = 1, size = 1051;
  p[64] = 0x96;
  memcpy(p + 65, &slot, 8);
  memcpy(p + 73, &index, 4);
  memcpy(p + 77, &version, 2);
  memcpy(p + 79, &set, 4);
  memcpy(p + 83, &parent, 2);
  p[85] = 0;
  memcpy(p + 86, &size, 2);
}

static int run_send(int count, double seconds, int size, int port) {
  static char packets[BATCH][SLOT];
  int fd = open_socket(0), total = BATCH * count;
  struct sockaddr_in *d = targets_of(count, port);
  struct iovec io[BATCH];
  struct mmsghdr *m = calloc(total, sizeof *m);
  for (int i = 0; i < total; i++) {
    io[i / count] = (struct iovec){packets[i / count], size};
    m[i].msg_hdr = (struct msghdr){&d[i % count], sizeof *d, &io[i / count], 1, 0, 0, 0};
  }
  uint64_t sent = 0, start = now_ns(), end = start + seconds * 1e9;
  double cpu = cpu_seconds();
  while (now_ns() < end)
    for (int done = 0; done < total;) {
      int k = sendmmsg(fd, m + done, total - done, 0);
      if (k <= 0) break;
      done += k;
      sent += k;
    }
  double wall = (now_ns() - start) / 1e9;
  printf("{\"packets\":%lu,\"wall\":%f,\"cpu\":%f}\n", sent, wall, cpu_seconds() - cpu);
  return 0;
}

static int run_flood(double rate, double seconds, int port) {
  static unsigned char packet[SLOT];
  int fd = open_socket(0);
  struct sockaddr_in d = {.sin_family = AF_INET, .sin_port = htons(port)};
  d.sin_addr.s_addr = htonl(0x7f000001);
  connect(fd, (void *)&d, sizeof d);
  uint64_t sent = 0, start = now_ns(), end = start + seconds * 1e9;
  for (uint64_t t = start; t < end || sent == 0; t = now_ns()) {
    uint64_t due = rate > 0 ? (t - start) / 1e9 * rate : sent + BATCH;
    if (due > sent + 10 * BATCH) due = sent + 10 * BATCH;
    for (; sent < due; sent++) {
      write_shred(packet, sent);
      if (send(fd, packet, SHRED, 0) < 0) break;
    }
  }
  printf("{\"packets\":%lu}\n", sent);
  return 0;
}

static uint32_t drops_of(int fd) {
  uint32_t info[9] = {0};
  socklen_t length = sizeof info;
  getsockopt(fd, SOL_SOCKET, 55 /* SO_MEMINFO */, info, &length);
  return info[DROPS];
}

static int run_sink(int port) {
  int fd = open_socket(port);
  struct sock_filter none[] = {{0x06, 0, 0, 0}};
  struct sock_fprog program = {1, none};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  printf("\n");
  fflush(stdout);
  while (!stopped) usleep(5000);
  printf("{\"packets\":%u}\n", drops_of(fd));
  return 0;
}

static int run_receive(int port) {
  static char buffer[BATCH][SLOT];
  int fd = open_socket(port);
  struct mmsghdr m[BATCH] = {0};
  struct iovec io[BATCH];
  struct sockaddr_in names[BATCH];
  for (int i = 0; i < BATCH; i++) {
    io[i] = (struct iovec){buffer[i], SLOT};
    m[i].msg_hdr = (struct msghdr){&names[i], sizeof names[i], &io[i], 1, 0, 0, 0};
  }
  printf("\n");
  fflush(stdout);
  uint64_t got = 0;
  double cpu = cpu_seconds();
  while (!stopped) {
    int k = recvmmsg(fd, m, BATCH, MSG_WAITFORONE, 0);
    if (k > 0) got += k;
  }
  for (int k; (k = recvmmsg(fd, m, BATCH, MSG_DONTWAIT, 0)) > 0;) got += k;
  printf("{\"packets\":%lu,\"cpu\":%f,\"dropped\":%u}\n", got, cpu_seconds() - cpu, drops_of(fd));
  return 0;
}

static int run_forward(int polls, int count, int in, int out) {
  static char buffer[BATCH][SLOT];
  int fd = open_socket(in), tx = open_socket(0);
  struct sockaddr_in *d = targets_of(count, out);
  struct mmsghdr m[BATCH] = {0}, *o = calloc(BATCH * count, sizeof *o);
  struct iovec io[BATCH], oi[BATCH];
  for (int i = 0; i < BATCH; i++) {
    io[i] = oi[i] = (struct iovec){buffer[i], SLOT};
    m[i].msg_hdr = (struct msghdr){0, 0, &io[i], 1, 0, 0, 0};
    for (int j = 0; j < count; j++)
      o[i * count + j].msg_hdr = (struct msghdr){&d[j], sizeof *d, &oi[i], 1, 0, 0, 0};
  }
  printf("\n");
  fflush(stdout);
  while (!stopped) {
    int k = recvmmsg(fd, m, BATCH, polls ? MSG_DONTWAIT : MSG_WAITFORONE, 0);
    if (k <= 0) continue;
    for (int i = 0; i < k; i++) oi[i].iov_len = m[i].msg_len;
    for (int s = 0; s < k * count;) {
      int r = sendmmsg(tx, o + s, k * count - s, 0);
      if (r <= 0) break;
      s += r;
    }
  }
  printf("{\"cpu\":%f}\n", cpu_seconds());
  return 0;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static int run_probe(double rate, int count, double seconds, int in, int out) {
  static unsigned char packet[SLOT], buffer[32][SLOT];
  int tx = open_socket(0), rx = open_socket(out);
  struct sockaddr_in d = {.sin_family = AF_INET, .sin_port = htons(in)};
  d.sin_addr.s_addr = htonl(0x7f000001);
  connect(tx, (void *)&d, sizeof d);
  struct mmsghdr m[32] = {0};
  struct iovec io[32];
  for (int i = 0; i < 32; i++) {
    io[i] = (struct iovec){buffer[i], SLOT};
    m[i].msg_hdr = (struct msghdr){0, 0, &io[i], 1, 0, 0, 0};
  }
  uint64_t most = rate * seconds * count * 1.2 + 1000, got = 0, kept = 0, sent = 0;
  uint32_t *delays = malloc(most * sizeof *delays);
  uint64_t start = now_ns(), end = start + seconds * 1e9, last = end + 2000000000ull;
  // A forwarder that is compiled while it runs needs a moment; delays count from here on.
  uint64_t warm = start + 300000000ull;
  double gap = 1e9 / rate, next = start;
  for (;;) {
    uint64_t t = now_ns();
    if (t >= last || (t >= end && sent > 0 && got >= sent * count)) break;
    if ((t < end || sent == 0) && t >= next) {
      // Where the machine took us away, the pace goes on from here: no burst is made up.
      if (t > next + gap * 4) next = t;
      write_shred(packet, sent++);
      uint64_t stamp = now_ns();
      memcpy(packet + 100, &stamp, 8);
      send(tx, packet, SHRED, 0);
      next += gap;
    }
    int k = recvmmsg(rx, m, 32, MSG_DONTWAIT, 0);
    t = now_ns();
    for (int i = 0; i < k && got < most; i++) {
      uint64_t stamp;
      memcpy(&stamp, buffer[i] + 100, 8);
      got++;
      if (stamp >= warm) delays[kept++] = t - stamp;
    }
  }
  qsort(delays, kept, sizeof *delays, ascending);
#define PART(q) (kept ? delays[(uint64_t)((kept - 1) * q)] / 1e3 : 0)
  printf("{\"packets\":%lu,\"copies\":%lu,\"p50\":%f,\"p99\":%f,\"p999\":%f}\n", sent, got,
         PART(.5), PART(.99), PART(.999));
  return 0;
}

int main(int argc, char **argv) {
  signal(SIGTERM, stop);
  const char *mode = argc > 1 ? argv[1] : "";
  char **a = argv + 2;
  if (!strcmp(mode, "send") && argc == 6)
    return run_send(atoi(a[0]), atof(a[1]), atoi(a[2]), atoi(a[3]));
  if (!strcmp(mode, "flood") && argc == 5) return run_flood(atof(a[0]), atof(a[1]), atoi(a[2]));
  if (!strcmp(mode, "sink") && argc == 3) return run_sink(atoi(a[0]));
  if (!strcmp(mode, "receive") && argc == 3) return run_receive(atoi(a[0]));
  if (!strcmp(mode, "forward") && argc == 6)
    return run_forward(!strcmp(a[0], "poll"), atoi(a[1]), atoi(a[2]), atoi(a[3]));
  if (!strcmp(mode, "probe") && argc == 7)
    return run_probe(atof(a[0]), atoi(a[1]), atof(a[2]), atoi(a[3]), atoi(a[4]));
  fprintf(stderr, "unknown mode\n");
  return 2;
}
