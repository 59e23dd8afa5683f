// SPDX-License-Identifier: GPL-2.0-or-later
#include "faults/rule.h"

#include <gtest/gtest.h>

#include <string>

#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {
namespace {

std::string error_of(std::string_view text) {
  std::string error;
  EXPECT_FALSE(parse_faults(text, error)) << text;
  return error;
}

// Parses `text`, which is one rule.
FaultRule rule_of(std::string_view text) {
  std::string error;
  auto rules = parse_faults(text, error);
  EXPECT_TRUE(rules) << text << ": " << error;
  if (!rules || rules->size() != 1) {
    ADD_FAILURE() << text << " is not one rule";
    return {};
  }
  return (*rules)[0];
}

std::size_t byte_of(Transport transport, Op op) {
  return static_cast<std::size_t>(transport) | static_cast<std::size_t>(op);
}

TEST(FaultRule, NothingIsNoRules) {
  std::string error;
  for (const char* const text : {"", " ", ";;\n;", "# only said", "  # said; drop\n\t"}) {
    const auto rules = parse_faults(text, error);
    ASSERT_TRUE(rules) << text;
    EXPECT_TRUE(rules->empty()) << text;
  }
}

TEST(FaultRule, SeparatorsAndComments) {
  std::string error;
  const auto rules = parse_faults(
      "drop tx nth=3; mark rx\n# a line; drop\n  duplicate rx # two; drop tx\n;corrupt tx", error);
  ASSERT_TRUE(rules) << error;
  ASSERT_EQ(rules->size(), 4U);
  EXPECT_EQ((*rules)[0].text, "drop tx nth=3");
  EXPECT_EQ((*rules)[1].action, FaultRule::Action::kMark);
  EXPECT_EQ((*rules)[2].text, "duplicate rx");
  EXPECT_EQ((*rules)[3].action, FaultRule::Action::kCorrupt);
}

TEST(FaultRule, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"lose tx", "rule 1: no action 'lose'"},
      {"drop tx; lose rx", "rule 2: no action 'lose'"},
      {"drop", "drop needs tx or rx"},
      {"drop opcode=ack", "drop needs tx or rx"},
      {"mark", "mark needs tx or rx"},
      {"fatal opcode=ack", "fatal needs tx or rx"},
      {"drop=1 tx", "drop takes no value"},
      {"mark=1 tx", "mark takes no value"},
      {"admin-drop=1", "admin-drop takes no value"},
      {"dma-error=1", "dma-error takes no value"},
      {"drop tx rx", "tx and rx are two rules"},
      {"drop tx=1", "tx takes no value"},
      {"drop tx tx", "tx is there twice"},
      {"drop tx nth=1 nth=2", "nth is there twice"},
      {"drop tx colour=red", "drop knows no 'colour=red'"},
      {"drop tx addr=1", "drop knows no 'addr=1'"},
      {"drop tx sealed", "drop knows no 'sealed'"},
      {"drop tx after=1ms", "drop knows no 'after=1ms'"},
      {"admin-drop tx", "admin-drop knows no 'tx'"},
      {"admin-drop qp=1", "admin-drop knows no 'qp=1'"},
      {"dma-error opcode=1", "dma-error knows no 'opcode=1'"},
      {"duplicate=0 tx", "duplicate must be from 1 to 16"},
      {"duplicate=17 tx", "duplicate must be from 1 to 16"},
      {"duplicate= tx", "duplicate must be from 1 to 16"},
      {"duplicate tx after=0", "after must be from 1ns to 10s"},
      {"delay tx", "delay must be from 1ns to 10s"},
      {"delay=0 tx", "delay must be from 1ns to 10s"},
      {"delay=11s tx", "delay must be from 1ns to 10s"},
      {"delay=10000000001 tx", "delay must be from 1ns to 10s"},
      {"delay=99999999999999999999 tx", "delay must be from 1ns to 10s"},
      {"delay=5h tx", "delay must be from 1ns to 10s"},
      {"delay=ms tx", "delay must be from 1ns to 10s"},
      {"delay=-1 tx", "delay must be from 1ns to 10s"},
      {"reorder tx", "reorder must be from 1 to 1024"},
      {"reorder=0 tx", "reorder must be from 1 to 1024"},
      {"reorder=1025 tx", "reorder must be from 1 to 1024"},
      {"corrupt=head tx", "corrupt takes icrc, payload, psn, qp, opcode, any, or a bit"},
      {"corrupt=80001 tx", "corrupt takes icrc, payload, psn, qp, opcode, any, or a bit"},
      {"fatal=0", "fatal must be from 1 to 5"},
      {"fatal=6", "fatal must be from 1 to 5"},
      {"drop tx opcode=", "no opcode ''"},
      {"drop tx opcode=sned", "no opcode 'sned'"},
      {"drop tx opcode=ack|", "no opcode ''"},
      {"drop tx opcode=ack|nak", "no opcode 'nak'"},
      {"drop tx opcode=256", "no opcode '256'"},
      {"drop tx opcode=0x100", "no opcode '0x100'"},
      {"drop tx opcode=0x", "no opcode '0x'"},
      {"drop tx transport=rd", "transport must be rc, uc, ud, xrc or cnp"},
      {"drop tx transport=ud opcode=ack", "no packet has that opcode and that transport"},
      {"drop tx opcode=ack transport=ud", "no packet has that opcode and that transport"},
      {"drop tx qp=", "qp must be from 0 to 16777215"},
      {"drop tx qp=16777216", "qp must be from 0 to 16777215"},
      {"drop tx qp=0x1000000", "qp must be from 0 to 16777215"},
      {"drop tx psn=16777216", "psn must be from 0 to 16777215"},
      {"drop tx psn=1-", "psn must be from 0 to 16777215"},
      {"drop tx psn=-1", "psn must be from 0 to 16777215"},
      {"drop tx psn=1-16777216", "psn must be from 0 to 16777215"},
      {"drop tx syndrome=256", "syndrome must be ack, rnr, nak or from 0 to 255"},
      {"drop tx syndrome", "syndrome must be ack, rnr, nak or from 0 to 255"},
      {"drop tx nth=0", "nth must be from 1 to 1000000000000"},
      {"drop tx nth", "nth must be from 1 to 1000000000000"},
      {"drop tx every=0", "every must be from 1 to 1000000000000"},
      {"drop tx count=0", "count must be from 1 to 1000000000000"},
      {"drop tx nth=1000000000001", "nth must be from 1 to 1000000000000"},
      {"drop tx rate=1.1", "rate must be from 0 to 1"},
      {"drop tx rate=101%", "rate must be from 0 to 1"},
      {"drop tx rate=0.0000001", "rate must be from 0 to 1"},
      {"drop tx rate=.", "rate must be from 0 to 1"},
      {"drop tx rate=0.", "rate must be from 0 to 1"},
      {"drop tx rate=-1", "rate must be from 0 to 1"},
      {"drop tx rate=0x1", "rate must be from 0 to 1"},
      {"drop tx rate=0.1.1", "rate must be from 0 to 1"},
      {"drop tx rate=nan", "rate must be from 0 to 1"},
      {"drop tx rate=0.1 seed=x", "seed must be from 0 to 18446744073709551615"},
      {"drop tx seed=1", "seed goes with rate and corrupt=any"},
      {"drop tx nth=1 every=2", "of nth, every and rate there may be one"},
      {"drop tx nth=1 rate=0.1", "of nth, every and rate there may be one"},
      {"drop tx every=1 rate=0.1", "of nth, every and rate there may be one"},
      {"admin-drop opcode=make-qp", "no command 'make-qp'"},
      {"admin-drop opcode=0x10000", "no command '0x10000'"},
      {"dma-error addr=2-1", "addr must be an address, or FIRST-LAST"},
      {"dma-error addr=x", "addr must be an address, or FIRST-LAST"},
      {"dma-error addr=1-2-3", "addr must be an address, or FIRST-LAST"},
      {"dma-error read write", "read and write together are neither"},
      {"dma-error read=1", "dma-error knows no 'read=1'"},
  };
  for (const auto& [text, why] : rows) {
    EXPECT_NE(error_of(text).find(why), std::string::npos) << text << ": " << error_of(text);
  }
}

TEST(FaultRule, TextAndRulesAreBounded) {
  std::string many;
  for (std::size_t i = 0; i < kMaxFaultRules; ++i) many += "drop tx;";
  std::string error;
  EXPECT_TRUE(parse_faults(many, error));
  EXPECT_EQ(error_of(many + "drop rx"), "more than 64 rules");
  EXPECT_TRUE(parse_faults(std::string(kMaxFaultText, ' '), error));
  EXPECT_EQ(error_of(std::string(kMaxFaultText + 1, ' ')), "more than 8192 bytes of rules");
}

TEST(FaultRule, Limits) {
  EXPECT_EQ(rule_of("duplicate tx").amount, 1U);
  EXPECT_EQ(rule_of("duplicate=16 rx after=10s").amount, 16U);
  EXPECT_EQ(rule_of("duplicate=16 rx after=10s").after, 10'000'000'000U);
  EXPECT_EQ(rule_of("delay=7 tx").amount, 7U);
  EXPECT_EQ(rule_of("delay=7ns tx").amount, 7U);
  EXPECT_EQ(rule_of("delay=7us tx").amount, 7'000U);
  EXPECT_EQ(rule_of("delay=7ms tx").amount, 7'000'000U);
  EXPECT_EQ(rule_of("delay=10s tx").amount, 10'000'000'000U);
  EXPECT_EQ(rule_of("reorder=1024 tx").amount, 1024U);
  EXPECT_EQ(rule_of("fatal").amount, std::uint64_t{TERN_FATAL_INTERNAL});
  EXPECT_EQ(rule_of("fatal=1 tx").amount, std::uint64_t{TERN_FATAL_AQ_DMA});
  EXPECT_EQ(rule_of("drop tx qp=0xffffff").qpn, 0xffffffU);
  EXPECT_EQ(rule_of("drop tx nth=4").count, 1U);
  EXPECT_EQ(rule_of("drop tx nth=4 count=3").count, 3U);
  EXPECT_EQ(rule_of("drop tx rate=1").ppm, 1'000'000U);
  EXPECT_EQ(rule_of("drop tx rate=0.000001").ppm, 1U);
  EXPECT_EQ(rule_of("drop tx rate=0.5% seed=9").ppm, 5'000U);
  EXPECT_EQ(rule_of("drop tx rate=100%").ppm, 1'000'000U);
  EXPECT_EQ(rule_of("drop tx rate=0.5% seed=9").seed, 9U);
  EXPECT_EQ(rule_of("corrupt=80000 tx").bit, 80'000U);
  EXPECT_TRUE(rule_of("corrupt=psn tx sealed").sealed);
  const FaultRule psns = rule_of("drop tx psn=0xfffffe-1");
  ASSERT_TRUE(psns.psns);
  EXPECT_EQ(psns.psns->first, Psn(0xfffffe));
  EXPECT_EQ(psns.psns->second, Psn(1));
  const FaultRule memory = rule_of("dma-error addr=0x1000-0x1fff write every=2 count=5");
  EXPECT_EQ(memory.first_addr, 0x1000U);
  EXPECT_EQ(memory.last_addr, 0x1fffU);
  EXPECT_FALSE(memory.reads);
  EXPECT_TRUE(memory.writes);
}

TEST(FaultRule, OpcodesByName) {
  const auto one = [](const char* text, std::initializer_list<std::size_t> want) {
    std::bitset<256> set;
    for (const std::size_t b : want) set.set(b);
    EXPECT_EQ(rule_of(text).opcodes, set) << text;
  };
  one("drop tx opcode=ack", {0x11, 0xb1});
  one("drop tx opcode=ack transport=rc", {0x11});
  one("drop tx transport=xrc opcode=ack", {0xb1});
  one("drop tx opcode=17", {0x11});
  one("drop tx opcode=0xff", {0xff});
  one("drop tx opcode=cnp", {0x81});
  one("drop tx opcode=atomic transport=rc", {0x13, 0x14});
  one("drop tx opcode=read-response transport=rc", {0x0d, 0x0e, 0x0f, 0x10});
  one("drop tx opcode=write transport=uc", {0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b});
  one("drop tx opcode=send transport=ud", {0x64, 0x65});
  one("drop tx opcode=read-request|fetch-add transport=rc", {0x0c, 0x14});
  EXPECT_TRUE(rule_of("drop tx").opcodes.all());
  EXPECT_EQ(rule_of("drop tx transport=ud").opcodes.count(), 32U);
  // Each valid opcode of a class with named opcodes is either a request or a response.
  const auto requests = opcodes_named("request");
  const auto responses = opcodes_named("response");
  EXPECT_TRUE((requests & responses).none());
  for (const Transport c : {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc}) {
    for (unsigned op = 0; op < 32; ++op) {
      const OpTraits& t = traits(c, Op{static_cast<std::uint8_t>(op)});
      const std::size_t byte = byte_of(c, Op{static_cast<std::uint8_t>(op)});
      EXPECT_EQ(requests[byte], t.valid && t.request) << byte;
      EXPECT_EQ(responses[byte], t.valid && !t.request) << byte;
    }
  }
}

TEST(FaultRule, CommandsByName) {
  EXPECT_EQ(rule_of("admin-drop opcode=create-qp").command, TERN_CMD_CREATE_QP);
  EXPECT_EQ(rule_of("admin-drop opcode=0x42").command, TERN_CMD_SET_RX_FILTER);
  EXPECT_FALSE(rule_of("admin-drop nth=3").command);
}

}  // namespace
}  // namespace tern
