// SPDX-License-Identifier: GPL-2.0-or-later
// A random walk through the verbs that never ends by itself.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared.h"

namespace killer {

struct Options {
  std::string device = "tern0";
  std::uint64_t seed = 0;
  std::uint32_t kill_after = 0;  // verbs; 0: somebody else kills
  bool second = false;           // shares what the first process made
  bool orderly = false;  // destroys nothing that is in use: a device that is gone refuses nothing
  int xrcd_fd = -1;      // the file that names the shared XRC domain
};

// Objects of one process. Destroying goes in any order: what is in use is refused and stays.
class Program {
 public:
  Program(const Options& options, Shared& shared);
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
  using Region = Of<ibv_mr>;
  struct Queue {
    ibv_context* context;
    ibv_qp* object;
    Kind kind;
    bool connected;
    ibv_xrcd* xrcd;  // of a target
  };
  struct SharedQueue {
    ibv_context* context;
    ibv_srq* object;
    ibv_pd* pd;
    ibv_cq* cq;      // of an XRC SRQ
    ibv_xrcd* xrcd;  // likewise
    std::uint32_t max_wr;
  };
  struct Membership {
    ibv_qp* qp;
    ibv_gid group;
    std::uint16_t lid;
  };

  // The verb called what has returned: the place to die.
  void step(const char* what);
  [[nodiscard]] std::size_t queues(Kind kind) const;
  void one_operation();

  template <typename T>
  [[nodiscard]] T* any(std::vector<T>& pool, ibv_context* context = nullptr);
  template <typename T>
  void forget(std::vector<T>& pool, const T* element);
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
  void take_async_event();
  void fork_holder();
  [[nodiscard]] bool in_use(const ibv_pd* pd) const;
  [[nodiscard]] bool in_use(const ibv_cq* cq) const;
  [[nodiscard]] bool in_use(const ibv_srq* srq) const;
  [[nodiscard]] bool in_use(const ibv_xrcd* xrcd) const;
  void destroy();
  void destroy_qp(Queue& queue);

  const Options options_;
  Shared& shared_;
  Role& role_;
  Random random_;
  std::uint32_t posted_ = 0;
  std::uint32_t forks_ = 0;
  std::vector<Context> contexts_;
  std::vector<Of<ibv_pd>> pds_;
  std::vector<Region> mrs_;
  std::vector<Of<ibv_comp_channel>> channels_;
  std::vector<Of<ibv_cq>> cqs_;
  std::vector<Queue> qps_;
  std::vector<SharedQueue> srqs_;
  std::vector<Of<ibv_xrcd>> xrcds_;
  std::vector<Of<ibv_ah>> ahs_;
  std::vector<Membership> members_;
};

}  // namespace killer
