// SPDX-License-Identifier: GPL-2.0-or-later
#include "tcp.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "verbs.h"

namespace guest {

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

void Socket::write(const void* data, std::size_t size) const {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(fd_, p, size, MSG_NOSIGNAL);
    if (n <= 0) fail_errno("send");
    p += n;
    size -= static_cast<std::size_t>(n);
  }
}

bool Socket::read(void* data, std::size_t size) const {
  auto* p = static_cast<char*>(data);
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::recv(fd_, p + got, size - got, 0);
    if (n == 0 && got == 0) return false;
    require(n != 0, "the other side closed in the middle of a message");
    if (n < 0) fail_errno("recv");
    got += static_cast<std::size_t>(n);
  }
  return true;
}

Socket Socket::accept() const {
  Socket peer(::accept(fd_, nullptr, nullptr));
  if (peer.fd() < 0) fail_errno("accept");
  return peer;
}

namespace {

using AddrList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddrList resolve(const char* host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const int err = ::getaddrinfo(host, port.c_str(), &hints, &list);
  require(err == 0, "{}: {}", host == nullptr ? "any" : host, ::gai_strerror(err));
  return {list, &::freeaddrinfo};
}

}  // namespace

Socket tcp_connect(const std::string& host, const std::string& port) {
  for (int tries = 0; tries < 240; tries++) {
    const AddrList list = resolve(host.c_str(), port);
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      Socket s(::socket(a->ai_family, a->ai_socktype, a->ai_protocol));
      if (::connect(s.fd(), a->ai_addr, a->ai_addrlen) == 0) return s;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  fail("no peer at {} port {}", host, port);
}

Socket tcp_listen(const std::string& port) {
  const AddrList list = resolve(nullptr, port);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Socket s(::socket(a->ai_family, a->ai_socktype, a->ai_protocol));
    const int on = 1;
    ::setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(s.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.fd(), 1) == 0) return s;
  }
  fail_errno("listen");
}

}  // namespace guest
