// SPDX-License-Identifier: GPL-2.0-or-later
// Extended CQs: each field of a completion, the batches of a poll, and time stamps.
#include <arpa/inet.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "queues.h"

namespace guest::queues {
namespace {

CqPtr try_create(const Device& dev, std::uint64_t wc_flags, std::uint32_t flags = 0) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.wc_flags = wc_flags;
  if (flags != 0) {
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = flags;
  }
  ibv_cq_ex* const cq = ibv_create_cq_ex(dev.context(), &attr);
  return CqPtr(cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr);
}

ibv_cq_ex* extended(const CqPtr& cq) { return reinterpret_cast<ibv_cq_ex*>(cq.get()); }

// Starts a batch at the next completion.
void start_poll(ibv_cq_ex* cq) {
  constexpr int kMost = 10000;  // ms
  ibv_poll_cq_attr attr{};
  int err = 0;
  for (int ms = 0; (err = ibv_start_poll(cq, &attr)) == ENOENT && ms < kMost; ms++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require_err(err, 0, "ibv_start_poll");
}

constexpr std::uint32_t kLength = 72;
constexpr std::uint32_t kImm = 0x12345678;

// A field, and what it must be in the completion of a receive of kLength bytes with immediate data.
struct Field {
  std::uint64_t flag;
  const char* name;
  void (*check)(ibv_cq_ex* cq, const Pair& pair);
};
constexpr Field kFields[] = {
    {IBV_WC_EX_WITH_BYTE_LEN, "BYTE_LEN",
     [](ibv_cq_ex* cq, const Pair& pair) {
       const std::uint32_t length = kLength + pair.local.header();
       require(ibv_wc_read_byte_len(cq) == length, "byte_len {}", ibv_wc_read_byte_len(cq));
     }},
    {IBV_WC_EX_WITH_IMM, "IMM",
     [](ibv_cq_ex* cq, const Pair&) {
       require(ibv_wc_read_imm_data(cq) == htonl(kImm), "imm_data {:#x}",
               ntohl(ibv_wc_read_imm_data(cq)));
     }},
    {IBV_WC_EX_WITH_QP_NUM, "QP_NUM",
     [](ibv_cq_ex* cq, const Pair& pair) {
       require(ibv_wc_read_qp_num(cq) == pair.remote.endpoint().qpn, "qp_num {:#x}",
               ibv_wc_read_qp_num(cq));
     }},
    {IBV_WC_EX_WITH_SRC_QP, "SRC_QP",
     [](ibv_cq_ex* cq, const Pair& pair) {
       if (pair.local.spec().type != IBV_QPT_UD) return;
       require(ibv_wc_read_src_qp(cq) == pair.local.qp()->qp_num, "src_qp {:#x}",
               ibv_wc_read_src_qp(cq));
     }},
    {IBV_WC_EX_WITH_SLID, "SLID",
     [](ibv_cq_ex* cq, const Pair&) { static_cast<void>(ibv_wc_read_slid(cq)); }},
    {IBV_WC_EX_WITH_SL, "SL",
     [](ibv_cq_ex* cq, const Pair&) {
       require(ibv_wc_read_sl(cq) < 16, "sl {}", ibv_wc_read_sl(cq));
     }},
    {IBV_WC_EX_WITH_DLID_PATH_BITS, "DLID_PATH_BITS",
     [](ibv_cq_ex* cq, const Pair&) { static_cast<void>(ibv_wc_read_dlid_path_bits(cq)); }},
    {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, "COMPLETION_TIMESTAMP",
     [](ibv_cq_ex* cq, const Pair&) {
       require(ibv_wc_read_completion_ts(cq) != 0, "a time stamp of 0");
     }},
    {IBV_WC_EX_WITH_CVLAN, "CVLAN",
     [](ibv_cq_ex* cq, const Pair&) { static_cast<void>(ibv_wc_read_cvlan(cq)); }},
    {IBV_WC_EX_WITH_FLOW_TAG, "FLOW_TAG",
     [](ibv_cq_ex* cq, const Pair&) { static_cast<void>(ibv_wc_read_flow_tag(cq)); }},
    {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, "COMPLETION_TIMESTAMP_WALLCLOCK",
     [](ibv_cq_ex* cq, const Pair&) {
       require(ibv_wc_read_completion_wallclock_ns(cq) != 0, "a wall clock of 0");
     }},
};

void read_field(const Env& env, const Field& field) {
  const CqPtr cq = try_create(env.dev, field.flag);
  if (!cq) skip("no IBV_WC_EX_WITH_{}: {}", field.name, errno_name(errno));
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
    PairOptions options = alike({.type = type});
    options.remote.recv_cq = cq.get();
    const Pair pair(env.dev, options);
    for (std::uint64_t i = 0; i < 4; i++) {
      pair.recv(i, 0, kLength);
      Send send = pair.request(IBV_WR_SEND_WITH_IMM, kLength);
      send.imm = kImm;
      pair.run(send);
      start_poll(extended(cq));
      require(extended(cq)->status == IBV_WC_SUCCESS && extended(cq)->wr_id == i,
              "wr_id {:#x}, status {}", extended(cq)->wr_id,
              ibv_wc_status_str(extended(cq)->status));
      require(ibv_wc_read_opcode(extended(cq)) == IBV_WC_RECV, "opcode {}",
              static_cast<int>(ibv_wc_read_opcode(extended(cq))));
      require((ibv_wc_read_wc_flags(extended(cq)) & IBV_WC_WITH_IMM) != 0, "no IBV_WC_WITH_IMM");
      field.check(extended(cq), pair);
      ibv_end_poll(extended(cq));
    }
  }
}

void unknown_refused(const Env& env) {
  const CqPtr plain = try_create(env.dev, IBV_WC_STANDARD_FLAGS);
  if (!plain) skip("no extended CQ: {}", errno_name(errno));
  CqPtr cq = try_create(env.dev, std::uint64_t{1} << 40);
  require_refused(cq ? 0 : errno, EOPNOTSUPP, "an unknown field");
  cq = try_create(env.dev, 0, 1U << 5);
  usually_refused(cq ? 0 : errno, EOPNOTSUPP, "an unknown flag");
}

// A batch ends when nothing is left, and may end before.
void batches(const Env& env) {
  Rig rig(env.dev, {.wc_flags = IBV_WC_STANDARD_FLAGS});
  ibv_cq_ex* const cq = rig.cq_ex();
  ibv_poll_cq_attr attr{};
  require_err(ibv_start_poll(cq, &attr), ENOENT, "ibv_start_poll of an empty CQ");
  rig.write(9);
  rig.settle();
  start_poll(cq);
  for (std::uint64_t i = 0; i < 4; i++) {
    require(cq->wr_id == i, "wr_id {}, not {}", cq->wr_id, i);
    require_err(ibv_next_poll(cq), 0, "ibv_next_poll");
  }
  ibv_end_poll(cq);  // the fifth is read, too
  start_poll(cq);
  for (std::uint64_t i = 5; i < 10; i++) {
    require(cq->wr_id == i, "wr_id {}, not {}", cq->wr_id, i);
    require_err(ibv_next_poll(cq), i < 9 ? 0 : ENOENT, "ibv_next_poll");
  }
  ibv_end_poll(cq);
  require_err(ibv_start_poll(cq, &attr), ENOENT, "ibv_start_poll of an empty CQ");
  attr.comp_mask = 1U << 7;
  const int err = ibv_start_poll(cq, &attr);
  require(err != 0, "ibv_start_poll with an unknown attribute begins a batch");
}

void without_locks(const Env& env) {
  Rig rig(env.dev, {.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED});
  rig.write(30);
  rig.poll_all(30);
}

void need_clock(const Env& env) {
  if (env.dev.attr_ex().hca_core_clock == 0) skip("hca_core_clock is 0");
}

// Without decreasing, a time stamp lies between two readings of the clock.
void stamps(const Env& env) {
  need_clock(env);
  Rig rig(env.dev, {.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP});
  ibv_cq_ex* const cq = rig.cq_ex();
  std::uint64_t last = 0;
  for (int round = 0; round < 50; round++) {
    const std::uint64_t before = raw_clock(env.dev.context());
    rig.write(10);
    for (int i = 0; i < 10; i++) {
      start_poll(cq);
      const std::uint64_t ts = ibv_wc_read_completion_ts(cq);
      const std::uint64_t after = raw_clock(env.dev.context());
      require(cq->status == IBV_WC_SUCCESS, "status {}", static_cast<int>(cq->status));
      ibv_end_poll(cq);
      require(ts >= before && ts <= after && ts >= last,
              "stamp {}, {} before and {} after, {} the one before", ts, before, after, last);
      last = ts;
    }
  }
}

void clock(const Env& env) {
  need_clock(env);
  ibv_values_ex values{};
  values.comp_mask = 1U << 1;
  usually_refused(ibv_query_rt_values_ex(env.dev.context(), &values), EOPNOTSUPP,
                  "an unknown value");
  std::uint64_t last = raw_clock(env.dev.context());
  for (int i = 0; i < 20000; i++) {
    const std::uint64_t next = raw_clock(env.dev.context());
    require(next >= last, "the clock went from {} to {}", last, next);
    last = next;
  }
}

}  // namespace

Rules fields() {
  Rules rules{
      {"unknown_refused", "ibv_create_cq_ex refuses unknown fields", unknown_refused},
      {"batches", "ibv_start_poll, ibv_next_poll and ibv_end_poll read each completion once",
       batches},
      {"without_locks", "a CQ of one thread works", without_locks},
      {"stamps", "a time stamp lies between two readings of the clock, and none decreases", stamps},
      {"clock", "the clock of ibv_query_rt_values_ex does not decrease", clock},
  };
  for (const Field& field : kFields) {
    rules.push_back({.name = std::format("field_{}", field.name),
                     .says = std::format("an extended CQ gives IBV_WC_EX_WITH_{}", field.name),
                     .run = [&field](const Env& env) { read_field(env, field); }});
  }
  return rules;
}

}  // namespace guest::queues
