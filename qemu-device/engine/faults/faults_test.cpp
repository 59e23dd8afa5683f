// SPDX-License-Identifier: GPL-2.0-or-later
#include "faults/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tern_hw.hpp"
#include "tests/fake_host.h"
#include "tests/packet_samples.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = std::vector<std::byte>;

// Records the frames that pass.
class Collector final : public Faults::Port {
 public:
  void send(std::span<const std::byte> frame) override {
    sent.emplace_back(frame.begin(), frame.end());
  }
  void accept(std::span<const std::byte> frame, bool inside) override {
    (inside ? turned : came).emplace_back(frame.begin(), frame.end());
  }
  void fatal(std::uint32_t code) override { codes.push_back(code); }
  std::vector<Bytes> sent;
  std::vector<Bytes> came;
  std::vector<Bytes> turned;
  std::vector<std::uint32_t> codes;
};

class FaultsTest : public ::testing::Test {
 protected:
  FakeHost host;
  TimerQueue timers;
  Collector out;
  Faults faults{out, timers, host};

  void set(std::string_view text) {
    std::string error;
    auto change = parse_fault_change(text, error);
    ASSERT_TRUE(change) << text << ": " << error;
    ASSERT_TRUE(faults.change(std::move(*change), error)) << text << ": " << error;
  }
  std::string refused(std::string_view text) {
    std::string error;
    auto change = parse_fault_change(text, error);
    if (change) {
      EXPECT_FALSE(faults.change(std::move(*change), error)) << text;
    }
    return error;
  }
  Bytes packet(std::uint32_t psn, Op op = Op::kSendOnly, Transport transport = Transport::kRc,
               std::uint32_t qpn = 7, std::uint8_t syndrome = kSyndromeAck, bool ipv4 = true) {
    Packet p(host);
    fill_sample(p, transport, op);
    p.route = sample_route(ipv4, 0xffff);
    p.dest_qp = Qpn(qpn);
    p.psn = Psn(psn);
    p.syndrome = syndrome;
    const Bytes data = pattern(sample_payload(transport, op, 64));
    p.payload.append_plain(std::span<const std::byte>(data));
    Bytes frame = encode(p);
    p.payload.clear();
    return frame;
  }
  void send(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t psn = first; psn <= last; ++psn) faults.transmit(packet(psn), false);
  }
  void wait(Nanos span) {
    host.advance(span);
    while (timers.run(host.clock, 10)) {
    }
  }
  static std::vector<std::uint32_t> psns(const std::vector<Bytes>& frames) {
    std::vector<std::uint32_t> all;
    for (const Bytes& f : frames) {
      const auto at = find_parts(f);
      const std::byte* const p = f.data() + at->bth + 9;
      all.push_back(std::to_integer<std::uint32_t>(p[0]) << 16 |
                    std::to_integer<std::uint32_t>(p[1]) << 8 |
                    std::to_integer<std::uint32_t>(p[2]));
    }
    return all;
  }
  ParseResult parsed(const Bytes& frame) {
    Packet p(host);
    const ParseResult r = parse_packet(frame, p);
    p.payload.clear();
    return r;
  }
};

// ---- selection ----

TEST_F(FaultsTest, PicksTheNth) {
  set("drop tx nth=3");
  send(1, 6);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_EQ(faults.report(), "drop tx nth=3  # matched 6, applied 1\n");
}

TEST_F(FaultsTest, PicksARow) {
  set("drop tx nth=2 count=3");
  send(1, 6);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 5, 6));
}

TEST_F(FaultsTest, PicksEverySo) {
  set("drop tx every=2 count=2");
  send(1, 8);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 3, 5, 6, 7, 8));
  EXPECT_THAT(faults.report(), HasSubstr("matched 8, applied 2"));
}

TEST_F(FaultsTest, PicksTheFirst) {
  set("drop tx count=2");
  send(1, 4);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 4));
}

TEST_F(FaultsTest, ReportCanBeSetAgain) {
  set("drop tx nth=3;corrupt=any rx rate=1% seed=4");
  const std::string report = faults.report();
  set(report);
  EXPECT_EQ(faults.report(), report);
}

TEST_F(FaultsTest, OtherRulesKeepTheirCounts) {
  set("drop tx nth=3; mark rx");
  send(1, 3);
  set(" add delay=1ms tx; drop rx  # a comment");
  send(4, 4);
  EXPECT_EQ(faults.report(),
            "drop tx nth=3  # matched 4, applied 1\nmark rx  # matched 0, applied 0\n"
            "delay=1ms tx  # matched 1, applied 1\ndrop rx  # matched 0, applied 0\n# held back "
            "now: 1\n");
  set("remove drop rx; mark rx");
  wait(1);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 2, 4));
  EXPECT_EQ(faults.report(),
            "drop tx nth=3  # matched 4, applied 1\ndelay=1ms tx  # matched 1, applied 1\n");
  set("remove\tdrop tx nth=3\ndelay=1ms tx");
  EXPECT_TRUE(faults.empty());
}

TEST_F(FaultsTest, OfEqualRulesTheFirstIsRemoved) {
  set("drop tx count=2");
  send(1, 1);
  set("add mark rx; drop tx count=2");
  set("remove drop tx count=2");
  EXPECT_EQ(faults.report(),
            "mark rx  # matched 0, applied 0\ndrop tx count=2  # matched 0, applied 0\n");
}

TEST_F(FaultsTest, ARefusedChangeChangesNothing) {
  set("drop tx; mark rx");
  const std::string before = faults.report();
  EXPECT_EQ(refused("add"), "add needs a rule");
  EXPECT_EQ(refused("remove # all"), "remove needs a rule");
  EXPECT_EQ(refused("remove mark rx; mark rx"), "there is no rule 'mark rx'");
  EXPECT_EQ(refused("remove drop  tx"), "there is no rule 'drop  tx'");
  EXPECT_THAT(refused("add drop"), HasSubstr("rule 1: "));
  EXPECT_THAT(refused("added drop tx"), HasSubstr("no action 'added'"));
  std::string many = "add ";
  for (std::size_t i = 0; i < kMaxFaultRules - 1; ++i) many += "drop tx;";
  EXPECT_THAT(refused(many), HasSubstr("more than 64"));
  EXPECT_THAT(refused("add drop tx" + std::string(kMaxFaultText - 20, ' ') + "rate=1"),
              HasSubstr("8192 bytes"));
  EXPECT_EQ(faults.report(), before);
}

TEST_F(FaultsTest, OnlyANewFatalRuleAppliesAtOnce) {
  set("fatal=2");
  set("add fatal=3");
  set("add mark rx");
  set("remove mark rx");
  EXPECT_THAT(out.codes, ElementsAre(2, 3));
}

TEST_F(FaultsTest, AFractionIsThatFractionAndOfItsSeed) {
  const auto lost = [&](const char* text) {
    out.sent.clear();
    set(text);
    send(0, 9999);
    return psns(out.sent);
  };
  const auto one = lost("drop tx rate=5% seed=1");
  EXPECT_NEAR(static_cast<double>(10000 - one.size()), 500.0, 100.0);
  EXPECT_EQ(lost("drop tx rate=0.05 seed=1"), one);
  EXPECT_NE(lost("drop tx rate=5% seed=2"), one);
  EXPECT_EQ(lost("drop tx rate=0").size(), 10000U);
  EXPECT_THAT(lost("drop tx rate=1"), IsEmpty());
}

TEST_F(FaultsTest, MatchesFields) {
  const struct {
    const char* words;
    bool matches;
  } rows[] = {
      {"opcode=send-only", true},
      {"opcode=4", true},
      {"opcode=send", true},
      {"opcode=request", true},
      {"opcode=write|send-only", true},
      {"opcode=response", false},
      {"opcode=ack", false},
      {"opcode=0x64", false},
      {"transport=rc", true},
      {"transport=uc", false},
      {"qp=7", true},
      {"qp=0x7", true},
      {"qp=8", false},
      {"psn=100", true},
      {"psn=99", false},
      {"psn=100-100", true},
      {"psn=90-100", true},
      {"psn=101-200", false},
      {"psn=0xfffff0-100", true},
      {"psn=0xfffff0-99", false},
      {"psn=101-99", false},
      {"syndrome=ack", false},
  };
  for (const auto& row : rows) {
    out.sent.clear();
    set(std::string("drop tx ") + row.words);
    faults.transmit(packet(100), false);
    EXPECT_EQ(out.sent.empty(), row.matches) << row.words;
    set(std::string("drop rx ") + row.words);
    out.sent.clear();
    faults.transmit(packet(100), false);
    EXPECT_EQ(out.sent.size(), 1U) << "the other way: " << row.words;
  }
}

TEST_F(FaultsTest, MatchesWhatAnAcknowledgementSays) {
  const auto dropped = [&](const char* text, std::uint8_t syndrome, Op op = Op::kAck) {
    out.came.clear();
    set(text);
    faults.receive(packet(1, op, Transport::kRc, 7, syndrome), false);
    return out.came.empty();
  };
  EXPECT_TRUE(dropped("drop rx syndrome=ack", kSyndromeAck));
  EXPECT_TRUE(dropped("drop rx syndrome=ack", 0x05));
  EXPECT_FALSE(dropped("drop rx syndrome=ack", kNakSequence));
  EXPECT_TRUE(dropped("drop rx syndrome=nak", kNakSequence));
  EXPECT_TRUE(dropped("drop rx syndrome=nak", kNakRemoteAccess));
  EXPECT_TRUE(dropped("drop rx syndrome=0x62", kNakRemoteAccess));
  EXPECT_FALSE(dropped("drop rx syndrome=0x62", kNakSequence));
  EXPECT_TRUE(dropped("drop rx syndrome=rnr", 0x21));
  EXPECT_FALSE(dropped("drop rx syndrome=rnr", kSyndromeAck));
  EXPECT_TRUE(dropped("drop rx syndrome=ack", kSyndromeAck, Op::kReadResponseFirst));
  EXPECT_FALSE(dropped("drop rx syndrome=ack", kSyndromeAck, Op::kReadResponseMiddle));
}

TEST_F(FaultsTest, WhatIsNoPacketGoesBy) {
  set("drop tx;drop rx");
  Bytes frame = packet(1);
  const auto at = find_parts(frame);
  ASSERT_TRUE(at);
  for (const std::size_t len : {std::size_t{0}, std::size_t{13}, at->bth, at->bth + 11, at->icrc}) {
    EXPECT_FALSE(find_parts(std::span(frame).first(len)));
    faults.receive(std::span(frame).first(len), false);
    faults.transmit(std::span(frame).first(len), false);
  }
  EXPECT_EQ(out.came.size(), 5U);
  EXPECT_EQ(out.sent.size(), 5U);
}

// ---- actions ----

TEST_F(FaultsTest, Duplicates) {
  set("duplicate=2 tx nth=2");
  send(1, 3);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 2, 2, 2, 3));
}

TEST_F(FaultsTest, DuplicatesLater) {
  set("duplicate tx nth=1 after=5us");
  send(1, 2);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 2));
  EXPECT_EQ(timers.next(), host.clock + 5000);
  wait(4999);
  EXPECT_EQ(out.sent.size(), 2U);
  wait(1);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 2, 1));
}

TEST_F(FaultsTest, DelaysInOrder) {
  set("delay=1ms tx count=2");
  send(1, 3);
  EXPECT_THAT(psns(out.sent), ElementsAre(3));
  EXPECT_THAT(faults.report(), HasSubstr("held back now: 2"));
  wait(1'000'000);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 1, 2));
  EXPECT_EQ(timers.next(), kNever);
}

TEST_F(FaultsTest, ReordersBehindSoMany) {
  set("reorder=2 tx nth=1");
  send(1, 4);
  EXPECT_THAT(psns(out.sent), ElementsAre(2, 3, 1, 4));
  wait(Faults::kMaxWait);
  EXPECT_EQ(out.sent.size(), 4U) << "nothing twice";
}

TEST_F(FaultsTest, ReorderedFrameDoesNotWaitForEver) {
  set("reorder=2 tx nth=1");
  send(1, 2);
  EXPECT_THAT(psns(out.sent), ElementsAre(2));
  wait(Faults::kMaxWait);
  EXPECT_THAT(psns(out.sent), ElementsAre(2, 1));
}

TEST_F(FaultsTest, LostAndOppositeFramesOvertakeNobody) {
  set("reorder=1 tx nth=1; drop tx psn=2");
  send(1, 2);
  faults.receive(packet(9), false);
  EXPECT_THAT(out.sent, IsEmpty());
  send(3, 3);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 1));
}

TEST_F(FaultsTest, CorruptsOneBit) {
  const auto at = *find_parts(packet(1));
  const struct {
    const char* what;
    std::size_t byte;
    std::byte bit;
  } rows[] = {
      {"corrupt", at.icrc, std::byte{1}},         {"corrupt=icrc", at.icrc, std::byte{1}},
      {"corrupt=psn", at.bth + 11, std::byte{1}}, {"corrupt=qp", at.bth + 7, std::byte{1}},
      {"corrupt=opcode", at.bth, std::byte{1}},   {"corrupt=payload", at.bth + 12, std::byte{1}},
      {"corrupt=35", at.bth + 4, std::byte{8}},
  };
  for (const bool inside : {false, true}) {
    for (const auto& row : rows) {
      out = {};
      set(std::string(row.what) + " tx");
      const Bytes frame = packet(1);
      faults.transmit(frame, inside);
      const auto& through = inside ? out.turned : out.sent;
      ASSERT_EQ(through.size(), 1U) << row.what;
      for (std::size_t i = 0; i < frame.size(); ++i) {
        const std::byte want = i == row.byte ? frame[i] ^ row.bit : frame[i];
        ASSERT_EQ(through[0][i], want) << row.what << " byte " << i;
      }
    }
  }
}

TEST_F(FaultsTest, CorruptedFramesFailTheIcrcUnlessSealed) {
  for (const bool ipv4 : {true, false}) {
    for (const char* const part : {"icrc", "payload", "psn", "qp", "opcode", "any", "5"}) {
      const Bytes frame = packet(1, Op::kWriteFirst, Transport::kRc, 7, 0, ipv4);
      out.sent.clear();
      set(std::string("corrupt=") + part + " tx");
      faults.transmit(frame, false);
      EXPECT_NE(parsed(out.sent.at(0)), ParseResult::kOk) << part;
    }
    out.sent.clear();
    set("corrupt=payload tx sealed");
    faults.transmit(packet(1, Op::kSendOnly, Transport::kRc, 7, 0, ipv4), false);
    EXPECT_EQ(parsed(out.sent.at(0)), ParseResult::kOk);
    EXPECT_NE(out.sent.at(0), packet(1, Op::kSendOnly, Transport::kRc, 7, 0, ipv4));
  }
  // Without payload the ICRC is corrupted.
  out.sent.clear();
  set("corrupt=payload tx");
  faults.transmit(packet(1, Op::kAck), false);
  EXPECT_EQ(parsed(out.sent.at(0)), ParseResult::kBadIcrc);
}

TEST_F(FaultsTest, AnyBitIsOfTheSeed) {
  const auto made = [&](const char* text) {
    out.sent.clear();
    set(text);
    send(1, 20);
    return out.sent;
  };
  const auto one = made("corrupt=any tx seed=3");
  EXPECT_EQ(made("corrupt=any tx seed=3"), one);
  EXPECT_NE(made("corrupt=any tx seed=4"), one);
}

TEST_F(FaultsTest, MarksKeepTheFrameValid) {
  for (const bool ipv4 : {true, false}) {
    out.came.clear();
    set("mark rx");
    faults.receive(packet(1, Op::kSendOnly, Transport::kRc, 7, 0, ipv4), false);
    Route route;
    ASSERT_EQ(parse_route(out.came.at(0), route), ParseResult::kOk);
    EXPECT_EQ(route.traffic_class, 0x6b);
    EXPECT_EQ(parsed(out.came.at(0)), ParseResult::kOk);
  }
}

TEST_F(FaultsTest, RulesWorkTogether) {
  set("corrupt tx nth=1; duplicate tx nth=1; delay=1us tx nth=1; drop tx nth=2; mark tx nth=2");
  send(1, 3);
  EXPECT_THAT(psns(out.sent), ElementsAre(3));
  wait(1000);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 1, 1));
  EXPECT_EQ(parsed(out.sent[1]), ParseResult::kBadIcrc);
  EXPECT_EQ(out.sent[1], out.sent[2]);
}

TEST_F(FaultsTest, WhatTurnsRoundLeavesAndComes) {
  set("drop tx nth=1; drop rx nth=1; duplicate rx nth=2");
  for (std::uint32_t psn = 1; psn <= 4; ++psn) faults.transmit(packet(psn), true);
  EXPECT_THAT(psns(out.turned), ElementsAre(3, 3, 4));
  EXPECT_THAT(out.sent, IsEmpty());
  EXPECT_THAT(out.came, IsEmpty());
}

TEST_F(FaultsTest, OnlySoManyAreHeld) {
  set("delay=1s tx");
  for (std::size_t i = 0; i < Faults::kMaxHeld + 2; ++i) faults.transmit(packet(1), false);
  EXPECT_EQ(out.sent.size(), 2U);
  EXPECT_THAT(faults.report(), HasSubstr("want of room: 2"));
  set("");
  EXPECT_EQ(out.sent.size(), 2U) << "the machine may be stopped";
  while (timers.next() != kNever) {
    const std::size_t before = out.sent.size();
    wait(1);
    ASSERT_GT(out.sent.size(), before);
    ASSERT_LE(out.sent.size(), before + 64) << "in bursts";
  }
  EXPECT_EQ(out.sent.size(), Faults::kMaxHeld + 2);
}

// They pass in order, once, and the new rules see those that turn round.
TEST_F(FaultsTest, NewRulesPassWhatTheOldOnesHold) {
  set("delay=2s tx psn=1; delay=1s tx psn=2; reorder=9 tx psn=3");
  send(1, 3);
  faults.transmit(packet(1), true);
  set("delay=3s tx; drop rx");
  send(4, 4);
  EXPECT_THAT(faults.report(), HasSubstr("held back now: 5"));
  wait(0);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 2, 1));
  EXPECT_THAT(out.turned, IsEmpty());
  wait(3'000'000'000);
  EXPECT_THAT(psns(out.sent), ElementsAre(3, 2, 1, 4));
}

TEST_F(FaultsTest, ForgottenFramesAreLost) {
  set("delay=1s tx");
  send(1, 3);
  faults.forget();
  wait(2'000'000'000);
  EXPECT_THAT(out.sent, IsEmpty());
}

TEST_F(FaultsTest, FatalAtOnceAndAtAPacket) {
  set("fatal");
  EXPECT_THAT(out.codes, ElementsAre(TERN_FATAL_INTERNAL));
  send(1, 1);
  EXPECT_THAT(out.sent, IsEmpty()) << "a device that failed sends nothing";
  set("fatal=3 tx nth=2");
  EXPECT_EQ(out.codes.size(), 1U);
  send(1, 3);
  EXPECT_THAT(psns(out.sent), ElementsAre(1));
  EXPECT_THAT(out.codes, ElementsAre(TERN_FATAL_INTERNAL, TERN_FATAL_EQ_DMA));
  faults.forget();
  send(4, 4);
  EXPECT_THAT(psns(out.sent), ElementsAre(1, 4));
}

// ---- commands and memory ----

TEST_F(FaultsTest, SwallowsCommands) {
  set("admin-drop opcode=create-qp nth=2");
  EXPECT_FALSE(faults.swallows(TERN_CMD_CREATE_QP));
  EXPECT_FALSE(faults.swallows(TERN_CMD_NOP));
  EXPECT_TRUE(faults.swallows(TERN_CMD_CREATE_QP));
  EXPECT_FALSE(faults.swallows(TERN_CMD_CREATE_QP));
  set("admin-drop count=1");
  EXPECT_TRUE(faults.swallows(TERN_CMD_NOP));
  EXPECT_FALSE(faults.swallows(TERN_CMD_NOP));
}

TEST_F(FaultsTest, RefusesMemory) {
  set("dma-error addr=0x2000-0x2fff");
  EXPECT_EQ(faults.reachable(0x1000, 0x800, true), 0x800U);
  EXPECT_EQ(faults.reachable(0x1000, 0x1800, true), 0x1000U);
  EXPECT_EQ(faults.reachable(0x2000, 1, false), 0U);
  EXPECT_EQ(faults.reachable(0x2fff, 1, true), 0U);
  EXPECT_EQ(faults.reachable(0x3000, 16, true), 16U);
  EXPECT_THAT(faults.report(), HasSubstr("matched 2, applied 2"));
  set("dma-error write nth=2");
  EXPECT_EQ(faults.reachable(0, 8, true), 8U);
  EXPECT_EQ(faults.reachable(0, 8, false), 8U);
  EXPECT_EQ(faults.reachable(0, 8, true), 0U);
  EXPECT_EQ(faults.reachable(0, 8, true), 8U);
}

}  // namespace
}  // namespace tern
