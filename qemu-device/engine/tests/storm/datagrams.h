// SPDX-License-Identifier: GPL-2.0-or-later
// UD QPs that send datagrams to each other. What the wire delivers arrives, whole and in that order,
// as often as the wire delivers it, when there is a receive WQE; else it does not.
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
  // Whether the completion is one of its QPs'.
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
    std::vector<Datagram> sent;  // all, by number, which is the PSN too
    std::uint64_t completed = 0;
    std::deque<Arrival> arrivals;
  };

  void find(Claim claim, const End& end, const std::string& text);
  [[nodiscard]] End* end_of(unsigned node, std::uint32_t qpn);
  void post_from(std::size_t index);
  void sent(End& end, const Wc& wc);
  void received(End& end, const Wc& wc);
  [[nodiscard]] bool right(const End& end, const Arrival& arrival, const Wc& wc, unsigned slot) const;

  Context& c_;
  std::vector<std::unique_ptr<End>> ends_;
  std::uint64_t received_ = 0;
};

}  // namespace tern::storm
