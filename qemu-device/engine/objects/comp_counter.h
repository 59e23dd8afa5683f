// SPDX-License-Identifier: GPL-2.0-or-later
// Completion counters (CREATE_COMP_CNTR): counts of completions in the memory of software.
#pragma once

#include <array>
#include <cstdint>

#include "core/lane_group.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

class Archive;
class Context;

class CompCounter {
 public:
  CompCounter(Context& lane, const tern_cmd_create_comp_cntr& cmd);
  // Checks the command, and stores the values.
  [[nodiscard]] Status init();
  // Saved state, besides what the command has. Reading replaces init().
  [[nodiscard]] tern_cmd_create_comp_cntr command() const;
  void state(Archive& ar);
  [[nodiscard]] Context& context() const { return *context_; }
  // Counts the completion of a message of `bytes` bytes, after its data are stored.
  void count(bool success, std::uint64_t bytes);
  // MODIFY_COMP_CNTR.
  [[nodiscard]] Status modify(const tern_cmd_modify_comp_cntr& cmd);

  std::uint32_t number = 0;
  std::uint32_t users = 0;  // operations of QPs

 private:
  [[nodiscard]] bool valid() const;
  [[nodiscard]] bool store(unsigned entry, std::uint64_t value) const;

  Context* context_;
  std::array<std::uint64_t, 2> values_{};  // by TERN_COMP_CNTR_*
  std::array<std::uint64_t, 2> addresses_;
  std::uint8_t type_;

 public:
  LaneMember lane_member;
};

}  // namespace tern
