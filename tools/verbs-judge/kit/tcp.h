// SPDX-License-Identifier: GPL-2.0-or-later
// A TCP connection to the same program on another machine.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace guest {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  [[nodiscard]] int fd() const { return fd_; }
  void write(const void* data, std::size_t size) const;
  // Returns false if the other side has closed before the first byte.
  [[nodiscard]] bool read(void* data, std::size_t size) const;
  [[nodiscard]] Socket accept() const;

 private:
  int fd_;
};

// Retries for about two minutes: the other machine may still be booting.
Socket tcp_connect(const std::string& host, const std::string& port);
Socket tcp_listen(const std::string& port);

}  // namespace guest
