// SPDX-License-Identifier: GPL-2.0-or-later
// Tuple space search: flows that compare the same bits of the same headers, with the same priority,
// have the same shape. Each shape has a hash table from the values of those bits to the flows, so
// that a frame needs one lookup for each shape.
#include "eth/steering.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/archive.h"
#include "core/limits.h"
#include "core/table.h"
#include "eth/flow_index.h"

namespace tern::eth {

namespace {

constexpr std::uint32_t kFirst = 1;  // number of flows and counters
constexpr std::uint32_t kVniMax = 0xffffff;
constexpr std::uint32_t kTagMax = 0xffffff;
constexpr std::uint16_t kInnerLayers = TERN_LAYER_ETH | TERN_LAYER_VLAN | TERN_LAYER_IPV4 |
                                       TERN_LAYER_IPV6 | TERN_LAYER_TCP | TERN_LAYER_UDP |
                                       TERN_LAYER_ESP | TERN_LAYER_MPLS;
constexpr std::uint16_t kLayers =
    kInnerLayers | TERN_LAYER_VXLAN | TERN_LAYER_GRE | TERN_LAYER_MPLS_TUNNEL;
// A frame has at most one layer of each of these.
constexpr std::array<std::uint16_t, 4> kExclusive = {
    TERN_LAYER_IPV4 | TERN_LAYER_IPV6 | TERN_LAYER_MPLS,
    TERN_LAYER_TCP | TERN_LAYER_UDP | TERN_LAYER_ESP | TERN_LAYER_GRE | TERN_LAYER_MPLS,
    TERN_LAYER_TCP | TERN_LAYER_ESP | TERN_LAYER_GRE | TERN_LAYER_MPLS | TERN_LAYER_VXLAN,
    TERN_LAYER_TCP | TERN_LAYER_ESP | TERN_LAYER_MPLS | TERN_LAYER_VXLAN | TERN_LAYER_MPLS_TUNNEL};

// All fields that a flow can compare, or the mask of those that it does compare.
struct Fields {
  tern_flow_fields outer{};
  tern_flow_tunnel tunnel{};
  std::uint32_t zero = 0;
  tern_flow_fields inner{};
};
constexpr std::size_t kWords = sizeof(Fields) / sizeof(std::uint64_t);
constexpr std::size_t kOuterWords = 11;
static_assert(sizeof(Fields) == 160 &&
              offsetof(Fields, inner) == kOuterWords * sizeof(std::uint64_t));
using Words = std::array<std::uint64_t, kWords>;

Words words(const Fields& fields) { return std::bit_cast<Words>(fields); }

Fields mask_of(const tern_cmd_create_flow& cmd) {
  return {.outer = cmd.mask, .tunnel = cmd.tunnel_mask, .inner = cmd.inner_mask};
}

// Bits of the fields that the layers have.
tern_flow_fields fields_of(std::uint16_t layers) {
  tern_flow_fields f{};
  const auto set = [](auto& field) { std::memset(&field, 0xff, sizeof(field)); };
  if ((layers & TERN_LAYER_ETH) != 0) {
    set(f.dmac);
    set(f.smac);
    set(f.ether_type);
  }
  if ((layers & TERN_LAYER_VLAN) != 0) set(f.vlan);
  if ((layers & (TERN_LAYER_IPV4 | TERN_LAYER_IPV6)) != 0) {
    const std::size_t address = (layers & TERN_LAYER_IPV4) != 0 ? 4 : 16;
    std::memset(f.src_ip, 0xff, address);
    std::memset(f.dst_ip, 0xff, address);
    set(f.tos);
    set(f.ttl);
    set(f.protocol);
    f.frag = TERN_FRAG_ANY;
  }
  if ((layers & TERN_LAYER_IPV4) != 0) f.frag |= TERN_FRAG_DONT | TERN_FRAG_MORE;
  if ((layers & TERN_LAYER_IPV6) != 0) {
    constexpr std::array<std::uint8_t, 4> kLabel = {0, 0x0f, 0xff, 0xff};
    std::memcpy(&f.flow_label, kLabel.data(), kLabel.size());
  }
  if ((layers & (TERN_LAYER_TCP | TERN_LAYER_UDP)) != 0) {
    set(f.src_port);
    set(f.dst_port);
  }
  if ((layers & TERN_LAYER_ESP) != 0) {
    set(f.spi);
    set(f.esp_seq);
  }
  if ((layers & (TERN_LAYER_MPLS | TERN_LAYER_MPLS_TUNNEL)) != 0) set(f.mpls);
  return f;
}

// Bits of the fields that the tunnels have.
tern_flow_tunnel tunnel_of(std::uint16_t layers) {
  tern_flow_tunnel t{};
  if ((layers & TERN_LAYER_GRE) != 0) std::memset(&t, 0xff, sizeof(t));
  t.vni = le((layers & TERN_LAYER_VXLAN) != 0 ? kVniMax : 0U);
  return t;
}

bool sane(std::uint16_t layers, std::uint16_t allowed) {
  return (layers & ~allowed) == 0 && std::ranges::all_of(kExclusive, [&](std::uint16_t group) {
           return std::popcount(static_cast<unsigned>(layers & group)) <= 1;
         });
}

bool matches_headers(std::uint8_t kind) {
  return kind == TERN_FLOW_NORMAL || kind == TERN_FLOW_DATAGRAM || kind == TERN_FLOW_SENT;
}

Stage stage_of(std::uint8_t kind) {
  switch (kind) {
    case TERN_FLOW_SNIFFER:
      return Stage::kSniffer;
    case TERN_FLOW_DATAGRAM:
      return Stage::kDatagram;
    case TERN_FLOW_SENT:
      return Stage::kSent;
    default:
      return Stage::kReceived;
  }
}

// Whether a CQE can have the flow's tag.
bool tags(std::uint8_t kind) { return kind != TERN_FLOW_DATAGRAM && kind != TERN_FLOW_SENT; }

// Whether the flow's kind, layers and masks make sense together.
bool sane(const tern_cmd_create_flow& cmd, const Fields& mask) {
  const std::uint16_t layers = le(cmd.layers);
  const std::uint16_t inner = le(cmd.inner_layers);
  if (cmd.kind > TERN_FLOW_SENT || (cmd.flags & ~TERN_FLOW_F_CONTINUE) != 0 ||
      le(cmd.tag) > (tags(cmd.kind) ? kTagMax : 0))
    return false;
  if (!matches_headers(cmd.kind) && (layers != 0 || inner != 0)) return false;
  if (!sane(layers, kLayers) || !sane(inner, kInnerLayers)) return false;
  Fields allowed;
  allowed.outer = fields_of(layers);
  allowed.tunnel = tunnel_of(layers);
  allowed.inner = fields_of(inner);
  const Words a = words(allowed);
  const Words m = words(mask);
  for (std::size_t i = 0; i < kWords; ++i) {
    if ((m[i] & ~a[i]) != 0) return false;
  }
  return true;
}

std::uint64_t destination(std::uint8_t dest, std::uint32_t id) {
  return std::uint64_t{dest} << 32 | id;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// A secret from a seed (SplitMix64).
std::uint64_t secret(std::uint64_t seed) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

struct Counter {
  std::uint32_t number = 0;
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint32_t users = 0;
};

struct Shape;
struct Group;

struct Flow {
  Flow* previous = nullptr;
  Flow* next = nullptr;
  std::uint64_t sequence = 0;  // of creation
  Target target;
  Counter* counter = nullptr;
  Group* group = nullptr;
  Shape* shape = nullptr;
  bool continues = false;  // other flows see the frame, too
};

// Flows in the order of their creation.
struct Chain {
  Flow* first = nullptr;
  Flow* last = nullptr;

  void append(Flow& flow) {
    flow.previous = last;
    (last != nullptr ? last->next : first) = &flow;
    last = &flow;
  }
  void remove(Flow& flow) {
    (flow.previous != nullptr ? flow.previous->next : first) = flow.next;
    (flow.next != nullptr ? flow.next->previous : last) = flow.previous;
  }
};

// Flows of a shape that match the same frames.
struct Group {
  Chain takers;
  Chain continuing;
  std::uint32_t hash = 0;
  Words key{};  // values of the words that the shape compares

  [[nodiscard]] Chain& chain(const Flow& flow) { return flow.continues ? continuing : takers; }
};

struct Shape {
  std::uint8_t kind = TERN_FLOW_NORMAL;
  std::uint16_t layers = 0;
  std::uint16_t inner_layers = 0;
  std::uint32_t priority = 0;
  std::size_t count = 0;                     // words compared
  std::array<std::uint8_t, kWords> where{};  // their indices
  Words mask{};                              // their masks
  Words whole{};                             // the mask by which the shape is found
  FlowIndex<Group> groups;

  [[nodiscard]] Stage stage() const { return stage_of(kind); }
  [[nodiscard]] bool applies(const frames::Headers& headers) const {
    if (kind == TERN_FLOW_MULTICAST)
      return headers.outer.layers != 0 && (headers.outer.fields.dmac[0] & 1) != 0;
    return (layers & ~headers.outer.layers) == 0 && (inner_layers & ~headers.inner.layers) == 0;
  }
};

// The words of a frame. Leaves the inner words unset if the frame has no inner headers: no shape
// that applies compares them.
void fill(Words& frame, const frames::Headers& headers) {
  std::memcpy(frame.data(), &headers.outer.fields, sizeof(headers.outer.fields));
  std::memcpy(reinterpret_cast<std::byte*>(frame.data()) + offsetof(Fields, tunnel),
              &headers.tunnel, sizeof(headers.tunnel));
  if (headers.inner.layers != 0)
    std::memcpy(frame.data() + kOuterWords, &headers.inner.fields, sizeof(headers.inner.fields));
}

}  // namespace

struct Steering::State {
  explicit State(std::uint64_t seed) : start(secret(seed)), factor(secret(~seed) | 1) {}

  struct Key {
    Words words;
    std::uint32_t hash;
  };
  [[nodiscard]] Key key_of(const Shape& shape, const Words& fields) const {
    Key key;
    std::uint64_t hash = start;
    for (std::size_t i = 0; i < shape.count; ++i) {
      key.words[i] = fields[shape.where[i]] & shape.mask[i];
      hash = multiply(hash ^ key.words[i], factor);
    }
    key.hash = static_cast<std::uint32_t>(hash ^ hash >> 32);
    return key;
  }
  [[nodiscard]] Group* find_group(const Shape& shape, const Key& key) const {
    return shape.groups.find(key.hash, [&](const Group& group) {
      return std::memcmp(group.key.data(), key.words.data(), shape.count * sizeof(std::uint64_t)) ==
             0;
    });
  }
  // Index of the first shape of a stage.
  [[nodiscard]] std::size_t begin(Stage stage) const {
    const auto at = static_cast<std::size_t>(stage);
    return std::accumulate(in_stage.begin(), in_stage.begin() + static_cast<std::ptrdiff_t>(at),
                           std::size_t{0});
  }
  [[nodiscard]] std::size_t& count(Stage stage) {
    return in_stage[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] Status check(const tern_cmd_create_flow& cmd) const;
  [[nodiscard]] Status link(Flow& flow, const tern_cmd_create_flow& cmd);
  [[nodiscard]] static tern_cmd_create_flow command_of(const Flow& flow);
  Shape* shape_of(const tern_cmd_create_flow& cmd, const Fields& mask);
  Group* group_of(Shape& shape, const Fields& value) const;
  void forget_if_empty(const Shape& shape);

  std::uint64_t start;
  std::uint64_t factor;
  Table<Flow> flows{kFirst, kMaxFlows};
  Table<Counter> counters{kFirst, kMaxFlowCounters};
  std::vector<std::unique_ptr<Shape>> shapes;           // by stage, then by priority
  std::array<std::size_t, kStages> in_stage{};          // shapes
  std::map<std::uint64_t, std::uint32_t> destinations;  // flows that refer to one
  std::uint64_t next_sequence = 0;
};

// Returns the shape of a flow, a new one if necessary; null if there are too many.
Shape* Steering::State::shape_of(const tern_cmd_create_flow& cmd, const Fields& mask) {
  auto shape = std::make_unique<Shape>();
  shape->kind = cmd.kind;
  shape->priority = le(cmd.priority);
  shape->layers = le(cmd.layers);
  shape->inner_layers = le(cmd.inner_layers);
  shape->whole = words(mask);
  const auto same = std::ranges::find_if(shapes, [&](const auto& s) {
    return s->kind == shape->kind && s->priority == shape->priority && s->layers == shape->layers &&
           s->inner_layers == shape->inner_layers && s->whole == shape->whole;
  });
  if (same != shapes.end()) return same->get();
  if (shapes.size() == kMaxFlowShapes) return nullptr;
  for (std::size_t i = 0; i < kWords; ++i) {
    if (shape->whole[i] == 0) continue;
    shape->where[shape->count] = static_cast<std::uint8_t>(i);
    shape->mask[shape->count++] = shape->whole[i];
  }
  ++count(shape->stage());
  const auto before = [](const auto& a, const auto& b) {
    return std::pair(a->stage(), a->priority) < std::pair(b->stage(), b->priority);
  };
  const auto at = std::ranges::upper_bound(shapes, shape, before);
  return shapes.insert(at, std::move(shape))->get();
}

// Returns the group of flows with these values, a new one if necessary; null if too many collide.
Group* Steering::State::group_of(Shape& shape, const Fields& value) const {
  const Key key = key_of(shape, words(value));
  if (Group* const group = find_group(shape, key)) return group;
  auto group = std::make_unique<Group>();
  group->hash = key.hash;
  std::copy_n(key.words.begin(), shape.count, group->key.begin());
  return shape.groups.insert(key.hash, std::move(group));
}

void Steering::State::forget_if_empty(const Shape& shape) {
  if (shape.groups.count() != 0) return;
  --count(shape.stage());
  std::erase_if(shapes, [&](const auto& s) { return s.get() == &shape; });
}

Steering::Steering(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}
Steering::~Steering() = default;

Status Steering::State::check(const tern_cmd_create_flow& cmd) const {
  if (!sane(cmd, mask_of(cmd))) return TERN_ST_BAD_PARAM;
  const bool counts = le(cmd.counter) != TERN_NO_COUNTER;
  return counts && counters.find(le(cmd.counter)) == nullptr ? TERN_ST_BAD_HANDLE : TERN_ST_OK;
}

// Makes the flow the last one of those created. check() has returned TERN_ST_OK.
Status Steering::State::link(Flow& flow, const tern_cmd_create_flow& cmd) {
  Shape* const shape = shape_of(cmd, mask_of(cmd));
  if (shape == nullptr) return TERN_ST_NO_RESOURCE;
  Group* const group =
      group_of(*shape, {.outer = cmd.value, .tunnel = cmd.tunnel_value, .inner = cmd.inner_value});
  if (group == nullptr) {
    forget_if_empty(*shape);
    return TERN_ST_NO_RESOURCE;
  }
  flow.target = {cmd.dest, le(cmd.dest_id), le(cmd.tag)};
  flow.counter = le(cmd.counter) != TERN_NO_COUNTER ? counters.find(le(cmd.counter)) : nullptr;
  flow.group = group;
  flow.shape = shape;
  flow.continues = shape->stage() == Stage::kSniffer || (cmd.flags & TERN_FLOW_F_CONTINUE) != 0;
  group->chain(flow).append(flow);
  if (flow.counter != nullptr) ++flow.counter->users;
  ++destinations[destination(flow.target.dest, flow.target.id)];
  return TERN_ST_OK;
}

Status Steering::create(const tern_cmd_create_flow& cmd, std::uint32_t* id) {
  State& s = *state_;
  if (const Status st = s.check(cmd); st != TERN_ST_OK) return st;
  if (s.flows.full()) return TERN_ST_NO_RESOURCE;
  auto flow = std::make_unique<Flow>();
  flow->sequence = s.next_sequence;
  if (const Status st = s.link(*flow, cmd); st != TERN_ST_OK) return st;
  ++s.next_sequence;
  *id = s.flows.insert(std::move(flow));
  return TERN_ST_OK;
}

// The command that creates such a flow. Bits that it does not compare are 0.
tern_cmd_create_flow Steering::State::command_of(const Flow& flow) {
  const Shape& shape = *flow.shape;
  Words value{};
  for (std::size_t i = 0; i < shape.count; ++i) value[shape.where[i]] = flow.group->key[i];
  const auto mask = std::bit_cast<Fields>(shape.whole);
  const auto values = std::bit_cast<Fields>(value);
  tern_cmd_create_flow cmd{};
  cmd.kind = shape.kind;
  cmd.port = 1;
  cmd.priority = le(shape.priority);
  cmd.layers = le(shape.layers);
  cmd.inner_layers = le(shape.inner_layers);
  if (flow.continues && shape.kind != TERN_FLOW_SNIFFER) cmd.flags = TERN_FLOW_F_CONTINUE;
  cmd.dest = flow.target.dest;
  cmd.dest_id = le(flow.target.id);
  cmd.tag = le(flow.target.tag);
  cmd.counter = le(flow.counter != nullptr ? flow.counter->number : TERN_NO_COUNTER);
  cmd.mask = mask.outer;
  cmd.tunnel_mask = mask.tunnel;
  cmd.inner_mask = mask.inner;
  cmd.value = values.outer;
  cmd.tunnel_value = values.tunnel;
  cmd.inner_value = values.inner;
  return cmd;
}

void Steering::state(Archive& ar) {
  State& s = *state_;
  if (!ar.section("flows")) return;
  s.counters.state(ar, [&](std::uint32_t number, Counter* counter) {
    std::unique_ptr<Counter> made;
    if (counter == nullptr) {
      made = std::make_unique<Counter>();
      counter = made.get();
    }
    counter->number = number;
    ar(counter->packets, counter->bytes);
    return made;
  });
  ar(s.next_sequence);
  std::vector<std::pair<Flow*, tern_cmd_create_flow>> flows;
  s.flows.state(ar, [&](std::uint32_t, Flow* flow) {
    tern_cmd_create_flow cmd{};
    std::uint64_t sequence = 0;
    if (flow != nullptr) {
      cmd = State::command_of(*flow);
      sequence = flow->sequence;
    }
    ar(cmd, sequence);
    std::unique_ptr<Flow> made;
    if (flow != nullptr || s.check(cmd) != TERN_ST_OK || sequence >= s.next_sequence) return made;
    made = std::make_unique<Flow>();
    made->sequence = sequence;
    flows.emplace_back(made.get(), cmd);
    return made;
  });
  if (!ar.ok()) return;  // the last one may be gone
  std::ranges::sort(flows, {}, [](const auto& f) { return f.first->sequence; });
  for (auto& [flow, cmd] : flows) {
    if (!ar.require(s.link(*flow, cmd) == TERN_ST_OK, "there are too many flows")) return;
  }
}

void Steering::for_each_flow(
    const std::function<void(std::uint32_t, const tern_cmd_create_flow&)>& f) const {
  state_->flows.for_each(
      [&](std::uint32_t id, const Flow& flow) { f(id, State::command_of(flow)); });
}

Status Steering::destroy(std::uint32_t id) {
  State& s = *state_;
  Flow* const flow = s.flows.find(id);
  if (flow == nullptr) return TERN_ST_BAD_HANDLE;
  Group* const group = flow->group;
  group->chain(*flow).remove(*flow);
  if (flow->counter != nullptr) --flow->counter->users;
  const auto refers = s.destinations.find(destination(flow->target.dest, flow->target.id));
  if (--refers->second == 0) s.destinations.erase(refers);
  if (group->takers.first == nullptr && group->continuing.first == nullptr) {
    flow->shape->groups.erase(group->hash, group);
    s.forget_if_empty(*flow->shape);
  }
  s.flows.erase(id);
  return TERN_ST_OK;
}

Status Steering::create_counter(std::uint32_t* id) {
  if (state_->counters.full()) return TERN_ST_NO_RESOURCE;
  auto counter = std::make_unique<Counter>();
  Counter* const made = counter.get();
  *id = made->number = state_->counters.insert(std::move(counter));
  return TERN_ST_OK;
}

Status Steering::query_counter(std::uint32_t id, tern_rsp_flow_counter& reply) const {
  const Counter* const counter = state_->counters.find(id);
  if (counter == nullptr) return TERN_ST_BAD_HANDLE;
  reply.packets = le(counter->packets);
  reply.bytes = le(counter->bytes);
  return TERN_ST_OK;
}

Status Steering::destroy_counter(std::uint32_t id) {
  const Counter* const counter = state_->counters.find(id);
  if (counter == nullptr) return TERN_ST_BAD_HANDLE;
  if (counter->users != 0) return TERN_ST_BUSY;
  state_->counters.erase(id);
  return TERN_ST_OK;
}

void Steering::reset() {
  State& s = *state_;
  s.shapes.clear();
  s.in_stage = {};
  s.flows.clear();
  s.counters.clear();
  s.destinations.clear();
}

bool Steering::any(Stage stage) const { return state_->count(stage) != 0; }
bool Steering::refers_to(std::uint8_t dest, std::uint32_t id) const {
  return state_->destinations.contains(destination(dest, id));
}
std::uint32_t Steering::flows() const { return state_->flows.count(); }
std::uint32_t Steering::counters() const { return state_->counters.count(); }

namespace {

// The flows with CONTINUE that a frame matches at one priority, by creation.
class Matches {
 public:
  // Adds the flows of a group, but no more than `room` of all groups together.
  void add(const Group& group, std::size_t room) {
    std::size_t n = 0;
    for (Flow* flow = group.continuing.first; flow != nullptr && n < room; flow = flow->next, ++n) {
      if (count_ < room) {
        ++count_;
      } else if (flows_[count_ - 1]->sequence < flow->sequence) {
        return;
      }
      std::size_t at = count_ - 1;
      for (; at > 0 && flows_[at - 1]->sequence > flow->sequence; --at) flows_[at] = flows_[at - 1];
      flows_[at] = flow;
    }
  }
  [[nodiscard]] std::span<Flow* const> flows() const { return std::span(flows_).first(count_); }

 private:
  std::array<Flow*, Steering::kMaxCopies> flows_;
  std::size_t count_ = 0;
};

void count(Flow& flow, std::size_t bytes) {
  if (flow.counter == nullptr) return;
  ++flow.counter->packets;
  flow.counter->bytes += bytes;
}

}  // namespace

Steering::Verdict Steering::classify(const frames::Headers& headers, std::size_t bytes,
                                     Stage first_stage, Stage last_stage) {
  State& s = *state_;
  Verdict verdict;
  std::size_t room = kMaxCopies;
  const auto copy = [&](Flow& flow) {
    --room;
    count(flow, bytes);
    if (flow.target.dest != TERN_DEST_NONE) verdict.copy[verdict.copies++] = flow.target;
  };
  Words frame;
  fill(frame, headers);
  const std::size_t end = s.begin(last_stage) + s.count(last_stage);
  for (std::size_t i = s.begin(first_stage); i < end;) {
    const Shape& first = *s.shapes[i];
    Matches matches;
    Flow* taker = nullptr;
    for (; i < end && s.shapes[i]->priority == first.priority &&
           s.shapes[i]->stage() == first.stage();
         ++i) {
      const Shape& shape = *s.shapes[i];
      ++verdict.lookups;
      if (!shape.applies(headers)) continue;
      const Group* const group = s.find_group(shape, s.key_of(shape, frame));
      if (group == nullptr) continue;
      Flow* const oldest = group->takers.first;
      if (oldest != nullptr && (taker == nullptr || oldest->sequence < taker->sequence))
        taker = oldest;
      if (group->continuing.first != nullptr) matches.add(*group, room);
    }
    for (Flow* const flow : matches.flows()) {
      if (taker == nullptr || flow->sequence < taker->sequence) copy(*flow);
    }
    if (taker == nullptr) continue;
    count(*taker, bytes);
    verdict.taken = true;
    verdict.target = taker->target;
    break;
  }
  return verdict;
}

}  // namespace tern::eth
