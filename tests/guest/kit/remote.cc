// SPDX-License-Identifier: GPL-2.0-or-later
#include "remote.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "tcp.h"

namespace guest {

static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

namespace {

void post_work(const End& end, const Request& request) {
  const Work& w = request.work;
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
  const auto wcs = poll(request.b != 0 ? end.send_cq() : end.recv_cq(), request.a);
  std::ranges::copy(wcs, reply.wcs.begin());
  reply.num_wcs = static_cast<std::uint32_t>(wcs.size());
}

}  // namespace

void Responder::open(const Request& request, Reply& reply) {
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

Reply Responder::run(const Request& request) {
  Reply reply;
  if (request.cmd == Cmd::kOpen) {
    open(request, reply);
    return reply;
  }
  End& end = *ends_.at(request.end);
  const Range& range = request.ranges[0];
  const bool on_memory = request.cmd == Cmd::kPaint || request.cmd == Cmd::kCheckAll;
  const Patches patches = std::span(request.patches).first(on_memory ? request.count : 0);
  switch (request.cmd) {
    case Cmd::kOpen:
      break;
    case Cmd::kConnect:
      guest::connect(end.qp(), dev_, request.how, end.endpoint(), request.remote,
                     static_cast<ibv_qp_state>(request.a));
      break;
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
    case Cmd::kRecv:
      end.recv(request.a, std::span(request.ranges).first(request.count));
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
      reply.a = wait_event(end.channel(), static_cast<int>(request.a)) ? 1 : 0;
      break;
    case Cmd::kAsync:
      reply.a = dev_.wait_async(static_cast<ibv_event_type>(request.a), static_cast<int>(request.b))
                    ? 1
                    : 0;
      break;
    case Cmd::kState:
      require_err(to_state(end.qp(), static_cast<ibv_qp_state>(request.a)), 0, "another state");
      break;
    case Cmd::kLoad:
      reply.a = end.memory().load64(request.a);
      break;
    case Cmd::kStore:
      end.memory().store64(request.a, request.b);
      break;
    case Cmd::kPost:
      post_work(end, request);
      break;
    case Cmd::kQpState:
      reply.a = state_of(end.qp());
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
  }
  return reply;
}

Reply Responder::execute(const Request& request) {
  try {
    Reply reply = run(request);
    const std::string errors = take_destroy_errors();
    require(errors.empty(), "{}", errors);
    return reply;
  } catch (const std::exception& e) {
    Reply reply;
    reply.failed = true;
    std::snprintf(reply.text.data(), reply.text.size(), "%s", e.what());
    return reply;
  }
}

Reply Link::call(const Request& request) {
  Reply reply = exchange(request);
  require(!reply.failed, "peer: {}", reply.text.data());
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
    Responder responder(dev);
    Request request;
    while (client.read(&request, sizeof(request))) {
      const Reply reply = responder.execute(request);
      client.write(&reply, sizeof(reply));
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
