// SPDX-License-Identifier: GPL-2.0-or-later
// SRQs that match tags.
#include <endian.h>
#include <infiniband/tm_types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "rule.h"

namespace guest::tags {
namespace {

constexpr std::uint32_t kHeader = sizeof(ibv_tmh);
constexpr std::uint32_t kLength = 100;  // of the data of a message
constexpr std::uint64_t kAllBits = UINT64_MAX;
// Offsets in the memory of the SRQ: of the buffer of a tag, and of a plain receive.
constexpr std::uint64_t kTagged = 0;
constexpr std::uint64_t kPlain = 32768;
constexpr std::uint64_t kStep = 256;

struct Completion {
  std::uint64_t wr_id = 0;
  ibv_wc_status status{};
  ibv_wc_opcode opcode{};
  unsigned flags = 0;
};

// An SRQ with its list of tags, and a QP that sends to it.
class Matcher {
 public:
  explicit Matcher(const Env& env) : dev_(env.dev), memory_(env.dev.pd(), 65536, kAllAccess) {
    const ibv_tm_caps& caps = dev_.attr_ex().tm_caps;
    if (caps.max_num_tags == 0) skip("tm_caps.max_num_tags is 0");
    ibv_cq_init_attr_ex cq{};
    cq.cqe = 64;
    cq.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_TM_INFO;
    cq_ex_ = ibv_create_cq_ex(dev_.context(), &cq);
    if (cq_ex_ == nullptr) fail_errno("ibv_create_cq_ex with IBV_WC_EX_WITH_TM_INFO");
    cq_.reset(ibv_cq_ex_to_cq(cq_ex_));
    srq_ = create(dev_, cq_.get(), std::min(16U, caps.max_num_tags));
    if (!srq_) fail_errno("ibv_create_srq_ex of IBV_SRQT_TM");
    PairOptions options;
    options.remote.use_srq = srq_.get();
    options.remote.recv_cq = cq_.get();
    pair_.emplace(dev_, options);
  }

  static SrqPtr create(const Device& dev, ibv_cq* cq, std::uint32_t tags) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {.max_wr = 32, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    attr.srq_type = IBV_SRQT_TM;
    attr.pd = dev.pd();
    attr.cq = cq;
    attr.tm_cap = {.max_num_tags = tags, .max_ops = std::min(8U, dev.attr_ex().tm_caps.max_ops)};
    return SrqPtr(ibv_create_srq_ex(dev.context(), &attr));
  }

  // Posts an operation on the list and returns its completion.
  Completion run(ibv_ops_wr& wr) const {
    ibv_ops_wr* bad = nullptr;
    wr.flags |= IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    wr.tm.unexpected_cnt = unexpected_;
    require_err(ibv_post_srq_ops(srq_.get(), &wr, &bad), 0, "ibv_post_srq_ops");
    const Completion done = next();
    require(done.wr_id == wr.wr_id, "completion of {:#x}, not {:#x}", done.wr_id, wr.wr_id);
    return done;
  }
  // Appends a tag, whose buffer has the number of the request. Returns its handle.
  std::uint32_t add(std::uint64_t wr_id, std::uint64_t tag, std::uint64_t mask = kAllBits) const {
    ibv_sge sge = memory_.sge(kTagged + wr_id * kStep, kLength);
    ibv_ops_wr wr{};
    wr.wr_id = 1000 + wr_id;
    wr.opcode = IBV_WR_TAG_ADD;
    wr.tm.add = {.recv_wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = mask};
    const Completion done = run(wr);
    require(done.status == IBV_WC_SUCCESS, "TAG_ADD: {}", ibv_wc_status_str(done.status));
    require(done.opcode == IBV_WC_TM_ADD, "opcode {} of TAG_ADD", static_cast<int>(done.opcode));
    return wr.tm.handle;
  }
  Completion remove(std::uint32_t handle) const {
    ibv_ops_wr wr{};
    wr.wr_id = 2000;
    wr.opcode = IBV_WR_TAG_DEL;
    wr.tm.handle = handle;
    return run(wr);
  }
  void recv(std::uint64_t wr_id) const {
    require_err(
        post_srq_recv(srq_.get(), wr_id, memory_.sge(kPlain + wr_id * kStep, kHeader + kLength)), 0,
        "ibv_post_srq_recv");
  }
  void send(std::uint64_t tag, std::uint64_t seed, ibv_tmh_op op = IBV_TMH_EAGER) const {
    ibv_tmh header{};
    header.opcode = static_cast<std::uint8_t>(op);
    header.tag = htobe64(tag);
    const auto bytes = pair_->local.memory().bytes();
    std::memcpy(bytes.data(), &header, sizeof(header));
    fill(bytes.subspan(kHeader, kLength), seed);
    pair_->run(pair_->request(IBV_WR_SEND, kHeader + kLength));
  }
  // Expects that this tag takes the message. Its match and its data may come one by one.
  void matched(std::uint64_t wr_id, std::uint64_t seed) const {
    unsigned flags = 0;
    for (int i = 0; i < 2 && (flags & IBV_WC_TM_DATA_VALID) == 0; i++) {
      const Completion c = next();
      require(c.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(c.status));
      require(c.opcode == IBV_WC_TM_RECV, "opcode {}", static_cast<int>(c.opcode));
      require(c.wr_id == wr_id, "tag {} takes the message of tag {}", c.wr_id, wr_id);
      flags |= c.flags;
    }
    require((flags & IBV_WC_TM_MATCH) != 0 && (flags & IBV_WC_TM_DATA_VALID) != 0, "flags {:#x}",
            flags);
    require(!mismatch(memory_.bytes().subspan(kTagged + wr_id * kStep, kLength), seed),
            "wrong bytes in the buffer of tag {}", wr_id);
  }
  // Expects that a plain receive takes the message, with its header.
  void plain(std::uint64_t wr_id, std::uint64_t seed, ibv_wc_opcode opcode) {
    const Completion c = next();
    require(c.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(c.status));
    require(c.opcode == opcode, "opcode {}", static_cast<int>(c.opcode));
    require(c.wr_id == wr_id && (c.flags & IBV_WC_TM_MATCH) == 0, "receive {}, flags {:#x}",
            c.wr_id, c.flags);
    require(!mismatch(memory_.bytes().subspan(kPlain + wr_id * kStep + kHeader, kLength), seed),
            "wrong bytes in receive {}", wr_id);
    if (opcode == IBV_WC_TM_RECV) unexpected_++;
  }
  [[nodiscard]] Completion next() const {
    constexpr int kMost = 10000;  // ms
    ibv_poll_cq_attr attr{};
    int err = 0;
    for (int ms = 0; (err = ibv_start_poll(cq_ex_, &attr)) == ENOENT && ms < kMost; ms++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    require_err(err, 0, "ibv_start_poll");
    const Completion c{.wr_id = cq_ex_->wr_id,
                       .status = cq_ex_->status,
                       .opcode = ibv_wc_read_opcode(cq_ex_),
                       .flags = ibv_wc_read_wc_flags(cq_ex_)};
    ibv_end_poll(cq_ex_);
    return c;
  }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }

 private:
  const Device& dev_;
  Memory memory_;
  ibv_cq_ex* cq_ex_ = nullptr;
  CqPtr cq_;
  SrqPtr srq_;
  std::optional<Pair> pair_;
  std::uint32_t unexpected_ = 0;
};

void match(const Env& env) {
  const Matcher m(env);
  for (std::uint64_t i = 0; i < 4; i++) m.add(i, 0x100 + i);
  for (const std::uint64_t i : {2U, 0U, 3U, 1U}) {
    m.send(0x100 + i, i);
    m.matched(i, i);
  }
}

void by_mask(const Env& env) {
  const Matcher m(env);
  m.add(0, 0xab00, 0xff00);
  m.add(1, 0xabcd);
  m.add(2, 0, 0);
  // The first entry of the list that matches takes the message.
  const std::array<std::uint64_t, 3> sent{0xabcd, 0xabcd, 0x77};
  for (std::uint64_t i = 0; i < sent.size(); i++) {
    m.send(sent[i], 20 + i);
    m.matched(i, 20 + i);
  }
}

void unexpected(const Env& env) {
  Matcher m(env);
  m.recv(0);
  m.add(5, 5);
  m.send(6, 1);
  m.plain(0, 1, IBV_WC_TM_RECV);
  m.add(6, 6);
  m.send(6, 2);
  m.matched(6, 2);
  m.send(5, 3);
  m.matched(5, 3);
}

void no_tag(const Env& env) {
  Matcher m(env);
  m.add(1, 9);
  m.recv(0);
  m.send(9, 4, IBV_TMH_NO_TAG);
  m.plain(0, 4, IBV_WC_TM_NO_TAG);
  m.send(9, 5);
  m.matched(1, 5);
}

void removed(const Env& env) {
  Matcher m(env);
  const std::uint32_t first = m.add(1, 9);
  const std::uint32_t second = m.add(2, 9);
  Completion done = m.remove(first);
  require(done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_TM_DEL, "TAG_DEL: {}",
          ibv_wc_status_str(done.status));
  m.send(9, 6);
  m.matched(2, 6);
  m.recv(0);
  m.send(9, 7);
  m.plain(0, 7, IBV_WC_TM_RECV);
  static_cast<void>(second);
}

void synchronized(const Env& env) {
  Matcher m(env);
  m.recv(0);
  m.send(1, 1);
  m.plain(0, 1, IBV_WC_TM_RECV);
  ibv_ops_wr wr{};
  wr.wr_id = 77;
  wr.opcode = IBV_WR_TAG_SYNC;
  const Completion done = m.run(wr);
  require(done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_TM_SYNC, "TAG_SYNC: {}, opcode {}",
          ibv_wc_status_str(done.status), static_cast<int>(done.opcode));
}

void refused(const Env& env) {
  const Matcher m(env);
  const SrqPtr many = Matcher::create(env.dev, m.cq(), env.dev.attr_ex().tm_caps.max_num_tags + 1);
  require_refused(many ? 0 : errno, EINVAL, "an SRQ of more tags than max_num_tags");
  const SrqPtr none = Matcher::create(env.dev, m.cq(), 0);
  usually_refused(none ? 0 : errno, EINVAL, "an SRQ of no tags");
}

}  // namespace

Rules all() {
  return {
      {"match", "a message goes to the buffer of its tag, without its header", match},
      {"by_mask", "the first entry that matches by its mask takes the message", by_mask},
      {"unexpected", "a message without a matching tag goes to a plain receive", unexpected},
      {"no_tag", "a message of IBV_TMH_NO_TAG goes to a plain receive", no_tag},
      {"removed", "a tag that was removed matches no more", removed},
      {"synchronized", "TAG_SYNC tells the device how many unexpected messages were handled",
       synchronized},
      {"refused", "an SRQ of more tags than max_num_tags is refused", refused},
  };
}

}  // namespace guest::tags
