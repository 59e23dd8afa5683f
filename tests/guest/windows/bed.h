// SPDX-License-Identifier: GPL-2.0-or-later
// What a test of memory windows is made of: a region of the owner, windows on parts of it, and
// paths on which a peer gets at them. The owner is this process; the peer may be on another
// machine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer.h"

namespace guest::windows {

struct Env {
  const Device& dev;
  Link& link;
  bool exact = true;         // events and flushed receives of refused accesses are tern's
  bool uc_local_inv = true;  // a UC QP can have LOCAL_INV
  std::string kind{};        // of type 2 windows that it must have, 2a or 2b, or empty
  std::string device{};      // its name
  bool counts = true;        // its live objects can be counted
};

// A test that has nothing to say here.
class Skip : public Failure {
 public:
  using Failure::Failure;
};

// Refusals that were asked for and came, since the last call.
unsigned take_refusals();
void count_refusal();

constexpr int kWindowable = kAllAccess | IBV_ACCESS_MW_BIND;

PdPtr alloc_pd(const Device& dev);
MwPtr alloc_mw(ibv_pd* pd, ibv_mw_type type);
inline int free_dm(ibv_dm* dm) { return ibv_free_dm(dm); }
using DmPtr = std::unique_ptr<ibv_dm, Destroyer<ibv_dm, free_dm>>;

// What a region is made of.
struct RegionOptions {
  ibv_pd* pd = nullptr;  // null: the device's
  std::size_t length = 3UL * 4096;
  int access = kWindowable;
  std::optional<std::uint64_t> iova{};
  bool device_memory = false;  // zero-based
};

// Memory with an MR on all of it and a pattern in it. What it should hold is kept beside it: every
// byte that nobody may touch is a canary.
class Region {
 public:
  explicit Region(const Env& env, const RegionOptions& options = {});
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  [[nodiscard]] ibv_mr* mr() const { return mr_; }
  [[nodiscard]] std::size_t length() const { return image_.size(); }
  // What a peer or a bind calls the byte at offset.
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return base_ + offset; }

  // Bytes of another pattern from offset on, there and in what it should hold.
  void fill(Range range, std::uint64_t seed);
  // This is what the range should hold from now on; the memory is not touched.
  void expect(Range range, std::uint64_t seed);
  void expect64(std::uint64_t offset, std::uint64_t value);
  [[nodiscard]] std::uint64_t expected64(std::uint64_t offset) const;
  // Every byte is what it should be.
  void check(const char* after) const;
  // The memory as it is.
  [[nodiscard]] std::vector<std::byte> load() const;
  // The first word of host memory as it is now: somebody else may be writing it.
  [[nodiscard]] std::uint64_t first64() const;

  // Deregisters; the errno. Memory and MR stay when it fails.
  [[nodiscard]] int deregister();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] ibv_dm* device_memory() const { return dm_.get(); }

 private:
  void store() const;

  std::vector<std::byte> image_;
  std::byte* data_ = nullptr;
  std::uint64_t base_ = 0;
  DmPtr dm_;
  ibv_mr* mr_ = nullptr;
};

enum class Op { kRead, kWrite, kWriteImm, kCmpSwap, kFetchAdd, kAtomicWrite, kFlush };
// Those that every path can have; the others need one whose options say so.
constexpr Op kAllOps[] = {Op::kRead, Op::kWrite, Op::kWriteImm, Op::kCmpSwap, Op::kFetchAdd};
constexpr Op kUcOps[] = {Op::kWrite, Op::kWriteImm};
const char* op_name(Op op);
std::span<const Op> ops_of(ibv_qp_type type);
constexpr bool is_atomic(Op op) { return op == Op::kCmpSwap || op == Op::kFetchAdd; }

struct PathOptions {
  ibv_qp_type type = IBV_QPT_RC;  // of the owner's end: RC, UC or XRC_RECV
  ibv_pd* pd = nullptr;           // of that QP, of the SRQ with XRC_RECV; null: the device's
  int qp_access = kRemoteAccess;
  bool flushes = false;  // FLUSH and ATOMIC WRITE too; not UC
  bool signal_all = false;
  std::uint32_t peer_memory = 16384;
};

// A QP of the owner, and one of the peer connected to it.
class Path {
 public:
  explicit Path(const Env& env, const PathOptions& options = {});

  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_cq* send_cq() const { return send_cq_.get(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return recv_cq_.get(); }
  [[nodiscard]] const Remote& peer() const { return peer_; }
  [[nodiscard]] const Memory& inbox() const { return inbox_; }
  [[nodiscard]] bool reliable() const { return options_.type != IBV_QPT_UC; }
  void destroy_qp() { qp_.reset(); }
  // Both ends through RESET to RTS again.
  void reconnect();

  // The owner posts on its own QP, and takes the completion.
  void post(const Send& send, Api api = Api::kPost) const;
  ibv_wc done(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  void recv(std::uint64_t wr_id, std::uint32_t length = 64) const;
  ibv_wc received(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;

  // The peer accesses this address through this key; what its completion says.
  ibv_wc_status attempt(Op op, std::uint32_t rkey, std::uint64_t addr, std::uint32_t length) const;
  // It works: exactly these bytes of the region have moved. addr is what the peer calls offset.
  void allowed(Region& region, Op op, std::uint32_t rkey, std::uint64_t addr, Range at) const;
  // It is refused as it must be, both ends say so, and no byte has moved. The path is dead then.
  void denied(const Region& region, Op op, std::uint32_t rkey, std::uint64_t addr,
              std::uint32_t length, ibv_wc_status status = IBV_WC_REM_ACCESS_ERR) const;
  // The owner's end has failed and told so: the QP is in ERR.
  void expect_owner_error(ibv_event_type event) const;
  // A SEND of the peer arrives: everything it sent before has been dealt with.
  void sync() const;
  // The peer sends with invalidate, which ends like this at both ends.
  void send_inv(std::uint32_t rkey, ibv_wc_status status = IBV_WC_SUCCESS) const;

 private:
  void connect();
  [[nodiscard]] Work work(Op op, std::uint32_t rkey, std::uint64_t addr) const;

  const Env& env_;
  PathOptions options_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Memory inbox_;
  XrcShare xrc_;
  QpPtr qp_;
  Remote peer_;
};

// A QP of the owner that can only send: it binds and invalidates.
class XrcSender {
 public:
  // Any QP of the peer does to be connected to: nothing is sent.
  XrcSender(const Env& env, const Path& any);

  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_wc done() const { return poll(cq_.get(), 1).front(); }

 private:
  CqPtr cq_;
  QpPtr qp_;
};

constexpr std::uint64_t kBindId = 0xb1;
constexpr std::uint64_t kInvId = 0x1f;

// A bind of a window of either type.
struct Bind {
  ibv_mw* mw = nullptr;
  ibv_mr* mr = nullptr;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  unsigned access = kRemoteAccess;
  std::uint32_t new_rkey = 0;  // type 2
  unsigned flags = IBV_SEND_SIGNALED;

  [[nodiscard]] ibv_mw_bind_info info() const {
    return {.mr = mr, .addr = addr, .length = length, .mw_access_flags = access};
  }
};
// The key with another low byte.
constexpr std::uint32_t with_variant(std::uint32_t key, std::uint32_t variant) {
  return (key & ~0xffU) | (variant & 0xffU);
}
// The errno; type 1 through ibv_bind_mw.
int post_bind(ibv_qp* qp, const Bind& bind, Api api = Api::kPost);
int post_local_inv(ibv_qp* qp, std::uint32_t rkey, Api api = Api::kPost);
// These require that posting works, and that the completion has this status. The window's key.
std::uint32_t bind(const Path& path, const Bind& bind, ibv_wc_status status = IBV_WC_SUCCESS,
                   Api api = Api::kPost);
void local_inv(const Path& path, std::uint32_t rkey, ibv_wc_status status = IBV_WC_SUCCESS,
               Api api = Api::kPost);

// How a bed's window is made.
struct Form {
  ibv_mw_type type = IBV_MW_TYPE_1;
  bool zero_based = false;
  bool device_memory = false;
  ibv_qp_type via = IBV_QPT_RC;  // the path's
  unsigned access = kRemoteAccess;
  int mr_access = kWindowable;
  bool flushes = false;  // region and QP allow FLUSH, and the path can have it and ATOMIC WRITE
  std::optional<std::uint64_t> iova{};
  Range at{.offset = 1000, .length = 2000};
};

// A region, a path, and a window on the middle of the region, bound through the path.
class Bed {
 public:
  Bed(const Env& env, const Form& form);

  Region region;
  Path path;
  MwPtr mw;
  std::uint32_t key = 0;

  // What a peer calls the window's byte at offset, which may be negative.
  [[nodiscard]] std::uint64_t address(std::int64_t offset = 0) const;
  [[nodiscard]] Bind request() const;
  // Binds, or binds again; key is the new one.
  void rebind(const Bind& request);
  // Every operation of the path's type works on these bytes of the window.
  void all_work(Range at, std::uint32_t rkey);
  void all_work() { all_work({.offset = 0, .length = 64}, key); }
  // One that is refused: addr as address() gives it.
  void denied(Op op, std::uint32_t rkey, std::uint64_t addr, std::uint32_t length) const {
    path.denied(region, op, rkey, addr, length);
  }

  // What binds: the path, or where that cannot bind another one.
  [[nodiscard]] const Path& binder() const { return binder_ ? *binder_ : path; }

 private:
  Form form_;
  std::unique_ptr<Path> binder_;
};

}  // namespace guest::windows
