// SPDX-License-Identifier: GPL-2.0-or-later
// Random calls of the library on the objects of one open device.
#pragma once

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "owner.h"
#include "random.h"
#include "verbs.h"

namespace guest {

// What a walk reaches: objects of a type that were made, and calls of a class that succeeded. A
// program may add goals of its own from kWalkGoals on.
enum Goal : std::size_t {
  kContext,
  kPd,
  kMr,
  kOdpMr,
  kDm,
  kDmMr,
  kChannel,
  kCq,
  kSrq,
  kXrcSrq,
  kRc,
  kUc,
  kUd,
  kXrcSend,
  kXrcTarget,
  kOpenedQp,
  kXrcd,
  kAh,
  kMcast,
  kMw,
  kConnected,
  kPosted,
  kCompleted,
  kQuery,
  kResize,
  kRereg,
  kDestroy,
  kWalkGoals
};

// Draws an element of a table by its weight. Returns its index.
template <typename T>
std::size_t draw(Random& random, std::span<const T> all) {
  std::uint32_t total = 0;
  for (const T& element : all) total += element.weight;
  std::uint32_t pick = random.below(total);
  std::size_t chosen = 0;
  while (pick >= all[chosen].weight) pick -= all[chosen++].weight;
  return chosen;
}

// What the processes of a test tell each other.
struct WalkShared {
  std::atomic<std::uint32_t> target_qpn;  // an XRC target of some process, or 0
  std::atomic<std::uint32_t> srqn;        // an XRC SRQ of some process, or 0
};

struct WalkOptions {
  std::uint64_t seed = 0;
  Connection how{};   // of QPs
  int xrcd_fd = -1;   // the file that identifies the XRC domain of all processes
  bool wild = false;  // also passes arguments that are wrong or extreme
  bool careful =
      false;  // never destroys objects in use, since a removed device would not refuse it
};

class Walk {
 public:
  // `device` must outlive the walk. Its connections are refused if it has no GID.
  Walk(ibv_context* device, WalkShared& shared, const WalkOptions& options);
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;
  virtual ~Walk() = default;

 protected:
  // Returned by a call that had nothing to work on; the others return 0 or an errno.
  static constexpr int kNothing = -1;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kMany = 16;  // objects of a type

  struct Region {
    ibv_mr* mr;
    void* memory;  // null: unmapped, or not this region's own
    std::size_t length;
    bool bindable = false;
    ibv_dm* dm = nullptr;  // set if the region is in device memory
  };
  struct Window {
    ibv_mw* mw;
    bool bound = false;  // as far as posted
  };
  struct Completions {
    ibv_cq* cq;
    bool scribbled = false;
  };
  struct SharedQueue {
    ibv_srq* srq;
    ibv_cq* cq = nullptr;      // XRC SRQs only
    ibv_xrcd* xrcd = nullptr;  // XRC SRQs only
  };
  struct Queue {
    ibv_qp* qp;
    bool extended = false;  // has no queues of its own: opened, or RSS
    bool connected = false;
    bool scribbled = false;    // the provider must not touch its memory any more
    ibv_xrcd* xrcd = nullptr;  // XRC targets only
    unsigned groups = 0;       // multicast groups joined
  };

  // Called after each verb.
  virtual void called(const char* verb) { (void)verb; }
  virtual void reached(std::size_t goal) { (void)goal; }
  virtual void refused(std::size_t goal, int err) { (void)goal, (void)err; }
  // `type` is one of UVERBS_OBJECT_*. The library hides the handles of some types.
  virtual void handle(std::size_t type, std::uint32_t handle) { (void)type, (void)handle; }

  // A random element, or null. Draws once, whatever exists.
  template <typename T>
  T* any(std::vector<T>& pool);
  // The same among those that fit; null if there are none.
  template <typename T, typename F>
  T* fitting(std::vector<T>& pool, F fits);
  template <typename T>
  static T* object_of(T* object) {
    return object;
  }
  static ibv_mr* object_of(const Region& region) { return region.mr; }
  static ibv_mw* object_of(const Window& window) { return window.mw; }
  static ibv_qp* object_of(const Queue& queue) { return queue.qp; }
  static ibv_cq* object_of(const Completions& completions) { return completions.cq; }
  static ibv_srq* object_of(const SharedQueue& queue) { return queue.srq; }
  // Keeps an element whose object `verb` made, unless that is null. Returns an errno.
  template <typename T>
  int keep(std::vector<T>& pool, T made, const char* verb, std::size_t goal, std::size_t type);
  // Destroys a random element, and forgets it unless it is in use.
  template <typename T>
  int drop(std::vector<T>& pool, const char* verb);
  // The multicast GID ::ffff:239.1.1.n.
  static ibv_gid group(std::uint32_t n);
  // Counts the QPs of a type that were created, or opened.
  [[nodiscard]] std::size_t queues(ibv_qp_type type, bool opened = false) const;

  int make_pd();
  int make_mr();
  int make_dm();
  int make_dm_mr();
  int make_channel();
  int make_cq();
  int make_srq();
  int make_xrc_srq();
  int make_xrcd();
  int make_qp();
  int make_target();
  int open_target();
  int make_ah();
  int make_mw();
  int destroy_one();
  ibv_qp_init_attr_ex qp_attr(ibv_qp_type type);

  int connect_qp();
  int mcast();
  int query();
  int resize();
  int rereg();
  int traffic();
  int poll();
  int bind_mw();

  ibv_context* const device_;
  WalkShared& shared_;
  const WalkOptions options_;
  Random random_;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;

  std::vector<ibv_pd*> pds_;
  std::vector<Region> mrs_;
  std::vector<ibv_dm*> dms_;
  std::vector<ibv_comp_channel*> channels_;
  std::vector<Completions> cqs_;
  std::vector<SharedQueue> srqs_;
  std::vector<ibv_xrcd*> xrcds_;
  std::vector<Queue> qps_;
  std::vector<ibv_ah*> ahs_;
  std::vector<Window> mws_;

 private:
  // True one time in `n` if the walk is wild.
  bool odd(std::size_t n) { return random_.one_in(n) && options_.wild; }
  int connect_one(Queue& queue, std::uint32_t peer);
  int post_receives(const Queue& queue, const ibv_mr& mr);
  int post_sends(const Queue& queue, const ibv_mr& mr);
  int post_bind(const Queue& queue, Window& window, const Region& region);
  bool set_request(const Queue& queue, ibv_send_wr& wr, ibv_sge& sge, const ibv_mr& remote);

  // What the library or the kernel refuses to destroy while the device is there.
  [[nodiscard]] bool in_use(const ibv_pd* pd) const;
  [[nodiscard]] bool in_use(const Completions& completions) const;
  [[nodiscard]] bool in_use(const SharedQueue& queue) const;
  [[nodiscard]] bool in_use(const ibv_xrcd* xrcd) const;
  [[nodiscard]] bool in_use(const ibv_dm* dm) const;
  [[nodiscard]] static bool in_use(const Queue& queue) { return queue.groups != 0; }
};

template <typename T>
T* Walk::any(std::vector<T>& pool) {
  const std::uint32_t pick = random_.below(1U << 30);
  return pool.empty() ? nullptr : &pool[pick % pool.size()];
}

template <typename T, typename F>
T* Walk::fitting(std::vector<T>& pool, F fits) {
  T* const first = any(pool);
  if (first == nullptr) return nullptr;
  const auto start = pool.begin() + (first - pool.data());
  auto it = std::find_if(start, pool.end(), fits);
  if (it == pool.end()) it = std::find_if(pool.begin(), start, fits);
  return it == pool.end() || !fits(*it) ? nullptr : &*it;
}

template <typename T>
int Walk::keep(std::vector<T>& pool, T made, const char* verb, std::size_t goal, std::size_t type) {
  const auto* const object = object_of(made);
  const int err = object != nullptr ? 0 : errno != 0 ? errno : EIO;
  if (err == 0) {
    pool.push_back(made);
    if constexpr (requires { object->handle; }) handle(type, object->handle);
    reached(goal);
  } else {
    refused(goal, err);
  }
  called(verb);
  return err;
}

template <typename T>
int Walk::drop(std::vector<T>& pool, const char* verb) {
  T* const victim = any(pool);
  if (victim == nullptr) return kNothing;
  if constexpr (requires { in_use(*victim); }) {
    if (options_.careful && in_use(*victim)) return kNothing;
  }
  const int err = destroy(object_of(*victim));
  if (err == 0) reached(kDestroy);
  if constexpr (std::is_same_v<T, Region>) {
    if (err == 0 && victim->memory != nullptr) munmap(victim->memory, victim->length);
  }
  // A walk that is not wild is the only one that destroys its objects.
  if (err == 0 || (options_.wild && err != EBUSY)) {
    pool.erase(pool.begin() + (victim - pool.data()));
  }
  called(verb);
  return err;
}

}  // namespace guest
