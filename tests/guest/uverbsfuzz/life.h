// SPDX-License-Identifier: GPL-2.0-or-later
// The life of a process that uses the device: random calls on random objects, from a seed.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <infiniband/terndv.h>
#include "raw.h"
#include "tally.h"
#include "walk.h"

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

  // ib_core locks the multicast groups of a QP that was opened by a mutex that it never
  // initializes. Any handle of a QP may be that of another one soon, so a process does one or the
  // other.
  [[nodiscard]] bool may_open() const { return options.core_bugs || options.seed % 2 == 0; }
  [[nodiscard]] bool may_join() const { return options.core_bugs || options.seed % 2 != 0; }
};

// One thread, which owns its objects. Other threads may destroy them by their handles.
class Thread : public Walk {
 public:
  Thread(Process& process, std::uint64_t seed);

  void run(std::uint32_t calls);
  // Destroys all objects in the order that the library demands.
  void destroy_all();
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

 private:
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

  void reached(std::size_t goal) override { ++process_.tally.reached[goal]; }
  void handle(std::size_t type, std::uint32_t handle) override {
    process_.handles.add(type, handle);
  }
  void note(std::size_t op, int err);
  Raw raw();

  // make.cc
  int make_dmabuf_mr();
  int make_raw_qp();
  int open_allowed_target();
  int make_wq();
  int make_table();
  int make_rss_qp();
  int make_flow();
  int make_counters();
  int destroy_any();

  // use.cc
  int modify_qp();
  int modify_wq();
  int join_allowed();
  int sport();
  int query_key();
  int map_op();
  int post_wq();
  int advise();

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
  Arena arena_;
  std::uint64_t trace_ = 0;
  bool closed_ = false;

  std::vector<ibv_wq*> wqs_;
  std::vector<ibv_rwq_ind_table*> tables_;
  std::vector<ibv_flow*> flows_;
  std::vector<ibv_counters*> counters_;
  std::vector<Mapping> mappings_;
};

// Lives until its calls are done. Returns an exit status.
int live(const LifeOptions& options, Tally& tally);

}  // namespace guest::uverbsfuzz
