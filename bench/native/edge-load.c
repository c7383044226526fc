// Loads of the bench `edge` that a client in JavaScript would need a core for: new connections that
// each ask once, of which every answer is checked. One thread; what it sends is told to it.
//
//   renew TARGETS PER_SECOND                     each due at its own moment, the targets in turn,
//                                                from many addresses; reset when it is answered
//   attack TARGETS ADDRESSES AT_ONCE PAUSE_MS    AT_ONCE of each address, one after the other, with
//                                                a pause after an answer that is not 200
//
// Standard input: for each target a line `PORT http|websocket|grpc OPENING_BYTES REQUEST_BYTES` and
// these bytes. Its end is the end of the load: what is under way may still be answered. Prints what
// it has counted ten times a second and at the end, a JSON object each time. `late` of the `due`
// connections were not made because this process did not run, `full` because too many to that
// target had no answer; `wrong` are answers that are not whole and right, or none.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TARGETS_MAX 8
#define UNDER_WAY_MAX 256
#define REST_MAX 4096
#define BUFFER_BYTES (256 << 10)
#define MS 1000000ull
// Two turns of others on a core that is shared.
#define LATE_NS (10 * MS)
#define REPORT_NS (100 * MS)
// A budget keeps answers waiting.
#define END_NS (60000 * MS)
#define SECONDS_MAX 900
// 127.1.1.0 and on: connections of an address are fewer than any endpoint allows.
#define FIRST_ADDRESS 0x7f010100u
#define FIRST_ATTACKER 0x7f000002u
#define PER_ADDRESS 8
#define INDEXES 20000

enum kind { HTTP, WEBSOCKET, GRPC };
enum phase { CONNECTING, HEAD, BODY, CHUNK, TRAILERS, FRAMES };
enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7 };
// Outcomes beside the statuses of HTTP.
enum { WRONG = 0, CLOSED = 1, RIGHT = 200, STATUS_MAX = 999 };

struct target {
  int port;
  enum kind kind;
  size_t opening_bytes, request_bytes;
  char *opening, *request;
  uint64_t made;
};

struct line {
  int fd;
  struct target *target;
  enum phase phase;
  int is_ready, has_data, status;
  // Of the body or the chunk.
  uint64_t left;
  // Of an attacker, which comes again.
  uint32_t address;
  uint64_t due;
  size_t filled;
  char rest[REST_MAX];
};

static struct target targets[TARGETS_MAX];
static struct line lines[TARGETS_MAX * UNDER_WAY_MAX];
static int epoll_fd, target_count, line_count, is_attack, under_way;
static uint64_t due, asked, late, full, refused[STATUS_MAX + 1], pause_ns;
static char buffer[BUFFER_BYTES];

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "edge-load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void finish(struct line *line, int outcome) {
  if (outcome != RIGHT) refused[outcome]++;
  close(line->fd);
  line->fd = -1;
  line->due = now_ns() + (outcome == RIGHT ? 0 : pause_ns);
  under_way--;
}

static void broken(struct line *line) { finish(line, line->is_ready ? WRONG : CLOSED); }

// False when the line is closed, or not connected yet.
static int send_bytes(struct line *line, const char *bytes, size_t length) {
  ssize_t sent = send(line->fd, bytes, length, MSG_NOSIGNAL);
  if (sent >= 0 && (size_t)sent != length) fail("what is sent does not fit into a socket");
  if (sent < 0 && errno == EAGAIN) line->phase = CONNECTING;
  else if (sent < 0) broken(line);
  return sent >= 0;
}

static void ask(struct line *line) {
  if (!send_bytes(line, line->target->request, line->target->request_bytes)) return;
  line->is_ready = 1;
  asked++;
}

static void begin(struct line *line) {
  struct target *target = line->target;
  line->phase = target->kind == GRPC ? FRAMES : HEAD;
  if (target->kind == HTTP) ask(line);
  else send_bytes(line, target->opening, target->opening_bytes);
}

static void open_line(struct line *line, struct target *target, uint32_t address) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
  if (fd < 0) fail("socket");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  // The port is chosen with the peer: a local address has as many for each.
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  // Without TIME_WAIT, which would use up the ports.
  struct linger reset = {1, 0};
  if (!is_attack) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
  from.sin_addr.s_addr = htonl(address), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(target->port);
  if (bind(fd, (void *)&from, sizeof from) != 0) fail("bind");
  under_way++;
  *line = (struct line){.fd = fd, .target = target, .address = line->address};
  if (connect(fd, (void *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    if (errno == EADDRNOTAVAIL) fail("connect");
    return broken(line);
  }
  // Within this machine it mostly is connected by now.
  begin(line);
  if (line->fd < 0) return;
  struct epoll_event wanted = {EPOLLIN | EPOLLET, {.ptr = line}};
  if (line->phase == CONNECTING) wanted.events |= EPOLLOUT;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0) fail("epoll_ctl");
}

// The answers. Each `take` consumes what is whole and returns how much that is.

static int status_of(const char *head) {
  int status = strncmp(head, "HTTP/1.1 ", 9) == 0 ? atoi(head + 9) : WRONG;
  return status >= 100 && status <= STATUS_MAX ? status : WRONG;
}

static void take_head(struct line *line, const char *head) {
  char *length = strcasestr(head, "\r\ncontent-length:");
  line->status = status_of(head);
  line->phase = BODY;
  if (length != NULL) line->left = strtoull(length + 17, NULL, 10);
  else if (strcasestr(head, "\r\ntransfer-encoding: chunked") != NULL) line->phase = CHUNK;
  else line->status = WRONG;
}

static size_t take_http(struct line *line, char *bytes, size_t length) {
  for (size_t at = 0;;) {
    size_t step = line->left < length - at ? line->left : length - at;
    at += step, line->left -= step;
    if (line->left > 0) return at;
    if (line->phase == BODY) return finish(line, line->status), at;
    const char *stop = line->phase == HEAD ? "\r\n\r\n" : "\r\n";
    char *begin = bytes + at, *end = memmem(begin, length - at, stop, strlen(stop)), *after;
    if (end == NULL) return at;
    *end = 0;
    at = end + strlen(stop) - bytes;
    if (line->phase == HEAD) take_head(line, begin);
    else if (line->phase == TRAILERS && begin == end) return finish(line, line->status), at;
    else if (line->phase == CHUNK) {
      line->left = strtoull(begin, &after, 16);
      if (after == begin) return finish(line, WRONG), at;
      // The end of its line comes after a chunk.
      if (line->left > 0) line->left += 2;
      else line->phase = TRAILERS;
    }
  }
}

static size_t take_websocket(struct line *line, char *bytes, size_t length) {
  size_t at = 0;
  if (line->phase == HEAD) {
    char *end = memmem(bytes, length, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    *end = 0;
    at = end + 4 - bytes;
    int status = status_of(bytes);
    if (status != 101) return finish(line, status == RIGHT ? WRONG : status), at;
    line->phase = FRAMES;
    ask(line);
  }
  while (line->fd >= 0 && length - at >= 4) {
    unsigned char *frame = (unsigned char *)bytes + at;
    size_t size = frame[1] & 127, head = 2;
    if (size == 126) size = frame[2] << 8 | frame[3], head = 4;
    else if (size == 127) return finish(line, WRONG), at;
    if (length - at < head + size) break;
    if (frame[0] == 0x81)
      finish(line, memmem(frame + head, size, "\"result\"", 8) != NULL ? RIGHT : WRONG);
    at += head + size;
  }
  return at;
}

static size_t take_grpc(struct line *line, char *bytes, size_t length) {
  size_t at = 0;
  while (line->fd >= 0 && length - at >= 9) {
    unsigned char *frame = (unsigned char *)bytes + at;
    size_t size = frame[0] << 16 | frame[1] << 8 | frame[2];
    if (length - at < 9 + size) break;
    int type = frame[3], flags = frame[4], is_first = !line->is_ready;
    if ((type == SETTINGS || type == PING) && !(flags & 1)) {
      memcpy(frame, (char[]){0, 0, type == PING ? 8 : 0, type, 1}, 5);
      if (send_bytes(line, (char *)frame, type == PING ? 17 : 9) && is_first && type == SETTINGS)
        ask(line);
    } else if (type == DATA) line->has_data = 1;
    // Trailers; a refusal has them alone.
    else if (type == HEADERS && (flags & 1)) finish(line, line->has_data ? RIGHT : WRONG);
    else if (type == RST_STREAM || type == GOAWAY) broken(line);
    at += 9 + size;
  }
  return at;
}

static size_t (*const takes[])(struct line *, char *, size_t) = {take_http, take_websocket, take_grpc};

static void read_answer(struct line *line) {
  while (line->fd >= 0) {
    memcpy(buffer, line->rest, line->filled);
    ssize_t got = read(line->fd, buffer + line->filled, BUFFER_BYTES - line->filled);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return broken(line);
    size_t length = line->filled + got;
    size_t taken = takes[line->target->kind](line, buffer, length);
    if (line->fd < 0) return;
    line->filled = length - taken;
    if (line->filled > REST_MAX) return finish(line, WRONG);
    memcpy(line->rest, buffer + taken, line->filled);
  }
}

static void serve(struct line *line, uint32_t events) {
  if (line->phase == CONNECTING && (events & (EPOLLERR | EPOLLHUP))) return broken(line);
  if (line->phase == CONNECTING && (events & EPOLLOUT)) begin(line);
  if (line->fd >= 0 && line->phase != CONNECTING && events != EPOLLOUT) read_answer(line);
}

// Opens what is due; returns when the next one is.

static uint64_t renew(uint64_t began, double per_second) {
  for (;;) {
    uint64_t at = began + (uint64_t)(due * 1e9 / per_second), now = now_ns();
    if (at > now) return at;
    int number = due++ % target_count;
    struct target *target = &targets[number];
    struct line *line = &lines[number * UNDER_WAY_MAX], *end = line + UNDER_WAY_MAX;
    while (line < end && line->fd >= 0) line++;
    // What a busy machine is behind is not made up for at once.
    if (now - at > LATE_NS) late++;
    else if (line == end) full++;
    else
      open_line(line, target, FIRST_ADDRESS + target->made++ % INDEXES / PER_ADDRESS);
  }
}

static uint64_t attack(void) {
  uint64_t next = UINT64_MAX, now = now_ns();
  for (struct line *line = lines; line < lines + line_count; line++) {
    if (line->fd < 0 && line->due <= now) due++, open_line(line, targets, line->address);
    if (line->fd < 0 && line->due < next) next = line->due;
  }
  return next;
}

static void report(void) {
  printf("{\"due\":%lu,\"asked\":%lu,\"late\":%lu,\"full\":%lu,\"wrong\":%lu,\"refused\":{", due,
         asked, late, full, refused[WRONG]);
  const char *comma = "";
  for (int status = CLOSED; status <= STATUS_MAX; status++) {
    if (refused[status] == 0) continue;
    if (status == CLOSED) printf("\"closed\":%lu", refused[status]);
    else printf("%s\"%d\":%lu", comma, status, refused[status]);
    comma = ",";
  }
  printf("}}\n");
  fflush(stdout);
}

static void run(double per_second) {
  static struct epoll_event events[TARGETS_MAX * UNDER_WAY_MAX];
  uint64_t began = now_ns(), reported = 0, end = 0;
  while (end == 0 || under_way > 0) {
    uint64_t next = end != 0 ? end : is_attack ? attack() : renew(began, per_second);
    uint64_t now = now_ns();
    if (end != 0 && now >= end) break;
    if (now - reported >= REPORT_NS) report(), reported = now;
    if (next > reported + REPORT_NS) next = reported + REPORT_NS;
    struct timespec wait = {0, next > now ? next - now : 0};
    struct pollfd polled[] = {{epoll_fd, POLLIN, 0}, {end == 0 ? STDIN_FILENO : -1, POLLIN, 0}};
    if (ppoll(polled, 2, &wait, NULL) < 0) fail("ppoll");
    if (polled[1].revents != 0) end = now_ns() + END_NS;
    int count = epoll_wait(epoll_fd, events, TARGETS_MAX * UNDER_WAY_MAX, 0);
    for (int i = 0; i < count; i++) serve(events[i].data.ptr, events[i].events);
  }
  refused[WRONG] += under_way;
}

static void read_target(struct target *target) {
  char kind[10];
  if (scanf("%d %9s %zu %zu", &target->port, kind, &target->opening_bytes,
            &target->request_bytes) != 4 || getchar() != '\n')
    fail("a target");
  target->kind = kind[0] == 'g' ? GRPC : kind[0] == 'w' ? WEBSOCKET : HTTP;
  size_t length = target->opening_bytes + target->request_bytes;
  target->opening = malloc(length);
  target->request = target->opening + target->opening_bytes;
  if (fread(target->opening, 1, length, stdin) != length) fail("the bytes of a target");
}

int main(int argc, char **argv) {
  is_attack = argc == 6 && !strcmp(argv[1], "attack");
  if (!is_attack && (argc != 4 || strcmp(argv[1], "renew")))
    return fprintf(stderr, "see the first lines of the source\n"), 2;
  // It ends with the bench, and by itself.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(SECONDS_MAX);
  target_count = atoi(argv[2]);
  if (target_count < 1 || target_count > TARGETS_MAX) return fprintf(stderr, "targets\n"), 2;
  for (int i = 0; i < target_count; i++) read_target(&targets[i]);
  int addresses = is_attack ? atoi(argv[3]) : 0;
  line_count = is_attack ? addresses * atoi(argv[4]) : target_count * UNDER_WAY_MAX;
  if (line_count > TARGETS_MAX * UNDER_WAY_MAX) return fprintf(stderr, "too many\n"), 2;
  pause_ns = is_attack ? atof(argv[5]) * MS : 0;
  for (int i = 0; i < line_count; i++) {
    lines[i].fd = -1;
    if (is_attack) lines[i].address = FIRST_ATTACKER + i % addresses;
  }
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  run(is_attack ? 0 : atof(argv[3]));
  report();
  return 0;
}
