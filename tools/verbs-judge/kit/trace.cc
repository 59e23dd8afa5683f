// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace.h"

#include <deque>
#include <mutex>
#include <utility>

namespace guest {
namespace {

struct Line {
  std::string text;
  std::size_t times = 1;
};

// The first lines show what was set up, the last ones what led to the result.
constexpr std::size_t kFirst = 12;
constexpr std::size_t kLast = 27;

std::mutex trace_mutex;
std::vector<Line> first;
std::deque<Line> last;
std::size_t left_out = 0;

}  // namespace

namespace detail {

void add_trace(std::string line) {
  const std::scoped_lock lock(trace_mutex);
  Line* const before = !last.empty() ? &last.back() : !first.empty() ? &first.back() : nullptr;
  if (before != nullptr && before->text == line) {
    before->times++;
  } else if (first.size() < kFirst) {
    first.push_back({std::move(line)});
  } else {
    last.push_back({std::move(line)});
    if (last.size() > kLast) {
      left_out += last.front().times;
      last.pop_front();
    }
  }
}

}  // namespace detail

std::vector<std::string> take_trace() {
  const std::scoped_lock lock(trace_mutex);
  std::vector<std::string> lines;
  const auto add = [&lines](const Line& line) {
    lines.push_back(line.times == 1 ? line.text : std::format("{} x{}", line.text, line.times));
  };
  for (const Line& line : first) add(line);
  if (left_out != 0) lines.push_back(std::format("... {} more", left_out));
  for (const Line& line : last) add(line);
  first.clear();
  last.clear();
  left_out = 0;
  return lines;
}

std::string key_tag(std::uint32_t key) { return std::format("key ..{:04x}", key & 0xffff); }

std::string opcode_name(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return "RDMA_WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "RDMA_WRITE_WITH_IMM";
    case IBV_WR_SEND:
      return "SEND";
    case IBV_WR_SEND_WITH_IMM:
      return "SEND_WITH_IMM";
    case IBV_WR_RDMA_READ:
      return "RDMA_READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "ATOMIC_CMP_AND_SWP";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "ATOMIC_FETCH_AND_ADD";
    case IBV_WR_LOCAL_INV:
      return "LOCAL_INV";
    case IBV_WR_BIND_MW:
      return "BIND_MW";
    case IBV_WR_SEND_WITH_INV:
      return "SEND_WITH_INV";
    case IBV_WR_TSO:
      return "TSO";
    case IBV_WR_FLUSH:
      return "FLUSH";
    case IBV_WR_ATOMIC_WRITE:
      return "ATOMIC_WRITE";
    default:
      return std::format("opcode {}", static_cast<int>(opcode));
  }
}

std::string access_text(unsigned access) {
  struct Bit {
    unsigned bit;
    const char* name;
  };
  static constexpr Bit kBits[] = {
      {IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"}, {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
      {IBV_ACCESS_REMOTE_READ, "REMOTE_READ"}, {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
      {IBV_ACCESS_MW_BIND, "MW_BIND"},         {IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
      {IBV_ACCESS_ON_DEMAND, "ON_DEMAND"}};
  std::string text;
  for (const Bit& b : kBits) {
    if ((access & b.bit) == 0) continue;
    text += (text.empty() ? "" : "|") + std::string(b.name);
    access &= ~b.bit;
  }
  if (access != 0) text += std::format("{}{:#x}", text.empty() ? "" : "|", access);
  return text.empty() ? "no access" : text;
}

const char* state_name(ibv_qp_state state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto i = static_cast<std::size_t>(state);
  return i < std::size(kNames) ? kNames[i] : "an unknown state";
}

void detail::trace_completions(std::span<const ibv_wc> wcs) {
  for (const ibv_wc& wc : wcs) {
    if (wc.status == IBV_WC_SUCCESS) {
      trace("QP {:#x} completes {:#x}: success, opcode {}, byte_len {}, wc_flags {:#x}", wc.qp_num,
            wc.wr_id, static_cast<int>(wc.opcode), wc.byte_len, wc.wc_flags);
    } else {
      trace("QP {:#x} completes {:#x}: {}", wc.qp_num, wc.wr_id, ibv_wc_status_str(wc.status));
    }
  }
}

}  // namespace guest
