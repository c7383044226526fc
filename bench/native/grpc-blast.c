// grpc-blast LENGTH: the limit that gRPC streaming is measured against. One thread answers every
// stream with headers and then writes 16 kB DATA frames of whole gRPC messages of LENGTH bytes, one
// frame a write, to whichever connection takes them. Prints its port, ends with its standard input.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define FRAME_BYTES_MAX 16384
#define INPUT_BYTES 65536

struct connection {
  int fd, has_preface, is_open;
  size_t filled, pending, sent;
  unsigned char input[INPUT_BYTES];
  unsigned char output[FRAME_BYTES_MAX * 2];
};

static struct connection *connections[CONNECTIONS_MAX];
static int connected;
static unsigned char frame[9 + FRAME_BYTES_MAX];
static size_t frame_bytes;

static void frame_head(unsigned char *out, uint32_t length, int type, int flags, uint32_t stream) {
  out[0] = length >> 16, out[1] = length >> 8, out[2] = length;
  out[3] = type, out[4] = flags;
  out[5] = stream >> 24, out[6] = stream >> 16, out[7] = stream >> 8, out[8] = stream;
}

static void fill_frame(uint32_t length) {
  uint32_t each = FRAME_BYTES_MAX / (length + 5);
  if (each == 0) exit(2);
  for (uint32_t index = 0; index < each; index++) {
    unsigned char *at = frame + 9 + index * (length + 5);
    at[0] = 0, at[1] = length >> 24, at[2] = length >> 16, at[3] = length >> 8, at[4] = length;
    memset(at + 5, 'a', length);
  }
  frame_bytes = each * (length + 5);
  frame_head(frame, frame_bytes, 0, 0, 1);
  frame_bytes += 9;
}

static void queue(struct connection *c, const void *bytes, size_t length) {
  memcpy(c->output + c->pending, bytes, length);
  c->pending += length;
}

// Settings are acknowledged; the end of the request opens the stream.
static void answer(struct connection *c) {
  unsigned char out[64];
  size_t at = 0;
  if (!c->has_preface && c->filled >= 24) {
    c->has_preface = 1, at = 24;
    frame_head(out, 0, 4, 0, 0);
    queue(c, out, 9);
  }
  while (c->has_preface && c->filled - at >= 9) {
    unsigned char *head = c->input + at;
    uint32_t length = head[0] << 16 | head[1] << 8 | head[2];
    if (c->filled - at < 9 + length) break;
    if (head[3] == 4 && !(head[4] & 1)) {
      frame_head(out, 0, 4, 1, 0);
      queue(c, out, 9);
    } else if (head[3] == 0 && head[4] & 1) {
      static const unsigned char headers[] = "\x88\x0f\x10\x10" "application/grpc";
      frame_head(out, sizeof headers - 1, 1, 4, 1);
      memcpy(out + 9, headers, sizeof headers - 1);
      queue(c, out, 9 + sizeof headers - 1);
      c->is_open = 1;
    }
    at += 9 + length;
  }
  memmove(c->input, c->input + at, c->filled - at);
  c->filled -= at;
}

// 0 when the connection is gone.
static int serve(struct connection *c, short events) {
  if (events & POLLIN) {
    ssize_t got = read(c->fd, c->input + c->filled, INPUT_BYTES - c->filled);
    if (got <= 0) return 0;
    c->filled += got;
    answer(c);
  }
  if (!(events & POLLOUT)) return !(events & (POLLERR | POLLHUP));
  if (c->sent == c->pending) {
    c->sent = c->pending = 0;
    if (c->is_open) queue(c, frame, frame_bytes);
  }
  if (c->sent < c->pending) {
    ssize_t wrote = send(c->fd, c->output + c->sent, c->pending - c->sent, MSG_NOSIGNAL);
    if (wrote < 0) return errno == EAGAIN;
    c->sent += wrote;
  }
  return 1;
}

int main(int count, char **words) {
  if (count < 2) return 2;
  fill_frame(strtoul(words[1], NULL, 10));
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (bind(listener, (struct sockaddr *)&address, size) != 0) return 1;
  listen(listener, CONNECTIONS_MAX);
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    struct pollfd polled[CONNECTIONS_MAX + 2];
    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = 0, .events = POLLIN};
    for (int index = 0; index < connected; index++) {
      struct connection *c = connections[index];
      short wants = c->is_open || c->pending > c->sent ? POLLIN | POLLOUT : POLLIN;
      polled[index + 2] = (struct pollfd){.fd = c->fd, .events = wants};
    }
    int known = connected;
    poll(polled, known + 2, -1);
    if (polled[1].revents) return 0;
    for (int index = known - 1; index >= 0; index--)
      if (polled[index + 2].revents && !serve(connections[index], polled[index + 2].revents)) {
        close(connections[index]->fd);
        free(connections[index]);
        connections[index] = connections[--connected];
      }
    if (polled[0].revents && connected < CONNECTIONS_MAX) {
      struct connection *c = calloc(1, sizeof *c);
      c->fd = accept(listener, NULL, NULL);
      fcntl(c->fd, F_SETFL, O_NONBLOCK);
      setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      connections[connected++] = c;
    }
  }
}
