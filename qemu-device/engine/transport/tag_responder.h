// SPDX-License-Identifier: GPL-2.0-or-later
// Target of the messages of a reliable connection whose SRQ matches tags: a message whose tag
// matches goes to the buffer of the tag, any other message to a receive WQE of the SRQ.
#pragma once

#include <cstdint>
#include <memory>

#include "core/block_pool.h"
#include "objects/recv_wqe.h"
#include "tern_hw.hpp"
#include "transport/tag_headers.h"
#include "wire/packet.h"

namespace tern {

class Archive;
class Connection;

class TagTarget {
 public:
  // `recv`: the receive WQE that the QP holds.
  TagTarget(Connection& qp, Pooled<RecvWqe>& recv) : qp_(qp), recv_(recv) {}

  // Takes a receive WQE for the message that begins with `packet` unless one is held. kEmpty: the
  // peer has to repeat the message.
  [[nodiscard]] Take take(const Packet& packet);
  // A SEND met an absent page. Returns false if the QP has to go to the error state.
  [[nodiscard]] bool postponed();
  // Turns the CQE of the held WQE, which is complete, into one of tag matching. Returns whether it
  // is the last one of its message.
  [[nodiscard]] bool label(tern_cqe& cqe);
  // Whether the held WQE is the buffer of a tag. Such a WQE always completes: software holds the
  // buffer until then.
  [[nodiscard]] bool holds_tag() const { return recv_ && message_->labelled && tagged(); }
  // Whether the held WQE is of a request whose data the device will fetch.
  [[nodiscard]] bool holds_request() const {
    return recv_ && message_->labelled && message_->kind == Kind::kRendezvous;
  }
  // Forgets the message. The QP holds no buffer of a tag.
  void reset();
  void state(Archive& ar);

 private:
  // Destination of the message that the held WQE receives.
  enum class Kind : std::uint8_t {
    kNoTag,
    kUnexpected,  // no tag matched
    kEager,       // to the buffer of the tag
    kRendezvous,  // a request: the device fetches the data
    kIncomplete,  // a request that software has to serve: it goes to the tag's buffer
  };

  [[nodiscard]] Take next();
  [[nodiscard]] Kind parse(const Packet& packet);
  [[nodiscard]] Take match(const Packet& packet, Kind kind);
  void to_tag(Kind kind);
  [[nodiscard]] bool report_match();
  void add_match(tern_cqe& cqe) const;
  [[nodiscard]] bool label_tagged(tern_cqe& cqe);
  [[nodiscard]] bool tagged() const { return message_->kind >= Kind::kEager; }
  [[nodiscard]] std::uint64_t tag() const;

  struct Message {
    TagHeaders headers;
    std::uint32_t held = 0;  // the tag that matched
    Kind kind = Kind::kNoTag;
    bool labelled = false;  // the held WQE is for tag matching: see label()
    bool reported = false;  // the CQE of the match was written
  };

  Connection& qp_;
  Pooled<RecvWqe>& recv_;
  // Not a member, which would make every QP larger.
  std::unique_ptr<Message> message_ = std::make_unique<Message>();
};

}  // namespace tern
