// SPDX-License-Identifier: GPL-2.0-or-later
// Steering rules and frames, in any order, compared with a plain list of flows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "eth/plain_steering.h"
#include "eth/steering.h"
#include "frames/headers.h"
#include "host.h"
#include "input.h"

namespace tern::fuzz {

namespace {

class Rules {
 public:
  explicit Rules(Input& in) : in_(in), table_(in.u8()) {}

  // The step numbers are the format of the corpus: only add new ones at the end.
  void step() {
    switch (in_.pick(8)) {
      case 0:
      case 1:
      case 2:
        create();
        break;
      case 3:
        destroy();
        break;
      case 4:
      case 5:
        classify();
        break;
      case 6:
        counter();
        break;
      default:
        destroy_counter();
        break;
    }
    expect(table_.flows() == plain_.size(), "flows are miscounted");
  }

  void finish() {
    for (const std::uint32_t id : counters_) {
      tern_rsp_flow_counter reply{};
      expect(table_.query_counter(id, reply) == TERN_ST_OK, "a counter is lost");
      expect(
          std::pair(std::uint64_t{reply.packets}, std::uint64_t{reply.bytes}) == plain_.counted[id],
          "a counter is wrong");
    }
    while (plain_.size() != 0)
      expect(table_.destroy(plain_.remove(plain_.size() / 2)) == TERN_ST_OK, "a flow is lost");
    expect(table_.flows() == 0, "a flow is left");
    for (const std::uint32_t id : counters_)
      expect(table_.destroy_counter(id) == TERN_ST_OK, "a counter is still in use");
  }

 private:
  static void expect(bool holds, const char* what) {
    if (!holds) violation(what);
  }

  // Changes a few bytes of a structure: mask and value of a field, mostly.
  template <class T>
  void change(T& value, T& mask) {
    for (unsigned n = in_.pick(4); n != 0; --n) {
      const std::size_t at = in_.pick(sizeof(T));
      reinterpret_cast<std::uint8_t*>(&mask)[at] = in_.u8();
      reinterpret_cast<std::uint8_t*>(&value)[at] = in_.u8();
    }
  }

  void create() {
    tern_cmd_create_flow cmd{};
    cmd.kind = in_.pick(7);
    cmd.flags = in_.pick(3);
    cmd.priority = in_.pick(4);
    cmd.dest = in_.pick(5);
    cmd.dest_id = in_.u8();
    cmd.tag = in_.u8();
    cmd.layers = in_.u16() & 0xfff;
    cmd.inner_layers = in_.u16() & 0xfff;
    change(cmd.tunnel_value, cmd.tunnel_mask);
    const unsigned counter = in_.pick(8);
    cmd.counter = counter < counters_.size() ? counters_[counter] : TERN_NO_COUNTER;
    change(cmd.value, cmd.mask);
    change(cmd.inner_value, cmd.inner_mask);
    const bool room = plain_.has_room_for(cmd);
    std::uint32_t id = 0;
    const Status status = table_.create(cmd, &id);
    expect(status == TERN_ST_OK || status == TERN_ST_BAD_PARAM || status == TERN_ST_NO_RESOURCE,
           "an unexpected status");
    expect(status == TERN_ST_BAD_PARAM || (status == TERN_ST_OK) == room,
           "the limit of shapes is wrong");
    if (status != TERN_ST_OK) return;
    plain_.add(id, cmd);
    expect(table_.refers_to(cmd.dest, cmd.dest_id), "a destination is not referred to");
  }

  void destroy() {
    const std::size_t at = in_.u8();
    if (at < plain_.size()) {
      expect(table_.destroy(plain_.remove(at)) == TERN_ST_OK, "a flow is lost");
    } else {
      expect(table_.destroy(0) == TERN_ST_BAD_HANDLE, "a flow that never was");
    }
  }

  void counter() {
    std::uint32_t id = 0;
    expect(table_.create_counter(&id) == TERN_ST_OK, "no counter");
    counters_.push_back(id);
    plain_.counted[id] = {};
  }

  void destroy_counter() {
    if (counters_.empty()) return;
    const std::size_t at = in_.pick(static_cast<unsigned>(counters_.size()));
    if (table_.destroy_counter(counters_[at]) != TERN_ST_BUSY)
      counters_.erase(counters_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // The headers are from the input: what the parser makes of frames is another target.
  void classify() {
    frames::Headers headers;
    headers.outer.layers = in_.u16() & 0x7ff;
    change(headers.outer.fields, headers.outer.fields);
    constexpr unsigned kTunnels =
        TERN_LAYER_VXLAN | TERN_LAYER_GRE | TERN_LAYER_MPLS | TERN_LAYER_MPLS_TUNNEL;
    if ((headers.outer.layers & kTunnels) != 0) {
      change(headers.tunnel, headers.tunnel);
      headers.inner.layers = in_.u16() & 0x2bf;
      change(headers.inner.fields, headers.inner.fields);
    }
    // A parser takes no group address from a frame without an Ethernet header.
    if ((headers.outer.layers & TERN_LAYER_ETH) == 0)
      std::memset(headers.outer.fields.dmac, 0, sizeof(headers.outer.fields.dmac));
    const std::size_t bytes = in_.u8();
    const auto first = static_cast<eth::Stage>(in_.pick(eth::kStages));
    const bool both = first == eth::Stage::kSniffer && in_.pick(4) != 0;
    const eth::Stage last = both ? eth::Stage::kReceived : first;
    const auto is = table_.classify(headers, bytes, first, last);
    const auto must = plain_.classify(headers, bytes, first, last);
    expect(is.taken == must.taken && (!is.taken || is.target == must.target),
           "another flow takes the frame");
    expect(std::ranges::equal(std::span(is.copy).first(is.copies), must.copies),
           "other flows get copies");
  }

  Input& in_;
  eth::Steering table_;
  eth::PlainSteering plain_;
  std::vector<std::uint32_t> counters_;
};

}  // namespace

}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tern::fuzz::Input in({data, size});
  tern::fuzz::Rules rules(in);
  while (!in.empty()) rules.step();
  rules.finish();
  return 0;
}
