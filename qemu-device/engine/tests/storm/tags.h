// SPDX-License-Identifier: GPL-2.0-or-later
// An SRQ with tags, and connections that send to it: every message goes where the data book says,
// and every tag ends once. Connections and the SRQ come and go.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/storm/tag_model.h"

namespace tern::storm {

class TagFlow final : public Flow {
 public:
  // The SRQ is in `to`; each of `from` has a connection to it.
  TagFlow(Context& context, WireWatch& watch, unsigned id, TestNode& to,
          const std::vector<TestNode*>& from);

  void post() override;
  void wind_up() override { winding_up_ = true; }
  // Its CQs are its own: poll() takes what is in them.
  void sent(const Wc&) override {}
  void received(const Wc&) override {}
  void poll();
  [[nodiscard]] bool done() const override;
  void finish() override;
  [[nodiscard]] std::string describe() const override;

  // For plants: called with each CQE of the SRQ; returns how often it is delivered.
  std::function<unsigned(TagFlow&, Wc&)> plant;
  // The buffer of a tag in the list, with its margins.
  [[nodiscard]] std::span<std::byte> buffer_of(std::uint64_t recv_wr_id) const;
  // The newest tag in the list.
  [[nodiscard]] std::uint64_t newest() const {
    return model_->list().empty() ? 0 : model_->list().back().id;
  }

 private:
  static constexpr unsigned kDepth = 8;  // open messages of a connection

  struct Message {
    enum class Kind : std::uint8_t { kEager, kRequest, kNoTag, kWrite };

    std::uint64_t number = 0;
    Kind kind = Kind::kEager;
    std::uint64_t tag = 0;
    std::uint32_t len = 0;    // bytes of the data
    std::uint32_t total = 0;  // of the SEND
    std::uint64_t since = 0;  // number of the last CQE when it was posted
    TestMr* key = nullptr;    // of a request for memory that is deregistered at some time
    bool closed = false;      // it has been
    bool never = false;       // ... before the message was posted
    std::optional<Tag> match;
    bool begun = false;
    bool ended = false;
    bool good = false;  // it ended without an error
    bool sent = false;
    bool finished = false;  // its FIN has arrived

    [[nodiscard]] bool tagged() const { return kind == Kind::kEager || kind == Kind::kRequest; }
  };

  // A connection to the SRQ, and its memory.
  struct Pair {
    TestNode* node = nullptr;
    TestCq* send_cq = nullptr;
    TestCq* fin_cq = nullptr;
    TestQp* x = nullptr;
    TestQp* y = nullptr;
    QpView* view_x = nullptr;
    QpView* view_y = nullptr;
    std::optional<Slots> near;  // what it sends
    std::optional<Slots> far;   // what requests announce
    std::optional<ReceivePool> fins;
    std::deque<Message> open;
    std::uint64_t next = 0;
    std::uint64_t since = 0;  // number of the CQE of the last message that began
    std::uint32_t mtu = 0;
    bool fetches = false;
    bool up = false;
    bool may_fail = false;  // something has happened that fails the connection
    bool broken = false;
    Nanos again = 0;  // when it may connect again

    [[nodiscard]] Message* first(bool Message::* flag) {
      for (Message& m : open) {
        if (!(m.*flag)) return &m;
      }
      return nullptr;
    }
  };

  // A buffer of a tag.
  struct Buffer {
    Slots slots;
    unsigned slot;
    bool posted = false;
    bool own = false;  // in a region of its own, which is deregistered at some time
    bool closed = false;
    std::uint64_t was = 0;  // hash when it came to rest, or was closed
  };

  // Connections (tags.cpp).
  void make_srq();
  void end_srq();
  void connect(Pair& pair);
  void tear_down(Pair& pair);
  void hurt(Pair& pair);
  void remake();
  [[nodiscard]] static bool justified(const Pair& pair);
  // Posting.
  void post_op();
  void post_add(TagModel::Op& op, TagOp& wr);
  void post_message(Pair& pair);
  void choose(Pair& pair, Message& m);
  void write_message(const Pair& pair, const Message& m);
  void close_something();
  [[nodiscard]] std::optional<unsigned> free_buffer();
  [[nodiscard]] std::uint32_t length(const Pair& pair);
  // Completions (tag_checks.cpp).
  void completed(const Wc& wc);
  void completed_op(const Wc& wc);
  void begun(Pair& pair, const Wc& wc);
  void ended(Pair& pair, Message& m, const Wc& wc);
  void check_end(Pair& pair, Message& m, const Wc& wc);
  void failed(Pair& pair, const Message& m, const Wc& wc, const Buffer& buffer);
  void delivered(Pair& pair, const Wc& wc);
  void check_delivered(Pair& pair, Message& m, const Wc& wc, unsigned slot);
  void sent(Pair& pair, const Wc& wc);
  void fin(Pair& pair, const Wc& wc);
  void forget_done(Pair& pair);
  void compare(const Message& m, const Buffer& buffer, std::uint64_t key, bool whole);
  void give_back(const Tag& tag, bool untouched);
  void check_buffer(const Buffer& buffer);
  [[nodiscard]] Pair* pair_of(const Wc& wc);
  [[nodiscard]] std::uint64_t key_of(const Pair& pair, const Message& m) const;
  [[nodiscard]] std::string name_of(const Message& m) const;
  [[nodiscard]] bool may_be_open() const;
  [[nodiscard]] bool by_device(const Pair& pair, const Message& m) const;
  [[nodiscard]] static std::uint64_t hash_of(const Buffer& buffer);
  [[nodiscard]] static unsigned slot_of(const Message& m);

  WireWatch& watch_;
  TestNode& to_;
  TestCq* cq_ = nullptr;
  TestSrq* srq_ = nullptr;
  std::optional<TagModel> model_;
  std::optional<ReceivePool> pool_;
  std::uint64_t srq_entries_ = 0;
  std::deque<Pair> pairs_;
  std::vector<Buffer> buffers_;
  unsigned next_buffer_ = 0;
  unsigned own_left_;
  unsigned keys_left_;
  unsigned remakes_left_;
  std::uint32_t op_index_ = 0;
  std::uint64_t next_tag_ = 0;
  bool unrung_ = false;
  bool last_op_ = false;
};

}  // namespace tern::storm
