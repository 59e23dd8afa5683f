// SPDX-License-Identifier: GPL-2.0-or-later
// The steps.
#include "run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <format>

#include "processes.h"

namespace guest::generator {

const char* name_of(Sabotage sabotage) {
  static constexpr std::array<const char*, static_cast<std::size_t>(Sabotage::kCount)> kNames{
      "none", "memory", "data",   "status",    "failure", "order",
      "lost", "twice",  "length", "immediate", "opcode",  "busy"};
  return kNames.at(static_cast<std::size_t>(sabotage));
}

Runner::Runner(const RunOptions& options, const Caps& caps) : options_(options), caps_(caps) {
  sides_[1] = options.processes ? fork_side(1, options.device, options.gid_index, mems_, caps)
                                : make_side(1, options.device, options.gid_index, mems_, caps);
  sides_[0] = make_side(0, options.device, options.gid_index, mems_, caps);
}

Runner::~Runner() = default;

void Runner::violation(const char* kind, const std::string& text) const {
  throw Violation(kind, at_, text);
}

// Removes what the last program left, and paints all memory.
void Runner::clean() {
  burst_ = {};
  for (std::size_t end = 0; end < kEnds; end++) {
    for (const Armed& armed : armed_.at(end)) loose_.at(end) = loose_.at(end) || armed.on;
  }
  armed_ = {};
  for (std::size_t c = 0; c < kConns; c++) {
    if (!made_.at(c)[0] || (!made_.at(c)[0]->srq && made_.at(c)[0]->type != kXrc)) continue;
    for (std::size_t end = 0; end < kEnds; end++) {
      require_err(sides_.at(end)->destroy(c), 0, "ibv_destroy_qp");
      made_.at(c).at(end).reset();
    }
  }
  for (int end = 0; end < kEnds; end++) side(end).wipe();
  for (int end = 0; end < kEnds; end++) {
    for (std::size_t c = 0; c < kConns; c++) {
      if (made_.at(c).at(static_cast<std::size_t>(end))) {
        require_err(side(end).modify(c, IBV_QPS_RESET), 0, "to RESET");
      }
    }
    side(end).poll();
    while (side(end).events(0) != 0) {
    }
  }
}

void Runner::run(const Steps& steps, std::uint64_t seed) {
  clean();
  std::array<std::array<std::uint64_t, kHostMems>, kEnds> addresses{};
  memories_.settle();
  for (int end = 0; end < kEnds; end++) {
    for (int mem = 0; mem < kMems; mem++) {
      std::vector<std::uint8_t>& model = memories_.bytes(mem_id(end, mem));
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(model));
      fill(bytes, seed * 16 + static_cast<std::uint64_t>(mem_id(end, mem)));
      if (mem < kHostMems) {
        std::ranges::copy(bytes, mems_.bytes(end, mem).begin());
        addresses.at(static_cast<std::size_t>(end)).at(static_cast<std::size_t>(mem)) =
            reinterpret_cast<std::uintptr_t>(mems_.bytes(end, mem).data());
      } else if (caps_.contains("dm")) {
        side(end).store_device(bytes);
      }
    }
  }
  device_memory_ = false;
  book_ = std::make_unique<Book>(caps_, addresses);
  for (at_ = 0; at_ < steps.size(); at_++) {
    text_ = to_text(steps[at_]);
    if (begin) begin(at_);
    const bool more = at_ + 1 < steps.size() && is_request(steps[at_ + 1].verb) &&
                      steps[at_ + 1][Arg::kEnd] == steps[at_][Arg::kEnd] &&
                      steps[at_ + 1][Arg::kConn] == steps[at_][Arg::kConn];
    apply(steps[at_], more);
  }
  at_ = steps.empty() ? 0 : steps.size() - 1;
  settle();
}

void Runner::apply(const Step& step, bool more) {
  if (is_request(step.verb)) return request(step, more);
  settle();
  const auto end = static_cast<int>(step[Arg::kEnd]);
  switch (step.verb) {
    case Verb::kRegion:
      make_region(step);
      break;
    case Verb::kDereg:
      dereg(step);
      break;
    case Verb::kRereg:
      rereg(step);
      break;
    case Verb::kWindow:
      if (!book_->window(end, step.index(Arg::kSlot)).live) {
        make_window(end, step.index(Arg::kSlot), step[Arg::kType] == 1 ? 1 : 2,
                    step.index(Arg::kPd) % kPds);
      }
      break;
    case Verb::kDealloc:
      dealloc(end, step.index(Arg::kSlot));
      break;
    case Verb::kConnect:
      make_conn(step);
      break;
    case Verb::kReset:
      if (book_->conn(step.index(Arg::kConn)).up) book_->conn(step.index(Arg::kConn)).dead = true;
      break;
    case Verb::kDestroy:
      destroy_conn(step.index(Arg::kConn));
      break;
    case Verb::kError:
      error(step);
      break;
    case Verb::kKill:
      kill();
      break;
    case Verb::kReceive:
      receive(step);
      break;
    case Verb::kArm:
      arm(step);
      break;
    default:
      break;
  }
  compare();
  write_log();
}

void Runner::make_region(const Step& step) {
  const auto args = book_->region_args(step);
  if (!args) return;
  const int end = static_cast<int>(step[Arg::kEnd]);
  const Keys made = side(end).region(*args);
  if (made.err != 0) {
    violation("verb", std::format("a registration is refused: {}", errno_name(made.err)));
  }
  device_memory_ = device_memory_ || args->mem == kDeviceMem;
  executed_++;
  book_->made_region(end, *args, made);
  text_ += " ok";
}

void Runner::dereg(const Step& step) {
  const int end = static_cast<int>(step[Arg::kEnd]);
  const std::size_t slot = step.index(Arg::kSlot);
  if (!book_->region(end, slot).live) return;
  int err = side(end).dereg(slot);
  const bool busy = windows_on(book_->state, end, slot) != 0;
  if (busy && sabotage == Sabotage::kBusy) err = 0;
  if (busy == (err == 0)) {
    violation("verb", busy ? "ibv_dereg_mr works while a window is bound"
                           : std::format("ibv_dereg_mr: {}", errno_name(err)));
  }
  executed_++;
  book_->region(end, slot).live = busy;
  text_ += busy ? " busy" : " ok";
}

void Runner::rereg(const Step& step) {
  const auto args = book_->rereg_args(step);
  if (!args) return;
  const int end = static_cast<int>(step[Arg::kEnd]);
  const Keys keys = side(end).rereg(*args, static_cast<int>(step[Arg::kWhat] & 7));
  executed_++;
  if (keys.err != 0) violation("verb", std::format("ibv_rereg_mr: {}", errno_name(keys.err)));
  book_->made_region(end, *args, keys);
  text_ += " ok";
}

bool Runner::make_window(int end, std::size_t slot, int type, std::size_t pd) {
  if (!book_->can("windows")) return false;
  const Keys made = side(end).window(slot, type, pd);
  if (made.err != 0) violation("verb", std::format("ibv_alloc_mw: {}", errno_name(made.err)));
  book_->made_window(end, slot, type, pd, made.rkey);
  executed_++;
  return true;
}

void Runner::dealloc(int end, std::size_t slot) {
  Window& w = book_->window(end, slot);
  if (!w.live) return;
  if (const int err = side(end).dealloc(slot); err != 0) {
    violation("verb", std::format("ibv_dealloc_mw: {}", errno_name(err)));
  }
  w = {};
  executed_++;
}

void Runner::make_conn(const Step& step) {
  const std::size_t slot = step.index(Arg::kConn);
  if (!book_->qp_args(step, 0) || book_->conn(slot).up) return;
  book_->made_conn(step);
  for (int end = 0; end < kEnds; end++) {
    auto& made = made_.at(slot).at(static_cast<std::size_t>(end));
    const QpArgs args = book_->qp_args(step, end).value();
    const bool fits =
        made && made->type == args.type && made->pd == args.pd && made->srq == args.srq;
    if (made && !fits) require_err(side(end).destroy(slot), 0, "ibv_destroy_qp");
    if (!fits) {
      numbers_.at(slot).at(static_cast<std::size_t>(end)) = side(end).create(args);
      const int err = numbers_.at(slot).at(static_cast<std::size_t>(end)).err;
      if (err != 0) violation("verb", std::format("ibv_create_qp_ex: {}", errno_name(err)));
    }
    made = args;
  }
}

// Connects, or connects again. A window of type 2 that its QP has bound dies with the connection;
// no document says what it does after a reset, so the program frees it.
void Runner::connect(std::size_t slot) {
  for (int end = 0; end < kEnds; end++) {
    require_err(side(end).modify(slot, IBV_QPS_RESET), 0, "to RESET");
  }
  discard();  // completions of receives that the reset dropped
  const auto dead = book_->restart(slot);
  for (std::size_t end = 0; end < kEnds; end++) {
    for (const std::size_t w : dead.at(end)) dealloc(static_cast<int>(end), w);
  }
  for (std::size_t end = 0; end < kEnds; end++) {
    const Numbers& far = numbers_.at(slot).at(1 - end);
    const Endpoint remote{
        .qpn = far.qpn, .psn = 1, .gid = sides_.at(1 - end)->gid(), .srqn = far.srqn};
    const int err = sides_.at(end)->connect(made_.at(slot).at(end).value(), remote);
    if (err != 0) violation("verb", std::format("ibv_modify_qp: {}", errno_name(err)));
  }
}

void Runner::destroy_conn(std::size_t slot) {
  Conn& c = book_->conn(slot);
  if (!c.up || c.type == kXrc) return;
  if (!book_->can("risky")) {  // windows of a QP that is gone crash Soft-RoCE
    const auto dead = book_->restart(slot);
    for (std::size_t end = 0; end < kEnds; end++) {
      for (const std::size_t w : dead.at(end)) dealloc(static_cast<int>(end), w);
    }
  }
  for (int end = 0; end < kEnds; end++) {
    require_err(side(end).destroy(slot), 0, "ibv_destroy_qp");
    made_.at(slot).at(static_cast<std::size_t>(end)).reset();
    if (!c.srq) book_->receives(slot, end).clear();
  }
  discard();
  c = {};
  executed_++;
}

void Runner::discard() {
  for (std::size_t end = 0; end < kEnds; end++) {
    loose_.at(end) = !sides_.at(end)->poll().empty() || loose_.at(end);
  }
}

// The 8 bytes that an atomic will find, for a comparison that matches.
std::uint64_t Runner::word_at(const Request& r) {
  const Verdict v = judge(book_->state, r, nullptr);
  if (length_of(v.there) != 8) return 0;
  const Span& span = v.there.spans.front();
  std::uint64_t word = 0;
  std::memcpy(&word, &memories_.bytes(span.mem)[span.off], sizeof(word));
  return word;
}

void Runner::request(const Step& step, bool more) {
  const std::size_t slot = step.index(Arg::kConn);
  const int end = static_cast<int>(step[Arg::kEnd]);
  Conn& c = book_->conn(slot);
  const bool burst = step.on(Arg::kBurst) && c.reliable() && !c.srq && book_->can("bursts") &&
                     burst_.ops.size() < 9;
  if (!burst && (c.srq || !c.reliable())) settle();
  if (c.up && c.dead) {
    settle();
    connect(slot);
  }
  if (c.up && step.verb == Verb::kBind && book_->can("windows") &&
      !book_->window(end, step.index(Arg::kKey)).live) {
    make_window(end, step.index(Arg::kKey), step[Arg::kType] == 1 ? 1 : 2,
                step.index(Arg::kPd) % kPds);
  }
  std::optional<Request> r = book_->request(step);
  if (!r) {
    if (!step.on(Arg::kBurst)) settle();
    return write_log();
  }
  const bool race = !burst_.ops.empty() || burst;
  if (!book_->can("risky") && race && (r->verb == Verb::kInvalidate || r->verb == Verb::kSendInv)) {
    settle();
  }
  if (r->verb == Verb::kCas && step[Arg::kValue] % 2 == 0) r->compare_add = word_at(*r);
  const bool silent = burst && more && step.on(Arg::kSilent);
  if (silent) r->flags &= ~unsigned{IBV_SEND_SIGNALED};
  const std::uint32_t before = r->verb == Verb::kBind ? book_->window(end, r->window).key : 0;
  const Keys posted = side(end).post(*r);
  executed_++;
  if (posted.err != 0) {
    const Verdict v = judge(book_->state, *r, book_->next_receive(slot, 1 - end));
    if (burst_.ops.empty() && has(v.allowed, IBV_WC_SUCCESS)) {
      violation("post", std::format("{} is refused when posted: {}", name_of(r->verb),
                                    errno_name(posted.err)));
    }
    text_ += " refused";
    if (!step.on(Arg::kBurst)) settle();
    return write_log();
  }
  if (r->verb == Verb::kBind && book_->window(end, r->window).type == 1 && r->forge != 1) {
    r->new_key = posted.rkey;
    if (r->new_key == before) violation("post", "ibv_bind_mw leaves the key as it was");
  }
  book_->posted(*r, r->new_key);
  burst_.ops.push_back({.request = *r, .silent = silent});
  if (!burst) settle();
  write_log();
}

void Runner::receive(const Step& step) {
  const std::size_t slot = step.index(Arg::kConn);
  const int end = static_cast<int>(step[Arg::kEnd]);
  Conn& c = book_->conn(slot);
  if (!c.up) return;
  if (c.dead) connect(slot);
  const std::optional<Receive> r = book_->receive(step);
  if (!r) return;
  const std::span<const ibv_sge> sges(r->sge.data(), r->num_sge);
  if (const int err = side(end).receive(slot, c.srq, r->id, sges); err != 0) {
    violation("post", std::format("a receive is refused: {}", errno_name(err)));
  }
  executed_++;
  book_->receives(slot, end).push_back(*r);
  text_ += " ok";
}

// A request to a QP in the error state is flushed, and all receives are.
void Runner::error(const Step& step) {
  const std::size_t slot = step.index(Arg::kConn);
  Conn& c = book_->conn(slot);
  if (!c.up || c.type == kXrc || c.type == kUd) return;
  if (c.dead) connect(slot);
  Request r{
      .id = 1U << 31, .verb = Verb::kSend, .end = static_cast<int>(step[Arg::kEnd]), .conn = slot};
  r.flags = IBV_SEND_SIGNALED;
  close(slot);
  c.ends[0].failed = c.ends[1].failed = true;
  require_err(side(r.end).post(r).err, 0, "a request in the error state");
  burst_.ops.push_back({.request = r});
  executed_++;
  settle();
}

void Runner::arm(const Step& step) {
  const std::size_t end = step.index(Arg::kEnd);
  const std::size_t cq = step.index(Arg::kConn) % 2;
  require_err(side(static_cast<int>(end)).arm(cq, step.on(Arg::kSolicited)), 0,
              "ibv_req_notify_cq");
  loose_.at(end) = loose_.at(end) || step.on(Arg::kSolicited) || armed_.at(end).at(cq).on;
  armed_.at(end).at(cq) = {.on = true, .solicited = step.on(Arg::kSolicited)};
  executed_++;
}

}  // namespace guest::generator
