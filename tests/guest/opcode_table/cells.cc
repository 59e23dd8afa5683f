// SPDX-License-Identifier: GPL-2.0-or-later
// The opcode table of ibv_post_send(3) and its flags, cell by cell.
#include <arpa/inet.h>

#include <cerrno>

#include "table.h"

namespace guest {
namespace {

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

void send_cell(const Ends& ends, ibv_wr_opcode opcode, Api api) {
  const bool imm = opcode == IBV_WR_SEND_WITH_IMM;
  fill(ends.here().bytes().first(kLength), 11);
  ends.recv(2, 0, kLength);
  Send s = ends.request(opcode, 1, kLength);
  s.imm = 0xa1b2c3d4;
  ends.post(s, api);
  require(ends.sent(1).opcode == IBV_WC_SEND, "another opcode");
  const ibv_wc wc = ends.received(2);
  require(wc.opcode == IBV_WC_RECV, "another receive opcode");
  require(wc.byte_len == kLength + ends.header(), "{} bytes received", wc.byte_len);
  const unsigned flags = (imm ? static_cast<unsigned>(IBV_WC_WITH_IMM) : 0U) |
                         (ends.header() != 0 ? static_cast<unsigned>(IBV_WC_GRH) : 0U);
  require(wc.wc_flags == flags, "wc_flags {:#x}, not {:#x}", wc.wc_flags, flags);
  require(!imm || ntohl(wc.imm_data) == s.imm, "immediate data {:#x}", ntohl(wc.imm_data));
  require(ends.header() == 0 || wc.src_qp == ends.qp()->qp_num, "from QP {:#x}", wc.src_qp);
  ends.check_there(ends.header(), kLength, 11);
}

void write_cell(const Ends& ends, ibv_wr_opcode opcode, Api api) {
  const bool imm = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  fill(ends.here().bytes().first(kLength), 12);
  if (imm) {
    ends.recv(2, 0, 0);
  }
  Send s = ends.request(opcode, 1, kLength, 0, 4096);
  s.imm = 0xa1b2c3d4;
  ends.post(s, api);
  require(ends.sent(1).opcode == IBV_WC_RDMA_WRITE, "another opcode");
  if (imm) {
    const ibv_wc wc = ends.received(2);
    require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "another receive opcode");
    require(wc.byte_len == kLength && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                ntohl(wc.imm_data) == s.imm,
            "another length or immediate data");
  }
  ends.check_there(4096, kLength, 12);
}

void read_cell(const Ends& ends, Api api) {
  fill(ends.there().bytes().subspan(4096, kLength), 13);
  ends.post(ends.request(IBV_WR_RDMA_READ, 1, kLength, 512, 4096), api);
  const ibv_wc wc = ends.sent(1);
  require(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == kLength, "another opcode or length");
  require(!mismatch(ends.here().bytes().subspan(512, kLength), 13), "other bytes were read");
}

void atomic_cell(const Ends& ends, ibv_wr_opcode opcode, Api api) {
  const bool swap = opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  constexpr std::uint64_t kOld = 0x1122334455667788;
  ends.there().store64(4096, kOld);
  Send s = ends.request(opcode, 1, 8, 512, 4096);
  s.compare_add = swap ? kOld : 0x1111;
  s.swap = 0x99aabbccddeeff00;
  ends.post(s, api);
  require(ends.sent(1).opcode == (swap ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD), "another opcode");
  require(ends.here().load64(512) == kOld, "not the former value");
  require(ends.there().load64(4096) == (swap ? s.swap : kOld + 0x1111), "not the new value");
}

MwPtr alloc_window(const Device& dev) {
  MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
  if (!mw) {
    fail_errno("ibv_alloc_mw");
  }
  return mw;
}

// The peer writes through a window that the sender has bound to its own memory. Nobody can address
// an XRC sender, so there a second bind shows that the window is bound.
void bind_cell(const Ends& ends, const Device& dev, const Type& type, Api api) {
  const MwPtr mw = alloc_window(dev);
  const Send s = ends.bind(mw.get(), ends.here(), 7, 1, kLength, 4096);
  ends.post(s, api);
  require(ends.sent(1).opcode == IBV_WC_BIND_MW, "another opcode");
  if (type.type == IBV_QPT_XRC_SEND) {
    ends.post(ends.bind(mw.get(), ends.here(), 8, 2, kLength, 4096), api);
    ends.sent(2, IBV_WC_MW_BIND_ERR);
    return;
  }
  Send write{.opcode = IBV_WR_RDMA_WRITE, .sges = {ends.there().sge(0, kLength)}, .wr_id = 3};
  write.raddr = ends.here().address(4096);
  write.rkey = s.bind_rkey;
  fill(ends.there().bytes().first(kLength), 16);
  ends.peer_post(write, api);
  ends.peer_sent(3);
  ends.check(ends.here(), 4096, kLength, 16);
}

// Only a free window can be bound, so the second bind shows that the window was invalidated.
void local_inv_cell(const Ends& ends, const Device& dev, Api api) {
  const MwPtr mw = alloc_window(dev);
  Send s{.opcode = IBV_WR_LOCAL_INV, .wr_id = 2};
  ends.post(ends.bind(mw.get(), ends.here(), 7, 1, kLength, 4096), api);
  s.inv_rkey = (mw->rkey & ~0xffU) | 7;
  ends.post(s, api);
  ends.post(ends.bind(mw.get(), ends.here(), 8, 3, kLength, 4096), api);
  require(ends.sent(1).opcode == IBV_WC_BIND_MW, "another opcode than BIND_MW");
  require(ends.sent(2).opcode == IBV_WC_LOCAL_INV, "another opcode");
  ends.sent(3);
}

// The peer's window is free once it has received the message.
void send_inv_cell(const Ends& ends, const Device& dev, Api api) {
  const MwPtr mw = alloc_window(dev);
  const Send bound = ends.bind(mw.get(), ends.there(), 7, 3, kLength, 4096);
  ends.peer_post(bound, api);
  ends.peer_sent(3);
  fill(ends.here().bytes().first(kLength), 17);
  ends.recv(2, 0, kLength);
  Send s = ends.request(IBV_WR_SEND_WITH_INV, 1, kLength);
  s.inv_rkey = bound.bind_rkey;
  ends.post(s, api);
  require(ends.sent(1).opcode == IBV_WC_SEND, "another opcode");
  const ibv_wc wc = ends.received(2);
  require(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV,
          "another receive opcode, or wc_flags {:#x}", wc.wc_flags);
  require(wc.invalidated_rkey == bound.bind_rkey, "key {:#x} was invalidated, not {:#x}",
          wc.invalidated_rkey, bound.bind_rkey);
  ends.check_there(0, kLength, 17);
  ends.peer_post(ends.bind(mw.get(), ends.there(), 8, 4, kLength, 4096), api);
  ends.peer_sent(4);
}

// The request is sent, and the responder refuses to invalidate the key: an XRC target has no
// windows, and the key of an ordinary region cannot be invalidated.
void send_inv_to_target(const Ends& ends, Api api) {
  ends.recv(2, 0, kLength);
  Send s = ends.request(IBV_WR_SEND_WITH_INV, 1, kLength);
  s.inv_rkey = ends.there().rkey();
  ends.post(s, api);
  ends.sent(1, IBV_WC_REM_INV_REQ_ERR);
  ends.received(2, IBV_WC_REM_INV_REQ_ERR);
}

void works(const Device& dev, const Type& type, ibv_wr_opcode opcode, Api api) {
  const Ends ends(dev, type, {.more_ops = type.type == IBV_QPT_UD ? 0 : kWindowOps});
  switch (opcode) {
    case IBV_WR_LOCAL_INV:
      return local_inv_cell(ends, dev, api);
    case IBV_WR_BIND_MW:
      return bind_cell(ends, dev, type, api);
    case IBV_WR_SEND_WITH_INV:
      return type.type == IBV_QPT_XRC_SEND ? send_inv_to_target(ends, api)
                                           : send_inv_cell(ends, dev, api);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return send_cell(ends, opcode, api);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return write_cell(ends, opcode, api);
    case IBV_WR_RDMA_READ:
      return read_cell(ends, api);
    default:
      return atomic_cell(ends, opcode, api);
  }
}

// Returns the errno with which ibv_create_qp_ex() refuses the opcode for ibv_wr_*(), or 0.
int create_errno(const Device& dev, const Type& type, std::uint64_t send_op) {
  const CqPtr cq = create_cq(dev, 4);
  QpSpec spec{.type = type.type,
              .send_cq = cq.get(),
              .recv_cq = cq.get(),
              .cap = EndsOptions{}.cap,
              .send_ops = send_op};
  errno = 0;
  return try_create_qp(dev, spec) ? 0 : errno;
}

void refused(const Device& dev, const Type& type, const Opcode& op, int post_errno) {
  const Ends ends(dev, type);
  check_refusal(ends, Api::kPost, ends.request(op.opcode, 2, 8), post_errno);
  require_err(create_errno(dev, type, op.send_op), EOPNOTSUPP, "ibv_create_qp_ex");
}

std::string cell(const Device& dev, const Type& type, const Opcode& op, bool marked) {
  if (!marked) {
    refused(dev, type, op, EINVAL);
    return "refused";
  }
  if (op.lacking != nullptr) {
    refused(dev, type, op, EOPNOTSUPP);
    return op.lacking;
  }
  for (const Api api : kBothApis) {
    works(dev, type, op.opcode, api);
  }
  if (type.type == IBV_QPT_XRC_SEND && op.opcode == IBV_WR_BIND_MW) {
    return "works [1]_";
  }
  if (type.type == IBV_QPT_XRC_SEND && op.opcode == IBV_WR_SEND_WITH_INV) {
    return "goes out [2]_";
  }
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
void flush_cell(const Ends& ends) {
  for (const std::uint8_t level : {IBV_FLUSH_RANGE, IBV_FLUSH_MR}) {
    fill(ends.here().bytes().first(kLength), 18 + level);
    Send write = ends.request(IBV_WR_RDMA_WRITE, 1, kLength, 0, 4096);
    write.flags = 0;
    Send s = ends.request(IBV_WR_FLUSH, 2, 0, 0, 4096);
    s.flush_length = kLength;
    s.flush_level = level;
    const std::array sends{write, s};
    require_err(post(ends.qp(), Api::kWr, sends), 0, "ibv_wr_flush");
    require(ends.sent(2).opcode == IBV_WC_FLUSH, "another opcode");
    ends.check_there(4096, kLength, 18 + level);
  }
}

void atomic_write_cell(const Ends& ends) {
  Send s = ends.request(IBV_WR_ATOMIC_WRITE, 1, 0, 0, 4096);
  s.swap = 0x8877665544332211;
  ends.post(s, Api::kWr);
  require(ends.sent(1).opcode == IBV_WC_ATOMIC_WRITE, "another opcode");
  require(ends.there().load64(4096) == s.swap, "not the new value");
}

std::string built_cell(const Device& dev, const Type& type, const Opcode& op, bool has) {
  const Ends ends(
      dev, type,
      {.more_ops = has ? op.send_op | IBV_QP_EX_WITH_RDMA_WRITE : 0, .access = kFlushAccess});
  check_refusal(ends, Api::kPost, ends.request(op.opcode, 2, 8), EINVAL);
  if (!has) {
    require_err(create_errno(dev, type, op.send_op), EOPNOTSUPP, "ibv_create_qp_ex");
    return "refused";
  }
  if (op.opcode == IBV_WR_FLUSH) {
    flush_cell(ends);
  } else {
    atomic_write_cell(ends);
  }
  return "works";
}

void signaled(const Ends& ends, Api api) {
  for (std::uint64_t i = 0; i < 2; i++) {
    ends.recv(i, 0, 8);
  }
  Send s = ends.request(IBV_WR_SEND, 1, 8);
  s.flags = 0;
  ends.post(s, api);
  s.wr_id = 2;
  s.flags = IBV_SEND_SIGNALED;
  ends.post(s, api);
  ends.sent(2);
  ends.received(0);
  ends.received(1);
  expect_quiet(ends.send_cq(), 5);
}

void solicited(const Ends& ends, const Type& type, Api api) {
  std::vector<ibv_wr_opcode> opcodes{IBV_WR_SEND};
  if (type.type != IBV_QPT_UD) {
    opcodes.push_back(IBV_WR_RDMA_WRITE_WITH_IMM);
  }
  for (const ibv_wr_opcode opcode : opcodes) {
    require_err(ibv_req_notify_cq(ends.recv_cq(), 1), 0, "ibv_req_notify_cq");
    for (const bool solicit : {false, true}) {
      ends.recv(2, 0, 8);
      Send s = ends.request(opcode, 1, 8);
      s.flags |= solicit ? static_cast<unsigned>(IBV_SEND_SOLICITED) : 0U;
      ends.post(s, api);
      ends.sent(1);
      ends.received(2);
      require(wait_event(ends.channel(), solicit ? 5000 : 50) == solicit, "{}",
              solicit ? "no event" : "an event that nobody asked for");
    }
  }
}

void inlined(const Ends& ends, const Type& type, Api api) {
  const std::uint32_t length = ends.cap().max_inline_data;
  std::vector<ibv_wr_opcode> opcodes{IBV_WR_SEND};
  if (type.type != IBV_QPT_UD) {
    opcodes.push_back(IBV_WR_RDMA_WRITE);
  }
  for (const ibv_wr_opcode opcode : opcodes) {
    const auto data = ends.here().bytes().first(length);
    fill(data, 14);
    if (opcode == IBV_WR_SEND) {
      ends.recv(2, 0, length);
    }
    Send s = ends.request(opcode, 1, length, 0, 4096);
    s.sges[0].lkey = 0xdeadbeef;
    s.flags |= IBV_SEND_INLINE;
    ends.post(s, api);
    fill(data, 15);  // inline data was copied when posted
    ends.sent(1);
    if (opcode == IBV_WR_SEND) {
      ends.received(2);
    }
    ends.check_there(opcode == IBV_WR_SEND ? ends.header() : 4096, length, 14);
  }
  if (is_reliable(type)) {
    Send s = ends.request(IBV_WR_RDMA_READ, 1, 8);
    s.flags |= IBV_SEND_INLINE;
    require_err(post(ends.qp(), api, s), EINVAL, "READ with INLINE");
  }
}

// A fenced SEND behind a READ sends the data that the READ has fetched. Without READs there is
// nothing to wait for.
void fenced(const Ends& ends, const Type& type, Api api) {
  for (std::uint64_t i = 0; i < 20; i++) {
    ends.recv(3, 0, kLength);
    std::vector<Send> sends;
    if (is_reliable(type)) {
      fill(ends.there().bytes().subspan(8192, kLength), 100 + i);
      sends.push_back(ends.request(IBV_WR_RDMA_READ, 1, kLength, 0, 8192));
    } else {
      fill(ends.here().bytes().first(kLength), 100 + i);
    }
    sends.push_back(ends.request(IBV_WR_SEND, 2, kLength));
    sends.back().flags |= IBV_SEND_FENCE;
    require_err(post(ends.qp(), api, sends), 0, api_name(api));
    if (is_reliable(type)) {
      ends.sent(1);
    }
    ends.sent(2);
    ends.received(3);
    ends.check_there(ends.header(), kLength, 100 + i);
  }
}

void ip_csum(const Device& dev, const Ends& ends, Api api) {
  require((dev.attr().device_cap_flags & (IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_IP_CSUM)) == 0,
          "the device says that it computes checksums");
  Send s = ends.request(IBV_WR_SEND, 2, 8);
  s.flags |= IBV_SEND_IP_CSUM;
  check_refusal(ends, api, s, EOPNOTSUPP);
}

}  // namespace

void check_refusal(const Ends& ends, Api api, const Send& wrong, int err) {
  ends.recv(0x20, 0, 8);
  const std::array list{ends.request(IBV_WR_SEND, 0x10, 8), wrong,
                        ends.request(IBV_WR_SEND, 0x11, 8)};
  std::size_t bad = 0;
  require_err(post(ends.qp(), api, list, &bad), err, api_name(api));
  if (api == Api::kPost) {
    require(bad == 1, "bad_wr is request {}", bad);
    ends.sent(0x10);
    ends.received(0x20);
  }
  expect_quiet(ends.send_cq(), 5);
  expect_quiet(ends.recv_cq(), 5);
}

std::vector<Row> opcode_rows(const Device& dev, const Runner& run) {
  std::vector<Row> rows;
  for (const Opcode& op : kOpcodes) {
    Row row{.name = op.name, .cells = {}};
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      std::string text;
      run(std::format("{}_{}", op.name + 7, kTypes[i].name),
          [&] { text = cell(dev, kTypes[i], op, op.marks[i]); });
      row.cells.push_back(text.empty() ? "FAILS" : text);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<Row> built_rows(const Device& dev, const Runner& run) {
  std::vector<Row> rows;
  for (const Opcode& op : kBuilt) {
    Row row{.name = op.name, .cells = {}};
    for (std::size_t i = 0; i < kTypes.size(); i++) {
      std::string text = "FAILS";
      run(std::format("{}_{}", op.name + 7, kTypes[i].name),
          [&] { text = built_cell(dev, kTypes[i], op, op.marks[i]); });
      row.cells.push_back(text);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<Row> flag_rows(const Device& dev, const Runner& run) {
  using Body = std::function<std::string(const Type& type, const Ends& ends, Api api)>;
  const std::vector<std::pair<const char*, Body>> flags{
      {"IBV_SEND_FENCE",
       [](const Type& type, const Ends& ends, Api api) {
         fenced(ends, type, api);
         return is_reliable(type) ? "works" : "no effect [4]_";
       }},
      {"IBV_SEND_SIGNALED",
       [](const Type&, const Ends& ends, Api api) {
         signaled(ends, api);
         return "works";
       }},
      {"IBV_SEND_SOLICITED",
       [](const Type& type, const Ends& ends, Api api) {
         solicited(ends, type, api);
         return "works";
       }},
      {"IBV_SEND_INLINE",
       [](const Type& type, const Ends& ends, Api api) {
         inlined(ends, type, api);
         return "works";
       }},
      {"IBV_SEND_IP_CSUM",
       [&dev](const Type&, const Ends& ends, Api api) {
         ip_csum(dev, ends, api);
         return "no offload [3]_";
       }},
  };
  std::vector<Row> rows;
  for (const auto& [name, body] : flags) {
    Row row{.name = name, .cells = {}};
    for (const Type& type : kTypes) {
      std::string text = "FAILS";
      run(std::format("{}_{}", name + 9, type.name), [&] {
        std::string result;
        for (const Api api : kBothApis) {
          const Ends ends(dev, type);
          result = body(type, ends, api);
        }
        text = result;
      });
      row.cells.push_back(text);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace guest
