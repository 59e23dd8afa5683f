// SPDX-License-Identifier: GPL-2.0-or-later
// Queue of asynchronous events for software, which all lanes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

namespace tern {

class Archive;
class Context;
class Eq;

// An event that does not fit the event queue waits here, once per type and object.
class AsyncEvents {
 public:
  // `lane`: the caller's. `generation`: of the CQ, QP or SRQ with number `id`; 0 for a port.
  void raise(Context& lane, std::uint16_t type, std::uint32_t id, std::uint32_t generation = 0);
  // Call it when software has consumed events, or has created the queue. Posts at most `most`
  // events; returns whether more may fit.
  bool flush(Context& lane, unsigned most = UINT32_MAX);
  // Drops the waiting events of object `id`, which is being destroyed. `of_type` selects the event
  // types of its kind. It also visits a few events of other objects: other kinds may have the same
  // number.
  void forget(std::uint32_t id, bool (*of_type)(std::uint16_t));
  void clear();
  void state(Archive& ar);
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  Eq* eq = nullptr;  // the asynchronous event queue, if there is one

 private:
  struct Event {
    std::uint16_t type;
    std::uint32_t id;
    std::uint32_t generation;
    // The events of a number are next to each other.
    friend bool operator<(const Event& a, const Event& b) {
      return std::tie(a.id, a.type, a.generation) < std::tie(b.id, b.type, b.generation);
    }
  };

  std::mutex mutex_;
  std::map<std::uint64_t, Event> waiting_;  // oldest first
  std::map<Event, std::uint64_t> known_;    // the same, for lookup
  std::uint64_t next_ = 0;                  // key of the next one in waiting_
};

}  // namespace tern
