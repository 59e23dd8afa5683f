// SPDX-License-Identifier: GPL-2.0-or-later
#include "uverbs.h"

#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace guest::uverbs {

Method& Method::value(unsigned id, std::size_t bytes, std::uint64_t value) {
  ib_uverbs_attr attr = {};
  attr.attr_id = static_cast<std::uint16_t>(id);
  attr.len = static_cast<std::uint16_t>(bytes);
  attr.flags = UVERBS_ATTR_F_MANDATORY;
  attr.data = value;
  attrs.push_back(attr);
  return *this;
}

namespace {

int send(int fd, Method& method, std::uint32_t driver_id) {
  // The header ends in a flexible array member, which ISO C++ lacks.
  constexpr std::size_t kHeader = offsetof(ib_uverbs_ioctl_hdr, attrs);
  const std::size_t attrs = method.attrs.size() * sizeof(ib_uverbs_attr);
  std::vector<std::uint64_t> words((kHeader + attrs + 7) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(words.data());
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(bytes + offset, &value, sizeof(value));
  };
  put(offsetof(ib_uverbs_ioctl_hdr, length), static_cast<std::uint16_t>(kHeader + attrs));
  put(offsetof(ib_uverbs_ioctl_hdr, object_id), method.object);
  put(offsetof(ib_uverbs_ioctl_hdr, method_id), method.method);
  put(offsetof(ib_uverbs_ioctl_hdr, num_attrs), static_cast<std::uint16_t>(method.attrs.size()));
  put(offsetof(ib_uverbs_ioctl_hdr, driver_id), driver_id);
  std::memcpy(bytes + kHeader, method.attrs.data(), attrs);
  const int err = ioctl(fd, RDMA_VERBS_IOCTL, bytes) < 0 ? errno : 0;
  std::memcpy(method.attrs.data(), bytes + kHeader, attrs);
  return err;
}

// Returns the driver id that the kernel expects: RDMA_DRIVER_UNKNOWN of a driver out of tree, its
// own of the exported driver. The kernel checks the id before the method.
std::uint32_t find_driver_id(int fd) {
  constexpr std::uint32_t kIds = 1024;
  Method none{.object = 0xfff, .method = 0xfff};
  for (std::uint32_t id = 0; id < kIds; ++id) {
    if (send(fd, none, id) == EPROTONOSUPPORT) return id;
  }
  throw std::runtime_error("the kernel accepts no driver id");
}

}  // namespace

int call(int fd, Method& method) {
  static const std::uint32_t driver_id = find_driver_id(fd);
  return send(fd, method, driver_id);
}

Uverbs::Uverbs(const std::string& path, std::size_t context_response)
    : fd_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (fd_ < 0) throw std::runtime_error("cannot open " + path);
  Request request{.command = IB_USER_VERBS_CMD_GET_CONTEXT};
  append(request.core, ib_uverbs_get_context{});
  request.core_response = sizeof(ib_uverbs_get_context_resp);
  request.driver_response = context_response;
  if (call(request)) throw std::runtime_error("no context");
  async_fd_ = response<ib_uverbs_get_context_resp>().async_fd;
}

Uverbs::~Uverbs() {
  close(static_cast<int>(async_fd_));
  close(fd_);
}

int Uverbs::call(const Request& request) {
  response_.assign(request.core_response + request.driver_response, std::byte{0xee});
  std::vector<std::byte> bytes;
  const std::size_t word = request.extended ? 8 : 4;
  const auto words = [&](std::size_t size) { return static_cast<std::uint16_t>(size / word); };
  const auto address = reinterpret_cast<std::uint64_t>(response_.data());
  ib_uverbs_cmd_hdr header = {};
  header.command = request.command;
  if (request.extended) {
    header.command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
    header.in_words = words(request.core.size());
    header.out_words = words(request.core_response);
    append(bytes, header);
    ib_uverbs_ex_cmd_hdr more = {};
    more.response = address;
    more.provider_in_words = words(request.driver.size());
    more.provider_out_words = words(request.driver_response);
    append(bytes, more);
  } else {
    header.in_words = words(sizeof(header) + request.core.size() + request.driver.size());
    header.out_words = words(response_.size());
    append(bytes, header);
  }
  bytes.insert(bytes.end(), request.core.begin(), request.core.end());
  bytes.insert(bytes.end(), request.driver.begin(), request.driver.end());
  if (!request.extended && !response_.empty()) {
    std::memcpy(bytes.data() + sizeof(header), &address, sizeof(address));
  }
  return write(fd_, bytes.data(), bytes.size()) < 0 ? errno : 0;
}

std::uint32_t Uverbs::alloc_pd() {
  Request pd{.command = IB_USER_VERBS_CMD_ALLOC_PD};
  append(pd.core, ib_uverbs_alloc_pd{});
  pd.core_response = sizeof(ib_uverbs_alloc_pd_resp);
  require_err(call(pd), 0, "ALLOC_PD");
  return response<ib_uverbs_alloc_pd_resp>().pd_handle;
}

std::string uverbs_path(const std::string& device) {
  for (int i = 0; i < 32; ++i) {
    const std::string name = "uverbs" + std::to_string(i);
    char line[64] = {};
    FILE* file = std::fopen(("/sys/class/infiniband_verbs/" + name + "/ibdev").c_str(), "r");
    if (file == nullptr) continue;
    const bool found = std::fgets(line, sizeof(line), file) != nullptr &&
                       std::string_view(line).starts_with(device);
    std::fclose(file);
    if (found) return "/dev/infiniband/" + name;
  }
  throw std::runtime_error("no uverbs device");
}

}  // namespace guest::uverbs
