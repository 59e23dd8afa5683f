// SPDX-License-Identifier: GPL-2.0-or-later
// Address handles: which are refused, and the one that answers a datagram.
#include <cerrno>

#include "datagrams.h"

namespace guest::datagrams {

namespace {

AhPtr create(const Device& dev, ibv_ah_attr attr) { return AhPtr(ibv_create_ah(dev.pd(), &attr)); }

// Skips the rule unless the device has UD QPs, for which address handles are.
void need_datagrams(const Env& env) { const Ends ends(env); }

void refused(const Env& env) {
  need_datagrams(env);
  const ibv_ah_attr good = path_to_itself(env.dev);
  const auto refuse = [&env](const ibv_ah_attr& attr, const char* what) {
    const AhPtr ah = create(env.dev, attr);
    require_refused(ah ? 0 : errno, EINVAL, what);
  };
  ibv_ah_attr bad = good;
  bad.port_num = 0;
  refuse(bad, "port 0");
  bad.port_num = static_cast<std::uint8_t>(env.dev.attr().phys_port_cnt + 1);
  refuse(bad, "a port above phys_port_cnt");
  ibv_gid_entry entry{};
  std::uint32_t unused = 255;
  while (unused > 0 && ibv_query_gid_ex(env.dev.context(), 1, unused, &entry, 0) == 0) unused--;
  bad = good;
  bad.grh.sgid_index = static_cast<std::uint8_t>(unused);
  if (unused > 0) refuse(bad, "an sgid_index that has no GID");
  if (env.dev.port().link_layer == IBV_LINK_LAYER_ETHERNET) {
    bad = good;
    bad.is_global = 0;
    refuse(bad, "an address without a GRH on Ethernet");
  }
}

void busy_domain(const Env& env) {
  need_datagrams(env);
  PdPtr pd = alloc_pd(env.dev);
  ibv_ah_attr attr = path_to_itself(env.dev);
  AhPtr ah(ibv_create_ah(pd.get(), &attr));
  if (!ah) fail_errno("ibv_create_ah");
  const int err = ibv_dealloc_pd(pd.get());
  if (err == 0) {
    static_cast<void>(pd.release());
    static_cast<void>(ah.release());  // its PD is gone
  }
  // "ibv_dealloc_pd() may fail if any other resource is still associated with the PD."
  usually_refused(err, EBUSY, "ibv_dealloc_pd with an address handle");
}

void shared(const Env& env) {
  const Ends first(env);
  const Ends second(env);
  const AhPtr ah = create_ah(env.dev, env.dev.gid(), env.dev.port().lid);
  for (const Ends* ends : {&first, &second}) {
    ends->recv(1, 0, 8);
    Send send = ends->message();
    send.ah = ah.get();
    ends->arrives(send, 1);
  }
}

// Destroyed when its datagrams have completed; others are not affected.
void short_lived(const Env& env) {
  const Ends ends(env);
  for (unsigned i = 0; i < 64; i++) {
    AhPtr ah = create_ah(env.dev, env.dev.gid(), env.dev.port().lid);
    ends.recv(i, 0, 8);
    Send send = ends.message();
    send.ah = ah.get();
    ends.arrives(send, i);
    ah.reset();
    ends.works(i);
  }
}

void other_domain(const Env& env) {
  const Ends ends(env);
  const PdPtr pd = alloc_pd(env.dev);
  ibv_ah_attr attr = path_to_itself(env.dev);
  const AhPtr ah(ibv_create_ah(pd.get(), &attr));
  if (!ah) fail_errno("ibv_create_ah");
  ends.recv(1, 0, 8);
  Send send = ends.message();
  send.ah = ah.get();
  const int err = post(ends.local.qp(), Api::kPost, send);
  const std::string end =
      err != 0 ? errno_name(err) : ibv_wc_status_str(poll(ends.local.send_cq(), 1).front().status);
  chose(std::format("an address handle of another PD: {}", end));
}

void traffic_class(const Env& env) {
  const Ends ends(env);
  if (env.dev.port().link_layer != IBV_LINK_LAYER_ETHERNET) skip("no Ethernet");
  for (const unsigned tos : {0U, 0x20U, 0xb8U}) {
    ibv_ah_attr attr = path_to_itself(env.dev);
    attr.grh.traffic_class = static_cast<std::uint8_t>(tos);
    const AhPtr ah = create(env.dev, attr);
    if (!ah) fail_errno("ibv_create_ah");
    ends.recv(1, 0, 8);
    Send send = ends.message();
    send.ah = ah.get();
    ends.arrives(send, 1);
    const auto bytes = ends.there().memory().bytes();
    const auto at = [&bytes](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    const bool v4 = at(20) >> 4 == 4;
    const unsigned got = v4 ? at(21) : (at(0) << 4 | at(1) >> 4) & 0xff;
    // The lowest two bits are those of congestion.
    require_usual((got & 0xfc) == tos, "traffic_class {:#x} arrives as {:#x}", tos, got);
  }
}

void from_completion(const Env& env) {
  const Ends ends(env);
  ends.recv(1, 0, 8);
  ibv_wc wc = ends.arrives(ends.message(), 1);
  auto* const grh = reinterpret_cast<ibv_grh*>(ends.there().memory().bytes().data());
  ibv_ah_attr attr{};
  require(ibv_init_ah_from_wc(env.dev.context(), 1, &wc, grh, &attr) == 0,
          "ibv_init_ah_from_wc: {}", errno_name(errno));
  require(attr.port_num == 1, "port_num {}", attr.port_num);
  if ((wc.wc_flags & IBV_WC_GRH) != 0) {
    require(attr.is_global == 1, "is_global {}", attr.is_global);
    require(same_gid(attr.grh.dgid.raw, env.dev.gid()), "the dgid is not the sender's GID");
    ibv_gid gid{};
    require(ibv_query_gid(env.dev.context(), 1, attr.grh.sgid_index, &gid) == 0 &&
                same_gid(gid.raw, env.dev.gid()),
            "sgid_index {} is not of the GID that received", attr.grh.sgid_index);
  }
  const AhPtr made = create(env.dev, attr);
  if (!made) fail_errno("ibv_create_ah of these attributes");
  const AhPtr ah(ibv_create_ah_from_wc(env.dev.pd(), &wc, grh, 1));
  if (!ah) fail_errno("ibv_create_ah_from_wc");
  for (ibv_ah* to : {made.get(), ah.get()}) {
    require_err(post_recv(ends.local.qp(), 5, ends.local.memory().sge(0, kGrh + 8)), 0,
                "ibv_post_recv");
    const Send answer{.sges = {ends.there().memory().sge(4096, 8)},
                      .ah = to,
                      .remote_qpn = wc.src_qp,
                      .remote_qkey = kQkey};
    ends.run_back(answer);
    const ibv_wc back = poll(ends.local.recv_cq(), 1).front();
    require_status(back, 5, IBV_WC_SUCCESS);
    require(back.src_qp == ends.there().qp()->qp_num, "src_qp {:#x}", back.src_qp);
  }
}

}  // namespace

Rules addresses() {
  return {
      {"ah_refused", "ibv_create_ah refuses a wrong port or GID index", refused},
      {"ah_busy_domain", "a PD with an address handle may refuse to be deallocated", busy_domain},
      {"ah_shared", "QPs of a PD can share an address handle", shared},
      {"ah_short_lived", "an address handle can go as soon as its datagrams have completed",
       short_lived},
      {"ah_other_domain", "an address handle of another PD does no harm", other_domain},
      {"ah_traffic_class", "the traffic class of an address handle is that of the packets",
       traffic_class},
      {"ah_from_completion", "ibv_init_ah_from_wc and ibv_create_ah_from_wc address the sender",
       from_completion},
  };
}

Rules all() {
  Rules rules;
  append(rules, delivery(), "ibv_post_send(3), ibv_poll_cq(3); IBTA volume 1, 9.8.3 and 10.2.5");
  append(rules, addresses(), "ibv_create_ah(3), ibv_create_ah_from_wc(3); IBTA volume 1, 11.2.2");
  append(rules, multicast(), "ibv_attach_mcast(3); IBTA volume 1, 10.5");
  return rules;
}

}  // namespace guest::datagrams
