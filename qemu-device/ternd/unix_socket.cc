// SPDX-License-Identifier: GPL-2.0-or-later
#include "unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace tern::daemon {

namespace {

[[noreturn]] void fail(int error, const std::string& path) { throw std::system_error(error, std::generic_category(), path); }

sockaddr_un address_of(const std::string& path) {
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.size() >= sizeof(addr.sun_path)) fail(ENAMETOOLONG, path);
  path.copy(addr.sun_path, path.size());
  return addr;
}

}  // namespace

void remove_stale_socket(const std::string& path) {
  const sockaddr_un addr = address_of(path);
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return;
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0 && errno == ECONNREFUSED) unlink(path.c_str());
}

Descriptor listen_at(const std::string& path) {
  remove_stale_socket(path);
  const sockaddr_un addr = address_of(path);
  Descriptor listener = checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0 || listen(listener.get(), 8) != 0) fail(errno, path);
  return listener;
}

Descriptor connect_to(const std::string& path) {
  const sockaddr_un addr = address_of(path);
  Descriptor socket_fd = checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), path);
  if (connect(socket_fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0) fail(errno, path);
  return socket_fd;
}

}  // namespace tern::daemon
