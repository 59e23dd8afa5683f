// SPDX-License-Identifier: GPL-2.0-or-later
// The life of a process that uses the device: random calls on random objects, from a seed.
#pragma once

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <infiniband/terndv.h>
#include "owner.h"
#include "raw.h"
#include "tally.h"

namespace guest::uverbsfuzz {

struct LifeOptions {
  std::string device = "tern0";
  std::uint64_t seed = 0;
  bool orderly = false;    // one thread, nothing that ends it early; it leaves its trace
  bool core_bugs = false;  // also send what ib_core itself gets wrong
};

// What all threads of a process share.
struct Process {
  const LifeOptions& options;
  Tally& tally;
  Handles handles{};
  ibv_context* verbs = nullptr;
  ibv_gid gid{};
  std::uint8_t gid_index = 0;

  // ib_core locks the multicast groups of a QP that was opened by a mutex that it never
  // initializes. Any handle of a QP may be that of another one soon, so a process does one or the
  // other.
  [[nodiscard]] bool may_open() const { return options.core_bugs || options.seed % 2 == 0; }
  [[nodiscard]] bool may_join() const { return options.core_bugs || options.seed % 2 != 0; }
};

// One thread, which owns its objects. Other threads may destroy them by their handles.
class Thread {
 public:
  Thread(Process& process, std::uint64_t seed);
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() = default;

  void run(std::uint32_t calls);
  // Destroys all objects in the order that the library demands.
  void destroy_all();
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

 private:
  // Returned by a call that had nothing to work on.
  static constexpr int kNothing = -1;

  struct Region {
    ibv_mr* mr;
    void* memory;  // null: device memory
    std::size_t length;
  };
  struct Queue {
    ibv_qp* qp;
    bool extended = false;  // opened, not created
    bool connected = false;
    bool scribbled = false;  // the provider must not touch its memory any more
  };
  struct Completions {
    ibv_cq* cq;
    bool scribbled;
  };
  struct Mapping {
    void* memory;
    std::size_t length;
  };
  struct Op {
    const char* name;
    std::uint32_t weight;
    int (Thread::*call)();
    bool traced;  // its result depends on nothing but the calls before it
  };
  static const std::vector<Op>& ops();
  static std::vector<Op> making_ops();
  static std::vector<Op> using_ops();

  void reached(Goal goal) { ++process_.tally.reached[goal]; }
  void note(std::size_t op, int err);
  // A random element, or null. Draws once, whatever exists.
  template <typename T>
  T* any(std::vector<T>& pool);
  // The same among those that fit, if there are any.
  template <typename T, typename F>
  T* fitting(std::vector<T>& pool, F fits);
  template <typename T>
  static T* object_of(T* object) {
    return object;
  }
  static ibv_mr* object_of(const Region& region) { return region.mr; }
  static ibv_qp* object_of(const Queue& queue) { return queue.qp; }
  static ibv_cq* object_of(const Completions& completions) { return completions.cq; }
  static std::uint32_t handle_of(const auto* object) { return object->handle; }
  static std::uint32_t handle_of(const ibv_rwq_ind_table* table) {
    return static_cast<std::uint32_t>(table->ind_tbl_handle);
  }
  // Keeps an element whose object the library made, unless that is null. Returns an errno.
  template <typename T>
  int keep(std::vector<T>& pool, T made, Goal goal, std::size_t type);
  // Destroys a random element.
  template <auto kPool>
  int drop();
  Raw raw();

  // make.cc
  int make_pd();
  int make_mr();
  int make_dmabuf_mr();
  int make_dm();
  int make_dm_mr();
  int make_channel();
  int make_cq();
  int make_srq();
  int make_xrc_srq();
  int make_xrcd();
  int make_qp();
  int make_raw_qp();
  int make_target();
  int open_target();
  int make_ah();
  int make_mw();
  int make_wq();
  int make_table();
  int make_rss_qp();
  int make_flow();
  int make_counters();
  int destroy_one();
  ibv_qp_init_attr_ex qp_attr(ibv_qp_type type);

  // use.cc
  int connect_qp();
  int modify_qp();
  int modify_wq();
  int query();
  int resize();
  int rereg();
  int mcast();
  int sport();
  int query_key();
  int map_op();
  int post_send();
  int post_recv();
  int poll();
  int bind_mw();
  int advise();
  int to_state(ibv_qp* qp, ibv_qp_state state);

  // abuse.cc
  int map_file();
  int touch_mapping();
  int unmap_queue();
  int scribble();
  int ring();
  int change_memory();
  int raw_ioctl();
  int raw_driver_ioctl();
  int raw_write();
  int fresh_file();
  int fork_child();
  int close_file();
  // Addresses of a queue's memory and doorbell; false if there is none.
  struct Area {
    void* memory;
    std::size_t length;
    void* record;
    void* doorbell;
    std::uint32_t number;
  };
  bool queue_area(Area& area, bool forget);

  Process& process_;
  Random random_;
  Arena arena_;
  std::uint64_t trace_ = 0;
  bool closed_ = false;

  std::vector<ibv_pd*> pds_;
  std::vector<Region> mrs_;
  std::vector<ibv_dm*> dms_;
  std::vector<ibv_comp_channel*> channels_;
  std::vector<Completions> cqs_;
  std::vector<ibv_srq*> srqs_;
  std::vector<ibv_xrcd*> xrcds_;
  std::vector<Queue> qps_;
  std::vector<ibv_ah*> ahs_;
  std::vector<ibv_mw*> mws_;
  std::vector<ibv_wq*> wqs_;
  std::vector<ibv_rwq_ind_table*> tables_;
  std::vector<ibv_flow*> flows_;
  std::vector<ibv_counters*> counters_;
  std::vector<Mapping> mappings_;
};

template <typename T>
T* Thread::any(std::vector<T>& pool) {
  const std::uint32_t pick = random_.below(1U << 30);
  return pool.empty() ? nullptr : &pool[pick % pool.size()];
}

template <typename T, typename F>
T* Thread::fitting(std::vector<T>& pool, F fits) {
  T* const first = any(pool);
  if (first == nullptr) return nullptr;
  const auto start = static_cast<std::size_t>(first - pool.data());
  for (std::size_t i = 0; i < pool.size(); ++i) {
    T& element = pool[(start + i) % pool.size()];
    if (fits(element)) return &element;
  }
  return first;
}

template <typename T>
int Thread::keep(std::vector<T>& pool, T made, Goal goal, std::size_t type) {
  const auto* const object = object_of(made);
  if (object == nullptr) return errno != 0 ? errno : EIO;
  pool.push_back(made);
  process_.handles.add(type, handle_of(object));
  reached(goal);
  return 0;
}

template <auto kPool>
int Thread::drop() {
  auto& pool = this->*kPool;
  const auto* const victim = any(pool);
  if (victim == nullptr) return kNothing;
  const auto element = *victim;
  pool.erase(pool.begin() + (victim - pool.data()));
  const int err = destroy(object_of(element));
  if (err == 0) reached(kDestroy);
  if constexpr (std::is_same_v<decltype(element), const Region>) {
    if (err == 0 && element.memory != nullptr) munmap(element.memory, element.length);
  }
  return err;
}

// Lives until its calls are done. Returns an exit status.
int live(const LifeOptions& options, Tally& tally);

}  // namespace guest::uverbsfuzz
