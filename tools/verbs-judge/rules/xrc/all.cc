// SPDX-License-Identifier: GPL-2.0-or-later
// Domains, their SRQs and targets, also of several processes.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "xrc.h"

namespace guest::xrc {
namespace {

void several(const Env& env) {
  const XrcdPtr xrcd = open(env.dev, -1);
  const std::array<Place, 3> places{Place(env.dev, xrcd.get()), Place(env.dev, xrcd.get()),
                                    Place(env.dev, xrcd.get())};
  const Road road(env.dev, xrcd.get());
  for (std::uint64_t i = 0; i < 12; i++) {
    const Place& place = places[i * 5 % 3];
    place.recv(i);
    require(road.run(road.message(place.number())) == IBV_WC_SUCCESS, "a send fails");
    const ibv_wc wc = place.received(i);
    require(wc.qp_num == road.target()->qp_num, "qp_num {:#x}", wc.qp_num);
    for (const Place& other : places) expect_quiet(other.cq(), 0);
  }
}

void targets(const Env& env) {
  const XrcdPtr xrcd = open(env.dev, -1);
  const Place place(env.dev, xrcd.get());
  const Road first(env.dev, xrcd.get());
  const Road second(env.dev, xrcd.get());
  for (std::uint64_t i = 0; i < 8; i++) (i % 2 == 0 ? first : second).arrives(place, i);
}

// The number of nothing, of an SRQ that is gone, and of one of another domain. The right one works
// after none of them, for the connection is broken.
void wrong_number(const Env& env) {
  const XrcdPtr xrcd = open(env.dev, -1);
  const XrcdPtr other = open(env.dev, -1);
  const Place place(env.dev, xrcd.get());
  const Place foreign(env.dev, other.get());
  foreign.recv(1);
  place.recv(2);
  std::uint32_t gone = 0;
  {
    const Place brief(env.dev, xrcd.get());
    gone = brief.number();
  }
  struct Case {
    std::uint32_t number;
    const char* what;
  };
  for (const Case& c : {Case{0xfffffe, "an SRQ that never was"}, Case{gone, "an SRQ that is gone"},
                        Case{foreign.number(), "an SRQ of another domain"}}) {
    const Road road(env.dev, xrcd.get());
    const ibv_wc_status status = road.run(road.message(c.number));
    require(status != IBV_WC_SUCCESS, "a send to {} succeeds", c.what);
    require_usual(status == IBV_WC_REM_INV_REQ_ERR, "a send to {}: {}", c.what,
                  ibv_wc_status_str(status));
  }
  expect_quiet(foreign.cq(), 20);
  const Road road(env.dev, xrcd.get());
  require(road.run(road.message(place.number())) == IBV_WC_SUCCESS, "a send fails");
  place.received(2);
}

// A WRITE may touch the memory of the PD to which the SRQ that it names belongs.
void domain_of_memory(const Env& env) {
  const XrcdPtr xrcd = open(env.dev, -1);
  const Place a(env.dev, xrcd.get());
  const Place b(env.dev, xrcd.get());
  for (const Place* named : {&a, &b}) {
    const Road road(env.dev, xrcd.get());
    a.memory().store64(0, 1);
    Send send = road.message(named->number());
    send.opcode = IBV_WR_RDMA_WRITE;
    send.raddr = a.memory().address();
    send.rkey = a.memory().rkey();
    const ibv_wc_status status = road.run(send);
    if (named == &a) {
      require(status == IBV_WC_SUCCESS, "a WRITE: {}", ibv_wc_status_str(status));
      require(a.memory().load64(0) == 0, "a WRITE has not arrived");
    } else {
      require(status == IBV_WC_REM_ACCESS_ERR, "a WRITE to memory of another PD: {}",
              ibv_wc_status_str(status));
      require(a.memory().load64(0) == 1, "a WRITE that is refused has arrived");
    }
  }
}

void busy(const Env& env) {
  XrcdPtr xrcd = open(env.dev, -1);
  const auto refuse = [&xrcd](const char* what) {
    const int err = ibv_close_xrcd(xrcd.get());
    if (err == 0) static_cast<void>(xrcd.release());
    // "ibv_close_xrcd() may fail if any other resource is still associated with the XRCD."
    if (!usually_refused(err, EBUSY, what)) skip("a domain can be closed before what is in it");
  };
  {
    const Place place(env.dev, xrcd.get());
    refuse("ibv_close_xrcd with an SRQ");
  }
  const QpPtr target = create_qp(env.dev, {.type = IBV_QPT_XRC_RECV, .xrcd = xrcd.get()});
  refuse("ibv_close_xrcd with a QP");
}

void files(const Env& env) {
  const File file;
  ibv_context* const context = env.dev.context();
  XrcdPtr none = try_open(context, file.fd(), 0);
  require_refused(none ? 0 : errno, EAGAIN, "ibv_open_xrcd of a file that has no domain");
  none = try_open(context, -1, 0);
  // The page asks for O_CREAT here, and Linux does not.
  if (!none) chose(std::format("ibv_open_xrcd without a file and O_CREAT: {}", errno_name(errno)));
  const XrcdPtr first = try_open(context, file.fd(), O_CREAT | O_EXCL);
  if (!first) fail_errno("ibv_open_xrcd with O_CREAT and O_EXCL");
  none = try_open(context, file.fd(), O_CREAT | O_EXCL);
  require_refused(none ? 0 : errno, EINVAL, "ibv_open_xrcd with O_EXCL of a domain that exists");
  const XrcdPtr second = try_open(context, file.fd(), 0);
  if (!second) fail_errno("ibv_open_xrcd of a domain that exists");
  // Both are one domain.
  const Place place(env.dev, second.get());
  const Road road(env.dev, first.get());
  road.arrives(place, 1);
}

// What the other process does: it has a place in the domain of the file, and tells its number.
[[noreturn]] void other_process(const std::string& device, int file, int out, int in) {
  int status = 1;
  try {
    const Device dev(device, -1);
    const XrcdPtr xrcd = open(dev, file);
    const Place place(dev, xrcd.get());
    for (std::uint64_t i = 0; i < 4; i++) place.recv(i);
    const std::uint32_t number = place.number();
    char end = 0;
    if (::write(out, &number, sizeof(number)) == sizeof(number)) {
      for (std::uint64_t i = 0; i < 4; i++) place.received(i);
      if (::read(in, &end, 1) == 1) status = 0;
    }
  } catch (const Failure& failure) {
    std::fprintf(stderr, "# the other process: %s\n", failure.what());
  }
  ::_exit(status);
}

void processes(const Env& env) {
  need_xrc(env.dev.context());
  const File file;
  std::array<int, 2> up{};
  std::array<int, 2> down{};
  if (::pipe2(up.data(), O_CLOEXEC) != 0 || ::pipe2(down.data(), O_CLOEXEC) != 0) {
    fail_errno("pipe2");
  }
  const pid_t child = ::fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    ::close(down[1]);
    other_process(ibv_get_device_name(env.dev.context()->device), file.fd(), up[1], down[0]);
  }
  ::close(up[1]);
  ::close(down[0]);
  std::string why;
  try {
    const XrcdPtr xrcd = open(env.dev, file.fd());
    const Place own(env.dev, xrcd.get());
    const Road road(env.dev, xrcd.get());
    std::uint32_t number = 0;
    require(::read(up[0], &number, sizeof(number)) == sizeof(number),
            "the other process has ended");
    for (std::uint64_t i = 0; i < 4; i++) {
      const ibv_wc_status status = road.run(road.message(number));
      require(status == IBV_WC_SUCCESS, "a send to the other process: {}",
              ibv_wc_status_str(status));
      road.arrives(own, i);
    }
    require(::write(down[1], "", 1) == 1, "the other process has ended");
  } catch (const Skip&) {
    throw;
  } catch (const Failure& failure) {
    why = failure.what();
  }
  ::close(up[0]);
  ::close(down[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  require(why.empty(), "{}", why);
  require(status == 0, "the other process has failed");
}

// The target stays until the last one that has opened it closes it.
void opened_target(const Env& env) {
  const File file;
  const Device other(ibv_get_device_name(env.dev.context()->device), -1);
  const XrcdPtr xrcd = open(env.dev, file.fd());
  const XrcdPtr shared = open(other, file.fd());
  const Place place(env.dev, xrcd.get());
  Road road(env.dev, xrcd.get());
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = road.target()->qp_num;
  attr.xrcd = shared.get();
  attr.qp_type = IBV_QPT_XRC_RECV;
  const QpPtr opened(ibv_open_qp(other.context(), &attr));
  if (!opened) fail_errno("ibv_open_qp");
  require(opened->qp_num == attr.qp_num, "qp_num {:#x}", opened->qp_num);
  road.arrives(place, 1);
  require_err(ibv_destroy_qp(road.release_target()), 0, "ibv_destroy_qp");
  road.arrives(place, 2);
  attr.qp_num ^= 0x800000;
  const QpPtr none(ibv_open_qp(other.context(), &attr));
  require_refused(none ? 0 : errno, EINVAL, "ibv_open_qp of a QP that does not exist");
}

void basic_number(const Env& env) {
  need_xrc(env.dev.context());
  if (env.dev.attr().max_srq == 0) skip("max_srq is 0");
  ibv_srq_init_attr init{.srq_context = nullptr,
                         .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  const SrqPtr srq(ibv_create_srq(env.dev.pd(), &init));
  if (!srq) fail_errno("ibv_create_srq");
  std::uint32_t number = 0;
  const int err = ibv_get_srq_num(srq.get(), &number);
  chose(std::format("ibv_get_srq_num of a basic SRQ: {}", errno_name(err)));
  if (err != 0) return;
  // An SRQ that is in no domain is none for XRC.
  const XrcdPtr xrcd = open(env.dev, -1);
  const Road road(env.dev, xrcd.get());
  const ibv_wc_status status = road.run(road.message(number));
  require(status != IBV_WC_SUCCESS, "a send to a basic SRQ succeeds");
}

}  // namespace

Rules all() {
  return {
      {"several", "each message takes a receive of the SRQ that it names", several},
      {"targets", "several targets of a domain share an SRQ", targets},
      {"wrong_number", "a message to an SRQ outside the domain of the target fails", wrong_number},
      {"domain_of_memory", "a request may touch memory of the PD of the SRQ that it names",
       domain_of_memory},
      {"busy", "a domain with an SRQ or a QP may refuse to be closed", busy, "ibv_open_xrcd(3)"},
      {"files", "a file stands for one domain, by the rules of O_CREAT and O_EXCL", files,
       "ibv_open_xrcd(3)"},
      {"processes", "processes share a domain by its file, and one target serves both", processes,
       "ibv_open_xrcd(3)"},
      {"opened_target", "a target lives until all that have opened it close it", opened_target,
       "ibv_open_qp(3)"},
      {"basic_number", "a basic SRQ gets no message of XRC", basic_number, "ibv_get_srq_num(3)"},
  };
}

}  // namespace guest::xrc
