// SPDX-License-Identifier: GPL-2.0-or-later
// UD QPs that send datagrams to each other. If a receive WQE is available, a datagram is received
// as often as the wire delivers it, complete and in that order. Otherwise it is dropped.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "tests/storm/flow.h"

namespace tern::storm {

class Datagrams final : public Arrivals {
 public:
  static constexpr std::uint32_t kGrh = 40;
  static constexpr std::uint32_t kMaxLen = 2048;

  explicit Datagrams(Context& context) : c_(context) {}

  void add(TestQp& qp, QpView& view, ReceivePool& pool, std::uint32_t pd);
  void post();
  // Handles the completion if it belongs to one of the UD QPs. Returns whether it does.
  [[nodiscard]] bool completed(unsigned node, const Wc& wc);
  [[nodiscard]] bool done() const;
  void finish();
  [[nodiscard]] std::uint64_t messages() const { return received_; }
  void arrived(const QpView& at, unsigned from_node, std::uint32_t src_qp, Psn last,
               bool whole) override;

 private:
  static constexpr unsigned kDepth = 16;

  struct Datagram {
    std::size_t to;
    std::uint32_t len;
    std::uint32_t imm;
    std::uint16_t gid;
    bool with_imm;
  };
  struct Arrival {
    std::size_t from;
    std::uint64_t number;
  };
  struct End {
    TestQp* qp;
    ReceivePool* pool;
    Slots near;
    std::vector<Datagram> sent;  // all datagrams, by number (the offset of the PSN)
    std::uint64_t completed = 0;
    std::deque<Arrival> arrivals;
  };

  void find(Claim claim, const End& end, const std::string& text);
  [[nodiscard]] End* end_of(unsigned node, std::uint32_t qpn);
  void post_from(std::size_t index);
  void sent(End& end, const Wc& wc);
  void received(End& end, const Wc& wc);
  [[nodiscard]] bool right(const End& end, const Arrival& arrival, const Wc& wc,
                           unsigned slot) const;

  Context& c_;
  std::vector<std::unique_ptr<End>> ends_;
  std::uint64_t received_ = 0;
};

}  // namespace tern::storm
