// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter.h"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "clock.h"
#include "end_thread.h"
#include "log.h"
#include "tern_hw.hpp"
#include "unix_socket.h"

namespace tern::daemon {

namespace {

// Messages of the hypervisor that are handled at a time.
constexpr unsigned kMessages = 16;
// Cost of a doorbell to a guest: a message of its hypervisor and the answer (ternd_bench,
// BM_Message), which take two to three times as long on busy processors.
constexpr std::uint32_t kDoorbellCost = 200'000;
// The same without device memory: QEMU does not wait for the answer if no region is mapped. The
// message itself takes longer, so a queue that is rung every 40 us is worth polling.
constexpr std::uint32_t kPostedDoorbellCost = 10'000;
// Messages about one hypervisor in the journal: a burst, and one more in each interval.
constexpr unsigned kLogBurst = 10;
constexpr std::uint64_t kLogInterval = 10'000'000'000;
// Time until a hypervisor that could not attach is tried again, in ns.
constexpr std::uint64_t kAttachAgain = 100'000'000;

// Encoded as in PCI Express's Link Capabilities Register: the lowest speed from 8 GT/s on at which
// 16 lanes sustain the port. 8 GT/s carry 104 Gbit/s of payload in TLPs of 128 bytes.
std::uint32_t link_speed(std::uint32_t port_speed) {
  constexpr std::uint32_t k8Gt = 3;
  constexpr std::uint32_t k64Gt = 6;
  std::uint32_t speed = k8Gt;
  for (std::uint64_t sustained = 100'000; sustained < port_speed && speed < k64Gt; sustained *= 2)
    ++speed;
  return speed;
}

// Limit of the clock of an adapter that is loaded, in ns: 146 years.
constexpr std::uint64_t kMostTime = std::uint64_t{1} << 62;

AdapterConfig limited(AdapterConfig config, const Share& share) {
  limit_pages(config, share);
  return config;
}

}  // namespace

// Locks the engine, and stops the other lanes.
class Adapter::Access {
 public:
  explicit Access(Adapter& adapter) : runner_(adapter.runner()) {
    runner_.lock();
    alone_.emplace(*adapter.engine_);
  }
  ~Access() {
    alone_.reset();
    runner_.unlock_without_delivering();
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  runner::Runner& runner_;
  std::optional<Device::Alone> alone_;
};

Adapter::Adapter(const AdapterConfig& config, Switch& fabric, const Share& share, Files files)
    : config_(limited(config, share)),
      regions_(share.regions),
      mapped_(share.mapped),
      files_(std::move(files)),
      dm_(config.engine.dm_size) {
  make_engine();
  for (unsigned i = 0; i < engine_->lanes(); ++i) {
    Port* const first = port_.get();
    lanes_.push_back(
        std::make_unique<Lane>(i, config_, *engine_, memory_, clock_, *this, fabric, first));
    if (first == nullptr) port_.reset(&home().port());
  }
  port_->set_policy(config_.port);
  port_->set_zero_copy(config_.zero_copy);
  if (!config_.events.empty() && !files_.events) files_.events = create_file(config_.events);
  if (files_.events) check_file(files_.events, "the event log " + config_.events);
  if (!config_.pcap.empty() && !files_.pcap) files_.pcap = create_file(config_.pcap);
  // One hypervisor at a time: the next ones wait in connect().
  make_function(files_.listener
                    ? std::move(files_.listener)
                    : listen_at(config_.path, 0, socket_rights(config_.user, config_.group)));
  watch_function();
}

Adapter::~Adapter() {
  if (!stop()) std::_Exit(1);
  // After stop() the path may be another adapter's.
  if (!running_.load()) unlink(config_.path.c_str());
}

void Adapter::make_engine() {
  Config c = config_.engine;
  c.dm = std::span(dm_.data(), c.dm_size);
  c.unfinished_frames = true;
  c.doorbell_cost = c.dm_size == 0 ? kPostedDoorbellCost : kDoorbellCost;
  engine_ = std::make_unique<Device>(engine_host_, c);
  std::string why;
  if (!engine_->set_faults(config_.faults, why))
    throw std::invalid_argument("property 'faults': " + why);
  engine_->port.icrc_mode = config_.icrc;
  if (config_.zero_copy) engine_->share_payload();
}

void Adapter::log_events(Descriptor file) {
  runner::EventFile log;
  log.limit = config_.events_limit;
  log.clock = TERN_LOG_CLOCK_MONOTONIC;
  log.epoch = clock_ns(CLOCK_REALTIME) - clock_ns();
  log.mac = config_.engine.mac;
  log.name = config_.name;
  log.fd = file.release();
  runner().log_events(log);
}

void Adapter::make_function(Descriptor listener) {
  Function::Options options;
  options.space.uar_size = config_.engine.uar_bar_size;
  options.space.dm_size = dm_.size();
  options.space.vectors = config_.engine.num_vectors;
  options.space.link_speed = link_speed(config_.engine.link_speed);
  options.regions = regions_;
  options.mapped = mapped_;
  options.migration = config_.migration;
  function_ =
      std::make_unique<Function>(std::move(listener), options, DmFile{dm_.fd(), dm_.data()}, *this);
}

void Adapter::start() {
  if (files_.events) log_events(std::move(files_.events));
  if (files_.pcap)
    set_capture(
        std::make_unique<Capture>(std::move(files_.pcap), config_.pcap_limit, config_.pcap));
  unsigned number = 0;
  for_others(
      [&](Lane& lane) { lane.start(config_.name.substr(0, 12) + "/" + std::to_string(++number)); });
  thread_ = std::thread(&Adapter::loop, this);
  running_.wait(false);
}

bool Adapter::stop() {
  // One that its hypervisor blocks may keep the others waiting.
  const auto interrupt = [this] {
    for_others([](Lane& lane) { lane.interrupt(); });
    interrupt_thread(thread_);
  };
  for_others([](Lane& lane) { lane.request(Lane::kStop); });
  for (std::size_t i = 1; i < lanes_.size(); ++i) {
    if (!lanes_[i]->stop(interrupt)) return false;
  }
  if (thread_.joinable()) {
    home().request(Lane::kStop);
    if (!end_thread(thread_, ended_)) return false;
    unlink(config_.path.c_str());
  }
  // Other threads may still use the lanes.
  if (function_) function_->close();
  function_.reset();
  capture_.reset();
  return true;
}

// ---- other threads ----

TaskQueue::Ticket Adapter::post(std::function<void()> task) {
  TaskQueue::Ticket ticket = tasks_.post(std::move(task));
  home().request(Lane::kTasks);
  return ticket;
}

void Adapter::memory_lost(Lane& lane) {
  if (&lane != &home()) return home().request(Lane::kTurn);
  memory_.forget_lost();
  log(LOG_WARNING, "the hypervisor's memory is shorter than it says: it is dropped");
  function_->drop();
}

void Adapter::raise(Lane& lane, unsigned vector) {
  &lane == &home() ? function_->raise(vector) : function_->raise_beside(vector);
}

void Adapter::log_ended(int error) {
  const std::string why = error == 0 ? "events-limit" : std::strerror(error);
  write_log(error == 0 ? LOG_INFO : LOG_WARNING, config_.name,
            "the event log " + config_.events + " ends: " + why);
}

// ---- the thread ----

void Adapter::loop() {
  home().begin(config_.name);
  running_.store(true);
  running_.notify_one();
  home().loop();
  for (const auto& lane : lanes_) lane->runner().stop();
  // Other adapters may have frames that refer to the hypervisor's memory.
  engine_->dma_invalidate(0, UINT64_MAX);
  // Close it here, because a hypervisor with many regions makes this slow.
  function_->close();
  ended_.release();
}

void Adapter::stop_lanes() {
  for_others([](Lane& lane) { lane.hold(); });
}

void Adapter::start_lanes() {
  for_others([](Lane& lane) { lane.resume(); });
}

void Adapter::run_tasks() {
  stop_lanes();
  start_lanes();
  tasks_.run();
}

void Adapter::serve() {
  attaching_ = !function_->serve(kMessages);
  if (attaching_) home().set_timer(clock_ns() + kAttachAgain);
  watch_function();
}

void Adapter::timer_expired() {
  attaching_ = false;
  watch_function();
}

// The descriptor changes when a hypervisor attaches or detaches. One that cannot attach now leaves
// it readable.
void Adapter::watch_function() {
  const int fd = attaching_ ? -1 : function_->fd();
  if (fd == watched_) return;
  if (watched_ >= 0) home().unwatch(watched_);
  if (fd >= 0) home().watch(fd);
  watched_ = fd;
}

// ---- the function's owner ----

std::uint32_t Adapter::read_register(std::uint64_t offset) {
  if (removed_) return UINT32_MAX;
  runner().lock();
  const std::uint32_t value = engine_->reg_read(static_cast<std::uint32_t>(offset));
  runner().unlock();
  return value;
}

void Adapter::write_register(std::uint64_t offset, std::uint32_t value) {
  if (removed_) return;
  runner().lock();
  engine_->reg_write(static_cast<std::uint32_t>(offset), value);
  runner().run();
  runner().unlock_and_deliver();
}

std::uint32_t Adapter::read_doorbell(std::uint64_t offset) {
  if (removed_) return UINT32_MAX;
  runner().lock();
  const std::uint32_t value = engine_->uar_read(offset);
  runner().unlock();
  return value;
}

void Adapter::ring_doorbell(std::uint64_t offset, std::uint32_t value) {
  if (removed_) return;
  std::uint32_t lanes = engine_->doorbell_lanes(offset, value);
  if ((lanes & 1) != 0) runner().doorbell(offset, value);
  for (lanes &= ~1U; lanes != 0; lanes &= lanes - 1)
    lanes_[static_cast<std::size_t>(std::countr_zero(lanes))]->ring(offset, value);
}

void Adapter::memory_added(const GuestMemory::Region& region) {
  const Access access(*this);
  // A thread that reads shared payload may search the list of regions (GuestMemory::borrow()).
  engine_->dma_invalidate(region.addr, region.len);
  if (memory_.add(region)) memory_.update(engine_host_);
}

void Adapter::memory_removed(const GuestMemory::Region& region) {
  const Access access(*this);
  engine_->dma_invalidate(region.addr, region.len);
  if (memory_.remove(region.addr)) memory_.update(engine_host_);
}

void Adapter::reset() {
  const Access access(*this);
  memory_.allow(false);
  for (const auto& lane : lanes_) lane->runner().reset();
  memory_.update(engine_host_);
}

void Adapter::power_changed(bool bus_master, bool awake) {
  const Access access(*this);
  memory_.allow(bus_master);
  memory_.update(engine_host_);
  if (!bus_master || !awake) engine_->dma_invalidate(0, UINT64_MAX);
  for (const auto& lane : lanes_) lane->runner().set_awake(awake);
}

// The state of the runner, and the time.
bool Adapter::save(std::vector<std::byte>& to, std::string& why) {
  if (!runner().save(to, why, MigrationStream::kMostState)) return false;
  const std::uint64_t time = clock_.now();
  const auto bytes = std::as_bytes(std::span(&time, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
  return true;
}

// Tells switches outside of the daemon where the adapter is now, by a RARP request, as QEMU does.
void Adapter::announce() {
  const Mac& mac = config_.engine.mac;
  std::array<std::byte, 60> frame{};
  const auto put = [&](std::size_t at, const auto& bytes) {
    std::ranges::copy(std::as_bytes(std::span(bytes)),
                      frame.begin() + static_cast<std::ptrdiff_t>(at));
  };
  std::ranges::fill(std::span(frame).first(6), std::byte{0xff});
  put(6, mac);
  // Ethernet type; hardware and protocol with the lengths of their addresses; operation.
  put(12, std::to_array<std::uint8_t>({0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3}));
  put(22, mac);
  put(32, mac);
  (void)port_->send(WireFrame(std::span<const std::byte>(frame)), clock_ns());
}

// The rules of faults are the administrator's: those of the state are not.
bool Adapter::load(std::span<const std::byte> state, std::string& why) {
  std::uint64_t time = 0;
  if (state.size() < sizeof(time)) {
    why = "it is too short";
    return false;
  }
  std::memcpy(&time, state.last(sizeof(time)).data(), sizeof(time));
  if (time > kMostTime) {
    why = "its time is wrong";
    return false;
  }
  const std::string rules = faults();
  clock_.set(time);
  const bool loaded = runner().load(state.first(state.size() - sizeof(time)), why);
  std::string refused;
  const Access access(*this);
  if (!engine_->set_faults(rules, refused)) log(LOG_ERR, refused.c_str());
  if (loaded) announce();
  home().request(Lane::kDeliver);
  return loaded;
}

void Adapter::attached() {
  log(LOG_INFO, "a hypervisor is attached");
  set_link(link_wanted_);
  set_speed(speed_wanted_);
}

void Adapter::detached() {
  log(LOG_INFO, "the hypervisor is gone");
  // The descriptor is closed next, and may then be another thread's.
  home().unwatch(std::exchange(watched_, -1));
  port_->set_link(false);
  runner().set_link(false);
  // The next hypervisor gets an adapter that is present.
  removed_ = false;
  runner().set_present(true);
  {
    const Access access(*this);
    for (const auto& lane : lanes_) lane->drop_frames();
    clock_.reset();
  }
  fresh_ = renew_memory();
  if (!fresh_)
    log(LOG_WARNING,
        "the host has no memory or descriptors for device memory: the next hypervisor waits");
}

bool Adapter::renew_memory() { return dm_.renew() && function_->set_dm({dm_.fd(), dm_.data()}); }

bool Adapter::ready() {
  if (!fresh_) fresh_ = renew_memory();
  return fresh_;
}

void Adapter::log(int priority, const char* message) {
  const std::uint64_t time = clock_ns();
  if (const std::uint64_t more = (time - log_refilled_) / kLogInterval; more != 0) {
    log_tokens_ = static_cast<unsigned>(std::min<std::uint64_t>(kLogBurst, log_tokens_ + more));
    log_refilled_ = time;
  }
  if (log_tokens_ == 0) return;
  --log_tokens_;
  write_log(priority, config_.name, message);
}

void Adapter::capture(const runner::Host::Frame& frame) {
  if (capture_) capture_->add(clock_.host_time(frame.time), frame.bytes);
}

// ---- within call() ----

Adapter::Status Adapter::status() {
  const Access access(*this);
  return {function_->attached(), port_->link(),   memory_.bytes(),
          memory_.regions(),     engine_->info(), engine_->counters()};
}

void Adapter::set_link(bool up) {
  link_wanted_ = up;
  if (!function_->attached()) return;
  port_->set_link(up);
  runner().set_link(up);
}

void Adapter::set_speed(std::uint32_t mbps) {
  speed_wanted_ = mbps;
  if (function_->attached()) runner().set_speed(mbps);
}

std::string Adapter::set_faults(const std::string& text) {
  std::string why;
  const Access access(*this);
  const bool ok = engine_->set_faults(text, why);
  runner().run();
  return ok ? "" : why;
}

std::string Adapter::faults() const { return engine_->faults(); }

void Adapter::set_removed(bool removed) {
  if (removed == removed_) return;
  removed_ = removed;
  runner().set_present(!removed);
  function_->set_removed(removed);
}

std::unique_ptr<Capture> Adapter::set_capture(std::unique_ptr<Capture> capture) {
  {
    const Access access(*this);
    engine_->set_capture(capture != nullptr);
    // Frames made before may lack the ICRC: collect them before the capture begins.
  }
  return std::exchange(capture_, std::move(capture));
}

void Adapter::set_icrc(IcrcMode mode) {
  const Access access(*this);
  engine_->port.icrc_mode = mode;
}

}  // namespace tern::daemon
