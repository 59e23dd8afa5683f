// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of a device: the order of its parts. Lists come before their members, and objects
// before those that refer to them.
#include <algorithm>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/admin.h"
#include "control/admin_commands.h"
#include "control/device.h"
#include "core/archive.h"
#include "core/properties.h"

namespace tern {

namespace {

// "tern" in the byte order of the host, and the version of the layout.
constexpr std::uint32_t kMagic = 0x7465726e;
constexpr std::uint32_t kVersion = 2;

// The command that makes an object.
template <class Command, class T>
Command command_of(Archive& ar, const T* object) {
  Command cmd{};
  if (object != nullptr) cmd = object->command();
  ar(cmd);
  return cmd;
}

template <class T>
Context& lane_of(T& object) {
  if constexpr (requires { object.context(); }) {
    return object.context();
  } else {
    return object.lane_member.group().lane();
  }
}

template <class T>
bool in_group(const T* object, const LaneGroup& group) {
  return object == nullptr || &object->lane_member.group() == &group;
}

// An object of a lane. Reading, where `object` is null, make(lane) makes and returns it, or returns
// null if that is impossible; its own state follows, by item(object, lane).
template <class T, class Make, class Item>
std::unique_ptr<T> object_state(Archive& ar, T* object, const Registry::Lanes& find, Make&& make,
                                Item&& item) {
  std::uint8_t number = object != nullptr ? lane_of(*object).lane : std::uint8_t{0};
  ar(number);
  Context* const lane = find(number);
  std::unique_ptr<T> made;
  if (!ar.require(lane != nullptr, "there is no such lane")) return made;
  if (object == nullptr) {
    made = make(*lane);
    object = made.get();
  }
  if (object == nullptr) return made;
  item(*object, *lane);
  if constexpr (requires { object->lane_member; })
    ar.require(lane->lane == 0 || !object->lane_member.group().fixed(),
               "a group that must stay in lane 0 is in another lane");
  return made;
}

}  // namespace

// ---- life cycle ----

void DeviceStatus::state(Archive& ar) {
  std::uint32_t now = bits();
  std::uint32_t code = fatal_code();
  ar(now, code);
  constexpr std::uint32_t kKnown = TERN_STATUS_READY | TERN_STATUS_ENABLED | TERN_STATUS_FATAL;
  if (!ar.reading() ||
      !ar.require((now & ~kKnown) == 0 && (now & TERN_STATUS_READY) != 0 &&
                      ((now & TERN_STATUS_FATAL) != 0) == (code != TERN_FATAL_NONE),
                  "the device has a wrong status"))
    return;
  bits_.store(now, std::memory_order_relaxed);
  fatal_.store(code, std::memory_order_relaxed);
}

void DeviceState::state(Archive& ar) { ar(serials_, qp_generations_); }

void Admin::state(Archive& ar) {
  if (!ar.section("registers")) return;
  std::uint32_t shift = page_shift_;
  bool has_record = record_.has_value();
  ar(shift, page_shift_reg_, aq_lo_, aq_hi_, acq_lo_, acq_hi_, record_lo_, record_hi_, log_size_,
     tail_, head_, completed_, clock_hi_, has_record);
  polled.state(ar);
  if (!ar.reading()) return;
  if (!ar.require(shift >= TERN_PAGE_SHIFT_MIN && shift <= TERN_PAGE_SHIFT_MAX,
                  "the page size is wrong"))
    return;
  page_shift_ = shift;
  const bool is_enabled = device_.registry.status.bits() & TERN_STATUS_ENABLED;
  if (!ar.require(!has_record || is_enabled, "an admin queue that does not exist is polled"))
    return;
  if (has_record) record_.emplace(std::uint64_t{record_hi_} << 32 | record_lo_);
  // Also a device that has stopped has doorbell pages.
  if (!is_enabled) return;
  if (!ar.require(configured(), "the device could not be enabled") ||
      !ar.require(!enabled() || tail_ - head_ <= 1U << log_size_, "the admin queue overruns"))
    return;
  for (unsigned i = 0; i < device_.lanes(); ++i) device_.lane(i).enable(uar_pages());
}

void Admin::commands_state(Archive& ar) {
  if (!ar.section("commands")) return;
  auto number = static_cast<std::size_t>(ar.count(num_clearing_, clearing_.size()));
  std::set<std::uint32_t> parts;
  for (Clearing& c : std::span(clearing_).first(number)) {
    ar(c.dmn, c.tag, c.out_addr, c.out_len, c.reply);
    if (!ar.reading()) continue;
    ar.require(device_.registry.dm.reserved(c.dmn) && c.out_len <= sizeof(c.reply) &&
                   parts.insert(c.dmn).second,
               "an allocation in progress is wrong");
  }
  if (ar.reading() && ar.ok()) num_clearing_ = number;
  poller_.state(
      ar, [](const Admin&) { return 0U; },
      [this](std::uint32_t id) { return id == 0 ? this : nullptr; });
}

// ---- objects ----

void Registry::groups_state(Archive& ar, const Lanes& lanes) {
  if (!ar.section("protection domains")) return;
  pds.state(ar, [&](std::uint32_t number, Pd* pd) {
    const auto make = [&](Context& lane) {
      auto made = std::make_unique<Pd>(lane);
      made->number = number;
      pd_lanes.set(number, lane.lane);
      return made;
    };
    return object_state(ar, pd, lanes, make, [&](Pd& object, Context& lane) {
      ar(object.privileged);
      ar.group(object.lane_member, lane);
    });
  });
  if (!ar.section("XRC domains")) return;
  xrcds.state(ar, [&](std::uint32_t, Xrcd* xrcd) {
    const auto make = [](Context& lane) { return std::make_unique<Xrcd>(lane); };
    return object_state(ar, xrcd, lanes, make, [&](Xrcd& object, Context& lane) {
      ar.list(object.targets);
      ar.group(object.lane_member, lane);
    });
  });
}

void Registry::queues_state(Archive& ar, const Lanes& lanes) {
  if (!ar.section("event queues")) return;
  eqs.state(ar, [&](std::uint32_t, Eq* eq) {
    const auto cmd = command_of<tern_cmd_create_eq>(ar, eq);
    std::unique_ptr<Eq> made;
    if (eq == nullptr) {
      made = std::make_unique<Eq>(*lanes(0), cmd);
      eq = made.get();
      Eq** const only = cmd.kind == TERN_EQ_ASYNC   ? &async_events.eq
                        : cmd.kind == TERN_EQ_FAULT ? &page_faults.eq
                                                    : nullptr;
      if (only != nullptr && ar.require(*only == nullptr, "there are two such event queues"))
        *only = eq;
    }
    eq->state(ar);
    return made;
  });
  const auto own = [&](auto& object, Context&) { object.state(ar); };
  if (!ar.section("completion queues")) return;
  cqs.state(ar, [&](std::uint32_t number, Cq* cq) {
    const auto cmd = command_of<tern_cmd_create_cq>(ar, cq);
    const auto make = [&](Context& lane) {
      std::unique_ptr<Cq> made;
      const std::uint32_t eqn = le(std::uint32_t{cmd.eqn});
      Eq* const eq = eqn == TERN_NO_EQ ? nullptr : eqs.find(eqn);
      if (!ar.require(eqn == TERN_NO_EQ || (eq != nullptr && eq->kind() == TERN_EQ_COMPLETION &&
                                            eq->users() < eq->size()),
                      "a completion queue has no event queue"))
        return made;
      made = std::make_unique<Cq>(lane, cmd, eq);
      made->set_number(number);
      return made;
    };
    return object_state(ar, cq, lanes, make, own);
  });
  memory.state(ar);
  if (!ar.section("shared receive queues")) return;
  srqs.state(ar, [&](std::uint32_t number, Srq* srq) {
    const auto cmd = command_of<tern_cmd_create_srq>(ar, srq);
    Pd* const pd = pds.find(le(std::uint32_t{cmd.pdn}));
    Xrcd* const xrcd = xrcds.find(le(std::uint32_t{cmd.xrcdn}));
    Cq* const cq = cmd.flags != 0 ? cqs.find(le(std::uint32_t{cmd.cqn})) : nullptr;
    const auto make = [&](Context& lane) {
      std::unique_ptr<Srq> made;
      const bool xrc = cmd.flags == TERN_SRQ_F_XRC;
      if (!ar.require(commands::check_srq(cmd, config) == TERN_ST_OK && pd != nullptr &&
                          xrc == (xrcd != nullptr) && (cmd.flags != 0) == (cq != nullptr),
                      "a shared receive queue has no parents"))
        return made;
      made = std::make_unique<Srq>(lane, cmd, pd->privileged, cq);
      made->set_number(number);
      ++pd->users;
      if (xrc) ++xrcd->users;
      return made;
    };
    return object_state(ar, srq, lanes, make, [&](Srq& object, Context&) {
      object.state(ar);
      const LaneGroup& group = object.lane_member.group();
      ar.require(in_group(pd, group) && in_group(xrcd, group) && in_group(cq, group),
                 "a shared receive queue is not in the group of its parents");
    });
  });
}

void Registry::counters_state(Archive& ar, const Lanes& lanes) {
  if (!ar.section("counters")) return;
  counter_sets.state(ar, [&](std::uint32_t number, CounterSet* set) {
    const auto make = [&](Context& lane) {
      auto made = std::make_unique<CounterSet>(lane);
      made->number = number;
      return made;
    };
    return object_state(ar, set, lanes, make, [&](CounterSet& object, Context& lane) {
      ar(object.values.rdma, object.values.eth);
      ar.group(object.lane_member, lane);
    });
  });
  comp_counters.state(ar, [&](std::uint32_t number, CompCounter* counter) {
    const auto cmd = command_of<tern_cmd_create_comp_cntr>(ar, counter);
    const auto make = [&](Context& lane) {
      auto made = std::make_unique<CompCounter>(lane, cmd);
      made->number = number;
      return made;
    };
    return object_state(ar, counter, lanes, make,
                        [&](CompCounter& object, Context&) { object.state(ar); });
  });
}

// Makes a QP from its command, as CREATE_QP does. Returns null if a parent is missing.
std::unique_ptr<Qp> Registry::make_qp(const tern_cmd_create_qp& cmd, Context& lane) {
  commands::QpParents p;
  if (commands::check_qp(cmd) != TERN_ST_OK ||
      commands::find_qp_parents(*this, cmd, p) != TERN_ST_OK)
    return nullptr;
  const bool home = cmd.type == TERN_QPT_GSI || cmd.type == TERN_QPT_RAW;
  const LaneGroup& group = (p.pd != nullptr ? p.pd->lane_member : p.xrcd->lane_member).group();
  if ((home && !group.fixed()) || &group.lane() != &lane || !in_group(p.send_cq, group) ||
      !in_group(p.recv_cq, group) || !in_group(p.srq, group))
    return nullptr;
  const bool privileged = p.pd != nullptr && p.pd->privileged;
  auto qp = std::make_unique<Qp>(lane, cmd, p.send_cq, p.recv_cq, privileged, p.srq);
  ++(p.pd != nullptr ? p.pd->users : p.xrcd->users);
  return qp;
}

void Registry::qps_state(Archive& ar, const Lanes& lanes) {
  if (!ar.section("queue pairs")) return;
  qps.state(ar, [&](std::uint32_t number, Qp* qp) {
    const auto cmd = command_of<tern_cmd_create_qp>(ar, qp);
    const auto make = [&](Context& lane) {
      auto made = make_qp(cmd, lane);
      if (!ar.require(made != nullptr && (number == kGsiQpn) == (cmd.type == TERN_QPT_GSI),
                      "a queue pair is wrong"))
        return std::unique_ptr<Qp>();
      made->set_number(Qpn(number));
      qp_lanes.set(number, lane.lane);
      ++member_of(*made).group().qps;
      return made;
    };
    return object_state(ar, qp, lanes, make, [&](Qp& object, Context&) {
      object.archive(ar, counter_sets, comp_counters, member_of(object).group());
      if (!object.xrc_target()) return;
      const Xrcd* const xrcd = xrcds.find(object.xrcd());
      const bool listed = ar.member(object.domain_entry(), {&xrcd->targets});
      ar.require(listed, "an XRC domain lacks a target");
    });
  });
  const auto left = ar.count(withheld_qpns_.size(), config.max_qp, sizeof(std::uint32_t));
  withheld_qpns_.resize(left);
  std::vector<bool> withheld = qps.withheld();
  for (std::uint32_t& number : withheld_qpns_) {
    ar(number);
    if (!ar.require(number < withheld.size() && withheld[number], "a QP number is not free"))
      return;
    withheld[number] = false;
  }
}

void Registry::state(Archive& ar, const Lanes& lanes) {
  groups_state(ar, lanes);
  queues_state(ar, lanes);
  counters_state(ar, lanes);
  async_events.state(ar);
  page_faults.state(ar);
  qps_state(ar, lanes);
}

// ---- the device ----

// Properties that software sees, and those that limit it.
void Device::properties_state(Archive& ar) const {
  if (!ar.section("properties")) return;
  const auto compare = [&](std::string_view name, std::uint64_t mine) {
    std::uint64_t theirs = mine;
    ar(theirs);
    if (theirs == mine) return;
    ar.fail("property '" + std::string(name) + "' is " + std::to_string(mine) + ", and was " +
            std::to_string(theirs) + " when the state was saved");
  };
  const Config& config = registry.config;
  for (const Property& property : properties()) {
    if (!std::holds_alternative<std::monostate>(property.member))
      compare(property.name, property.get(config));
  }
  compare("lanes", config.lanes);
  Mac mac = config.mac;
  ar(mac);
  ar.require(mac == config.mac, "property 'mac' differs");
}

void Device::state(Archive& ar) {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  ar(magic);
  if (!ar.require(magic == kMagic, "this is no state of a tern device with this byte order"))
    return;
  ar(version);
  if (!ar.require(version == kVersion, "the state has another version")) return;
  properties_state(ar);
  registry.status.state(ar);
  registry.congestion.state(ar);
  if (!ar.ok()) return;
  admin_->state(ar);
  ar(watched_);
  for_each_lane([&](DataPath& lane) { lane.state(ar, datapath.uars); });
  port.addresses.state(ar);
  // Software chooses the size of pages before it enables the device: nothing exists before.
  const bool enabled = registry.status.bits() & TERN_STATUS_ENABLED;
  const unsigned page_shift = enabled ? admin_->page_shift() : TERN_PAGE_SHIFT_MAX;
  registry.dm.state(ar, page_shift);
  registry.dm_ops.state(ar, page_shift);
  registry.state(ar, [this](std::uint8_t number) {
    return number < (watched_ ? 1U : lanes()) ? static_cast<Context*>(&lane(number)) : nullptr;
  });
  port.multicast.state(ar, [this](std::uint32_t number) {
    Qp* const qp = registry.qps.find(number);
    const bool member =
        qp != nullptr && qp->type() == TERN_QPT_UD && registry.member_of(*qp).group().fixed();
    return member ? qp : nullptr;
  });
  port.ethernet.state(
      ar, [this](std::uint32_t number) { return registry.cqs.find(number); }, datapath.uars);
  port.faults_state(ar);
  for_each_lane([&](DataPath& lane) { lane.poller_state(ar); });
  admin_->commands_state(ar);
  if (!ar.section("serials")) return;
  registry.DeviceState::state(ar);
  for (std::uint32_t& high : uar_clock_hi_) ar(high);
}

// Describes the state, and tells whether all is right. Memory may run out.
bool Device::archive(Archive& ar, std::string& error) try {
  state(ar);
  if (ar.finish()) return true;
  error = ar.error();
  return false;
} catch (const std::bad_alloc&) {
  error = "there is not enough memory for the state of a device";
  return false;
}

bool Device::save(std::vector<std::byte>& to, std::string& error, std::size_t most) {
  const Alone alone(*this);
  unshare();
  Archive ar(to, most);
  return archive(ar, error);
}

bool Device::load(std::span<const std::byte> from, std::string& error) {
  const Alone alone(*this);
  reset();
  Archive ar(from);
  if (!archive(ar, error)) {
    reset();
    return false;
  }
  update_lanes();
  return true;
}

}  // namespace tern
