// SPDX-License-Identifier: GPL-2.0-or-later
#include "unix_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace tern::daemon {

namespace {

[[noreturn]] void fail(int error, const std::string& path) {
  throw std::system_error(error, std::generic_category(), path);
}

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
  struct stat file{};
  // connect() reports the same error for a file that is not a socket.
  if (lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return;
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0 &&
      errno == ECONNREFUSED)
    unlink(path.c_str());
}

namespace {

// Locks the directory of `path`: daemons that start at the same time could take each other's
// sockets for stale ones before they listen. Anybody who can read the directory can keep it locked,
// so the wait is bounded.
Descriptor lock_directory_of(const std::string& path) {
  constexpr unsigned kTries = 100;
  constexpr std::chrono::milliseconds kAgain{20};
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Descriptor lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (unsigned i = 0; lock && i < kTries && flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    std::this_thread::sleep_for(kAgain);
  }
  return lock;
}

void limit_to(const SocketRights& rights, const std::string& path) {
  constexpr mode_t kUser = 0600;
  constexpr mode_t kGroup = 0660;
  constexpr auto kSame = static_cast<uid_t>(-1);
  if (!rights.user && !rights.group) return;
  if (chown(path.c_str(), rights.user.value_or(kSame), rights.group.value_or(kSame)) != 0 ||
      chmod(path.c_str(), rights.group ? kGroup : kUser) != 0) {
    fail(errno, path);
  }
}

}  // namespace

SocketRights socket_rights(const std::string& user, const std::string& group) {
  SocketRights rights;
  if (!user.empty()) {
    const passwd* const entry = getpwnam(user.c_str());
    if (entry == nullptr) throw std::invalid_argument("there is no user '" + user + "'");
    rights.user = entry->pw_uid;
  }
  if (!group.empty()) {
    const ::group* const entry = getgrnam(group.c_str());
    if (entry == nullptr) throw std::invalid_argument("there is no group '" + group + "'");
    rights.group = entry->gr_gid;
  }
  return rights;
}

Descriptor listen_at(const std::string& path, int backlog, const SocketRights& rights) {
  const sockaddr_un addr = address_of(path);
  const Descriptor lock = lock_directory_of(path);
  remove_stale_socket(path);
  Descriptor listener =
      checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0)
    fail(errno, path);
  try {
    limit_to(rights, path);
    if (listen(listener.get(), backlog) != 0) fail(errno, path);
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
  return listener;
}

Descriptor connect_to(const std::string& path) {
  const sockaddr_un addr = address_of(path);
  Descriptor socket_fd = checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), path);
  if (connect(socket_fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)) != 0)
    fail(errno, path);
  return socket_fd;
}

namespace {

using Ancillary = std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))>;

}  // namespace

bool send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMaxDescriptors);
  iovec vec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &vec;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = ancillary.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

ssize_t receive_message(int socket, std::span<std::byte> to, int flags,
                        std::vector<Descriptor>& descriptors) {
  iovec vec{to.data(), to.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &vec;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  const ssize_t got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at < c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
      descriptors.emplace_back(fd);
    }
  }
  return got;
}

}  // namespace tern::daemon
