// SPDX-License-Identifier: GPL-2.0-or-later
#include "flow.h"

#include <arpa/inet.h>

#include <array>
#include <cstring>

#include "pair.h"

namespace guest {

namespace {

constexpr int kBatch = 16;

// Like require(), with the flow's number in the failure.
template <typename... Args>
void require_of(const Flow& flow, bool condition, std::format_string<Args...> text,
                Args&&... args) {
  if (!condition) fail("flow {}: {}", flow.id, std::format(text, std::forward<Args>(args)...));
}

void require_success(const Flow& flow, const ibv_wc& wc) {
  require_of(flow, wc.status == IBV_WC_SUCCESS, "wr_id {}: {}", wc.wr_id,
             ibv_wc_status_str(wc.status));
}

// Polls a batch of completions and calls `each` for them. Returns whether there were any.
template <typename Each>
bool drain(ibv_cq* cq, Each each) {
  std::array<ibv_wc, kBatch> wcs{};
  const int n = ibv_poll_cq(cq, kBatch, wcs.data());
  require(n >= 0, "ibv_poll_cq: {}", n);
  for (int i = 0; i < n; i++) each(wcs[static_cast<std::size_t>(i)]);
  return n > 0;
}

}  // namespace

// ---- requester ----

Asker::Asker(const Flow& flow, const End& session, const Introduction& other)
    : flow_(flow), session_(session), other_(other) {
  if (flow_.type != IBV_QPT_UD) return;
  ah_ = create_ah(session.device(), other.endpoint.gid);
}

std::span<std::byte> Asker::slot(const Message& m) const {
  return session_.memory().bytes().subspan(ask_slot(m.number), m.length + kGuard);
}

void Asker::prepare(std::uint64_t round) {
  messages_.clear();
  sends_.clear();
  originals_.clear();
  completed_ = 0;
  for (std::uint64_t i = 0; i < kRound; i++) {
    prepare_one(messages_.emplace_back(message(flow_, round * kRound + i)));
  }
}

void Asker::prepare_one(const Message& m) {
  write_blank(slot(m), flow_, m);
  if (m.opcode != IBV_WR_RDMA_READ && !is_atomic(m.opcode)) {
    write_content(slot(m).first(m.length), flow_, m);
  }
  Send& send = sends_.emplace_back();
  send.opcode = m.opcode;
  send.wr_id = m.number;
  send.sges.assign(1, session_.sge({ask_slot(m.number), m.length}));
  send.raddr = other_.address + (is_atomic(m.opcode) ? kWordAt : asked_slot(m.number));
  send.rkey = other_.rkey;
  send.imm = static_cast<std::uint32_t>(m.number);
  send.srqn = other_.endpoint.srqn;
  send.ah = ah_.get();
  send.remote_qpn = other_.endpoint.qpn;
  send.remote_qkey = kQkey;
  const bool swap = m.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  send.compare_add = swap ? (m.swaps ? word_ : ~word_) : m.operand;
  send.swap = m.operand;
  originals_.push_back(word_);
  word_ = after(m, word_);
}

void Asker::post() const {
  const int err = guest::post(session_.qp(), Api::kPost, sends_);
  require_of(flow_, err == 0, "ibv_post_send: {}", errno_name(err));
}

bool Asker::poll() {
  return drain(session_.send_cq(), [this](const ibv_wc& wc) {
    require_success(flow_, wc);
    require_of(flow_, completed_ < kRound, "one completion too many");
    const std::uint64_t number = messages_[completed_].number;
    require_of(flow_, wc.wr_id == number, "{} completes, not {}", wc.wr_id, number);
    completed_++;
  });
}

void Asker::verify() const {
  for (std::size_t i = 0; i < messages_.size(); i++) {
    const Message& m = messages_[i];
    const auto all = slot(m);
    require_of(flow_, is_blank_after(all, flow_, m), "message {}: bytes after it", m.number);
    if (is_atomic(m.opcode)) {
      std::uint64_t got = 0;
      std::memcpy(&got, all.data(), sizeof(got));
      require_of(flow_, got == originals_[i], "atomic {} answers {:#x}, not {:#x}", m.number, got,
                 originals_[i]);
    } else {
      require_of(flow_, is_content(all.first(m.length), flow_, m), "message {}: wrong bytes here",
                 m.number);
    }
  }
}

// ---- responder ----

std::span<std::byte> Asked::bytes(std::uint64_t offset, std::uint64_t length) const {
  return session_.memory().bytes().subspan(offset, length);
}

std::span<std::byte> Asked::guarded(const Message& m) const {
  return bytes(asked_slot(m.number), m.length + kGuard);
}

void Asked::post(std::uint64_t wr_id, std::uint64_t offset, std::uint32_t length) const {
  const ibv_sge sge = session_.memory().sge(offset, length);
  const int err = session_.try_recv(wr_id, {&sge, 1});
  require_of(flow_, err == 0, "a receive request: {}", errno_name(err));
}

void AskedReliably::prepare(std::uint64_t round) {
  expected_.clear();
  posted_ = received_ = 0;
  for (std::uint64_t i = 0; i < kRound; i++) {
    const std::uint64_t number = round * kRound + i;
    const Message m = message(flow_, number);
    // No duplicate may have been written to the slot of the message two rounds ago.
    if (number >= kSlots) {
      const Message before = message(flow_, number - kSlots);
      require_of(flow_, is_atomic(before.opcode) || is_blank(guarded(before), flow_, before),
                 "message {} came again", before.number);
    }
    write_blank(guarded(m), flow_, m);
    if (m.opcode == IBV_WR_RDMA_READ) write_content(guarded(m).first(m.length), flow_, m);
    if (needs_recv(m.opcode)) expected_.push_back(m);
    word_ = after(m, word_);
  }
  // The last receives are posted late, so that their senders may get an RNR NAK.
  constexpr std::size_t kLate = 4;
  post_up_to(expected_.size() > kLate ? expected_.size() - kLate : 1);
}

void AskedReliably::post_up_to(std::size_t count) {
  for (; posted_ < count && posted_ < expected_.size(); posted_++) {
    const Message& m = expected_[posted_];
    const bool send = m.opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
    Asked::post(m.number, asked_slot(m.number), send ? m.length : 0);
  }
}

void AskedReliably::check_one(const Message& m, const ibv_wc& wc) const {
  require_success(flow_, wc);
  require_of(flow_, wc.wr_id == m.number, "{} is received, not {}", wc.wr_id, m.number);
  require_of(flow_, wc.byte_len == m.length, "message {} of {} bytes, not {}", m.number,
             wc.byte_len, m.length);
  require_of(flow_,
             !has_imm(m.opcode) ||
                 ((wc.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(wc.imm_data) == m.number),
             "message {} with another immediate", m.number);
  require_of(flow_,
             wc.opcode ==
                 (m.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV),
             "message {} as opcode {}", m.number, static_cast<int>(wc.opcode));
}

bool AskedReliably::poll() {
  return drain(session_.recv_cq(), [this](const ibv_wc& wc) {
    require_of(flow_, received_ < posted_, "wr_id {} is received once too often", wc.wr_id);
    check_one(expected_[received_], wc);
    received_++;
    post_up_to(expected_.size());
  });
}

// After verifying a message, makes its slot blank again, so that a duplicate will be noticed.
void AskedReliably::verify(std::uint64_t round) {
  for (std::uint64_t i = 0; i < kRound; i++) {
    const Message m = message(flow_, round * kRound + i);
    arrived_++;
    if (is_atomic(m.opcode)) continue;
    const auto all = guarded(m);
    require_of(flow_, is_content(all.first(m.length), flow_, m), "message {}: wrong bytes there",
               m.number);
    require_of(flow_, is_blank_after(all, flow_, m), "message {}: bytes after it", m.number);
    write_blank(all, flow_, m);
  }
  require_of(flow_, session_.memory().load64(kWordAt) == word_, "the word is {:#x}, not {:#x}",
             session_.memory().load64(kWordAt), word_);
}

void AskedReliably::finish(std::uint64_t rounds) {
  const std::uint64_t end = rounds * kRound;
  for (std::uint64_t number = end > kSlots ? end - kSlots : 0; number < end; number++) {
    const Message m = message(flow_, number);
    require_of(flow_, is_atomic(m.opcode) || is_blank(guarded(m), flow_, m),
               "message {} came again", m.number);
  }
}

void AskedUnreliably::prepare(std::uint64_t round) {
  if (round == 0) {
    for (std::uint64_t i = 0; i < kSlots; i++) Asked::post(i, kBuffersAt + i * kSlot, kSlot);
  }
  for (std::uint64_t i = 0; i < kRound; i++) {
    const Message m = message(flow_, round * kRound + i);
    write_blank(guarded(m), flow_, m);
  }
  sent_ = (round + 1) * kRound;
}

void AskedUnreliably::check_one(const ibv_wc& wc) {
  require_success(flow_, wc);
  const std::uint32_t grh = flow_.type == IBV_QPT_UD ? kGrh : 0;
  const std::uint64_t at = kBuffersAt + wc.wr_id * kSlot;
  const bool write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  const bool imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  const std::uint64_t number = imm ? ntohl(wc.imm_data) : session_.memory().load64(at + grh);
  require_of(flow_, number < sent_, "message {} was never sent", number);
  const Message m = message(flow_, number);
  require_of(flow_, has_imm(m.opcode) == imm && write == (m.opcode == IBV_WR_RDMA_WRITE_WITH_IMM),
             "message {} as opcode {}", number, static_cast<int>(wc.opcode));
  require_of(flow_, wc.byte_len == m.length + grh, "message {} of {} bytes, not {}", number,
             wc.byte_len, m.length + grh);
  const auto in = write ? guarded(m).first(m.length) : bytes(at + grh, m.length);
  require_of(flow_, is_content(in, flow_, m), "message {}: wrong bytes", number);
  if (in_order_) {
    require_of(flow_, !last_ || number > *last_, "message {} after {}", number, last_.value_or(0));
  }
  last_ = number;
  arrived_++;
  Asked::post(wc.wr_id, at, kSlot);
}

bool AskedUnreliably::poll() {
  return drain(session_.recv_cq(), [this](const ibv_wc& wc) { check_one(wc); });
}

void AskedUnreliably::verify(std::uint64_t round) {
  for (std::uint64_t i = 0; i < kRound; i++) {
    const Message m = message(flow_, round * kRound + i);
    const bool write = m.opcode == IBV_WR_RDMA_WRITE || m.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    require_of(flow_, write ? is_beginning(guarded(m), flow_, m) : is_blank(guarded(m), flow_, m),
               "WRITE {} left something else than its beginning", m.number);
  }
}

}  // namespace guest
