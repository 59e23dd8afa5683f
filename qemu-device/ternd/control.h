// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket: JSON objects, one per line. Documentation/ternd.rst lists the commands. It
// answers root, the daemon's user, and with an option the members of one group.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"

namespace tern::daemon {

class Control {
 public:
  using Files = std::vector<Descriptor>;
  // Answers a request, a line of JSON, with a line of JSON. `files`: descriptors that came with it.
  using Handler = std::function<std::string(const std::string& request, Files files)>;

  // Clients that may be connected at a time, and the length of a request.
  static constexpr std::size_t kMaxClients = 16;
  static constexpr std::size_t kMaxRequest = std::size_t{64} * 1024;
  // Time after which a client without a request loses its place to a new one, in ns.
  static constexpr std::uint64_t kIdle = 1'000'000'000;

  // Members of `group` may use it. Throws std::system_error.
  Control(const std::string& path, std::optional<gid_t> group, Handler handler);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Readable when serve() has work.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  // Serves clients, one request at a time: a request may wait for a thread. Never waits for a
  // client: one that does not read its answer gets no other. Returns the time in ms after which to
  // call it again even if fd() is not readable; -1: never.
  int serve();

 private:
  struct Client {
    Descriptor socket;
    std::string input;
    std::string output;  // the rest of an answer
    Files files;
    std::uint64_t active = 0;  // when it came or took from an answer, in ns
    bool served = false;       // a request of it was answered
    bool readable = false;
    bool writable = false;
    [[nodiscard]] bool has_request() const { return input.find('\n') != std::string::npos; }
    [[nodiscard]] bool waits() const {
      return output.empty() ? readable || has_request() : writable;
    }
    // Whether a new client may take its place.
    [[nodiscard]] bool may_go(std::uint64_t now) const;
  };

  bool may_use(int socket) const;
  void watch(bool on);
  void accept_clients();
  void accept_later();
  static bool receive(Client& client);
  bool serve_client(Client& client);
  bool answer(Client& client);

  const std::string path_;
  const std::optional<gid_t> group_;
  const uid_t owner_;
  const Handler handler_;
  Descriptor listener_;
  Descriptor epoll_;
  std::list<Client> clients_;  // in the order in which they were served
  // Not 0: there was no descriptor or no place for a client, and the process tries again then.
  std::uint64_t accept_at_ = 0;
};

}  // namespace tern::daemon
