// Writes ready-made WebSocket frames to many sockets: the limit of what a server can deliver.
//
//   ws-fan <port> <sockets> <seconds> <payload bytes> <frames per write>
//
// Accepts the sockets (any handshake is answered), then writes the same bytes to each, one write a
// socket and turn, until the time is over. Prints "listening" and, at the end, one JSON object.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void shake(int fd) {
  char ask[4096];
  size_t got = 0;
  do {
    ssize_t r = read(fd, ask + got, sizeof ask - 1 - got);
    if (r <= 0) exit(1);
    got += r;
    ask[got] = 0;
  } while (!strstr(ask, "\r\n\r\n"));
  const char *yes = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
  if (write(fd, yes, strlen(yes)) < 0) exit(1);
}

/** One frame: header, {"seq":<n>,"Lifecycle":{"pad":"xxx…"}}, padded to `size` payload bytes. */
static size_t build(uint8_t *out, uint64_t seq, size_t size) {
  size_t head = size < 126 ? 2 : 4;
  out[0] = 0x81;
  if (size < 126) out[1] = size;
  else { out[1] = 126; out[2] = size >> 8; out[3] = size; }
  int n = sprintf((char *)out + head, "{\"seq\":%lu,\"Lifecycle\":{\"pad\":\"", seq);
  memset(out + head + n, 'x', size - n - 3);
  memcpy(out + head + size - 3, "\"}}", 3);
  return head + size;
}

int main(int argc, char **argv) {
  if (argc < 6) return 2;
  int port = atoi(argv[1]), count = atoi(argv[2]), joined = atoi(argv[5]);
  double seconds = atof(argv[3]);
  size_t size = atoi(argv[4]);
  signal(SIGPIPE, SIG_IGN);
  struct rlimit files = {count + 64, count + 64};
  setrlimit(RLIMIT_NOFILE, &files);
  int door = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 1024)) { perror("bind"); return 1; }
  printf("listening\n");
  fflush(stdout);
  int *fds = calloc(count, sizeof(int));
  for (int i = 0; i < count; i++) {
    fds[i] = accept(door, 0, 0);
    setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    shake(fds[i]);
  }
  usleep(200000);
  uint8_t *bytes = malloc(joined * (size + 16));
  uint64_t seq = 0, frames = 0;
  double begin = now();
  while (now() - begin < seconds) {
    size_t length = 0;
    for (int j = 0; j < joined; j++) length += build(bytes + length, ++seq, size);
    for (int i = 0; i < count; i++) {
      size_t sent = 0;
      while (sent < length) {
        ssize_t w = write(fds[i], bytes + sent, length - sent);
        if (w <= 0) goto over;
        sent += w;
      }
      frames += joined;
    }
  }
over:
  printf("{\"frames\":%lu,\"seconds\":%.6f}\n", frames, now() - begin);
  return 0;
}
