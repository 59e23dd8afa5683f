// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a reliable connection whose SRQ matches tags: a message whose tag matches
// goes to the buffer of the tag, any other message to a receive WQE of the SRQ.
#pragma once

#include <cstdint>
#include <memory>

#include "tern_hw.hpp"
#include "transport/responder.h"
#include "transport/tag_headers.h"

namespace tern {

class TagResponder final : public Responder {
 public:
  using Responder::Responder;

  void reset() override;

 private:
  // Destination of the message that the held WQE receives.
  enum class Kind : std::uint8_t {
    kNoTag,
    kUnexpected,  // no tag matched
    kEager,       // to the buffer of the tag
    kRendezvous,  // a request: the device fetches the data
    kIncomplete,  // a request that software has to serve: it goes to the tag's buffer
  };

  [[nodiscard]] Take take_message(const Packet& packet) override;
  void postponed() override;
  void label(tern_cqe& cqe) override;
  [[nodiscard]] Kind parse(const Packet& packet);
  [[nodiscard]] Take match(const Packet& packet, Kind kind);
  void to_tag(Kind kind);
  [[nodiscard]] bool report_match();
  void add_match(tern_cqe& cqe) const;
  void label_tagged(tern_cqe& cqe);
  [[nodiscard]] bool tagged() const { return kind_ >= Kind::kEager; }
  [[nodiscard]] std::uint64_t tag() const;

  std::unique_ptr<TagHeaders> headers_ =
      std::make_unique<TagHeaders>();  // of the message; not a member, which would make every QP
                                       // larger
  std::uint32_t held_ = 0;             // the tag that matched
  Kind kind_ = Kind::kNoTag;
  bool reported_ = false;  // the CQE of the match was written
};

}  // namespace tern
