// SPDX-License-Identifier: GPL-2.0-or-later
// FLUSH and ATOMIC WRITE: their effects, and what is refused at which end.
#include <rdma/ib_user_verbs.h>

#include <array>
#include <cerrno>
#include <functional>
#include <vector>

#include "connections.h"

namespace guest::connections {
namespace {

constexpr std::uint32_t kLength = 30000;

PairOptions flush_options() {
  PairOptions o;
  o.local.more_ops = kBuiltOps;
  o.remote.access = kFlushAccess;
  o.how.qp_access = kFlushAccess;
  return o;
}

Send flush(const Pair& pair, std::uint64_t at, std::size_t length) {
  Send send = pair.request(IBV_WR_FLUSH, 0, 0, at);
  send.flush_length = length;
  return send;
}

// At level MR the device ignores address and length.
Send flush_region(const Pair& pair) {
  Send send = flush(pair, 0x123456789, 12345678);
  send.flush_level = IBV_FLUSH_MR;
  return send;
}

Send atomic_write(const Pair& pair, std::uint64_t at, std::uint64_t value) {
  Send send = pair.request(IBV_WR_ATOMIC_WRITE, 0, 0, at);
  send.swap = value;
  return send;
}

void expect_done(const Pair& pair, const Send& send, ibv_wc_opcode opcode) {
  pair.post(send, Api::kWr);
  require(pair.expect(send.wr_id).opcode == opcode, "another opcode");
}

// When a FLUSH completes, earlier writes are visible to the responder's CPU.
void flush_after_writes(const Env& env) {
  const Pair pair(env, flush_options());
  for (std::uint64_t seed = 1; seed <= 20; seed++) {
    pair.fill({0, kLength}, seed);
    Send write = pair.request(IBV_WR_RDMA_WRITE, kLength);
    write.flags = 0;
    pair.post(std::array{write, seed % 2 == 0 ? flush_region(pair) : flush(pair, 0, kLength)},
              Api::kWr);
    require(pair.expect(0).opcode == IBV_WC_FLUSH, "another opcode");
    pair.remote.check({0, kLength}, seed);
  }
  // The last byte of the region, and a range of length 0.
  constexpr std::uint64_t kEnd = 64 * 1024;
  expect_done(pair, flush(pair, kEnd - 1, 1), IBV_WC_FLUSH);
  expect_done(pair, flush(pair, kEnd, 0), IBV_WC_FLUSH);
}

void atomic_writes(const Env& env) {
  const Pair pair(env, flush_options());
  for (std::uint64_t i = 0; i < 100; i++) {
    const std::uint64_t at = i * 8;
    const std::uint64_t value = 0x8877665544332211U + i;
    expect_done(pair, atomic_write(pair, at, value), IBV_WC_ATOMIC_WRITE);
    require(pair.remote.load64(at) == value, "{:#x} at {}, not {:#x}", pair.remote.load64(at), at,
            value);
    require(pair.remote.load64(at + 8) == 0, "the word after it changed");
  }
}

// More than may be outstanding, mixed with READs and atomics: all complete, in order.
void flush_many(const Env& env) {
  PairOptions o = flush_options();
  o.how.max_rd_atomic = o.how.max_dest_rd_atomic = 2;
  const Pair pair(env, o);
  std::vector<Send> sends;
  for (std::uint64_t i = 0; i < 12; i++) {
    sends.push_back(atomic_write(pair, 0, i + 1));
    sends.push_back(flush(pair, 0, 8));
    sends.push_back(pair.request(IBV_WR_RDMA_READ, 8, 8 * i));
    sends.push_back(pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4096));
    sends.back().compare_add = 0;
  }
  for (std::uint64_t i = 0; i < sends.size(); i++) sends[i].wr_id = i;
  pair.post(sends, Api::kWr);
  for (std::uint64_t i = 0; i < sends.size(); i++) pair.expect(i);
  for (std::uint64_t i = 0; i < 12; i++) {
    require(pair.local.memory().load64(8 * i) >= i + 1, "the READ overtook the word before it");
  }
}

// The request fails with `status`, and the QP enters the error state.
void refused(const Env& env, const PairOptions& options,
             const std::function<Send(const Pair&)>& make, ibv_wc_status status,
             bool any_error = false) {
  const Pair pair(env, options);
  pair.remote.store64(0, 5);
  Send send = make(pair);
  send.wr_id = 1;
  Send next = pair.request(IBV_WR_RDMA_WRITE, 8);
  next.wr_id = 2;
  pair.post(std::array{send, next}, Api::kWr);
  if (any_error && !strict()) {
    const ibv_wc wc = poll(pair.local.send_cq(), 1).front();
    require(wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS, "the request succeeds");
    require_usual(wc.status == status, "{}, not {}", ibv_wc_status_str(wc.status),
                  ibv_wc_status_str(status));
  } else {
    pair.expect(1, status);
  }
  pair.expect(2, IBV_WC_WR_FLUSH_ERR);
  require(pair.remote.load64(0) == 5, "the memory changed");
}

void flush_refused(const Env& env) {
  const PairOptions good = flush_options();
  PairOptions no_right = good;
  no_right.remote.access = kAllAccess;
  PairOptions no_qp_right = good;
  no_qp_right.how.qp_access = kAllAccess;
  PairOptions persistent = good;
  persistent.how.qp_access |= IBV_ACCESS_FLUSH_PERSISTENT;
  PairOptions foreign = good;
  foreign.remote.foreign_pd = true;
  for (const bool whole : {false, true}) {
    const auto make = [whole](const Pair& p) { return whole ? flush_region(p) : flush(p, 0, 8); };
    refused(env, no_right, make, IBV_WC_REM_ACCESS_ERR);
    refused(env, no_qp_right, make, IBV_WC_REM_INV_REQ_ERR);
    refused(env, foreign, make, IBV_WC_REM_ACCESS_ERR);
    const auto changed = [&](auto change) {
      return [make, change](const Pair& p) {
        Send send = make(p);
        change(send);
        return send;
      };
    };
    refused(env, good, changed([](Send& s) { s.rkey += 1; }), IBV_WC_REM_ACCESS_ERR);
    refused(env, persistent, changed([](Send& s) { s.flush_type = IBV_FLUSH_PERSISTENT; }),
            IBV_WC_REM_ACCESS_ERR);
    refused(env, persistent,
            changed([](Send& s) { s.flush_type = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT; }),
            IBV_WC_REM_ACCESS_ERR);
    refused(env, good, changed([](Send& s) { s.flush_type = IBV_FLUSH_PERSISTENT; }),
            IBV_WC_REM_INV_REQ_ERR);
  }
  constexpr std::uint64_t kEnd = 64 * 1024;
  refused(env, good, [](const Pair& p) { return flush(p, 0, kEnd + 1); }, IBV_WC_REM_ACCESS_ERR);
  refused(env, good, [](const Pair& p) { return flush(p, kEnd + 1, 0); }, IBV_WC_REM_ACCESS_ERR);
  refused(
      env, good, [](const Pair& p) { return flush(p, 0, 0x80000001U); }, IBV_WC_LOC_LEN_ERR, true);
}

void atomic_write_refused(const Env& env) {
  const PairOptions good = flush_options();
  PairOptions no_right = good;
  no_right.remote.access = kFlushAccess & ~IBV_ACCESS_REMOTE_WRITE;
  PairOptions no_qp_right = good;
  no_qp_right.how.qp_access = kFlushAccess & ~IBV_ACCESS_REMOTE_WRITE;
  const auto make = [](std::uint64_t at) {
    return [at](const Pair& p) { return atomic_write(p, at, 7); };
  };
  refused(env, no_right, make(0), IBV_WC_REM_ACCESS_ERR);
  refused(env, no_qp_right, make(0), IBV_WC_REM_INV_REQ_ERR);
  refused(env, good, make(4), IBV_WC_REM_INV_REQ_ERR);
  refused(env, good, make(64 * 1024), IBV_WC_REM_ACCESS_ERR);
  refused(
      env, good,
      [](const Pair& p) {
        Send send = atomic_write(p, 0, 7);
        send.rkey += 1;
        return send;
      },
      IBV_WC_REM_ACCESS_ERR);
}

// Malformed requests are refused when posted, or accepted: no page names the values that are valid.
void flush_posts_refused(const Env& env) {
  const Pair pair(env, flush_options());
  const auto expect_einval = [&](const Send& send, Api api) {
    if (!usually_refused(guest::post(pair.local.qp(), api, send), EINVAL, api_name(api))) {
      undecided("FLUSH of type {} and level {}: accepted", send.flush_type, send.flush_level);
    }
    expect_quiet(pair.local.send_cq(), 5);
  };
  Send send = flush(pair, 0, 8);
  if (strict()) {
    expect_einval(send, Api::kPost);
    expect_einval(atomic_write(pair, 0, 1), Api::kPost);
  }
  for (const std::uint8_t type : std::array<std::uint8_t, 3>{0, 4, 0x81}) {
    send.flush_type = type;
    expect_einval(send, Api::kWr);
  }
  send = flush(pair, 0, 8);
  send.flush_level = 2;
  expect_einval(send, Api::kWr);
  pair.expect_traffic();
}

// A device without FLUSH to persistent memory has no region with that right.
void flush_attributes(const Env& env) {
  const std::uint64_t caps = env.dev.attr_ex().device_cap_flags_ex;
  if ((caps & IB_UVERBS_DEVICE_FLUSH_PERSISTENT) != 0) skip("FLUSH_PERSISTENT is not tested");
  const Memory memory(env.dev.pd(), 4096, kFlushAccess);
  errno = 0;
  const MrPtr none(ibv_reg_mr(env.dev.pd(), memory.bytes().data(), 4096,
                              kFlushAccess | IBV_ACCESS_FLUSH_PERSISTENT));
  require_refused(none ? 0 : errno, EOPNOTSUPP, "ibv_reg_mr with FLUSH_PERSISTENT");
}

}  // namespace

namespace {

// Runs a rule on devices that have both operations.
Rules with_both(Rules rules) {
  for (Rule& rule : rules) {
    rule.run = [run = rule.run](const Env& env) {
      need_capability(env.dev, IB_UVERBS_DEVICE_FLUSH_GLOBAL, "IB_UVERBS_DEVICE_FLUSH_GLOBAL");
      need_capability(env.dev, IB_UVERBS_DEVICE_ATOMIC_WRITE, "IB_UVERBS_DEVICE_ATOMIC_WRITE");
      run(env);
    };
  }
  return rules;
}

}  // namespace

Rules flush() {
  return with_both({
      {"flush_after_writes",
       "when a FLUSH completes, the WRITEs before it are visible to the responder",
       flush_after_writes},
      {"atomic_writes", "ATOMIC WRITE writes 8 bytes, and nothing beside them", atomic_writes},
      {"flush_many",
       "FLUSH, ATOMIC WRITE, READ and atomics complete in order, however many are posted",
       flush_many},
      {"flush_refused",
       "FLUSH needs its right in region and QP, a key of the PD, and a range of the region",
       flush_refused},
      {"atomic_write_refused", "ATOMIC WRITE needs its right, an aligned address, and a valid key",
       atomic_write_refused},
      {"flush_posts_refused", "FLUSH of an unknown type or level is refused when posted",
       flush_posts_refused},
      {"flush_attributes", "ibv_reg_mr refuses a kind of FLUSH that device_cap_flags_ex lacks",
       flush_attributes},
  });
}

}  // namespace guest::connections
