// SPDX-License-Identifier: GPL-2.0-or-later
#include "disturb.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "random.h"

namespace guest::uverbsfuzz {
namespace {

using Clock = std::chrono::steady_clock;

// $pci is the adapter. Each ends with a working device.
struct Step {
  const char* name;
  const char* command;
};

constexpr Step kSteps[] = {
    {"flr", "grep -q flr $sys/reset_method && echo flr >$sys/reset_method && echo 1 >$sys/reset"},
    {"unbind", "echo $pci >$drv/unbind && sleep 0.2 && echo $pci >$drv/bind"},
    {"unplug",
     "labctl removed vm1 on && sleep 0.5 && labctl removed vm1 off && echo 1 >$sys/remove && "
     "echo 1 >/sys/bus/pci/rescan"},
    {"remove", "echo 1 >$sys/remove && sleep 0.2 && echo 1 >/sys/bus/pci/rescan"},
    {"rmmod", "rmmod tern_ib && rmmod tern"},
    {"rmmod-ib", "rmmod tern_ib"},
};

int run(const std::string& pci, const char* command) {
  const std::string line =
      "export pci=" + pci + " sys=/sys/bus/pci/devices/" + pci +
      " drv=/sys/bus/pci/drivers/tern; { " + command +
      "; } >/run/uverbsfuzz.disturb 2>&1 && tern-up >>/run/uverbsfuzz.disturb 2>&1";
  return std::system(line.c_str());
}

}  // namespace

unsigned disturbances() { return std::size(kSteps); }

std::string disturb(const std::string& device, std::uint64_t seed, unsigned seconds, unsigned least,
                    void (*done)()) {
  const std::string pci =
      std::filesystem::canonical("/sys/class/infiniband/" + device + "/device").filename();
  Random random(seed);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  const std::size_t first = random.below(std::size(kSteps));
  for (std::size_t i = 0; i < least || Clock::now() < end; ++i) {
    usleep(300000 + random.below(1500000));
    const Step& step = kSteps[(first + i) % std::size(kSteps)];
    if (run(pci, step.command) != 0) return step.name;
    done();
  }
  return "";
}

}  // namespace guest::uverbsfuzz
