// SPDX-License-Identifier: GPL-2.0-or-later
// Devices, contexts, ports, asynchronous events, and the functions that only compute.
#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "table.h"

namespace guest::verbs {

ContextPtr import_context(const Device& dev) {
  const int fd = ::dup(dev.context()->cmd_fd);
  ContextPtr context(ibv_import_device(fd));
  if (!context) fail_errno("ibv_import_device");
  return context;
}

namespace {

std::string output_of(const std::string& command) {
  FILE* const f = ::popen(command.c_str(), "r");
  require(f != nullptr, "popen: {}", errno_name(errno));
  char line[256] = "";
  const bool read = std::fgets(line, sizeof(line), f) != nullptr;
  require(::pclose(f) == 0 && read, "{} fails", command);
  return line;
}

// Calls `body` with the device in a list of its own.
void with_listed(const Device& dev, const std::function<void(ibv_device*)>& body) {
  const std::string name = ibv_get_device_name(dev.context()->device);
  int num = 0;
  ibv_device** const list = ibv_get_device_list(&num);
  require(list != nullptr && num > 0, "ibv_get_device_list: {} devices", num);
  ibv_device* found = nullptr;
  for (int i = 0; i < num; i++) {
    if (name == ibv_get_device_name(list[i])) found = list[i];
  }
  require(found != nullptr && list[num] == nullptr, "{} is not in the list", name);
  body(found);
  ibv_free_device_list(list);
}

void add_lists(Probes& p) {
  p.works({"ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name"},
          "the list has the device by its name",
          [](const Device& dev) { with_listed(dev, [](ibv_device*) {}); });
  p.works({"ibv_get_device_guid"}, "the node's GUID", [](const Device& dev) {
    with_listed(dev, [&](ibv_device* device) {
      require(ibv_get_device_guid(device) == dev.attr().node_guid && dev.attr().node_guid != 0,
              "another GUID");
    });
  });
  p.works({"ibv_get_device_index"}, "the index that ``rdma dev`` shows", [](const Device& dev) {
    with_listed(dev, [](ibv_device* device) {
      // "0: tern0: node_type ca ..."
      const std::string line =
          output_of(std::string("rdma dev show ") + ibv_get_device_name(device));
      require(line.starts_with(std::format("{}: ", ibv_get_device_index(device))),
              "{}, and rdma: {}", ibv_get_device_index(device), line);
    });
  });
  p.works({"ibv_open_device", "ibv_close_device"}, "a context of its own", [](const Device& dev) {
    with_listed(dev, [](ibv_device* device) {
      const ContextPtr context(ibv_open_device(device));
      require(context != nullptr, "ibv_open_device: {}", errno_name(errno));
      ibv_device_attr attr{};
      require_err(ibv_query_device(context.get(), &attr), 0, "ibv_query_device");
    });
  });
  p.works({"ibv_import_device"}, "a context that shares the objects of another",
          [](const Device& dev) {
            const ContextPtr context = import_context(dev);
            ibv_device_attr attr{};
            require_err(ibv_query_device(context.get(), &attr), 0, "ibv_query_device");
            require(attr.node_guid == dev.attr().node_guid, "another device");
          });
}

void add_queries(Probes& p) {
  p.measures({"ibv_query_device"}, "limits; 0: ", [](const Device& dev) {
    ibv_device_attr a{};
    require_err(ibv_query_device(dev.context(), &a), 0, "ibv_query_device");
    const std::pair<const char*, std::int64_t> limits[] = {
        {"max_qp", a.max_qp},
        {"max_qp_wr", a.max_qp_wr},
        {"max_sge", a.max_sge},
        {"max_sge_rd", a.max_sge_rd},
        {"max_cq", a.max_cq},
        {"max_cqe", a.max_cqe},
        {"max_mr", a.max_mr},
        {"max_pd", a.max_pd},
        {"max_qp_rd_atom", a.max_qp_rd_atom},
        {"max_ee_rd_atom", a.max_ee_rd_atom},
        {"max_res_rd_atom", a.max_res_rd_atom},
        {"max_qp_init_rd_atom", a.max_qp_init_rd_atom},
        {"max_ee_init_rd_atom", a.max_ee_init_rd_atom},
        {"max_ee", a.max_ee},
        {"max_rdd", a.max_rdd},
        {"max_mw", a.max_mw},
        {"max_raw_ipv6_qp", a.max_raw_ipv6_qp},
        {"max_raw_ethy_qp", a.max_raw_ethy_qp},
        {"max_mcast_grp", a.max_mcast_grp},
        {"max_mcast_qp_attach", a.max_mcast_qp_attach},
        {"max_total_mcast_qp_attach", a.max_total_mcast_qp_attach},
        {"max_ah", a.max_ah},
        {"max_fmr", a.max_fmr},
        {"max_map_per_fmr", a.max_map_per_fmr},
        {"max_srq", a.max_srq},
        {"max_srq_wr", a.max_srq_wr},
        {"max_srq_sge", a.max_srq_sge},
        {"max_pkeys", a.max_pkeys}};
    std::string zero;
    for (const auto& [name, value] : limits) {
      require(value >= 0, "{} is {}", name, value);
      zero += value != 0 ? "" : (zero.empty() ? "" : ", ") + std::string(name);
    }
    return zero;
  });
  p.works({"ibv_query_device_ex"}, "limits and extended capabilities", [](const Device& dev) {
    ibv_device_attr_ex a{};
    require_err(ibv_query_device_ex(dev.context(), nullptr, &a), 0, "ibv_query_device_ex");
    require(a.orig_attr.max_qp == dev.attr().max_qp && a.completion_timestamp_mask != 0 &&
                a.hca_core_clock != 0,
            "not those of the device");
  });
  p.works({"ibv_query_port"}, "an active Ethernet port", [](const Device& dev) {
    ibv_port_attr a{};
    require_err(ibv_query_port(dev.context(), 1, &a), 0, "ibv_query_port");
    require(
        a.state == IBV_PORT_ACTIVE && a.link_layer == IBV_LINK_LAYER_ETHERNET && a.gid_tbl_len > 0,
        "another port");
    require(ibv_query_port(dev.context(), 2, &a) != 0, "there is a second port");
  });
  p.works({"ibv_query_gid", "ibv_query_gid_ex", "ibv_query_gid_table"}, "the same GID, of RoCE v2",
          [](const Device& dev) {
            ibv_gid gid{};
            ibv_gid_entry entry{};
            std::vector<ibv_gid_entry> all(256);
            require_err(ibv_query_gid(dev.context(), 1, dev.gid_index(), &gid), 0, "ibv_query_gid");
            require_err(ibv_query_gid_ex(dev.context(), 1, dev.gid_index(), &entry, 0), 0,
                        "ibv_query_gid_ex");
            const auto got = ibv_query_gid_table(dev.context(), all.data(), all.size(), 0);
            require(got > 0, "ibv_query_gid_table: {}", got);
            bool found = false;
            for (std::size_t i = 0; i < static_cast<std::size_t>(got); i++) {
              found = found || (all[i].gid_index == dev.gid_index() &&
                                std::memcmp(&all[i].gid, &gid, sizeof(gid)) == 0);
            }
            require(found && std::memcmp(&entry.gid, &gid, sizeof(gid)) == 0 &&
                        entry.gid_type == IBV_GID_TYPE_ROCE_V2,
                    "GIDs that differ");
          });
  p.works({"ibv_query_pkey", "ibv_get_pkey_index"}, "the one P_Key", [](const Device& dev) {
    __be16 pkey = 0;
    require_err(ibv_query_pkey(dev.context(), 1, 0, &pkey), 0, "ibv_query_pkey");
    require(ntohs(pkey) == 0xffff && ibv_get_pkey_index(dev.context(), 1, pkey) == 0, "P_Key {:#x}",
            ntohs(pkey));
    require(ibv_query_pkey(dev.context(), 1, 1, &pkey) != 0, "there is a second P_Key");
  });
  p.works({"ibv_query_rt_values_ex"}, "a clock that goes on", [](const Device& dev) {
    const auto clock = [&] {
      ibv_values_ex values{};
      values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
      require_err(ibv_query_rt_values_ex(dev.context(), &values), 0, "ibv_query_rt_values_ex");
      require(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK, "no clock");
      return values.raw_clock.tv_nsec;
    };
    const auto first = clock();
    ::usleep(1000);
    require(clock() > first, "the clock stands");
  });
}

void add_events(Probes& p) {
  p.works({"ibv_get_async_event", "ibv_ack_async_event"}, "the access error of a responder's QP",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            Send wrong = rc.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 1);
            wrong.rkey ^= 0x100;
            rc.post(wrong, Api::kPost);
            rc.expect(1, IBV_WC_REM_ACCESS_ERR);
            require(dev.wait_async(IBV_EVENT_QP_ACCESS_ERR, 10000), "no event");
          });
}

void add_functions(Probes& p) {
  p.works({"ibv_fork_init", "ibv_is_fork_initialized"},
          "IBV_FORK_UNNEEDED: Linux copies pinned pages for a child", [](const Device& dev) {
            require_err(ibv_fork_init(), 0, "ibv_fork_init");
            require(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED, "state {}",
                    static_cast<int>(ibv_is_fork_initialized()));
            // What the child and the parent write after a fork, only the parent's is sent.
            const Pair rc(dev, loop(IBV_QPT_RC));
            fill(rc.local.memory().bytes(), 1);
            const pid_t child = ::fork();
            require(child >= 0, "fork: {}", errno_name(errno));
            if (child == 0) {
              fill(rc.local.memory().bytes(), 2);
              ::_exit(0);
            }
            int status = 0;
            require(::waitpid(child, &status, 0) == child && status == 0, "the child: {:#x}",
                    status);
            fill(rc.local.memory().bytes(), 3);
            rc.post(rc.request(IBV_WR_RDMA_WRITE, 4096, 0, 0, 1), Api::kPost);
            rc.expect(1);
            rc.remote.check({0, 4096}, 3);
          });
  p.works({"ibv_event_type_str", "ibv_node_type_str", "ibv_port_state_str"}, "names",
          [](const Device& dev) {
            require(std::strcmp(ibv_event_type_str(IBV_EVENT_QP_FATAL),
                                ibv_event_type_str(IBV_EVENT_CQ_ERR)) != 0,
                    "one name");
            require(std::strlen(ibv_node_type_str(dev.context()->device->node_type)) != 0,
                    "no name of the node");
            require(std::strcmp(ibv_port_state_str(IBV_PORT_ACTIVE),
                                ibv_port_state_str(IBV_PORT_DOWN)) != 0,
                    "one name");
          });
  p.works({"ibv_rate_to_mbps", "mbps_to_ibv_rate"}, "there and back", [](const Device&) {
    require(ibv_rate_to_mbps(IBV_RATE_100_GBPS) > 100'000, "a rate of {}",
            ibv_rate_to_mbps(IBV_RATE_100_GBPS));
    require(mbps_to_ibv_rate(ibv_rate_to_mbps(IBV_RATE_100_GBPS)) == IBV_RATE_100_GBPS,
            "another rate");
  });
  p.works({"ibv_rate_to_mult", "mult_to_ibv_rate"}, "there and back", [](const Device&) {
    require(ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4 && mult_to_ibv_rate(4) == IBV_RATE_10_GBPS,
            "another rate");
  });
  p.works({"ibv_inc_rkey"}, "the low byte, which wraps", [](const Device&) {
    require(ibv_inc_rkey(0x1234ff) == 0x123400 && ibv_inc_rkey(0x123400) == 0x123401,
            "another key");
  });
}

}  // namespace

void add_device_probes(Probes& probes) {
  add_lists(probes);
  add_queries(probes);
  add_events(probes);
  add_functions(probes);
}

}  // namespace guest::verbs
