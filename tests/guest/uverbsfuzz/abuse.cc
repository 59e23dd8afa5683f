// SPDX-License-Identifier: GPL-2.0-or-later
// What no program should do: raw requests, scribbled queues, memory that goes away, files that
// close.
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "life.h"
#include "uverbs.h"

namespace guest::uverbsfuzz {
namespace {

void store(void* at, std::uint32_t value) { *static_cast<volatile std::uint32_t*>(at) = value; }

}  // namespace

const std::vector<Thread::Op>& Thread::ops() {
  static const std::vector<Op> all = [] {
    std::vector<Op> list = making_ops();
    const std::vector<Op> uses = using_ops();
    list.insert(list.end(), uses.begin(), uses.end());
    list.insert(list.end(), {
                                {"map-file", 8, &Thread::map_file, true},
                                {"touch-mapping", 4, &Thread::touch_mapping, true},
                                {"unmap-queue", 2, &Thread::unmap_queue, true},
                                {"scribble", 4, &Thread::scribble, true},
                                {"ring", 5, &Thread::ring, true},
                                {"change-memory", 4, &Thread::change_memory, true},
                                {"raw-ioctl", 30, &Thread::raw_ioctl, true},
                                {"driver-ioctl", 14, &Thread::raw_driver_ioctl, false},
                                {"raw-write", 30, &Thread::raw_write, true},
                                {"fresh-file", 1, &Thread::fresh_file, false},
                                {"fork", 1, &Thread::fork_child, false},
                                {"close-file", 1, &Thread::close_file, false},
                            });
    return list;
  }();
  return all;
}

Raw Thread::raw() {
  return {.fd = process_.verbs->cmd_fd,
          .handles = process_.handles,
          .arena = arena_,
          .tally = process_.tally,
          .core_bugs = process_.options.core_bugs,
          .opens = process_.may_open()};
}

int Thread::raw_ioctl() { return random_ioctl(random_, raw()); }
int Thread::raw_driver_ioctl() { return driver_ioctl(random_, raw()); }
int Thread::raw_write() { return random_write(random_, raw()); }

int Thread::map_file() {
  const std::size_t length = kPage * (random_.one_in(8) ? random_.below(64) : 1 + random_.below(2));
  const std::uint64_t page = random_.one_in(8) ? interesting(random_) : random_.below(24);
  const int protection = static_cast<int>(random_.one_in(4) ? random_.below(8) : 3);
  const int flags = random_.one_in(8) ? MAP_PRIVATE : MAP_SHARED;
  if (mappings_.size() >= 16) return kNothing;
  const auto offset = static_cast<off_t>(page * kPage & 0x7ffffffffffff000);
  void* const memory = mmap(nullptr, length, protection, flags, process_.verbs->cmd_fd, offset);
  if (memory == MAP_FAILED) return errno;
  reached(kMmap);
  if (protection & PROT_WRITE && protection & PROT_READ) {
    mappings_.push_back({memory, length});
  } else {
    munmap(memory, length);
  }
  return 0;
}

int Thread::touch_mapping() {
  Mapping* const mapping = any(mappings_);
  const std::size_t word = random_.below(1024);
  const std::uint32_t value = random_.below(16) << 28 | random_.below(1U << 12);
  const std::uint32_t what = random_.below(4);
  if (mapping == nullptr) return kNothing;
  auto* const at = static_cast<std::byte*>(mapping->memory) + word * 4;
  if (what == 0) {
    munmap(mapping->memory, mapping->length);
    mappings_.erase(mappings_.begin() + (mapping - mappings_.data()));
  } else if (what == 1) {
    (void)*reinterpret_cast<volatile std::uint32_t*>(at);
  } else {
    store(at, value);
  }
  return 0;
}

bool Thread::queue_area(Area& area, bool forget) {
  Queue* const queue = any(qps_);
  Completions* const cq = any(cqs_);
  const bool of_cq = random_.one_in(3);
  terndv_obj object{};
  if (of_cq) {
    terndv_cq out{};
    if (cq == nullptr) return false;
    object.cq = {.in = cq->cq, .out = &out};
    if (terndv_init_obj(&object, TERNDV_OBJ_CQ) != 0 || out.buf == nullptr) return false;
    cq->scribbled = true;
    area = {out.buf, std::size_t{64} * out.cqe_cnt, out.record, out.doorbell, out.cqn};
    if (forget) cqs_.erase(cqs_.begin() + (cq - cqs_.data()));
    return true;
  }
  terndv_qp out{};
  if (queue == nullptr || queue->extended || queue->qp->qp_type == IBV_QPT_XRC_RECV) return false;
  object.qp = {.in = queue->qp, .out = &out};
  if (terndv_init_obj(&object, TERNDV_OBJ_QP) != 0) return false;
  const terndv_queue& ring = out.sq.buf != nullptr ? out.sq : out.rq;
  if (ring.buf == nullptr || out.record == nullptr) return false;
  queue->scribbled = true;
  area = {ring.buf, std::size_t{ring.stride} * ring.wqe_cnt, out.record, out.doorbell,
          queue->qp->qp_num};
  if (forget) qps_.erase(qps_.begin() + (queue - qps_.data()));
  return true;
}

int Thread::unmap_queue() {
  Area area{};
  if (!queue_area(area, true)) return kNothing;
  const auto begin = reinterpret_cast<std::uintptr_t>(area.memory) / kPage * kPage;
  const std::size_t length = (area.length + kPage - 1) / kPage * kPage;
  // Puts nothing of the library's in its place.
  void* const hole = mmap(reinterpret_cast<void*>(begin), length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (hole == MAP_FAILED) return errno;
  reached(kUnmapQueue);
  return 0;
}

int Thread::scribble() {
  Area area{};
  const std::uint32_t words = 1 + random_.below(256);
  const std::uint64_t seed = random_.next();
  if (!queue_area(area, false)) return kNothing;
  Random noise(seed);
  for (std::uint32_t i = 0; i < words; ++i) {
    const std::size_t at = noise.below(area.length / 4);
    const auto value = static_cast<std::uint32_t>(noise.one_in(2) ? noise.next() : noise.below(64));
    store(static_cast<std::byte*>(area.memory) + at * 4, value);
  }
  const std::uint32_t record_words = noise.below(4);
  for (std::uint32_t i = 0; i < record_words; ++i) {
    const auto value =
        static_cast<std::uint32_t>(noise.one_in(2) ? noise.next() : noise.below(600));
    store(static_cast<std::byte*>(area.record) + 64 * noise.below(2) + 4 * noise.below(2), value);
  }
  if (area.doorbell != nullptr) store(area.doorbell, noise.below(16) << 28 | area.number);
  reached(kScribble);
  return 0;
}

// Rings the doorbell of a random command and queue, of other processes' as well.
int Thread::ring() {
  Completions* const cq = any(cqs_);
  const std::uint32_t command = random_.below(16);
  const std::uint32_t number =
      random_.one_in(8) ? random_.below(1U << 28) : random_.below(1U << 10);
  if (cq == nullptr) return kNothing;
  terndv_cq out{};
  terndv_obj object{};
  object.cq = {.in = cq->cq, .out = &out};
  if (terndv_init_obj(&object, TERNDV_OBJ_CQ) != 0 || out.doorbell == nullptr) return EINVAL;
  store(out.doorbell, command << 28 | number);
  reached(kDoorbell);
  return 0;
}

int Thread::change_memory() {
  Region* const region = any(mrs_);
  const std::uint32_t what = random_.below(6);
  if (region == nullptr || region->memory == nullptr) return kNothing;
  int result = 0;
  switch (what) {
    case 0:
      result = madvise(region->memory, region->length, MADV_DONTNEED);
      break;
    case 1:
      result = mprotect(region->memory, region->length, PROT_READ);
      break;
    case 2:
      result = madvise(region->memory, region->length, MADV_PAGEOUT);
      break;
    case 3:
      result = munmap(region->memory, region->length);
      region->memory = nullptr;
      break;
    case 4: {
      void* const moved =
          mremap(region->memory, region->length, region->length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
      if (moved == MAP_FAILED) return errno;
      munmap(moved, region->length);
      break;
    }
    default:
      result = madvise(region->memory, region->length, MADV_COLD);
      break;
  }
  if (result != 0) return errno;
  reached(kMemory);
  return 0;
}

// A device file of its own, with a context that may be refused, or none at all.
int Thread::fresh_file() {
  const bool has_context = !random_.one_in(3);
  const std::uint32_t calls = random_.below(30);
  const std::uint64_t seed = random_.next();
  const std::string path = uverbs::uverbs_path(process_.options.device);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno;
  Random random(seed);
  Handles handles;
  Raw use = raw();
  use.fd = fd;
  Raw apart{.fd = fd,
            .handles = handles,
            .arena = arena_,
            .tally = use.tally,
            .core_bugs = use.core_bugs,
            .opens = use.opens};
  std::byte* const answer = arena_.page(233);
  int events = -1;
  if (has_context) {
    if (get_context(fd, reinterpret_cast<std::uint64_t>(answer)) != 0) {
      ++process_.tally.refused_opens;
    } else {
      std::memcpy(&events, answer, sizeof(events));
      reached(kFreshFile);
    }
  }
  for (std::uint32_t i = 0; i < calls; ++i) {
    if (random.one_in(2)) {
      random_ioctl(random, apart);
    } else {
      random_write(random, apart);
    }
  }
  if (random.one_in(2)) close(fd);
  if (events > 2) close(events);
  return 0;
}

// The child shares the file and the mappings; it may outlive this process by a little.
int Thread::fork_child() {
  const std::uint32_t calls = random_.below(40);
  const std::uint64_t seed = random_.next();
  std::unique_lock lock = process_.handles.hold();
  const pid_t pid = fork();
  lock.unlock();
  if (pid < 0) return errno;
  if (pid > 0) {
    reached(kFork);
    return 0;
  }
  Random random(seed);
  // The kernel takes commands by write() only from the process that opened the file.
  for (std::uint32_t i = 0; i < calls; ++i) random_ioctl(random, raw());
  _exit(0);
}

// All objects of the file go, while other threads use them.
int Thread::close_file() {
  if (closed_ || !random_.one_in(4)) return kNothing;
  closed_ = true;
  // Another file takes its number, so that the library's later calls cannot reach a stranger's.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return errno;
  dup2(null, process_.verbs->cmd_fd);
  close(null);
  reached(kCloseFile);
  return 0;
}

}  // namespace guest::uverbsfuzz
