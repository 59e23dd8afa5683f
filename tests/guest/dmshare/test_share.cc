// SPDX-License-Identifier: GPL-2.0-or-later
// ibv_import_device, ibv_import_pd, ibv_import_mr and ibv_import_dm: the importer gets the
// exporter's device file over a socket, and the handles.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "dmshare.h"

namespace guest {
namespace {

constexpr std::uint64_t kLength = 4 * kPage;
constexpr std::uint64_t kHost = 65536;

// Orders to the exporter.
enum Ask : std::uint64_t { kPaint, kCheck, kPaintHost, kCheckHost, kEnd };

// Creates one object of each kind, and executes orders {ask, seed} on their bytes.
void exporter(const Where& where, const Talk& talk) {
  const Device dev = where.open();
  const Space host(dev, Kind::kHost, kHost);
  const DmPtr dm = alloc_dm(dev.context(), kLength);
  const MrPtr region = reg_dm(dev.pd(), dm.get(), 0, kLength);
  const MrPtr plain(ibv_reg_mr(dev.pd(), host.bytes().data(), kHost, kAllAccess));
  require(plain != nullptr, "ibv_reg_mr: {}", errno_name(errno));
  talk.give(dev.context()->cmd_fd);
  talk.tell({dev.pd()->handle, dm->handle, region->handle, plain->handle, region->lkey, plain->lkey,
             plain->rkey, host.address()});
  for (;;) {
    const Words words = talk.hear();
    std::vector<std::byte> bytes(kLength);
    switch (words[0]) {
      case kPaint:
        fill(bytes, words[1]);
        dm_write(dm.get(), 0, bytes);
        break;
      case kCheck:
        require(!mismatch(dm_read(dm.get(), 0, kLength), words[1]),
                "the exporter's view of the device memory differs");
        break;
      case kPaintHost:
        host.paint(words[1]);
        break;
      case kCheckHost:
        host.check(words[1]);
        break;
      default:
        return;
    }
    talk.tell();
  }
}

struct Exported {
  int fd;
  std::uint32_t pd;
  std::uint32_t dm;
  std::uint32_t region;
  std::uint32_t plain;
  std::uint32_t region_key;
  std::uint32_t plain_lkey;
  std::uint32_t plain_rkey;
  std::uint64_t address;
};

Exported hear_exported(const Talk& talk) {
  const int fd = talk.take();
  const Words w = talk.hear();
  const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(w[i]); };
  return {fd, word(0), word(1), word(2), word(3), word(4), word(5), word(6), w[7]};
}

ContextPtr import_device(int fd) {
  ContextPtr context(ibv_import_device(fd));
  require(context != nullptr, "ibv_import_device: {}", errno_name(errno));
  return context;
}

// All exported objects, imported; the destructor unimports them.
class Imported {
 public:
  explicit Imported(const Exported& from) : from_(from), dev_(import_device(from.fd), -1) {
    pd_ = ibv_import_pd(context(), from.pd);
    require(pd_ != nullptr, "ibv_import_pd: {}", errno_name(errno));
    dm_ = ibv_import_dm(context(), from.dm);
    require(dm_ != nullptr, "ibv_import_dm: {}", errno_name(errno));
    region_ = ibv_import_mr(pd_, from.region);
    plain_ = ibv_import_mr(pd_, from.plain);
    require(region_ != nullptr && plain_ != nullptr, "ibv_import_mr: {}", errno_name(errno));
  }
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;
  ~Imported() {
    if (plain_ != nullptr) ibv_unimport_mr(plain_);
    if (region_ != nullptr) ibv_unimport_mr(region_);
    if (dm_ != nullptr) ibv_unimport_dm(dm_);
    if (pd_ != nullptr) ibv_unimport_pd(pd_);
  }

  [[nodiscard]] const Device& device() const { return dev_; }
  [[nodiscard]] ibv_context* context() const { return dev_.context(); }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] ibv_dm* dm() const { return dm_; }
  [[nodiscard]] ibv_mr* region() const { return region_; }
  [[nodiscard]] ibv_mr* plain() const { return plain_; }

  void check_keys() const {
    require(region_->lkey == from_.region_key && region_->length == kLength, "the region's key");
    require(plain_->lkey == from_.plain_lkey && plain_->rkey == from_.plain_rkey &&
                plain_->length == kHost,
            "the key of the host's memory");
    require(plain_->addr == nullptr && region_->addr == nullptr, "addr is not NULL");
    require(pd_->handle == from_.pd && dm_->handle == from_.dm &&
                (dm_->comp_mask & IBV_DM_MASK_HANDLE) != 0,
            "another handle");
  }
  // Destroy the objects, instead of unimporting them.
  int dereg_region() {
    const int err = ibv_dereg_mr(region_);
    region_ = err == 0 ? nullptr : region_;
    return err;
  }
  int free() {
    const int err = ibv_free_dm(dm_);
    dm_ = err == 0 ? nullptr : dm_;
    return err;
  }
  [[nodiscard]] int dealloc() {
    const int err = ibv_dealloc_pd(pd_);
    pd_ = err == 0 ? nullptr : pd_;
    return err;
  }

 private:
  Exported from_;
  Device dev_;
  ibv_pd* pd_ = nullptr;
  ibv_dm* dm_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_mr* plain_ = nullptr;
};

// Two QPs of the importer on the imported PD.
class ImportedPair {
 public:
  explicit ImportedPair(const Imported& from)
      : cq_(create_cq(from.device(), 16)),
        pair_(from.device(),
              alike({.memory = 0, .pd = from.pd(), .send_cq = cq_.get(), .recv_cq = cq_.get()})) {}

  void run(ibv_wr_opcode opcode, const ibv_sge& sge, std::uint64_t raddr,
           std::uint32_t rkey) const {
    pair_.run({.opcode = opcode, .sges = {sge}, .raddr = raddr, .rkey = rkey});
  }

 private:
  CqPtr cq_;
  Pair pair_;
};

// An exporter, and an importer of its objects.
struct Sides {
  explicit Sides(const Where& where,
                 const std::function<void(const Talk&, const Exported&)>& importer)
      : first([&where](const Talk& talk) { exporter(where, talk); }),
        from(hear_exported(first.talk())),
        second([this, &importer](const Talk& talk) { importer(talk, from); }) {
    // This process keeps nothing of the device open.
    ::close(from.fd);
  }
  void end() {
    first.talk().tell({kEnd});
    first.finish();
  }

  Child first;
  Exported from;
  Child second;
};

void same_keys(const Where& where) {
  Sides sides(where, [](const Talk&, const Exported& from) {
    const Imported all(from);
    all.check_keys();
    // Importing twice in one process gives two references to one object.
    const Imported again({::dup(from.fd), from.pd, from.dm, from.region, from.plain,
                          from.region_key, from.plain_lkey, from.plain_rkey, from.address});
    again.check_keys();
  });
  sides.second.finish();
  sides.end();
}

// Bytes that the CPU stores in one process are read in the other, both ways.
void same_bytes(const Where& where) {
  Sides sides(where, [](const Talk& talk, const Exported& from) {
    const Imported all(from);
    for (std::uint64_t seed = 10; seed < 14; seed++) {
      talk.tell();
      talk.wait();
      require(!mismatch(dm_read(all.dm(), 0, kLength), seed), "what the exporter stored");
      std::vector<std::byte> bytes(kLength);
      fill(bytes, seed + 100);
      dm_write(all.dm(), 0, bytes);
      talk.tell();
      talk.wait();
    }
    std::uint32_t word = 0;
    require(ibv_memcpy_from_dm(&word, all.dm(), kLength, 4) == EFAULT, "a copy after the end");
    require(ibv_memcpy_from_dm(&word, all.dm(), 2, 4) == EINVAL, "a copy not in words");
  });
  for (std::uint64_t seed = 10; seed < 14; seed++) {
    sides.second.talk().wait();
    static_cast<void>(sides.first.ask({kPaint, seed}));
    static_cast<void>(sides.second.ask());
    static_cast<void>(sides.first.ask({kCheck, seed + 100}));
    sides.second.talk().tell();
  }
  sides.second.finish();
  sides.end();
}

// The importer's requests move bytes between the exporter's memory and the device memory. The
// importer sends the parent the orders for the exporter.
void move_bytes(const Talk& talk, const Exported& from) {
  const Imported all(from);
  const ImportedPair pair(all);
  const ibv_sge host{.addr = from.address, .length = kLength, .lkey = all.plain()->lkey};
  const ibv_sge device{.addr = 0, .length = kLength, .lkey = all.region()->lkey};
  std::vector<std::byte> bytes(kLength);
  const auto want = [&talk](Ask what, std::uint64_t seed) {
    talk.tell({what, seed});
    talk.wait();
  };
  want(kPaintHost, 21);
  pair.run(IBV_WR_RDMA_WRITE, host, 0, all.region()->rkey);
  require(!mismatch(dm_read(all.dm(), 0, kLength), 21), "what was written into the device memory");
  // The other direction, with bytes stored by the importer's CPU.
  fill(bytes, 22);
  dm_write(all.dm(), 0, bytes);
  pair.run(IBV_WR_RDMA_WRITE, device, from.address, all.plain()->rkey);
  want(kCheck, 22);
  // READ: the exporter's memory holds one pattern again.
  fill(bytes, 21);
  dm_write(all.dm(), 0, bytes);
  pair.run(IBV_WR_RDMA_READ, host, 0, all.region()->rkey);
  want(kCheckHost, 21);
}

void requests(const Where& where) {
  Sides sides(where, move_bytes);
  for (int i = 0; i < 3; i++) {
    static_cast<void>(sides.first.ask(sides.second.talk().hear()));
    sides.second.talk().tell();
  }
  sides.second.finish();
  sides.end();
}

void unimport_leaves_all(const Where& where) {
  Sides sides(where, [](const Talk& talk, const Exported& from) {
    talk.tell();
    talk.wait();
    {
      const auto before = device_mappings();
      const Imported all(from);
      require(added(before, device_mappings()).size() >= 1, "nothing is mapped");
      talk.tell();
      talk.wait();
    }
    require(device_mappings().empty(), "a mapping stays");
    talk.tell();
    talk.wait();
  });
  constexpr const char* kNames[] = {"alive_pd", "alive_mr", "alive_dm", "dm_bytes"};
  std::vector<std::uint64_t> counts;
  sides.second.talk().wait();
  for (const char* name : kNames) counts.push_back(where.count(name));
  for (int step = 0; step < 2; step++) {
    static_cast<void>(sides.second.ask());
    for (std::size_t i = 0; i < counts.size(); i++) {
      require(where.count(kNames[i]) == counts[i], "{} is {}, was {}", kNames[i],
              where.count(kNames[i]), counts[i]);
    }
    static_cast<void>(sides.first.ask({kPaint, 5}));
    static_cast<void>(sides.first.ask({kCheck, 5}));
  }
  sides.second.talk().tell();
  sides.second.finish();
  sides.end();
}

// Objects that do not exist cannot be imported.
void refused_imports(const Where& where) {
  Sides sides(where, [&where](const Talk&, const Exported& from) {
    require(ibv_import_device(-1) == nullptr, "ibv_import_device of no file");
    const int null = ::open("/dev/null", O_RDWR);
    require(ibv_import_device(null) == nullptr, "ibv_import_device of /dev/null");
    const Imported all(from);
    for (const std::uint32_t handle : {from.pd, from.region, 0xffffU, 0x7fffffffU, 0xffffffffU}) {
      require(ibv_import_dm(all.context(), handle) == nullptr, "ibv_import_dm of {}", handle);
    }
    for (const std::uint32_t handle : {from.pd, from.dm, 0xffffU, 0x7fffffffU, 0xffffffffU}) {
      require(ibv_import_mr(all.pd(), handle) == nullptr, "ibv_import_mr of {}", handle);
    }
    // Handles belong to a file: they are invalid in another one.
    const Device own = where.open();
    require(ibv_import_dm(own.context(), from.dm) == nullptr, "the handle of another file");
    require(ibv_import_mr(own.pd(), from.region) == nullptr, "the handle of another file");
    // A PD that does not exist is refused at import or at its first use.
    ibv_pd* pd = ibv_import_pd(all.context(), 0xffff);
    if (pd != nullptr) {
      std::array<std::byte, 64> bytes{};
      require(ibv_reg_mr(pd, bytes.data(), bytes.size(), 0) == nullptr, "a region in no PD");
      ibv_unimport_pd(pd);
    }
  });
  sides.second.finish();
  sides.end();
}

// The importer destroys the objects for both processes, in the order of their dependencies.
void destroyed_by_the_importer(const Where& where) {
  const std::uint64_t regions = where.count("alive_mr");
  Sides sides(where, [](const Talk& talk, const Exported& from) {
    Imported all(from);
    require(all.free() == EBUSY, "ibv_free_dm with a region on it");
    require(all.dealloc() == EBUSY, "ibv_dealloc_pd with regions in it");
    require(!dm_read(all.dm(), 0, kLength).empty(), "not usable after EBUSY");
    require(all.dereg_region() == 0, "ibv_dereg_mr of an imported region");
    require(all.free() == 0, "ibv_free_dm of an imported allocation");
    talk.tell();
    talk.wait();
  });
  sides.second.talk().wait();
  where.expect_count("alive_mr", regions + 2);
  // Freed, but still mapped by the exporter: nobody else gets the memory.
  where.expect_count("dm_bytes", kLength);
  static_cast<void>(sides.first.ask({kPaint, 31}));
  {
    Child third([&where](const Talk& talk) {
      const Device dev = where.open();
      const DmPtr rest = alloc_dm(dev.context(), where.size - kLength);
      dm_write(rest.get(), 0, std::vector<std::byte>(where.size - kLength, std::byte{0x44}));
      require(try_alloc_dm(dev.context(), 1) == nullptr, "bytes that are mapped elsewhere");
      talk.tell();
      talk.wait();
    });
    third.talk().wait();
    static_cast<void>(sides.first.ask({kCheck, 31}));
    third.talk().tell();
    third.finish();
  }
  sides.second.talk().tell();
  sides.second.finish();
  // The exporter's objects are gone, so it is killed without destroying them.
  sides.first.kill();
  where.expect_all_free();
}

// Both hold the file open: the importer continues after the exporter's death.
void exporter_dies(const Where& where) {
  Sides sides(where, [](const Talk& talk, const Exported& from) {
    const Imported all(from);
    talk.tell();
    talk.wait();
    std::vector<std::byte> bytes(kLength);
    fill(bytes, 41);
    dm_write(all.dm(), 0, bytes);
    const ImportedPair pair(all);
    const Memory memory(all.pd(), kLength, kAllAccess);
    pair.run(IBV_WR_RDMA_READ, memory.sge(0, kLength), 0, all.region()->rkey);
    require(!mismatch(memory.bytes(), 41), "the device memory differs");
    // The exporter's memory stays pinned as long as the region exists.
    pair.run(IBV_WR_RDMA_READ, memory.sge(0, kLength), from.address, all.plain()->rkey);
    require(!mismatch(memory.bytes(), 42), "the dead process's memory differs");
    talk.tell();
    talk.wait();
  });
  sides.second.talk().wait();
  static_cast<void>(sides.first.ask({kPaintHost, 42}));
  sides.first.kill();
  static_cast<void>(sides.second.ask());
  where.expect_count("alive_dm", 1);
  sides.second.kill();
  where.expect_all_free();
}

// The importer dies. Objects that it created in the file stay until the file is closed.
void importer_dies(const Where& where) {
  Sides sides(where, [](const Talk& talk, const Exported& from) {
    const Imported all(from);
    const ImportedPair pair(all);
    const Memory memory(all.pd(), kLength, kAllAccess);
    talk.tell();
    for (;;) pair.run(IBV_WR_RDMA_READ, memory.sge(0, kLength), 0, all.region()->rkey);
  });
  sides.second.talk().wait();
  sides.second.kill();
  for (std::uint64_t seed = 50; seed < 60; seed++) {
    static_cast<void>(sides.first.ask({kPaint, seed}));
    static_cast<void>(sides.first.ask({kCheck, seed}));
  }
  where.expect_count("alive_dm", 1);
  sides.first.kill();
  where.expect_all_free();
}

void both_die(const Where& where) {
  for (int round = 0; round < 4; round++) {
    Sides sides(where, [](const Talk& talk, const Exported& from) {
      const Imported all(from);
      const ImportedPair pair(all);
      const Memory memory(all.pd(), kLength, kAllAccess);
      talk.tell();
      for (;;) pair.run(IBV_WR_RDMA_WRITE, memory.sge(0, kLength), 0, all.region()->rkey);
    });
    sides.second.talk().wait();
    (round % 2 == 0 ? sides.first : sides.second).kill();
    (round % 2 == 0 ? sides.second : sides.first).kill();
    where.expect_all_free();
  }
}

}  // namespace

std::vector<Test> share_tests(const Where& where) {
  return tests_of(where, {{"import-same-keys", same_keys},
                          {"import-same-bytes", same_bytes},
                          {"import-requests", requests},
                          {"unimport-leaves-all", unimport_leaves_all},
                          {"import-refused", refused_imports},
                          {"destroyed-by-the-importer", destroyed_by_the_importer},
                          {"exporter-dies", exporter_dies},
                          {"importer-dies", importer_dies},
                          {"both-die", both_die}});
}

}  // namespace guest
