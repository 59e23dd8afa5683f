// SPDX-License-Identifier: GPL-2.0-or-later
// Faults on demand: what rules make of packets, admin commands and memory accesses. Packets pass
// through here as frames between the HCA and its wire, also those that turn round inside, which
// leave (tx) and come (rx) like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/host.h"
#include "core/timers.h"
#include "core/types.h"
#include "faults/rule.h"

namespace tern {

class Faults final : public DmaGate {
 public:
  // Where frames go on that got through. None of its functions may come back here with a packet.
  class Port {
   public:
    virtual ~Port() = default;
    // Out to the wire; the HCA's, from the wire or from inside.
    virtual void send(std::span<const std::byte> frame) = 0;
    virtual void accept(std::span<const std::byte> frame, bool inside) = 0;
    virtual void fatal(std::uint32_t code) = 0;
  };

  // Frames held back, for a time or behind others; more go on at once.
  static constexpr std::size_t kMaxHeld = 4096;
  // A frame that waits for others waits no longer than this.
  static constexpr Nanos kMaxWait = 100'000'000;

  Faults(std::vector<FaultRule> rules, Port& port, TimerQueue& timers, Host& host);
  ~Faults() override;

  // Carries out what the rules want at once.
  void begin();

  // A frame of the HCA on its way to the wire, or to the HCA itself; one that comes.
  void transmit(std::span<const std::byte> frame, bool inside);
  void receive(std::span<const std::byte> frame, bool inside);
  // Whether an admin command is neither executed nor answered.
  [[nodiscard]] bool swallows(std::uint16_t opcode);
  [[nodiscard]] std::uint64_t reachable(std::uint64_t addr, std::uint64_t len,
                                        bool write) override;

  // What is held back goes on now; is lost.
  void release();
  void forget();

  // The rules with their counts, a line each; parse_faults() reads it.
  [[nodiscard]] std::string report() const;

 private:
  enum class Side : std::uint8_t { kTx, kRx };
  struct Active;
  struct Header;
  struct Verdict;
  struct Held {
    std::vector<std::byte> frame;
    Side side;
    bool inside;
    std::uint64_t behind;  // frames of this side to wait for; 0: for the time alone
  };

  void carry(Side side, std::span<const std::byte> frame, bool inside);
  [[nodiscard]] Verdict judge(Side side, const Header& header, std::vector<std::byte>& changed,
                              std::span<const std::byte> frame);
  void pass(Side side, std::span<const std::byte> frame, bool inside);
  [[nodiscard]] bool hold(Held held, Nanos wait);
  void overtaken(Side side);
  void expired();
  void arm();

  Port& port_;
  Host& host_;
  Timer timer_;
  std::vector<Active> rules_;
  std::multimap<Nanos, Held> held_;  // by the time when they go on
  std::uint64_t overflows_ = 0;
  bool stopped_ = false;  // a fatal error was wanted: nothing goes through until a reset
};

}  // namespace tern
