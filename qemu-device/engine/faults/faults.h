// SPDX-License-Identifier: GPL-2.0-or-later
// Fault injection: applies rules to packets, admin commands and memory accesses. Packets pass
// through here as frames between the HCA and its wire. Looped back packets pass through here too,
// first as tx, then as rx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/event_log.h"
#include "core/host.h"
#include "core/timers.h"
#include "core/types.h"
#include "faults/rule.h"

namespace tern {

class Archive;

class Faults final : public DmaGate {
 public:
  // Receives the frames that the rules let through. Must not call back with a packet.
  class Port {
   public:
    virtual ~Port() = default;
    // Sends a frame to the wire.
    virtual void send(std::span<const std::byte> frame) = 0;
    // Passes a frame to the HCA. `inside`: it was looped back, otherwise it came from the wire.
    virtual void accept(std::span<const std::byte> frame, bool inside) = 0;
    virtual void fatal(std::uint32_t code) = 0;
  };

  // Limit of frames that are held back. At the limit, further frames pass at once.
  static constexpr std::size_t kMaxHeld = 4096;
  // Longest time that a frame waits for others to overtake it, unless it is also delayed for
  // longer.
  static constexpr Nanos kMaxWait = 100'000'000;

  Faults(Port& port, TimerQueue& timers, Host& host);
  ~Faults() override;

  // Changes the rules. Rules that stay keep their counts. Frames that are held back pass when the
  // timers next run, unless rules were only added. A new fatal rule that waits for no packet
  // applies at once. Returns false and changes nothing if a rule to remove does not exist, or if
  // there would be too many; `error` then gives the reason.
  [[nodiscard]] bool change(FaultChange change, std::string& error);
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  // Handles a frame from the HCA to the wire, or to the HCA itself (`inside`).
  void transmit(std::span<const std::byte> frame, bool inside);
  // Handles a frame to the HCA.
  void receive(std::span<const std::byte> frame, bool inside);
  // Returns whether an admin command is dropped: neither executed nor completed.
  [[nodiscard]] bool swallows(std::uint16_t opcode);
  [[nodiscard]] std::uint64_t reachable(std::uint64_t addr, std::uint64_t len, bool write) override;

  // Drops all frames that are held back. After a fatal error, frames pass again.
  void forget();

  // Saved state. Rules that are read replace the present ones, and have no effect at once.
  void state(Archive& ar, TimerQueue& timers);

  // The rules with their counts, one per line, in a form that parse_faults() accepts.
  [[nodiscard]] std::string report() const;

  EventLog* log = nullptr;

 private:
  enum class Side : std::uint8_t { kTx, kRx };
  struct Active;
  struct Header;
  struct Verdict;
  struct Held {
    std::vector<std::byte> frame;
    Side side;
    bool inside;
    std::uint64_t behind;  // frames of this side that must pass first; 0: only the time counts
  };

  void carry(Side side, std::span<const std::byte> frame, bool inside);
  [[nodiscard]] Verdict judge(Side side, const Header& header, std::vector<std::byte>& changed,
                              std::span<const std::byte> frame);
  // Builds the log event of an applied rule. The caller adds the packet or access.
  [[nodiscard]] LogEvent applied(const Active& rule) const;
  void pass(Side side, std::span<const std::byte> frame, bool inside);
  [[nodiscard]] bool add(std::vector<FaultRule> rules, std::string& error);
  [[nodiscard]] bool remove(const std::vector<FaultRule>& rules, std::string& error);
  void release();
  [[nodiscard]] bool hold(Held held, Nanos wait);
  void overtaken(Side side);
  void expired();
  void arm(Nanos not_before = 0);

  Port& port_;
  Host& host_;
  Timer timer_;
  std::vector<Active> rules_;
  std::multimap<Nanos, Held> held_;  // by the time when they pass
  std::uint64_t overflows_ = 0;
  bool stopped_ = false;  // a fatal error was injected: nothing passes until a reset
};

}  // namespace tern
