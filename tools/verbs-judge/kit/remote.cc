// SPDX-License-Identifier: GPL-2.0-or-later
#include "remote.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tcp.h"
#include "trace.h"

namespace guest {

static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

namespace {

// Limits for a peer in another process.
constexpr std::size_t kMaxEnds = 256;
constexpr std::uint64_t kMaxMemory = 128U << 20;     // bytes of an end
constexpr std::uint64_t kMaxAllMemory = 512U << 20;  // bytes of all its ends
constexpr std::uint32_t kMaxQueue = 1U << 16;        // entries of a queue
constexpr std::uint64_t kMaxWait = 120'000;          // ms

// Raw bytes may hold what is no bool.
bool is_bool(const bool& value) {
  unsigned char byte = 0;
  std::memcpy(&byte, &value, sizeof(byte));
  return byte <= 1;
}

// The same for an enumeration: what it holds, whether or not it is one of its values.
template <typename Enum>
std::uint32_t raw(const Enum& value) {
  std::uint32_t number = 0;
  static_assert(sizeof(value) == sizeof(number));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

std::uint64_t memory_of(const EndSpec& s) { return std::uint64_t{s.memory} + s.device_memory; }

void check_spec(const EndSpec& s) {
  require(s.pd == nullptr && s.send_cq == nullptr && s.recv_cq == nullptr && s.use_srq == nullptr,
          "a pointer from another process");
  require(is_bool(s.srq) && is_bool(s.signal_all) && is_bool(s.foreign_pd), "a flag is no flag");
  require(raw(s.type) <= IBV_QPT_DRIVER, "no such type of QP");
  require(s.type == IBV_QPT_RC || s.type == IBV_QPT_UC || s.type == IBV_QPT_UD ||
              s.type == IBV_QPT_XRC_SEND || s.type == IBV_QPT_XRC_RECV,
          "no such type of QP");
  require(memory_of(s) <= kMaxMemory, "an end with too much memory");
  require(s.device_memory % 4 == 0 && s.part.offset <= s.device_memory &&
              s.part.length <= s.device_memory - s.part.offset,
          "a part beyond the device memory");
  require(s.send_wr <= kMaxQueue && s.recv_wr <= kMaxQueue && s.send_sge <= kMaxQueue &&
              s.recv_sge <= kMaxQueue && s.inline_data <= kMaxQueue && s.send_cqe >= 0 &&
              s.recv_cqe >= 0 && s.send_cqe <= static_cast<int>(kMaxQueue) &&
              s.recv_cqe <= static_cast<int>(kMaxQueue),
          "a queue that is too long");
}

bool has_wait(Cmd cmd) { return cmd == Cmd::kQuiet || cmd == Cmd::kEvent || cmd == Cmd::kAsync; }

// What holds for every request of a peer, wherever it is.
void check_request(const Request& r) {
  const bool patches = r.cmd == Cmd::kPaint || r.cmd == Cmd::kCheckAll;
  require(r.count <= (patches ? r.patches.size() : r.ranges.size()), "a count beyond its array");
  require(std::ranges::all_of(r.patches, [](const Patch& p) { return is_bool(p.number); }),
          "a flag is no flag");
  require(raw(r.how.mtu) <= IBV_MTU_4096, "no such MTU");
  require(raw(r.work.opcode) <= IBV_WR_ATOMIC_WRITE, "no such opcode");
  const bool state = r.cmd == Cmd::kConnect || r.cmd == Cmd::kState;
  require(!state || r.a <= IBV_QPS_ERR, "no such state");
  require(!has_wait(r.cmd) || (r.cmd == Cmd::kAsync ? r.b : r.a) <= kMaxWait, "too long a wait");
}

// An end may post only what its QP can carry. Inline data and windows are for the own process:
// providers follow the pointers of such requests.
void check_work(const End& end, const Work& w) {
  const ibv_qp_type type = end.spec().type;
  require(type != IBV_QPT_UD && type != IBV_QPT_XRC_RECV, "the end cannot send to a connection");
  constexpr unsigned kFlags = IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED;
  require((w.flags & ~kFlags) == 0, "a flag for the own process only");
  switch (w.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return;
    case IBV_WR_FLUSH:
      return require((end.spec().more_ops & IBV_QP_EX_WITH_FLUSH) != 0, "an end without FLUSH");
    case IBV_WR_ATOMIC_WRITE:
      return require((end.spec().more_ops & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0,
                     "an end without ATOMIC WRITE");
    default:
      fail("an opcode for the own process only");
  }
}

void post_work(const End& end, const Request& request) {
  const Work& w = request.work;
  check_work(end, w);
  Send wr{.opcode = w.opcode,
          .wr_id = w.wr_id,
          .flags = w.flags,
          .raddr = w.raddr,
          .rkey = w.rkey,
          .imm = w.imm,
          .compare_add = w.compare_add,
          .swap = w.swap,
          .flush_length = w.flush_length,
          .inv_rkey = w.inv_rkey,
          .srqn = w.srqn};
  wr.sges = {end.sge(request.ranges[0])};
  const bool built = w.opcode == IBV_WR_FLUSH || w.opcode == IBV_WR_ATOMIC_WRITE;
  const Api api = built ? Api::kWr : Api::kPost;
  const int err = guest::post(end.qp(), api, wr);
  require(err == 0, "{}: {}", api_name(api), errno_name(err));
}

void poll_into(const End& end, const Request& request, Reply& reply) {
  require(request.a <= reply.wcs.size(), "too many completions asked for");
  constexpr int kLimit = 60'000;  // ms; some errors take as long as all retries
  const auto wcs = poll(request.b != 0 ? end.send_cq() : end.recv_cq(), request.a, kLimit);
  std::ranges::copy(wcs, reply.wcs.begin());
  reply.num_wcs = static_cast<std::uint32_t>(wcs.size());
}

}  // namespace

void Responder::open(const Request& request, Reply& reply) {
  if (peer_ == Peer::kAnother) {
    check_spec(request.spec);
    require(ends_.size() < kMaxEnds, "too many ends");
    std::uint64_t held = memory_of(request.spec);
    for (const auto& [number, end] : ends_) held += memory_of(end->spec());
    require(held <= kMaxAllMemory, "ends with too much memory");
  }
  auto end = std::make_unique<End>(dev_, request.spec);
  reply.a = next_;
  reply.endpoint = end->endpoint();
  const auto tell = [&](Kind kind) {
    reply.address[static_cast<std::size_t>(kind)] = end->space(kind).address();
    reply.rkey[static_cast<std::size_t>(kind)] = end->space(kind).rkey();
  };
  if (request.spec.memory != 0) tell(Kind::kHost);
  if (request.spec.device_memory != 0) tell(Kind::kDevice);
  reply.mtu = dev_.active_mtu();
  ends_.emplace(next_++, std::move(end));
}

// Requests that need the end's QP.
void Responder::on_qp(const End& end, const Request& request, Reply& reply) const {
  require(end.qp() != nullptr, "an end without a QP");
  switch (request.cmd) {
    case Cmd::kConnect:
      guest::connect(end.qp(), dev_, request.how, end.endpoint(), request.remote,
                     static_cast<ibv_qp_state>(request.a));
      break;
    case Cmd::kRecv:
      require(end.spec().type != IBV_QPT_XRC_SEND, "an end without receives");
      end.recv(request.a, std::span(request.ranges).first(request.count));
      break;
    case Cmd::kState:
      require_err(to_state(end.qp(), static_cast<ibv_qp_state>(request.a)), 0, "another state");
      break;
    case Cmd::kPost:
      post_work(end, request);
      break;
    case Cmd::kQpState:
      reply.a = state_of(end.qp());
      break;
    default:
      fail("an unknown request");
  }
}

void Responder::on_end(End& end, const Request& request, Reply& reply) {
  const Range& range = request.ranges[0];
  const bool on_memory = request.cmd == Cmd::kPaint || request.cmd == Cmd::kCheckAll;
  const Patches patches = std::span(request.patches).first(on_memory ? request.count : 0);
  switch (request.cmd) {
    case Cmd::kFill:
      end.fill(range, request.a);
      break;
    case Cmd::kCheck:
      end.check(range, request.a);
      break;
    case Cmd::kPaint:
      end.space(request.kind).paint(request.a, patches);
      break;
    case Cmd::kCheckAll:
      end.check(request.kind, request.a, patches);
      break;
    case Cmd::kPoll:
      poll_into(end, request, reply);
      break;
    case Cmd::kQuiet:
      expect_quiet(end.recv_cq(), static_cast<int>(request.a));
      break;
    case Cmd::kArm:
      require(ibv_req_notify_cq(end.recv_cq(), request.a != 0) == 0, "ibv_req_notify_cq");
      break;
    case Cmd::kEvent:
      require(end.channel() != nullptr, "an end without a channel");
      reply.a = wait_event(end.channel(), static_cast<int>(request.a)) ? 1 : 0;
      break;
    case Cmd::kAsync:
      reply.a = dev_.wait_async(static_cast<ibv_event_type>(request.a), static_cast<int>(request.b))
                    ? 1
                    : 0;
      break;
    case Cmd::kLoad:
      reply.a = end.memory().load64(request.a);
      break;
    case Cmd::kStore:
      end.memory().store64(request.a, request.b);
      break;
    case Cmd::kDestroyQp:
      end.destroy_qp();
      break;
    case Cmd::kPhysical:
      reply.a = end.memory().physical();
      break;
    case Cmd::kClose:
      ends_.erase(request.end);
      break;
    default:
      on_qp(end, request, reply);
  }
}

Reply Responder::run(const Request& request) {
  Reply reply;
  check_request(request);
  if (request.cmd == Cmd::kOpen) {
    open(request, reply);
  } else {
    const auto end = ends_.find(request.end);
    require(end != ends_.end(), "no such end");
    on_end(*end->second, request, reply);
  }
  return reply;
}

Reply Responder::execute(const Request& request) {
  const auto ended = [](Verdict verdict, const char* why) {
    Reply reply;
    reply.verdict = verdict;
    std::snprintf(reply.text.data(), reply.text.size(), "%s", why);
    return reply;
  };
  try {
    Reply reply = run(request);
    const std::string errors = take_destroy_errors();
    require(errors.empty(), "{}", errors);
    return reply;
  } catch (const Skip& e) {
    return ended(Verdict::kSkipped, e.what());
  } catch (const std::exception& e) {
    return ended(Verdict::kFailed, e.what());
  }
}

Reply Link::call(const Request& request) {
  Reply reply = exchange(request);
  reply.text.back() = '\0';
  if (reply.verdict == Verdict::kSkipped) skip("{}", reply.text.data());
  require(reply.verdict == Verdict::kDone, "peer: {}", reply.text.data());
  require(reply.num_wcs <= reply.wcs.size(), "peer: a count beyond its array");
  return reply;
}

namespace {

class LocalLink final : public Link {
 public:
  explicit LocalLink(const Device& dev) : responder_(dev) {}
  explicit LocalLink(std::unique_ptr<Device> dev) : own_(std::move(dev)), responder_(*own_) {}
  [[nodiscard]] const Responder* responder() const override { return &responder_; }

 private:
  Reply exchange(const Request& request) override { return responder_.execute(request); }

  std::unique_ptr<Device> own_;
  Responder responder_;
};

class TcpLink final : public Link {
 public:
  explicit TcpLink(Socket socket) : socket_(std::move(socket)) {}

 private:
  Reply exchange(const Request& request) override {
    Reply reply;
    socket_.write(&request, sizeof(request));
    require(socket_.read(&reply, sizeof(reply)), "the peer has gone");
    trace("the peer did request {} on its end {}", static_cast<unsigned>(request.cmd), request.end);
    trace_completions(std::span(reply.wcs).first(std::min<std::size_t>(reply.num_wcs, 64)));
    return reply;
  }

  Socket socket_;
};

}  // namespace

std::unique_ptr<Link> local_link(const Device& dev) { return std::make_unique<LocalLink>(dev); }

std::unique_ptr<Link> open_link(const CommandLine& line) {
  if (line.host.empty()) {
    return std::make_unique<LocalLink>(std::make_unique<Device>(line.device, line.gid_index));
  }
  return std::make_unique<TcpLink>(tcp_connect(line.host, line.port));
}

void serve(const CommandLine& line, bool once) {
  const Socket listener = tcp_listen(line.port);
  do {
    const Socket client = listener.accept();
    const Device dev(line.device, line.gid_index);
    Responder responder(dev, Responder::Peer::kAnother);
    try {
      Request request;
      while (client.read(&request, sizeof(request))) {
        const Reply reply = responder.execute(request);
        client.write(&reply, sizeof(reply));
      }
    } catch (const Failure& e) {
      note("a client has gone: {}", e.what());
    }
  } while (!once);
}

Remote::Remote(Link& link, const EndSpec& spec) : link_(link) {
  require(link.responder() != nullptr || (spec.pd == nullptr && spec.send_cq == nullptr &&
                                          spec.recv_cq == nullptr && spec.use_srq == nullptr),
          "an object of this process, for an end of another one");
  Request open;
  open.cmd = Cmd::kOpen;
  open.spec = spec;
  opened_ = link_.call(open);
}

Remote::~Remote() {
  try {
    link_.call(request(Cmd::kClose));
  } catch (const std::exception& e) {
    note_destroy(e.what(), EIO);
  }
}

const End& Remote::end() const {
  const Responder* responder = link_.responder();
  require(responder != nullptr, "the end is in another process");
  return responder->end(static_cast<std::uint32_t>(opened_.a));
}

Request Remote::request(Cmd cmd, std::uint64_t a, std::uint64_t b) const {
  Request r;
  r.cmd = cmd;
  r.end = static_cast<std::uint32_t>(opened_.a);
  r.a = a;
  r.b = b;
  return r;
}

void Remote::connect(const Connection& how, const Endpoint& remote, ibv_qp_state until) const {
  Request r = request(Cmd::kConnect, until);
  r.how = how;
  r.remote = remote;
  link_.call(r);
}

void Remote::on_range(Cmd cmd, const Range& range, std::uint64_t a) const {
  Request r = request(cmd, a);
  r.ranges[0] = range;
  link_.call(r);
}

void Remote::fill(const Range& range, std::uint64_t seed) const {
  on_range(Cmd::kFill, range, seed);
}

void Remote::check(const Range& range, std::uint64_t seed) const {
  on_range(Cmd::kCheck, range, seed);
}

void Remote::on_memory(Cmd cmd, Kind kind, std::uint64_t background, Patches patches) const {
  Request r = request(cmd, background);
  r.kind = kind;
  require(patches.size() <= r.patches.size(), "too many patches");
  r.count = static_cast<std::uint32_t>(patches.size());
  std::ranges::copy(patches, r.patches.begin());
  link_.call(r);
}

void Remote::paint(Kind kind, std::uint64_t background, Patches patches) const {
  on_memory(Cmd::kPaint, kind, background, patches);
}

void Remote::check(Kind kind, std::uint64_t background, Patches patches) const {
  on_memory(Cmd::kCheckAll, kind, background, patches);
}

void Remote::post_recv(std::uint64_t wr_id, Ranges ranges) const {
  Request r = request(Cmd::kRecv, wr_id);
  require(ranges.size() <= r.ranges.size(), "too many ranges");
  r.count = static_cast<std::uint32_t>(ranges.size());
  std::ranges::copy(ranges, r.ranges.begin());
  link_.call(r);
}

std::vector<ibv_wc> Remote::poll(bool send, std::size_t count) const {
  const Reply reply = link_.call(request(Cmd::kPoll, count, send ? 1 : 0));
  return {reply.wcs.begin(), reply.wcs.begin() + reply.num_wcs};
}

std::vector<ibv_wc> Remote::poll_recv(std::size_t count) const { return poll(false, count); }
std::vector<ibv_wc> Remote::poll_send(std::size_t count) const { return poll(true, count); }

void Remote::expect_quiet(int ms) const {
  link_.call(request(Cmd::kQuiet, static_cast<std::uint64_t>(ms)));
}

void Remote::arm(bool solicited_only) const {
  link_.call(request(Cmd::kArm, solicited_only ? 1 : 0));
}

bool Remote::wait_event(int timeout_ms) const {
  return link_.call(request(Cmd::kEvent, static_cast<std::uint64_t>(timeout_ms))).a != 0;
}

bool Remote::wait_async(ibv_event_type type, int timeout_ms) const {
  return link_.call(request(Cmd::kAsync, type, static_cast<std::uint64_t>(timeout_ms))).a != 0;
}

void Remote::to_state(ibv_qp_state state) const { link_.call(request(Cmd::kState, state)); }

std::uint64_t Remote::load64(std::uint64_t offset) const {
  return link_.call(request(Cmd::kLoad, offset)).a;
}

void Remote::store64(std::uint64_t offset, std::uint64_t value) const {
  link_.call(request(Cmd::kStore, offset, value));
}

void Remote::post(const Work& work, const Range& range) const {
  Request r = request(Cmd::kPost);
  r.work = work;
  r.ranges[0] = range;
  link_.call(r);
}

ibv_qp_state Remote::qp_state() const {
  return static_cast<ibv_qp_state>(link_.call(request(Cmd::kQpState)).a);
}

std::uint64_t Remote::physical() const { return link_.call(request(Cmd::kPhysical)).a; }

void Remote::destroy_qp() const { link_.call(request(Cmd::kDestroyQp)); }

}  // namespace guest
