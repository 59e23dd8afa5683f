// SPDX-License-Identifier: GPL-2.0-or-later
#include "print_c.h"

#include <algorithm>
#include <cstdio>
#include <format>
#include <map>
#include <sstream>

#include "print_c_text.h"

namespace guest::generator {
namespace {

const char* const kOpcodes[] = {"IBV_WR_BIND_MW",
                                "IBV_WR_LOCAL_INV",
                                "IBV_WR_SEND",
                                "IBV_WR_SEND_WITH_IMM",
                                "IBV_WR_SEND_WITH_INV",
                                "IBV_WR_RDMA_WRITE",
                                "IBV_WR_RDMA_WRITE_WITH_IMM",
                                "IBV_WR_RDMA_READ",
                                "IBV_WR_ATOMIC_CMP_AND_SWP",
                                "IBV_WR_ATOMIC_FETCH_AND_ADD",
                                "IBV_WR_ATOMIC_WRITE",
                                "IBV_WR_FLUSH"};
const char* const kTypes[] = {"IBV_QPT_RC", "IBV_QPT_UC", "IBV_QPT_UD", "IBV_QPT_XRC_SEND"};

struct Bit {
  unsigned bit;
  const char* name;
};

std::string bits(unsigned value, std::initializer_list<Bit> names) {
  std::string text;
  for (const Bit& b : names) {
    if ((value & b.bit) != 0) text += std::string(text.empty() ? "" : " | ") + b.name;
  }
  return text.empty() ? "0" : text;
}

std::string rights(unsigned value) {
  return bits(value, {{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
                      {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
                      {IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
                      {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
                      {IBV_ACCESS_MW_BIND, "MW_BIND"},
                      {IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
                      {IBV_ACCESS_FLUSH_GLOBAL, "FLUSH_GLOBAL"}});
}

std::string flags(unsigned value) {
  return bits(value, {{IBV_SEND_SIGNALED, "SIGNALED"},
                      {IBV_SEND_FENCE, "FENCE"},
                      {IBV_SEND_SOLICITED, "SOLICITED"},
                      {IBV_SEND_INLINE, "INLINE"}});
}

// The calls of a run, as lines of C.
class Trace {
 public:
  explicit Trace(const Mems& mems) : mems_(mems) {}
  void add(const std::string& line) { lines_ += "  " + line + "\n"; }
  // Names numbers that differ from run to run.
  std::string key(std::uint32_t key) const {
    const auto found = keys_.find(key >> 8);
    if (found == keys_.end()) return std::format("{:#x}", key);
    const std::vector<std::pair<int, std::uint32_t>>& known = found->second;
    for (std::size_t i = known.size(); i-- != 0;) {
      if (known[i].second == key) return std::format("k[{}]", known[i].first);
    }
    const auto& [last, value] = known.back();
    return std::format("(k[{}] ^ {:#x})", last, (value ^ key) & 0xff);
  }
  std::string address(std::uint64_t at) const {
    for (int end = 0; end < kEnds; end++) {
      for (int mem = 0; mem < kHostMems; mem++) {
        const auto base = reinterpret_cast<std::uintptr_t>(mems_.bytes(end, mem).data());
        const auto offset = static_cast<std::int64_t>(at - base);
        if (offset >= -64 && offset < kMemSize)
          return std::format("at({}, {}, {})", end, mem, offset);
      }
    }
    return std::format("{:#x}", at);
  }
  void made_key(std::uint32_t key, const std::string& from) {
    keys_[key >> 8].emplace_back(count_, key);
    add(std::format("k[{}] = {};", count_++, from));
  }
  std::string sges(std::span<const ibv_sge> list) const {
    std::string text = "(struct ibv_sge[]){";
    for (const ibv_sge& s : list) {
      text += std::format("{{{}, {}, {}}}, ", address(s.addr), s.length, key(s.lkey));
    }
    return list.empty() ? "NULL, 0" : text + std::format("}}, {}", list.size());
  }
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  const Mems& mems_;
  std::string lines_;
  std::map<std::uint32_t, std::vector<std::pair<int, std::uint32_t>>> keys_;  // by index
  int count_ = 0;
};

class Traced : public Side {
 public:
  Traced(int end, std::unique_ptr<Side> real, Trace& trace)
      : end_(end), real_(std::move(real)), t_(trace) {}

  Keys region(const RegionArgs& a) override {
    const Keys made = real_->region(a);
    t_.add(std::format("mr[{}][{}] = reg({}, {}, {}, {}, {}, {}, {});", end_, a.slot, end_, a.pd,
                       a.mem, a.off, a.len, t_.address(a.iova), rights(a.access)));
    if (made.err == 0) t_.made_key(made.rkey, std::format("mr[{}][{}]->rkey", end_, a.slot));
    return made;
  }
  int dereg(std::size_t slot) override {
    const int err = real_->dereg(slot);
    t_.add(std::format("dereg({}, {}, {});", end_, slot, err == 0 ? "0" : "1 /* refused */"));
    return err;
  }
  Keys rereg(const RegionArgs& a, int what) override {
    const Keys made = real_->rereg(a, what);
    t_.add(std::format(
        "check(ibv_rereg_mr(mr[{}][{}], {}, pd[{}][{}], mem[{}][{}] + {}, {}, {}), \"rereg\");",
        end_, a.slot, what, end_, a.pd, end_, a.mem, a.off, a.len,
        (what & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? rights(a.access) : "0"));
    if (made.err == 0) t_.made_key(made.rkey, std::format("mr[{}][{}]->rkey", end_, a.slot));
    return made;
  }
  Keys window(std::size_t slot, int type, std::size_t pd) override {
    const Keys made = real_->window(slot, type, pd);
    types_.at(slot) = type;
    t_.add(std::format("mw[{}][{}] = ibv_alloc_mw(pd[{}][{}], IBV_MW_TYPE_{});", end_, slot, end_,
                       pd, type));
    if (made.err == 0) t_.made_key(made.rkey, std::format("mw[{}][{}]->rkey", end_, slot));
    return made;
  }
  int dealloc(std::size_t slot) override {
    t_.add(std::format("check(ibv_dealloc_mw(mw[{}][{}]), \"ibv_dealloc_mw\");", end_, slot));
    return real_->dealloc(slot);
  }
  void restore(std::size_t slot, std::uint32_t key) override {
    t_.add(std::format("mw[{}][{}]->rkey = {};  /* the bind failed */", end_, slot, t_.key(key)));
    real_->restore(slot, key);
  }
  Numbers create(const QpArgs& a) override {
    const char* type = a.type == kXrc && end_ == 1 ? "IBV_QPT_XRC_RECV" : kTypes[a.type];
    t_.add(std::format("create({}, {}, {}, {}, {});", a.conn, end_, type, a.pd, a.srq ? 1 : 0));
    return real_->create(a);
  }
  int connect(const QpArgs& a, const Endpoint& remote) override {
    t_.add(std::format("join({}, {}, {}, {});", a.conn, end_, rights(a.access),
                       a.mtu == IBV_MTU_256 ? "IBV_MTU_256" : "IBV_MTU_1024"));
    return real_->connect(a, remote);
  }
  int modify(std::size_t conn, ibv_qp_state state) override {
    t_.add(std::format("modify({}, {}, {});", conn, end_,
                       state == IBV_QPS_ERR ? "IBV_QPS_ERR" : "IBV_QPS_RESET"));
    return real_->modify(conn, state);
  }
  int destroy(std::size_t conn) override {
    t_.add(std::format("check(ibv_destroy_qp(qp[{}][{}]), \"ibv_destroy_qp\");", conn, end_));
    return real_->destroy(conn);
  }
  Keys post(const Request& r) override {
    if (r.verb == Verb::kBind) return post_bind(r);
    const std::span<const ibv_sge> list(r.sge.data(), r.num_sge);
    std::string data = t_.sges(list);
    if (r.inline_mem >= 0) {
      data = std::format("(struct ibv_sge[]){{{{at({}, {}, {}), {}, 0}}}}, 1", end_, r.inline_mem,
                         r.inline_off, r.length);
    }
    const auto op = static_cast<std::size_t>(r.verb) - static_cast<std::size_t>(Verb::kBind);
    if (r.verb == Verb::kInvalidate || is_send(r.verb)) {
      t_.add(std::format("last = post({}, {}, {:#x}, {}, {}, {}, 0, {}, {:#x}, 0);", end_, r.conn,
                         r.id, kOpcodes[op], flags(r.flags), data, t_.key(r.rkey),
                         std::uint64_t{r.imm}));
    } else if (r.verb == Verb::kFlush || r.verb == Verb::kAtomicWrite) {
      t_.add(std::format("last = build({}, {}, {:#x}, {}, {}, {}, {}, {:#x});", end_, r.conn, r.id,
                         kOpcodes[op], flags(r.flags), t_.address(r.raddr), t_.key(r.rkey),
                         r.verb == Verb::kFlush ? std::uint64_t{r.length} : r.swap));
    } else {
      t_.add(std::format("last = post({}, {}, {:#x}, {}, {}, {}, {}, {}, {:#x}, {:#x});", end_,
                         r.conn, r.id, kOpcodes[op], flags(r.flags), data, t_.address(r.raddr),
                         t_.key(r.rkey), is_atomic(r.verb) ? r.compare_add : std::uint64_t{r.imm},
                         r.swap));
    }
    return real_->post(r);
  }
  int receive(std::size_t conn, bool srq, std::uint64_t id,
              std::span<const ibv_sge> list) override {
    t_.add(
        std::format("receive({}, {}, {}, {:#x}, {});", end_, conn, srq ? 1 : 0, id, t_.sges(list)));
    return real_->receive(conn, srq, id, list);
  }
  std::vector<Completion> poll() override { return real_->poll(); }
  int arm(std::size_t cq, bool solicited) override {
    t_.add(std::format("check(ibv_req_notify_cq(cq[{}][{}], {}), \"ibv_req_notify_cq\");", end_,
                       cq % 2, solicited ? 1 : 0));
    return real_->arm(cq, solicited);
  }
  int events(int timeout_ms) override { return real_->events(timeout_ms); }
  std::vector<std::byte> load_device() override { return real_->load_device(); }
  void store_device(std::span<const std::byte> bytes) override { real_->store_device(bytes); }
  ibv_gid gid() override { return real_->gid(); }
  void wipe() override { real_->wipe(); }

 private:
  Keys post_bind(const Request& r) {
    const Keys made = real_->post(r);
    const bool forged = r.forge != 0;
    t_.add(std::format("last = bind_window({}, {}, {:#x}, {}, {}, {}, {}, {}, {}, {:#x}{});", end_,
                       r.conn, r.id, flags(r.flags), r.window, r.region, t_.address(r.addr),
                       r.bind_length, rights(r.rights), r.new_key & 0xff,
                       forged ? std::format(" /* forged: {} */", r.forge) : ""));
    const std::uint32_t key = types_.at(r.window) == 1 ? made.rkey : r.new_key;
    t_.made_key(key, std::format("bound_key({}, {}, {:#x})", end_, r.window, r.new_key & 0xff));
    return made;
  }

  int end_;
  std::unique_ptr<Side> real_;
  Trace& t_;
  std::array<int, kWindows> types_{};
};

std::string last_check(const Violation& v) {
  int mem = 0;
  int end = 0;
  unsigned off = 0;
  unsigned is = 0;
  unsigned want = 0;
  if (v.kind == "memory" && std::sscanf(v.what(), "memory %d of end %d: byte %u is %x, not %x",
                                        &mem, &end, &off, &is, &want) == 5) {
    return std::format("  byte_is({}, {}, {}, {:#x});\n", end, mem, off, want);
  }
  if (v.kind == "post")
    return "  if (last != 0) return printf(\"refused: %s\\n\", strerror(last)), 1;\n";
  return {};
}

}  // namespace

std::string print_c(const Steps& steps, std::uint64_t seed, Runner& runner,
                    const std::string& device) {
  Trace trace(runner.mems());
  runner.wrap([&trace](int end, std::unique_ptr<Side> side) -> std::unique_ptr<Side> {
    return std::make_unique<Traced>(end, std::move(side), trace);
  });
  std::string what = "no violation this time";
  std::string check;
  std::size_t step = steps.size();
  runner.begin = [&](std::size_t at) { trace.add(std::format("/* {} */", to_text(steps[at]))); };
  runner.settled = [&](const Burst& burst, const std::string& wrong) {
    const bool received = wrong.starts_with("the receive");
    for (const Op& op : burst.ops) {
      const Request& r = op.request;
      if (!op.seen) continue;
      const bool good = wrong.empty() || received || &op != &burst.ops.back();
      trace.add(std::format("{}({}, {:#x}, {});  /* {} */", good ? "done" : "not_done", r.end, r.id,
                            static_cast<int>(op.wc.status), ibv_wc_status_str(op.wc.status)));
    }
    for (const auto& ends : burst.arrivals) {
      for (std::size_t end = 0; received && end < kEnds; end++) {
        for (const ibv_wc& wc : ends.at(end)) {
          trace.add(std::format("/* {} */", wrong));
          trace.add(std::format("not_received({}, {:#x}, {}, {}, {:#x});", end, wc.wr_id,
                                static_cast<int>(wc.status), wc.byte_len, wc.wc_flags));
        }
      }
    }
  };
  try {
    runner.run(steps, seed);
  } catch (const Violation& v) {
    what = std::format("{}: {}", v.kind, v.what());
    check = last_check(v);
    for (const Op& op : runner.pending().ops) {  // it ends here if one does not complete
      check += std::format("  status_of({}, {:#x});\n", op.request.end, op.request.id);
    }
    step = v.step;
  }
  std::string head =
      std::format("// Violates the rules of verbs on {}, at step {} of seed {}.\n// {}\n", device,
                  step, seed, what);
  std::string prologue = kPrologue;
  const auto at = prologue.find("@DEVICE@");
  prologue.replace(at, 8, device);
  return head + prologue + std::format("\nint main(void) {{\n  setup({});\n", seed) +
         trace.lines() + check + "  puts(\"nothing is wrong\");\n  return 0;\n}\n";
}

}  // namespace guest::generator
