// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "descriptor.h"

namespace tern::daemon {

// Removes a socket that nobody listens on: a daemon leaves its sockets when it ends.
void remove_stale_socket(const std::string& path);
// Users of a socket besides root: this user and the members of this group. With neither, the umask
// decides.
struct SocketRights {
  std::optional<uid_t> user;
  std::optional<gid_t> group;
};
// Looks up the names, which may be empty. Throws std::invalid_argument.
SocketRights socket_rights(const std::string& user, const std::string& group);
// Creates a listening, non-blocking socket at `path`. `backlog` + 1 clients may wait for accept().
// Throws std::system_error.
Descriptor listen_at(const std::string& path, int backlog = 8, const SocketRights& rights = {});
// Connects to the socket at `path`. Throws std::system_error.
Descriptor connect_to(const std::string& path);

// Limit of descriptors in one message.
inline constexpr std::size_t kMaxDescriptors = 8;
// Sends bytes and, with the first of them, copies of descriptors. Returns false if not everything
// was sent.
bool send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
// Like recv(2), and appends the descriptors received with the bytes.
ssize_t receive_message(int socket, std::span<std::byte> to, int flags,
                        std::vector<Descriptor>& descriptors);

}  // namespace tern::daemon
