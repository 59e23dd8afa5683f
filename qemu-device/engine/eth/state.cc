// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of the Ethernet function and the addresses of a port.
#include <algorithm>
#include <cstring>
#include <optional>

#include "core/archive.h"
#include "eth/addresses.h"
#include "eth/ethernet.h"
#include "objects/context.h"

namespace tern {

void Addresses::state(Archive& ar) {
  if (!ar.section("addresses")) return;
  for (Entry& e : gids_) {
    ar(e.valid);
    if (e.valid) ar(e.ipv4, e.vlan, e.mac, e.gid);
  }
  ar(mac_, mtu_, speed_, link_up_, enabled_);
  ar.require(mtu_ != 0 && mtu_ <= max_mtu_, "the port has a wrong MTU");
}

// ---- queues ----

// The frame that is being cut is parsed again.
void Ethernet::large_state(Archive& ar, TxLarge& large) const {
  bool cuts = large.segments.has_value();
  ar(cuts);
  if (!cuts) return;
  TxDescriptors& frame = large.descriptors;
  std::uint64_t next = large.next;
  ar(frame.count, frame.offloads, frame.misplaced, frame.txd, large.headers, next);
  if (!ar.reading()) return;
  if (!ar.require(frame.count != 0 && frame.count <= frame.txd.size() && frame.offloads,
                  "a large frame has wrong descriptors"))
    return;
  frame.bytes = 0;
  for (std::uint32_t i = 0; i < frame.count; ++i) {
    if (!(le(frame.txd[i].flags) & TERN_ETH_F_OFFLOAD)) frame.bytes += le(frame.txd[i].length);
  }
  tern_eth_offload offload;
  std::memcpy(&offload, frame.txd.data(), sizeof(offload));
  const std::size_t headers = le(offload.header_len);
  if (!ar.require(headers <= large.headers.size(), "a large frame has too long headers")) return;
  large.next = next;
  large.segments = eth::Outgoing::make(offload, std::span(large.headers).first(headers),
                                       frame.bytes, eth::most_bytes(addresses_.max_mtu()));
  ar.require(large.segments && eth::Outgoing::segments(offload) && next < large.segments->count(),
             "a large frame is wrong");
}

void Ethernet::queue_state(Archive& ar, EthQueue& q, UarPages& uars) {
  q.buffer.state(ar);
  ar(q.pi, q.ci, q.broken, q.turn_left, q.debt);
  q.polled.state(ar);
  if (q.large) large_state(ar, *q.large);
  const bool kicked = ar.member(q.kicked, {&kicked_});
  q.cq->user_state(ar, q.cq_user);
  uars.queue_state(ar, le(q.cmd.uar), q.page_queue);
  ar.require(!kicked || q.transmits(), "a receive queue sends");
}

void Ethernet::queues_state(Archive& ar, const std::function<Cq*(std::uint32_t)>& find_cq,
                            UarPages& uars) {
  ar.list(kicked_);
  queues_.state(ar, [&](std::uint32_t id, EthQueue* q) {
    tern_cmd_create_eth_queue cmd{};
    if (q != nullptr) cmd = q->cmd;
    ar(cmd);
    std::unique_ptr<EthQueue> made;
    if (q == nullptr) {
      Cq* const cq = find_cq(le(cmd.cqn));
      if (!ar.require(check_queue(cmd) == TERN_ST_OK && cq != nullptr &&
                          cq->lane_member.group().fixed() && count_of(cmd.direction) < max_queues(),
                      "an Ethernet queue is wrong"))
        return made;
      made = make_queue(cmd, *cq);
      made->id = id;
      q = made.get();
    }
    queue_state(ar, *q, uars);
    return made;
  });
  find_first_rx();
}

// ---- groups and flows ----

void Ethernet::groups_state(Archive& ar) {
  groups_.state(ar, [&](std::uint32_t, Group* group) {
    tern_cmd_rss cmd{};
    if (group != nullptr) cmd = group->cmd;
    ar(cmd);
    std::unique_ptr<Group> made;
    if (group != nullptr || check_rss(cmd) != TERN_ST_OK) return made;
    made = std::make_unique<Group>(cmd);
    if (resolve(*made) != TERN_ST_OK) {
      made.reset();
    } else {
      refer(*made, true);
    }
    return made;
  });
}

void Ethernet::state(Archive& ar, const std::function<Cq*(std::uint32_t)>& find_cq,
                     UarPages& uars) {
  if (!ar.section("Ethernet queues")) return;
  ar.require(opened_.empty(), "a burst has not ended");
  queues_state(ar, find_cq, uars);
  groups_state(ar);
  steering.state(ar);
  if (!ar.ok()) return;
  if (ar.reading()) {
    steering.for_each_flow([&](std::uint32_t id, const tern_cmd_create_flow& cmd) {
      if (ar.require(check_flow(cmd) == TERN_ST_OK, "a flow goes nowhere")) claim(id, cmd);
    });
  }
  tern_cmd_set_rx_filter filter = filter_;
  ar(filter, default_.dest, default_.id, default_.tag);
  if (ar.reading()) {
    filter_ = filter;
    ar.require(le(filter.num_macs) <= TERN_RX_FILTER_MACS && default_.dest <= TERN_DEST_RSS &&
                   is_destination(default_.dest, default_.id),
               "the receive filter is wrong");
  }
  tx_poller.state(
      ar, [](const EthQueue& q) { return q.id; },
      [this](std::uint32_t id) { return queues_.find(id); });
}

}  // namespace tern
