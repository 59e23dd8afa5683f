// SPDX-License-Identifier: GPL-2.0-or-later
// Owners of verbs objects, and the steps every transport test needs: open, connect, post, poll.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "failure.h"
#include "map.h"
#include "owner.h"

namespace guest {

void require_status(const ibv_wc& wc, std::uint64_t wr_id, ibv_wc_status status);

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Includes the access right that FLUSH needs, of a region and of a QP.
constexpr int kFlushAccess = kAllAccess | IBV_ACCESS_FLUSH_GLOBAL;
constexpr std::uint64_t kRcSendOps =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
// Operations that only ibv_wr_*() can post.
constexpr std::uint64_t kBuiltOps = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;

enum class Api { kPost, kWr };
constexpr Api kBothApis[] = {Api::kPost, Api::kWr};
const char* api_name(Api api);

// The objects of a thread domain take no locks; their memory comes from an allocator of the
// program.
enum class Domain { kPd, kThread };

// Opens a device. Returns nullptr if there is none, or if it refuses.
ibv_context* open_context(const std::string& name);
// Returns the last GID that is an IPv4 address.
std::optional<ibv_gid_entry> ipv4_gid(ibv_context* context);

// An open device, a PD, and the port and GID the tests use.
class Device {
 public:
  // gid_index < 0 selects a GID. With kThread, pd() is a parent domain with a thread domain.
  Device(const std::string& name, int gid_index, Domain domain = Domain::kPd);
  // Takes an open context, without a PD.
  Device(ContextPtr context, int gid_index);

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* pd() const { return parent_ ? parent_.get() : pd_.get(); }
  // Null without a thread domain.
  [[nodiscard]] ibv_pd* parent() const { return parent_.get(); }
  [[nodiscard]] const ibv_device_attr& attr() const { return attr_.orig_attr; }
  [[nodiscard]] const ibv_device_attr_ex& attr_ex() const { return attr_; }
  [[nodiscard]] const ibv_port_attr& port() const { return port_; }
  // The interfaces by which requests can be posted: ibv_wr_*() is optional.
  [[nodiscard]] std::span<const Api> apis() const;
  [[nodiscard]] Api api(std::uint64_t i) const { return apis()[i % apis().size()]; }
  // Returns whether a QP of this type can have these operations for ibv_wr_*().
  [[nodiscard]] bool supports(ibv_qp_type type, std::uint64_t send_ops) const;
  [[nodiscard]] ibv_mtu active_mtu() const { return port_.active_mtu; }
  [[nodiscard]] std::uint8_t gid_index() const { return gid_index_; }
  [[nodiscard]] const ibv_gid& gid() const { return gid_; }
  [[nodiscard]] bool iwarp() const {
    return context_->device->transport_type == IBV_TRANSPORT_IWARP;
  }

  // Acknowledges asynchronous events until one of this type arrives. Returns false after
  // timeout_ms.
  bool wait_async(ibv_event_type type, int timeout_ms) const;

 private:
  void query(int gid_index);
  void choose_gid(int gid_index);
  void make_parent();

  ContextPtr context_;
  PdPtr pd_;
  TdPtr td_;
  PdPtr parent_;
  ibv_device_attr_ex attr_{};
  ibv_port_attr port_{};
  std::uint8_t gid_index_ = 0;
  ibv_gid gid_{};
  mutable std::optional<bool> builds_{};  // whether there is ibv_wr_*()
};

// These skip the test unless the device claims what it needs.
void need_windows(ibv_context* context);
void need_windows(ibv_context* context, ibv_mw_type type);
void need_atomics(const Device& dev);
void need_xrc(ibv_context* context);
void need_device_memory(ibv_context* context);
// A bit of device_cap_flags_ex.
void need_capability(const Device& dev, std::uint64_t bit, const char* name);
bool claims_windows(ibv_context* context);
bool claims_atomics(const Device& dev);

// A refusal fails the test. A window needs the capability of its type.
PdPtr alloc_pd(const Device& dev);
MwPtr alloc_mw(ibv_pd* pd, ibv_mw_type type);

// Page-aligned, zeroed memory that is registered as a whole.
class Memory {
 public:
  Memory(ibv_pd* pd, std::size_t length, int access, std::optional<std::uint64_t> iova = {});
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return map_.bytes(); }
  [[nodiscard]] std::size_t length() const { return map_.length(); }
  // Returns the address of a byte, as used in an SGE or by the peer.
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return base_ + offset; }
  [[nodiscard]] ibv_mr* mr() const { return mr_.get(); }
  [[nodiscard]] std::uint32_t lkey() const { return mr_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }
  [[nodiscard]] ibv_sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {.addr = address(offset), .length = length, .lkey = lkey()};
  }
  // Returns the physical address of the first byte; only for root.
  [[nodiscard]] std::uint64_t physical() const;
  [[nodiscard]] std::uint64_t load64(std::uint64_t offset) const;
  void store64(std::uint64_t offset, std::uint64_t value) const;

 private:
  Map map_;
  std::uint64_t base_;
  MrPtr mr_;
};

// Fills memory with bytes that depend on a seed and on their position.
void fill(std::span<std::byte> out, std::uint64_t seed);
// Returns the position of the first byte that differs from fill()'s pattern, if any.
std::optional<std::size_t> mismatch(std::span<const std::byte> in, std::uint64_t seed);

struct Endpoint {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  ibv_gid gid{};
  std::uint32_t srqn = 0;  // XRC
  std::uint16_t lid = 0;   // InfiniBand
};

// Connection attributes. The defaults suit two idle machines under emulation.
struct Connection {
  ibv_mtu mtu{};  // 0: the largest that both ports support
  int qp_access = kRemoteAccess;
  std::uint8_t timeout = 18;  // about 1 s; tern waits four times that
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 16;
};

// The Q_Key of all UD QPs.
constexpr std::uint32_t kQkey = 0x11111111;

// The address vector of a GID; InfiniBand also needs the LID.
ibv_ah_attr path_to(std::uint8_t gid_index, const ibv_gid& gid, std::uint16_t lid);
ibv_ah_attr path_to_itself(const Device& dev);

// State transitions with the attributes that the QP type needs. They return an errno.
int to_init(ibv_qp* qp, const Connection& how);
int to_rtr(ibv_qp* qp, std::uint8_t gid_index, const Connection& how, const Endpoint& remote);
int to_rtr(ibv_qp* qp, const Device& dev, const Connection& how, const Endpoint& remote);
int to_rts(ibv_qp* qp, const Connection& how, std::uint32_t sq_psn);
int to_state(ibv_qp* qp, ibv_qp_state state);
ibv_qp_state state_of(ibv_qp* qp);
// Takes the QP from RESET to a state, RTS at most; a refused transition fails the test.
void connect(ibv_qp* qp, const Device& dev, const Connection& how, const Endpoint& self,
             const Endpoint& remote, ibv_qp_state until = IBV_QPS_RTS);
// Connects the QP to itself; one of datagrams or raw packets becomes ready to send.
void connect_to_itself(ibv_qp* qp, const Device& dev);

// A CQ of the device's thread domain, if it has one, can also be polled with ibv_start_poll().
CqPtr create_cq(const Device& dev, int entries, ibv_comp_channel* channel = nullptr);

constexpr ibv_qp_cap capacity(std::uint32_t send_wr, std::uint32_t recv_wr, std::uint32_t sge = 1,
                              std::uint32_t inline_data = 0) {
  return {.max_send_wr = send_wr,
          .max_recv_wr = recv_wr,
          .max_send_sge = sge,
          .max_recv_sge = recv_wr != 0 ? sge : 0,
          .max_inline_data = inline_data};
}

// Attributes of a QP of any type. A refusal fails the test, or makes try_create_qp() return an
// empty pointer and set errno. Both update `cap` to the QP's capacities.
struct QpSpec {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_pd* pd = nullptr;  // null: the device's PD
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;         // XRC_RECV only
  ibv_qp_cap cap = capacity(4, 4);  // XRC_RECV has none
  std::uint64_t send_ops = 0;
  bool signal_all = false;
  bool builds = false;  // must have ibv_wr_*()
};
QpPtr try_create_qp(const Device& dev, QpSpec& spec);
QpPtr create_qp(const Device& dev, QpSpec& spec);
QpPtr create_qp(const Device& dev, QpSpec&& spec);

// An XRC domain with an SRQ in it, which belongs to `pd`.
struct XrcShare {
  XrcdPtr xrcd;
  SrqPtr srq;
  std::uint32_t srqn = 0;
};
XrcShare open_xrc(const Device& dev, ibv_pd* pd, ibv_cq* cq,
                  const ibv_srq_attr& attr = {.max_wr = 16, .max_sge = 4, .srq_limit = 0});
// An address handle for this GID.
AhPtr create_ah(const Device& dev, const ibv_gid& gid, std::uint16_t lid = 0);

// A send request that either API can post.
struct Send {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::vector<ibv_sge> sges{};
  std::uint64_t wr_id = 0;
  unsigned flags = IBV_SEND_SIGNALED;
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;  // host order
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;  // ATOMIC_WRITE: the value to write
  std::size_t flush_length = 0;
  std::uint8_t flush_type = IBV_FLUSH_GLOBAL;
  std::uint8_t flush_level = IBV_FLUSH_RANGE;
  std::uint32_t inv_rkey = 0;  // SEND_WITH_INV, LOCAL_INV
  ibv_mw* mw = nullptr;        // BIND_MW, type 2
  ibv_mw_bind_info bind{};
  std::uint32_t bind_rkey = 0;
  ibv_ah* ah = nullptr;  // UD
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t srqn = 0;  // XRC
};

// A bind of a type 2 window to a piece of memory. `variant` is the low byte of the new key.
Send bind_request(ibv_mw* mw, const Memory& to, std::uint8_t variant, std::uint64_t wr_id,
                  std::uint32_t length, std::uint64_t at);

// What stands for an index when bad_wr is null, or points to no request of the list.
constexpr std::size_t kBadNull = ~std::size_t{0};
constexpr std::size_t kBadWild = kBadNull - 1;

// Posts all requests with one call or session. Returns an errno; with kPost, *bad is the index of
// the request that failed.
int post(ibv_qp* qp, Api api, std::span<const Send> sends, std::size_t* bad = nullptr);
int post(ibv_qp* qp, Api api, const Send& send);
// Checks what a failed ibv_post_send() returned as bad_wr.
void require_bad(std::size_t bad, std::size_t expected);
int post_recv(ibv_qp* qp, std::uint64_t wr_id, std::span<const ibv_sge> sges);
int post_srq_recv(ibv_srq* srq, std::uint64_t wr_id, std::span<const ibv_sge> sges);
int post_recv(ibv_qp* qp, std::uint64_t wr_id, const std::same_as<ibv_sge> auto& sge) {
  return post_recv(qp, wr_id, {&sge, 1});
}
int post_srq_recv(ibv_srq* srq, std::uint64_t wr_id, const std::same_as<ibv_sge> auto& sge) {
  return post_srq_recv(srq, wr_id, {&sge, 1});
}

// Returns exactly `count` completions. Throws a Failure after timeout_ms.
std::vector<ibv_wc> poll(ibv_cq* cq, std::size_t count, int timeout_ms = 10000);
// Returns at most `count` completions, those that come within `ms`.
std::vector<ibv_wc> poll_for(ibv_cq* cq, std::size_t count, int ms);
// Waits `ms` and requires that nothing has completed.
void expect_quiet(ibv_cq* cq, int ms);
// Waits for one completion event and acknowledges it. Returns false after timeout_ms.
bool wait_event(ibv_comp_channel* channel, int timeout_ms);

}  // namespace guest
