// SPDX-License-Identifier: GPL-2.0-or-later
// The headers and payload of each opcode: IBTA 9.2.1 table 38, 9.3, annexes A14 (XRC), A17
// (RoCEv2), A19 (FLUSH, ATOMIC WRITE).
#include <array>
#include <cstddef>

#include "wire/packet.h"

namespace tern {

namespace {

using Row = OpTraits;
using Class = std::array<Row, 32>;

constexpr std::size_t at(Op op) { return static_cast<std::size_t>(op); }

constexpr Row request(bool first, bool last) {
  Row r{};
  r.valid = r.request = true;
  r.first = first;
  r.last = last;
  return r;
}

constexpr Row send(bool first, bool last) {
  Row r = request(first, last);
  r.send = r.payload = true;
  return r;
}

constexpr Row write(bool first, bool last) {
  Row r = request(first, last);
  r.write = r.payload = true;
  r.reth = first;
  return r;
}

constexpr Row with_imm(Row r) {
  r.imm = true;
  return r;
}

constexpr Row with_inv(Row r) {
  r.ieth = true;
  return r;
}

constexpr Row response(bool first, bool last, bool payload) {
  Row r{};
  r.valid = true;
  r.first = first;
  r.last = last;
  r.aeth = first || last;
  r.payload = payload;
  return r;
}

// SEND and RDMA WRITE, which reliable and unreliable connections share.
constexpr Class sends_and_writes() {
  Class c{};
  c[at(Op::kSendFirst)] = send(true, false);
  c[at(Op::kSendMiddle)] = send(false, false);
  c[at(Op::kSendLast)] = send(false, true);
  c[at(Op::kSendLastImm)] = with_imm(send(false, true));
  c[at(Op::kSendOnly)] = send(true, true);
  c[at(Op::kSendOnlyImm)] = with_imm(send(true, true));
  c[at(Op::kWriteFirst)] = write(true, false);
  c[at(Op::kWriteMiddle)] = write(false, false);
  c[at(Op::kWriteLast)] = write(false, true);
  c[at(Op::kWriteLastImm)] = with_imm(write(false, true));
  c[at(Op::kWriteOnly)] = write(true, true);
  c[at(Op::kWriteOnlyImm)] = with_imm(write(true, true));
  // IBTA defines these two for reliable connections only; ibv_post_send(3) allows them for UC, too.
  c[at(Op::kSendLastInv)] = with_inv(send(false, true));
  c[at(Op::kSendOnlyInv)] = with_inv(send(true, true));
  return c;
}

constexpr Class reliable() {
  Class c = sends_and_writes();

  Row read = request(true, true);
  read.reth = true;
  c[at(Op::kReadRequest)] = read;
  Row flush = read;
  flush.feth = true;
  c[at(Op::kFlush)] = flush;
  Row atomic_write = read;
  atomic_write.payload = true;
  c[at(Op::kAtomicWrite)] = atomic_write;
  Row atomic = request(true, true);
  atomic.atomic_eth = true;
  c[at(Op::kCompareSwap)] = c[at(Op::kFetchAdd)] = atomic;

  c[at(Op::kReadResponseFirst)] = response(true, false, true);
  c[at(Op::kReadResponseMiddle)] = response(false, false, true);
  c[at(Op::kReadResponseLast)] = response(false, true, true);
  c[at(Op::kReadResponseOnly)] = response(true, true, true);
  c[at(Op::kAck)] = response(true, true, false);
  Row atomic_ack = response(true, true, false);
  atomic_ack.atomic_ack_eth = true;
  c[at(Op::kAtomicAck)] = atomic_ack;
  return c;
}

// XRC requests carry the SRQ number; XRC responses are the same as those of RC.
constexpr Class extended() {
  Class c = reliable();
  for (Row& r : c) r.xrceth = r.valid && r.request;
  return c;
}

constexpr Class datagram() {
  Class c{};
  c[at(Op::kSendOnly)] = send(true, true);
  c[at(Op::kSendOnlyImm)] = with_imm(send(true, true));
  c[at(Op::kSendOnly)].deth = c[at(Op::kSendOnlyImm)].deth = true;
  return c;
}

// The congestion notification packet (CNP): 16 reserved bytes follow the BTH.
constexpr Class notification() {
  Class c{};
  c[at(kCnpOp)] = response(true, true, true);
  c[at(kCnpOp)].aeth = false;
  return c;
}

// Fills in OpTraits::header_bytes.
constexpr Class sized(Class c) {
  for (OpTraits& t : c) {
    t.header_bytes =
        static_cast<std::uint8_t>(12 + (t.deth ? 8 : 0) + (t.xrceth ? 4 : 0) + (t.feth ? 4 : 0) +
                                  (t.reth ? 16 : 0) + (t.atomic_eth ? 28 : 0) + (t.aeth ? 4 : 0) +
                                  (t.atomic_ack_eth ? 8 : 0) + (t.imm ? 4 : 0) + (t.ieth ? 4 : 0));
  }
  return c;
}

// Indexed by the upper three bits of the opcode. RD and the manufacturer-specific classes are
// empty.
constexpr std::array<Class, 8> kTable = {
    sized(reliable()),     sized(sends_and_writes()), sized(Class{}), sized(datagram()),
    sized(notification()), sized(extended()),         sized(Class{}), sized(Class{}),
};

}  // namespace

const OpTraits& traits(Transport transport, Op op) {
  return kTable[static_cast<std::size_t>(transport) >> 5][at(op) & 0x1f];
}

const OpTraits& traits_of(std::uint8_t opcode) { return kTable[opcode >> 5][opcode & 0x1f]; }

}  // namespace tern
