// SPDX-License-Identifier: GPL-2.0-or-later
// Requests of every type with device memory as source, destination or both.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "device_memory.h"

namespace guest::device_memory {
namespace {

struct Named {
  ibv_qp_type type;
  const char* name;
};
constexpr Named kNamed[] = {
    {IBV_QPT_RC, "rc"}, {IBV_QPT_UC, "uc"}, {IBV_QPT_UD, "ud"}, {IBV_QPT_XRC_SEND, "xrc"}};

struct Op {
  ibv_wr_opcode opcode;
  const char* name;
};
constexpr Op kOps[] = {{IBV_WR_SEND, "send"},
                       {IBV_WR_SEND_WITH_IMM, "send-imm"},
                       {IBV_WR_RDMA_WRITE, "write"},
                       {IBV_WR_RDMA_WRITE_WITH_IMM, "write-imm"},
                       {IBV_WR_RDMA_READ, "read"}};
constexpr Op kAtomics[] = {{IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch-add"},
                           {IBV_WR_ATOMIC_CMP_AND_SWP, "compare-swap"}};

bool allows(ibv_qp_type type, ibv_wr_opcode opcode) {
  if (type == IBV_QPT_UD) return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
  return type != IBV_QPT_UC || opcode != IBV_WR_RDMA_READ;
}

// Posts a receive for payload to this range.
void receive(const Pair& pair, std::uint64_t wr_id, Range there) {
  there.offset -= pair.local.header();
  there.length += pair.local.header();
  pair.remote.post_recv(wr_id, there);
}

// One request of `length` bytes. Checks all of both memories afterwards, the bytes around the data
// too.
void transfer(const Pair& pair, const Op& op, const Range& here, const Range& there, Api api,
              std::uint64_t seed, unsigned flags = 0) {
  const bool read = op.opcode == IBV_WR_RDMA_READ;
  const Patch near{.offset = here.offset, .length = here.length, .seed = seed};
  Patch far{.offset = there.offset, .length = there.length, .seed = seed};
  const Space& space = pair.local.space(here.kind);
  space.paint(1000 + seed, read ? Patches{} : Patches(&near, 1));
  pair.remote.paint(there.kind, 2000 + seed, read ? Patches(&far, 1) : Patches{});
  if (needs_recv(op.opcode)) receive(pair, seed, there);
  Send send = pair.request(op.opcode, here, there);
  send.wr_id = ~seed;
  send.imm = 0x1badcafe;
  send.flags |= flags;
  if ((flags & IBV_SEND_INLINE) != 0) send.sges[0].lkey = 0;
  pair.run(send, api);
  if (needs_recv(op.opcode)) {
    const ibv_wc wc = pair.expect_recv(seed);
    far.ahead = pair.local.header();
    require(wc.byte_len == there.length + far.ahead, "receive of {} bytes", wc.byte_len);
    require(op.opcode == IBV_WR_SEND || wc.imm_data == htonl(send.imm), "another immediate");
  }
  space.check(1000 + seed, {&near, 1});
  pair.remote.check(there.kind, 2000 + seed, {&far, 1});
}

// Lengths around words, cache lines, packets and pages, each at a different offset.
void transfers(const Env& env, const Named& type, const Op& op, Kind here, Kind there) {
  constexpr std::uint32_t kLengths[] = {1,  3,    4,    5,    8,    63,   64,
                                        65, 1023, 1024, 4095, 4096, 4097, 12345};
  const Pair pair(env.dev, env.link, both({.type = type.type}));
  std::uint64_t i = 0;
  for (const std::uint32_t n : kLengths) {
    if (type.type == IBV_QPT_UD && n > 128U << env.dev.active_mtu()) break;
    i++;
    transfer(pair, op, {.offset = 128 + i * 7 % 61, .length = n, .kind = here},
             {.offset = 4096 - 64 + i * 13 % 67, .length = n, .kind = there}, env.dev.api(i), i);
  }
}

void atomics(const Env& env, const Named& type, const Op& op, Kind here, Kind there) {
  need_atomics(env.dev);
  const Pair pair(env.dev, env.link, both({.type = type.type}));
  for (std::uint64_t i = 0; i < 12; i++) {
    const std::uint64_t at = i * 8 + (i % 3) * 4096;
    const std::uint64_t was = 0xfffffffffffffff0U + i * 3;
    const bool add = op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const bool hits = i % 2 == 0;
    // The returned value may go to any address.
    const Range result{.offset = 500 + i, .length = 8, .kind = here};
    const Patch before{.offset = at, .length = 8, .seed = was, .number = true};
    pair.local.space(here).paint(100 + i);
    pair.remote.paint(there, 200 + i, {&before, 1});
    Send send = pair.request(op.opcode, result, {.offset = at, .length = 8, .kind = there});
    send.compare_add = add ? 0x1111 * (i + 1) : hits ? was : was + 1;
    send.swap = 0x0102030405060708U + i;
    pair.run(send, env.dev.api(i / 2));
    Patch now = before;
    now.seed = add ? was + send.compare_add : hits ? send.swap : was;
    const Patch answer{.offset = result.offset, .length = 8, .seed = was, .number = true};
    pair.local.space(here).check(100 + i, {&answer, 1});
    pair.remote.check(there, 200 + i, {&now, 1});
  }
}

// Batches of FETCH_AND_ADD on one word: each fetches the next value, and none is lost.
void many_additions(const Env& env) {
  need_atomics(env.dev);
  const Pair pair(env.dev, env.link, both({}));
  pair.remote.paint(Kind::kDevice, 5, {});
  const Patch zero{.offset = 64, .length = 8, .number = true};
  pair.remote.paint(Kind::kDevice, 5, {&zero, 1});
  const Range there{.offset = 64, .length = 8, .kind = Kind::kDevice};
  constexpr std::uint64_t kRounds = 64;
  constexpr std::uint64_t kBatch = 8;
  for (std::uint64_t i = 0; i < kRounds; i++) {
    std::vector<Send> sends;
    for (std::uint64_t n = 0; n < kBatch; n++) {
      sends.push_back(pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD,
                                   {.offset = 8 * n, .length = 8, .kind = Kind::kDevice}, there));
      sends.back().compare_add = 1;
    }
    require_err(post(pair.local.qp(), Api::kPost, sends), 0, "ibv_post_send");
    for (const ibv_wc& wc : poll(pair.local.send_cq(), kBatch)) {
      require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
    }
    const auto bytes = dm_read(pair.local.space(Kind::kDevice).dm(), 0, 8 * kBatch);
    for (std::uint64_t n = 0; n < kBatch; n++) {
      std::uint64_t got = 0;
      std::memcpy(&got, &bytes[8 * n], sizeof(got));
      require(got == i * kBatch + n, "addition {} fetched {}", i * kBatch + n, got);
    }
  }
  const Patch sum{.offset = 64, .length = 8, .seed = kRounds * kBatch, .number = true};
  pair.remote.check(Kind::kDevice, 5, {&sum, 1});
}

// Inline data comes from the CPU and goes to both kinds of memory.
void inline_data(const Env& env, const Named& type) {
  const Pair pair(env.dev, env.link, both({.type = type.type}));
  const std::uint32_t most = pair.local.cap().max_inline_data;
  if (most == 0) skip("max_inline_data is 0");
  std::uint64_t i = 0;
  for (const Op& op : kOps) {
    if (op.opcode == IBV_WR_RDMA_READ || !allows(type.type, op.opcode)) continue;
    for (const std::uint32_t n : {1U, 4U, std::min(17U, most), most}) {
      i++;
      transfer(pair, op, {.offset = i * 3, .length = n, .kind = Kind::kHost},
               {.offset = 100 + i, .length = n, .kind = Kind::kDevice}, env.dev.api(i), i,
               IBV_SEND_INLINE);
    }
  }
}

// One message is gathered from both kinds of memory and scattered to both.
void mixed_pieces(const Env& env) {
  const Pair pair(env.dev, env.link, both({}));
  constexpr std::array<std::uint32_t, 4> kLength{100, 5001, 37, 3000};
  std::array<Range, 4> here;
  std::array<Range, 4> there;
  std::array<std::vector<Patch>, 2> near;
  std::array<std::vector<Patch>, 2> far;
  for (std::size_t i = 0; i < 4; i++) {
    here[i] = {.offset = 10000 * i + 3, .length = kLength[i], .kind = kKinds[i % 2]};
    there[i] = {.offset = 40001 - 10000 * i, .length = kLength[i], .kind = kKinds[(i + 1) / 2 % 2]};
    near[i % 2].push_back({.offset = here[i].offset, .length = kLength[i], .seed = 30 + i});
    far[(i + 1) / 2 % 2].push_back(
        {.offset = there[i].offset, .length = kLength[i], .seed = 30 + i});
  }
  for (const Api api : env.dev.apis()) {
    for (const Kind kind : kKinds) {
      pair.local.space(kind).paint(11, near[static_cast<std::size_t>(kind)]);
      pair.remote.paint(kind, 12);
    }
    pair.remote.post_recv(9, there);
    pair.run(pair.request(IBV_WR_SEND, here, {}), api);
    require(pair.expect_recv(9).byte_len == 8138, "a receive of another length");
    for (const Kind kind : kKinds) {
      pair.local.space(kind).check(11, near[static_cast<std::size_t>(kind)]);
      pair.remote.check(kind, 12, far[static_cast<std::size_t>(kind)]);
    }
  }
}

void srq(const Env& env) {
  PairOptions options = both({});
  options.remote.srq = true;
  const Pair pair(env.dev, env.link, options);
  std::uint64_t i = 0;
  for (const std::uint32_t n : {1U, 64U, 4096U, 9000U}) {
    i++;
    transfer(pair, kOps[0], {.offset = i, .length = n, .kind = Kind::kDevice},
             {.offset = 1000 + i, .length = n, .kind = Kind::kDevice}, Api::kPost, i);
  }
}

// Messages of at least 512 packets.
void large(const Env& env) {
  constexpr std::uint32_t kLength = 2 << 20;
  const Pair pair(env.dev, env.link, both({.length = kLength + 4096}));
  for (const Op& op : {kOps[0], kOps[2], kOps[4]}) {
    for (const Kind here : kKinds) {
      transfer(pair, op, {.offset = 1023, .length = kLength, .kind = here},
               {.offset = 77, .length = kLength, .kind = Kind::kDevice}, Api::kPost, 3);
    }
  }
}

}  // namespace

namespace {

void add_type(Rules& rules, const Named& type, Kind here, Kind there) {
  const std::string names =
      std::string("-") + kind_name(here) + "-here-" + kind_name(there) + "-there";
  const std::string says = std::string(" from ") + kind_name(here) + " memory here to " +
                           kind_name(there) + " memory there: exactly the addressed bytes";
  for (const Op& op : kOps) {
    if (!allows(type.type, op.opcode)) continue;
    rules.push_back({.name = std::string(type.name) + "-" + op.name + names,
                     .says = std::string(type.name) + " " + op.name + says,
                     .run = [&type, &op, here, there](const Env& env) {
                       transfers(env, type, op, here, there);
                     }});
  }
  if (!is_reliable(type.type)) return;
  for (const Op& op : kAtomics) {
    rules.push_back({.name = std::string(type.name) + "-" + op.name + names,
                     .says = std::string(type.name) + " " + op.name + says,
                     .run = [&type, &op, here, there](const Env& env) {
                       atomics(env, type, op, here, there);
                     }});
  }
}

}  // namespace

Rules data() {
  Rules rules;
  for (const Named& type : kNamed) {
    add_type(rules, type, Kind::kHost, Kind::kDevice);
    add_type(rules, type, Kind::kDevice, Kind::kHost);
    add_type(rules, type, Kind::kDevice, Kind::kDevice);
    rules.push_back({.name = std::string(type.name) + "-inline-to-device",
                     .says = std::string(type.name) + " inline data reaches device memory",
                     .run = [&type](const Env& env) { inline_data(env, type); }});
  }
  rules.push_back(
      {"rc-many-additions", "of FETCH_AND_ADDs on one word none is lost", many_additions});
  rules.push_back({"rc-mixed-pieces",
                   "a message may mix pieces of both kinds of memory at both ends", mixed_pieces});
  rules.push_back({"rc-srq-to-device", "a receive of an SRQ may be in device memory", srq});
  rules.push_back({"rc-large", "messages of 2 MiB from, to and between device memory", large});
  return rules;
}

}  // namespace guest::device_memory
