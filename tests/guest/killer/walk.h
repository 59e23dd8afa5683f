// SPDX-License-Identifier: GPL-2.0-or-later
// An endless random walk through the verbs.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "owner.h"
#include "shared.h"

namespace guest::killer {

inline constexpr std::size_t kMaxRegion = std::size_t{2} << 20;
inline constexpr int kRegionAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct Options {
  std::string device = "tern0";
  std::uint64_t seed = 0;
  std::uint32_t kill_after = 0;  // verbs; 0: killed from outside
  bool second = false;           // is the second process, which uses the first one's XRC objects
  // Never destroys objects that are in use, since a removed device would not refuse it.
  bool orderly = false;
  int xrcd_fd = -1;  // the file that identifies the shared XRC domain
};

// The objects of one process. It destroys them in any order: the kernel refuses to destroy one that
// is in use.
class Walk {
 public:
  Walk(const Options& options, Shared& shared);
  [[noreturn]] void run();

 private:
  struct Context {
    ibv_context* verbs;
    ibv_device_attr attr;
    ibv_gid gid;
    std::uint8_t gid_index;
  };
  template <typename T>
  struct Of {
    ibv_context* context;
    T* object;
    ibv_pd* pd = nullptr;
  };
  struct Region {
    ibv_context* context;
    ibv_mr* object;
    ibv_pd* pd;
    bool bindable = false;
    ibv_dm* dm = nullptr;  // set if the region is in device memory
  };
  struct Window {
    ibv_context* context;
    ibv_mw* object;
    ibv_pd* pd;
    bool bound = false;  // as far as posted
  };
  struct Queue {
    ibv_context* context;
    ibv_qp* object;
    Kind kind;
    bool connected;
    ibv_xrcd* xrcd;  // XRC targets only
  };
  struct SharedQueue {
    ibv_context* context;
    ibv_srq* object;
    ibv_pd* pd;
    ibv_cq* cq;      // XRC SRQs only
    ibv_xrcd* xrcd;  // XRC SRQs only
    std::uint32_t max_wr;
  };
  struct Membership {
    ibv_qp* qp;
    ibv_gid group;
    std::uint16_t lid;
  };

  // Records that the verb `what` has returned. Kills the process after the kill_after-th verb.
  void step(const char* what);
  [[nodiscard]] std::size_t queues(Kind kind) const;
  void one_operation();

  template <typename T>
  [[nodiscard]] T* any(std::vector<T>& pool, ibv_context* context = nullptr);
  template <typename T>
  void forget(std::vector<T>& pool, const T* element);
  // Destroys a random element. An orderly walk spares those in use.
  template <typename T>
  void drop(std::vector<T>& pool, const char* what);
  template <typename T>
  void forget_context(std::vector<T>& pool, ibv_context* context);
  Context* context_of(ibv_context* verbs);
  Queue* any_queue(Kind kind, bool connected, ibv_context* context = nullptr);

  void open_device();
  void close_device();
  void make_pd();
  void make_mr();
  void make_channel();
  void make_cq();
  void make_qp();
  void make_xrc_target();
  void open_target();
  void make_srq();
  void make_xrc_srq();
  void open_xrcd();
  void make_ah();
  void attach();
  void detach();
  void connect();
  void connect_one(Queue& queue, std::uint32_t peer);
  void traffic();
  void post_sends(Queue& queue, const ibv_mr& mr);
  void post_receives(Queue& queue, const ibv_mr& mr);
  void notify();
  void poll();
  void change_srq();
  void query();
  void to_error();
  void make_mw();
  void bind_mw();
  bool post_bind(Queue& queue, Window& window, const Region& region);
  void make_dm();
  void make_dm_mr();
  void rereg_mr();
  void take_async_event();
  void fork_holder();
  [[nodiscard]] bool in_use(const ibv_pd* pd) const;
  [[nodiscard]] bool in_use(const ibv_cq* cq) const;
  [[nodiscard]] bool in_use(const ibv_srq* srq) const;
  [[nodiscard]] bool in_use(const ibv_xrcd* xrcd) const;
  [[nodiscard]] bool in_use(const ibv_dm* dm) const;
  void destroy();
  void destroy_memory();
  void destroy_qp(Queue& queue);

  const Options options_;
  Shared& shared_;
  Role& role_;
  Random random_;
  std::uint32_t posted_ = 0;
  std::uint32_t forks_ = 0;
  std::uint32_t reregs_ = 0;
  std::vector<Context> contexts_;
  std::vector<Of<ibv_pd>> pds_;
  std::vector<Region> mrs_;
  std::vector<Window> mws_;
  std::vector<Of<ibv_dm>> dms_;
  std::vector<Of<ibv_comp_channel>> channels_;
  std::vector<Of<ibv_cq>> cqs_;
  std::vector<Queue> qps_;
  std::vector<SharedQueue> srqs_;
  std::vector<Of<ibv_xrcd>> xrcds_;
  std::vector<Of<ibv_ah>> ahs_;
  std::vector<Membership> members_;
};

template <typename T>
T* Walk::any(std::vector<T>& pool, ibv_context* context) {
  if (pool.empty()) return nullptr;
  const std::size_t start = random_.below(pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) {
    T& element = pool[(start + i) % pool.size()];
    if (context == nullptr || element.context == context) return &element;
  }
  return nullptr;
}

template <typename T>
void Walk::forget(std::vector<T>& pool, const T* element) {
  pool.erase(pool.begin() + (element - pool.data()));
}

template <typename T>
void Walk::drop(std::vector<T>& pool, const char* what) {
  const T* const victim = any(pool);
  if (victim == nullptr) return;
  if constexpr (requires { in_use(victim->object); }) {
    if (options_.orderly && in_use(victim->object)) return;
  }
  if (guest::destroy(victim->object) == 0) forget(pool, victim);
  step(what);
}

}  // namespace guest::killer
