// SPDX-License-Identifier: GPL-2.0-or-later
// The send queue of a QP of any type: fetches WQEs, finds the bytes of their SGEs, completes and
// flushes them. Derived classes turn WQEs into packets.
#pragma once

#include <cstdint>

#include "transport/send_wqe.h"
#include "wire/packet.h"

namespace tern {

class Archive;
class Connection;
class Context;

class SendQueue {
 public:
  explicit SendQueue(Connection& qp);
  virtual ~SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // The QP goes from RTR to RTS: starts with attr().sq_psn.
  virtual void start();
  // Returns the queue to its state after creation.
  virtual void reset();
  // The QP goes from SQE back to RTS: WQEs posted so far are flushed before any packet is sent.
  virtual void resume() {}
  // The QP has gone to its alternate path.
  virtual void path_changed() {}
  // The QP goes to ERR: cancels timers.
  virtual void stop() {}
  // The QP moves to this data path.
  virtual void move_to(Context& context);

  // Saved state, when the QP's attributes are known.
  virtual void state(Archive& ar);

  // The producer index may have moved.
  void kick() { kicked_ = true; }
  [[nodiscard]] bool kicked() const { return kicked_; }
  // The producer index read last.
  [[nodiscard]] std::uint32_t posted() const { return posted_; }
  // Sends packets for about `allowance` bytes and decrements it. Returns true if more can be sent
  // now.
  virtual bool transmit(std::uint32_t& allowance) = 0;
  // The page fault of this half has ended. `failed`: software did not resolve it, and the access
  // fails.
  virtual void fault_over(bool failed);
  // Handles a response packet.
  virtual void deliver(const Packet&) {}
  // Completes all posted WQEs with WR_FLUSH_ERR, except a BIND_MW that was executed, which
  // succeeds. Returns true if the allowance ran out first.
  bool flush(std::uint32_t& allowance);

  // Returns whether every WQE that was begun is complete. In SQD this means that the queue is
  // drained.
  [[nodiscard]] bool drained() const { return fresh_.wqe == oldest_.wqe; }
  [[nodiscard]] std::uint32_t consumer_index() const { return oldest_.wqe; }
  [[nodiscard]] Psn next_psn() const { return fresh_.psn; }

 protected:
  // Returns whether there is a WQE at the cursor. Copies posted WQEs into the window while there is
  // space, also some beyond the cursor.
  bool has_wqe() {
    return fetched_ - next_.wqe > kLow || (next_.wqe != fetched_ ? fetch_ahead() : fetch());
  }
  // Flushes WQEs before index `end`, which is at most the queue's size ahead of oldest_. Returns
  // true if the allowance ran out first.
  bool flush_to(std::uint32_t end, std::uint32_t& allowance);
  // Executes a WQE that takes no packet (bind, invalidate, register). Returns a CQE status.
  std::uint8_t execute_local(const SendWqe& wqe);
  // gather() and locate() return this instead of a CQE status if a page is absent, and set
  // Context::missing.
  static constexpr std::uint8_t kAbsent = 0xff;
  // An access for WQE `index` met an absent page, and Context::missing says where: reports the
  // fault and stops sending until fault_over().
  void park(std::uint32_t index);
  [[nodiscard]] bool parked() const { return parked_; }

  // Loads the packet of a SEND or WRITE at the cursor, or a train that starts there, into
  // Context::tx_packet: payload and headers. Returns a CQE status or kAbsent. The payload is empty
  // unless that is success.
  std::uint8_t load_data(const SendWqe& wqe, std::uint32_t train = 1);
  // Appends bytes [offset, offset + len) of the message to `from`. Returns a CQE status or kAbsent.
  std::uint8_t gather(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, SpanList& from);
  // The same for the memory that the SGEs of a READ or atomic describe, which receives its
  // response.
  std::uint8_t locate(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, SpanList& to);
  // Writes the CQE, unless the WQE succeeded and is unsignaled.
  void complete(const SendWqe& wqe, std::uint8_t status);
  // Releases the window's memory if no WQE is left. References to WQEs are invalid from here on.
  void settle() {
    if (oldest_.wqe == fetched_) window_.release();
  }

  // Whether there may be something to send.
  [[nodiscard]] bool pending() const { return next_.wqe != posted_ || kicked_; }
  // Marks the WQE at the cursor as begun: it has an effect here or at the peer.
  void mark_begun() {
    if (static_cast<std::int32_t>(next_.wqe + 1 - fresh_.wqe) > 0) fresh_.wqe = next_.wqe + 1;
  }
  // Number of WQEs that the window holds.
  [[nodiscard]] std::uint32_t held() const { return fetched_ - oldest_.wqe; }
  // Whether the indices below are in order, and whether the cursor has the PSN of its WQE as well.
  [[nodiscard]] bool ordered() const;
  [[nodiscard]] bool consistent() const;
  // Number of PSNs that a WQE takes once it has begun.
  [[nodiscard]] virtual std::uint32_t psns_of(const SendWqe& wqe) const = 0;

  Connection& qp_;
  SendWindow window_;
  // A position in the stream of packets: a WQE by its free-running index, and a PSN.
  struct Place {
    std::uint32_t wqe = 0;
    Psn psn;
  };
  struct Cursor : Place {
    std::uint32_t packet = 0;  // of the WQE; the PSN is that of this packet
  };
  // The oldest WQE is complete. One that fails may not have begun.
  void pass_oldest() {
    if (fresh_.wqe == oldest_.wqe) ++fresh_.wqe;
    ++oldest_.wqe;
  }
  // Moves the cursor past its WQE.
  void pass(const SendWqe& wqe) {
    ++next_.wqe;
    next_.packet = 0;
    if (wqe.psns != 0) next_.psn = wqe.first_psn.plus(wqe.psns);
  }

  // oldest_.wqe <= next_.wqe <= fetched_ <= posted_, and oldest_.wqe <= fresh_.wqe <= fetched_.
  // Only the cursor goes back, at most to oldest_, when packets are retransmitted. Then it is
  // before fresh_, and the WQEs in between have their PSNs already. Without a retransmission fresh_
  // is the WQE at the cursor, or the one after it in the middle of a message.
  Place oldest_;               // oldest incomplete WQE; PSN not acknowledged, where ACKs are used
  Cursor next_;                // the packet that is sent next
  Place fresh_;                // one past the newest begun WQE; first PSN not assigned
  std::uint32_t fetched_ = 0;  // first WQE not copied yet
  std::uint32_t posted_ = 0;   // producer index last read
  std::uint32_t parked_wqe_ = 0;  // the WQE whose access met an absent page
  bool kicked_ = false;
  bool parked_ = false;

 private:
  static constexpr std::uint32_t kLow = 4;
  void wqe_state(Archive& ar, std::uint32_t index);
  void pass_flushed();
  bool fetch();
  bool fetch_ahead();
  bool copy_slot(std::uint32_t index);
  bool fetch_one();
  void prefetch_keys(const SendWqe& wqe) const;
  [[gnu::noinline]] void log_posted(std::uint32_t before) const;
  [[gnu::noinline]] void log_wqe(const SendWqe& wqe) const;
  std::uint8_t map(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, bool write,
                   SpanList& list);
};

}  // namespace tern
