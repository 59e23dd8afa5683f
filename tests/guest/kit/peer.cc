// SPDX-License-Identifier: GPL-2.0-or-later
#include "peer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "tcp.h"

namespace guest {

static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

Session::Session(const Device& dev, const SessionOptions& options)
    : dev_(dev),
      foreign_pd_(options.foreign_pd ? ibv_alloc_pd(dev.context()) : nullptr),
      channel_(ibv_create_comp_channel(dev.context())),
      send_cq_(create_cq(dev, options.send_cqe)),
      recv_cq_(create_cq(dev, options.recv_cqe, channel_.get())),
      memory_(options.foreign_pd ? foreign_pd_.get() : dev.pd(), options.memory, options.mr_access,
              options.iova != 0 ? std::optional(options.iova) : std::nullopt),
      psn_(options.psn) {
  cap_ = {.max_send_wr = options.send_wr,
          .max_recv_wr = options.recv_wr,
          .max_send_sge = options.send_sge,
          .max_recv_sge = options.recv_sge,
          .max_inline_data = options.inline_data};
  if (options.type == IBV_QPT_XRC_RECV) {
    create_srq(options);
  }
  if (options.type == IBV_QPT_RC) {
    qp_ = create_rc_qp(dev, send_cq_.get(), recv_cq_.get(), cap_, options.signal_all,
                       options.more_ops);
  } else {
    create_qp(options);
  }
}

void Session::create_srq(const SessionOptions& options) {
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  xrcd_.reset(ibv_open_xrcd(dev_.context(), &domain));
  if (!xrcd_) {
    fail_errno("ibv_open_xrcd");
  }
  ibv_srq_init_attr_ex attr{};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.attr.max_wr = options.recv_wr;
  attr.attr.max_sge = options.recv_sge;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = dev_.pd();
  attr.xrcd = xrcd_.get();
  attr.cq = recv_cq_.get();
  srq_.reset(ibv_create_srq_ex(dev_.context(), &attr));
  if (!srq_ || ibv_get_srq_num(srq_.get(), &srqn_) != 0) {
    fail_errno("an XRC SRQ");
  }
}

void Session::create_qp(const SessionOptions& options) {
  QpSpec spec{.type = options.type,
              .send_cq = send_cq_.get(),
              .recv_cq = recv_cq_.get(),
              .xrcd = xrcd_.get(),
              .cap = cap_,
              .send_ops = IBV_QP_EX_WITH_SEND,
              .signal_all = options.signal_all};
  if (options.type == IBV_QPT_XRC_RECV) {
    spec.cap = {};
    spec.send_ops = 0;
    spec.send_cq = spec.recv_cq = nullptr;
  }
  if (options.type == IBV_QPT_XRC_SEND) {
    spec.recv_cq = nullptr;
    spec.cap.max_recv_wr = spec.cap.max_recv_sge = 0;
    spec.send_ops = kRcSendOps | options.more_ops;
  }
  qp_ = try_create_qp(dev_, spec);
  if (!qp_) {
    fail_errno("ibv_create_qp_ex");
  }
  cap_ = spec.cap;
}

namespace {

std::span<std::byte> bytes_of(const Session& session, const Range& range) {
  require(range.offset + range.length <= session.memory().length(), "range past the memory");
  return session.memory().bytes().subspan(range.offset, range.length);
}

void check_range(const Session& session, const Request& request) {
  const auto at = mismatch(bytes_of(session, request.ranges[0]), request.a);
  require(!at, "{} bytes at {}: wrong from byte {} on", request.ranges[0].length,
          request.ranges[0].offset, at.value_or(0));
}

void receive(const Session& session, const Request& request) {
  std::vector<ibv_sge> sges;
  for (std::uint32_t i = 0; i < request.num_ranges; i++) {
    sges.push_back(session.memory().sge(request.ranges[i].offset, request.ranges[i].length));
  }
  const int err = session.srq() != nullptr ? post_srq_recv(session.srq(), request.a, sges)
                                           : post_recv(session.qp(), request.a, sges);
  require(err == 0, "a receive request: {}", errno_name(err));
}

void send(const Session& session, const Request& request) {
  Send wr;
  wr.wr_id = request.a;
  wr.sges = {session.memory().sge(request.ranges[0].offset, request.ranges[0].length)};
  const int err = post(session.qp(), Api::kPost, wr);
  require(err == 0, "ibv_post_send: {}", errno_name(err));
}

void post_work(const Session& session, const Request& request) {
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
  wr.sges = {session.memory().sge(request.ranges[0].offset, request.ranges[0].length)};
  const bool built = w.opcode == IBV_WR_FLUSH || w.opcode == IBV_WR_ATOMIC_WRITE;
  const Api api = built ? Api::kWr : Api::kPost;
  const int err = post(session.qp(), api, wr);
  require(err == 0, "{}: {}", api_name(api), errno_name(err));
}

}  // namespace

void Responder::open(const Request& request, Reply& reply) {
  auto session = std::make_unique<Session>(dev_, request.options);
  reply.a = next_;
  reply.endpoint = session->endpoint();
  reply.address = session->memory().address();
  reply.rkey = session->memory().rkey();
  reply.mtu = dev_.active_mtu();
  sessions_.emplace(next_++, std::move(session));
}

void Responder::poll_into(const Session& session, const Request& request, Reply& reply) {
  require(request.a <= reply.wcs.size(), "too many completions asked for");
  ibv_cq* cq = request.b != 0 ? session.send_cq() : session.recv_cq();
  const auto wcs = poll(cq, request.a);
  std::ranges::copy(wcs, reply.wcs.begin());
  reply.num_wcs = static_cast<std::uint32_t>(wcs.size());
}

Reply Responder::run(const Request& request) {
  Reply reply;
  if (request.cmd == Cmd::kOpen) {
    open(request, reply);
    return reply;
  }
  Session& session = *sessions_.at(request.session);
  switch (request.cmd) {
    case Cmd::kOpen:
      break;
    case Cmd::kConnect:
      guest::connect(session.qp(), dev_, request.how, session.endpoint(), request.remote);
      break;
    case Cmd::kFill:
      fill(bytes_of(session, request.ranges[0]), request.a);
      break;
    case Cmd::kCheck:
      check_range(session, request);
      break;
    case Cmd::kRecv:
      receive(session, request);
      break;
    case Cmd::kPoll:
      poll_into(session, request, reply);
      break;
    case Cmd::kQuiet:
      expect_quiet(session.recv_cq(), static_cast<int>(request.a));
      break;
    case Cmd::kArm:
      require(ibv_req_notify_cq(session.recv_cq(), request.a != 0) == 0, "ibv_req_notify_cq");
      break;
    case Cmd::kEvent:
      reply.a = wait_event(session.channel(), static_cast<int>(request.a)) ? 1 : 0;
      break;
    case Cmd::kAsync:
      reply.a = dev_.wait_async(static_cast<ibv_event_type>(request.a), static_cast<int>(request.b))
                    ? 1
                    : 0;
      break;
    case Cmd::kState: {
      const int err = to_state(session.qp(), static_cast<ibv_qp_state>(request.a));
      require(err == 0, "to state {}: {}", request.a, errno_name(err));
      break;
    }
    case Cmd::kLoad:
      reply.a = session.memory().load64(request.a);
      break;
    case Cmd::kStore:
      session.memory().store64(request.a, request.b);
      break;
    case Cmd::kSend:
      send(session, request);
      break;
    case Cmd::kPost:
      post_work(session, request);
      break;
    case Cmd::kQpState:
      reply.a = state_of(session.qp());
      break;
    case Cmd::kDestroyQp:
      session.destroy_qp();
      break;
    case Cmd::kPhysical:
      reply.a = session.memory().physical();
      break;
    case Cmd::kClose:
      sessions_.erase(request.session);
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
  explicit LocalLink(Responder& responder) : responder_(responder) {}

 private:
  Reply exchange(const Request& request) override { return responder_.execute(request); }

  Responder& responder_;
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

std::unique_ptr<Link> local_link(Responder& responder) {
  return std::make_unique<LocalLink>(responder);
}

std::unique_ptr<Link> tcp_link(const std::string& host, const std::string& port) {
  return std::make_unique<TcpLink>(tcp_connect(host, port));
}

void serve(const std::string& device, int gid_index, const std::string& port, bool once) {
  const Socket listener = tcp_listen(port);
  do {
    const Socket client = listener.accept();
    const Device dev(device, gid_index);
    Responder responder(dev);
    Request request;
    while (client.read(&request, sizeof(request))) {
      const Reply reply = responder.execute(request);
      client.write(&reply, sizeof(reply));
    }
  } while (!once);
}

Remote::Remote(Link& link, const SessionOptions& options) : link_(link) {
  Request open;
  open.cmd = Cmd::kOpen;
  open.options = options;
  const Reply reply = link_.call(open);
  session_ = static_cast<std::uint32_t>(reply.a);
  endpoint_ = reply.endpoint;
  address_ = reply.address;
  rkey_ = reply.rkey;
  mtu_ = reply.mtu;
}

Remote::~Remote() {
  try {
    link_.call(request(Cmd::kClose));
  } catch (const std::exception& e) {
    note_destroy(e.what(), EIO);
  }
}

Request Remote::request(Cmd cmd, std::uint64_t a, std::uint64_t b) const {
  Request r;
  r.cmd = cmd;
  r.session = session_;
  r.a = a;
  r.b = b;
  return r;
}

void Remote::connect(const Connection& how, const Endpoint& remote) const {
  Request r = request(Cmd::kConnect);
  r.how = how;
  r.remote = remote;
  link_.call(r);
}

void Remote::fill(Range range, std::uint64_t seed) const {
  Request r = request(Cmd::kFill, seed);
  r.ranges[0] = range;
  link_.call(r);
}

void Remote::check(Range range, std::uint64_t seed) const {
  Request r = request(Cmd::kCheck, seed);
  r.ranges[0] = range;
  link_.call(r);
}

void Remote::post_recv(std::uint64_t wr_id, std::span<const Range> ranges) const {
  Request r = request(Cmd::kRecv, wr_id);
  require(ranges.size() <= r.ranges.size(), "too many ranges");
  r.num_ranges = static_cast<std::uint32_t>(ranges.size());
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

void Remote::send(std::uint64_t wr_id, Range range) const {
  Request r = request(Cmd::kSend, wr_id);
  r.ranges[0] = range;
  link_.call(r);
}

void Remote::post(const Work& work, Range range) const {
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
