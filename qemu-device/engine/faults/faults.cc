// SPDX-License-Identifier: GPL-2.0-or-later
#include "faults/faults.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/archive.h"
#include "wire/bth.h"
#include "wire/codec.h"

namespace tern {

namespace {

constexpr std::size_t kQpByte = 7;  // last byte of the QP number in the BTH
constexpr std::size_t kPsnByte = 11;
constexpr std::uint64_t kMillion = 1'000'000;

std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void flip(std::span<std::byte> bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

}  // namespace

// ---- rules ----

struct Faults::Header {
  FrameParts at;
  std::uint8_t opcode;
  std::uint32_t qpn;
  Psn psn;
  std::optional<std::uint8_t> syndrome;
};

struct Faults::Verdict {
  bool drop = false;
  bool changed = false;
  std::optional<std::uint32_t> fatal;
  std::uint64_t copies = 0;
  Nanos copies_after = 0;
  Nanos delay = 0;
  std::uint64_t behind = 0;
};

// A rule and its counts so far.
struct Faults::Active {
  explicit Active(FaultRule r) : rule(std::move(r)), random(rule.seed) {}

  [[nodiscard]] bool matches(Side side, const Header& h) const {
    if (rule.way != (side == Side::kTx ? FaultRule::Way::kTx : FaultRule::Way::kRx)) return false;
    if (!rule.opcodes[h.opcode] || (rule.qpn && *rule.qpn != h.qpn)) return false;
    if (rule.psns) {
      // The range may wrap.
      const auto& [first, last] = *rule.psns;
      if (Psn(h.psn.value() - first.value()).value() > Psn(last.value() - first.value()).value()) {
        return false;
      }
    }
    return rule.syndrome_mask == 0 ||
           (h.syndrome && (*h.syndrome & rule.syndrome_mask) == rule.syndrome);
  }

  // Counts a match. Returns whether the rule applies to it.
  bool hits() {
    ++matched;
    bool hit = true;
    if (rule.nth != 0) {
      hit = matched >= rule.nth;
    } else if (rule.every != 0) {
      hit = matched % rule.every == 0;
    } else if (rule.ppm) {
      hit = splitmix64(random) % kMillion < *rule.ppm;
    }
    hit = hit && (rule.count == 0 || applied < rule.count);
    if (hit) ++applied;
    return hit;
  }

  // Flips one bit of the frame that `header` describes.
  void corrupt(const Header& header, std::span<std::byte> frame) {
    const FrameParts& at = header.at;
    const auto packet = frame.subspan(at.bth, at.icrc + kIcrc - at.bth);
    const std::size_t icrc_bit = (at.icrc - at.bth) * 8;
    const OpTraits& t = traits_of(header.opcode);
    switch (rule.part) {
      case FaultRule::Part::kIcrc:
        flip(packet, icrc_bit);
        break;
      case FaultRule::Part::kPayload:
        flip(packet, std::min<std::size_t>(t.header_bytes * std::size_t{8}, icrc_bit));
        break;
      case FaultRule::Part::kPsn:
        flip(packet, kPsnByte * 8);
        break;
      case FaultRule::Part::kQp:
        flip(packet, kQpByte * 8);
        break;
      case FaultRule::Part::kOpcode:
        flip(packet, 0);
        break;
      case FaultRule::Part::kAny:
        flip(packet, static_cast<std::size_t>(splitmix64(random) % (packet.size() * 8)));
        break;
      case FaultRule::Part::kBit:
        flip(packet, rule.bit % (packet.size() * 8));
        break;
    }
    if (!rule.sealed) return;
    write_icrc(frame, at);
  }

  FaultRule rule;
  std::uint64_t random;
  std::uint64_t matched = 0;
  std::uint64_t applied = 0;
};

Faults::Faults(Port& port, TimerQueue& timers, Host& host)
    : port_(port),
      host_(host),
      timer_(timers, [](void* self) { static_cast<Faults*>(self)->expired(); }, this) {}

Faults::~Faults() = default;

bool Faults::change(FaultChange change, std::string& error) {
  if (change.kind == FaultChange::Kind::kRemove) return remove(change.rules, error);
  if (change.kind == FaultChange::Kind::kReplace) {
    rules_.clear();
    overflows_ = 0;
    stopped_ = false;
    release();
  }
  return add(std::move(change.rules), error);
}

bool Faults::add(std::vector<FaultRule> rules, std::string& error) {
  // The rules must stay short enough to set as one text.
  std::size_t bytes = 0;
  for (const Active& a : rules_) bytes += a.rule.text.size() + 1;
  for (const FaultRule& rule : rules) bytes += rule.text.size() + 1;
  if (rules_.size() + rules.size() > kMaxFaultRules || bytes > kMaxFaultText + 1) {
    error = "with these rules there would be more than " + std::to_string(kMaxFaultRules) +
            ", or more than " + std::to_string(kMaxFaultText) + " bytes of them";
    return false;
  }
  const std::size_t first = rules_.size();
  for (FaultRule& rule : rules) rules_.emplace_back(std::move(rule));
  for (Active& a : std::span(rules_).subspan(first)) {
    if (a.rule.action != FaultRule::Action::kFatal || a.rule.way != FaultRule::Way::kNone) continue;
    if (!a.hits()) continue;
    if (log != nullptr) log->add(applied(a));
    stopped_ = true;
    port_.fatal(static_cast<std::uint32_t>(a.rule.amount));
  }
  return true;
}

// Removes, for each of `rules`, the first rule with the same text.
bool Faults::remove(const std::vector<FaultRule>& rules, std::string& error) {
  std::vector<Active> left = rules_;
  for (const FaultRule& rule : rules) {
    const auto it = std::ranges::find(left, rule.text, [](const Active& a) { return a.rule.text; });
    if (it == left.end()) {
      error = "there is no rule '" + rule.text + "'";
      return false;
    }
    left.erase(it);
  }
  rules_ = std::move(left);
  release();
  return true;
}

// Lets the frames that are held back pass when the timers next run: passing them now could access
// guest memory while the machine is stopped.
void Faults::release() {
  std::multimap<Nanos, Held> due;
  for (auto& [when, held] : held_) due.emplace_hint(due.end(), host_.now(), std::move(held));
  held_ = std::move(due);
  arm();
}

LogEvent Faults::applied(const Active& rule) const {
  static_assert(TERN_LOG_FAULT_DROP == static_cast<int>(FaultRule::Action::kDrop));
  static_assert(TERN_LOG_FAULT_DMA_ERROR == static_cast<int>(FaultRule::Action::kDmaError));
  return {.type = TERN_LOG_FAULT,
          .code = static_cast<std::uint8_t>(rule.rule.action),
          .key = static_cast<std::uint32_t>(&rule - rules_.data())};
}

// ---- packets ----

void Faults::transmit(std::span<const std::byte> frame, bool inside) {
  carry(Side::kTx, frame, inside);
}

void Faults::receive(std::span<const std::byte> frame, bool inside) {
  carry(Side::kRx, frame, inside);
}

// Every rule matches against the original frame. `changed` receives the modified frame, if any rule
// modifies it.
Faults::Verdict Faults::judge(Side side, const Header& header, std::vector<std::byte>& changed,
                              std::span<const std::byte> frame) {
  using Action = FaultRule::Action;
  Verdict v;
  for (Active& a : rules_) {
    if (!a.matches(side, header) || !a.hits()) continue;
    if (log != nullptr) {
      LogEvent event = applied(a);
      event.flags = side == Side::kRx ? TERN_LOG_F_RECV : 0;
      event.qpn = header.qpn;
      event.length = frame.size();
      event.index = header.psn.value();
      event.value = header.opcode;
      log->add(event);
    }
    if (a.rule.action == Action::kCorrupt || a.rule.action == Action::kMark) {
      if (!std::exchange(v.changed, true)) changed.assign(frame.begin(), frame.end());
    }
    switch (a.rule.action) {
      case Action::kDrop:
        v.drop = true;
        break;
      case Action::kDuplicate:
        v.copies += a.rule.amount;
        v.copies_after = std::max(v.copies_after, a.rule.after);
        break;
      case Action::kDelay:
        v.delay = std::max(v.delay, a.rule.amount);
        break;
      case Action::kReorder:
        v.behind = std::max(v.behind, a.rule.amount);
        break;
      case Action::kCorrupt:
        a.corrupt(header, changed);
        break;
      case Action::kMark:
        mark_congestion(changed, header.at);
        break;
      case Action::kFatal:
        v.fatal = static_cast<std::uint32_t>(a.rule.amount);
        break;
      case Action::kAdminDrop:
      case Action::kDmaError:
        break;
    }
  }
  return v;
}

void Faults::carry(Side side, std::span<const std::byte> frame, bool inside) {
  if (stopped_) return;
  const auto at = find_parts(frame);
  // Rules cannot match this frame.
  if (!at) return pass(side, frame, inside);
  const Bth bth = bth_of(frame, *at);
  Header header{*at, bth.opcode, bth.dest_qp.value, bth.psn, std::nullopt};
  // No extension header precedes an AETH.
  if (traits_of(header.opcode).aeth && at->icrc > at->bth + kBth) {
    header.syndrome = std::to_integer<std::uint8_t>(frame[at->bth + kBth]);
  }
  std::vector<std::byte> changed;
  const Verdict v = judge(side, header, changed, frame);
  if (v.fatal) {
    stopped_ = true;
    return port_.fatal(*v.fatal);
  }
  if (v.drop) return;
  if (v.changed) frame = changed;
  const auto copy = [&](std::uint64_t behind) {
    return Held{{frame.begin(), frame.end()}, side, inside, behind};
  };
  const bool held = v.behind != 0 ? hold(copy(v.behind), std::max(v.delay, kMaxWait))
                                  : v.delay != 0 && hold(copy(0), v.delay);
  if (!held) pass(side, frame, inside);
  for (std::uint64_t i = 0; i < v.copies; ++i) {
    const Nanos wait = v.delay + v.copies_after;
    if (wait == 0 || !hold(copy(0), wait)) pass(side, frame, inside);
  }
  if (!held) overtaken(side);
}

void Faults::pass(Side side, std::span<const std::byte> frame, bool inside) {
  if (side == Side::kRx) return port_.accept(frame, inside);
  if (inside) return receive(frame, true);
  port_.send(frame);
}

// Returns false if too many frames are held: the frame then passes at once.
bool Faults::hold(Held held, Nanos wait) {
  if (held_.size() >= kMaxHeld) {
    ++overflows_;
    return false;
  }
  held_.emplace(host_.now() + wait, std::move(held));
  arm();
  return true;
}

// A frame has passed: counts it for the frames that wait to be overtaken, and passes on those that
// have waited for enough.
void Faults::overtaken(Side side) {
  std::vector<Held> due;
  for (auto it = held_.begin(); it != held_.end();) {
    Held& h = it->second;
    if (h.side == side && h.behind != 0 && --h.behind == 0) {
      due.push_back(std::move(h));
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
  for (const Held& h : due) pass(h.side, h.frame, h.inside);
  if (!due.empty()) arm();
}

void Faults::expired() {
  constexpr unsigned kBurst = 64;  // frames; the others pass in the next run
  const Nanos now = host_.now();
  for (unsigned n = 0; n < kBurst && !held_.empty() && held_.begin()->first <= now; ++n) {
    const auto node = held_.extract(held_.begin());
    pass(node.mapped().side, node.mapped().frame, node.mapped().inside);
  }
  arm(now + 1);
}

void Faults::arm(Nanos not_before) {
  if (held_.empty()) {
    timer_.cancel();
  } else {
    timer_.arm(std::max(held_.begin()->first, not_before));
  }
}

void Faults::forget() {
  timer_.cancel();
  held_.clear();
  stopped_ = false;
}

// ---- commands and memory ----

bool Faults::swallows(std::uint16_t opcode) {
  bool swallowed = false;
  for (Active& a : rules_) {
    if (a.rule.action != FaultRule::Action::kAdminDrop) continue;
    if (a.rule.command && *a.rule.command != opcode) continue;
    if (!a.hits()) continue;
    swallowed = true;
    if (log == nullptr) continue;
    LogEvent event = applied(a);
    event.value = opcode;
    log->add(event);
  }
  return swallowed;
}

std::uint64_t Faults::reachable(std::uint64_t addr, std::uint64_t len, bool write) {
  for (Active& a : rules_) {
    if (a.rule.action != FaultRule::Action::kDmaError) continue;
    if (!(write ? a.rule.writes : a.rule.reads) || addr > a.rule.last_addr) continue;
    if (addr < a.rule.first_addr) {
      // End the mapping where the range begins: the bytes after it are a separate access.
      len = std::min(len, a.rule.first_addr - addr);
    } else if (a.hits()) {
      if (log != nullptr) {
        LogEvent event = applied(a);
        event.flags = write ? TERN_LOG_F_WRITE : 0;
        event.addr = addr;
        event.length = len;
        log->add(event);
      }
      return 0;
    }
  }
  return len;
}

// ---- saved state ----

// A rule is parsed again from its text.
void Faults::state(Archive& ar, TimerQueue& timers) {
  const std::uint32_t number = ar.count(rules_.size(), kMaxFaultRules);
  for (std::uint32_t i = 0; i < number && ar.ok(); ++i) {
    std::string text = ar.reading() ? "" : rules_[i].rule.text;
    ar.text(text, kMaxFaultText);
    if (ar.reading()) {
      std::string error;
      auto rules = parse_faults(text, error);
      if (!ar.require(rules && rules->size() == 1, "a fault rule is wrong")) return;
      rules_.emplace_back(std::move(rules->front()));
    }
    ar(rules_[i].random, rules_[i].matched, rules_[i].applied);
  }
  ar(overflows_, stopped_);
  (void)ar.timer(timer_, timers);
  std::uint32_t left = ar.count(held_.size(), kMaxHeld);
  const auto item = [&](Nanos& when, Held& held) {
    ar(when, held.side, held.inside, held.behind);
    constexpr std::size_t kMostBytes = 1 << 16;
    held.frame.resize(ar.count(held.frame.size(), kMostBytes));
    ar.bytes(held.frame);
    ar.require(held.side <= Side::kRx && !held.frame.empty(), "a frame that is held back is wrong");
  };
  if (!ar.reading()) {
    for (auto& [time, held] : held_) {
      Nanos when = time;
      item(when, held);
    }
    return;
  }
  for (; left != 0 && ar.ok(); --left) {
    Nanos when = 0;
    Held held{};
    item(when, held);
    held_.emplace_hint(held_.end(), when, std::move(held));
  }
}

// ---- reading back ----

std::string Faults::report() const {
  std::string text;
  for (const Active& a : rules_) {
    text += a.rule.text + "  # matched " + std::to_string(a.matched) + ", applied " +
            std::to_string(a.applied) + "\n";
  }
  if (!held_.empty()) text += "# held back now: " + std::to_string(held_.size()) + "\n";
  if (overflows_ != 0)
    text += "# not held back for want of room: " + std::to_string(overflows_) + "\n";
  return text;
}

}  // namespace tern
