// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <semaphore>
#include <thread>

namespace tern::daemon {

// Interrupts a system call of the thread, if it is in one. After the first end_thread().
void interrupt_thread(std::thread& thread);

// Joins a thread that was asked to end, and releases `ended` last. Calls interrupt() again and
// again: the thread may wait in a system call for others, or for a thread that does. Returns false
// if it does not end within about 3 s.
[[nodiscard]] bool end_thread(std::thread& thread, std::binary_semaphore& ended,
                              const std::function<void()>& interrupt);
// The same for a thread that waits for no other one.
[[nodiscard]] bool end_thread(std::thread& thread, std::binary_semaphore& ended);

}  // namespace tern::daemon
