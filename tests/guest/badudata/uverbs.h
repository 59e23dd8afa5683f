// SPDX-License-Identifier: GPL-2.0-or-later
// An open device by its file alone, requests to it, and tables of requests that are refused.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace badudata {

inline constexpr std::size_t kPage = 4096;

// Prints a result line.
void report(bool ok, const std::string& name, const std::string& why = "");
// Results so far that were not ok.
int failures();

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(T));
}

// A command of the write() interface: the core's part, then the driver's.
struct Request {
  std::uint32_t command = 0;
  std::vector<std::byte> core{};
  std::vector<std::byte> driver{};
  std::size_t core_response = 0;
  std::size_t driver_response = 0;
};

// A method of the ioctl() interface. Handles that it makes stand in the attributes afterwards.
struct Method {
  std::uint16_t object = 0;
  std::uint16_t method = 0;
  std::vector<ib_uverbs_attr> attrs{};

  // A handle, or a value of up to 8 bytes.
  Method& value(unsigned id, std::size_t bytes, std::uint64_t value);
  Method& handle(unsigned id, std::uint32_t handle) { return value(id, 0, handle); }
  // Where an answer goes.
  Method& out(unsigned id, std::size_t bytes, void* to) {
    return value(id, bytes, reinterpret_cast<std::uint64_t>(to));
  }
};

// errno of a method called on an open device's file, 0 for success.
int call(int fd, Method& method);

class Uverbs {
 public:
  explicit Uverbs(const std::string& path);
  Uverbs(const Uverbs&) = delete;
  Uverbs& operator=(const Uverbs&) = delete;
  ~Uverbs();

  // errno, 0 for success.
  int call(const Request& request);
  int call(Method& method) { return badudata::call(fd_, method); }
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

// The character device of an RDMA device, by sysfs.
std::string uverbs_path(const std::string& device);

template <typename R>
struct Case {
  const char* name;
  std::function<void(R&)> change;
  int err;
};

// `call` sends a request and gives its errno. The good one works after all bad ones.
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

}  // namespace badudata
