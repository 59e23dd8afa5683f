// SPDX-License-Identifier: GPL-2.0-or-later
#include "control.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "unix_socket.h"

namespace tern::daemon {

Control::Control(const std::string& path, Handler handler)
    : path_(path), handler_(std::move(handler)), listener_(listen_at(path)), epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll")) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event);
}

Control::~Control() { unlink(path_.c_str()); }

void Control::accept_clients() {
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (clients_.size() >= kMaxClients) continue;
    clients_.push_back({std::move(socket), {}, {}});
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &clients_.back()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clients_.back().socket.get(), &event);
  }
}

// Returns false if the client is to be dropped.
bool Control::serve_client(Client& client) {
  std::array<char, 4096> data;
  std::vector<Descriptor> files;
  const ssize_t got = receive_message(client.socket.get(), std::as_writable_bytes(std::span(data)), 0, files);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  if (!files.empty()) client.file = std::move(files.front());
  client.input.append(data.data(), static_cast<std::size_t>(got));
  for (std::size_t end = client.input.find('\n'); end != std::string::npos; end = client.input.find('\n')) {
    const std::string request = client.input.substr(0, end);
    client.input.erase(0, end + 1);
    const std::string answer = handler_(request, std::exchange(client.file, Descriptor())) + "\n";
    if (send(client.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(answer.size())) return false;
  }
  return client.input.size() <= kMaxRequest;
}

void Control::serve() {
  std::array<epoll_event, 8> events;
  const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    auto* const client = static_cast<Client*>(events.at(static_cast<std::size_t>(i)).data.ptr);
    if (client == nullptr) {
      accept_clients();
    } else if (!serve_client(*client)) {
      clients_.remove_if([client](const Client& c) { return &c == client; });
    }
  }
}

}  // namespace tern::daemon
