// SPDX-License-Identifier: GPL-2.0-or-later
// The end of a burst: waits for completions, and compares them and the memory with the model.
#include <algorithm>
#include <chrono>
#include <format>
#include <thread>

#include "random.h"
#include "run.h"

namespace guest::generator {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kHang{20};
constexpr std::chrono::milliseconds kLoss{200};  // a datagram that has not arrived is lost
constexpr std::chrono::milliseconds kPause{50};  // for the other end's report of an error

// Waits until `done`. Returns false after `limit`.
template <typename Done, typename Work>
bool wait(Clock::duration limit, const Done& done, const Work& work) {
  const auto end = Clock::now() + limit;
  for (unsigned spins = 0;; spins++) {
    work();
    if (done()) return true;
    if (Clock::now() > end) return false;
    if (spins > 200) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

void Runner::close(std::size_t slot) {
  if (burst_.closed.at(slot)) return;
  burst_.closed.at(slot) = true;
  const bool xrc = book_->conn(slot).type == kXrc;
  for (int end = 0; end < kEnds; end++) {
    const int err = side(end).modify(slot, IBV_QPS_ERR);
    if (err != 0 && !xrc) violation("verb", std::format("to ERR: {}", errno_name(err)));
  }
}

void Runner::take_completions() {
  std::vector<Completion> got = side(0).poll();
  std::ranges::move(side(1).poll(), std::back_inserter(got));
  if (sabotage != Sabotage::kNone && !got.empty()) falsify(got);
  for (const Completion& c : got) take(c);
}

void Runner::take(const Completion& got) {
  Armed& armed = armed_.at(static_cast<std::size_t>(got.end)).at(got.cq);
  if (armed.on) armed.hits++;
  if (take_request(got) || take_receive(got)) return;
  violation("unexpected", std::format("a completion of wr_id {:#x} with {}, which nobody expects",
                                      got.wc.wr_id, ibv_wc_status_str(got.wc.status)));
}

bool Runner::take_request(const Completion& got) {
  for (std::size_t i = 0; i < burst_.ops.size(); i++) {
    Op& op = burst_.ops[i];
    const Request& r = op.request;
    if (r.id != got.wc.wr_id || r.end != got.end || op.seen) continue;
    for (std::size_t k = i + 1; k < burst_.ops.size(); k++) {
      const Request& later = burst_.ops[k].request;
      if (burst_.ops[k].seen && later.end == r.end && later.conn == r.conn) {
        violation("order", "requests of one queue complete in another order");
      }
    }
    if (op.silent && got.wc.status == IBV_WC_SUCCESS) {
      violation("unexpected", "an unsignaled request completes");
    }
    if (got.cq != r.conn % 2) violation("fields", "a request completes into another CQ");
    if (got.wc.qp_num != numbers_.at(r.conn).at(static_cast<std::size_t>(r.end)).qpn) {
      violation("fields", "a completion names another QP");
    }
    if (got.wc.status == IBV_WC_SUCCESS && got.wc.opcode != wc_opcode(r.verb)) {
      violation("fields", std::format("{} completes with opcode {}", name_of(r.verb),
                                      static_cast<int>(got.wc.opcode)));
    }
    if (got.wc.status == IBV_WC_SUCCESS && r.verb == Verb::kRead && got.wc.byte_len != r.length) {
      violation("fields",
                std::format("a READ of {} completes with byte_len {}", r.length, got.wc.byte_len));
    }
    op.seen = true;
    op.wc = got.wc;
    return true;
  }
  return false;
}

bool Runner::take_receive(const Completion& got) {
  const auto end = static_cast<std::size_t>(got.end);
  for (std::size_t slot = 0; slot < kConns; slot++) {
    Conn& c = book_->conn(slot);
    if (!c.up || got.wc.qp_num != numbers_.at(slot).at(end).qpn) continue;
    const auto& receives = book_->receives(slot, got.end);
    auto& arrivals = burst_.arrivals.at(slot).at(end);
    const auto at = std::ranges::find(receives, got.wc.wr_id, &Receive::id);
    if (at == receives.end() ||
        std::ranges::find(arrivals, got.wc.wr_id, &ibv_wc::wr_id) != arrivals.end()) {
      return false;
    }
    const bool fifo = !c.srq && c.type != kXrc;
    if (fifo && static_cast<std::size_t>(at - receives.begin()) != arrivals.size()) {
      violation("order", "receives of one queue complete in another order");
    }
    if (fifo && got.cq != slot % 2) violation("fields", "a receive completes into another CQ");
    arrivals.push_back(got.wc);
    return true;
  }
  return false;
}

// The last request of each queue has a completion, or the queue has failed and so has it.
bool Runner::requests_done() const {
  return std::ranges::all_of(burst_.ops, [this](const Op& op) { return op.seen || op.silent; });
}

// An error leaves no request under way, since the program closes the connection.
void Runner::wait_for_requests() {
  const auto close_failed = [this] {
    take_completions();
    for (const Op& op : burst_.ops) {
      const Request& r = op.request;
      if (op.status() == IBV_WC_SUCCESS || burst_.closed.at(r.conn)) continue;
      if (!book_->conn(r.conn).reliable()) continue;
      // The receive that reports the error comes first, if the program lets it.
      if (takes_receive(r.verb)) {
        const auto end = static_cast<std::size_t>(1 - r.end);
        wait(
            timeout_factor * kPause, [&] { return !burst_.arrivals.at(r.conn).at(end).empty(); },
            [this] { take_completions(); });
      }
      close(r.conn);
    }
  };
  if (!wait(kHang, [this] { return requests_done(); }, close_failed)) {
    violation("missing", "a request does not complete");
  }
}

bool Runner::messages_pending() const {
  for (std::size_t c = 0; c < kConns; c++) {
    for (std::size_t end = 0; end < kEnds; end++) {
      const auto sent = std::ranges::count_if(burst_.ops, [&](const Op& op) {
        const Request& r = op.request;
        return r.conn == c && static_cast<std::size_t>(1 - r.end) == end && takes_receive(r.verb) &&
               op.status() == IBV_WC_SUCCESS;
      });
      if (static_cast<std::ptrdiff_t>(burst_.arrivals.at(c).at(end).size()) < sent) return true;
    }
  }
  return false;
}

// A closed connection has no receives left.
bool Runner::receives_done() {
  for (std::size_t c = 0; c < kConns; c++) {
    const Conn& conn = book_->conn(c);
    if (!burst_.closed.at(c) || conn.srq || conn.type == kXrc) continue;
    for (int end = 0; end < kEnds; end++) {
      if (burst_.arrivals.at(c).at(static_cast<std::size_t>(end)).size() !=
          book_->receives(c, end).size()) {
        return false;
      }
    }
  }
  return true;
}

void Runner::wait_for_receives() {
  const auto work = [this] { take_completions(); };
  const bool lossy = std::ranges::any_of(
      burst_.ops, [this](const Op& op) { return !book_->conn(op.request.conn).reliable(); });
  const bool all = wait(
      lossy ? timeout_factor * Clock::duration(kLoss) : Clock::duration(kHang),
      [this] { return !messages_pending(); }, work);
  if (!all && !lossy) violation("missing", "a message arrived, and no receive completes");
  if (!all) lost_++;
  if (!wait(kHang, [this] { return receives_done(); }, work)) {
    violation("missing", "a receive of a failed queue is not flushed");
  }
}

// An arm for solicited completions only may fire later.
void Runner::check_events() {
  for (std::size_t end = 0; end < kEnds; end++) {
    int want = 0;
    for (Armed& armed : armed_.at(end)) {
      if (!armed.on || armed.hits == 0 || armed.solicited) continue;
      armed = {};
      want++;
    }
    if (want == 0) continue;
    int got = 0;
    while (got < want) {
      const int n = sides_.at(end)->events(5000);
      if (n == 0 && !loose_.at(end))
        violation("event", "an armed CQ has a completion, and no event");
      if (n == 0) break;
      got += n;
    }
    if (got > want && !loose_.at(end)) violation("event", "more events than armed CQs");
  }
}

// An unsignaled request that ended up as the last of its queue gets a SEND behind it, by which the
// program learns that it is done. So does a WRITE that nothing acknowledges.
void Runner::follow_silent() {
  const std::vector<Op> ops = burst_.ops;
  for (std::size_t i = 0; i < ops.size(); i++) {
    const Request& r = ops[i].request;
    const auto later = [&](const Op& op) {
      return op.request.id > r.id && op.request.end == r.end && op.request.conn == r.conn;
    };
    const bool blind = book_->conn(r.conn).type == kUc && r.verb == Verb::kWrite;
    if ((!ops[i].silent && !blind) || std::ranges::any_of(burst_.ops, later)) continue;
    Step receive{.verb = Verb::kReceive};
    receive[Arg::kEnd] = 1 - r.end;
    receive[Arg::kConn] = static_cast<std::int64_t>(r.conn);
    if (const auto made = book_->receive(receive)) {
      require_err(side(1 - r.end).receive(r.conn, false, made->id, {}), 0, "a receive");
      book_->receives(r.conn, 1 - r.end).push_back(*made);
    }
    Request send{
        .id = std::uint64_t{1} << 40 | r.id, .verb = Verb::kSend, .end = r.end, .conn = r.conn};
    send.flags = IBV_SEND_SIGNALED;
    require_err(side(r.end).post(send).err, 0, "a SEND");
    burst_.ops.push_back({.request = send});
  }
}

void Runner::settle() {
  if (burst_.ops.empty()) return;
  follow_silent();
  wait_for_requests();
  wait_for_receives();
  if (sabotage == Sabotage::kMemory) mems_.bytes(1, 2)[kMemSize - 1] ^= std::byte{1};
  const Explanation how = explain(*book_, burst_);
  if (settled) settled(burst_, how.found ? "" : how.why);
  if (!how.found) {
    std::string all;
    for (const Op& op : burst_.ops) {
      all += std::format("; {} at end {} of connection {}: {}", name_of(op.request.verb),
                         op.request.end, op.request.conn,
                         op.silent && !op.seen ? "silent" : ibv_wc_status_str(op.status()));
    }
    violation("status", how.why + (burst_.ops.size() > 1 ? all : ""));
  }
  memories_.apply(*book_, burst_, how);
  conclude(how);
  check_events();
  compare();
}

// Takes over what is certain now, and frees windows that may be bound or not.
void Runner::conclude(const Explanation& how) {
  std::string statuses;
  for (const Op& op : burst_.ops) {
    statuses += std::format(" {}", ibv_wc_status_str(op.status()));
    const Request& r = op.request;
    if (r.verb != Verb::kBind || op.status() == IBV_WC_SUCCESS) continue;
    book_->forget_key(r);
    const Window& w = how.finals.front().windows.at(static_cast<std::size_t>(r.end)).at(r.window);
    if (w.type == 1 || r.forge != 0) side(r.end).restore(r.window, w.key);
  }
  text_ += statuses;
  const State& first = how.finals.front();
  book_->state.windows = first.windows;
  for (std::size_t end = 0; end < kEnds; end++) {
    for (std::size_t i = 0; i < kWindows; i++) {
      const bool open = std::ranges::any_of(how.finals, [&](const State& s) {
        return !(s.windows.at(end).at(i) == first.windows.at(end).at(i));
      });
      if (open) dealloc(static_cast<int>(end), i);
    }
  }
  for (std::size_t c = 0; c < kConns; c++) {
    Conn& conn = book_->conn(c);
    for (int end = 0; end < kEnds; end++) {
      for (const ibv_wc& wc : burst_.arrivals.at(c).at(static_cast<std::size_t>(end))) {
        std::erase_if(book_->receives(c, end), [&](const Receive& r) { return r.id == wc.wr_id; });
        if (wc.status != IBV_WC_SUCCESS) conn.dead = true;
      }
    }
    if (burst_.closed.at(c)) conn.dead = true;
  }
  for (const Op& op : burst_.ops) {
    if (op.status() != IBV_WC_SUCCESS) book_->conn(op.request.conn).dead = true;
  }
  burst_ = {};
}

void Runner::compare() {
  for (int end = 0; end < kEnds; end++) {
    for (int mem = 0; mem < kMems; mem++) {
      std::string why;
      if (mem < kHostMems) {
        why = memories_.compare(mem_id(end, mem), mems_.bytes(end, mem));
      } else if (device_memory_) {
        why = memories_.compare(mem_id(end, mem), side(end).load_device());
      }
      if (!why.empty()) {
        violation("memory", std::format("memory {} of end {}: {}", mem, end, why));
      }
    }
  }
  memories_.settle();
}

void Runner::write_log() {
  if (!log || !burst_.ops.empty()) return;
  std::uint64_t hash = 0;
  for (int mem = 0; mem < kEnds * kMems; mem++) {
    for (const std::uint8_t byte : memories_.bytes(mem)) hash = (hash ^ byte) * 0x100000001b3;
  }
  log(std::format("{} | {:016x}", text_, hash));
}

void Runner::falsify(std::vector<Completion>& got) {
  ibv_wc& wc = got.front().wc;
  const bool send =
      std::ranges::any_of(burst_.ops, [&](const Op& op) { return op.request.id == wc.wr_id; });
  switch (sabotage) {
    case Sabotage::kData:
      for (const Op& op : burst_.ops) {
        if (op.request.id != wc.wr_id || op.request.verb != Verb::kWrite ||
            wc.status != IBV_WC_SUCCESS)
          continue;
        const Verdict v = judge(book_->state, op.request, nullptr);
        if (v.there.spans.empty() || v.there.spans[0].mem % kMems >= kHostMems) return;
        mems_.bytes(v.there.spans[0].mem / kMems,
                    v.there.spans[0].mem % kMems)[v.there.spans[0].off] ^= std::byte{1};
      }
      return;
    case Sabotage::kStatus:
      if (wc.status == IBV_WC_REM_ACCESS_ERR) wc.status = IBV_WC_SUCCESS;
      return;
    case Sabotage::kFailure:
      if (send && wc.status == IBV_WC_SUCCESS) wc.status = IBV_WC_REM_ACCESS_ERR;
      return;
    case Sabotage::kOrder:
      for (std::size_t i = 1; i < got.size(); i++) {
        if (got[i].wc.qp_num == wc.qp_num && got[i].end == got[0].end)
          return std::swap(got[0], got[i]);
      }
      return;
    case Sabotage::kLost:
      if (send) got.erase(got.begin());
      return;
    case Sabotage::kTwice:
      got.push_back(got.front());
      return;
    case Sabotage::kLength:
      if (!send && wc.status == IBV_WC_SUCCESS) wc.byte_len++;
      return;
    case Sabotage::kImmediate:
      if (!send && wc.status == IBV_WC_SUCCESS) wc.imm_data++;
      return;
    case Sabotage::kOpcode:
      if (send && wc.status == IBV_WC_SUCCESS) wc.opcode = IBV_WC_DRIVER1;
      return;
    default:
      return;
  }
}

}  // namespace guest::generator
