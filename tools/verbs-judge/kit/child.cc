// SPDX-License-Identifier: GPL-2.0-or-later
#include "child.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

#include "verbs.h"

namespace guest {
namespace {

constexpr int kTimeout = 300'000;  // ms; bounds a hang

enum class Ended : std::uint8_t { kWell, kFailed, kSkipped };

struct Message {
  Words words;
  Ended ended;  // how the other process ended, if `text` is not empty
  std::array<char, 247> text;
};

std::array<int, 2> make_pair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    fail_errno("socketpair");
  }
  return fds;
}

// Says how this process ends. A process that ends well says what the device chose.
void tell_end(int fd, Ended how, const std::string& text) {
  Message m{};
  m.ended = how;
  std::copy_n(text.begin(), std::min(text.size(), m.text.size() - 1), m.text.begin());
  static_cast<void>(::send(fd, &m, sizeof(m), MSG_NOSIGNAL));
}

// Ancillary data with room for one file descriptor.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

void await(int fd) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  require(::poll(&p, 1, kTimeout) == 1, "the other process is silent");
}

}  // namespace

Talk::~Talk() { ::close(fd_); }

void Talk::tell(const Words& words) const {
  Message m{};
  m.words = words;
  if (::send(fd_, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m)) {
    fail_errno("send to the other process");
  }
}

Words Talk::hear() const {
  await(fd_);
  Message m{};
  const ssize_t n = ::recv(fd_, &m, sizeof(m), 0);
  require(n == sizeof(m), "the other process has gone");
  require(m.ended != Ended::kFailed, "other process: {}", m.text.data());
  if (m.ended == Ended::kSkipped) skip("{}", m.text.data());
  if (m.text[0] != '\0') chose(m.text.data());
  return m.words;
}

void Talk::give(int file) const {
  char byte = 'f';
  iovec part{.iov_base = &byte, .iov_len = 1};
  Control control{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = &control;
  m.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(file));
  std::memcpy(CMSG_DATA(c), &file, sizeof(file));
  if (::sendmsg(fd_, &m, MSG_NOSIGNAL) != 1) fail_errno("sendmsg of a file");
}

int Talk::take() const {
  await(fd_);
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  Control control{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = &control;
  m.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(fd_, &m, MSG_CMSG_CLOEXEC);
  const cmsghdr* c = n == 1 ? CMSG_FIRSTHDR(&m) : nullptr;
  require(c != nullptr && c->cmsg_type == SCM_RIGHTS, "no file came");
  int file = -1;
  std::memcpy(&file, CMSG_DATA(c), sizeof(file));
  return file;
}

Child::Child(const std::function<void(const Talk&)>& body)
    : theirs_(-1),
      talk_([this] {
        const std::array<int, 2> fds = make_pair();
        theirs_ = fds[1];
        return fds[0];
      }()),
      pid_(::fork()) {
  if (pid_ < 0) fail_errno("fork");
  if (pid_ != 0) {
    ::close(theirs_);
    return;
  }
  ::alarm(0);
  take_choices();
  const Talk talk(theirs_);
  try {
    body(talk);
    const std::string errors = take_destroy_errors();
    require(errors.empty(), "{}", errors);
    tell_end(theirs_, Ended::kWell, take_choices());
    ::_exit(0);
  } catch (const Skip& e) {
    tell_end(theirs_, Ended::kSkipped, e.what());
  } catch (const std::exception& e) {
    tell_end(theirs_, Ended::kFailed, e.what());
  }
  ::_exit(1);
}

Child::~Child() { kill(); }

Words Child::ask(const Words& words) const {
  talk_.tell(words);
  return talk_.hear();
}

void Child::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
}

void Child::finish() {
  talk_.wait();
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace guest
