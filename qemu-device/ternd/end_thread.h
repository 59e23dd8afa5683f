// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <semaphore>
#include <thread>

namespace tern::daemon {

// Joins a thread that was asked to end, and releases `ended` last. Interrupts system calls in which
// it waits for others. Returns false if it does not end within about 3 s.
[[nodiscard]] bool end_thread(std::thread& thread, std::binary_semaphore& ended);

}  // namespace tern::daemon
