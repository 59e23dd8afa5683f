// SPDX-License-Identifier: GPL-2.0-or-later
// What the device says about itself, its ports, their GIDs and P_Keys.
#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>

#include "device.h"

namespace guest::device {
namespace {

// Calls `body` with the device in a list of its own.
template <typename Body>
void with_listed(const Env& env, const Body& body) {
  const std::string name = ibv_get_device_name(env.dev.context()->device);
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  require(list != nullptr && count > 0, "ibv_get_device_list: {} devices", count);
  std::set<std::string> names;
  ibv_device* found = nullptr;
  int listed = 0;
  for (; list[listed] != nullptr; listed++) {
    names.insert(ibv_get_device_name(list[listed]));
    if (name == ibv_get_device_name(list[listed])) found = list[listed];
  }
  require(listed == count && names.size() == static_cast<std::size_t>(count),
          "{} devices with {} names, not {}", listed, names.size(), count);
  require(found != nullptr, "{} is not in the list", name);
  body(found);
  ibv_free_device_list(list);
}

// The list may be freed when the devices in use are open.
void listed(const Env& env) {
  ContextPtr context;
  with_listed(env, [&](ibv_device* device) { context.reset(ibv_open_device(device)); });
  require(context != nullptr, "ibv_open_device: {}", errno_name(errno));
  ibv_device_attr attr{};
  require_err(ibv_query_device(context.get(), &attr), 0, "ibv_query_device");
  require(attr.node_guid == env.dev.attr().node_guid, "another device");
  require(std::string(ibv_get_device_name(context->device)) ==
              ibv_get_device_name(env.dev.context()->device),
          "another name");
}

void guid(const Env& env) {
  with_listed(env, [&](ibv_device* device) {
    require(ibv_get_device_guid(device) == env.dev.attr().node_guid, "two GUIDs of one node");
  });
  require_usual(env.dev.attr().node_guid != 0, "no GUID");
}

void index(const Env& env) {
  std::set<int> all;
  with_listed(env, [&](ibv_device* device) { all.insert(ibv_get_device_index(device)); });
  with_listed(env, [&](ibv_device* device) { all.insert(ibv_get_device_index(device)); });
  require(all.size() == 1 && *all.begin() >= -1, "index {}, then another", *all.begin());
}

void node_type(const Env& env) {
  const ibv_device* const device = env.dev.context()->device;
  const std::map<int, int> transports{{IBV_NODE_CA, IBV_TRANSPORT_IB},
                                      {IBV_NODE_RNIC, IBV_TRANSPORT_IWARP},
                                      {IBV_NODE_USNIC, IBV_TRANSPORT_USNIC},
                                      {IBV_NODE_USNIC_UDP, IBV_TRANSPORT_USNIC_UDP},
                                      {IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED}};
  const auto of_type = transports.find(device->node_type);
  require(of_type != transports.end(), "node_type {}", static_cast<int>(device->node_type));
  require(device->transport_type == of_type->second, "{} with transport_type {}",
          ibv_node_type_str(device->node_type), static_cast<int>(device->transport_type));
}

void attributes(const Env& env) {
  const ibv_device_attr& a = env.dev.attr();
  require(std::memchr(a.fw_ver, 0, sizeof(a.fw_ver)) != nullptr, "fw_ver does not end");
  require(a.max_mr_size != 0, "max_mr_size is 0");
  require_usual((a.page_size_cap & 4096) != 0, "page_size_cap {:#x}", a.page_size_cap);
  struct Limit {
    const char* name;
    int value;
    bool needed;
  };
  const Limit limits[] = {{"max_qp", a.max_qp, true},
                          {"max_qp_wr", a.max_qp_wr, true},
                          {"max_sge", a.max_sge, true},
                          {"max_cq", a.max_cq, true},
                          {"max_cqe", a.max_cqe, true},
                          {"max_mr", a.max_mr, true},
                          {"max_pd", a.max_pd, true},
                          {"phys_port_cnt", a.phys_port_cnt, true},
                          {"max_sge_rd", a.max_sge_rd, false},
                          {"max_qp_rd_atom", a.max_qp_rd_atom, false},
                          {"max_res_rd_atom", a.max_res_rd_atom, false},
                          {"max_qp_init_rd_atom", a.max_qp_init_rd_atom, false},
                          {"max_mw", a.max_mw, false},
                          {"max_ah", a.max_ah, false},
                          {"max_mcast_grp", a.max_mcast_grp, false},
                          {"max_mcast_qp_attach", a.max_mcast_qp_attach, false},
                          {"max_total_mcast_qp_attach", a.max_total_mcast_qp_attach, false},
                          {"max_srq", a.max_srq, a.max_srq_wr != 0},
                          {"max_srq_wr", a.max_srq_wr, a.max_srq != 0},
                          {"max_srq_sge", a.max_srq_sge, a.max_srq != 0}};
  for (const Limit& l : limits) {
    require(l.value >= (l.needed ? 1 : 0), "{} is {}", l.name, l.value);
  }
  require_usual(a.max_res_rd_atom >= a.max_qp_rd_atom, "max_res_rd_atom {}, max_qp_rd_atom {}",
                a.max_res_rd_atom, a.max_qp_rd_atom);
  require(a.atomic_cap <= IBV_ATOMIC_GLOB, "atomic_cap {}", static_cast<int>(a.atomic_cap));
  require(!claims_windows(env.dev.context()) || a.max_mw > 0, "windows, but max_mw is 0");
}

// A second context of the device says the same as the first.
void same_attributes(const Env& env) {
  const Device other(ibv_get_device_name(env.dev.context()->device), env.dev.gid_index());
  ibv_device_attr first{}, again{};
  require_err(ibv_query_device(env.dev.context(), &first), 0, "ibv_query_device");
  require_err(ibv_query_device(other.context(), &again), 0, "ibv_query_device");
  const auto same = [](const ibv_device_attr& a, const ibv_device_attr& b) {
    return std::strcmp(a.fw_ver, b.fw_ver) == 0 && a.node_guid == b.node_guid &&
           a.sys_image_guid == b.sys_image_guid && a.vendor_id == b.vendor_id &&
           a.vendor_part_id == b.vendor_part_id && a.hw_ver == b.hw_ver &&
           a.device_cap_flags == b.device_cap_flags && a.max_qp == b.max_qp &&
           a.max_qp_wr == b.max_qp_wr && a.max_sge == b.max_sge && a.max_cq == b.max_cq &&
           a.max_cqe == b.max_cqe && a.max_mr == b.max_mr && a.max_pd == b.max_pd &&
           a.max_mr_size == b.max_mr_size && a.max_srq_wr == b.max_srq_wr &&
           a.phys_port_cnt == b.phys_port_cnt;
  };
  require(same(first, again), "two contexts say different things");
  ibv_device_attr_ex more{};
  require_err(ibv_query_device_ex(env.dev.context(), nullptr, &more), 0, "ibv_query_device_ex");
  require(same(first, more.orig_attr), "ibv_query_device_ex says other things");
}

void extended(const Env& env) {
  const ibv_device_attr_ex& a = env.dev.attr_ex();
  if (a.device_cap_flags_ex != 0) {
    require(static_cast<std::uint32_t>(a.device_cap_flags_ex) == a.orig_attr.device_cap_flags,
            "device_cap_flags_ex {:#x} of {:#x}", a.device_cap_flags_ex,
            a.orig_attr.device_cap_flags);
  }
  require(a.phys_port_cnt_ex == 0 ||
              a.orig_attr.phys_port_cnt == std::min<std::uint32_t>(a.phys_port_cnt_ex, 255),
          "phys_port_cnt_ex {} and phys_port_cnt {}", a.phys_port_cnt_ex,
          a.orig_attr.phys_port_cnt);
  const auto& odp = a.odp_caps;
  const std::uint32_t transports = odp.per_transport_caps.rc_odp_caps |
                                   odp.per_transport_caps.uc_odp_caps |
                                   odp.per_transport_caps.ud_odp_caps | a.xrc_odp_caps;
  require((odp.general_caps & IBV_ODP_SUPPORT) != 0 || (transports == 0 && odp.general_caps == 0),
          "paging on demand for transports {:#x}, with general_caps {:#x}", transports,
          odp.general_caps);
  ibv_device_attr_ex again{};
  const ibv_query_device_ex_input none{.comp_mask = 0};
  require_err(ibv_query_device_ex(env.dev.context(), &none, &again), 0, "without a comp_mask");
  require(again.max_dm_size == a.max_dm_size && again.device_cap_flags_ex == a.device_cap_flags_ex,
          "two calls say different things");
  const ibv_query_device_ex_input mask{.comp_mask = 1};
  require_refused(ibv_query_device_ex(env.dev.context(), &mask, &again), EINVAL, "a comp_mask");
}

// A program that was built before the structure grew has a shorter one.
void shorter(const Env& env) {
  verbs_context* const context = verbs_get_ctx_op(env.dev.context(), query_device_ex);
  if (context == nullptr) skip("no query_device_ex");
  for (const std::size_t size :
       {offsetof(ibv_device_attr_ex, tso_caps), offsetof(ibv_device_attr_ex, tm_caps)}) {
    ibv_device_attr_ex attr;
    std::memset(static_cast<void*>(&attr), 0xa5, sizeof(attr));
    require_err(context->query_device_ex(env.dev.context(), nullptr, &attr, size), 0,
                "ibv_query_device_ex with a shorter structure");
    require(attr.orig_attr.max_qp == env.dev.attr().max_qp, "other attributes");
    const auto bytes = std::as_bytes(std::span(&attr, 1)).subspan(size);
    require(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0xa5}; }),
            "a byte beyond a structure of {} bytes was changed", size);
  }
}

void ports(const Env& env) {
  const unsigned count = env.dev.attr().phys_port_cnt;
  for (unsigned port = 1; port <= count; port++) {
    ibv_port_attr a{};
    require_err(ibv_query_port(env.dev.context(), static_cast<std::uint8_t>(port), &a), 0,
                "ibv_query_port");
    require(a.state >= IBV_PORT_NOP && a.state <= IBV_PORT_ACTIVE_DEFER, "state {}",
            static_cast<int>(a.state));
    if (a.state != IBV_PORT_ACTIVE) continue;
    require(a.active_mtu >= IBV_MTU_256 && a.active_mtu <= a.max_mtu && a.max_mtu <= IBV_MTU_4096,
            "active_mtu {}, max_mtu {}", static_cast<int>(a.active_mtu),
            static_cast<int>(a.max_mtu));
    require(a.max_msg_sz != 0, "max_msg_sz is 0");
    require(a.gid_tbl_len > 0, "gid_tbl_len is {}", a.gid_tbl_len);
    require(a.link_layer <= IBV_LINK_LAYER_ETHERNET, "link_layer {}", a.link_layer);
    require_usual(a.pkey_tbl_len > 0, "pkey_tbl_len is 0");
    require_usual(a.active_width != 0 && a.active_speed != 0, "active_width {}, active_speed {}",
                  a.active_width, a.active_speed);
  }
  ibv_port_attr a{};
  for (const unsigned bad : {0U, count + 1, 255U}) {
    if (bad != 0 && bad <= count) continue;
    require_refused(ibv_query_port(env.dev.context(), static_cast<std::uint8_t>(bad), &a), EINVAL,
                    "a port that is not there");
  }
}

void check_gid(const Env& env, const ibv_gid_entry& entry) {
  ibv_context* const context = env.dev.context();
  ibv_gid_entry one{};
  require_err(ibv_query_gid_ex(context, entry.port_num, entry.gid_index, &one, 0), 0,
              "ibv_query_gid_ex");
  ibv_gid gid{};
  require(ibv_query_gid(context, static_cast<std::uint8_t>(entry.port_num),
                        static_cast<int>(entry.gid_index), &gid) == 0,
          "ibv_query_gid of {}", entry.gid_index);
  require(std::memcmp(&one.gid, &entry.gid, sizeof(gid)) == 0 &&
              std::memcmp(&gid, &entry.gid, sizeof(gid)) == 0 && one.gid_type == entry.gid_type &&
              one.gid_index == entry.gid_index && one.port_num == entry.port_num &&
              one.ndev_ifindex == entry.ndev_ifindex,
          "GID {} differs", entry.gid_index);
  require(entry.gid_type <= IBV_GID_TYPE_ROCE_V2, "GID of type {}", entry.gid_type);
  static constexpr ibv_gid kNone{};
  require(std::memcmp(&gid, &kNone, sizeof(gid)) != 0, "GID {} is 0", entry.gid_index);
  char name[IF_NAMESIZE] = "";
  require_usual(entry.ndev_ifindex == 0 || ::if_indextoname(entry.ndev_ifindex, name) != nullptr,
                "GID {} of interface {}, which is not there", entry.gid_index, entry.ndev_ifindex);
}

void gids(const Env& env) {
  ibv_context* const context = env.dev.context();
  const auto length = static_cast<std::uint32_t>(env.dev.port().gid_tbl_len);
  std::vector<ibv_gid_entry> all(std::size_t{length} * env.dev.attr().phys_port_cnt);
  const ssize_t count = ibv_query_gid_table(context, all.data(), all.size(), 0);
  require(count > 0, "ibv_query_gid_table: {}", count);
  std::set<std::uint32_t> valid;
  for (const ibv_gid_entry& entry : std::span(all).first(static_cast<std::size_t>(count))) {
    require(entry.port_num >= 1 && entry.port_num <= env.dev.attr().phys_port_cnt, "port {}",
            entry.port_num);
    if (entry.port_num == 1) valid.insert(entry.gid_index);
    require(entry.port_num != 1 || entry.gid_index < length, "GID {} of {}", entry.gid_index,
            length);
    check_gid(env, entry);
  }
  ibv_gid_entry entry{};
  for (std::uint32_t i = 0; i < std::min(length, 256U); i++) {
    if (valid.contains(i)) continue;
    require_refused(ibv_query_gid_ex(context, 1, i, &entry, 0), ENODATA, "a GID that is not set");
  }
  const auto few = static_cast<std::size_t>(count - 1);
  const ssize_t short_table = ibv_query_gid_table(context, all.data(), few, 0);
  require(short_table < 0, "a table of {} entries gets {}", few, short_table);
}

void refused_gids(const Env& env) {
  ibv_context* const context = env.dev.context();
  const auto length = static_cast<std::uint32_t>(env.dev.port().gid_tbl_len);
  const std::uint32_t ports = env.dev.attr().phys_port_cnt;
  ibv_gid_entry entry{};
  for (const std::uint32_t bad : {length, length + 1, 0x7fffffffU, 0xffffffffU}) {
    require_refused(ibv_query_gid_ex(context, 1, bad, &entry, 0), EINVAL,
                    "a GID beyond gid_tbl_len");
  }
  for (const std::uint32_t bad : {0U, ports + 1, 0xffffU}) {
    require_refused(ibv_query_gid_ex(context, bad, 0, &entry, 0), EINVAL,
                    "a GID of a port that is not there");
  }
  require_refused(ibv_query_gid_ex(context, 1, env.dev.gid_index(), &entry, 1), EINVAL,
                  "ibv_query_gid_ex with flags");
  ibv_gid gid{};
  require(ibv_query_gid(context, 1, static_cast<int>(length), &gid) == -1 &&
              ibv_query_gid(context, 1, -1, &gid) == -1 && ibv_query_gid(context, 0, 0, &gid) == -1,
          "ibv_query_gid of what is not there does not return -1");
}

void pkeys(const Env& env) {
  ibv_context* const context = env.dev.context();
  const int length = env.dev.port().pkey_tbl_len;
  if (length == 0) skip("pkey_tbl_len is 0");
  int valid = 0;
  for (int i = 0; i < length; i++) {
    __be16 pkey = 0;
    require(ibv_query_pkey(context, 1, i, &pkey) == 0, "ibv_query_pkey of {}: {}", i,
            errno_name(errno));
    if (pkey == 0) continue;
    valid++;
    const int found = ibv_get_pkey_index(context, 1, pkey);
    __be16 again = 0;
    require(
        found >= 0 && found <= i && ibv_query_pkey(context, 1, found, &again) == 0 && again == pkey,
        "P_Key {:#x} of entry {} is found in {}", ntohs(pkey), i, found);
  }
  if (env.dev.context()->device->transport_type == IBV_TRANSPORT_IB) {
    require(valid > 0, "no P_Key");
  }
  __be16 pkey = 0;
  require(ibv_query_pkey(context, 1, length, &pkey) == -1 &&
              ibv_query_pkey(context, 1, -1, &pkey) == -1 &&
              ibv_query_pkey(context, 0, 0, &pkey) == -1,
          "ibv_query_pkey of what is not there does not return -1");
}

}  // namespace

Rules query() {
  return {
      {"listed", "the list has each device once, and may be freed when the device is open", listed,
       "ibv_get_device_list(3)"},
      {"guid", "ibv_get_device_guid and ibv_query_device give one GUID", guid,
       "ibv_get_device_guid(3)"},
      {"index", "the index of a device is stable", index, "ibv_get_device_index(3)"},
      {"node-type", "the type of the node fits its transport", node_type, "ibv_get_device_list(3)"},
      {"attributes", "limits are not negative, and those that every device needs not 0",
       attributes},
      {"same-attributes", "every context and both calls give the same attributes", same_attributes,
       "ibv_query_device(3), ibv_query_device_ex(3)"},
      {"extended", "extended attributes agree with the others, and unknown masks are refused",
       extended, "ibv_query_device_ex(3)"},
      {"shorter", "ibv_query_device_ex writes no byte beyond a program's older structure", shorter,
       "ibv_query_device_ex(3)"},
      {"ports", "attributes of a port are valid, and other ports are refused", ports,
       "ibv_query_port(3)"},
      {"gids", "the table and the single queries give the same GIDs, and no others", gids,
       "ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3)"},
      {"refused-gids", "GIDs beyond the table, of other ports or with flags are refused",
       refused_gids, "ibv_query_gid(3), ibv_query_gid_ex(3)"},
      {"pkeys", "P_Keys are found by index and by value, and none beyond the table", pkeys,
       "ibv_query_pkey(3), ibv_get_pkey_index(3)"},
  };
}

}  // namespace guest::device
