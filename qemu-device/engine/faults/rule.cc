// SPDX-License-Identifier: GPL-2.0-or-later
#include "faults/rule.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

namespace {

constexpr std::uint64_t kMaxPicked = 1'000'000'000'000;
constexpr std::uint64_t kMaxCopies = 16;
constexpr std::uint64_t kMaxOvertakers = 1024;
constexpr Nanos kMaxDelay = 10'000'000'000;
constexpr std::uint64_t kMaxQpn = 0xffffff;
constexpr std::uint64_t kMaxPsn = 0xffffff;
constexpr std::uint64_t kMaxBit = 80'000;  // longer than any frame
constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::string_view kBlanks = " \t\r";

using Action = FaultRule::Action;
using Part = FaultRule::Part;
using Way = FaultRule::Way;

// The kinds of words that an action takes, besides those that select matches.
enum Words : unsigned { kPacketWords = 1, kCommandWords = 2, kMemoryWords = 4 };

struct ActionName {
  std::string_view name;
  Action action;
  unsigned words;
};

constexpr ActionName kActions[] = {
    {"drop", Action::kDrop, kPacketWords},
    {"duplicate", Action::kDuplicate, kPacketWords},
    {"delay", Action::kDelay, kPacketWords},
    {"reorder", Action::kReorder, kPacketWords},
    {"corrupt", Action::kCorrupt, kPacketWords},
    {"mark", Action::kMark, kPacketWords},
    {"fatal", Action::kFatal, kPacketWords},
    {"admin-drop", Action::kAdminDrop, kCommandWords},
    {"dma-error", Action::kDmaError, kMemoryWords},
};

struct PartName {
  std::string_view name;
  Part part;
};

constexpr PartName kParts[] = {
    {"icrc", Part::kIcrc}, {"payload", Part::kPayload}, {"psn", Part::kPsn},
    {"qp", Part::kQp},     {"opcode", Part::kOpcode},   {"any", Part::kAny},
};

struct Unit {
  std::string_view name;
  std::uint64_t nanos;
};

constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};

std::optional<std::uint64_t> to_number(std::string_view s) {
  int base = 10;
  if (s.starts_with("0x") || s.starts_with("0X")) {
    base = 16;
    s.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (failed != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

// Converts a number such as "0.05" or "5%" to millionths; at most six digits after the point.
std::optional<std::uint32_t> to_millionths(std::string_view s) {
  const bool percent = s.ends_with('%');
  if (percent) s.remove_suffix(1);
  const std::size_t point = s.find('.');
  const std::string_view fraction =
      point == std::string_view::npos ? std::string_view() : s.substr(point + 1);
  const auto whole = to_number(s.substr(0, point));
  const bool digits =
      std::ranges::all_of(s, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  if (!digits || !whole || *whole > 100 || fraction.size() > 6 ||
      fraction.find('.') != std::string_view::npos ||
      (point != std::string_view::npos && fraction.empty())) {
    return std::nullopt;
  }
  std::uint64_t value = *whole * kMillion;
  std::uint64_t weight = kMillion / 10;
  for (const char c : fraction) {
    value += static_cast<std::uint64_t>(c - '0') * weight;
    weight /= 10;
  }
  if (percent) value /= 100;
  if (value > kMillion) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

// Reads one rule, word by word.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : text_(text) { rule_.text = text; }

  // Returns false if the rule is wrong; error() says why.
  bool read();
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] FaultRule take() { return std::move(rule_); }

 private:
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }
  bool number(std::uint64_t min, std::uint64_t max, std::uint64_t& to);
  bool nanos(Nanos& to);
  bool word(std::string_view whole);
  bool action();
  bool action_value();
  bool part();
  bool packet_word(bool& known);
  bool memory_word(bool& known);
  bool pick_word(bool& known);
  bool opcodes();
  bool opcode(std::string_view name);
  bool transport();
  bool syndrome();
  bool psns();
  bool addresses();
  bool command();
  bool rate();
  bool sensible();

  std::string_view text_;
  FaultRule rule_;
  std::string error_;
  unsigned words_ = 0;
  std::vector<std::string_view> seen_;
  std::string_view key_;
  std::string_view value_;
  bool has_value_ = false;
};

bool RuleReader::number(std::uint64_t min, std::uint64_t max, std::uint64_t& to) {
  const auto value = to_number(value_);
  if (!has_value_ || !value || *value < min || *value > max) {
    return fail(std::string(key_) + " must be from " + std::to_string(min) + " to " +
                std::to_string(max));
  }
  to = *value;
  return true;
}

bool RuleReader::nanos(Nanos& to) {
  std::string_view digits = value_;
  std::uint64_t scale = 1;
  for (const Unit& unit : kUnits) {
    // "ns" ends with "s" too, so a unit must follow a digit.
    if (!value_.ends_with(unit.name)) continue;
    const std::string_view rest = value_.substr(0, value_.size() - unit.name.size());
    if (rest.empty() || rest.back() < '0' || rest.back() > '9') continue;
    digits = rest;
    scale = unit.nanos;
  }
  const auto value = to_number(digits);
  if (!value || *value == 0 || *value > kMaxDelay / scale) {
    return fail(std::string(key_) + " must be from 1ns to 10s");
  }
  to = *value * scale;
  return true;
}

bool RuleReader::part() {
  const auto* const row = std::ranges::find(kParts, value_, &PartName::name);
  if (row != std::end(kParts)) {
    rule_.part = row->part;
    return true;
  }
  const auto bit = to_number(value_);
  if (!bit || *bit > kMaxBit) {
    return fail("corrupt takes icrc, payload, psn, qp, opcode, any, or a bit from 0 to " +
                std::to_string(kMaxBit));
  }
  rule_.part = Part::kBit;
  rule_.bit = static_cast<std::uint32_t>(*bit);
  return true;
}

bool RuleReader::action_value() {
  switch (rule_.action) {
    case Action::kDuplicate:
      rule_.amount = 1;
      return !has_value_ || number(1, kMaxCopies, rule_.amount);
    case Action::kDelay:
      return nanos(rule_.amount);
    case Action::kReorder:
      return number(1, kMaxOvertakers, rule_.amount);
    case Action::kCorrupt:
      return !has_value_ || part();
    case Action::kFatal:
      rule_.amount = TERN_FATAL_INTERNAL;
      return !has_value_ || number(TERN_FATAL_AQ_DMA, TERN_FATAL_INTERNAL, rule_.amount);
    default:
      return !has_value_ || fail(std::string(key_) + " takes no value");
  }
}

bool RuleReader::action() {
  const auto* const row = std::ranges::find(kActions, key_, &ActionName::name);
  if (row == std::end(kActions)) return fail("no action '" + std::string(key_) + "'");
  rule_.action = row->action;
  words_ = row->words;
  return action_value();
}

bool RuleReader::opcode(std::string_view name) {
  const std::bitset<256> named = opcodes_named(name);
  if (named.any()) {
    rule_.opcodes |= named;
    return true;
  }
  const auto number = to_number(name);
  if (!number || *number > 255) return fail("no opcode '" + std::string(name) + "'");
  rule_.opcodes.set(static_cast<std::size_t>(*number));
  return true;
}

bool RuleReader::opcodes() {
  const std::bitset<256> before = rule_.opcodes;
  rule_.opcodes.reset();
  for (std::string_view rest = value_;;) {
    const std::size_t bar = rest.find('|');
    if (!opcode(rest.substr(0, bar))) return false;
    if (bar == std::string_view::npos) break;
    rest.remove_prefix(bar + 1);
  }
  rule_.opcodes &= before;
  return true;
}

bool RuleReader::transport() {
  const std::bitset<256> of = opcodes_of(value_);
  if (of.none()) return fail("transport must be rc, uc, ud, xrc or cnp");
  rule_.opcodes &= of;
  return true;
}

bool RuleReader::syndrome() {
  rule_.syndrome_mask = kSyndromeKindMask;
  if (value_ == "ack") {
    rule_.syndrome = kSyndromeKindAck;
  } else if (value_ == "rnr") {
    rule_.syndrome = kSyndromeKindRnr;
  } else if (value_ == "nak") {
    rule_.syndrome = kSyndromeKindNak;
  } else {
    const auto value = to_number(value_);
    if (!value || *value > 255) return fail("syndrome must be ack, rnr, nak or from 0 to 255");
    rule_.syndrome_mask = 0xff;
    rule_.syndrome = static_cast<std::uint8_t>(*value);
  }
  return true;
}

bool RuleReader::psns() {
  const std::size_t dash = value_.find('-');
  const auto first = to_number(value_.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : to_number(value_.substr(dash + 1));
  if (!first || !last || *first > kMaxPsn || *last > kMaxPsn) {
    return fail("psn must be from 0 to " + std::to_string(kMaxPsn) + ", or two such with '-'");
  }
  rule_.psns.emplace(Psn(static_cast<std::uint32_t>(*first)),
                     Psn(static_cast<std::uint32_t>(*last)));
  return true;
}

bool RuleReader::addresses() {
  const std::size_t dash = value_.find('-');
  const auto first = to_number(value_.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : to_number(value_.substr(dash + 1));
  if (!first || !last || *first > *last) {
    return fail("addr must be an address, or FIRST-LAST");
  }
  rule_.first_addr = *first;
  rule_.last_addr = *last;
  return true;
}

bool RuleReader::command() {
  rule_.command = command_named(value_);
  if (rule_.command) return true;
  const auto number = to_number(value_);
  if (!number || *number > 0xffff) return fail("no command '" + std::string(value_) + "'");
  rule_.command = static_cast<std::uint16_t>(*number);
  return true;
}

bool RuleReader::rate() {
  rule_.ppm = to_millionths(value_);
  return rule_.ppm.has_value() || fail("rate must be from 0 to 1, or from 0% to 100%");
}

bool RuleReader::packet_word(bool& known) {
  std::uint64_t value = 0;
  known = true;
  if (key_ == "tx" || key_ == "rx") {
    if (has_value_) return fail(std::string(key_) + " takes no value");
    if (rule_.way != Way::kNone) return fail("tx and rx are two rules");
    rule_.way = key_ == "tx" ? Way::kTx : Way::kRx;
    return true;
  }
  if (key_ == "opcode") return opcodes();
  if (key_ == "transport") return transport();
  if (key_ == "syndrome") return syndrome();
  if (key_ == "psn") return psns();
  if (key_ == "qp") {
    if (!number(0, kMaxQpn, value)) return false;
    rule_.qpn = static_cast<std::uint32_t>(value);
    return true;
  }
  if (key_ == "after" && rule_.action == Action::kDuplicate) return nanos(rule_.after);
  if (key_ == "sealed" && rule_.action == Action::kCorrupt && !has_value_) {
    rule_.sealed = true;
    return true;
  }
  known = false;
  return true;
}

bool RuleReader::memory_word(bool& known) {
  known = true;
  if (key_ == "addr") return addresses();
  if ((key_ == "read" || key_ == "write") && !has_value_) {
    if (!rule_.reads || !rule_.writes) return fail("read and write together are neither");
    (key_ == "read" ? rule_.writes : rule_.reads) = false;
    return true;
  }
  known = false;
  return true;
}

bool RuleReader::pick_word(bool& known) {
  known = true;
  if (key_ == "nth") return number(1, kMaxPicked, rule_.nth);
  if (key_ == "every") return number(1, kMaxPicked, rule_.every);
  if (key_ == "count") return number(1, kMaxPicked, rule_.count);
  if (key_ == "rate") return rate();
  if (key_ == "seed") return number(0, UINT64_MAX, rule_.seed);
  known = false;
  return true;
}

bool RuleReader::word(std::string_view whole) {
  const std::size_t equals = whole.find('=');
  has_value_ = equals != std::string_view::npos;
  key_ = whole.substr(0, equals);
  value_ = has_value_ ? whole.substr(equals + 1) : std::string_view();
  if (std::ranges::find(seen_, key_) != seen_.end()) {
    return fail(std::string(key_) + " is there twice");
  }
  seen_.push_back(key_);
  if (seen_.size() == 1) return action();
  bool known = false;
  if (!pick_word(known)) return false;
  if (!known && (words_ & kPacketWords) && !packet_word(known)) return false;
  if (!known && (words_ & kMemoryWords) && !memory_word(known)) return false;
  if (known) return true;
  if ((words_ & kCommandWords) && key_ == "opcode") return command();
  return fail(std::string(seen_[0]) + " knows no '" + std::string(whole) + "'");
}

// Checks combinations of words.
bool RuleReader::sensible() {
  const int ways = (rule_.nth != 0) + (rule_.every != 0) + rule_.ppm.has_value();
  if (ways > 1) return fail("of nth, every and rate there may be one");
  const bool random = rule_.ppm || (rule_.action == Action::kCorrupt && rule_.part == Part::kAny);
  if (!random && std::ranges::find(seen_, "seed") != seen_.end()) {
    return fail("seed goes with rate and corrupt=any");
  }
  if (rule_.opcodes.none()) return fail("no packet has that opcode and that transport");
  // A fatal rule that selects no packet acts at once.
  const bool at_once = rule_.action == Action::kFatal && seen_.size() == 1;
  if ((words_ & kPacketWords) && rule_.way == Way::kNone && !at_once) {
    return fail(std::string(seen_[0]) + " needs tx or rx");
  }
  if (rule_.nth != 0 && rule_.count == 0) rule_.count = 1;
  return true;
}

bool RuleReader::read() {
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t size = std::min(rest.find_first_of(kBlanks), rest.size());
    if (size != 0 && !word(rest.substr(0, size))) return false;
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
  return sensible();
}

// Returns the line without its comment and without blanks at both ends.
std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  return line.substr(0, line.find_last_not_of(kBlanks) + 1);
}

}  // namespace

std::optional<std::vector<FaultRule>> parse_faults(std::string_view text, std::string& error) {
  std::vector<FaultRule> rules;
  if (text.size() > kMaxFaultText) {
    error = "more than " + std::to_string(kMaxFaultText) + " bytes of rules";
    return std::nullopt;
  }
  while (!text.empty()) {
    // A comment extends to the end of its line: a ';' in it separates nothing.
    const std::size_t hash = text.find('#');
    std::size_t end = text.find_first_of(";\n");
    if (hash < end) end = text.find('\n', hash);
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    if (rules.size() == kMaxFaultRules) {
      error = "more than " + std::to_string(kMaxFaultRules) + " rules";
      return std::nullopt;
    }
    RuleReader reader(line);
    if (!reader.read()) {
      error = "rule " + std::to_string(rules.size() + 1) + ": " + reader.error();
      return std::nullopt;
    }
    rules.push_back(reader.take());
  }
  return rules;
}

std::optional<FaultChange> parse_fault_change(std::string_view text, std::string& error) {
  FaultChange change;
  constexpr std::string_view kGap = " \t\r\n";
  const std::string_view start = text.substr(std::min(text.find_first_not_of(kGap), text.size()));
  const std::string_view word = start.substr(0, start.find_first_of(kGap));
  if (word == "add") change.kind = FaultChange::Kind::kAdd;
  if (word == "remove") change.kind = FaultChange::Kind::kRemove;
  const bool replaces = change.kind == FaultChange::Kind::kReplace;
  auto rules = parse_faults(replaces ? text : start.substr(word.size()), error);
  if (!rules) return std::nullopt;
  if (!replaces && rules->empty()) {
    error = std::string(word) + " needs a rule";
    return std::nullopt;
  }
  change.rules = std::move(*rules);
  return change;
}

}  // namespace tern
