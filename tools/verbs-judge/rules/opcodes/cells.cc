// SPDX-License-Identifier: GPL-2.0-or-later
// The opcode table of ibv_post_send(3) and its flags, cell by cell.
#include <arpa/inet.h>

#include <cerrno>

#include "opcodes.h"

namespace guest::opcodes {
namespace {

constexpr std::uint64_t kAtomicOps =
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint32_t kLength = 1000;  // fits into one datagram at RoCE's smallest path MTU

// A row of the page: marks for UD, UC, RC, XRC_SEND.
struct Opcode {
  ibv_wr_opcode opcode;
  const char* name;
  std::uint64_t send_op;
  std::array<bool, 4> marks;
  const char* lacking;  // note for a marked cell when the device lacks the feature
};

constexpr std::array kOpcodes{
    Opcode{IBV_WR_SEND, "IBV_WR_SEND", IBV_QP_EX_WITH_SEND, {true, true, true, true}, nullptr},
    Opcode{IBV_WR_SEND_WITH_IMM,
           "IBV_WR_SEND_WITH_IMM",
           IBV_QP_EX_WITH_SEND_WITH_IMM,
           {true, true, true, true},
           nullptr},
    Opcode{IBV_WR_RDMA_WRITE,
           "IBV_WR_RDMA_WRITE",
           IBV_QP_EX_WITH_RDMA_WRITE,
           {false, true, true, true},
           nullptr},
    Opcode{IBV_WR_RDMA_WRITE_WITH_IMM,
           "IBV_WR_RDMA_WRITE_WITH_IMM",
           IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
           {false, true, true, true},
           nullptr},
    Opcode{IBV_WR_RDMA_READ,
           "IBV_WR_RDMA_READ",
           IBV_QP_EX_WITH_RDMA_READ,
           {false, false, true, true},
           nullptr},
    Opcode{IBV_WR_ATOMIC_CMP_AND_SWP,
           "IBV_WR_ATOMIC_CMP_AND_SWP",
           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
           {false, false, true, true},
           nullptr},
    Opcode{IBV_WR_ATOMIC_FETCH_AND_ADD,
           "IBV_WR_ATOMIC_FETCH_AND_ADD",
           IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
           {false, false, true, true},
           nullptr},
    Opcode{IBV_WR_LOCAL_INV,
           "IBV_WR_LOCAL_INV",
           IBV_QP_EX_WITH_LOCAL_INV,
           {false, true, true, true},
           nullptr},
    Opcode{IBV_WR_BIND_MW,
           "IBV_WR_BIND_MW",
           IBV_QP_EX_WITH_BIND_MW,
           {false, true, true, true},
           nullptr},
    Opcode{IBV_WR_SEND_WITH_INV,
           "IBV_WR_SEND_WITH_INV",
           IBV_QP_EX_WITH_SEND_WITH_INV,
           {false, true, true, true},
           nullptr},
    Opcode{IBV_WR_TSO,
           "IBV_WR_TSO",
           IBV_QP_EX_WITH_TSO,
           {true, false, false, false},
           "no offload [3]_"},
};

// Other flags are for other types of QP, and for offloads.
void require_flags(const ibv_wc& wc, unsigned flags) {
  constexpr unsigned kData = unsigned{IBV_WC_WITH_IMM} | IBV_WC_WITH_INV;
  require((wc.wc_flags & kData) == flags, "wc_flags {:#x}, not {:#x}", wc.wc_flags & kData, flags);
}

void send_cell(const Pair& pair, ibv_wr_opcode opcode, Api api) {
  const bool imm = opcode == IBV_WR_SEND_WITH_IMM;
  fill(pair.local.memory().bytes().first(kLength), 11);
  pair.recv(2, 0, kLength);
  Send s = pair.request(opcode, kLength, 0, 0, 1);
  s.imm = 0xa1b2c3d4;
  pair.post(s, api);
  require(pair.expect(1).opcode == IBV_WC_SEND, "another opcode");
  const ibv_wc wc = pair.expect_recv(2);
  require(wc.opcode == IBV_WC_RECV, "another receive opcode");
  require(wc.byte_len == kLength + pair.local.header(), "{} bytes received", wc.byte_len);
  // Of a UD QP only, the flags also tell of a header; the route over Ethernet always has one.
  require_flags(wc, imm ? unsigned{IBV_WC_WITH_IMM} : 0U);
  require_usual(pair.local.header() == 0 || (wc.wc_flags & IBV_WC_GRH) != 0, "no IBV_WC_GRH");
  require(!imm || ntohl(wc.imm_data) == s.imm, "immediate data {:#x}", ntohl(wc.imm_data));
  require(pair.local.header() == 0 || wc.src_qp == pair.local.qp()->qp_num, "from QP {:#x}",
          wc.src_qp);
  pair.remote.check({pair.local.header(), kLength}, 11);
}

void write_cell(const Pair& pair, ibv_wr_opcode opcode, Api api) {
  const bool imm = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  fill(pair.local.memory().bytes().first(kLength), 12);
  if (imm) pair.recv(2, 0, 0);
  Send s = pair.request(opcode, kLength, 0, 4096, 1);
  s.imm = 0xa1b2c3d4;
  pair.post(s, api);
  require(pair.expect(1).opcode == IBV_WC_RDMA_WRITE, "another opcode");
  if (imm) {
    const ibv_wc wc = pair.expect_recv(2);
    require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "another receive opcode");
    require(wc.byte_len == kLength && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                ntohl(wc.imm_data) == s.imm,
            "another length or immediate data");
  }
  pair.remote.check({4096, kLength}, 12);
}

void read_cell(const Pair& pair, Api api) {
  fill(pair.remote.end().memory().bytes().subspan(4096, kLength), 13);
  pair.post(pair.request(IBV_WR_RDMA_READ, kLength, 512, 4096, 1), api);
  const ibv_wc wc = pair.expect(1);
  require(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == kLength, "another opcode or length");
  require(!mismatch(pair.local.memory().bytes().subspan(512, kLength), 13),
          "other bytes were read");
}

void atomic_cell(const Pair& pair, ibv_wr_opcode opcode, Api api) {
  const bool swap = opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  constexpr std::uint64_t kOld = 0x1122334455667788;
  pair.remote.end().memory().store64(4096, kOld);
  Send s = pair.request(opcode, 8, 512, 4096, 1);
  s.compare_add = swap ? kOld : 0x1111;
  s.swap = 0x99aabbccddeeff00;
  pair.post(s, api);
  require(pair.expect(1).opcode == (swap ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD), "another opcode");
  require(pair.local.memory().load64(512) == kOld, "not the former value");
  require(pair.remote.end().memory().load64(4096) == (swap ? s.swap : kOld + 0x1111),
          "not the new value");
}

MwPtr alloc_window(const Device& dev) { return alloc_mw(dev.pd(), IBV_MW_TYPE_2); }

// The peer writes through a window that the sender has bound to its own memory. Nobody can address
// an XRC sender, so there a second bind shows that the window is bound.
void bind_cell(const Pair& pair, const Device& dev, const Type& type, Api api) {
  const MwPtr mw = alloc_window(dev);
  const Send s = bind_request(mw.get(), pair.local.memory(), 7, 1, kLength, 4096);
  pair.post(s, api);
  require(pair.expect(1).opcode == IBV_WC_BIND_MW, "another opcode");
  mw->rkey = s.bind_rkey;
  if (type.type == IBV_QPT_XRC_SEND) {
    pair.post(bind_request(mw.get(), pair.local.memory(), 8, 2, kLength, 4096), api);
    pair.expect(2, IBV_WC_MW_BIND_ERR);
    return;
  }
  Send write{.opcode = IBV_WR_RDMA_WRITE,
             .sges = {pair.remote.end().memory().sge(0, kLength)},
             .wr_id = 3};
  write.raddr = pair.local.memory().address(4096);
  write.rkey = s.bind_rkey;
  fill(pair.remote.end().memory().bytes().first(kLength), 16);
  pair.run_back(write, api);
  pair.check({4096, kLength}, 16);
}

// Only a free window can be bound, so the second bind shows that the window was invalidated.
void local_inv_cell(const Pair& pair, const Device& dev, Api api) {
  const MwPtr mw = alloc_window(dev);
  Send s{.opcode = IBV_WR_LOCAL_INV, .wr_id = 2};
  pair.post(bind_request(mw.get(), pair.local.memory(), 7, 1, kLength, 4096), api);
  s.inv_rkey = (mw->rkey & ~0xffU) | 7;
  pair.post(s, api);
  mw->rkey = s.inv_rkey;  // a bind tells the current key
  pair.post(bind_request(mw.get(), pair.local.memory(), 8, 3, kLength, 4096), api);
  require(pair.expect(1).opcode == IBV_WC_BIND_MW, "another opcode than BIND_MW");
  require(pair.expect(2).opcode == IBV_WC_LOCAL_INV, "another opcode");
  pair.expect(3);
}

// The peer's window is free once it has received the message.
void send_inv_cell(const Pair& pair, const Device& dev, Api api) {
  const MwPtr mw = alloc_window(dev);
  const Send bound = bind_request(mw.get(), pair.remote.end().memory(), 7, 3, kLength, 4096);
  pair.run_back(bound, api);
  mw->rkey = bound.bind_rkey;
  fill(pair.local.memory().bytes().first(kLength), 17);
  pair.recv(2, 0, kLength);
  Send s = pair.request(IBV_WR_SEND_WITH_INV, kLength, 0, 0, 1);
  s.inv_rkey = bound.bind_rkey;
  pair.post(s, api);
  require(pair.expect(1).opcode == IBV_WC_SEND, "another opcode");
  const ibv_wc wc = pair.expect_recv(2);
  require(wc.opcode == IBV_WC_RECV, "another receive opcode");
  require_flags(wc, IBV_WC_WITH_INV);
  require(wc.invalidated_rkey == bound.bind_rkey, "key {:#x} was invalidated, not {:#x}",
          wc.invalidated_rkey, bound.bind_rkey);
  pair.remote.check({0, kLength}, 17);
  pair.run_back(bind_request(mw.get(), pair.remote.end().memory(), 8, 4, kLength, 4096), api);
}

// The request is sent, and the responder refuses to invalidate the key: an XRC target has no
// windows, and the key of an ordinary region cannot be invalidated.
void send_inv_to_target(const Pair& pair, Api api) {
  pair.recv(2, 0, kLength);
  Send s = pair.request(IBV_WR_SEND_WITH_INV, kLength, 0, 0, 1);
  s.inv_rkey = pair.remote.end().memory().rkey();
  pair.post(s, api);
  pair.expect(1, IBV_WC_REM_INV_REQ_ERR);
  pair.expect_recv(2, IBV_WC_REM_INV_REQ_ERR);
}

// The operations that the requests of a cell need, besides those of the type. ibv_post_send() needs
// none.
std::uint64_t more_ops(const Opcode& op, Api api) {
  if (api == Api::kPost || (op.send_op & kWindowOps) == 0) return 0;
  return op.opcode == IBV_WR_BIND_MW ? op.send_op : op.send_op | IBV_QP_EX_WITH_BIND_MW;
}

void works(const Device& dev, const Type& type, const Opcode& op, Api api) {
  const ibv_wr_opcode opcode = op.opcode;
  if ((op.send_op & kWindowOps) != 0) need_windows(dev.context(), IBV_MW_TYPE_2);
  if (op.send_op & kAtomicOps) need_atomics(dev);
  if (type.type == IBV_QPT_XRC_SEND) need_xrc(dev.context());
  const std::uint64_t more = more_ops(op, api);
  // No capability tells of an operation on one type of QP.
  if (more_ops(op, Api::kWr) != 0 && dev.apis().size() > 1 &&
      !dev.supports(type.type, more_ops(op, Api::kWr))) {
    require(!strict(), "ibv_create_qp_ex with {}: refused", op.name);
    skip("ibv_create_qp_ex with {} on {}: refused", op.name, type.name);
  }
  const Pair pair(dev, loop(type.type, more));
  switch (opcode) {
    case IBV_WR_LOCAL_INV:
      return local_inv_cell(pair, dev, api);
    case IBV_WR_BIND_MW:
      return bind_cell(pair, dev, type, api);
    case IBV_WR_SEND_WITH_INV:
      return type.type == IBV_QPT_XRC_SEND ? send_inv_to_target(pair, api)
                                           : send_inv_cell(pair, dev, api);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return send_cell(pair, opcode, api);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return write_cell(pair, opcode, api);
    case IBV_WR_RDMA_READ:
      return read_cell(pair, api);
    default:
      return atomic_cell(pair, opcode, api);
  }
}

// Returns the errno with which ibv_create_qp_ex() refuses the opcode for ibv_wr_*(), or 0.
int create_errno(const Device& dev, const Type& type, std::uint64_t send_op) {
  const CqPtr cq = create_cq(dev, 4);
  QpSpec spec{.type = type.type,
              .send_cq = cq.get(),
              .recv_cq = cq.get(),
              .cap = capacity(8, 16, 4, 64),
              .send_ops = send_op};
  errno = 0;
  return try_create_qp(dev, spec) ? 0 : errno;
}

// Linux passes on an opcode that does not fit the type, as some providers do, and the device
// decides.
void refused(const Device& dev, const Type& type, const Opcode& op, int post_errno) {
  const Pair pair(dev, loop(type.type));
  check_refusal(pair, Api::kPost, pair.request(op.opcode, 8, 0, 0, 2), post_errno,
                IfAccepted::kMustFail);
  usually_refused(create_errno(dev, type, op.send_op), EOPNOTSUPP, "ibv_create_qp_ex");
}

void cell(const Device& dev, const Type& type, const Opcode& op, bool marked) {
  if (!marked) return refused(dev, type, op, EINVAL);
  if (op.opcode == IBV_WR_TSO) {
    if ((dev.attr_ex().tso_caps.supported_qpts >> type.type & 1U) != 0) {
      skip("segmentation offload is not tested");
    }
    return refused(dev, type, op, EOPNOTSUPP);
  }
  for (const Api api : dev.apis()) works(dev, type, op, api);
}

const char* cell_text(const Type& type, const Opcode& op, bool marked) {
  if (!marked) return "refused";
  if (op.lacking != nullptr) return op.lacking;
  if (type.type == IBV_QPT_XRC_SEND && op.opcode == IBV_WR_BIND_MW) return "works [1]_";
  if (type.type == IBV_QPT_XRC_SEND && op.opcode == IBV_WR_SEND_WITH_INV) return "goes out [2]_";
  return "works";
}

constexpr std::array kBuilt{
    Opcode{IBV_WR_FLUSH, "IBV_WR_FLUSH", IBV_QP_EX_WITH_FLUSH, {false, false, true, true}, nullptr},
    Opcode{IBV_WR_ATOMIC_WRITE,
           "IBV_WR_ATOMIC_WRITE",
           IBV_QP_EX_WITH_ATOMIC_WRITE,
           {false, false, true, true},
           nullptr},
};

// A FLUSH after an unsignaled WRITE, of its range and of the whole region.
void flush_cell(const Pair& pair) {
  for (const std::uint8_t level : {IBV_FLUSH_RANGE, IBV_FLUSH_MR}) {
    fill(pair.local.memory().bytes().first(kLength), 18 + level);
    Send write = pair.request(IBV_WR_RDMA_WRITE, kLength, 0, 4096, 1);
    write.flags = 0;
    Send s = pair.request(IBV_WR_FLUSH, 0, 0, 4096, 2);
    s.flush_length = kLength;
    s.flush_level = level;
    const std::array sends{write, s};
    require_err(post(pair.local.qp(), Api::kWr, sends), 0, "ibv_wr_flush");
    require(pair.expect(2).opcode == IBV_WC_FLUSH, "another opcode");
    pair.remote.check({4096, kLength}, 18 + level);
  }
}

void atomic_write_cell(const Pair& pair) {
  Send s = pair.request(IBV_WR_ATOMIC_WRITE, 0, 0, 4096, 1);
  s.swap = 0x8877665544332211;
  pair.post(s, Api::kWr);
  require(pair.expect(1).opcode == IBV_WC_ATOMIC_WRITE, "another opcode");
  require(pair.remote.end().memory().load64(4096) == s.swap, "not the new value");
}

void built_cell(const Device& dev, const Type& type, const Opcode& op, bool has) {
  if (has) {
    const bool flush = op.opcode == IBV_WR_FLUSH;
    need_capability(dev,
                    static_cast<std::uint64_t>(flush ? IB_UVERBS_DEVICE_FLUSH_GLOBAL
                                                     : IB_UVERBS_DEVICE_ATOMIC_WRITE),
                    flush ? "IB_UVERBS_DEVICE_FLUSH_GLOBAL" : "IB_UVERBS_DEVICE_ATOMIC_WRITE");
  }
  const Pair pair(dev, loop(type.type));
  check_refusal(pair, Api::kPost, pair.request(op.opcode, 8, 0, 0, 2), EINVAL,
                IfAccepted::kMustFail);
  if (!has) {
    usually_refused(create_errno(dev, type, op.send_op), EOPNOTSUPP, "ibv_create_qp_ex");
    return;
  }
  const Pair good(dev, loop(type.type, op.send_op | IBV_QP_EX_WITH_RDMA_WRITE, kFlushAccess));
  if (op.opcode == IBV_WR_FLUSH) {
    flush_cell(good);
  } else {
    atomic_write_cell(good);
  }
}

void signaled(const Pair& pair, Api api) {
  for (std::uint64_t i = 0; i < 2; i++) pair.recv(i, 0, 8);
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 1);
  s.flags = 0;
  pair.post(s, api);
  s.wr_id = 2;
  s.flags = IBV_SEND_SIGNALED;
  pair.post(s, api);
  pair.expect(2);
  pair.expect_recv(0);
  pair.expect_recv(1);
  expect_quiet(pair.local.send_cq(), 5);
}

void solicited(const Pair& pair, const Type& type, Api api) {
  std::vector<ibv_wr_opcode> opcodes{IBV_WR_SEND};
  if (type.type != IBV_QPT_UD) opcodes.push_back(IBV_WR_RDMA_WRITE_WITH_IMM);
  for (const ibv_wr_opcode opcode : opcodes) {
    require_err(ibv_req_notify_cq(pair.remote.end().recv_cq(), 1), 0, "ibv_req_notify_cq");
    for (const bool solicit : {false, true}) {
      pair.recv(2, 0, 8);
      Send s = pair.request(opcode, 8, 0, 0, 1);
      s.flags |= solicit ? static_cast<unsigned>(IBV_SEND_SOLICITED) : 0U;
      pair.post(s, api);
      pair.expect(1);
      pair.expect_recv(2);
      require(wait_event(pair.remote.end().channel(), solicit ? 5000 : 50) == solicit, "{}",
              solicit ? "no event" : "an event that nobody asked for");
    }
  }
}

void inlined(const Pair& pair, const Type& type, Api api) {
  const std::uint32_t length = pair.local.cap().max_inline_data;
  if (length == 0) skip("max_inline_data is 0");
  std::vector<ibv_wr_opcode> opcodes{IBV_WR_SEND};
  if (type.type != IBV_QPT_UD) opcodes.push_back(IBV_WR_RDMA_WRITE);
  for (const ibv_wr_opcode opcode : opcodes) {
    const auto data = pair.local.memory().bytes().first(length);
    fill(data, 14);
    if (opcode == IBV_WR_SEND) pair.recv(2, 0, length);
    Send s = pair.request(opcode, length, 0, 4096, 1);
    s.sges[0].lkey = 0xdeadbeef;
    s.flags |= IBV_SEND_INLINE;
    pair.post(s, api);
    fill(data, 15);  // inline data was copied when posted
    pair.expect(1);
    if (opcode == IBV_WR_SEND) pair.expect_recv(2);
    pair.remote.check({opcode == IBV_WR_SEND ? pair.local.header() : 4096, length}, 14);
  }
  if (is_reliable(type.type)) {
    Send s = pair.request(IBV_WR_RDMA_READ, 8, 0, 0, 2);
    s.flags |= IBV_SEND_INLINE;
    check_refusal(pair, api, s, EINVAL, IfAccepted::kMayWork);
  }
}

// A fenced SEND after a READ sends the data that the READ has fetched. Without READs there is
// nothing to wait for.
void fenced(const Pair& pair, const Type& type, Api api) {
  for (std::uint64_t i = 0; i < 20; i++) {
    pair.recv(3, 0, kLength);
    std::vector<Send> sends;
    if (is_reliable(type.type)) {
      fill(pair.remote.end().memory().bytes().subspan(8192, kLength), 100 + i);
      sends.push_back(pair.request(IBV_WR_RDMA_READ, kLength, 0, 8192, 1));
    } else {
      fill(pair.local.memory().bytes().first(kLength), 100 + i);
    }
    sends.push_back(pair.request(IBV_WR_SEND, kLength, 0, 0, 2));
    sends.back().flags |= IBV_SEND_FENCE;
    require_err(post(pair.local.qp(), api, sends), 0, api_name(api));
    if (is_reliable(type.type)) pair.expect(1);
    pair.expect(2);
    pair.expect_recv(3);
    pair.remote.check({pair.local.header(), kLength}, 100 + i);
  }
}

void ip_csum(const Device& dev, const Pair& pair, Api api) {
  if ((dev.attr().device_cap_flags & (IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_IP_CSUM)) != 0) {
    skip("checksum offload is not tested");
  }
  Send s = pair.request(IBV_WR_SEND, 8, 0, 0, 2);
  s.flags |= IBV_SEND_IP_CSUM;
  check_refusal(pair, api, s, EOPNOTSUPP, IfAccepted::kMayWork);
}

using Body = std::function<void(const Device& dev, std::size_t type)>;

void add(Cells& cells, const char* row, std::size_t prefix, std::size_t type, const char* text,
         const std::string& says, const Body& body) {
  cells.push_back({.row = row,
                   .type = type,
                   .says = text,
                   .rule = {.name = std::format("{}_{}", row + prefix, kTypes.at(type).name),
                            .says = says,
                            .run = [body, type](const Env& env) { body(env.dev, type); }}});
}

void add_opcode(Cells& cells, const Opcode& op, std::size_t type, const char* text,
                const Body& body) {
  const bool works = op.marks.at(type) && op.lacking == nullptr;
  add(cells, op.name, 7, type, text,
      std::format("{} on {} {}", op.name, kTypes.at(type).name,
                  works ? "works" : "is refused, or fails and moves no byte"),
      body);
}

}  // namespace

Cells opcode_cells() {
  Cells cells;
  for (const Opcode& op : kOpcodes) {
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      add_opcode(cells, op, i, cell_text(kTypes[i], op, op.marks[i]),
                 [&op](const Device& dev, std::size_t type) {
                   cell(dev, kTypes[type], op, op.marks[type]);
                 });
    }
  }
  return cells;
}

Cells built_cells() {
  Cells cells;
  for (const Opcode& op : kBuilt) {
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      add_opcode(cells, op, i, op.marks[i] ? "works" : "refused",
                 [&op](const Device& dev, std::size_t type) {
                   built_cell(dev, kTypes[type], op, op.marks[type]);
                 });
    }
  }
  return cells;
}

Cells flag_cells() {
  using Use = void (*)(const Device& dev, const Type& type, const Pair& pair, Api api);
  struct Flag {
    const char* name;
    const char* says;
    Use use;
  };
  static constexpr Flag kFlags[] = {
      {"IBV_SEND_FENCE", "a fenced request waits for the READs before it",
       [](const Device&, const Type& type, const Pair& pair, Api api) { fenced(pair, type, api); }},
      {"IBV_SEND_SIGNALED", "only signaled requests complete",
       [](const Device&, const Type&, const Pair& pair, Api api) { signaled(pair, api); }},
      {"IBV_SEND_SOLICITED", "only solicited messages raise a solicited event",
       [](const Device&, const Type& type, const Pair& pair, Api api) {
         solicited(pair, type, api);
       }},
      {"IBV_SEND_INLINE", "inline data is copied by the post, whatever its lkey",
       [](const Device&, const Type& type, const Pair& pair, Api api) {
         inlined(pair, type, api);
       }},
      {"IBV_SEND_IP_CSUM", "checksums are refused without the capability",
       [](const Device& dev, const Type&, const Pair& pair, Api api) { ip_csum(dev, pair, api); }},
  };
  Cells cells;
  for (const Flag& flag : kFlags) {
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      const bool fence = flag.says == kFlags[0].says;
      const char* text = fence && !is_reliable(kTypes[i].type) ? "no effect [4]_"
                         : flag.says == kFlags[4].says         ? "no offload [3]_"
                                                               : "works";
      add(cells, flag.name, 9, i, text, std::format("{}: {}", kTypes[i].name, flag.says),
          [&flag](const Device& dev, std::size_t type) {
            for (const Api api : dev.apis()) {
              flag.use(dev, kTypes[type], Pair(dev, loop(kTypes[type].type)), api);
            }
          });
    }
  }
  return cells;
}

}  // namespace guest::opcodes
