// SPDX-License-Identifier: GPL-2.0-or-later
#include "end_thread.h"

#include <pthread.h>

#include <chrono>
#include <csignal>

namespace tern::daemon {

namespace {

// The signal that interrupts a system call, its interval, and how many are sent.
constexpr int kInterrupt = SIGUSR1;
constexpr std::chrono::milliseconds kInterruptEvery{5};
constexpr unsigned kInterrupts = 600;

// Without SA_RESTART: the system call returns EINTR.
void handle_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(kInterrupt, &action, nullptr);
}

}  // namespace

bool end_thread(std::thread& thread, std::binary_semaphore& ended) {
  handle_interrupts();
  for (unsigned tries = 0; !ended.try_acquire_for(kInterruptEvery); ++tries) {
    if (tries == kInterrupts) return false;
    pthread_kill(thread.native_handle(), kInterrupt);
  }
  thread.join();
  return true;
}

}  // namespace tern::daemon
