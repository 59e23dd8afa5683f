// SPDX-License-Identifier: GPL-2.0-or-later
#include "peer.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

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
  qp_ = create_rc_qp(dev, send_cq_.get(), recv_cq_.get(), cap_, options.signal_all);
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
  const int err = post_recv(session.qp(), request.a, sges);
  require(err == 0, "ibv_post_recv: {}", errno_name(err));
}

void send(const Session& session, const Request& request) {
  Send wr;
  wr.wr_id = request.a;
  wr.sges = {session.memory().sge(request.ranges[0].offset, request.ranges[0].length)};
  const int err = post(session.qp(), Api::kPost, wr);
  require(err == 0, "ibv_post_send: {}", errno_name(err));
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
      reply.a = dev_.wait_async(static_cast<ibv_event_type>(request.a),
                                static_cast<int>(request.b))
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
    case Cmd::kDestroyQp:
      session.destroy_qp();
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

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int fd() const { return fd_; }

  void write(const void* data, std::size_t size) const {
    const auto* p = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::send(fd_, p, size, MSG_NOSIGNAL);
      if (n <= 0) {
        fail_errno("send");
      }
      p += n;
      size -= static_cast<std::size_t>(n);
    }
  }

  // False when the other side has closed before the first byte.
  [[nodiscard]] bool read(void* data, std::size_t size) const {
    auto* p = static_cast<char*>(data);
    std::size_t got = 0;
    while (got < size) {
      const ssize_t n = ::recv(fd_, p + got, size - got, 0);
      if (n == 0 && got == 0) {
        return false;
      }
      if (n <= 0) {
        fail_errno("recv");
      }
      got += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
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

using AddrList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddrList resolve(const char* host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const int err = ::getaddrinfo(host, port.c_str(), &hints, &list);
  require(err == 0, "{}: {}", host == nullptr ? "any" : host, ::gai_strerror(err));
  return {list, &::freeaddrinfo};
}

Socket listen_on(const std::string& port) {
  const AddrList list = resolve(nullptr, port);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Socket s(::socket(a->ai_family, a->ai_socktype, a->ai_protocol));
    const int on = 1;
    ::setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(s.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.fd(), 1) == 0) {
      return s;
    }
  }
  fail_errno("listen");
}

}  // namespace

std::unique_ptr<Link> local_link(Responder& responder) {
  return std::make_unique<LocalLink>(responder);
}

std::unique_ptr<Link> tcp_link(const std::string& host, const std::string& port) {
  for (int tries = 0; tries < 60; tries++) {
    const AddrList list = resolve(host.c_str(), port);
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      Socket s(::socket(a->ai_family, a->ai_socktype, a->ai_protocol));
      if (::connect(s.fd(), a->ai_addr, a->ai_addrlen) == 0) {
        return std::make_unique<TcpLink>(std::move(s));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  fail("no peer at {} port {}", host, port);
}

void serve(const std::string& device, int gid_index, const std::string& port, bool once) {
  const Socket listener = listen_on(port);
  do {
    const Socket client(::accept(listener.fd(), nullptr, nullptr));
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

void Remote::destroy_qp() const { link_.call(request(Cmd::kDestroyQp)); }

}  // namespace guest
