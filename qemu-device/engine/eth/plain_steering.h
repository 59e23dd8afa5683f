// SPDX-License-Identifier: GPL-2.0-or-later
// Steering as its definition has it, for tests to compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/limits.h"
#include "eth/steering.h"

namespace tern::eth {

inline bool operator==(const Target& a, const Target& b) {
  return a.dest == b.dest && a.id == b.id && a.tag == b.tag;
}

// All flows in a list, and each compared with each frame bit by bit.
class PlainSteering {
 public:
  struct Flow {
    std::uint32_t id;
    tern_cmd_create_flow cmd;
  };

  using Shape = std::tuple<unsigned, std::uint32_t, unsigned, unsigned, std::string, std::string,
                           std::string>;
  [[nodiscard]] static Shape shape_of(const tern_cmd_create_flow& c) {
    const auto text = [](const auto& f) {
      return std::string(reinterpret_cast<const char*>(&f), sizeof(f));
    };
    return {c.kind,       le(c.priority),    le(c.layers), le(c.inner_layers), text(c.tunnel_mask),
            text(c.mask), text(c.inner_mask)};
  }
  [[nodiscard]] bool has_room_for(const tern_cmd_create_flow& cmd) const {
    return shapes_.size() < kMaxFlowShapes || shapes_.contains(shape_of(cmd));
  }
  void add(std::uint32_t id, const tern_cmd_create_flow& cmd) {
    ++shapes_[shape_of(cmd)];
    flows_.push_back({id, cmd});
  }
  std::uint32_t remove(std::size_t at) {
    const Flow flow = flows_[at];
    if (--shapes_[shape_of(flow.cmd)] == 0) shapes_.erase(shape_of(flow.cmd));
    flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(at));
    return flow.id;
  }
  [[nodiscard]] std::size_t size() const { return flows_.size(); }

  struct Verdict {
    bool taken = false;
    Target target;
    std::vector<Target> copies;
  };
  Verdict classify(const frames::Headers& h, std::size_t bytes, Stage first, Stage last) {
    std::vector<const tern_cmd_create_flow*> order;
    for (const Flow& f : flows_) order.push_back(&f.cmd);
    std::ranges::stable_sort(order, {}, [](const auto* c) {
      return std::pair(c->kind != TERN_FLOW_SNIFFER, le(c->priority));
    });
    Verdict v;
    std::size_t beside = 0;
    for (const tern_cmd_create_flow* c : order) {
      const bool sniffer = c->kind == TERN_FLOW_SNIFFER;
      const Stage stage = stage_of(*c);
      if (stage < first || stage > last || !matches(*c, h)) continue;
      const bool copies = sniffer || (c->flags & TERN_FLOW_F_CONTINUE) != 0;
      if (copies && beside++ >= Steering::kMaxCopies) continue;
      if (le(c->counter) != TERN_NO_COUNTER) {
        ++counted[le(c->counter)].first;
        counted[le(c->counter)].second += bytes;
      }
      const Target target{c->dest, le(c->dest_id), le(c->tag)};
      if (!copies) {
        v.taken = true;
        v.target = target;
        break;
      }
      if (c->dest != TERN_DEST_NONE) v.copies.push_back(target);
    }
    return v;
  }

  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> counted;

 private:
  static Stage stage_of(const tern_cmd_create_flow& c) {
    if (c.kind == TERN_FLOW_SNIFFER) return Stage::kSniffer;
    if (c.kind == TERN_FLOW_DATAGRAM) return Stage::kDatagram;
    return c.kind == TERN_FLOW_SENT ? Stage::kSent : Stage::kReceived;
  }
  template <class T>
  static bool equal(const T& value, const T& mask, const T& frame) {
    const auto* const v = reinterpret_cast<const std::uint8_t*>(&value);
    const auto* const m = reinterpret_cast<const std::uint8_t*>(&mask);
    const auto* const f = reinterpret_cast<const std::uint8_t*>(&frame);
    for (std::size_t i = 0; i < sizeof(frame); ++i) {
      if (((v[i] ^ f[i]) & m[i]) != 0) return false;
    }
    return true;
  }
  static bool matches(const tern_cmd_create_flow& c, const frames::Headers& h) {
    if (c.kind == TERN_FLOW_ALL || c.kind == TERN_FLOW_SNIFFER) return true;
    if (c.kind == TERN_FLOW_MULTICAST) return (h.outer.fields.dmac[0] & 1) != 0;
    for (unsigned layer = 1; layer != 0x800; layer <<= 1) {
      if ((le(c.layers) & layer) != 0 && (h.outer.layers & layer) == 0) return false;
      if ((le(c.inner_layers) & layer) != 0 && (h.inner.layers & layer) == 0) return false;
    }
    return equal(c.tunnel_value, c.tunnel_mask, h.tunnel) &&
           equal(c.value, c.mask, h.outer.fields) &&
           equal(c.inner_value, c.inner_mask, h.inner.fields);
  }

  std::vector<Flow> flows_;  // by creation
  std::map<Shape, unsigned> shapes_;
};

}  // namespace tern::eth
