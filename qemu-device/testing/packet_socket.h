// SPDX-License-Identifier: GPL-2.0-or-later
// Frames from packet sockets of Linux.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

namespace tern::test {

// A frame with its control messages.
class ReceivedFrame {
 public:
  std::vector<std::byte> bytes;

  // The socket's next frame, of at most `most` bytes. Nothing if none comes before its timeout.
  [[nodiscard]] static std::optional<ReceivedFrame> take(int socket, std::size_t most) {
    ReceivedFrame frame;
    frame.bytes.resize(most);
    iovec data{frame.bytes.data(), frame.bytes.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = frame.control_.data();
    message.msg_controllen = frame.control_.size();
    const ssize_t size = recvmsg(socket, &message, 0);
    if (size < 0) return std::nullopt;
    frame.bytes.resize(static_cast<std::size_t>(size));
    frame.control_size_ = message.msg_controllen;
    return frame;
  }

  template <class T>
  [[nodiscard]] std::optional<T> control(int level, int type) {
    msghdr message{};
    message.msg_control = control_.data();
    message.msg_controllen = control_size_;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != level || c->cmsg_type != type) continue;
      T value;
      std::memcpy(&value, CMSG_DATA(c), sizeof(value));
      return value;
    }
    return std::nullopt;
  }

 private:
  alignas(cmsghdr) std::array<char, 256> control_;
  std::size_t control_size_ = 0;
};

}  // namespace tern::test
