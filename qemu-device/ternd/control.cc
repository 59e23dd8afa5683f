// SPDX-License-Identifier: GPL-2.0-or-later
#include "control.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "clock.h"
#include "unix_socket.h"

namespace tern::daemon {

namespace {

// Time without descriptors or places after which the process accepts clients again, in ns.
constexpr std::uint64_t kAcceptAgain = 100'000'000;
// Clients that are accepted between two requests.
constexpr unsigned kAccepts = 8;

}  // namespace

Control::Control(const std::string& path, std::optional<gid_t> group, Handler handler)
    : path_(path),
      group_(group),
      owner_(geteuid()),
      handler_(std::move(handler)),
      listener_(listen_at(path, 8, {.user = owner_, .group = group})),
      epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll")) {
  watch(true);
}

Control::~Control() { unlink(path_.c_str()); }

void Control::watch(bool on) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.get(), &event);
}

// The mode of the socket allows the same, unless somebody has changed it.
bool Control::may_use(int socket) const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (peer.uid == 0 || peer.uid == owner_) return true;
  if (!group_) return false;
  if (peer.gid == *group_) return true;
  std::array<gid_t, 1024> groups{};
  size = sizeof(groups);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) return false;
  const auto in = std::span(groups).first(size / sizeof(gid_t));
  return std::ranges::find(in, *group_) != in.end();
}

bool Control::Client::may_go(std::uint64_t now) const {
  return (served && output.empty()) || (!waits() && now - active >= kIdle);
}

void Control::accept_clients() {
  for (unsigned i = 0; i < kAccepts; ++i) {
    // Idle connections must not keep others out, and new ones not those that wait for an answer.
    const std::uint64_t now = clock_ns();
    const bool full = clients_.size() >= kMaxClients;
    const auto old =
        std::ranges::find_if(clients_, [now](const Client& c) { return c.may_go(now); });
    if (full && old == clients_.end()) return accept_later();
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) accept_later();
      return;
    }
    if (!may_use(socket.get())) continue;
    if (full) clients_.erase(old);
    clients_.push_back(
        {.socket = std::move(socket), .input = {}, .output = {}, .files = {}, .active = now});
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &clients_.back()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clients_.back().socket.get(), &event);
  }
}

// The listener stays readable until then.
void Control::accept_later() {
  watch(false);
  accept_at_ = clock_ns() + kAcceptAgain;
}

// Returns false if the client has ended.
bool Control::receive(Client& client) {
  std::array<char, 4096> data;
  Files files;
  const ssize_t got =
      receive_message(client.socket.get(), std::as_writable_bytes(std::span(data)), 0, files);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  if (!files.empty()) client.files = std::move(files);
  client.input.append(data.data(), static_cast<std::size_t>(got));
  return true;
}

// Returns false if the client must be dropped.
bool Control::serve_client(Client& client) {
  if (!client.output.empty()) return answer(client);
  if (!client.has_request()) {
    client.readable = false;
    if (!receive(client)) return false;
  }
  const std::size_t end = client.input.find('\n');
  if (end == std::string::npos) return client.input.size() <= kMaxRequest;
  const std::string request = client.input.substr(0, end);
  client.input.erase(0, end + 1);
  client.output = handler_(request, std::exchange(client.files, {})) + "\n";
  client.served = true;
  return answer(client);
}

// The list of many adapters is longer than the socket's buffer.
bool Control::answer(Client& client) {
  const ssize_t sent =
      send(client.socket.get(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
  client.output.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  if (sent > 0) client.active = clock_ns();
  client.writable = false;
  epoll_event event{.events = client.output.empty() ? EPOLLIN : EPOLLOUT, .data = {.ptr = &client}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event);
  return true;
}

int Control::serve() {
  if (accept_at_ != 0 && clock_ns() >= accept_at_) {
    accept_at_ = 0;
    watch(true);
  }
  std::array<epoll_event, kMaxClients + 1> events;
  const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool accepts = false;
  for (int i = 0; i < n; ++i) {
    auto* const client = static_cast<Client*>(events.at(static_cast<std::size_t>(i)).data.ptr);
    if (client == nullptr) {
      accepts = true;
    } else {
      (client->output.empty() ? client->readable : client->writable) = true;
    }
  }
  const auto next = std::ranges::find_if(clients_, &Client::waits);
  if (next != clients_.end()) {
    clients_.splice(clients_.end(), clients_, next);
    if (!serve_client(*next)) clients_.erase(next);
  }
  if (accepts) accept_clients();
  if (std::ranges::any_of(clients_, &Client::waits)) return 0;
  return accept_at_ == 0 ? -1 : static_cast<int>(kAcceptAgain / 1'000'000);
}

}  // namespace tern::daemon
