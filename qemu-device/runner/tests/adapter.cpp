// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace tern::runner {

namespace {

constexpr unsigned kLogAdmin = 4;
constexpr std::uint32_t kEvents = 64;
constexpr std::uint64_t kUarBytes = 2 << 16;

// ---- the engine's host ----

void* map(void* opaque, std::uint64_t addr, std::uint64_t* len, bool) {
  Bytes& ram = static_cast<Adapter*>(opaque)->ram;
  if (addr >= ram.size()) return nullptr;
  *len = std::min<std::uint64_t>(*len, ram.size() - addr);
  return ram.data() + addr;
}

void unmap(void*, void*, std::uint64_t, bool, std::uint64_t) {}

std::uint64_t now(void* opaque) { return static_cast<Adapter*>(opaque)->now(); }

std::uint64_t random(void*) {
  static std::atomic<std::uint64_t> state = 1;
  std::uint64_t x = state.fetch_add(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 27);
}

constexpr TernHostOps kOps = {map, unmap, now, random, nullptr, nullptr};

std::uint64_t steady_now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace

bool wait_until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

Adapter::Adapter(const Options& options) : options_(options) {
  aq_ = alloc(4096);
  acq_ = alloc(4096);
  in_ = alloc(4096);
  out_ = alloc(4096);
  TernConfig config{};
  config.uar_bar_size = kUarBytes;
  config.max_qp = config.max_cq = config.max_mr = config.max_mw = 64;
  config.num_vectors = 8;
  config.max_mtu = 9000;
  config.link_speed = 100'000;
  std::ranges::copy(mac(), config.mac);
  engine = tern_engine_new(&config, &kOps, this);
  runner.emplace(engine, *this, options.config);
  if (!options_.threads) return;
  runner->start();
  loop_ = std::thread(&Adapter::main_loop, this);
}

void Adapter::shut_down() {
  if (loop_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      wake_.notify_all();
    }
    loop_.join();
  }
  host([](Runner& r) { r.stop(); });
}

Adapter::~Adapter() {
  shut_down();
  runner.reset();
  tern_engine_free(engine);
  EXPECT_EQ(workers, 0);
}

// ---- the host ----

void Adapter::post(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_[task] = true;
  wake_.notify_one();
}

void Adapter::schedule(Call call) { post(call == Call::kDeliver ? kDeliver : kTakeFrames); }

bool Adapter::scheduled(Call call) {
  const std::lock_guard lock(mutex_);
  return tasks_[call == Call::kDeliver ? kDeliver : kTakeFrames];
}

std::optional<std::uint64_t> Adapter::armed(Timer timer) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = timers_.at(static_cast<std::size_t>(timer));
  return at == UINT64_MAX ? std::nullopt : std::optional(at);
}

void Adapter::arm(Timer timer, std::uint64_t at) {
  const std::lock_guard lock(mutex_);
  timers_.at(static_cast<std::size_t>(timer)) = at;
  wake_.notify_one();
}

void Adapter::disarm(Timer timer) { arm(timer, UINT64_MAX); }

// Called with mutex_, which it drops meanwhile: makes the next call that is due. Returns false if
// there is none.
bool Adapter::call_next(std::unique_lock<std::mutex>& lock) {
  const auto task = std::ranges::find(tasks_, true);
  const auto timer = std::ranges::find_if(timers_, [t = now()](std::uint64_t at) { return at <= t; });
  if (task == tasks_.end() && timer == timers_.end()) return false;
  if (task != tasks_.end()) {
    *task = false;
  } else {
    *timer = UINT64_MAX;
  }
  lock.unlock();
  host([&](Runner& r) {
    if (task == tasks_.end()) return r.expired(static_cast<Timer>(timer - timers_.begin()));
    switch (task - tasks_.begin()) {
      case kDeliver:
        return r.deliver();
      case kTakeFrames:
        return r.take_frames();
      default:
        return r.resumed();
    }
  });
  lock.lock();
  return true;
}

void Adapter::pump() {
  std::unique_lock lock(mutex_);
  for (int i = 0; i < 1000 && call_next(lock); ++i) {
  }
}

void Adapter::advance(std::uint64_t ns) {
  clock_ += ns;
  pump();
}

void Adapter::main_loop() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!call_next(lock)) wake_.wait_for(lock, std::chrono::microseconds(200));
  }
}

std::uint64_t Adapter::now() { return options_.threads ? steady_now() / options_.slowness : clock_.load(); }

void Adapter::trace(Event event, std::uint64_t, std::uint64_t) {
  ++events_.at(static_cast<std::size_t>(event));
  if (on_event) on_event(event);
}

void Adapter::capture(const TernFrame& frame) { EXPECT_NE(frame.len, 0U); }

void Adapter::raise(unsigned vector) {
  if (vector == kVector) take_events();
  ++raised_.at(vector);
  if (on_raise) on_raise();
}

// Consumes events, because an EQ that nobody reads fills up.
void Adapter::take_events() {
  for (;; store(eq_record_, ++eq_ci_)) {
    const std::uint64_t entry = eq_ + eq_ci_ % kEvents * sizeof(tern_eqe);
    const std::uint32_t phase = eq_ci_ / kEvents % 2 != 0 ? 0 : 1;
    if ((load(entry + offsetof(tern_eqe, phase)) & TERN_CQE_PHASE) != phase) return;
  }
}

void Adapter::receive_again() { ++receive_agains; }

Host::Sent Adapter::send(const TernFrame& frame) {
  Bytes bytes(frame.len);
  std::memcpy(bytes.data(), frame.data, frame.len);
  if (blocked && !holds) return Sent::kBlocked;
  if (peer_ != nullptr) {
    const std::lock_guard lock(peer_->mutex_);
    if (peer_->inbox_.size() >= peer_->inbox_size) {
      peer_->wants_room_ = true;
      return Sent::kBlocked;
    }
    const unsigned every = lose_every;
    if (every == 0 || ++sent_to_peer_ % every != 0) peer_->inbox_.push_back(std::move(bytes));
    if (std::exchange(peer_->waits_, false)) {
      peer_->tasks_[kTakeFrames] = true;
      peer_->wake_.notify_one();
    }
  } else {
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(bytes));
  }
  if (on_send) on_send();
  return blocked ? Sent::kHeld : Sent::kTaken;
}

std::vector<Bytes> Adapter::take_sent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(sent_, {});
}

void Adapter::put_in_inbox(Bytes frame) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(frame));
}

std::size_t Adapter::inbox() {
  const std::lock_guard lock(mutex_);
  return inbox_.size();
}

std::span<const std::byte> Adapter::next_frame() {
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) return {};
  frame_ = std::move(inbox_.front());
  inbox_.pop_front();
  return frame_;
}

bool Adapter::wait_for_frames() {
  bool wanted = false;
  bool none = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wants_room_, false);
    none = waits_ = inbox_.empty();
  }
  if (wanted) peer_->post(kResumed);
  return none;
}

// ---- the driver ----

std::uint64_t Adapter::alloc(std::uint64_t bytes) {
  const std::uint64_t addr = next_;
  next_ += (bytes + 4095) / 4096 * 4096;
  if (next_ > ram.size()) std::abort();
  return addr;
}

void Adapter::store(std::uint64_t addr, std::uint32_t value) {
  std::atomic_ref(*at<std::uint32_t>(addr)).store(value, std::memory_order_seq_cst);
}

std::uint32_t Adapter::load(std::uint64_t addr) {
  return std::atomic_ref(*at<std::uint32_t>(addr)).load(std::memory_order_seq_cst);
}

void Adapter::doorbell(std::uint32_t command, std::uint32_t number) {
  host([&](Runner& r) { r.doorbell(0, field_prep(TERN_DB_CMD_MASK, command) | number); });
}

std::uint32_t Adapter::reg_read(std::uint32_t offset) {
  return host([&](Runner& r) {
    r.lock();
    const std::uint32_t value = tern_engine_reg_read(engine, offset);
    r.unlock();
    return value;
  });
}

void Adapter::reg_write(std::uint32_t offset, std::uint32_t value) {
  host([&](Runner& r) {
    r.lock();
    tern_engine_reg_write(engine, offset, value);
    r.run();
    r.unlock_and_deliver();
  });
}

void Adapter::start_admin_queue() {
  aq_tail_ = 0;
  std::memset(at<std::byte>(acq_), 0, 4096);
  reg_write(TERN_REG_AQ_BASE_LO, static_cast<std::uint32_t>(aq_));
  reg_write(TERN_REG_AQ_BASE_HI, 0);
  reg_write(TERN_REG_ACQ_BASE_LO, static_cast<std::uint32_t>(acq_));
  reg_write(TERN_REG_ACQ_BASE_HI, 0);
  reg_write(TERN_REG_AQ_LOG_SIZE, kLogAdmin);
  reg_write(TERN_REG_CTRL, TERN_CTRL_ENABLE);
}

std::uint32_t Adapter::command(std::uint16_t opcode, std::span<const std::byte> in, bool out) {
  constexpr std::uint32_t mask = (1U << kLogAdmin) - 1;
  std::memcpy(at<std::byte>(in_), in.data(), in.size());
  tern_aq_entry entry{};
  entry.opcode = opcode;
  entry.version = TERN_CMD_VERSION;
  entry.in_len = static_cast<std::uint16_t>(in.size());
  entry.out_len = out ? static_cast<std::uint16_t>(sizeof(tern_rsp_object)) : std::uint16_t{0};
  entry.in_addr = in_;
  entry.out_addr = out ? out_ : 0;
  *at<tern_aq_entry>(aq_ + (aq_tail_ & mask) * sizeof(entry)) = entry;
  const std::uint64_t slot = acq_ + (aq_tail_ & mask) * sizeof(tern_acq_entry);
  const std::uint32_t phase = (aq_tail_ >> kLogAdmin) & 1 ? 0 : 1;
  reg_write(TERN_REG_AQ_TAIL, ++aq_tail_);
  const auto done = [&] {
    if (!options_.threads) pump();
    return (load(slot + offsetof(tern_acq_entry, phase)) & TERN_CQE_PHASE) == phase;
  };
  if (!wait_until(done)) {
    ADD_FAILURE() << "command " << opcode << " does not complete";
    return 0;
  }
  EXPECT_EQ(at<tern_acq_entry>(slot)->status, TERN_ST_OK) << "command " << opcode;
  return out ? at<tern_rsp_object>(out_)->id : 0;
}

std::array<std::uint8_t, 6> Adapter::mac() const {
  return {0x52, 0x54, 0, 0x77, 0, static_cast<std::uint8_t>(options_.id)};
}

std::array<std::uint8_t, 16> Adapter::gid() const {
  return {0xfd, 77, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, static_cast<std::uint8_t>(options_.id)};
}

tern_pages Adapter::pages(std::uint64_t addr, std::uint64_t bytes) const {
  tern_pages p{};
  p.addr = addr;
  p.num = static_cast<std::uint32_t>((bytes + 4095) / 4096);
  p.page_shift = 12;
  p.kind = TERN_PAGES_DIRECT;
  return p;
}

void Adapter::bring_up() {
  host([](Runner& r) { r.set_link(true); });
  start_admin_queue();
  tern_cmd_modify_port port{};
  port.mask = TERN_PORT_MTU | TERN_PORT_ENABLE;
  port.mtu = 4200;
  port.enable = 1;
  port.port = 1;
  run(TERN_CMD_MODIFY_PORT, port);
  tern_cmd_set_gid entry{};
  entry.valid = 1;
  entry.port = 1;
  entry.net_type = TERN_NET_IPV6;
  entry.vlan = TERN_VLAN_NONE;
  std::ranges::copy(mac(), entry.mac);
  std::ranges::copy(gid(), entry.gid);
  run(TERN_CMD_SET_GID, entry);
  pd = make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
  tern_cmd_create_eq eq{};
  host([this](Runner&) {
    eq_ = alloc(kEvents * sizeof(tern_eqe));
    eq_record_ = alloc(64);
    eq_ci_ = 0;
    std::memset(at<std::byte>(eq_), 0, kEvents * sizeof(tern_eqe));
    store(eq_record_, 0);
  });
  eq.pages = pages(eq_, kEvents * sizeof(tern_eqe));
  eq.record = eq_record_;
  eq.vector = kVector;
  eq.log_size = 6;  // kEvents
  eq.kind = TERN_EQ_COMPLETION;
  eqn = make(TERN_CMD_CREATE_EQ, eq);
}

void Adapter::forget() { next_ = out_ + 4096; }

// ---- a QP ----

Qp::Qp(Adapter& adapter)
    : adapter_(adapter),
      sq_(adapter.alloc((64U << kLogSize) + 4096)),
      record_(adapter.alloc(sizeof(tern_qp_record))),
      cq_(adapter.alloc(sizeof(tern_cqe) << kLogSize)),
      cq_record_(adapter.alloc(sizeof(tern_cq_record))),
      buffer_(adapter.alloc(kBytes)) {
  for (const std::uint64_t addr : {record_, cq_, cq_record_}) std::memset(adapter.at<std::byte>(addr), 0, 4096);
  tern_cmd_create_cq cq{};
  cq.pages = adapter.pages(cq_, sizeof(tern_cqe) << kLogSize);
  cq.record = cq_record_;
  cq.eqn = adapter.eqn;
  cq.log_size = kLogSize;
  cqn_ = adapter.make(TERN_CMD_CREATE_CQ, cq);
  tern_cmd_create_qp qp{};
  qp.pages = adapter.pages(sq_, (64U << kLogSize) + 64);
  qp.record = record_;
  qp.rq_offset = 64U << kLogSize;
  qp.pdn = adapter.pd;
  qp.send_cqn = qp.recv_cqn = cqn_;
  qp.type = TERN_QPT_RC;
  qp.log_sq_size = kLogSize;
  qp.log_sq_stride = qp.log_rq_stride = 6;
  qpn_ = adapter.make(TERN_CMD_CREATE_QP, qp);
  tern_cmd_create_mr mr{};
  mr.pages = adapter.pages(buffer_, kBytes);
  mr.iova = buffer_;
  mr.length = kBytes;
  mr.pdn = adapter.pd;
  mr.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE;
  mr.kind = TERN_MR_MEMORY;
  key_ = adapter.make(TERN_CMD_CREATE_MR, mr);
}

void Qp::connect(const Qp& peer, std::uint8_t timeout, std::uint8_t retries) {
  peer_ = &peer;
  tern_cmd_modify_qp to{};
  to.qpn = qpn_;
  to.attr.state = TERN_QPS_INIT;
  to.attr.access = TERN_ACCESS_REMOTE_WRITE;
  to.attr.port = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_PORT | TERN_QPA_ACCESS;
  adapter_.run(TERN_CMD_MODIFY_QP, to);
  to.attr.state = TERN_QPS_RTR;
  std::ranges::copy(peer.adapter_.gid(), to.attr.av.dgid);
  std::ranges::copy(peer.adapter_.mac(), to.attr.av.dmac);
  to.attr.av.hop_limit = 64;
  to.attr.av.port = 1;
  to.attr.path_mtu = 10;
  to.attr.dest_qpn = peer.qpn_;
  to.attr.max_dest_rd_atomic = 1;
  to.attr.min_rnr_timer = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN |
            TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
  adapter_.run(TERN_CMD_MODIFY_QP, to);
  to.attr.state = TERN_QPS_RTS;
  to.attr.timeout = timeout;
  to.attr.retry_cnt = retries;
  to.attr.rnr_retry = 7;
  to.attr.max_rd_atomic = 1;
  to.mask = TERN_QPA_STATE | TERN_QPA_SQ_PSN | TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY |
            TERN_QPA_MAX_RD_ATOMIC;
  adapter_.run(TERN_CMD_MODIFY_QP, to);
}

void Qp::post(std::uint32_t bytes, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    const std::uint64_t slot = sq_ + (pi_ + i) % (1U << kLogSize) * 64;
    tern_sq_hdr header{};
    header.opcode = TERN_WR_RDMA_WRITE;
    header.flags = TERN_WQE_F_SIGNALED;
    header.num_sge = 1;
    header.wr_id = pi_ + i;
    *adapter_.at<tern_sq_hdr>(slot) = header;
    *adapter_.at<tern_rdma_seg>(slot + 32) = {peer_->buffer_, peer_->key_, 0};
    *adapter_.at<tern_sge>(slot + 48) = {buffer_, bytes, key_};
  }
  pi_ += n;
  adapter_.store(record_ + offsetof(tern_qp_record, sq_pi), pi_);
}

bool Qp::polled() { return (adapter_.load(record_ + offsetof(tern_qp_record, status)) & TERN_QP_ST_SQ_POLLED) != 0; }

bool Qp::ring() {
  if (polled()) return false;
  adapter_.doorbell(TERN_DB_CMD_SQ, qpn_);
  return true;
}

std::uint32_t Qp::poll() {
  for (;;) {
    const std::uint64_t slot = cq_ + ci_ % (1U << kLogSize) * sizeof(tern_cqe);
    const std::uint32_t phase = (ci_ >> kLogSize) & 1 ? 0 : 1;
    if ((adapter_.load(slot + offsetof(tern_cqe, phase)) & TERN_CQE_PHASE) != phase) return done_;
    const tern_cqe cqe = *adapter_.at<tern_cqe>(slot);
    EXPECT_EQ(cqe.wqe_index, done_);
    done_ = cqe.wqe_index + 1;
    failed_ += cqe.status != TERN_CQE_SUCCESS;
    adapter_.store(cq_record_, ++ci_);
  }
}

void Qp::arm() {
  adapter_.store(cq_record_ + offsetof(tern_cq_record, arm),
                 field_prep(TERN_CQ_ARM_CI_MASK, ci_) | TERN_CQ_ARM_VALID | field_prep(TERN_CQ_ARM_SEQ_MASK, arm_sequence_++));
  adapter_.doorbell(TERN_DB_CMD_CQ_ARM, cqn_);
}

bool Qp::drain() {
  return wait_until([&] { return poll() == pi_; });
}

// ---- an Ethernet queue ----

EthernetQueue::EthernetQueue(Adapter& adapter)
    : adapter_(adapter), ring_(adapter.alloc(4096)), record_(adapter.alloc(64)), frames_(adapter.alloc(256 * 4096)) {
  tern_cmd_create_cq cq{};
  cq.pages = adapter.pages(adapter.alloc(256 * sizeof(tern_cqe)), 256 * sizeof(tern_cqe));
  cq.record = adapter.alloc(64);
  cq.eqn = TERN_NO_EQ;
  cq.log_size = 8;
  cq.flags = TERN_CQ_F_IGNORE_OVERRUN;
  tern_cmd_create_eth_queue tx{};
  tx.cqn = adapter.make(TERN_CMD_CREATE_CQ, cq);
  tx.pages = adapter.pages(ring_, 4096);
  tx.record = record_;
  tx.direction = TERN_ETH_QUEUE_TX;
  tx.log_size = 8;
  tx.port = 1;
  number_ = adapter.make(TERN_CMD_CREATE_ETH_QUEUE, tx);
}

void EthernetQueue::send(unsigned frames, std::uint32_t len) {
  for (unsigned i = 0; i < frames; ++i, ++pi_) {
    const std::uint64_t data = frames_ + pi_ % 256 * 4096;
    std::memset(adapter_.at<std::byte>(data), static_cast<int>(pi_ & 0xff), len);
    *adapter_.at<std::byte>(data) = std::byte{0x52};  // unicast
    *adapter_.at<tern_eth_txd>(ring_ + pi_ % 256 * sizeof(tern_eth_txd)) = {data, len, TERN_ETH_F_EOP, 0};
  }
  adapter_.store(record_, pi_);
  adapter_.doorbell(TERN_DB_CMD_ETH_TX, number_);
}

}  // namespace tern::runner
