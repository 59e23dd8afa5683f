// SPDX-License-Identifier: GPL-2.0-or-later
// Raw uverbs requests on an open device file, and tables of requests that must be refused.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "program.h"

namespace guest::uverbs {

inline constexpr std::size_t kPage = 4096;

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(T));
}

// A command of the write() interface: the core's structure, then the driver's.
struct Request {
  std::uint32_t command = 0;
  std::vector<std::byte> core{};
  std::vector<std::byte> driver{};
  std::size_t core_response = 0;
  std::size_t driver_response = 0;
  bool extended = false;  // an extended command, whose parts have whole words of 8 bytes
};

// A method of the ioctl() interface. After a call, `attrs` holds the handles it has created.
struct Method {
  std::uint16_t object = 0;
  std::uint16_t method = 0;
  std::vector<ib_uverbs_attr> attrs{};

  // Appends a handle, or a value of up to 8 bytes.
  Method& value(unsigned id, std::size_t bytes, std::uint64_t value);
  Method& handle(unsigned id, std::uint32_t handle) { return value(id, 0, handle); }
  // Appends an output attribute: the kernel writes the response to `to`.
  Method& out(unsigned id, std::size_t bytes, void* to) {
    return value(id, bytes, reinterpret_cast<std::uint64_t>(to));
  }
};

// Calls a method on an open device file. Returns 0 or an errno.
int call(int fd, Method& method);

class Uverbs {
 public:
  // `context_response`: the bytes of the driver's answer to GET_CONTEXT.
  explicit Uverbs(const std::string& path, std::size_t context_response = 0);
  Uverbs(const Uverbs&) = delete;
  Uverbs& operator=(const Uverbs&) = delete;
  ~Uverbs();

  // Returns 0 or an errno.
  int call(const Request& request);
  int call(Method& method) { return uverbs::call(fd_, method); }
  // Returns the handle of a new PD. A refusal throws.
  std::uint32_t alloc_pd();
  [[nodiscard]] int fd() const { return fd_; }

  template <typename T>
  [[nodiscard]] T response(std::size_t offset = 0) const {
    T value;
    std::memcpy(&value, response_.data() + offset, sizeof(T));
    return value;
  }

 private:
  int fd_;
  std::uint32_t async_fd_ = 0;
  std::vector<std::byte> response_;
};

// Returns the path of an RDMA device's character device, found in sysfs.
std::string uverbs_path(const std::string& device);

template <typename R>
struct Case {
  const char* name;
  std::function<void(R&)> change;
  int err;
};

// Sends each bad request, then the good one, which must succeed. `call` sends a request and returns
// its errno.
template <typename R>
void run_table(const std::string& verb, const R& good, const std::vector<Case<R>>& cases,
               const std::function<int(const R&)>& call) {
  std::string wrong;
  for (const Case<R>& c : cases) {
    R r = good;
    c.change(r);
    const int err = call(r);
    if (err != c.err) {
      wrong += std::string(wrong.empty() ? "" : ", ") + c.name + ": " + std::strerror(err) +
               ", not " + std::strerror(c.err);
    }
  }
  report(wrong.empty(), verb + "-refuses-" + std::to_string(cases.size()) + "-requests", wrong);
  const int err = call(good);
  report(err == 0, verb + "-works-afterwards", std::strerror(err));
}

}  // namespace guest::uverbs
