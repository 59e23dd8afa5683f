// SPDX-License-Identifier: GPL-2.0-or-later
#include "world.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "unix_socket.h"

namespace tern::daemon {

namespace {

constexpr unsigned kVectors = 4;

// Descriptors that are open in this process, without the pipes of the fuzzer's symbolizer.
unsigned open_descriptors() {
  unsigned n = 0;
  for (int fd = 0; fd < 256; ++fd) {
    struct stat status{};
    n += fstat(fd, &status) == 0 && !S_ISFIFO(status.st_mode) ? 1U : 0U;
  }
  return n;
}

}  // namespace

World::World() : dm_(kDm) {
  GuestMemory::handle_sigbus();
  memory_.adopt();
  Config c;
  c.dm = std::span(dm_.data(), dm_.size());
  c.uar_bar_size = kUar;
  c.max_qp = c.max_cq = c.max_mr = c.max_mw = 64;
  c.num_vectors = kVectors;
  c.max_mtu = 9216;
  c.link_speed = 1000;
  c.mac[0] = 2;
  engine_ = std::make_unique<Device>(host_, c);
  std::string directory = "/tmp/ternd-fuzz-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) std::abort();
  path_ = directory + "/sock";
  Function::Options o;
  o.space.uar_size = kUar;
  o.space.dm_size = dm_.size();
  o.space.vectors = c.num_vectors;
  o.space.link_speed = 3;
  o.migration = true;
  function_ =
      std::make_unique<Function>(listen_at(path_, 0), o, DmFile{dm_.fd(), dm_.data()}, *this);
}

World::~World() {
  function_->close();
  unlink(path_.c_str());
  rmdir(path_.substr(0, path_.rfind('/')).c_str());
}

void World::serve() {
  function_->serve(1);
  run();
}

void World::run() {
  for (int i = 0; i < 4 && engine_->run(65536); ++i) {
  }
  if (EffectsBatch* const effects = engine_->take_effects()) {
    for (unsigned v = 0; v < kVectors; ++v) {
      if ((effects->vectors()[0] >> v & 1) != 0) function_->raise(v);
    }
    engine_->free_effects(effects);
  }
  if (memory_.lost()) {
    memory_.forget_lost();
    function_->drop();
  }
}

void World::end() {
  for (int i = 0; i < 1000 && (i == 0 || function_->attached()); ++i) serve();
  if (function_->attached()) std::abort();
}

std::uint32_t World::read_register(std::uint64_t offset) {
  return engine_->reg_read(static_cast<std::uint32_t>(offset));
}

void World::write_register(std::uint64_t offset, std::uint32_t value) {
  engine_->reg_write(static_cast<std::uint32_t>(offset), value);
}

std::uint32_t World::read_doorbell(std::uint64_t offset) { return engine_->uar_read(offset); }

void World::ring_doorbell(std::uint64_t offset, std::uint32_t value) {
  engine_->doorbell(offset, value);
}

void World::memory_added(const GuestMemory::Region& region) {
  if (memory_.add(region)) memory_.update(host_);
}

void World::memory_removed(const GuestMemory::Region& region) {
  if (memory_.remove(region.addr)) memory_.update(host_);
  engine_->dma_invalidate(region.addr, region.len);
}

void World::reset() {
  memory_.allow(false);
  memory_.update(host_);
  engine_->reset();
}

void World::power_changed(bool bus_master, bool) {
  memory_.allow(bus_master);
  memory_.update(host_);
  if (!bus_master) engine_->dma_invalidate(0, UINT64_MAX);
}

bool World::save(std::vector<std::byte>& to, std::string& why) {
  if (EffectsBatch* const effects = engine_->take_effects()) engine_->free_effects(effects);
  return engine_->save(to, why);
}

bool World::load(std::span<const std::byte> state, std::string& why) {
  return engine_->load(state, why);
}

void World::attached() { engine_->set_link(true); }

void World::detached() {
  engine_->set_link(false);
  const Device::Info left = info();
  const bool clean =
      memory_.regions() == 0 && left.live_qps == 0 && left.live_keys == 0 && left.page_entries == 0;
  if (!clean) {
    std::fputs("a hypervisor that is gone leaves objects or memory behind\n", stderr);
    std::abort();
  }
  if (!dm_.renew() || !function_->set_dm({dm_.fd(), dm_.data()})) std::abort();
}

void check_descriptors() {
  static unsigned runs = 0;
  static unsigned before = 0;
  // The fuzzer itself opens files at its start.
  if (++runs == 1000) before = open_descriptors();
  if (runs > 1000 && runs % 64 == 0 && open_descriptors() > before) {
    std::fputs("descriptors are left open:\n", stderr);
    std::system("ls -l /proc/$PPID/fd >&2");
    std::abort();
  }
}

}  // namespace tern::daemon
