// SPDX-License-Identifier: GPL-2.0-or-later
// Every operation on memory that is not present at either end, and regions that change.
#include <array>
#include <cerrno>
#include <cstring>

#include "paging.h"

namespace guest::paging {
namespace {

constexpr std::uint32_t kLen = 3 * kPage;
constexpr std::uint32_t kReadWrite = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
// Not in headers of all ages.
constexpr std::uint32_t kSupportFlush = 1 << 6;
constexpr std::uint32_t kSupportAtomicWrite = 1 << 7;

// The device has seen no page of these: each end of each operation faults.
struct Ends {
  explicit Ends(const Env& env)
      : pair(env.dev),
        here(8 * kPage),
        there(8 * kPage),
        near(on_demand(env, here)),
        far(on_demand(env, there)) {}
  [[nodiscard]] ibv_sge from(std::size_t offset = 100, std::uint32_t n = kLen) const {
    return sge(near.get(), here.address(offset), n);
  }
  // A request of this type to a place in the other memory.
  [[nodiscard]] Send to(ibv_wr_opcode opcode, std::size_t offset) const {
    return {.opcode = opcode, .raddr = there.address(offset), .rkey = far->rkey};
  }
  const Loop pair;
  const Map here, there;
  const MrPtr near, far;
};

std::uint64_t word(const Map& map, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, map.at(offset), sizeof(value));
  return value;
}

void write(const Env& env) {
  need(env, IBV_ODP_SUPPORT_WRITE);
  const Ends e(env);
  fill(e.here.bytes(100, kLen), 1);
  e.pair.must(write_from(e.from(), e.there.address(50), e.far->rkey), "WRITE");
  expect_pattern(e.there.bytes(50, kLen), 1, "WRITE");
}

void read(const Env& env) {
  need(env, IBV_ODP_SUPPORT_READ);
  const Ends e(env);
  fill(e.there.bytes(50, kLen), 2);
  e.pair.must(read_into(e.from(), e.there.address(50), e.far->rkey), "READ");
  expect_pattern(e.here.bytes(100, kLen), 2, "READ");
}

void send(const Env& env) {
  need(env, IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV);
  const Ends e(env);
  fill(e.here.bytes(100, kLen), 3);
  const ibv_sge to = sge(e.far.get(), e.there.address(70), kLen);
  e.pair.message(e.from(), {&to, 1});
  expect_pattern(e.there.bytes(70, kLen), 3, "SEND");
}

void atomics(const Env& env) {
  need(env, IBV_ODP_SUPPORT_ATOMIC);
  if (env.dev.attr().atomic_cap == IBV_ATOMIC_NONE) skip("atomic_cap is IBV_ATOMIC_NONE");
  const Ends e(env);
  Send add = e.to(IBV_WR_ATOMIC_FETCH_AND_ADD, 16);
  add.sges = {e.from(8, 8)};
  add.compare_add = 5;
  for (std::uint64_t i = 0; i < 3; ++i) {
    e.pair.must(add, "FETCH_AND_ADD");
    require(word(e.here, 8) == i * 5, "FETCH_AND_ADD returned {}", word(e.here, 8));
  }
  Send swap = add;
  swap.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  swap.compare_add = 15;
  swap.swap = 99;
  e.here.advise(MADV_DONTNEED);
  e.pair.must(swap, "CMP_AND_SWP");
  require(word(e.there, 16) == 99, "CMP_AND_SWP left {}", word(e.there, 16));
}

void flush(const Env& env) {
  need(env, kSupportFlush);
  need_capability(env.dev, IB_UVERBS_DEVICE_FLUSH_GLOBAL, "IB_UVERBS_DEVICE_FLUSH_GLOBAL");
  const Ends e(env);
  Send flush = e.to(IBV_WR_FLUSH, 4 * kPage);
  flush.flush_length = kPage;
  e.pair.must(flush, "FLUSH");
}

void atomic_write(const Env& env) {
  need(env, kSupportAtomicWrite);
  need_capability(env.dev, IB_UVERBS_DEVICE_ATOMIC_WRITE, "IB_UVERBS_DEVICE_ATOMIC_WRITE");
  const Ends e(env);
  Send store = e.to(IBV_WR_ATOMIC_WRITE, 5 * kPage);
  store.swap = 0x123456789abcdef;
  e.pair.must(store, "ATOMIC_WRITE");
  require(word(e.there, 5 * kPage) == store.swap, "ATOMIC_WRITE left {:#x}",
          word(e.there, 5 * kPage));
}

void srq_receive(const Env& env) {
  need(env, IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV);
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  const SrqPtr srq(ibv_create_srq(env.dev.pd(), &attr));
  require(srq != nullptr, "ibv_create_srq: {}", errno_name(errno));
  const Loop pair(env.dev, 16, srq.get());
  const Map here(8 * kPage), there(8 * kPage);
  const MrPtr near = on_demand(env, here), far = on_demand(env, there);
  fill(here.bytes(), 4);
  const ibv_sge to = sge(far.get(), there.address(), 8 * kPage);
  pair.message(sge(near.get(), here.address(), 8 * kPage), {&to, 1}, srq.get());
  expect_pattern(there.bytes(), 4, "SRQ");
}

// SENDs of unreliable QPs from memory that is not present.
void unreliable(const Env& env, ibv_qp_type type) {
  need(env, 0);
  const auto& caps = env.dev.attr_ex().odp_caps.per_transport_caps;
  const std::uint32_t has = type == IBV_QPT_UD ? caps.ud_odp_caps : caps.uc_odp_caps;
  if ((has & IBV_ODP_SUPPORT_SEND) == 0) skip("no IBV_ODP_SUPPORT_SEND");
  constexpr std::uint32_t kLength = 200;
  const Pair pair(env.dev, alike({.type = type}));
  const Map here(2 * kPage);
  const MrPtr mr = on_demand(env, here);
  fill(here.bytes(kPage - 100, kLength), 5);
  pair.recv(1, 0, kLength);
  Send send = pair.request(IBV_WR_SEND, kLength);
  send.sges = {sge(mr.get(), here.address(kPage - 100), kLength)};
  pair.run(send);
  pair.expect_recv(1);
  pair.remote.check({pair.local.header(), kLength}, 5);
}

ibv_wc_status once(const Env& env, const Send& send) { return Loop(env.dev).run(send); }

// A mapping that may only be read can be sent from, but not written to; one without rights neither.
// The status at the requester is the device's choice.
void protection(const Env& env) {
  need(env, kReadWrite);
  const Map plain(kPage), read_only(2 * kPage, PROT_READ), hole(4 * kPage);
  const MrPtr local = on_demand(env, plain), far = on_demand(env, read_only);
  const MrPtr holed = on_demand(env, hole);
  fill(hole.bytes(0, 2 * kPage), 5);
  require(::mprotect(hole.at(2 * kPage), kPage, PROT_NONE) == 0, "mprotect");
  const auto refused = [](ibv_wc_status status, ibv_wc_status usual, const char* what) {
    require(status != IBV_WC_SUCCESS, "{} succeeds", what);
    require_usual(status == usual, "{}: {}", what, ibv_wc_status_str(status));
  };
  const auto plain_sge = [&](std::uint32_t n) { return sge(local.get(), plain.address(), n); };
  require(once(env, write_from(sge(far.get(), read_only.address(), 100), plain.address(),
                               local->rkey)) == IBV_WC_SUCCESS,
          "a WRITE from a read-only mapping");
  refused(once(env, write_from(plain_sge(8), read_only.address(), far->rkey)),
          IBV_WC_REM_ACCESS_ERR, "a WRITE to a read-only mapping");
  refused(once(env, write_from(sge(holed.get(), hole.address(2 * kPage), 8), plain.address(),
                               local->rkey)),
          IBV_WC_LOC_PROT_ERR, "a WRITE from a hole");
  refused(once(env, read_into(plain_sge(8), hole.address(2 * kPage), holed->rkey)),
          IBV_WC_REM_ACCESS_ERR, "a READ from a hole");
  // What is in front of the hole arrives.
  require(
      once(env, read_into(plain_sge(kPage), hole.address(kPage), holed->rkey)) == IBV_WC_SUCCESS,
      "a READ in front of the hole");
}

// A window's bounds stay when the memory below it moves.
void windows(const Env& env) {
  need(env, IBV_ODP_SUPPORT_WRITE);
  constexpr std::uint32_t kTwo = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if ((env.dev.attr().device_cap_flags & kTwo) == 0) skip("no windows of type 2");
  const Map here(kPage), there(8 * kPage);
  const MrPtr near = on_demand(env, here);
  const MrPtr far =
      try_reg(env.dev.pd(), there.at(), there.length(), odp_access(env.dev) | IBV_ACCESS_MW_BIND);
  if (!far) return require_usual(false, "windows on memory on demand: {}", errno_name(errno));
  fill(here.bytes(), 6);
  const MwPtr mw = alloc_mw(env.dev.pd(), IBV_MW_TYPE_2);
  const Loop pair(env.dev);
  Send bind{.opcode = IBV_WR_BIND_MW};
  bind.mw = mw.get();
  bind.bind_rkey = ibv_inc_rkey(mw->rkey);
  bind.bind = {.mr = far.get(),
               .addr = there.address(3 * kPage - 10),
               .length = 20,
               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  require_err(post(pair.b(), Api::kPost, bind), 0, "bind");
  require(poll(pair.cq(), 1)[0].status == IBV_WC_SUCCESS, "bind");
  const Send write = write_from(sge(near.get(), here.address(), 20), there.address(3 * kPage - 10),
                                bind.bind_rkey);
  for (int i = 0; i < 3; i++) {
    pair.must(write, "a WRITE through a window");
    expect_pattern(there.bytes(3 * kPage - 10, 20), 6, "the window");
    there.advise(MADV_DONTNEED);
  }
  Send beyond = write;
  beyond.raddr++;
  const ibv_wc_status status = pair.run(beyond);
  require(status == IBV_WC_REM_ACCESS_ERR, "beyond a window: {}", ibv_wc_status_str(status));
  expect_zeros(there.bytes(), "the memory of the window");
}

// ibv_rereg_mr() of memory on demand, to pinned memory and back.
void rereg(const Env& env) {
  need(env, IBV_ODP_SUPPORT_WRITE);
  const Map here(kPage), there(8 * kPage), other(8 * kPage);
  const MrPtr near = on_demand(env, here);
  const MrPtr far = reg(env.dev, there, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
  const int all = odp_access(env.dev);
  fill(here.bytes(), 8);
  const auto change = [&](int flags, void* at, int access) {
    const int err = ibv_rereg_mr(far.get(), flags, nullptr, at, at ? 8 * kPage : 0, access);
    if (err != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
      skip("ibv_rereg_mr: {}", errno_name(errno));
    }
    require(err == 0, "ibv_rereg_mr with {}: {}, {}", flags, err, errno_name(errno));
  };
  const auto write = [&](const Map& to) {
    return once(env,
                write_from(sge(near.get(), here.address(), kPage), to.address(100), far->rkey));
  };
  const auto arrives = [&](const Map& to, const char* what) {
    require(write(to) == IBV_WC_SUCCESS, "a WRITE {}", what);
    expect_pattern(to.bytes(100, kPage), 8, what);
  };
  require(write(there) == IBV_WC_REM_ACCESS_ERR, "a WRITE without the right");
  change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, all);
  arrives(there, "with the right");
  change(IBV_REREG_MR_CHANGE_TRANSLATION, other.at(), 0);
  require(write(there) == IBV_WC_REM_ACCESS_ERR, "a WRITE to the old memory");
  arrives(other, "to the new memory");
  constexpr int kBoth = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
  change(kBoth, there.at(), kAllAccess);
  std::memset(there.at(), 0, 2 * kPage);
  arrives(there, "to pinned memory");
  change(kBoth, other.at(), all);
  other.advise(MADV_DONTNEED);
  arrives(other, "on demand again");
}

// An implicit region begins at 0.
void implicit_address(const Env& env) {
  need(env, 0);
  const MrPtr mr(ibv_reg_mr_iova(env.dev.pd(), nullptr, SIZE_MAX, kPage,
                                 static_cast<unsigned>(odp_access(env.dev))));
  require_refused(mr ? 0 : errno, EINVAL, "an implicit region at an address");
}

}  // namespace

Rules operations() {
  return {
      {"write", "a WRITE brings absent pages of both ends", write},
      {"read", "a READ brings absent pages of both ends", read},
      {"send", "a SEND and its receive bring absent pages", send},
      {"atomics", "atomics bring absent pages", atomics},
      {"flush", "a FLUSH of absent pages succeeds", flush},
      {"atomic-write", "ATOMIC_WRITE brings an absent page", atomic_write},
      {"srq-receive", "a receive of an SRQ brings absent pages", srq_receive},
      {"uc-send", "a SEND of a UC QP brings absent pages",
       [](const Env& env) { unreliable(env, IBV_QPT_UC); }},
      {"ud-send", "a SEND of a UD QP brings absent pages",
       [](const Env& env) { unreliable(env, IBV_QPT_UD); }},
      {"protection", "a request does to memory on demand only what the process may", protection},
      {"windows", "a window keeps its bounds when the memory below it moves", windows},
      {"rereg", "ibv_rereg_mr moves regions on demand, to pinned memory and back", rereg,
       "ibv_rereg_mr(3)"},
      {"implicit-address", "an implicit region begins at address 0", implicit_address},
  };
}

}  // namespace guest::paging
