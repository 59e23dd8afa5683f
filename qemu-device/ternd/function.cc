// SPDX-License-Identifier: GPL-2.0-or-later
#include "function.h"

// The library's headers are C11.
#define _Static_assert static_assert  // NOLINT(bugprone-reserved-identifier)
#include <libvfio-user.h>
#undef _Static_assert
#include <linux/pci_regs.h>
#include <sys/socket.h>
#include <syslog.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "tern_hw.hpp"

namespace tern::daemon {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

struct Function::Access {
  static Function& of(vfu_ctx_t* ctx) { return *static_cast<Function*>(vfu_get_private(ctx)); }

  // The contract has aligned accesses of 32 bits only. Others read ones, and write nothing.
  template <class Read, class Write>
  static ssize_t word(char* buf, std::size_t count, loff_t offset, bool is_write, Read&& read,
                      Write&& write) {
    std::uint32_t value = UINT32_MAX;
    if (count != sizeof(value) || offset % 4 != 0) {
      if (!is_write) std::memset(buf, 0xff, count);
    } else if (is_write) {
      std::memcpy(&value, buf, sizeof(value));
      write(static_cast<std::uint64_t>(offset), value);
    } else {
      value = read(static_cast<std::uint64_t>(offset));
      std::memcpy(buf, &value, sizeof(value));
    }
    return static_cast<ssize_t>(count);
  }

  static ssize_t registers(vfu_ctx_t* ctx, char* buf, std::size_t count, loff_t offset,
                           bool is_write) {
    FunctionOwner& owner = of(ctx).owner_;
    // The hypervisor emulates the MSI-X table. Reads of the PBA return 0: no vector is pending.
    if (offset >= TERN_MSIX_TABLE_OFFSET) {
      if (!is_write) std::memset(buf, 0, count);
      return static_cast<ssize_t>(count);
    }
    return word(
        buf, count, offset, is_write, [&](std::uint64_t at) { return owner.read_register(at); },
        [&](std::uint64_t at, std::uint32_t value) { owner.write_register(at, value); });
  }

  static ssize_t doorbells(vfu_ctx_t* ctx, char* buf, std::size_t count, loff_t offset,
                           bool is_write) {
    FunctionOwner& owner = of(ctx).owner_;
    return word(
        buf, count, offset, is_write, [&](std::uint64_t at) { return owner.read_doorbell(at); },
        [&](std::uint64_t at, std::uint32_t value) { owner.ring_doorbell(at, value); });
  }

  static ssize_t device_memory(vfu_ctx* ctx, char* buf, std::size_t count, loff_t offset,
                               bool is_write) {
    std::byte* const at = of(ctx).dm_.data + offset;
    if (is_write) {
      std::memcpy(at, buf, count);
    } else {
      std::memcpy(buf, at, count);
    }
    return static_cast<ssize_t>(count);
  }

  static ssize_t config_space(vfu_ctx* ctx, char* buf, std::size_t count, loff_t offset,
                              bool is_write) {
    Function& f = of(ctx);
    const auto at = static_cast<std::size_t>(offset);
    if (f.removed_) {
      if (!is_write) std::memset(buf, 0xff, count);
    } else if (!is_write) {
      f.space_.read(at, std::as_writable_bytes(std::span(buf, count)));
    } else if (f.space_.write(at, std::as_bytes(std::span(buf, count)))) {
      f.reset_function();
    } else {
      // Before the answer: software may then rely on it.
      f.sync_power();
    }
    return static_cast<ssize_t>(count);
  }

  static GuestMemory::Region region(const vfu_dma_info_t& info) {
    return {.addr = reinterpret_cast<std::uintptr_t>(info.iova.iov_base),
            .len = info.iova.iov_len,
            .ptr = static_cast<std::byte*>(info.vaddr),
            .readable = (info.prot & PROT_READ) != 0,
            .writable = (info.prot & PROT_WRITE) != 0,
            .mapping = {static_cast<std::byte*>(info.mapping.iov_base), info.mapping.iov_len},
            .page = info.page_size};
  }
  static void added(vfu_ctx_t* ctx, vfu_dma_info_t* info) {
    of(ctx).owner_.memory_added(region(*info));
  }
  static void removed(vfu_ctx_t* ctx, vfu_dma_info_t* info) {
    of(ctx).owner_.memory_removed(region(*info));
  }

  static int reset(vfu_ctx_t* ctx, vfu_reset_type_t type) {
    Function& f = of(ctx);
    f.reset();
    if (type == VFU_RESET_LOST_CONN) f.on_detached();
    return 0;
  }

  static void log(vfu_ctx_t* ctx, int level, const char* message) {
    of(ctx).owner_.log(level, message);
  }

  // ---- migration ----

  static int answer(bool good) {
    errno = good ? 0 : EINVAL;
    return good ? 0 : -1;
  }
  // The library is C: no exception may reach it.
  template <class F>
  static int guarded(vfu_ctx_t* ctx, F&& f) try {
    return answer(f());
  } catch (const std::bad_alloc&) {
    of(ctx).reset();
    errno = ENOMEM;
    return -1;
  }
  static int transition(vfu_ctx_t* ctx, vfu_migr_state_t to) {
    return guarded(ctx, [&] { return of(ctx).migrate(to); });
  }
  static std::uint64_t pending(vfu_ctx_t* ctx) { return of(ctx).stream_.left(); }
  // The library adds the window's place in the region to offsets.
  static int prepare(vfu_ctx_t* ctx, std::uint64_t* offset, std::uint64_t* size) {
    *offset = 0;
    if (size != nullptr) *size = of(ctx).stream_.fill();
    return 0;
  }
  static ssize_t read_window(vfu_ctx_t* ctx, void* to, std::uint64_t count, std::uint64_t offset) {
    const bool good = of(ctx).stream_.read(offset, {static_cast<std::byte*>(to), count});
    return answer(good) == 0 ? static_cast<ssize_t>(count) : -1;
  }
  static ssize_t write_window(vfu_ctx_t* ctx, void* from, std::uint64_t count,
                              std::uint64_t offset) {
    const bool good = of(ctx).stream_.write(offset, {static_cast<std::byte*>(from), count});
    return answer(good) == 0 ? static_cast<ssize_t>(count) : -1;
  }
  static int written(vfu_ctx_t* ctx, std::uint64_t count) {
    return guarded(ctx, [&] { return of(ctx).stream_.take(count); });
  }
};

class Function::Vectors {
 public:
  explicit Vectors(Function& function) : function_(function) {
    while (function_.vectors_held_.exchange(true)) function_.vectors_held_.wait(true);
  }
  ~Vectors() {
    function_.vectors_held_.store(false);
    function_.raise_pending();
  }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

 private:
  Function& function_;
};

Function::Function(Descriptor listener, const Options& options, const DmFile& dm,
                   FunctionOwner& owner)
    : options_(options),
      owner_(owner),
      space_(options.space),
      dm_(dm),
      stream_({dm.data, options.space.dm_size}) {
  const std::string name = "fd:" + std::to_string(listener.get());
  ctx_ = vfu_create_ctx(VFU_TRANS_SOCK, name.c_str(), LIBVFIO_USER_FLAG_ATTACH_NB, this,
                        VFU_DEV_TYPE_PCI);
  if (ctx_ == nullptr) fail("PCI function");
  (void)listener.release();
  vfu_setup_timeout(ctx_, kWaitLimit);
  vfu_setup_log(ctx_, Access::log, LOG_ERR);
  if (vfu_pci_init(ctx_, VFU_PCI_TYPE_EXPRESS, PCI_HEADER_TYPE_NORMAL, 0) != 0)
    fail("PCI function");
  add_regions();
  vfu_setup_device_reset_cb(ctx_, Access::reset);
  if (vfu_setup_device_dma(ctx_, Access::added, Access::removed) != 0 ||
      vfu_setup_device_nr_irqs(ctx_, VFU_DEV_MSIX_IRQ, options_.space.vectors) != 0 ||
      vfu_realize_ctx(ctx_) != 0) {
    fail("PCI function");
  }
  vfu_setup_dma_limit(ctx_, options_.regions, options_.mapped);
}

Function::~Function() { close(); }

void Function::close() {
  if (ctx_ == nullptr) return;
  vfu_destroy_ctx(ctx_);
  ctx_ = nullptr;
}

void Function::add_regions() {
  constexpr int kMemory = VFU_REGION_FLAG_RW | VFU_REGION_FLAG_MEM;
  // Do not use the library's own config space: it accepts writes beyond a capability.
  constexpr int kConfig = VFU_REGION_FLAG_RW | VFU_REGION_FLAG_ALWAYS_CB;
  if (vfu_setup_region(ctx_, VFU_PCI_DEV_CFG_REGION_IDX, ConfigSpace::kSize, Access::config_space,
                       kConfig, nullptr, 0, -1, 0) != 0 ||
      vfu_setup_region(ctx_, TERN_BAR_REGS, TERN_BAR_REGS_SIZE, Access::registers, kMemory, nullptr,
                       0, -1, 0) != 0 ||
      vfu_setup_region(ctx_, TERN_BAR_UAR, options_.space.uar_size, Access::doorbells, kMemory,
                       nullptr, 0, -1, 0) != 0) {
    fail("regions");
  }
  if (!add_dm()) fail("BAR4");
  if (options_.migration) add_migration();
}

void Function::add_migration() {
  const std::uint64_t registers = vfu_get_migr_register_area_size();
  constexpr vfu_migration_callbacks_t kCallbacks = {.version = VFU_MIGR_CALLBACKS_VERS,
                                                    .transition = Access::transition,
                                                    .get_pending_bytes = Access::pending,
                                                    .prepare_data = Access::prepare,
                                                    .read_data = Access::read_window,
                                                    .write_data = Access::write_window,
                                                    .data_written = Access::written};
  if (vfu_setup_region(ctx_, VFU_PCI_DEV_MIGR_REGION_IDX, registers + MigrationStream::kWindow,
                       nullptr, VFU_REGION_FLAG_RW, nullptr, 0, -1, 0) != 0 ||
      vfu_setup_device_migration_callbacks(ctx_, &kCallbacks, registers) != 0) {
    fail("migration");
  }
}

// Enters a state of a migration. Returns false if the state that was written is refused, and for a
// state that the protocol does not have.
bool Function::migrate(int to) {
  const auto pause = [this] {
    if (!std::exchange(paused_, true)) owner_.power_changed(false, false);
  };
  switch (to) {
    case VFU_MIGR_STATE_PRE_COPY:
      return true;  // all is saved when the machine has stopped
    case VFU_MIGR_STATE_RUNNING:
      if (stream_.loading() && !loaded()) return false;
      stream_.clear();
      if (std::exchange(paused_, false)) {
        bus_master_ = space_.bus_master();
        awake_ = space_.awake();
        owner_.power_changed(bus_master_, awake_);
      }
      return true;
    case VFU_MIGR_STATE_STOP:
      pause();
      return true;
    case VFU_MIGR_STATE_STOP_AND_COPY: {
      pause();
      const auto contents = space_.contents();
      std::vector<std::byte> state(contents.begin(), contents.end());
      std::string why = "it is too large";
      if (!owner_.save(state, why) || state.size() > MigrationStream::kMostState) {
        owner_.log(LOG_WARNING, ("the state cannot be saved: " + why).c_str());
        return false;
      }
      stream_.save(std::move(state));
      return true;
    }
    case VFU_MIGR_STATE_RESUME:
      pause();
      stream_.load();
      return true;
    default:
      return false;
  }
}

// Takes over the state that the hypervisor has written.
bool Function::loaded() {
  std::string why = "the state is incomplete";
  const auto state = stream_.state();
  if (!stream_.complete() || state.size() < ConfigSpace::kSize ||
      !owner_.load(state.subspan(ConfigSpace::kSize), why)) {
    owner_.log(LOG_WARNING, ("a state is refused: " + why).c_str());
    return false;
  }
  space_.load(state.first<ConfigSpace::kSize>());
  return true;
}

bool Function::add_dm() {
  constexpr int kMemory = VFU_REGION_FLAG_RW | VFU_REGION_FLAG_MEM;
  const std::uint64_t size = options_.space.dm_size;
  return size == 0 || vfu_setup_region(ctx_, TERN_BAR_DM, size, Access::device_memory, kMemory,
                                       nullptr, 0, dm_.fd, 0) == 0;
}

bool Function::set_dm(const DmFile& dm) {
  dm_ = dm;
  stream_ = MigrationStream({dm.data, options_.space.dm_size});
  return add_dm();
}

int Function::fd() const { return vfu_get_poll_fd(ctx_); }

void Function::reset() {
  paused_ = false;
  stream_.clear();
  reset_function();
}

void Function::reset_function() {
  space_.reset();
  bus_master_ = false;
  awake_ = true;
  owner_.reset();
  for (auto& word : pending_) word.store(0);
  if (paused_) owner_.power_changed(false, false);
}

void Function::set_removed(bool removed) {
  removed_ = removed;
  reset();
}

void Function::sync_power() {
  if (paused_ || (space_.bus_master() == bus_master_ && space_.awake() == awake_)) return;
  bus_master_ = space_.bus_master();
  awake_ = space_.awake();
  owner_.power_changed(bus_master_, awake_);
}

bool Function::attach() {
  if (!owner_.ready()) return false;
  if (vfu_attach_ctx(ctx_) != 0)
    return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
  {
    const Vectors vectors(*this);
    attached_ = true;
  }
  owner_.attached();
  return true;
}

void Function::on_detached() {
  if (!attached_) return;
  attached_ = false;
  removed_ = false;
  owner_.detached();
}

int Function::run() {
  const Vectors vectors(*this);
  return vfu_run_ctx(ctx_);
}

bool Function::serve(unsigned limit) {
  if (!attached_) return attach();
  for (unsigned i = 0; i < limit; ++i) {
    const int done = run();
    if (!attached_) return true;
    if (done > 0) continue;
    // Without an error there was no message, or a refused one.
    if (done < 0) {
      owner_.log(LOG_WARNING, "the hypervisor breaks the protocol: it is dropped");
      drop();
    }
    return true;
  }
  return true;
}

void Function::drop() {
  if (attached_) shutdown(fd(), SHUT_RDWR);
}

void Function::raise(unsigned vector) {
  // The guest does not use a vector without a descriptor.
  if (attached_) vfu_irq_trigger(ctx_, vector);
}

void Function::raise_beside(unsigned vector) {
  pending_[vector / 64].fetch_or(std::uint64_t{1} << vector % 64);
  raise_pending();
}

// Whoever holds the vectors looks for pending ones after it has released them: none is left.
void Function::raise_pending() {
  const auto waits = [](const std::atomic<std::uint64_t>& word) { return word.load() != 0; };
  while (std::ranges::any_of(pending_, waits) && !vectors_held_.exchange(true)) {
    for (unsigned i = 0; i < pending_.size(); ++i) {
      for (std::uint64_t word = pending_[i].exchange(0); word != 0; word &= word - 1)
        raise(i * 64 + static_cast<unsigned>(std::countr_zero(word)));
    }
    vectors_held_.store(false);
    vectors_held_.notify_one();
  }
}

}  // namespace tern::daemon
