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

struct Message {
  Words words;
  bool failed;
  std::array<char, 247> text;
};

std::array<int, 2> make_pair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    fail_errno("socketpair");
  }
  return fds;
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

void Talk::tell_failure(const std::string& why) const {
  Message m{};
  m.failed = true;
  std::copy_n(why.begin(), std::min(why.size(), m.text.size() - 1), m.text.begin());
  static_cast<void>(::send(fd_, &m, sizeof(m), MSG_NOSIGNAL));
}

Words Talk::hear() const {
  await(fd_);
  Message m{};
  const ssize_t n = ::recv(fd_, &m, sizeof(m), 0);
  require(n == sizeof(m), "the other process has gone");
  require(!m.failed, "other process: {}", m.text.data());
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
  const Talk talk(theirs_);
  try {
    body(talk);
    const std::string errors = take_destroy_errors();
    require(errors.empty(), "{}", errors);
    talk.tell();
    ::_exit(0);
  } catch (const std::exception& e) {
    talk.tell_failure(e.what());
    ::_exit(1);
  }
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
