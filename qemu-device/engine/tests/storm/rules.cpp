// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/rules.h"

#include <cstdio>

namespace tern::storm {

namespace {

constexpr std::size_t kRules = static_cast<std::size_t>(Rule::kNum);

constexpr std::array<RuleText, kRules> kTexts = {{
    {"PSN", "in-order", "request with the expected PSN: executed", false},
    {"PSN", "ahead-nak", "request ahead: NAK 0x60 with the expected PSN", false},
    {"PSN", "ahead-silent", "more of them: nothing until the expected one comes", false},
    {"PSN", "ahead-again", "one of them with AckReq, and the option REPEAT_NAK: NAK 0x60 again",
     false},
    {"PSN", "nak-taken", "NAK 0x60: all before it done, the rest sent again", false},
    {"PSN", "repeated-send", "repeated SEND with AckReq: ACK, not executed", false},
    {"PSN", "repeated-write", "repeated WRITE with AckReq: ACK, not executed", false},
    {"PSN", "repeated-read", "repeated READ: answered again from its first PSN", false},
    {"PSN", "repeated-read-part", "repeated READ of what is left: answered from there on", false},
    {"PSN", "repeated-read-elsewhere", "repeated READ with other key, address or length: dropped",
     true},
    {"PSN", "repeated-read-unknown", "repeated READ that is not kept: dropped", true},
    {"PSN", "repeated-atomic", "repeated atomic: the kept value, not executed", false},
    {"PSN", "repeated-atomic-unknown", "repeated atomic that is not kept: dropped", true},
    {"PSN", "repeated-flush", "repeated FLUSH: the empty response again", false},
    {"PSN", "repeated-flush-elsewhere", "repeated FLUSH with other key, address or length: dropped",
     true},
    {"PSN", "repeated-flush-unknown", "repeated FLUSH that is not kept: dropped", true},
    {"PSN", "repeated-atomic-write",
     "repeated ATOMIC WRITE: the empty response again, not executed", false},
    {"PSN", "repeated-atomic-write-elsewhere",
     "repeated ATOMIC WRITE with other key or address: dropped", true},
    {"PSN", "repeated-atomic-write-unknown", "repeated ATOMIC WRITE that is not kept: dropped",
     true},
    {"PSN", "read-psns", "READ of several packets: takes a PSN for each", false},
    {"PSN", "read-empty", "READ of nothing: takes one PSN", false},
    {"PSN", "flush-psn", "FLUSH of more than the path MTU: takes one PSN", false},
    {"PSN", "atomic-write-psn", "ATOMIC WRITE: takes one PSN", false},
    {"PSN", "xrc-flush", "FLUSH over XRC: executed", false},
    {"PSN", "xrc-atomic-write", "ATOMIC WRITE over XRC: executed", false},
    {"PSN", "uc-gap", "UC packet with another PSN than expected: its message is lost", false},
    {"PSN", "uc-resumes", "UC FIRST or ONLY after a gap: received", false},
    {"PSN", "uc-no-first", "UC MIDDLE or LAST without its FIRST: dropped", false},
    {"PSN", "wrap-request", "reliable request at PSN 0xffffff, then 0", false},
    {"PSN", "wrap-read", "READ whose responses go over 0xffffff", false},
    {"PSN", "wrap-unreliable", "UC request at PSN 0xffffff, then 0", false},
    {"PSN", "window-full", "128 packets of SENDs and WRITEs not acknowledged", false},
    {"PSN", "ack-asked", "AckReq inside of a message", false},
    {"PSN", "read-depth", "max_rd_atomic READs, atomics, FLUSHes and ATOMIC WRITEs outstanding",
     false},
    {"PSN", "reads-refused", "READ, FLUSH or ATOMIC WRITE with max_dest_rd_atomic 0: NAK 0x61",
     true},
    {"PSN", "reads-too-many", "READ, FLUSH or ATOMIC WRITE beyond max_dest_rd_atomic: NAK 0x61",
     true},
    {"PSN", "coalesced-ack", "one ACK that completes several messages", false},
    {"PSN", "implied-by-ack", "ACK behind a missing response: sent again", false},
    {"PSN", "implied-by-read", "READ response behind a missing one: sent again", false},
    {"PSN", "implied-by-atomic", "atomic response behind a missing one: sent again", false},
    {"PSN", "implied-by-empty",
     "response of a FLUSH or ATOMIC WRITE behind a missing one: sent again", false},
    {"PSN", "read-resumed", "READ asked for again from the first missing PSN", false},
    {"PSN", "flush-again", "FLUSH that was not answered: sent again", false},
    {"PSN", "atomic-write-again", "ATOMIC WRITE that was not answered: sent again", false},
    {"PSN", "timeout", "no answer in time: sent again", false},
    {"PSN", "stale-response", "response to what is done already: ignored", false},
    {"checks", "order-no-first", "MIDDLE or LAST without FIRST: NAK 0x61", true},
    {"checks", "order-first-again", "FIRST or ONLY inside a message: NAK 0x61", true},
    {"checks", "order-mixed", "WRITE inside a SEND: NAK 0x61", true},
    {"checks", "order-other", "READ, FLUSH or ATOMIC WRITE inside a message: NAK 0x61", true},
    {"checks", "uc-order", "UC FIRST inside a message: that one is lost, the new one received",
     true},
    {"checks", "opcode", "FLUSH or ATOMIC WRITE of no valid kind: NAK 0x61", true},
    {"checks", "xrc-srq", "XRC request for an SRQ of another domain: NAK 0x61", true},
    {"checks", "flag-write", "WRITE that the QP does not allow: NAK 0x61", false},
    {"checks", "flag-read", "READ that the QP does not allow: NAK 0x61", false},
    {"checks", "flag-atomic", "atomic that the QP does not allow: NAK 0x61", false},
    {"checks", "flag-flush", "FLUSH that the QP does not allow: NAK 0x61", false},
    {"checks", "flag-atomic-write", "ATOMIC WRITE on a QP that allows no WRITE: NAK 0x61", false},
    {"checks", "uc-flag", "UC WRITE that the QP does not allow: dropped", true},
    {"checks", "rnr-send", "SEND without a receive WQE: RNR NAK", false},
    {"checks", "rnr-write-imm", "WRITE with immediate without one: RNR NAK", false},
    {"checks", "rnr-srq", "the SRQ is empty: RNR NAK", false},
    {"checks", "rnr-xrc", "the XRC SRQ is empty: RNR NAK", false},
    {"checks", "ud-no-receive", "datagram without a receive WQE: dropped", false},
    {"checks", "uc-no-receive", "UC message without a receive WQE: dropped", false},
    {"checks", "length-only", "packet longer than the path MTU: NAK 0x61", true},
    {"checks", "length-first", "FIRST shorter than the path MTU: NAK 0x61", true},
    {"checks", "length-last", "LAST of 0 bytes: NAK 0x61", true},
    {"checks", "length-reth", "RETH of more than 2^31 bytes: NAK 0x61", true},
    {"checks", "length-more", "WRITE with more bytes than its RETH says: NAK 0x61", true},
    {"checks", "length-less", "WRITE with fewer: NAK 0x61", true},
    {"checks", "length-receive", "SEND longer than its receive WQE: NAK 0x61", false},
    {"checks", "ud-length", "datagram and 40 bytes longer than its receive WQE: dropped", true},
    {"checks", "uc-length", "UC message longer than its receive WQE: dropped", true},
    {"checks", "key-unknown", "key that nobody has: NAK 0x62", false},
    {"checks", "key-range", "a byte beyond the region: NAK 0x62", false},
    {"checks", "key-right", "region without the right: NAK 0x62", false},
    {"checks", "key-pd", "region of another PD: NAK 0x62", false},
    {"checks", "uc-key", "UC WRITE with a key that nobody has: dropped", true},
    {"checks", "zero-write", "WRITE of nothing with a wrong key: executed", false},
    {"checks", "zero-read", "READ of nothing with a wrong key: answered", false},
    {"checks", "pad", "more pad than payload: dropped", true},
    {"checks", "atomic-place", "atomic not on 8 bytes: NAK 0x61", false},
    {"checks", "atomic-key", "atomic on a region without the right: NAK 0x62", false},
    {"checks", "flush-key", "FLUSH with a wrong key, PD or right: NAK 0x62", false},
    {"checks", "flush-range", "FLUSH of a byte beyond the region: NAK 0x62", false},
    {"checks", "flush-empty", "FLUSH of nothing with a wrong key: NAK 0x62", false},
    {"checks", "atomic-write-place", "ATOMIC WRITE not on 8 bytes: NAK 0x61", false},
    {"checks", "atomic-write-length", "ATOMIC WRITE whose RETH does not say 8 bytes: NAK 0x61",
     true},
    {"checks", "atomic-write-key", "ATOMIC WRITE with a wrong key, range or right: NAK 0x62",
     false},
    {"checks", "access-event", "refused access: event at the responder", false},
    {"checks", "access-receive", "key gone before the LAST with immediate: the receive tells",
     true},
    {"checks", "read-key-gone", "key gone while a READ is answered: NAK 0x62", true},
    {"checks", "bad-receive", "receive WQE with a wrong key: NAK 0x63", false},
    {"checks", "invalidate", "SEND_WITH_INV of a wrong key: the receive tells, QP in error", false},
    {"checks", "cq-overflow", "CQ full: its QPs in error, events", false},
    {"checks", "icrc", "wrong ICRC, or damaged beyond reading: dropped", false},
    {"errors", "status-invalid", "requester: NAK 0x61 is REM_INV_REQ_ERR", false},
    {"errors", "status-access", "requester: NAK 0x62 is REM_ACCESS_ERR", false},
    {"errors", "status-operation", "requester: NAK 0x63 is REM_OP_ERR", false},
    {"errors", "status-retries", "requester: retries used up, RETRY_EXC_ERR", false},
    {"errors", "status-rnr", "requester: RNR retries used up, RNR_RETRY_EXC_ERR", false},
    {"errors", "flushed-sends",
     "the first failed request has its status, the later ones are flushed", false},
    {"errors", "flushed-receives", "receive WQEs of a QP in error are flushed", false},
    {"errors", "last-wqe", "QP with an SRQ in error: event LAST_WQE", false},
    {"rates", "paced", "packet of a QP with a rate limit: not too early", false},
    {"rates", "cnp-sent", "packets marked by the wire: a CNP to their sender", false},
    {"rates", "cnp-taken", "CNP: the QP sends more slowly", false},
    {"paths", "migrated", "both ends armed: the connection migrates", false},
    {"tags", "tag-eager", "eager message: in the buffer of its tag", false},
    {"tags", "tag-long", "eager message of several packets: a CQE when it matches", false},
    {"tags", "tag-rendezvous", "request: the device fetches the data, and sends a FIN", false},
    {"tags", "tag-incomplete", "request that the device does not serve: RNDV_INCOMPLETE", false},
    {"tags", "tag-unexpected", "no tag matches: a receive WQE", false},
    {"tags", "tag-none", "message without a tag: a receive WQE", false},
    {"tags", "tag-oldest", "more than one tag matches: the oldest", false},
    {"tags", "tag-waits", "tag added while unexpected messages are not handled: SYNC_REQ", false},
    {"tags", "tag-skipped", "message that a waiting tag would match: not matched by it", false},
    {"tags", "tag-ready", "software has handled all unexpected messages: tags match", false},
    {"tags", "tag-deleted", "DEL: matches no more", false},
    {"tags", "tag-not-there", "DEL of a tag that is gone: TM_ERR", false},
    {"tags", "tag-refused", "ADD beyond max_tags: LOC_QP_OP_ERR", false},
    {"tags", "tag-too-long", "eager message longer than the buffer: LOC_LEN_ERR", false},
    {"tags", "tag-key-gone", "region of the buffer deregistered: LOC_PROT_ERR", false},
    {"tags", "tag-remote-key-gone", "region of the request deregistered: REM_ACCESS_ERR", false},
    {"tags", "tag-flushed", "QP gone before the data is there: the tag is flushed", false},
    {"tags", "tag-srq-gone", "SRQ destroyed with tags: no CQE", false},
}};

}  // namespace

const RuleText& text_of(Rule rule) { return kTexts[static_cast<std::size_t>(rule)]; }

std::string RuleCounts::table() const {
  std::string out;
  for (std::size_t i = 0; i < kRules; ++i) {
    const RuleText& t = kTexts[i];
    std::array<char, 200> line;
    std::snprintf(line.data(), line.size(), "%-6s  %-31s %10llu  %s%s\n", t.section, t.name,
                  static_cast<unsigned long long>(counts_[i]), t.text, t.forged ? " (forged)" : "");
    out += line.data();
  }
  return out;
}

std::string RuleCounts::missing() const {
  std::string out;
  for (std::size_t i = 0; i < kRules; ++i) {
    if (counts_[i] == 0) out += std::string(out.empty() ? "" : ", ") + kTexts[i].name;
  }
  return out;
}

}  // namespace tern::storm
