// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

#include <algorithm>
#include <cstring>
#include <format>

namespace guest::generator {
namespace {

constexpr int kFetched = 1000;  // streams of the bytes that a request brings back

int stream_of(const Request& r) { return static_cast<int>(r.conn) * kEnds + r.end; }

std::vector<std::uint64_t> places(const Reach& reach) {
  std::vector<std::uint64_t> all;
  all.reserve(length_of(reach));
  for (const Span& span : reach.spans) {
    const std::uint64_t first = (static_cast<std::uint64_t>(span.mem) << 32) + span.off;
    for (std::uint32_t i = 0; i < span.len; i++) all.push_back(first + i);
  }
  return all;
}

std::uint64_t number(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::vector<std::uint8_t> bytes_of(std::uint64_t value) {
  std::vector<std::uint8_t> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// Whether a request that did not succeed may have moved a part of its bytes.
bool may_be_partial(const Request& r, ibv_wc_status status, std::uint32_t mtu) {
  if (status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR) return true;
  // The former value may fail to be stored when the peer has executed the request.
  if (is_atomic(r.verb)) return status == IBV_WC_LOC_PROT_ERR;
  if (r.verb == Verb::kAtomicWrite) return false;
  if (is_send(r.verb)) return true;
  if (r.verb == Verb::kRead && status == IBV_WC_LOC_PROT_ERR) return true;
  return r.length > mtu || status == IBV_WC_RNR_RETRY_EXC_ERR;
}

}  // namespace

Memories::Memories() {
  for (int end = 0; end < kEnds; end++) {
    for (int mem = 0; mem < kMems; mem++) bytes_.emplace_back(mem_size(mem));
  }
}

bool Memories::touched(Place p, std::size_t but) const {
  const auto found = touched_.find(p);
  return found != touched_.end() &&
         std::ranges::any_of(found->second, [but](std::size_t op) { return op != but; });
}

void Memories::add_atomic(const Request& r, const Part& part, std::size_t op, int stream) {
  const bool certain = part.happened && part.there.size() == 1;
  for (const Reach& reach : part.there) {
    if (length_of(reach) != 8) continue;
    Effect there{.op = op, .stream = stream, .certain = certain, .to = places(reach)};
    Effect here{.op = op,
                .stream = kFetched + static_cast<int>(op),
                .certain = part.happened,
                .to = places(part.here)};
    const std::span<const std::uint8_t> old(
        &bytes_.at(there.to[0] >> 32)[static_cast<std::uint32_t>(there.to[0])], 8);
    const std::uint64_t before = number(old);
    const std::uint64_t after = r.verb == Verb::kFetchAdd ? before + r.compare_add
                                : before == r.compare_add ? r.swap
                                                          : before;
    there.from = here.from = there.to;
    there.bytes = bytes_of(after);
    here.bytes = bytes_of(before);
    effects_.push_back(std::move(there));
    if (here.to.size() == here.bytes.size()) effects_.push_back(std::move(here));
  }
}

void Memories::add_effects(Book& book, const Burst& burst, const Explanation& how) {
  for (std::size_t i = 0; i < burst.ops.size(); i++) {
    const Op& op = burst.ops[i];
    const Request& r = op.request;
    const Part& part = how.parts[i];
    const std::uint32_t mtu = book.conn(r.conn).mtu;
    if (is_local(r.verb) || r.verb == Verb::kFlush || part.there.empty()) continue;
    const bool done = part.happened || (op.status() == IBV_WC_SUCCESS && part.there.front().ok);
    if (!done && !may_be_partial(r, op.status(), mtu)) continue;
    if (is_atomic(r.verb)) {
      add_atomic(r, part, i, stream_of(r));
      continue;
    }
    const bool certain = part.happened && part.there.size() == 1;
    for (const Reach& reach : part.there) {
      const bool read = r.verb == Verb::kRead;
      Effect e{.op = i,
               .stream = read ? kFetched + static_cast<int>(i) : stream_of(r),
               .certain = certain};
      e.to = places(read ? part.here : reach);
      e.from = places(read ? reach : part.here);
      if (r.verb == Verb::kAtomicWrite) e.bytes = bytes_of(r.swap);
      if (is_send(r.verb) && book.conn(r.conn).type == kUd) e.any = 40;
      const std::size_t have = e.bytes.empty() ? e.from.size() + e.any : e.bytes.size();
      if (e.to.size() > have) e.to.resize(have);
      effects_.push_back(std::move(e));
    }
  }
}

Values Memories::source(Place p, const Effect& reader) const {
  Values values;
  if (!touched(p, reader.op)) return values.set(at(p));
  const auto found = blurred_.find(p);
  const bool fetched = reader.stream >= kFetched;
  const auto others = touched_.find(p);
  std::size_t known = 0;
  for (std::size_t op : others->second) {
    if (op == reader.op) continue;
    known +=
        found != blurred_.end() &&
                std::ranges::any_of(found->second, [op](const Writer& w) { return w.op == op; })
            ? 1U
            : 0U;
  }
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(others->second, [&](std::size_t op) { return op != reader.op; }));
  if (!fetched || known != count) return values.set();
  values.set(at(p));
  for (const Writer& w : found->second) values |= w.values;
  return values;
}

void Memories::write(const Effect& e) {
  // The result of an atomic depends on all of its word.
  const bool depends =
      !e.bytes.empty() && std::ranges::any_of(e.from, [&](Place p) { return touched(p, e.op); });
  for (std::size_t i = 0; i < e.to.size(); i++) {
    Values values;
    if (i < e.any) {
      values.set();
    } else if (!e.bytes.empty()) {
      depends ? values.set() : values.set(e.bytes[i]);
    } else {
      values = source(e.from[i - e.any], e);
    }
    blurred_[e.to[i]].push_back(
        {.op = e.op, .stream = e.stream, .certain = e.certain && i >= e.any, .values = values});
  }
}

void Memories::apply(Book& book, const Burst& burst, const Explanation& how) {
  effects_.clear();
  touched_.clear();
  add_effects(book, burst, how);
  for (const Effect& e : effects_) {
    for (const Place p : e.to) touched_[p].push_back(e.op);
  }
  // What a READ brings depends on what the others write.
  for (const bool fetched : {false, true}) {
    for (const Effect& e : effects_) {
      if ((e.stream >= kFetched) == fetched) write(e);
    }
  }
}

std::string Memories::compare(int mem, std::span<const std::byte> actual) {
  std::vector<std::uint8_t>& model = bytes(mem);
  for (auto& [place, writers] : blurred_) {
    if (static_cast<int>(place >> 32) != mem) continue;
    const auto off = static_cast<std::uint32_t>(place);
    const auto value = static_cast<std::uint8_t>(actual[off]);
    bool base = true;
    Values allowed;
    for (std::size_t i = 0; i < writers.size(); i++) {
      const Writer& w = writers[i];
      // What a later request of the same queue certainly wrote hides it.
      bool hidden = false;
      for (std::size_t k = i + 1; k < writers.size(); k++) {
        hidden = hidden || (writers[k].certain && writers[k].stream == w.stream);
      }
      base = base && !w.certain;
      if (!hidden) allowed |= w.values;
    }
    if (base) allowed.set(model[off]);
    if (!allowed.test(value)) {
      std::string want;
      for (std::size_t v = 0; v < 256; v++) {
        if (allowed.test(v)) want += std::format("{}{:02x}", want.empty() ? "" : " or ", v);
      }
      return std::format("byte {} is {:02x}, not {}", off, value, want);
    }
    model[off] = value;
  }
  if (std::memcmp(model.data(), actual.data(), actual.size()) == 0) return {};
  const auto at = std::ranges::mismatch(
      model, actual, [](std::uint8_t a, std::byte b) { return a == static_cast<std::uint8_t>(b); });
  const auto off = static_cast<std::size_t>(at.in1 - model.begin());
  return std::format("byte {} is {:02x}, not {:02x}: no request may write there", off,
                     static_cast<std::uint8_t>(actual[off]), model[off]);
}

}  // namespace guest::generator
