// SPDX-License-Identifier: GPL-2.0-or-later
#include "raw.h"

#include <endian.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

namespace guest {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);

// What device and program both access: one access each, neither torn nor cached.
void store(__le32& word, std::uint32_t value) {
  std::atomic_ref<__le32>(word).store(htole32(value), std::memory_order_release);
}

std::uint32_t load(__le32& word) {
  return le32toh(std::atomic_ref<__le32>(word).load(std::memory_order_acquire));
}

void doorbell(void* page, std::uint32_t command, std::uint32_t number) {
  *static_cast<volatile std::uint32_t*>(page) = htole32(command << 28 | number);
}

tern_sge raw_sge(const ibv_sge& sge) {
  return {.addr = htole64(sge.addr), .length = htole32(sge.length), .lkey = htole32(sge.lkey)};
}

void write_recv(const terndv_queue& queue, std::uint64_t wr_id, std::span<const ibv_sge> sges) {
  auto* const header = new (terndv_wqe_slot(&queue, queue.pi)) tern_rq_hdr{};
  header->num_sge = static_cast<std::uint8_t>(sges.size());
  header->wr_id = htole64(wr_id);
  auto* const data = reinterpret_cast<tern_sge*>(header + 1);
  for (std::size_t i = 0; i < sges.size(); i++) data[i] = raw_sge(sges[i]);
}

}  // namespace

// ---- work ----

void RawWqe::append_sges(std::span<const ibv_sge> sges) {
  header->num_sge = static_cast<std::uint8_t>(sges.size());
  for (const ibv_sge& sge : sges) append<tern_sge>() = raw_sge(sge);
}

void RawWqe::append_inline(std::span<const std::byte> data) {
  header->flags |= TERN_WQE_F_INLINE;
  header->length = htole32(static_cast<std::uint32_t>(data.size()));
  std::memcpy(end, data.data(), data.size());
  end += data.size();
}

RawQp::RawQp(ibv_qp* qp) : qpn_(qp->qp_num) {
  terndv_obj obj{};
  obj.qp = {.in = qp, .out = &dv_};
  require_err(terndv_init_obj(&obj, TERNDV_OBJ_QP), 0, "terndv_init_obj of a QP");
}

RawWqe RawQp::next(std::uint8_t opcode, std::uint64_t wr_id) {
  auto* const slot = static_cast<std::uint8_t*>(terndv_wqe_slot(&dv_.sq, dv_.sq.pi));
  auto* const header = new (slot) tern_sq_hdr{};
  header->opcode = opcode;
  header->flags = TERN_WQE_F_SIGNALED;
  header->wr_id = htole64(wr_id);
  return {.header = header, .end = slot + sizeof(*header)};
}

void RawQp::post() {
  // The index is stored after the WQE, and the status is read after the index was stored.
  store(dv_.record->sq_pi, ++dv_.sq.pi);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!(load(dv_.record->status) & TERN_QP_ST_SQ_POLLED)) ring(TERN_DB_CMD_SQ);
}

void RawQp::post_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) {
  write_recv(dv_.rq, wr_id, sges);
  store(dv_.record->rq_pi, ++dv_.rq.pi);
  if (load(dv_.record->status) & TERN_QP_ST_RQ_KICK) ring(TERN_DB_CMD_RQ);
}

void RawQp::ring(std::uint32_t command) const { doorbell(dv_.doorbell, command, qpn_); }

RawSrq::RawSrq(ibv_srq* srq) {
  terndv_obj obj{};
  obj.srq = {.in = srq, .out = &dv_};
  require_err(terndv_init_obj(&obj, TERNDV_OBJ_SRQ), 0, "terndv_init_obj of an SRQ");
}

bool RawSrq::has_room() const { return dv_.rq.pi - load(dv_.record->ci) < dv_.rq.wqe_cnt; }

void RawSrq::post_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) {
  write_recv(dv_.rq, wr_id, sges);
  store(dv_.record->pi, ++dv_.rq.pi);
}

// ---- completions ----

RawCq::RawCq(ibv_cq* cq) {
  terndv_obj obj{};
  obj.cq = {.in = cq, .out = &dv_};
  require_err(terndv_init_obj(&obj, TERNDV_OBJ_CQ), 0, "terndv_init_obj of a CQ");
}

bool RawCq::ready(std::uint32_t number) const {
  return (load(terndv_cqe_slot(&dv_, number)->phase) & TERN_CQE_PHASE) ==
         terndv_cqe_phase(&dv_, number);
}

std::optional<tern_cqe> RawCq::poll() {
  if (!ready(dv_.ci)) return {};
  const tern_cqe cqe = *terndv_cqe_slot(&dv_, dv_.ci);
  store(dv_.record->ci, ++dv_.ci);
  return cqe;
}

tern_cqe RawCq::wait() {
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  while (std::chrono::steady_clock::now() < end) {
    if (const auto cqe = poll()) return *cqe;
  }
  fail("no completion");
}

void RawCq::arm() {
  store(dv_.record->arm, TERN_CQ_ARM_VALID | (dv_.ci & 0xffffff) | (dv_.arm_seq & 3) << 28);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // A CQE that no event reported may be there already.
  const std::uint32_t reported = load(dv_.record->reported);
  const bool late = static_cast<std::int32_t>(reported - dv_.ci) > 0;
  if (ready(late ? reported : dv_.ci)) doorbell(dv_.doorbell, TERN_DB_CMD_CQ_ARM, dv_.cqn);
}

}  // namespace guest
