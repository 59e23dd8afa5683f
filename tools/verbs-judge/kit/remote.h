// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a connection: in this process, or on another machine over TCP.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "end.h"
#include "program.h"

namespace guest {

enum class Cmd : std::uint32_t {
  kOpen,
  kConnect,
  kFill,
  kCheck,
  kPaint,
  kCheckAll,
  kRecv,
  kPoll,
  kQuiet,
  kArm,
  kEvent,
  kAsync,
  kState,
  kLoad,
  kStore,
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
  std::uint32_t end = 0;
  EndSpec spec;
  Connection how;
  Endpoint remote;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  Work work;
  std::uint32_t count = 0;  // of ranges or patches
  std::array<Range, 16> ranges{};
  Kind kind{};
  std::array<Patch, 4> patches{};
};

enum class Verdict : std::uint32_t { kDone, kFailed, kSkipped };

struct Reply {
  Verdict verdict{};
  std::array<char, 200> text{};
  std::uint64_t a = 0;
  Endpoint endpoint;
  std::array<std::uint64_t, 2> address{};  // of each kind of memory
  std::array<std::uint32_t, 2> rkey{};
  ibv_mtu mtu = IBV_MTU_256;
  std::uint32_t num_wcs = 0;
  std::array<ibv_wc, 64> wcs{};
};

// Executes requests on a device. Ends exist until they are closed or the responder is destroyed.
class Responder {
 public:
  // Of a peer in another process nothing is trusted: what it sends is checked before use, and what
  // it may hold is limited.
  enum class Peer { kThisProcess, kAnother };
  explicit Responder(const Device& dev, Peer peer = Peer::kThisProcess) : dev_(dev), peer_(peer) {}
  Reply execute(const Request& request);
  [[nodiscard]] const End& end(std::uint32_t number) const { return *ends_.at(number); }

 private:
  Reply run(const Request& request);
  void on_end(End& end, const Request& request, Reply& reply);
  void on_qp(const End& end, const Request& request, Reply& reply) const;
  void open(const Request& request, Reply& reply);

  const Device& dev_;
  Peer peer_;
  std::map<std::uint32_t, std::unique_ptr<End>> ends_;
  std::uint32_t next_ = 1;
};

// Carries requests to a responder.
class Link {
 public:
  virtual ~Link() = default;
  // Returns the reply. Throws a Failure if the request failed at the other end, a Skip if the
  // device there does not claim what the request needs.
  Reply call(const Request& request);
  // Returns the responder if it is in this process.
  [[nodiscard]] virtual const Responder* responder() const { return nullptr; }

 private:
  virtual Reply exchange(const Request& request) = 0;
};

// To a responder in this process.
std::unique_ptr<Link> local_link(const Device& dev);
// To the host that the command line names, which may still be booting; else to a responder in this
// process, on a context of its own.
std::unique_ptr<Link> open_link(const CommandLine& line);
// Serves one client after another, or only one if `once`.
void serve(const CommandLine& line, bool once);

// An end at the other end of a link.
class Remote {
 public:
  Remote(Link& link, const EndSpec& spec);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote();

  [[nodiscard]] const Endpoint& endpoint() const { return opened_.endpoint; }
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0, Kind kind = Kind::kHost) const {
    return opened_.address[static_cast<std::size_t>(kind)] + offset;
  }
  [[nodiscard]] std::uint32_t rkey(Kind kind = Kind::kHost) const {
    return opened_.rkey[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] ibv_mtu active_mtu() const { return opened_.mtu; }
  // Only if it is in this process.
  [[nodiscard]] const End& end() const;

  void connect(const Connection& how, const Endpoint& remote,
               ibv_qp_state until = IBV_QPS_RTS) const;
  void fill(const Range& range, std::uint64_t seed) const;
  void check(const Range& range, std::uint64_t seed) const;
  void paint(Kind kind, std::uint64_t background, Patches patches = {}) const;
  void check(Kind kind, std::uint64_t background, Patches patches = {}) const;
  void post_recv(std::uint64_t wr_id, Ranges ranges) const;
  void post_recv(std::uint64_t wr_id, const Range& range) const { post_recv(wr_id, {&range, 1}); }
  [[nodiscard]] std::vector<ibv_wc> poll_recv(std::size_t count) const;
  [[nodiscard]] std::vector<ibv_wc> poll_send(std::size_t count) const;
  void expect_quiet(int ms) const;
  void arm(bool solicited_only) const;
  [[nodiscard]] bool wait_event(int timeout_ms) const;
  [[nodiscard]] bool wait_async(ibv_event_type type, int timeout_ms) const;
  void to_state(ibv_qp_state state) const;
  [[nodiscard]] std::uint64_t load64(std::uint64_t offset) const;
  void store64(std::uint64_t offset, std::uint64_t value) const;
  void post(const Work& work, const Range& range) const;
  void send(std::uint64_t wr_id, const Range& range) const { post({.wr_id = wr_id}, range); }
  [[nodiscard]] ibv_qp_state qp_state() const;
  void destroy_qp() const;
  [[nodiscard]] std::uint64_t physical() const;

 private:
  [[nodiscard]] Request request(Cmd cmd, std::uint64_t a = 0, std::uint64_t b = 0) const;
  void on_range(Cmd cmd, const Range& range, std::uint64_t a) const;
  void on_memory(Cmd cmd, Kind kind, std::uint64_t background, Patches patches) const;
  [[nodiscard]] std::vector<ibv_wc> poll(bool send, std::size_t count) const;

  Link& link_;
  Reply opened_;
};

}  // namespace guest
