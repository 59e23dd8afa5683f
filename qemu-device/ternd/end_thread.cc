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

void interrupt_thread(std::thread& thread) {
  if (thread.joinable()) pthread_kill(thread.native_handle(), kInterrupt);
}

bool end_thread(std::thread& thread, std::binary_semaphore& ended,
                const std::function<void()>& interrupt) {
  handle_interrupts();
  for (unsigned tries = 0; !ended.try_acquire_for(kInterruptEvery); ++tries) {
    if (tries == kInterrupts) return false;
    interrupt();
  }
  thread.join();
  return true;
}

bool end_thread(std::thread& thread, std::binary_semaphore& ended) {
  return end_thread(thread, ended, [&] { interrupt_thread(thread); });
}

}  // namespace tern::daemon
