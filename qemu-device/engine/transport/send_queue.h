// SPDX-License-Identifier: GPL-2.0-or-later
// The send queue of a QP of any type: fetches WQEs, finds the bytes of their SGEs, completes and
// flushes them. How they become packets is its derived classes' business.
#pragma once

#include <cstdint>

#include "transport/send_wqe.h"
#include "wire/packet.h"

namespace tern {

class Qp;

class SendQueue {
 public:
  explicit SendQueue(Qp& qp);
  virtual ~SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // To RTS for the first time, with attr().sq_psn. Back to nothing.
  virtual void start();
  virtual void reset();
  // From SQE back to RTS: what was posted until now is flushed before anything is sent.
  virtual void resume() {}
  // The QP went to ERR: nothing happens by itself any more.
  virtual void stop() {}

  // The producer index may have moved.
  void kick() { kicked_ = true; }
  [[nodiscard]] bool kicked() const { return kicked_; }
  // The producer index that was read last.
  [[nodiscard]] std::uint32_t posted() const { return posted_; }
  // Sends packets for about `allowance` bytes, decrementing it; true when more can be sent now.
  virtual bool transmit(std::uint32_t& allowance) = 0;
  // The page fault of this half is over: software resolved it, or the access must fail.
  virtual void fault_over(bool failed);
  // A response.
  virtual void deliver(const Packet&) {}
  // Completes everything posted with WR_FLUSH_ERR; true when the allowance ran out before.
  bool flush(std::uint32_t& allowance);

  // Every WQE that was begun is complete: in SQD, the queue is drained.
  [[nodiscard]] bool drained() const { return static_cast<std::int32_t>(begun_ - una_) <= 0; }
  [[nodiscard]] std::uint32_t consumer_index() const { return una_; }
  [[nodiscard]] Psn next_psn() const { return next_psn_; }

 protected:
  // Whether there is a WQE at the cursor. Copies posted ones into the window as long as there is
  // room, some before their turn.
  bool has_wqe() {
    return fetched_ - cursor_ > kLow || (cursor_ != fetched_ ? fetch_ahead() : fetch());
  }
  // Flushes up to WQE `end`, not more than the queue's size ahead. True: no allowance left.
  bool flush_to(std::uint32_t end, std::uint32_t& allowance);
  // Does what a WQE that takes no packet asks for. A CQE status.
  std::uint8_t execute_local(const SendWqe& wqe);
  // What gather() and locate() return besides the statuses of CQEs: a page is absent, Memory::missing().
  static constexpr std::uint8_t kAbsent = 0xff;
  // An access for WQE `index` met an absent page: nothing is sent before fault_over().
  void park(std::uint32_t index);
  [[nodiscard]] bool parked() const { return parked_; }

  // Puts the payload and the headers of the packet at the cursor, of a SEND or WRITE, or of a train
  // from there on, into the device's tx_packet. A CQE status, or kAbsent; with another than success the
  // payload is empty.
  std::uint8_t load_data(const SendWqe& wqe, std::uint32_t train = 1);
  // The bytes [offset, offset + len) of the message, as a list. A CQE status, or kAbsent.
  std::uint8_t gather(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, SpanList& from);
  // The same of what the SGEs of a READ or atomic describe: where its response goes.
  std::uint8_t locate(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, SpanList& to);
  void complete(const SendWqe& wqe, std::uint8_t status);
  // WQEs may have been taken out of the window. None of them may be used from here on.
  void settle() {
    if (una_ == fetched_) window_.rest();
  }

  // The WQE at the cursor is begun: it has an effect here or at the peer.
  void mark_begun() {
    if (static_cast<std::int32_t>(cursor_ + 1 - begun_) > 0) begun_ = cursor_ + 1;
  }
  // Asserts the order of the indices below.
  void check_indices() const;

  Qp& qp_;
  SendWindow window_;
  // Free-running WQE indices, una_ <= cursor_ <= fetched_ <= posted_. una_, begun_, fetched_ and posted_
  // only grow. The cursor alone goes back, to una_ at most, when packets must be sent again: then
  // cursor_ < begun_, and WQEs in [cursor_, begun_) have their PSNs already. Without a repeat begun_ is
  // cursor_, or cursor_ + 1 in the middle of a message. A WQE that fails before it is begun takes una_
  // past begun_.
  std::uint32_t una_ = 0;      // oldest incomplete
  std::uint32_t cursor_ = 0;   // the next one of which a packet is sent
  std::uint32_t begun_ = 0;    // behind the newest one begun
  std::uint32_t fetched_ = 0;  // first not copied yet
  std::uint32_t posted_ = 0;   // producer index last read
  std::uint32_t cursor_packet_ = 0;  // the next packet of the WQE at the cursor
  Psn next_psn_;  // first PSN not given to a WQE
  std::uint32_t parked_wqe_ = 0;     // whose access met an absent page
  bool kicked_ = false;
  bool parked_ = false;

 private:
  static constexpr std::uint32_t kLow = 4;
  bool fetch();
  bool fetch_ahead();
  bool copy_slot(std::uint32_t index);
  bool fetch_one();
  void prefetch_keys(const SendWqe& wqe) const;
  std::uint8_t map(const SendWqe& wqe, std::uint32_t offset, std::uint32_t len, bool write, SpanList& list);
};

}  // namespace tern
