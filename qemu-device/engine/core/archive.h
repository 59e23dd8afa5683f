// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of a device. Each class describes its state once, in a function state(Archive&) that
// writes it to a stream or reads it from one. A stream to read is hostile: every value is checked,
// and nothing is followed before the whole stream has been read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/lane_group.h"
#include "core/list.h"
#include "core/timers.h"
#include "core/types.h"

namespace tern {

class Archive {
 public:
  // Writes to `to`, which may get `most` bytes long.
  explicit Archive(std::vector<std::byte>& to, std::size_t most = SIZE_MAX)
      : to_(&to), most_(most) {}
  // Reads `from`.
  explicit Archive(std::span<const std::byte> from) : from_(from) {}
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  [[nodiscard]] bool reading() const { return to_ == nullptr; }
  // False once the stream was found wrong. All values read from then on are 0.
  [[nodiscard]] bool ok() const { return error_.empty(); }
  [[nodiscard]] const std::string& error() const { return error_; }
  void fail(std::string_view why);
  // Fails unless the condition holds. Returns ok().
  bool require(bool condition, std::string_view what) {
    if (!condition) [[unlikely]]
      fail(what);
    return ok();
  }
  // Begins a part of the stream, which errors name. Returns false if the state is wrong: nothing
  // may follow.
  [[nodiscard]] bool section(const char* name);

  // ---- values, in the byte order of the host ----

  template <class... T>
  void operator()(T&... values) {
    (value(values), ...);
  }
  void bytes(std::span<std::byte> data);
  void text(std::string& text, std::size_t most);
  // The number of elements that follow. Returns `have` when writing. `least`: bytes that an element
  // takes in the stream, so that a short stream cannot claim many.
  [[nodiscard]] std::uint32_t count(std::size_t have, std::size_t most, std::size_t least = 1);
  template <class T>
  void optional(std::optional<T>& v) {
    bool has = v.has_value();
    value(has);
    if (reading()) has ? void(v.emplace()) : v.reset();
    if (has) value(*v);
  }

  // ---- objects that refer to each other ----

  // A list. Its members describe themselves later, by member().
  template <class T, class Element>
  void list(List<T, Element>& l) {
    add_list(&l, [](void* to, ListLink& link) {
      static_cast<List<T, Element>*>(to)->push_back(static_cast<Element&>(link));
    });
    if (!reading()) l.for_each_link([this](const ListLink& link) { place(link); });
  }
  // Membership of one of these lists, or of none. Returns whether it is a member.
  template <class T, class Element>
  bool member(std::type_identity_t<Element>& link,
              std::initializer_list<const List<T, Element>*> lists) {
    const std::uint32_t in = member_of(link);
    if (in == kNowhere) return false;
    bool known = false;
    for (const auto* const l : lists) known |= lists_[in].list == l;
    return require(known, "an object is in a wrong list");
  }
  // The timers of a queue. They describe themselves later, by timer().
  void timers(TimerQueue& queue);
  // Returns whether the timer is armed.
  bool timer(Timer& timer, TimerQueue& queue);
  // The group of a member, whose lane the object has.
  void group(LaneMember& member, Context& lane);

  // Ends the archive. After reading, fills the lists and the timers if everything is right. Returns
  // ok().
  bool finish();

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  template <class T>
  void value(T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = v ? 1 : 0;
      raw(&byte, sizeof(byte));
      require(byte <= 1, "a flag is neither 0 nor 1");
      v = byte == 1;
    } else if constexpr (std::is_same_v<T, Psn>) {
      std::uint32_t number = v.value();
      raw(&number, sizeof(number));
      require(number == Psn(number).value(), "a PSN has more than 24 bits");
      v = Psn(number);
    } else {
      static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
      raw(&v, sizeof(v));
    }
  }
  void raw(void* data, std::size_t size);

  struct Pending {
    std::uint32_t position;
    ListLink* link;
  };
  struct ListOf {
    const void* list;
    void (*push)(void* list, ListLink& link);
    std::vector<Pending> members;
  };
  struct Place {
    std::uint32_t list;
    std::uint32_t position;
  };
  struct TimerOf {
    Timer* timer;
    Nanos key;
    Nanos deadline;
  };

  void add_list(const void* list, void (*push)(void*, ListLink&));
  void place(const ListLink& link);
  [[nodiscard]] std::uint32_t member_of(ListLink& link);
  [[nodiscard]] bool lists_complete();
  [[nodiscard]] bool timers_complete();

  std::vector<std::byte>* to_ = nullptr;
  std::size_t most_ = 0;
  std::span<const std::byte> from_;
  std::string error_;
  const char* section_ = "the header";
  std::vector<ListOf> lists_;
  std::map<const ListLink*, Place> places_;  // writing
  std::uint32_t placed_ = 0;                 // members of the list being written
  std::map<const TimerQueue*, std::vector<TimerOf>> timers_;
  std::vector<std::shared_ptr<LaneGroup>> groups_;
  std::map<const LaneGroup*, std::uint32_t> numbers_;  // writing: places in groups_
};

}  // namespace tern
