// SPDX-License-Identifier: GPL-2.0-or-later
// Processes that use one device: none reaches another's memory, and none suffers from another's
// end.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "child.h"
#include "loop.h"
#include "protection.h"

namespace guest::protection {
namespace {

constexpr std::size_t kPage = 4096;

// What a process tells of the memory and the QP that it opens to another.
struct Open {
  std::uint64_t address;
  std::uint32_t rkey;
  std::uint32_t lkey;
  std::uint32_t qpn;
  std::uint32_t handle;  // of its last PD

  [[nodiscard]] Words words() const { return {address, rkey, lkey, qpn, handle}; }
};

Open opened(const Words& w) {
  return {w[0], static_cast<std::uint32_t>(w[1]), static_cast<std::uint32_t>(w[2]),
          static_cast<std::uint32_t>(w[3]), static_cast<std::uint32_t>(w[4])};
}

constexpr std::uint32_t kPsn = 77;

// Few and quick retries, for peers that are gone.
Connection quick(const Device& dev) {
  return {.mtu = dev.active_mtu(), .timeout = 12, .retry_cnt = 3};
}

// A QP without memory, and its peer in another process.
struct Half {
  explicit Half(const Device& device)
      : dev(device), cq(create_cq(device, 64)), qp(create_qp(device, spec(cq.get()))) {}
  static QpSpec spec(ibv_cq* cq) { return {.send_cq = cq, .recv_cq = cq, .cap = capacity(16, 16)}; }
  void join(std::uint32_t qpn) const {
    connect(qp.get(), dev, quick(dev), {.qpn = qp->qp_num, .psn = kPsn, .gid = dev.gid()},
            {.qpn = qpn, .psn = kPsn, .gid = dev.gid()});
  }
  const Device& dev;
  CqPtr cq;
  QpPtr qp;
};

// A process with a device of its own.
Child process(const Env& env, std::function<void(const Device&, const Talk&)> body) {
  const std::string name = ibv_get_device_name(env.dev.context()->device);
  const int gid_index = env.dev.gid_index();
  return Child([name, gid_index, body = std::move(body)](const Talk& talk) {
    const Device dev(name, gid_index);
    body(dev, talk);
  });
}

// A process that opens memory and a QP, joins the QP that it hears of, and waits. When it is asked
// again it checks that its memory is as it was, and that its connections work.
void victim(const Device& dev, const Talk& talk) {
  std::vector<PdPtr> pds;
  for (int i = 0; i < 40; i++) pds.push_back(alloc_pd(dev));
  const Memory memory(dev.pd(), 4 * kPage, kAllAccess);
  fill(memory.bytes(), 1);
  const Half half(dev);
  talk.tell(Open{.address = memory.address(),
                 .rkey = memory.rkey(),
                 .lkey = memory.lkey(),
                 .qpn = half.qp->qp_num,
                 .handle = pds.back()->handle}
                .words());
  const auto peer = static_cast<std::uint32_t>(talk.hear()[0]);
  if (peer != 0) half.join(peer);
  talk.tell();
  talk.wait();
  if (peer == 0) expect_pattern(memory.bytes(), 1, "the memory of another process");
  Pair(dev).expect_traffic();
}

void expect_own_traffic(const Env& env) { Pair(env.dev).expect_traffic(); }

// A victim whose QP is connected to one of this process.
struct Joined {
  explicit Joined(const Env& env)
      : other(process(env, victim)), theirs(opened(other.talk().hear())), half(env.dev) {
    static_cast<void>(other.ask({half.qp->qp_num}));
    half.join(theirs.qpn);
  }

  Child other;
  Open theirs;
  Half half;
};

// Keys of another process do not work in this one.
void foreign_keys(const Env& env) {
  Child other = process(env, victim);
  const Open theirs = opened(other.talk().hear());
  static_cast<void>(other.ask({0}));
  const Memory own(env.dev.pd(), kPage, kAllAccess);
  for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    fill(own.bytes(), 2);
    const Send by_rkey{
        .opcode = op, .sges = {own.sge(0, 64)}, .raddr = theirs.address, .rkey = theirs.rkey};
    const ibv_wc_status remote = Loop(env.dev, 4).run(by_rkey);
    require(remote == IBV_WC_REM_ACCESS_ERR, "by a remote key: {}", ibv_wc_status_str(remote));
    const Send by_lkey{.opcode = op,
                       .sges = {{theirs.address, 64, theirs.lkey}},
                       .raddr = own.address(),
                       .rkey = own.rkey()};
    const ibv_wc_status local = Loop(env.dev, 4).run(by_lkey);
    require(local != IBV_WC_SUCCESS, "by a local key: {}", ibv_wc_status_str(local));
    expect_pattern(own.bytes(), 2, "this process's memory");
  }
  other.talk().tell();
  other.finish();
}

// A QP of another process that is connected to one of this reaches regions of its own PD only.
void peer_process(const Env& env) {
  Joined joined(env);
  auto& [other, theirs, half] = joined;
  const Memory own(env.dev.pd(), kPage, kAllAccess);
  const auto run = [&](std::uint64_t address, std::uint32_t rkey) {
    require_err(post(half.qp.get(), Api::kPost, read_into(own.sge(0, 64), address, rkey)), 0,
                "a READ");
    return poll(half.cq.get(), 1, 60000).front().status;
  };
  require(run(theirs.address, theirs.rkey) == IBV_WC_SUCCESS, "a READ of what is open");
  std::vector<std::byte> want(64);
  fill(want, 1);
  require(std::ranges::equal(own.bytes().first(64), want), "other bytes came");
  const ibv_wc_status status = run(own.address(), own.rkey());
  require(status == IBV_WC_REM_ACCESS_ERR, "a key of this process at the other: {}",
          ibv_wc_status_str(status));
  other.talk().tell();
  other.finish();
}

// Numbers of QPs and keys that exist at once differ, whoever has them.
void numbers(const Env& env) {
  std::set<std::uint64_t> qpns, keys;
  std::size_t count = 0;
  std::vector<std::unique_ptr<Child>> others;
  const std::string name = ibv_get_device_name(env.dev.context()->device);
  for (int i = 0; i < 4; i++) {
    others.push_back(std::make_unique<Child>([&](const Talk& talk) {
      const Device dev(name, env.dev.gid_index());
      const Memory memory(dev.pd(), kPage, kAllAccess);
      const Half one(dev), two(dev), three(dev);
      talk.tell({one.qp->qp_num, two.qp->qp_num, three.qp->qp_num, memory.rkey()});
      talk.wait();
    }));
    const Words w = others.back()->talk().hear();
    qpns.insert({w[0], w[1], w[2]});
    keys.insert(w[3]);
    count += 3;
  }
  require(qpns.size() == count, "{} QPs have {} numbers", count, qpns.size());
  require(keys.size() == others.size(), "{} regions have {} keys", others.size(), keys.size());
  for (const auto& other : others) {
    other->talk().tell();
    other->finish();
  }
}

// A handle is a number of the process that has it.
void foreign_handles(const Env& env) {
  Child other = process(env, victim);
  const Open theirs = opened(other.talk().hear());
  static_cast<void>(other.ask({0}));
  Child attacker = process(env, [theirs](const Device& dev, const Talk&) {
    const Map map(kPage);
    const CqPtr cq = create_cq(dev, 4);
    const PdPtr pd = alloc_pd(dev);
    const std::uint32_t own = std::exchange(pd->handle, theirs.handle);
    const MrPtr mr = try_reg(pd.get(), map.at(), map.length(), kAllAccess);
    const int mr_err = mr ? 0 : errno;
    QpSpec spec{.pd = pd.get(), .send_cq = cq.get(), .recv_cq = cq.get()};
    const QpPtr qp = try_create_qp(dev, spec);
    const int qp_err = qp ? 0 : errno;
    pd->handle = own;
    require_refused(mr_err, ENOENT, "a region in another process's PD");
    require_refused(qp_err, ENOENT, "a QP in another process's PD");
  });
  attacker.finish();
  other.talk().tell();
  other.finish();
}

// The peer was killed: its QP does not answer, its keys are dead, and memory that was freed stays
// as its next owner wants it.
void killed_peer(const Env& env) {
  Joined joined(env);
  auto& [other, theirs, half] = joined;
  const Memory own(env.dev.pd(), kPage, kAllAccess);
  const Send write = write_from(own.sge(0, 64), theirs.address, theirs.rkey);
  require_err(post(half.qp.get(), Api::kPost, write), 0, "a WRITE");
  require_status(poll(half.cq.get(), 1).front(), 0, IBV_WC_SUCCESS);
  other.kill();
  const Map next(1024 * kPage);
  fill(next.bytes(), 5);
  require_err(post(half.qp.get(), Api::kPost, write), 0, "a WRITE");
  require_status(poll(half.cq.get(), 1, 60000).front(), 0, IBV_WC_RETRY_EXC_ERR);
  const ibv_wc_status status = Loop(env.dev, 4).run(write);
  require(status == IBV_WC_REM_ACCESS_ERR, "the key of a process that was killed: {}",
          ibv_wc_status_str(status));
  expect_pattern(next.bytes(), 5, "memory that was allocated then");
  expect_own_traffic(env);
}

// The peer is killed while both move data into each other's memory.
void killed_under_way(const Env& env, ibv_wr_opcode op) {
  constexpr std::uint32_t kBig = 256 * kPage;
  const Memory own(env.dev.pd(), kBig, kAllAccess);
  for (unsigned round = 0; round < 6; round++) {
    const Half half(env.dev);
    Child other = process(env, [op, peer = half.qp->qp_num, at = own.address(), key = own.rkey()](
                                   const Device& dev, const Talk& talk) {
      const Memory memory(dev.pd(), kBig, kAllAccess);
      const Half mine(dev);
      mine.join(peer);
      talk.tell(Open{.address = memory.address(),
                     .rkey = memory.rkey(),
                     .lkey = 0,
                     .qpn = mine.qp->qp_num,
                     .handle = 0}
                    .words());
      talk.wait();
      for (;;) {
        Send send = write_from(memory.sge(0, kBig), at, key);
        send.opcode = op;
        require_err(post(mine.qp.get(), Api::kPost, send), 0, "a request");
        static_cast<void>(poll(mine.cq.get(), 1, 60000));
      }
    });
    const Open theirs = opened(other.talk().hear());
    half.join(theirs.qpn);
    other.talk().tell();
    Send send = write_from(own.sge(0, kBig), theirs.address, theirs.rkey);
    send.opcode = op;
    require_err(post(half.qp.get(), Api::kPost, send), 0, "a request");
    std::this_thread::sleep_for(std::chrono::milliseconds(round * 3));
    other.kill();
    // What the process had belongs to others now, and own memory is quiet.
    const Map next(1024 * kPage);
    fill(next.bytes(), 6);
    ibv_wc_status status = poll(half.cq.get(), 1, 60000).front().status;
    if (status == IBV_WC_SUCCESS) {
      require_err(post(half.qp.get(), Api::kPost, send), 0, "a request");
      status = poll(half.cq.get(), 1, 60000).front().status;
    }
    require(status != IBV_WC_SUCCESS, "a process that was killed answers");
    fill(own.bytes(), 7);
    expect_pattern(next.bytes(), 6, "memory that was allocated then");
    expect_pattern(own.bytes(), 7, "the memory that it wrote to");
  }
  expect_own_traffic(env);
}

// No process sees what a dead one had in device memory.
void device_memory(const Env& env) {
  need_device_memory(env.dev.context());
  const std::uint64_t size =
      std::min<std::uint64_t>(max_dm_size(env.dev.context()), 1 << 20) & ~3UL;
  const std::vector<std::byte> secret(size, std::byte{0xee});
  Child other = process(env, [&](const Device& dev, const Talk& talk) {
    const DmPtr dm = alloc_dm(dev.context(), size);
    dm_write(dm.get(), 0, secret);
    talk.tell();
    talk.wait();
  });
  other.talk().wait();
  other.kill();
  const std::uint64_t all = max_dm_size(env.dev.context());
  DmPtr dm = try_alloc_dm(env.dev.context(), all);
  const std::uint64_t got = dm ? all : size;
  if (!dm) dm = alloc_dm(env.dev.context(), size);
  const std::vector<std::byte> bytes = dm_read(dm.get(), 0, got);
  require_usual(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; }),
                "device memory has what a dead process stored");
}

// A process takes objects until it gets no more, or many. Others work on, and get them back.
void exhaustion(const Env& env) {
  const Pair pair(env.dev);
  Child other = process(env, [](const Device& dev, const Talk& talk) {
    constexpr std::size_t kMany = 256;
    std::vector<PdPtr> pds;
    std::vector<CqPtr> cqs;
    std::vector<QpPtr> qps;
    std::vector<MrPtr> mrs;
    const Map map(kPage);
    const CqPtr cq = create_cq(dev, 4);
    for (std::size_t i = 0; i < kMany; i++) {
      if (PdPtr pd{ibv_alloc_pd(dev.context())}) pds.push_back(std::move(pd));
      if (CqPtr one{ibv_create_cq(dev.context(), 1, nullptr, nullptr, 0)}) {
        cqs.push_back(std::move(one));
      }
      QpSpec spec{.send_cq = cq.get(), .recv_cq = cq.get()};
      if (QpPtr qp = try_create_qp(dev, spec)) qps.push_back(std::move(qp));
      if (MrPtr mr = try_reg(dev.pd(), map.at(), map.length(), kAllAccess)) {
        mrs.push_back(std::move(mr));
      }
    }
    talk.tell();
    talk.wait();
  });
  other.talk().wait();
  pair.expect_traffic();
  other.kill();
  pair.expect_traffic();
  expect_own_traffic(env);
}

}  // namespace

Rules processes() {
  return {
      {"foreign-keys", "keys of another process do not work", foreign_keys},
      {"peer-process", "a QP of another process reaches regions of its own PD only", peer_process},
      {"numbers", "QPs and regions of all processes have different numbers and keys", numbers},
      {"foreign-handles", "a process cannot use another's handles", foreign_handles},
      {"killed-peer", "a process that was killed does not answer, and its keys are dead",
       killed_peer},
      {"killed-under-writes", "when a process is killed, its WRITEs in flight stop",
       [](const Env& env) { killed_under_way(env, IBV_WR_RDMA_WRITE); }},
      {"killed-under-reads", "when a process is killed, its READs in flight stop",
       [](const Env& env) { killed_under_way(env, IBV_WR_RDMA_READ); }},
      {"device-memory", "device memory of a dead process is zeroed", device_memory,
       "ibv_alloc_dm(3)"},
      {"exhaustion", "a process that takes many objects leaves others alone", exhaustion},
  };
}

}  // namespace guest::protection
