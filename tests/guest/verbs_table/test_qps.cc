// SPDX-License-Identifier: GPL-2.0-or-later
// Queue pairs, address handles, multicast groups.
#include <cerrno>
#include <cstring>

#include "table.h"

namespace guest::verbs {
namespace {

constexpr ibv_qp_cap kCap = capacity(4, 4);

void add_creation(Probes& p) {
  p.works({"ibv_create_qp", "ibv_destroy_qp"}, "a QP with the capacities that were asked for",
          [](const Device& dev) {
            const CqPtr cq = create_cq(dev, 16);
            ibv_qp_init_attr attr{};
            attr.send_cq = attr.recv_cq = cq.get();
            attr.cap = kCap;
            attr.qp_type = IBV_QPT_RC;
            const QpPtr qp(ibv_create_qp(dev.pd(), &attr));
            require(qp != nullptr, "ibv_create_qp: {}", errno_name(errno));
            require(attr.cap.max_send_wr >= 4 && attr.cap.max_recv_wr >= 4 &&
                        attr.cap.max_send_sge >= 1,
                    "a smaller QP");
            attr.cap.max_send_wr = static_cast<std::uint32_t>(dev.attr().max_qp_wr) * 4;
            require(ibv_create_qp(dev.pd(), &attr) == nullptr && errno == EINVAL,
                    "more WQEs than max_qp_wr");
          });
  const auto refuses_flag = [](std::uint32_t flag) {
    return [flag](const Device& dev) {
      const CqPtr cq = create_cq(dev, 16);
      int err = 0;
      for (const ibv_qp_type type : {IBV_QPT_UD, IBV_QPT_RAW_PACKET}) {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = cq.get();
        attr.cap = kCap;
        attr.qp_type = type;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
        attr.pd = dev.pd();
        attr.create_flags = flag;
        err = refusal_of<QpPtr>(ibv_create_qp_ex(dev.context(), &attr));
        if (err == 0) return 0;
      }
      return err;
    };
  };
  p.partly({"ibv_create_qp_ex"}, {}, "a QP of each type with ``ibv_wr_*()``",
           [](const Device& dev) {
             for (const Type& type : kTypes) {
               const Pair pair(dev, loop(type.type));
               require(ibv_qp_to_qp_ex(pair.local.qp()) != nullptr, "{}: no ibv_wr_*()", type.name);
             }
           },
           {{"PCI_WRITE_END_PADDING", refuses_flag(IBV_QP_CREATE_PCI_WRITE_END_PADDING)},
            {"SOURCE_QPN", refuses_flag(IBV_QP_CREATE_SOURCE_QPN)}});
  p.works({"ibv_open_qp"}, "an XRC target of another owner", [](const Device& dev) {
    const CqPtr cq = create_cq(dev, 16);
    const XrcShare xrc = open_xrc(dev, dev.pd(), cq.get());
    const QpPtr target = create_qp(dev, {.type = IBV_QPT_XRC_RECV, .xrcd = xrc.xrcd.get()});
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = target->qp_num;
    attr.xrcd = xrc.xrcd.get();
    attr.qp_type = IBV_QPT_XRC_RECV;
    const QpPtr opened(ibv_open_qp(dev.context(), &attr));
    require(opened != nullptr && opened->qp_num == target->qp_num, "ibv_open_qp: {}",
            errno_name(errno));
  });
}

void add_states(Probes& p) {
  p.works({"ibv_query_qp"}, "the state and the peer of a connected QP", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require_err(ibv_query_qp(rc.local.qp(), &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init), 0,
                "ibv_query_qp");
    require(attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == rc.remote.end().qp()->qp_num &&
                init.qp_type == IBV_QPT_RC,
            "state {}", static_cast<int>(attr.qp_state));
  });
  p.partly({"ibv_modify_qp"}, {}, "from RESET to RTS; EINVAL from RTS to INIT",
           [](const Device& dev) {
             const Pair rc(dev, loop(IBV_QPT_RC));
             require(state_of(rc.local.qp()) == IBV_QPS_RTS, "state {}",
                     static_cast<int>(state_of(rc.local.qp())));
             require(to_state(rc.local.qp(), IBV_QPS_INIT) == EINVAL, "RTS to INIT");
             // A QP can only be resized where the device says so.
             require((dev.attr().device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR) == 0,
                     "RESIZE_MAX_WR is set");
           },
           {{"IBV_QP_CAP", [](const Device& dev) {
               const Pair rc(dev, loop(IBV_QPT_RC));
               ibv_qp_attr attr{};
               attr.cap = kCap;
               return ibv_modify_qp(rc.local.qp(), &attr, IBV_QP_CAP);
             }}});
  p.works(
      {"ibv_query_qp_data_in_order"}, "no order beyond the last byte: 0", [](const Device& dev) {
        const Pair rc(dev, loop(IBV_QPT_RC));
        require(ibv_query_qp_data_in_order(rc.local.qp(), IBV_WR_RDMA_WRITE, 0) == 0, "an order");
      });
  p.works({"ibv_set_ece", "ibv_query_ece"},
          "options that both ends accept; unknown ones are left out", [](const Device& dev) {
            PairOptions options = loop(IBV_QPT_RC);
            options.connect = false;
            Pair rc(dev, options);
            ibv_ece supported{}, ece{};
            require_err(ibv_query_ece(rc.local.qp(), &supported), 0, "ibv_query_ece");
            require(supported.vendor_id == dev.attr().vendor_id && supported.options != 0,
                    "options {:#x}", supported.options);
            ece = {.vendor_id = supported.vendor_id, .options = ~0U, .comp_mask = 0};
            require_err(ibv_set_ece(rc.local.qp(), &ece), 0, "ibv_set_ece");
            require(ece.options == supported.options, "accepted {:#x} of {:#x}", ece.options,
                    supported.options);
            ece = {.vendor_id = supported.vendor_id, .options = supported.options, .comp_mask = 0};
            require_err(ibv_set_ece(rc.remote.end().qp(), &ece), 0, "ibv_set_ece");
            rc.connect(IBV_QPS_RTS);
            rc.post(rc.request(IBV_WR_RDMA_WRITE, 64, 0, 0, 1), Api::kPost);
            rc.expect(1);
            require_err(ibv_query_ece(rc.local.qp(), &ece), 0, "ibv_query_ece");
            require(ece.options == supported.options, "connected with {:#x}", ece.options);
            require_err(ibv_set_ece(rc.local.qp(), &ece), EINVAL,
                        "options of a connection that is there");
          });
}

// A rate that the device advertises is taken, by the types that have one.
void probe_rate(const Device& dev) {
  ibv_device_attr_ex caps{};
  require_err(ibv_query_device_ex(dev.context(), nullptr, &caps), 0, "ibv_query_device_ex");
  const ibv_packet_pacing_caps& pacing = caps.packet_pacing_caps;
  ibv_qp_rate_limit_attr attr{};
  require(pacing.qp_rate_limit_max != 0, "no rates are advertised");
  attr.rate_limit = pacing.qp_rate_limit_max;
  for (const Type& type : kTypes) {
    const Pair pair(dev, loop(type.type));
    const int err = ibv_modify_qp_rate_limit(pair.local.qp(), &attr);
    if ((pacing.supported_qpts & 1U << type.type) != 0) {
      require_err(err, 0, "ibv_modify_qp_rate_limit");
      ibv_qp_rate_limit_attr wrong{};
      wrong.rate_limit = pacing.qp_rate_limit_max + 1;
      require_err(ibv_modify_qp_rate_limit(pair.local.qp(), &wrong), EINVAL,
                  "a rate above the largest");
    } else {
      require(err != 0, "{} took a rate, which is not advertised", type.name);
    }
  }
}

void add_addresses(Probes& p) {
  p.works({"ibv_create_ah", "ibv_destroy_ah"}, "an address with a GRH; EINVAL without",
          [](const Device& dev) {
            const AhPtr ah = create_ah(dev, dev.gid());
            require(ah != nullptr, "ibv_create_ah: {}", errno_name(errno));
            ibv_ah_attr attr{};
            attr.port_num = 1;
            require(ibv_create_ah(dev.pd(), &attr) == nullptr && errno == EINVAL,
                    "an address without a GRH");
          });
  p.works({"ibv_init_ah_from_wc", "ibv_create_ah_from_wc"}, "the sender of a datagram",
          [](const Device& dev) {
            const Pair ud(dev, loop(IBV_QPT_UD));
            ud.recv(1, 0, 64);
            ud.post(ud.request(IBV_WR_SEND, 8, 0, 0, 2), Api::kPost);
            ud.expect(2);
            ibv_wc wc = ud.expect_recv(1);
            auto* const grh = reinterpret_cast<ibv_grh*>(ud.remote.end().memory().bytes().data());
            ibv_ah_attr attr{};
            require_err(ibv_init_ah_from_wc(dev.context(), 1, &wc, grh, &attr), 0,
                        "ibv_init_ah_from_wc");
            require(attr.is_global == 1 &&
                        std::memcmp(&attr.grh.dgid, &dev.gid(), sizeof(ibv_gid)) == 0,
                    "another sender");
            const AhPtr ah(ibv_create_ah_from_wc(dev.pd(), &wc, grh, 1));
            require(ah != nullptr, "ibv_create_ah_from_wc: {}", errno_name(errno));
          });
  p.works({"ibv_attach_mcast", "ibv_detach_mcast"},
          "a datagram to a group, and none after the QP has left it", [](const Device& dev) {
            const Pair ud(dev, loop(IBV_QPT_UD));
            // 239.77.0.119, as an IPv4-mapped address, because the sender's is one.
            ibv_gid group{};
            group.raw[10] = group.raw[11] = 0xff;
            group.raw[12] = 239;
            group.raw[13] = 77;
            group.raw[15] = 119;
            const AhPtr ah = create_ah(dev, group);
            require(ah != nullptr, "the address of a group: {}", errno_name(errno));
            Send send = ud.request(IBV_WR_SEND, 64, 0, 0, 1);
            send.ah = ah.get();
            send.remote_qpn = 0xffffff;
            ud.recv(2, 0, 64);
            require_err(ibv_attach_mcast(ud.remote.end().qp(), &group, 0), 0, "ibv_attach_mcast");
            fill(ud.local.memory().bytes(), 12);
            ud.post(send, Api::kPost);
            ud.expect(1);
            ud.expect_recv(2);
            ud.remote.check({ud.local.header(), 64}, 12);
            require_err(ibv_detach_mcast(ud.remote.end().qp(), &group, 0), 0, "ibv_detach_mcast");
            ud.recv(3, 0, 64);
            ud.post(send, Api::kPost);
            ud.expect(1);
            expect_quiet(ud.remote.end().recv_cq(), 100);
            require(ibv_detach_mcast(ud.remote.end().qp(), &group, 0) != 0, "detached twice");
            const Pair rc(dev, loop(IBV_QPT_RC));
            require_err(ibv_attach_mcast(rc.remote.end().qp(), &group, 0), EINVAL,
                        "an RC QP in a group");
          });
}

}  // namespace

void add_qp_probes(Probes& probes) {
  add_creation(probes);
  add_states(probes);
  probes.works({"ibv_modify_qp_rate_limit"},
               "a rate for the types of ``packet_pacing_caps``, and for no other", probe_rate);
  add_addresses(probes);
}

}  // namespace guest::verbs
