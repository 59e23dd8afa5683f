// SPDX-License-Identifier: GPL-2.0-or-later
#include "flower.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/tc_act/tc_skbedit.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string_view>

#include "check.h"

namespace guest::steering {

// A message to the kernel, or attributes of one.
class Message {
 public:
  template <class T>
  void put(const T& value) {
    append(&value, sizeof(value));
  }
  template <class T>
  void attribute(std::uint16_t type, const T& value) {
    const std::size_t at = open(type);
    put(value);
    close(at);
  }
  void text(std::uint16_t type, std::string_view value) {
    const std::size_t at = open(type);
    append(value.data(), value.size());
    bytes_.push_back(std::byte{0});
    close(at);
  }
  void add(const Message& attributes) {
    append(attributes.bytes_.data(), attributes.bytes_.size());
  }

  // Starts an attribute that close() ends.
  [[nodiscard]] std::size_t open(std::uint16_t type) {
    const std::size_t at = bytes_.size();
    put(rtattr{0, type});
    return at;
  }
  void close(std::size_t at) {
    const auto length = static_cast<std::uint16_t>(bytes_.size() - at);
    std::memcpy(bytes_.data() + at, &length, sizeof(length));
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
  }
  // The length of a message is in its first bytes.
  [[nodiscard]] std::span<const std::byte> finish() {
    const auto length = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof(length));
    return bytes_;
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::byte> bytes_;
};

namespace {

constexpr std::uint16_t kLastPreference = 0xffff;

Message filter_request(std::uint16_t type, std::uint16_t flags, std::uint32_t interface,
                       std::uint16_t preference) {
  Message message;
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  message.put(header);
  tcmsg filter{};
  filter.tcm_ifindex = static_cast<int>(interface);
  filter.tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
  // All protocols: Linux compares the protocol of a filter with the type of the outer tag.
  filter.tcm_info = std::uint32_t{preference} << 16 | (preference != 0 ? htons(ETH_P_ALL) : 0U);
  message.put(filter);
  return message;
}

// A field under a mask; nothing if the mask is 0.
template <class T>
void masked(Message& keys, std::uint16_t key, const T& value, std::uint16_t key_mask,
            const T& mask) {
  if (mask == T{}) return;
  keys.attribute(key, value);
  keys.attribute(key_mask, mask);
}

template <std::size_t N>
std::array<std::uint8_t, N> first(std::span<const std::uint8_t> bytes) {
  std::array<std::uint8_t, N> result;
  std::ranges::copy(bytes.first(N), result.begin());
  return result;
}

void ip_keys(Message& keys, const Flow& flow) {
  const tern_flow_fields& v = flow.value;
  const tern_flow_fields& m = flow.mask;
  if (has(flow, TERN_LAYER_IPV4)) {
    masked(keys, TCA_FLOWER_KEY_IPV4_SRC, first<4>(v.src_ip), TCA_FLOWER_KEY_IPV4_SRC_MASK,
           first<4>(m.src_ip));
    masked(keys, TCA_FLOWER_KEY_IPV4_DST, first<4>(v.dst_ip), TCA_FLOWER_KEY_IPV4_DST_MASK,
           first<4>(m.dst_ip));
  }
  if (has(flow, TERN_LAYER_IPV6)) {
    masked(keys, TCA_FLOWER_KEY_IPV6_SRC, first<16>(v.src_ip), TCA_FLOWER_KEY_IPV6_SRC_MASK,
           first<16>(m.src_ip));
    masked(keys, TCA_FLOWER_KEY_IPV6_DST, first<16>(v.dst_ip), TCA_FLOWER_KEY_IPV6_DST_MASK,
           first<16>(m.dst_ip));
  }
  masked(keys, TCA_FLOWER_KEY_IP_TOS, v.tos, TCA_FLOWER_KEY_IP_TOS_MASK, m.tos);
  if (has(flow, kIpLayers | kPortLayers)) {
    masked(keys, TCA_FLOWER_KEY_IP_TTL, v.ttl, TCA_FLOWER_KEY_IP_TTL_MASK,
           static_cast<std::uint8_t>(m.ttl | kTtlOfAll));
  }
  const std::uint32_t fragment = htonl(TCA_FLOWER_KEY_FLAGS_IS_FRAGMENT);
  if (m.frag != 0)
    masked(keys, TCA_FLOWER_KEY_FLAGS, v.frag != 0 ? fragment : 0, TCA_FLOWER_KEY_FLAGS_MASK,
           fragment);
  if (has(flow, kPortLayers) || m.protocol != 0)
    keys.attribute(TCA_FLOWER_KEY_IP_PROTO, v.protocol);
  if (has(flow, TERN_LAYER_TCP)) {
    masked(keys, TCA_FLOWER_KEY_TCP_SRC, v.src_port, TCA_FLOWER_KEY_TCP_SRC_MASK, m.src_port);
    masked(keys, TCA_FLOWER_KEY_TCP_DST, v.dst_port, TCA_FLOWER_KEY_TCP_DST_MASK, m.dst_port);
    const std::uint16_t flags = htons(kTcpFlagsOfAll);
    masked(keys, TCA_FLOWER_KEY_TCP_FLAGS, flags, TCA_FLOWER_KEY_TCP_FLAGS_MASK, flags);
  } else if (has(flow, TERN_LAYER_UDP)) {
    masked(keys, TCA_FLOWER_KEY_UDP_SRC, v.src_port, TCA_FLOWER_KEY_UDP_SRC_MASK,
           static_cast<std::uint16_t>(m.src_port | htons(kUdpSourceOfAll)));
    masked(keys, TCA_FLOWER_KEY_UDP_DST, v.dst_port, TCA_FLOWER_KEY_UDP_DST_MASK, m.dst_port);
  }
}

// The types after the tags that a flow takes, 0 for any.
std::vector<std::uint16_t> types_of(const Flow& flow) {
  if (has(flow, kIpLayers)) return {has(flow, TERN_LAYER_IPV4) ? kIpv4Type : kIpv6Type};
  if (has(flow, kPortLayers)) return {kIpv4Type, kIpv6Type};
  if (flow.mask.ether_type != 0) return {ntohs(flow.value.ether_type)};
  return {0};
}

// The keys of a flow for this type, and for a frame with an inner tag of type `inner` if it is not
// 0.
Message keys_of(const Flow& flow, std::uint16_t type, std::uint16_t inner) {
  constexpr std::uint16_t kVlanId = 0x0fff;
  constexpr std::uint16_t kVlanPriority = 0xe000;
  const Match match = match_of(flow);
  Message keys;
  masked(keys, TCA_FLOWER_KEY_ETH_DST, first<6>(match.value.dmac), TCA_FLOWER_KEY_ETH_DST_MASK,
         first<6>(match.mask.dmac));
  masked(keys, TCA_FLOWER_KEY_ETH_SRC, first<6>(match.value.smac), TCA_FLOWER_KEY_ETH_SRC_MASK,
         first<6>(match.mask.smac));
  if (!has(flow, TERN_LAYER_VLAN)) {
    if (type != 0) keys.attribute(TCA_FLOWER_KEY_ETH_TYPE, htons(type));
  } else {
    keys.attribute(TCA_FLOWER_KEY_ETH_TYPE, htons(kVlanType));
    const std::uint16_t tag = ntohs(flow.value.vlan);
    const std::uint16_t mask = ntohs(flow.mask.vlan);
    if ((mask & kVlanId) != 0)
      keys.attribute(TCA_FLOWER_KEY_VLAN_ID, static_cast<std::uint16_t>(tag & kVlanId));
    if ((mask & kVlanPriority) != 0)
      keys.attribute(TCA_FLOWER_KEY_VLAN_PRIO, static_cast<std::uint8_t>(tag >> 13));
    if (inner != 0) keys.attribute(TCA_FLOWER_KEY_VLAN_ETH_TYPE, htons(inner));
    if (type != 0)
      keys.attribute(inner != 0 ? TCA_FLOWER_KEY_CVLAN_ETH_TYPE : TCA_FLOWER_KEY_VLAN_ETH_TYPE,
                     htons(type));
  }
  ip_keys(keys, flow);
  return keys;
}

}  // namespace

Flower::Flower(const char* ingress, const char* sink)
    : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)),
      ingress_(if_nametoindex(ingress)),
      sink_(if_nametoindex(sink)) {
  require(fd_ >= 0, "socket of rtnetlink");
  require(ingress_ != 0, ingress);
  require(sink_ != 0, sink);
}

Flower::~Flower() { close(fd_); }

void Flower::install(std::span<const Flow> flows) {
  clear();
  std::vector<std::uint32_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return tern::le(flows[i].priority); });
  // Filters of one preference would be ordered by their masks.
  std::uint16_t preference = 0;
  for (const std::uint32_t i : order) {
    const Flow& flow = flows[i];
    ++preference;
    for (const std::uint16_t type : types_of(flow)) {
      add(preference, keys_of(flow, type, 0), i + 1);
      if (!has(flow, TERN_LAYER_VLAN) || type == 0) continue;
      // With a VLAN, flower names the type of each tag.
      for (const std::uint16_t inner : {kVlanType, kServiceVlanType})
        add(preference, keys_of(flow, type, inner), i + 1);
    }
  }
  add(kLastPreference, {}, 0);
}

void Flower::clear() {
  Message message = filter_request(RTM_DELTFILTER, 0, ingress_, 0);
  request(message);
}

void Flower::add(std::uint16_t preference, const Message& keys, std::uint32_t mark) {
  Message message = filter_request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, ingress_, preference);
  message.text(TCA_KIND, "flower");
  const std::size_t options = message.open(TCA_OPTIONS);
  message.add(keys);
  const std::size_t actions = message.open(TCA_FLOWER_ACT);
  const auto action = [&](std::uint16_t number, const char* kind, std::uint16_t type,
                          const auto& parameters, const auto& more) {
    const std::size_t at = message.open(number);
    message.text(TCA_ACT_KIND, kind);
    const std::size_t inside = message.open(TCA_ACT_OPTIONS | NLA_F_NESTED);
    message.attribute(type, parameters);
    more();
    message.close(inside);
    message.close(at);
  };
  tc_skbedit edit{};
  edit.action = TC_ACT_PIPE;
  action(1, "skbedit", TCA_SKBEDIT_PARMS, edit, [&] { message.attribute(TCA_SKBEDIT_MARK, mark); });
  tc_mirred redirect{};
  redirect.action = TC_ACT_STOLEN;
  redirect.eaction = TCA_EGRESS_REDIR;
  redirect.ifindex = sink_;
  action(2, "mirred", TCA_MIRRED_PARMS, redirect, [] {});
  message.close(actions);
  message.close(options);
  request(message);
}

void Flower::request(Message& message) {
  const auto bytes = message.finish();
  require(send(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "send to rtnetlink");
  struct {
    nlmsghdr header;
    nlmsgerr error;
  } answer{};
  require(recv(fd_, &answer, sizeof(answer), 0) >=
              static_cast<ssize_t>(sizeof(answer.header) + sizeof(answer.error.error)),
          "answer of rtnetlink");
  errno = -answer.error.error;
  require(answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error == 0, "filter");
}

}  // namespace guest::steering
