// SPDX-License-Identifier: GPL-2.0-or-later
// Two nodes, windows of one of them, and connections from the peer: the base of the tests of window
// rules.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/windows.h"

namespace tern {

// Window type, as the device is configured.
enum class MwKind : std::uint8_t { kType1, kType2A, kType2B };
// The connection for the peer's accesses and the owner's binds.
enum class Path : std::uint8_t { kRc, kUc, kXrc };
enum class Op3 : std::uint8_t { kWrite, kRead, kAtomic };

[[nodiscard]] const char* name_of(MwKind kind);
[[nodiscard]] const char* name_of(Path path);
[[nodiscard]] const char* name_of(Op3 op);

// A connection. The peer at a sends; `own` at b responds and, except for XRC, also sends.
struct Link {
  TestQp* peer = nullptr;
  TestQp* own = nullptr;
  TestQp* binder = nullptr;   // at b: the QP that binds and invalidates
  TestSrq* srq = nullptr;     // XRC: at b
  TestCq* recv_cq = nullptr;  // at b
};

class WindowWorld {
 public:
  static constexpr std::uint64_t kLength = 3 * 4096;
  // Neither end is aligned, so that an aligned atomic can cross it.
  static constexpr std::uint64_t kFirst = 4100;
  static constexpr std::uint64_t kBytes = 1003;

  WindowWorld(MwKind kind, Path path);

  // The first connection, another one in the same PD of b, and one in another PD.
  Link& link() { return link_; }
  Link& second();
  Link& foreign();
  Link connect(std::uint32_t pd);
  // Takes both ends to RESET and back to RTS.
  void reconnect(Link& link);

  [[nodiscard]] std::uint8_t type() const { return kind == MwKind::kType1 ? 1 : 2; }
  [[nodiscard]] TestMw make_mw(std::uint32_t pd_of = 0) {
    return alloc_mw(b, type(), pd_of ? pd_of : pd);
  }
  // Binds over link() and expects success.
  void bound(TestMw& mw, const TestMr& to, std::uint64_t offset = kFirst,
             std::uint64_t length = kBytes, std::uint32_t access = kWindowAccess);
  // A window bound to the middle of mr.
  [[nodiscard]] TestMw window(std::uint32_t access = kWindowAccess);

  // The peer's access to `len` bytes at offset `at` in the window; an atomic always takes 8 bytes.
  [[nodiscard]] SendWr access(Op3 op, const TestMr& to, std::uint64_t at, std::uint32_t len) const;

  // Each of these performs an action and returns how the result differs from its name; empty if it
  // does not.
  [[nodiscard]] std::string works(Link& over, Op3 op, const TestMr& to, std::uint64_t at,
                                  std::uint32_t len);
  [[nodiscard]] std::string refused(Link& over, SendWr wr);
  [[nodiscard]] std::string bind_refused(Link& over, const SendWr& wr, std::uint32_t key);
  // `look`: a key whose state must not change; 0: none.
  [[nodiscard]] std::string local_inv_refused(Link& over, std::uint32_t key, std::uint32_t look);
  [[nodiscard]] std::string remote_inv_refused(Link& over, std::uint32_t key, std::uint32_t look);
  // For a check between actions.
  [[nodiscard]] static std::string unless(bool held, const char* why) { return held ? "" : why; }

  void post_recv(Link& over);
  [[nodiscard]] Wc wait_bind(Link& over) { return over.binder->wait_send(); }

  const MwKind kind;
  const Path path;
  Sim sim{5};
  TestNode a{sim};
  TestNode b;
  std::uint32_t pd = b.alloc_pd(true);
  std::uint32_t other_pd = b.alloc_pd(true);
  TestMr& src = a.reg(kLength);
  TestMr& mr = b.reg(kLength, {.pd = pd, .access = kBindable});

 private:
  struct Snapshot {
    std::vector<std::byte> ours;
    std::vector<std::byte> theirs;
    friend bool operator==(const Snapshot&, const Snapshot&) = default;
  };
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] std::string state_after_failure(Link& over);
  [[nodiscard]] tern_rsp_mr look_at(std::uint32_t key) {
    return key ? query_key(b, key) : tern_rsp_mr{};
  }

  std::uint32_t xrcd_a_ = 0;
  std::uint32_t xrcd_b_ = 0;
  Link link_;
  std::unique_ptr<Link> second_;
  std::unique_ptr<Link> foreign_;
};

}  // namespace tern
