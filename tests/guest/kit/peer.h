// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a connection: in this process, or on another machine over TCP.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verbs.h"

namespace guest {

// The attributes of one end of a connection.
struct SessionOptions {
  ibv_qp_type type = IBV_QPT_RC;     // or UC, XRC_SEND, XRC_RECV
  std::uint32_t memory = 64 * 1024;  // bytes
  int mr_access = kAllAccess;
  std::uint64_t iova = 0;  // 0: the address of the memory
  std::uint32_t send_wr = 64;
  std::uint32_t recv_wr = 64;
  std::uint32_t send_sge = 4;
  std::uint32_t recv_sge = 4;
  std::uint32_t inline_data = 64;
  int send_cqe = 256;
  int recv_cqe = 256;
  bool signal_all = false;
  bool foreign_pd = false;  // the memory belongs to a PD other than the QP's
  // RC or XRC_SEND: further operations for ibv_wr_*(), besides the usual ones.
  std::uint64_t more_ops = 0;
  std::uint32_t psn = 0x123456;
};

// One end: a QP, a CQ for each direction (the receive CQ with a channel), and memory.
class Session {
 public:
  Session(const Device& dev, const SessionOptions& options);

  [[nodiscard]] const Device& device() const { return dev_; }
  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* send_cq() const { return send_cq_.get(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return recv_cq_.get(); }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const ibv_qp_cap& cap() const { return cap_; }
  [[nodiscard]] ibv_srq* srq() const { return srq_.get(); }  // XRC_RECV only
  [[nodiscard]] Endpoint endpoint() const {
    return {.qpn = qp_->qp_num, .psn = psn_, .gid = dev_.gid(), .srqn = srqn_};
  }
  void destroy_qp() { qp_.reset(); }

 private:
  void create_srq(const SessionOptions& options);
  void create_qp(const SessionOptions& options);

  const Device& dev_;
  PdPtr foreign_pd_;
  ChannelPtr channel_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Memory memory_;
  ibv_qp_cap cap_{};
  XrcdPtr xrcd_;
  SrqPtr srq_;
  std::uint32_t srqn_ = 0;
  QpPtr qp_;
  std::uint32_t psn_;
};

// A part of a session's memory.
struct Range {
  std::uint64_t offset;
  std::uint32_t length;
};

enum class Cmd : std::uint32_t {
  kOpen,
  kConnect,
  kFill,
  kCheck,
  kRecv,
  kPoll,
  kQuiet,
  kArm,
  kEvent,
  kAsync,
  kState,
  kLoad,
  kStore,
  kSend,
  kPost,
  kQpState,
  kDestroyQp,
  kPhysical,
  kClose,
};

// A send request for the peer to post; the request's first range is its local memory.
struct Work {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = IBV_SEND_SIGNALED;
  std::uint64_t wr_id = 0;
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;  // host order
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;  // ATOMIC_WRITE: the value to write
  std::uint64_t flush_length = 0;
  std::uint32_t inv_rkey = 0;
  std::uint32_t srqn = 0;
};

// Sent over TCP as raw structures: both ends run the same program.
struct Request {
  Cmd cmd{};
  std::uint32_t session = 0;
  SessionOptions options;
  Connection how;
  Endpoint remote;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  Work work;
  std::uint32_t num_ranges = 0;
  std::array<Range, 16> ranges{};
};

struct Reply {
  bool failed = false;
  std::array<char, 160> text{};
  std::uint64_t a = 0;
  Endpoint endpoint;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  ibv_mtu mtu = IBV_MTU_256;
  std::uint32_t num_wcs = 0;
  std::array<ibv_wc, 64> wcs{};
};

// Executes requests on a device. Sessions exist until they are closed or the responder is
// destroyed.
class Responder {
 public:
  explicit Responder(const Device& dev) : dev_(dev) {}
  Reply execute(const Request& request);

 private:
  Reply run(const Request& request);
  void open(const Request& request, Reply& reply);
  void poll_into(const Session& session, const Request& request, Reply& reply);

  const Device& dev_;
  std::map<std::uint32_t, std::unique_ptr<Session>> sessions_;
  std::uint32_t next_ = 1;
};

// Carries requests to a responder.
class Link {
 public:
  virtual ~Link() = default;
  // Returns the reply. Throws a Failure if the request failed at the other end.
  Reply call(const Request& request);

 private:
  virtual Reply exchange(const Request& request) = 0;
};

std::unique_ptr<Link> local_link(Responder& responder);
// Waits for the other machine, which may still be booting.
std::unique_ptr<Link> tcp_link(const std::string& host, const std::string& port);
// Serves one client after another, or only one if `once`.
void serve(const std::string& device, int gid_index, const std::string& port, bool once);

// A session at the other end.
class Remote {
 public:
  Remote(Link& link, const SessionOptions& options);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote();

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return address_ + offset; }
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }
  [[nodiscard]] ibv_mtu active_mtu() const { return mtu_; }

  void connect(const Connection& how, const Endpoint& remote) const;
  void fill(Range range, std::uint64_t seed) const;
  void check(Range range, std::uint64_t seed) const;
  void post_recv(std::uint64_t wr_id, std::span<const Range> ranges) const;
  void post_recv(std::uint64_t wr_id, Range range) const { post_recv(wr_id, {&range, 1}); }
  [[nodiscard]] std::vector<ibv_wc> poll_recv(std::size_t count) const;
  [[nodiscard]] std::vector<ibv_wc> poll_send(std::size_t count) const;
  void expect_quiet(int ms) const;
  void arm(bool solicited_only) const;
  [[nodiscard]] bool wait_event(int timeout_ms) const;
  [[nodiscard]] bool wait_async(ibv_event_type type, int timeout_ms) const;
  void to_state(ibv_qp_state state) const;
  [[nodiscard]] std::uint64_t load64(std::uint64_t offset) const;
  void store64(std::uint64_t offset, std::uint64_t value) const;
  void send(std::uint64_t wr_id, Range range) const;
  void post(const Work& work, Range range) const;
  [[nodiscard]] ibv_qp_state qp_state() const;
  void destroy_qp() const;
  [[nodiscard]] std::uint64_t physical() const;

 private:
  [[nodiscard]] Request request(Cmd cmd, std::uint64_t a = 0, std::uint64_t b = 0) const;
  [[nodiscard]] std::vector<ibv_wc> poll(bool send, std::size_t count) const;

  Link& link_;
  std::uint32_t session_ = 0;
  Endpoint endpoint_;
  std::uint64_t address_ = 0;
  std::uint32_t rkey_ = 0;
  ibv_mtu mtu_ = IBV_MTU_256;
};

}  // namespace guest
