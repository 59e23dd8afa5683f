// SPDX-License-Identifier: GPL-2.0-or-later
// The verbs objects of one end, by slots. Arguments and results are plain bytes, since the end may
// be another process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "space.h"
#include "steps.h"
#include "verbs.h"

namespace guest::generator {

struct RegionArgs {
  std::size_t slot = 0;
  std::size_t pd = 0;
  unsigned access = 0;
  int mem = 0;
  std::uint32_t off = 0;
  std::uint32_t len = 0;
  std::uint64_t iova = 0;
};

struct QpArgs {
  std::size_t conn = 0;
  std::int64_t type = kRc;
  std::size_t pd = 0;
  unsigned access = 0;
  bool srq = false;
  ibv_mtu mtu = IBV_MTU_256;
};

// A request with the numbers that go to the adapter.
struct Request {
  std::uint64_t id = 0;
  Verb verb = Verb::kSend;
  int end = 0;
  std::size_t conn = 0;
  std::size_t num_sge = 0;
  std::array<ibv_sge, 2> sge{};
  unsigned flags = 0;
  bool api_wr = false;
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;  // or the key to invalidate
  std::uint32_t imm = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t length = 0;  // bytes of data
  // Binds.
  std::size_t window = 0;
  std::size_t region = 0;
  std::uint64_t addr = 0;
  std::uint64_t bind_length = 0;
  unsigned rights = 0;
  std::uint32_t old_key = 0;  // the key that the program believes a type 1 window has
  std::uint32_t new_key = 0;
  int forge = 0;
  // Where inline data lies.
  int inline_mem = -1;
  std::uint32_t inline_off = 0;
};

struct Keys {
  int err = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

struct Numbers {
  int err = 0;
  std::uint32_t qpn = 0;
  std::uint32_t srqn = 0;
};

struct Completion {
  int end = 0;
  std::size_t cq = 0;
  ibv_wc wc{};
};

// What errno values and completions of one end look like to the program.
class Side {
 public:
  virtual ~Side() = default;
  virtual Keys region(const RegionArgs& args) = 0;
  virtual int dereg(std::size_t slot) = 0;
  virtual Keys rereg(const RegionArgs& args, int what) = 0;
  virtual Keys window(std::size_t slot, int type, std::size_t pd) = 0;
  virtual int dealloc(std::size_t slot) = 0;
  // Restores the key of a type 1 window whose bind failed, as ibv_bind_mw(3) asks.
  virtual void restore(std::size_t slot, std::uint32_t key) = 0;
  virtual Numbers create(const QpArgs& args) = 0;
  virtual int connect(const QpArgs& args, const Endpoint& remote) = 0;
  virtual int modify(std::size_t conn, ibv_qp_state state) = 0;
  virtual int destroy(std::size_t conn) = 0;
  // Returns the new key of a type 1 window as well.
  virtual Keys post(const Request& request) = 0;
  virtual int receive(std::size_t conn, bool srq, std::uint64_t id,
                      std::span<const ibv_sge> sges) = 0;
  virtual std::vector<Completion> poll() = 0;
  // Arms a CQ. Returns an errno.
  virtual int arm(std::size_t cq, bool solicited) = 0;
  // Takes events of the CQs. Returns how many came within timeout_ms.
  virtual int events(int timeout_ms) = 0;
  virtual std::vector<std::byte> load_device() = 0;
  virtual void store_device(std::span<const std::byte> bytes) = 0;
  virtual ibv_gid gid() = 0;
  // Destroys all windows and regions.
  virtual void wipe() = 0;
  // Kills the end's process, and goes on with another one. Returns whether that is possible.
  virtual bool kill() { return false; }
};

// Host memory, shared with children of this process.
class Mems {
 public:
  Mems();
  [[nodiscard]] std::span<std::byte> bytes(int end, int mem) const {
    return map_.bytes(
        (static_cast<std::size_t>(end) * kHostMems + static_cast<std::size_t>(mem)) * kMemSize,
        kMemSize);
  }

 private:
  Map map_;
};

// The end in this process.
std::unique_ptr<Side> make_side(int end, const std::string& device, int gid_index, const Mems& mems,
                                const Caps& caps);

}  // namespace guest::generator
