// SPDX-License-Identifier: GPL-2.0-or-later
// removal: a process whose adapter vanishes. It connects two QPs, does one WRITE and prints
// "ready". Then it waits for IBV_EVENT_DEVICE_FATAL and checks that verbs fail with EIO or ENODEV
// instead of hanging, that posting and polling still work, and that all objects can be destroyed.
// Prints result lines.
//
//   removal NAME [FILE]   FILE: wait until it exists before destroying the objects
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "peer.h"

namespace guest {
namespace {

constexpr int kEventMs = 60000;
constexpr unsigned kLimit = 240;  // seconds; bounds a hang
constexpr std::uint32_t kLength = 32 * 1024;

void say(const std::string& name, const char* what, const std::string& why) {
  if (why.empty()) {
    std::printf("ok removal/%s-%s\n", name.c_str(), what);
  } else {
    std::printf("not ok removal/%s-%s - %s\n", name.c_str(), what, why.c_str());
  }
  std::fflush(stdout);
}

// Returns "" if creating an object failed with an errno of a dead device.
std::string refused(const char* verb, const void* made) {
  if (made != nullptr) {
    return std::string(verb) + " works; ";
  }
  return errno == EIO || errno == ENODEV ? "" : std::string(verb) + ": " + errno_name(errno) + "; ";
}

std::string verbs_fail(const Device& dev, const Session& session) {
  std::string why;
  errno = 0;
  why += refused("ibv_alloc_pd", ibv_alloc_pd(dev.context()));
  errno = 0;
  why += refused("ibv_create_cq", ibv_create_cq(dev.context(), 16, nullptr, nullptr, 0));
  errno = 0;
  why += refused("ibv_reg_mr", ibv_reg_mr(dev.pd(), session.memory().bytes().data(), 4096,
                                          IBV_ACCESS_LOCAL_WRITE));
  if (to_state(session.qp(), IBV_QPS_ERR) == 0) {
    why += "ibv_modify_qp works; ";
  }
  return why;
}

// Posting and polling only touch memory and ring a doorbell, which goes nowhere.
std::string queues_live(const Session& session, const Send& send) {
  for (int i = 0; i < 8; i++) {
    const int err = post(session.qp(), Api::kPost, send);
    if (err != 0 && err != ENOMEM) {
      return "ibv_post_send: " + errno_name(err);
    }
    ibv_wc wc{};
    if (ibv_poll_cq(session.send_cq(), 1, &wc) < 0) {
      return "ibv_poll_cq fails";
    }
  }
  return "";
}

int watch(const std::string& name, const char* file) {
  {
    const Device dev("tern0", -1);
    const Session a(dev, {});
    const Session b(dev, {.psn = 0xabcdef});
    Connection how;
    how.mtu = IBV_MTU_1024;
    connect(a.qp(), dev, how, a.endpoint(), b.endpoint());
    connect(b.qp(), dev, how, b.endpoint(), a.endpoint());
    Send send;
    send.opcode = IBV_WR_RDMA_WRITE;
    send.sges = {a.memory().sge(0, kLength)};
    send.raddr = b.memory().address(0);
    send.rkey = b.memory().rkey();
    require(post(a.qp(), Api::kPost, send) == 0, "ibv_post_send");
    poll(a.send_cq(), 1);
    std::puts("ready");
    std::fflush(stdout);
    const bool event = dev.wait_async(IBV_EVENT_DEVICE_FATAL, kEventMs);
    say(name, "event", event ? "" : "no IBV_EVENT_DEVICE_FATAL");
    say(name, "verbs-fail", verbs_fail(dev, a));
    say(name, "queues-live", queues_live(a, send));
    while (file != nullptr && ::access(file, F_OK) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  say(name, "objects-go", take_destroy_errors());
  return 0;
}

extern "C" void too_long(int /*signal*/) { ::_exit(3); }

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  if (argc < 2) {
    return 2;
  }
  std::signal(SIGALRM, guest::too_long);
  ::alarm(guest::kLimit);
  try {
    return guest::watch(argv[1], argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception& e) {
    std::printf("not ok removal/%s - %s\n", argv[1], e.what());
    return 1;
  }
}
