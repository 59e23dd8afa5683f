// SPDX-License-Identifier: GPL-2.0-or-later
// Building blocks of the memory window tests: a region of the owner, windows on parts of it, and
// paths by which a peer accesses them. The owner is this process; the peer may be on another
// machine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rule.h"

namespace guest::windows {

// Returns the number of expected refusals since the last call.
unsigned take_refusals();
void count_refusal();

constexpr int kWindowable = kAllAccess | IBV_ACCESS_MW_BIND;

// The attributes of a region.
struct RegionOptions {
  ibv_pd* pd = nullptr;  // null: the device's PD
  std::size_t length = 3UL * 4096;
  int access = kWindowable;
  std::optional<std::uint64_t> iova{};
  bool device_memory = false;  // zero-based
};

// Memory that is registered as a whole and filled with a pattern. An image of the expected contents
// is kept beside it, so that every byte that nobody may touch is a canary.
class Region {
 public:
  explicit Region(const Env& env, const RegionOptions& options = {});
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  [[nodiscard]] ibv_mr* mr() const { return mr_; }
  [[nodiscard]] std::size_t length() const { return image_.size(); }
  // Returns the address of a byte, as used by the peer or in a bind.
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return base_ + offset; }

  // Writes another pattern to a range, in memory and in the image.
  void fill(Range range, std::uint64_t seed);
  // Changes the expected contents of the range, but not the memory.
  void expect(Range range, std::uint64_t seed);
  void expect64(std::uint64_t offset, std::uint64_t value);
  [[nodiscard]] std::uint64_t expected64(std::uint64_t offset) const;
  // Checks that every byte is as expected.
  void check(const char* after) const;
  // Returns the current contents of the memory.
  [[nodiscard]] std::vector<std::byte> load() const;
  // Returns the current first word of host memory, which the device may be writing.
  [[nodiscard]] std::uint64_t first64() const;

  // Deregisters the MR. Returns an errno; on failure memory and MR stay.
  [[nodiscard]] int deregister();
  [[nodiscard]] std::byte* data() const { return host_->at(); }
  [[nodiscard]] ibv_dm* device_memory() const { return dm_.get(); }

 private:
  void store() const;

  std::vector<std::byte> image_;
  std::optional<Map> host_;
  std::uint64_t base_ = 0;
  DmPtr dm_;
  ibv_mr* mr_ = nullptr;
};

enum class Op { kRead, kWrite, kWriteImm, kCmpSwap, kFetchAdd, kAtomicWrite, kFlush };
// Operations that every path supports; the others need a path whose options allow them.
constexpr Op kAllOps[] = {Op::kRead, Op::kWrite, Op::kWriteImm, Op::kCmpSwap, Op::kFetchAdd};
constexpr Op kUcOps[] = {Op::kWrite, Op::kWriteImm};
const char* op_name(Op op);
std::span<const Op> ops_of(ibv_qp_type type);
constexpr bool is_atomic(Op op) { return op == Op::kCmpSwap || op == Op::kFetchAdd; }

struct PathOptions {
  ibv_qp_type type = IBV_QPT_RC;  // of the owner's QP: RC, UC or XRC_RECV
  ibv_pd* pd = nullptr;           // of that QP, or of the SRQ with XRC_RECV; null: the device's PD
  int qp_access = kRemoteAccess;
  bool flushes = false;  // also FLUSH and ATOMIC WRITE; not on UC
  bool signal_all = false;
  std::uint32_t peer_memory = 16384;
};

// A QP of the owner, connected to one of the peer.
class Path {
 public:
  explicit Path(const Env& env, const PathOptions& options = {});

  [[nodiscard]] ibv_qp* qp() const { return pair_.local.qp(); }
  [[nodiscard]] ibv_cq* send_cq() const { return pair_.local.send_cq(); }
  [[nodiscard]] ibv_cq* recv_cq() const { return pair_.local.recv_cq(); }
  [[nodiscard]] const Remote& peer() const { return pair_.remote; }
  [[nodiscard]] const Memory& inbox() const { return pair_.local.memory(); }
  [[nodiscard]] bool reliable() const { return options_.type != IBV_QPT_UC; }
  void destroy_qp() { pair_.local.destroy_qp(); }
  // Takes both ends through RESET back to RTS.
  void reconnect();

  // Requests and receives of the owner, and their completions.
  void post(const Send& send, Api api = Api::kPost) const;
  ibv_wc done(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;
  void recv(std::uint64_t wr_id, std::uint32_t length = 64) const;
  ibv_wc received(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;

  // The peer accesses this address by this key. Returns the status of its completion.
  ibv_wc_status attempt(Op op, std::uint32_t rkey, std::uint64_t addr, std::uint32_t length) const;
  // Checks that the access works and moves exactly these bytes of the region. `addr` is the address
  // of at.offset by that key.
  void allowed(Region& region, Op op, std::uint32_t rkey, std::uint64_t addr, Range at) const;
  // Checks that the access is refused, that both ends report it, and that no byte has moved. The
  // path cannot be used afterwards.
  void denied(const Region& region, Op op, std::uint32_t rkey, std::uint64_t addr,
              std::uint32_t length, ibv_wc_status status = IBV_WC_REM_ACCESS_ERR) const;
  // Checks that the owner's QP is in ERR and has raised the event.
  void expect_owner_error(ibv_event_type event) const;
  // Waits for a SEND of the peer: everything it sent before has been processed.
  void sync() const;
  // The peer sends with invalidate; checks its status at both ends.
  void send_inv(std::uint32_t rkey, ibv_wc_status status = IBV_WC_SUCCESS) const;

 private:
  [[nodiscard]] Work work(Op op, std::uint32_t rkey, std::uint64_t addr) const;

  const Env& env_;
  PathOptions options_;
  Pair pair_;
};

// Skips the test if a UC QP cannot invalidate.
void need_uc_local_inv(const Env& env);

// A QP of the owner that can only send, and so bind and invalidate. It is connected to any QP of
// the peer, since nothing is sent.
End xrc_sender(const Env& env, const Path& any);

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
// Replaces the low byte of a key.
constexpr std::uint32_t with_variant(std::uint32_t key, std::uint32_t variant) {
  return (key & ~0xffU) | (variant & 0xffU);
}
// Return an errno. A type 1 window is bound by ibv_bind_mw().
int post_bind(ibv_qp* qp, const Bind& bind, Api api = Api::kPost);
int post_local_inv(ibv_qp* qp, std::uint32_t rkey, Api api = Api::kPost);
// These require that the post succeeds and that the completion has this status. bind() returns the
// window's key.
std::uint32_t bind(const Path& path, const Bind& bind, ibv_wc_status status = IBV_WC_SUCCESS,
                   Api api = Api::kPost);
void local_inv(const Path& path, std::uint32_t rkey, ibv_wc_status status = IBV_WC_SUCCESS,
               Api api = Api::kPost);

// How a window is created.
struct Form {
  ibv_mw_type type = IBV_MW_TYPE_1;
  bool zero_based = false;
  bool device_memory = false;
  ibv_qp_type via = IBV_QPT_RC;  // of the path
  unsigned access = kRemoteAccess;
  int mr_access = kWindowable;
  bool flushes = false;  // region and QP allow FLUSH; the path supports it and ATOMIC WRITE
  std::optional<std::uint64_t> iova{};
  Range at{.offset = 1000, .length = 2000};
};

// A region, a path, and a window on the middle of the region, bound through the path.
class Window {
 public:
  Window(const Env& env, const Form& form);

  Region region;
  Path path;
  MwPtr mw;
  std::uint32_t key = 0;

  // Returns the address of a byte of the window, as the peer uses it; `offset` may be negative.
  [[nodiscard]] std::uint64_t address(std::int64_t offset = 0) const;
  [[nodiscard]] Bind request() const;
  // Binds, or rebinds; updates `key`.
  void rebind(const Bind& request);
  // Checks that the peer can use a key that a SEND carries which was posted right after the bind.
  void send_key_after_bind();
  // Checks that every operation of the path's type works on these bytes of the window.
  void all_work(Range at, std::uint32_t rkey);
  void all_work() { all_work({0, 64}, key); }
  // Check that an access to bytes from `at` on is allowed or refused; the window begins at 0.
  void allowed(Op op, std::int64_t at, std::uint32_t length) {
    path.allowed(region, op, key, address(at),
                 {form_.at.offset + static_cast<std::uint64_t>(at), length});
  }
  void denied(Op op, std::int64_t at, std::uint32_t length) const {
    denied(op, key, address(at), length);
  }
  // The same by another key; `addr` is as returned by address().
  void denied(Op op, std::uint32_t rkey, std::uint64_t addr, std::uint32_t length) const {
    path.denied(region, op, rkey, addr, length);
  }

  // Returns the path that binds: `path`, or another one if that cannot bind.
  [[nodiscard]] const Path& binder() const { return binder_ ? *binder_ : path; }

 private:
  Form form_;
  std::unique_ptr<Path> binder_;
};

// Binds `mw`, of type 2, to the window's range through `sender`. Returns its key.
std::uint32_t bind_by(const End& sender, const Window& window, ibv_mw* mw);

}  // namespace guest::windows
