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
#include <cstdio>
#include <string>
#include <thread>

#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr int kEventMs = 60000;
constexpr std::uint32_t kLength = 32 * 1024;

// Returns "" if creating an object failed with an errno of a dead device.
std::string refused(const char* verb, const void* made) {
  if (made != nullptr) return std::string(verb) + " works; ";
  return errno == EIO || errno == ENODEV ? "" : std::string(verb) + ": " + errno_name(errno) + "; ";
}

std::string verbs_fail(const Device& dev, const End& session) {
  std::string why;
  errno = 0;
  why += refused("ibv_alloc_pd", ibv_alloc_pd(dev.context()));
  errno = 0;
  why += refused("ibv_create_cq", ibv_create_cq(dev.context(), 16, nullptr, nullptr, 0));
  errno = 0;
  why += refused("ibv_reg_mr", ibv_reg_mr(dev.pd(), session.memory().bytes().data(), 4096,
                                          IBV_ACCESS_LOCAL_WRITE));
  if (to_state(session.qp(), IBV_QPS_ERR) == 0) why += "ibv_modify_qp works; ";
  return why;
}

// Posting and polling only touch memory and ring a doorbell, which goes nowhere.
std::string queues_live(const End& session, const Send& send) {
  for (int i = 0; i < 8; i++) {
    const int err = post(session.qp(), Api::kPost, send);
    if (err != 0 && err != ENOMEM) return "ibv_post_send: " + errno_name(err);
    ibv_wc wc{};
    if (ibv_poll_cq(session.send_cq(), 1, &wc) < 0) return "ibv_poll_cq fails";
  }
  return "";
}

void say(const std::string& name, const std::string& why) { report(why.empty(), name, why); }

void watch(const std::string& name, const char* file) {
  {
    const Device dev("tern0", -1);
    const Pair pair(dev);
    const Send send = pair.request(IBV_WR_RDMA_WRITE, kLength);
    pair.run(send);
    std::puts("ready");
    std::fflush(stdout);
    const bool event = dev.wait_async(IBV_EVENT_DEVICE_FATAL, kEventMs);
    say(name + "-event", event ? "" : "no IBV_EVENT_DEVICE_FATAL");
    say(name + "-verbs-fail", verbs_fail(dev, pair.local));
    say(name + "-queues-live", queues_live(pair.local, send));
    while (file != nullptr && ::access(file, F_OK) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  say(name + "-objects-go", take_destroy_errors());
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "removal", .limit = 240, .run = [](const CommandLine& line) {
                        const auto& words = line.words;
                        require(!words.empty(), "needs a name");
                        const Outcome outcome = attempt(words[0], [&words] {
                          watch(words[0], words.size() > 1 ? words[1].c_str() : nullptr);
                        });
                        if (!outcome.why.empty()) report(words[0], outcome);
                      }});
}
