// SPDX-License-Identifier: GPL-2.0-or-later
// ucx: moves data between two UCX workers by one kind of operation and compares every byte.
//	ucx PORT			serves one client
//	ucx PORT ADDRESS KIND MIB	tag, stream, am, put, get or atomic; prints a rate
// A TCP connection carries the worker's addresses, and commands to compare or fill the server's
// memory. It carries no data.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

namespace {

constexpr size_t kMax = 1 << 20;
constexpr size_t kSizes[] = {1, 8, 64, 1000, 8191, 65536, 300001, kMax};
constexpr ucp_tag_t kTag = 7;
constexpr unsigned kAmId = 3;
constexpr uint64_t kAtomics = 300;

[[noreturn]] void fail(const std::string &what) {
  fprintf(stderr, "ucx: %s\n", what.c_str());
  exit(1);
}

void must(ucs_status_t status, const char *what) {
  if (status != UCS_OK) fail(std::string(what) + ": " + ucs_status_string(status));
}

// Message n is a window of one buffer of noise, which both ends have. No two of 4096 messages are
// equal.
std::vector<char> noise = [] {
  std::vector<char> v(kMax + 4096);
  uint64_t x = 88172645463325252u;
  for (char &c : v) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    c = static_cast<char>(x >> 32);
  }
  return v;
}();
const char *message(uint64_t n) { return noise.data() + n % 4096; }

struct Command {
  enum Kind : uint64_t { kReceive, kCompare, kFill, kRead64, kClear, kEnd } kind;
  char by;  // of kReceive: t, s, a
  uint64_t n, size;
};

int control;

void write_all(const void *data, size_t size) {
  if (send(control, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
    fail("the other end has gone");
}
void read_all(void *data, size_t size) {
  if (recv(control, data, size, MSG_WAITALL) != static_cast<ssize_t>(size))
    fail("the other end has gone");
}
std::vector<char> exchange(const void *mine, size_t size) {
  uint64_t n = size;
  write_all(&n, sizeof(n));
  write_all(mine, size);
  read_all(&n, sizeof(n));
  std::vector<char> theirs(n);
  read_all(theirs.data(), n);
  return theirs;
}

ucp_context_h context;
ucp_worker_h worker;
ucp_ep_h ep;
std::vector<char> memory(kMax);
char *target;  // ours, which the other end reads and writes
uint64_t remote_target;
ucp_rkey_h rkey;

// Polls for a moment, as UCX does, then sleeps until an event or a byte on the control connection
// comes.
void progress(bool sleep_on_control) {
  int efd;
  for (int i = 0; i < 200; i++)
    if (ucp_worker_progress(worker)) return;
  must(ucp_worker_get_efd(worker, &efd), "ucp_worker_get_efd");
  if (ucp_worker_arm(worker) != UCS_OK) return;
  pollfd fds[] = {{efd, POLLIN, 0}, {control, POLLIN, 0}};
  poll(fds, sleep_on_control ? 2 : 1, 1000);
}
bool command_waits() {
  pollfd fd{control, POLLIN, 0};
  return poll(&fd, 1, 0) > 0;
}
void finish(ucs_status_ptr_t request, const char *what) {
  if (!request) return;
  if (UCS_PTR_IS_ERR(request))
    fail(std::string(what) + ": " + ucs_status_string(UCS_PTR_STATUS(request)));
  ucs_status_t status;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) progress(false);
  ucp_request_free(request);
  must(status, what);
}
void flush() {
  ucp_request_param_t none{};
  finish(ucp_ep_flush_nbx(ep, &none), "flush");
}

// An active message is copied, or fetched if it is announced by a rendezvous.
size_t am_length;
bool am_here;
ucs_status_t on_am(void *, const void *, size_t, void *data, size_t length,
                   const ucp_am_recv_param_t *param) {
  if (length > kMax) fail("an active message is too long");
  am_length = length;
  if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
    memcpy(memory.data(), data, length);
    am_here = true;
    return UCS_OK;
  }
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
  p.cb.recv_am = [](void *request, ucs_status_t status, size_t, void *) {
    must(status, "active message");
    am_here = true;
    ucp_request_free(request);
  };
  ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker, data, memory.data(), length, &p);
  if (UCS_PTR_IS_ERR(request)) fail("ucp_am_recv_data_nbx");
  am_here = am_here || !request;
  return request ? UCS_INPROGRESS : UCS_OK;
}

void start() {
  ucp_config_t *config;
  must(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_RMA |
                    UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP;
  must(ucp_init(&params, config, &context), "ucp_init");
  ucp_config_release(config);
  ucp_worker_params_t wp{};
  must(ucp_worker_create(context, &wp, &worker), "ucp_worker_create");
  ucp_am_handler_param_t am{};
  am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
  am.id = kAmId;
  am.cb = on_am;
  must(ucp_worker_set_am_recv_handler(worker, &am), "ucp_worker_set_am_recv_handler");

  ucp_mem_map_params_t mp{};
  mp.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  mp.length = kMax;
  mp.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h mem;
  must(ucp_mem_map(context, &mp, &mem), "ucp_mem_map");
  ucp_mem_attr_t ma{};
  ma.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  must(ucp_mem_query(mem, &ma), "ucp_mem_query");
  target = static_cast<char *>(ma.address);

  ucp_address_t *address;
  size_t length;
  must(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
  std::vector<char> theirs = exchange(address, length);
  ucp_ep_params_t epp{};
  epp.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  epp.address = reinterpret_cast<ucp_address_t *>(theirs.data());
  must(ucp_ep_create(worker, &epp, &ep), "ucp_ep_create");
  void *packed;
  must(ucp_rkey_pack(context, mem, &packed, &length), "ucp_rkey_pack");
  std::vector<char> key = exchange(packed, length);
  must(ucp_ep_rkey_unpack(ep, key.data(), &rkey), "ucp_ep_rkey_unpack");
  const auto at = reinterpret_cast<uint64_t>(target);
  std::vector<char> base = exchange(&at, sizeof(at));
  memcpy(&remote_target, base.data(), sizeof(remote_target));
}

void send_message(char by, const char *data, size_t size) {
  ucp_request_param_t none{};
  if (by == 't') {
    finish(ucp_tag_send_nbx(ep, data, size, kTag, &none), "tag send");
  } else if (by == 's') {
    finish(ucp_stream_send_nbx(ep, data, size, &none), "stream send");
  } else {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_AM_SEND_FLAG_COPY_HEADER;
    finish(ucp_am_send_nbx(ep, kAmId, nullptr, 0, data, size, &p), "active message");
  }
}

void receive_message(char by, size_t size) {
  ucp_request_param_t p{};
  size_t length = size;
  if (by == 't') {
    finish(ucp_tag_recv_nbx(worker, memory.data(), size, kTag, ~0ull, &p), "tag receive");
  } else if (by == 's') {
    p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    finish(ucp_stream_recv_nbx(ep, memory.data(), size, &length, &p), "stream receive");
  } else {
    while (!am_here) progress(false);
    am_here = false;
    length = am_length;
  }
  if (length != size) fail("a message has another length");
}

void compare(const char *data, uint64_t n, size_t size, const char *what) {
  if (memcmp(data, message(n), size))
    fail(std::string(what) + ": message " + std::to_string(n) + " of " + std::to_string(size) +
         " bytes is damaged");
}

void serve() {
  for (Command c;;) {
    while (!command_waits()) progress(true);
    read_all(&c, sizeof(c));
    if (c.size > kMax) fail("size");
    uint64_t answer = 1;
    switch (c.kind) {
      case Command::kReceive:  // and back
        receive_message(c.by, c.size);
        compare(memory.data(), c.n, c.size, "server");
        send_message(c.by, memory.data(), c.size);
        break;
      case Command::kCompare:
        compare(target, c.n, c.size, "server");
        break;
      case Command::kFill:
        memcpy(target, message(c.n), c.size);
        break;
      case Command::kRead64:
        memcpy(&answer, target + c.n, sizeof(answer));
        break;
      case Command::kClear:
        memset(target, 0, kMax);
        break;
      case Command::kEnd:
        flush();
        write_all(&answer, sizeof(answer));
        return;
    }
    write_all(&answer, sizeof(answer));
  }
}

uint64_t ask(Command c) {
  uint64_t answer;
  write_all(&c, sizeof(c));
  while (!command_waits()) progress(true);
  read_all(&answer, sizeof(answer));
  return answer;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One message there and back, compared at both ends. Returns the seconds.
double two_sided(char by, uint64_t n, size_t size) {
  const double began = seconds();
  const Command c{Command::kReceive, by, n, size};
  uint64_t answer;
  write_all(&c, sizeof(c));
  send_message(by, message(n), size);
  receive_message(by, size);
  const double took = seconds() - began;
  compare(memory.data(), n, size, "client");
  memset(memory.data(), 0, size);
  while (!command_waits()) progress(true);
  read_all(&answer, sizeof(answer));
  return took;
}
double one_sided(bool put, uint64_t n, size_t size) {
  ucp_request_param_t none{};
  if (!put) ask({Command::kFill, 0, n, size});
  const double began = seconds();
  if (put)
    finish(ucp_put_nbx(ep, message(n), size, remote_target, rkey, &none), "put");
  else
    finish(ucp_get_nbx(ep, memory.data(), size, remote_target, rkey, &none), "get");
  flush();
  const double took = seconds() - began;
  if (put)
    ask({Command::kCompare, 0, n, size});
  else
    compare(memory.data(), n, size, "client");
  return took;
}

template <typename T>
T atomic(ucp_atomic_op_t op, T operand, T reply, uint64_t offset) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  p.datatype = ucp_dt_make_contig(sizeof(T));
  p.reply_buffer = &reply;
  finish(ucp_atomic_op_nbx(ep, op, &operand, 1, remote_target + offset, rkey, &p), "atomic");
  return reply;
}
template <typename T>
void atomics(uint64_t offset) {
  for (uint64_t i = 0; i < kAtomics; i++)
    if (atomic<T>(UCP_ATOMIC_OP_ADD, 3, 0, offset) != static_cast<T>(3 * i))
      fail("a fetch-and-add returned a wrong value");
  if (atomic<T>(UCP_ATOMIC_OP_CSWAP, 5, 99, offset) != 3 * kAtomics ||
      atomic<T>(UCP_ATOMIC_OP_CSWAP, 3 * kAtomics, 99, offset) != 3 * kAtomics)
    fail("a compare-and-swap returned a wrong value");
  if (atomic<T>(UCP_ATOMIC_OP_SWAP, 42, 0, offset) != 99) fail("a swap returned a wrong value");
  flush();
  if (static_cast<T>(ask({Command::kRead64, 0, offset, 0})) != 42)
    fail("the server's memory has a wrong value");
}

void run(const std::string &kind, uint64_t mib) {
  if (kind == "atomic") {
    ask({Command::kClear, 0, 0, 0});
    atomics<uint32_t>(64);
    const double began = seconds();
    atomics<uint64_t>(0);
    printf("%.0f/s\n", (kAtomics + 3) / (seconds() - began));
  } else {
    const bool put = kind == "put";
    const auto move = [&](uint64_t n, size_t size) {
      return put || kind == "get" ? one_sided(put, n, size) : two_sided(kind[0], n, size);
    };
    double took = 0;
    uint64_t n = 0;
    for (size_t size : kSizes)
      for (int i = 0; i < 3; i++) move(++n, size);
    for (uint64_t i = 0; i < mib; i++) took += move(++n, kMax);
    printf("%.1f MB/s\n", (put || kind == "get" ? 1 : 2) * mib * kMax / took / 1e6);
  }
  ask({Command::kEnd, 0, 0, 0});
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2 && argc != 5) fail("usage: ucx PORT [ADDRESS KIND MIB]");
  addrinfo hints{}, *at;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(argc == 5 ? argv[2] : nullptr, argv[1], &hints, &at)) fail("getaddrinfo");
  control = socket(at->ai_family, at->ai_socktype, 0);
  if (argc == 5) {
    if (connect(control, at->ai_addr, at->ai_addrlen)) fail("connect");
    start();
    run(argv[3], strtoull(argv[4], nullptr, 0));
  } else {
    const int on = 1;
    setsockopt(control, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(control, at->ai_addr, at->ai_addrlen) || listen(control, 1)) fail("listen");
    const int listener = control;
    if ((control = accept(listener, nullptr, nullptr)) < 0) fail("accept");
    start();
    serve();
  }
}
