// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "descriptor.h"

namespace tern::daemon {

// Removes a socket that nobody listens on: a daemon that has ended leaves its sockets behind.
void remove_stale_socket(const std::string& path);
// A socket at `path` that listens and does not block. `backlog` and one more clients wait for accept().
// `prepare` is called before it listens. Throws std::system_error.
Descriptor listen_at(const std::string& path, int backlog = 8, const std::function<void()>& prepare = {});
// Connects to the socket at `path`. Throws std::system_error.
Descriptor connect_to(const std::string& path);

// Descriptors that go with one message.
inline constexpr std::size_t kMaxDescriptors = 8;
// Sends bytes and, with the first of them, copies of descriptors. Returns false if not all was sent.
bool send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
// Like recv(2), and appends the descriptors that came with the bytes.
ssize_t receive_message(int socket, std::span<std::byte> to, int flags, std::vector<Descriptor>& descriptors);

}  // namespace tern::daemon
