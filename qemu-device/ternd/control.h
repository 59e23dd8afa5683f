// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket: JSON objects, one a line. Documentation/ternd.rst lists the commands.
#pragma once

#include <functional>
#include <list>
#include <string>

#include "descriptor.h"

namespace tern::daemon {

class Control {
 public:
  // Answers a request, a line of JSON, with a line of JSON. `file`: a descriptor that came with it.
  using Handler = std::function<std::string(const std::string& request, Descriptor file)>;

  // Clients that may be connected at a time, and the length of a request.
  static constexpr std::size_t kMaxClients = 16;
  static constexpr std::size_t kMaxRequest = std::size_t{64} * 1024;

  // Throws std::system_error.
  Control(const std::string& path, Handler handler);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Readable when serve() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  // Does what clients ask for. Never waits for a client: one that does not read its answer is
  // dropped.
  void serve();

 private:
  struct Client {
    Descriptor socket;
    std::string input;
    Descriptor file;
  };

  void accept_clients();
  bool serve_client(Client& client);

  const std::string path_;
  const Handler handler_;
  Descriptor listener_;
  Descriptor epoll_;
  std::list<Client> clients_;
};

}  // namespace tern::daemon
