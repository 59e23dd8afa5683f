// SPDX-License-Identifier: GPL-2.0-or-later
#include "testing/driver.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "testing/admin_queue.h"

namespace tern::test {

bool wait_until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

Driver::Driver(unsigned id)
    : id_(id), mac_{0x52,
                    0x54,
                    0x00,
                    0x77,
                    static_cast<std::uint8_t>(id >> 8),
                    static_cast<std::uint8_t>(id)} {}

Driver::~Driver() = default;

bool Driver::wait(const std::function<bool()>& done) {
  return wait_until([&] {
    let_run();
    return done();
  });
}

// ---- commands ----

void Driver::start_admin_queue() {
  constexpr std::uint32_t entries = 1U << kLogAdmin;
  if (aq_ == 0) {
    aq_ = alloc(entries * sizeof(tern_aq_entry));
    acq_ = alloc(entries * sizeof(tern_acq_entry));
    in_ = alloc(TERN_CMD_MAX_LEN);
    out_ = alloc(TERN_CMD_MAX_LEN);
    aq_record_.emplace(*this);
  }
  std::memset(at(acq_, entries * sizeof(tern_acq_entry)), 0, entries * sizeof(tern_acq_entry));
  aq_tail_ = acq_ci_ = 0;
  aq_record_->put(offsetof(tern_aq_record, tail), 0);
  aq_record_->put(offsetof(tern_aq_record, status), 0);
  enable_admin_queue(
      aq_, acq_, kLogAdmin,
      [this](std::uint32_t reg, std::uint32_t value) { reg_write(reg, value); },
      aq_record_->address());
}

Status Driver::command(std::uint16_t opcode, std::span<const std::byte> in,
                       std::span<std::byte> out, std::uint16_t version) {
  constexpr std::uint32_t mask = (1U << kLogAdmin) - 1;
  if (!in.empty()) std::memcpy(at(in_, in.size()), in.data(), in.size());
  if (!out.empty()) std::memset(at(out_, out.size()), 0, out.size());
  tern_aq_entry entry = admin_entry(opcode, in.empty() ? 0 : in_, in.size(), out.empty() ? 0 : out_,
                                    out.size(), 0x5a000000U + aq_tail_);
  entry.version = le(version);
  put(aq_ + (aq_tail_ & mask) * sizeof(entry), entry);
  aq_record_->put(offsetof(tern_aq_record, tail), ++aq_tail_);
  if ((aq_record_->get(offsetof(tern_aq_record, status)) & TERN_AQ_ST_POLLED) == 0)
    reg_write(TERN_REG_AQ_TAIL, aq_tail_);

  const std::byte* const slot =
      at(acq_ + (acq_ci_ & mask) * sizeof(tern_acq_entry), sizeof(tern_acq_entry));
  const std::uint32_t want = (acq_ci_ >> kLogAdmin) & 1 ? 0 : 1;
  const auto completed = [&] {
    return (load_word(slot + offsetof(tern_acq_entry, phase)) & TERN_CQE_PHASE) == want;
  };
  if (!wait_command(completed)) {
    ADD_FAILURE() << "command " << opcode << " does not complete; status register "
                  << reg_read(TERN_REG_STATUS);
    return TERN_ST_INTERNAL;
  }
  ++acq_ci_;
  tern_acq_entry done;
  std::memcpy(&done, slot, sizeof(done));
  EXPECT_EQ(le(done.tag), le(entry.tag));
  EXPECT_LE(le(done.out_len), out.size());
  if (!out.empty()) std::memcpy(out.data(), at(out_, out.size()), out.size());
  if (done.status == TERN_ST_OK && out.size() == sizeof(tern_rsp_object)) {
    tern_rsp_object made;
    std::memcpy(&made, out.data(), sizeof(made));
    generations_[{opcode, le(made.id)}] = le(made.generation);
  }
  return le(done.status);
}

std::uint32_t Driver::make(std::uint16_t opcode, std::span<const std::byte> in) {
  return le(query<tern_rsp_object>(opcode, in).id);
}

void Driver::check_generation(const tern_eqe& eqe) const {
  std::uint16_t creator = TERN_CMD_CREATE_QP;
  switch (le(eqe.type)) {
    case TERN_EV_PORT_CHANGE:
      EXPECT_EQ(le(eqe.generation), 0U);
      return;
    case TERN_EV_COMPLETION:
    case TERN_EV_CQ_ERR:
      creator = TERN_CMD_CREATE_CQ;
      break;
    case TERN_EV_SRQ_ERR:
    case TERN_EV_SRQ_LIMIT:
      creator = TERN_CMD_CREATE_SRQ;
      break;
    default:
      break;
  }
  const auto known = generations_.find({creator, le(eqe.id)});
  ASSERT_NE(known, generations_.end()) << "event " << le(eqe.type) << " of " << le(eqe.id);
  EXPECT_EQ(le(eqe.generation), known->second) << "event " << le(eqe.type) << " of " << le(eqe.id);
}

// ---- the port ----

namespace {

bool is_ipv4(std::uint16_t index) { return index == 1 || index == 2; }

}  // namespace

Gid Driver::gid(std::uint16_t index) const {
  const auto last = static_cast<std::uint8_t>(id_);
  const auto net = static_cast<std::uint8_t>(index >= 2 ? 78 : 77);
  if (is_ipv4(index)) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, net, 0, last};
  }
  return {0xfd, net, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, last};
}

void Driver::enable_port(std::uint32_t mtu) {
  tern_cmd_modify_port port{.mask = le(std::uint32_t{TERN_PORT_MTU | TERN_PORT_ENABLE}),
                            .mtu = le(mtu),
                            .enable = 1,
                            .port = 1};
  run(TERN_CMD_MODIFY_PORT, port);
}

void Driver::set_gid(std::uint16_t index) {
  tern_cmd_set_gid cmd{
      .index = le(index),
      .valid = 1,
      .net_type = is_ipv4(index) ? std::uint8_t{TERN_NET_IPV4} : std::uint8_t{TERN_NET_IPV6},
      .vlan = le(index >= 2 ? kVlan : std::uint16_t{TERN_VLAN_NONE}),
      .port = 1};
  std::ranges::copy(mac(), cmd.mac);
  std::ranges::copy(gid(index), cmd.gid);
  run(TERN_CMD_SET_GID, cmd);
}

// ---- objects ----

std::uint32_t Driver::alloc_pd(bool privileged) {
  return make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{le(privileged ? TERN_PD_PRIVILEGED : 0U), 0});
}

TestEq& Driver::create_eq(unsigned log_size, std::uint16_t vector, std::uint8_t kind) {
  TestEq& eq = eqs_.emplace_back(*this, kind, vector, log_size);
  EXPECT_EQ(eq.created(), TERN_ST_OK);
  return eq;
}

TestCq& Driver::create_cq(unsigned log_size, TestEq* on, std::uint8_t flags) {
  TestCq& cq = cqs_.emplace_back(*this, log_size, on ? on : completion_, flags);
  EXPECT_EQ(cq.created(), TERN_ST_OK);
  return cq;
}

TestQp& Driver::create_qp(const QpOptions& options) {
  TestQp& qp = qps_.emplace_back(*this, options);
  EXPECT_EQ(qp.created(), TERN_ST_OK);
  return qp;
}

TestSrq& Driver::create_srq(const SrqOptions& options) {
  TestSrq& srq = srqs_.emplace_back(*this, options);
  EXPECT_EQ(srq.created(), TERN_ST_OK);
  return srq;
}

TestQp* Driver::find_qp(std::uint32_t qpn) {
  // The newest first: numbers are reused.
  const auto it = std::ranges::find_if(qps_.rbegin(), qps_.rend(),
                                       [&](const TestQp& q) { return q.number() == qpn; });
  return it == qps_.rend() ? nullptr : &*it;
}

// ---- regions ----

Status Driver::try_reg(std::uint64_t len, const RegOptions& options, TestMr* mr) {
  const std::uint64_t page = std::uint64_t{1} << options.page_shift;
  const std::uint64_t used =
      std::max<std::uint64_t>(options.alias ? options.alias : options.offset + len, 1);
  const std::uint64_t real = (used + page - 1) / page * page;
  const std::uint64_t num = (options.offset + len + page - 1) / page;
  const std::uint64_t memory = alloc(real, page);
  tern_cmd_create_mr cmd{};
  cmd.pages.kind = options.kind;
  cmd.pages.page_shift = static_cast<std::uint8_t>(options.page_shift);
  cmd.pages.num = le(static_cast<std::uint32_t>(num));
  if (options.kind == TERN_PAGES_DIRECT) {
    cmd.pages.addr = le(memory);
  } else {
    const auto page_at = [&](std::uint64_t i) { return le(memory + i * page % real); };
    const std::uint64_t list = alloc(std::max<std::uint64_t>(num, 1) * 8);
    for (std::uint64_t i = 0; i < num; ++i) put(list + i * 8, page_at(i));
    cmd.pages.addr = le(list);
    if (options.kind == TERN_PAGES_INDIRECT) {
      const std::uint64_t chunks = (num + TERN_PAGES_CHUNK - 1) / TERN_PAGES_CHUNK;
      const std::uint64_t top = alloc(std::max<std::uint64_t>(chunks, 1) * 8);
      for (std::uint64_t i = 0; i < chunks; ++i) {
        put(top + i * 8, le(list + i * TERN_PAGES_CHUNK * 8));
      }
      cmd.pages.addr = le(top);
    }
  }
  *mr = {.memory = at(memory, real) + options.offset,
         .iova = options.iova ? options.iova : memory + options.offset,
         .length = len,
         .dma = memory + options.offset,
         .backed = std::min(len, real - options.offset)};
  cmd.iova = le(mr->iova);
  cmd.length = le(len);
  cmd.offset = le(options.offset);
  cmd.pdn = le(options.pd ? options.pd : pd_);
  cmd.access = le(options.access);
  cmd.kind = TERN_MR_MEMORY;
  const tern_pages pages = cmd.pages;
  // A command reads a limited number of entries: the list of a larger region comes in parts.
  const std::uint64_t part = le(caps_.max_cmd_pages);
  const bool parts = options.kind != TERN_PAGES_DIRECT && num > part;
  if (parts) {
    cmd.flags = TERN_MR_F_INCOMPLETE;
    cmd.pages.kind = TERN_PAGES_LIST;
    cmd.pages.addr = 0;
  }
  Status st = try_make(TERN_CMD_CREATE_MR, cmd, mr->key);
  for (std::uint64_t first = 0; parts && st == TERN_ST_OK && first < num; first += part) {
    tern_cmd_update_pages update{};
    update.pages = pages;
    const std::uint64_t in_chunk = options.kind == TERN_PAGES_INDIRECT ? TERN_PAGES_CHUNK : 1;
    update.pages.addr = le(le(pages.addr) + first / in_chunk * 8);
    update.pages.num = le(static_cast<std::uint32_t>(std::min(part, num - first)));
    update.first = le(first);
    update.key = le(mr->key);
    update.flags = le(first + part >= num ? TERN_UPDATE_LAST : 0U);
    st = command(TERN_CMD_UPDATE_PAGES, update);
  }
  return st;
}

TestMr& Driver::reg(std::uint64_t len, const RegOptions& options) {
  TestMr& mr = mrs_.emplace_back();
  EXPECT_EQ(try_reg(len, options, &mr), TERN_ST_OK);
  return mr;
}

FastMr Driver::alloc_fast(std::uint32_t pages, std::uint32_t pd) {
  FastMr fast;
  fast.mr.length = fast.mr.backed = std::uint64_t{pages} * QueueMemory::kPage;
  fast.mr.iova = fast.mr.dma = alloc(fast.mr.length);
  fast.mr.memory = at(fast.mr.dma, fast.mr.length);
  fast.list = alloc(pages * 8ULL);
  for (std::uint32_t i = 0; i < pages; ++i)
    put(fast.list + i * 8ULL, le(fast.mr.dma + i * QueueMemory::kPage));
  tern_cmd_create_mr cmd{};
  cmd.pages.num = le(pages);
  cmd.pdn = le(pd);
  cmd.kind = TERN_MR_FAST;
  fast.mr.key = make(TERN_CMD_CREATE_MR, cmd);
  return fast;
}

}  // namespace tern::test
