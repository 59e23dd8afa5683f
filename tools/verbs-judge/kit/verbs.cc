// SPDX-License-Identifier: GPL-2.0-or-later
#include "verbs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "trace.h"

namespace guest {
namespace {

using Clock = std::chrono::steady_clock;

bool is_v4_mapped(const ibv_gid& gid) {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof(kPrefix)) == 0;
}

bool readable(int fd, int timeout_ms) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + index * 0xbf58476d1ce4e5b9U + 1;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 32);
}

}  // namespace

void require_status(const ibv_wc& wc, std::uint64_t wr_id, ibv_wc_status status) {
  require(wc.status == status, "wr_id {:#x}: {}, not {} (vendor error {:#x})", wc.wr_id,
          ibv_wc_status_str(wc.status), ibv_wc_status_str(status), wc.vendor_err);
  require(wc.wr_id == wr_id, "completion of wr_id {:#x}, not {:#x}", wc.wr_id, wr_id);
}

ibv_context* open_context(const std::string& name) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return nullptr;
  ibv_context* context = nullptr;
  for (ibv_device** device = list; *device != nullptr; device++) {
    if (name == ibv_get_device_name(*device)) context = ibv_open_device(*device);
  }
  ibv_free_device_list(list);
  return context;
}

std::optional<ibv_gid_entry> ipv4_gid(ibv_context* context) {
  std::array<ibv_gid_entry, 64> entries{};
  std::optional<ibv_gid_entry> found;
  const ssize_t n = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < n; i++) {
    const ibv_gid_entry& entry = entries.at(static_cast<std::size_t>(i));
    if (is_v4_mapped(entry.gid)) found = entry;
  }
  return found;
}

Device::Device(const std::string& name, int gid_index, Domain domain)
    : context_(open_context(name)) {
  require(context_ != nullptr, "no device {}", name);
  pd_.reset(ibv_alloc_pd(context_.get()));
  if (!pd_) fail_errno("ibv_alloc_pd");
  query(gid_index);
  if (domain == Domain::kThread) make_parent();
}

Device::Device(ContextPtr context, int gid_index) : context_(std::move(context)) {
  query(gid_index);
}

void Device::query(int gid_index) {
  if (ibv_query_device_ex(context_.get(), nullptr, &attr_) != 0 ||
      ibv_query_port(context_.get(), 1, &port_) != 0) {
    fail_errno("query");
  }
  require(port_.state == IBV_PORT_ACTIVE, "port 1 of {} is not active",
          ibv_get_device_name(context_->device));
  choose_gid(gid_index);
}

namespace {

// The allocator of parent domains: it must get back what it gave. No madvise(): these kernels copy
// pinned pages for the child of a fork().
int live_buffers = 0;

void* allocate(ibv_pd*, void* context, std::size_t size, std::size_t alignment, std::uint64_t) {
  void* memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr || context != &live_buffers) return nullptr;
  ++live_buffers;
  return std::memset(memory, 0, size);
}

void release(ibv_pd*, void* context, void* memory, std::uint64_t) {
  note_destroy("free without alloc", context == &live_buffers && live_buffers-- > 0 ? 0 : EINVAL);
  std::free(memory);
}

}  // namespace

std::span<const Api> Device::apis() const {
  if (!builds_) builds_ = supports(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
  return std::span(kBothApis).first(*builds_ ? 2 : 1);
}

bool Device::supports(ibv_qp_type type, std::uint64_t send_ops) const {
  const CqPtr cq = create_cq(*this, 4);
  QpSpec spec{
      .type = type, .send_cq = cq.get(), .recv_cq = cq.get(), .send_ops = send_ops, .builds = true};
  return try_create_qp(*this, spec) != nullptr;
}

void Device::make_parent() {
  ibv_td_init_attr td{};
  td_.reset(ibv_alloc_td(context_.get(), &td));
  if (!td_) fail_errno("ibv_alloc_td");
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_.get();
  attr.td = td_.get();
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  attr.alloc = allocate;
  attr.free = release;
  attr.pd_context = &live_buffers;
  parent_.reset(ibv_alloc_parent_domain(context_.get(), &attr));
  if (!parent_) fail_errno("ibv_alloc_parent_domain");
}

// RoCE: the first address of version 2 that is IPv4, or else the first of version 2, or of 1.
void Device::choose_gid(int gid_index) {
  int chosen = gid_index;
  int rank = 0;
  for (int i = 0; gid_index < 0 && i < port_.gid_tbl_len; i++) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) {
      continue;
    }
    const bool roce2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    const int here = roce2 && is_v4_mapped(entry.gid) ? 3 : roce2 ? 2 : 1;
    if (here > rank) {
      rank = here;
      chosen = i;
    }
  }
  // iWARP has no use for GIDs.
  if (chosen < 0 && iwarp()) chosen = 0;
  require(chosen >= 0, "port 1 of {} has no GID", ibv_get_device_name(context_->device));
  gid_index_ = static_cast<std::uint8_t>(chosen);
  if (ibv_query_gid(context_.get(), 1, gid_index_, &gid_) != 0) fail_errno("ibv_query_gid");
}

bool Device::wait_async(ibv_event_type type, int timeout_ms) const {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (Clock::now() < end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (!readable(context_->async_fd, static_cast<int>(left))) break;
    ibv_async_event event{};
    if (ibv_get_async_event(context_.get(), &event) != 0) fail_errno("ibv_get_async_event");
    ibv_ack_async_event(&event);
    trace("event: {}", ibv_event_type_str(event.event_type));
    if (event.event_type == type) return true;
  }
  trace("no event: {}", ibv_event_type_str(type));
  return false;
}

PdPtr alloc_pd(const Device& dev) {
  PdPtr pd(ibv_alloc_pd(dev.context()));
  if (!pd) fail_errno("ibv_alloc_pd");
  return pd;
}

bool claims_windows(ibv_context* context) {
  ibv_device_attr attr{};
  if (ibv_query_device(context, &attr) != 0) fail_errno("ibv_query_device");
  return (attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A |
                                   IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
}

void need_windows(ibv_context* context) {
  if (!claims_windows(context)) skip("no memory windows in device_cap_flags");
}

void need_windows(ibv_context* context, ibv_mw_type type) {
  ibv_device_attr attr{};
  if (ibv_query_device(context, &attr) != 0) fail_errno("ibv_query_device");
  if (type == IBV_MW_TYPE_1 && (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) == 0) {
    skip("no IBV_DEVICE_MEM_WINDOW");
  }
  if (type == IBV_MW_TYPE_2 && (attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
                                                         IBV_DEVICE_MEM_WINDOW_TYPE_2B)) == 0) {
    skip("neither IBV_DEVICE_MEM_WINDOW_TYPE_2A nor IBV_DEVICE_MEM_WINDOW_TYPE_2B");
  }
}

bool claims_atomics(const Device& dev) { return dev.attr().atomic_cap != IBV_ATOMIC_NONE; }

void need_atomics(const Device& dev) {
  if (!claims_atomics(dev)) skip("atomic_cap is IBV_ATOMIC_NONE");
}

void need_xrc(ibv_context* context) {
  ibv_device_attr attr{};
  if (ibv_query_device(context, &attr) != 0) fail_errno("ibv_query_device");
  if ((attr.device_cap_flags & IBV_DEVICE_XRC) == 0) skip("no IBV_DEVICE_XRC");
}

void need_device_memory(ibv_context* context) {
  ibv_device_attr_ex attr{};
  if (ibv_query_device_ex(context, nullptr, &attr) != 0 || attr.max_dm_size == 0) {
    skip("max_dm_size is 0");
  }
}

void need_capability(const Device& dev, std::uint64_t bit, const char* name) {
  if ((dev.attr_ex().device_cap_flags_ex & bit) == 0) skip("no {}", name);
}

MwPtr alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  need_windows(pd->context, type);
  MwPtr mw(ibv_alloc_mw(pd, type));
  if (!mw) fail_errno("ibv_alloc_mw");
  return mw;
}

Memory::Memory(ibv_pd* pd, std::size_t length, int access, std::optional<std::uint64_t> iova)
    : map_(length), base_(iova.value_or(map_.address())) {
  mr_.reset(ibv_reg_mr_iova(pd, map_.at(), length, base_, static_cast<unsigned>(access)));
  if (!mr_) fail("ibv_reg_mr of {} bytes: {}", length, errno_name(errno));
  trace("ibv_reg_mr of {} bytes at {:#x}, {}: {}", length, base_,
        access_text(static_cast<unsigned>(access)), key_tag(mr_->rkey));
}

std::uint64_t Memory::physical() const {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kFrameMask = (std::uint64_t{1} << 55) - 1;
  std::uint64_t entry = 0;
  const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto at = static_cast<off_t>(map_.address() / kPage * 8);
  const ssize_t got = ::pread(fd, &entry, sizeof(entry), at);
  ::close(fd);
  require(got == sizeof(entry) && (entry & kFrameMask) != 0, "no frame in /proc/self/pagemap");
  return (entry & kFrameMask) * kPage;
}

std::uint64_t Memory::load64(std::uint64_t offset) const {
  require(length() >= sizeof(std::uint64_t) && offset <= length() - sizeof(std::uint64_t),
          "a word past the memory");
  std::uint64_t value = 0;
  std::memcpy(&value, map_.at(offset), sizeof(value));
  return value;
}

void Memory::store64(std::uint64_t offset, std::uint64_t value) const {
  require(length() >= sizeof(value) && offset <= length() - sizeof(value),
          "a word past the memory");
  std::memcpy(map_.at(offset), &value, sizeof(value));
}

void fill(std::span<std::byte> out, std::uint64_t seed) {
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t word = pattern_word(seed, i / 8);
    std::memcpy(&out[i], &word, std::min<std::size_t>(8, out.size() - i));
  }
}

std::optional<std::size_t> mismatch(std::span<const std::byte> in, std::uint64_t seed) {
  for (std::size_t i = 0; i < in.size(); i += 8) {
    const std::uint64_t word = pattern_word(seed, i / 8);
    const std::size_t n = std::min<std::size_t>(8, in.size() - i);
    if (std::memcmp(&in[i], &word, n) != 0) return i;
  }
  return {};
}

namespace {

int modify(ibv_qp* qp, ibv_qp_attr& attr, int mask) {
  const int err = ibv_modify_qp(qp, &attr, mask);
  trace("QP {:#x} to {}: {}", qp->qp_num, state_name(attr.qp_state), errno_name(err));
  return err;
}

}  // namespace

int to_init(ibv_qp* qp, const Connection& how) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = static_cast<unsigned>(how.qp_access);
  attr.qkey = kQkey;
  int mask = IBV_QP_STATE | IBV_QP_PORT;
  if (qp->qp_type != IBV_QPT_RAW_PACKET) {
    mask |= IBV_QP_PKEY_INDEX;
    mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  }
  return modify(qp, attr, mask);
}

namespace {

// A responder has resources for READs and atomics; a requester sends such requests.
bool is_responder(const ibv_qp* qp) {
  return qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
}

bool is_requester(const ibv_qp* qp) {
  return qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
}

}  // namespace

ibv_ah_attr path_to(std::uint8_t gid_index, const ibv_gid& gid, std::uint16_t lid) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.dlid = lid;
  attr.grh.dgid = gid;
  attr.grh.sgid_index = gid_index;
  attr.grh.hop_limit = 64;
  return attr;
}

ibv_ah_attr path_to_itself(const Device& dev) {
  return path_to(dev.gid_index(), dev.gid(), dev.port().lid);
}

int to_rtr(ibv_qp* qp, const Device& dev, const Connection& how, const Endpoint& remote) {
  return to_rtr(qp, dev.gid_index(), how, remote);
}

int to_rtr(ibv_qp* qp, std::uint8_t gid_index, const Connection& how, const Endpoint& remote) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = how.mtu;
  attr.dest_qp_num = remote.qpn;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = how.max_dest_rd_atomic;
  attr.min_rnr_timer = how.min_rnr_timer;
  attr.ah_attr = path_to(gid_index, remote.gid, remote.lid);
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_RAW_PACKET) {
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (is_responder(qp)) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return modify(qp, attr, mask);
}

int to_rts(ibv_qp* qp, const Connection& how, std::uint32_t sq_psn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = sq_psn;
  attr.timeout = how.timeout;
  attr.retry_cnt = how.retry_cnt;
  attr.rnr_retry = how.rnr_retry;
  attr.max_rd_atomic = how.max_rd_atomic;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_RAW_PACKET) mask |= IBV_QP_SQ_PSN;
  if (is_requester(qp)) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  } else if (qp->qp_type == IBV_QPT_XRC_RECV) {
    mask |= IBV_QP_TIMEOUT;
  }
  return modify(qp, attr, mask);
}

int to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modify(qp, attr, IBV_QP_STATE);
}

ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  const int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
  require(err == 0, "ibv_query_qp: {}", errno_name(err));
  return attr.qp_state;
}

void connect(ibv_qp* qp, const Device& dev, const Connection& how, const Endpoint& self,
             const Endpoint& remote, ibv_qp_state until) {
  if (dev.iwarp()) skip("iWARP connects by rdma_cm alone");
  Connection able = how;
  able.max_dest_rd_atomic =
      static_cast<std::uint8_t>(std::min<int>(able.max_dest_rd_atomic, dev.attr().max_qp_rd_atom));
  able.max_rd_atomic =
      static_cast<std::uint8_t>(std::min<int>(able.max_rd_atomic, dev.attr().max_qp_init_rd_atom));
  if (until >= IBV_QPS_INIT) require_err(to_init(qp, how), 0, "to INIT");
  if (until >= IBV_QPS_RTR) require_err(to_rtr(qp, dev, able, remote), 0, "to RTR");
  if (until >= IBV_QPS_RTS) require_err(to_rts(qp, able, self.psn), 0, "to RTS");
}

void connect_to_itself(ibv_qp* qp, const Device& dev) {
  const Endpoint self{.qpn = qp->qp_num, .psn = 1, .gid = dev.gid()};
  connect(qp, dev, {.mtu = dev.active_mtu()}, self, self);
}

CqPtr create_cq(const Device& dev, int entries, ibv_comp_channel* channel) {
  CqPtr cq;
  if (dev.parent() != nullptr) {
    const int before = live_buffers;
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<std::uint32_t>(entries);
    attr.channel = channel;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = dev.parent();
    ibv_cq_ex* cq_ex = ibv_create_cq_ex(dev.context(), &attr);
    cq.reset(cq_ex != nullptr ? ibv_cq_ex_to_cq(cq_ex) : nullptr);
    require(!cq || live_buffers > before, "a CQ that does not use its parent domain's allocator");
  } else {
    cq.reset(ibv_create_cq(dev.context(), entries, nullptr, channel, 0));
  }
  if (!cq) fail_errno("ibv_create_cq");
  require(cq->cqe >= entries, "CQ of {} entries has {}", entries, cq->cqe);
  return cq;
}

QpPtr try_create_qp(const Device& dev, QpSpec& spec) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = spec.send_cq;
  attr.recv_cq = spec.recv_cq;
  attr.srq = spec.srq;
  attr.qp_type = spec.type;
  attr.sq_sig_all = spec.signal_all ? 1 : 0;
  if (spec.type == IBV_QPT_XRC_RECV) {
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = spec.xrcd;
  } else {
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (spec.builds || dev.apis().size() > 1) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = spec.send_ops;
    }
    attr.cap = spec.cap;
    attr.pd = spec.pd != nullptr ? spec.pd : dev.pd();
  }
  QpPtr qp(ibv_create_qp_ex(dev.context(), &attr));
  if (qp) {
    spec.cap = attr.cap;
    trace("QP {:#x}: {} sends, {} receives, {} bytes inline", qp->qp_num, attr.cap.max_send_wr,
          attr.cap.max_recv_wr, attr.cap.max_inline_data);
  } else {
    trace("no QP: {}", errno_name(errno));
  }
  return qp;
}

QpPtr create_qp(const Device& dev, QpSpec& spec) {
  if (spec.type == IBV_QPT_XRC_SEND || spec.type == IBV_QPT_XRC_RECV) need_xrc(dev.context());
  QpPtr qp = try_create_qp(dev, spec);
  // No capability names these types.
  if (!qp && (spec.type == IBV_QPT_UC || spec.type == IBV_QPT_UD)) {
    skip("no {} QP: {}", spec.type == IBV_QPT_UC ? "UC" : "UD", errno_name(errno));
  }
  if (!qp) fail_errno("ibv_create_qp_ex");
  return qp;
}

QpPtr create_qp(const Device& dev, QpSpec&& spec) { return create_qp(dev, spec); }

XrcShare open_xrc(const Device& dev, ibv_pd* pd, ibv_cq* cq, const ibv_srq_attr& attr) {
  need_xrc(dev.context());
  XrcShare share;
  ibv_xrcd_init_attr xrcd{};
  xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd.fd = -1;
  xrcd.oflags = O_CREAT;
  share.xrcd.reset(ibv_open_xrcd(dev.context(), &xrcd));
  if (!share.xrcd) fail_errno("ibv_open_xrcd");
  ibv_srq_init_attr_ex srq{};
  srq.attr = attr;
  srq.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  srq.srq_type = IBV_SRQT_XRC;
  srq.pd = pd;
  srq.xrcd = share.xrcd.get();
  srq.cq = cq;
  share.srq.reset(ibv_create_srq_ex(dev.context(), &srq));
  if (!share.srq || ibv_get_srq_num(share.srq.get(), &share.srqn) != 0) {
    fail_errno("ibv_create_srq_ex");
  }
  return share;
}

AhPtr create_ah(const Device& dev, const ibv_gid& gid, std::uint16_t lid) {
  ibv_ah_attr attr = path_to(dev.gid_index(), gid, lid);
  AhPtr ah(ibv_create_ah(dev.pd(), &attr));
  if (!ah) fail_errno("ibv_create_ah");
  return ah;
}

Send bind_request(ibv_mw* mw, const Memory& to, std::uint8_t variant, std::uint64_t wr_id,
                  std::uint32_t length, std::uint64_t at) {
  Send s{.opcode = IBV_WR_BIND_MW, .wr_id = wr_id};
  s.mw = mw;
  s.bind = {.mr = to.mr(),
            .addr = to.address(at),
            .length = length,
            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  s.bind_rkey = (mw->rkey & ~0xffU) | variant;
  return s;
}

const char* api_name(Api api) { return api == Api::kPost ? "ibv_post_send" : "ibv_wr"; }

namespace {

int post_list(ibv_qp* qp, std::span<const Send> sends, std::size_t* bad) {
  std::vector<ibv_send_wr> wrs(sends.size());
  for (std::size_t i = 0; i < sends.size(); i++) {
    const Send& s = sends[i];
    ibv_send_wr& wr = wrs[i];
    wr.wr_id = s.wr_id;
    wr.next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
    wr.sg_list = const_cast<ibv_sge*>(s.sges.data());
    wr.num_sge = static_cast<int>(s.sges.size());
    wr.opcode = s.opcode;
    wr.send_flags = s.flags;
    if (s.opcode == IBV_WR_SEND_WITH_INV || s.opcode == IBV_WR_LOCAL_INV) {
      wr.invalidate_rkey = s.inv_rkey;
    } else {
      wr.imm_data = htonl(s.imm);
    }
    if (qp->qp_type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = s.srqn;
    if (s.opcode == IBV_WR_BIND_MW) {
      wr.bind_mw.mw = s.mw;
      wr.bind_mw.rkey = s.bind_rkey;
      wr.bind_mw.bind_info = s.bind;
    }
    if (qp->qp_type == IBV_QPT_UD) {
      wr.wr.ud.ah = s.ah;
      wr.wr.ud.remote_qpn = s.remote_qpn;
      wr.wr.ud.remote_qkey = s.remote_qkey;
    } else if (s.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = s.raddr;
      wr.wr.atomic.rkey = s.rkey;
      wr.wr.atomic.compare_add = s.compare_add;
      wr.wr.atomic.swap = s.swap;
    } else {
      wr.wr.rdma.remote_addr = s.raddr;
      wr.wr.rdma.rkey = s.rkey;
    }
  }
  ibv_send_wr* bad_wr = nullptr;
  const int err = ibv_post_send(qp, wrs.data(), &bad_wr);
  if (err != 0 && bad != nullptr) {
    const auto at = std::ranges::find_if(wrs, [&](const ibv_send_wr& wr) { return &wr == bad_wr; });
    *bad = bad_wr == nullptr ? kBadNull
           : at == wrs.end() ? kBadWild
                             : static_cast<std::size_t>(at - wrs.begin());
  }
  return err;
}

// Sets the inline data of a request, or its SGEs.
void set_data(ibv_qp_ex* qpx, const Send& s) {
  if ((s.flags & IBV_SEND_INLINE) == 0) {
    if (s.sges.size() == 1) {
      ibv_wr_set_sge(qpx, s.sges[0].lkey, s.sges[0].addr, s.sges[0].length);
    } else {
      ibv_wr_set_sge_list(qpx, s.sges.size(), s.sges.data());
    }
    return;
  }
  std::vector<ibv_data_buf> bufs;
  for (const ibv_sge& sge : s.sges) {
    bufs.push_back({.addr = reinterpret_cast<void*>(sge.addr), .length = sge.length});
  }
  if (bufs.size() == 1) {
    ibv_wr_set_inline_data(qpx, bufs[0].addr, bufs[0].length);
  } else {
    ibv_wr_set_inline_data_list(qpx, bufs.size(), bufs.data());
  }
}

void build(ibv_qp_ex* qpx, const Send& s) {
  bool data = true;
  qpx->wr_id = s.wr_id;
  qpx->wr_flags = s.flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  switch (s.opcode) {
    case IBV_WR_SEND:
      ibv_wr_send(qpx);
      break;
    case IBV_WR_SEND_WITH_IMM:
      ibv_wr_send_imm(qpx, htonl(s.imm));
      break;
    case IBV_WR_SEND_WITH_INV:
      ibv_wr_send_inv(qpx, s.inv_rkey);
      break;
    case IBV_WR_RDMA_WRITE:
      ibv_wr_rdma_write(qpx, s.rkey, s.raddr);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      ibv_wr_rdma_write_imm(qpx, s.rkey, s.raddr, htonl(s.imm));
      break;
    case IBV_WR_RDMA_READ:
      ibv_wr_rdma_read(qpx, s.rkey, s.raddr);
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      ibv_wr_atomic_cmp_swp(qpx, s.rkey, s.raddr, s.compare_add, s.swap);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      ibv_wr_atomic_fetch_add(qpx, s.rkey, s.raddr, s.compare_add);
      break;
    case IBV_WR_ATOMIC_WRITE:
      ibv_wr_atomic_write(qpx, s.rkey, s.raddr, &s.swap);
      data = false;
      break;
    case IBV_WR_FLUSH:
      ibv_wr_flush(qpx, s.rkey, s.raddr, s.flush_length, s.flush_type, s.flush_level);
      data = false;
      break;
    case IBV_WR_BIND_MW:
      ibv_wr_bind_mw(qpx, s.mw, s.bind_rkey, &s.bind);
      return;
    case IBV_WR_LOCAL_INV:
      ibv_wr_local_inv(qpx, s.inv_rkey);
      return;
    default:
      fail("no ibv_wr_*() for opcode {}", static_cast<int>(s.opcode));
  }
  if (qpx->qp_base.qp_type == IBV_QPT_UD) {
    ibv_wr_set_ud_addr(qpx, s.ah, s.remote_qpn, s.remote_qkey);
  } else if (qpx->qp_base.qp_type == IBV_QPT_XRC_SEND) {
    ibv_wr_set_xrc_srqn(qpx, s.srqn);
  }
  if (data) set_data(qpx, s);
}

}  // namespace

namespace {

int post_session(ibv_qp* qp, std::span<const Send> sends) {
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(qp);
  if (qpx == nullptr) skip("no ibv_wr_*()");
  ibv_wr_start(qpx);
  for (const Send& s : sends) build(qpx, s);
  return ibv_wr_complete(qpx);
}

std::string text_of(const Send& s) {
  std::uint64_t length = s.flush_length;
  for (const ibv_sge& sge : s.sges) length += sge.length;
  std::string text = std::format("{} {:#x}, {} bytes", opcode_name(s.opcode), s.wr_id, length);
  if (s.sges.size() > 1) text += std::format(" in {} SGEs", s.sges.size());
  const bool sends = s.opcode == IBV_WR_SEND || s.opcode == IBV_WR_SEND_WITH_IMM;
  if (s.rkey != 0 && !sends) text += std::format(", at {:#x}, {}", s.raddr, key_tag(s.rkey));
  if (s.inv_rkey != 0) text += ", " + key_tag(s.inv_rkey);
  if (s.opcode == IBV_WR_BIND_MW) {
    text += std::format(", {} bytes at {:#x}, {}, new {}", s.bind.length, s.bind.addr,
                        access_text(s.bind.mw_access_flags), key_tag(s.bind_rkey));
  }
  return text + ((s.flags & IBV_SEND_INLINE) != 0 ? ", inline" : "");
}

void trace_post(const ibv_qp* qp, Api api, std::span<const Send> sends, int err) {
  for (const Send& s : sends) trace("QP {:#x} {}: {}", qp->qp_num, api_name(api), text_of(s));
  if (err != 0) trace("QP {:#x} {}: {}", qp->qp_num, api_name(api), errno_name(err));
}

}  // namespace

int post(ibv_qp* qp, Api api, std::span<const Send> sends, std::size_t* bad) {
  const int err = api == Api::kPost ? post_list(qp, sends, bad) : post_session(qp, sends);
  if (tracing()) trace_post(qp, api, sends, err);
  return err;
}

void require_bad(std::size_t bad, std::size_t expected) {
  require(bad != kBadNull, "bad_wr is null, not request {}", expected);
  require(bad != kBadWild, "bad_wr points to no request of the list, not to request {}", expected);
  require(bad == expected, "bad_wr is request {}, not {}", bad, expected);
}

int post(ibv_qp* qp, Api api, const Send& send) { return post(qp, api, std::span(&send, 1)); }

namespace {

std::uint64_t length_of(std::span<const ibv_sge> sges) {
  std::uint64_t length = 0;
  for (const ibv_sge& sge : sges) length += sge.length;
  return length;
}

}  // namespace

int post_recv(ibv_qp* qp, std::uint64_t wr_id, std::span<const ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int err = ibv_post_recv(qp, &wr, &bad);
  if (tracing()) {
    trace("QP {:#x} receive {:#x}, {} bytes: {}", qp->qp_num, wr_id, length_of(sges),
          errno_name(err));
  }
  return err;
}

int post_srq_recv(ibv_srq* srq, std::uint64_t wr_id, std::span<const ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int err = ibv_post_srq_recv(srq, &wr, &bad);
  if (tracing()) {
    trace("SRQ receive {:#x}, {} bytes: {}", wr_id, length_of(sges), errno_name(err));
  }
  return err;
}

std::vector<ibv_wc> poll(ibv_cq* cq, std::size_t count, int timeout_ms) {
  std::vector<ibv_wc> wcs(count);
  std::size_t got = 0;
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (got < count) {
    const int n = ibv_poll_cq(cq, static_cast<int>(count - got), &wcs[got]);
    require(n >= 0, "ibv_poll_cq: {}", n);
    trace_completions(std::span(wcs).subspan(got, static_cast<std::size_t>(n)));
    got += static_cast<std::size_t>(n);
    require(got == count || n > 0 || Clock::now() < end, "{} of {} completions after {} ms", got,
            count, timeout_ms);
  }
  return wcs;
}

std::vector<ibv_wc> poll_for(ibv_cq* cq, std::size_t count, int ms) {
  std::vector<ibv_wc> wcs;
  const auto end = Clock::now() + std::chrono::milliseconds(ms);
  do {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    require(n >= 0, "ibv_poll_cq: {}", n);
    if (n == 1) wcs.push_back(wc);
  } while (wcs.size() < count && Clock::now() < end);
  trace_completions(wcs);
  return wcs;
}

void expect_quiet(ibv_cq* cq, int ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(ms);
  do {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    require(n == 0, "completion of wr_id {:#x}, {}, where none may come", wc.wr_id,
            ibv_wc_status_str(wc.status));
  } while (Clock::now() < end);
  trace("nothing completes in {} ms", ms);
}

bool wait_event(ibv_comp_channel* channel, int timeout_ms) {
  if (!readable(channel->fd, timeout_ms)) {
    trace("no completion event");
    return false;
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel, &cq, &context) != 0) fail_errno("ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  trace("completion event");
  return true;
}

}  // namespace guest
