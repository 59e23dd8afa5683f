// SPDX-License-Identifier: GPL-2.0-or-later
// The state table of QPs, and a QP that can be taken to each state.
#pragma once

#include <array>
#include <span>
#include <string>

#include "rule.h"

namespace guest::states {

// A type of QP, as a column of the table.
struct Column {
  ibv_qp_type type;
  const char* name;
};
constexpr std::array<Column, 6> kColumns{{{IBV_QPT_RC, "RC"},
                                          {IBV_QPT_UC, "UC"},
                                          {IBV_QPT_UD, "UD"},
                                          {IBV_QPT_XRC_SEND, "XRC_SEND"},
                                          {IBV_QPT_XRC_RECV, "XRC_RECV"},
                                          {IBV_QPT_RAW_PACKET, "RAW_PACKET"}}};

constexpr std::array<ibv_qp_state, 7> kStates{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                              IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};
const char* state_name(ibv_qp_state state);

// A transition of the table, besides those to RESET and ERR, which take no attributes.
struct Step {
  ibv_qp_state from;
  ibv_qp_state to;
  // Attributes of each column of the table.
  std::array<int, 6> required;
  std::array<int, 6> optional;
};
std::span<const Step> steps();
// Returns whether the table has the transition.
bool has_step(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to);

// The attributes that the table names, and the capacity.
struct Attribute {
  int bit;
  const char* name;
  // Returns whether a query gave what was set.
  bool (*same)(const ibv_qp_attr& set, const ibv_qp_attr& got);
};
std::span<const Attribute> attributes();

// A QP of any type, connected to itself where its type connects.
class Subject {
 public:
  Subject(const Device& dev, ibv_qp_type type);

  [[nodiscard]] ibv_qp* qp() const { return qp_.get(); }
  [[nodiscard]] ibv_qp_type type() const { return type_; }
  // Valid values of all attributes.
  [[nodiscard]] ibv_qp_attr values() const;
  // Takes the QP from any state through RESET to this one. Skips the rule if the device has no such
  // state.
  void drive(ibv_qp_state state) const;
  // Returns an errno.
  [[nodiscard]] int modify(ibv_qp_attr attr, ibv_qp_state to, int mask) const;
  [[nodiscard]] ibv_qp_attr query() const;
  void require_state(ibv_qp_state state, const std::string& when) const;

 private:
  void step(ibv_qp_state from, ibv_qp_state to) const;
  void wait_drained() const;
  void break_send_queue() const;

  const Device& dev_;
  ibv_qp_type type_;
  CqPtr cq_;
  XrcShare xrc_;
  QpPtr qp_;
  Memory memory_;
};

Rules transitions();
Rules values();
Rules all();

}  // namespace guest::states
