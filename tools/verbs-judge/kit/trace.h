// SPDX-License-Identifier: GPL-2.0-or-later
// What a test did and what came back, in lines for people. Nothing is recorded unless it is asked
// for, so hot loops only test a flag.
#pragma once

#include <infiniband/verbs.h>

#include <format>
#include <span>
#include <string>
#include <vector>

namespace guest {

namespace detail {
inline bool is_tracing = false;
void add_trace(std::string line);
void trace_completions(std::span<const ibv_wc> wcs);
}  // namespace detail

// Call this before a thread is started that may trace.
inline void set_tracing(bool on) { detail::is_tracing = on; }
inline bool tracing() { return detail::is_tracing; }

template <typename... Args>
void trace(std::format_string<Args...> text, Args&&... args) {
  if (tracing()) [[unlikely]] {
    detail::add_trace(std::format(text, std::forward<Args>(args)...));
  }
}

// Returns the lines since the last call, in order: at most 40, of which one may tell how many are
// left out in the middle. Equal neighbours are one line with their number.
std::vector<std::string> take_trace();

// A part of a key that tells keys of one test apart.
std::string key_tag(std::uint32_t key);
std::string opcode_name(ibv_wr_opcode opcode);
std::string access_text(unsigned access);
const char* state_name(ibv_qp_state state);
inline void trace_completions(std::span<const ibv_wc> wcs) {
  if (tracing()) [[unlikely]]
    detail::trace_completions(wcs);
}

}  // namespace guest
