// SPDX-License-Identifier: GPL-2.0-or-later
#include "bpf.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace xdp {

namespace {

int bpf(bpf_cmd command, bpf_attr& attr) {
  return static_cast<int>(syscall(SYS_bpf, command, &attr, sizeof(attr)));
}

std::uint64_t pointer(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

bpf_insn insn(int code, int dst, int src, int off, int imm) {
  bpf_insn i{};
  i.code = static_cast<std::uint8_t>(code);
  i.dst_reg = static_cast<std::uint8_t>(dst) & 15;
  i.src_reg = static_cast<std::uint8_t>(src) & 15;
  i.off = static_cast<std::int16_t>(off);
  i.imm = imm;
  return i;
}
bpf_insn move(int dst, int src) { return insn(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0); }
bpf_insn set(int dst, int value) { return insn(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value); }
bpf_insn add(int dst, int value) { return insn(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value); }
bpf_insn load(int size, int dst, int src, int off) {
  return insn(BPF_LDX | BPF_MEM | size, dst, src, off, 0);
}
bpf_insn store(int size, int dst, int src, int off) {
  return insn(BPF_STX | BPF_MEM | size, dst, src, off, 0);
}
bpf_insn call(int helper) { return insn(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
bpf_insn leave() { return insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

void load_map(Program& p, int dst, const Fd& map) {
  p.push_back(insn(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, map.get()));
  p.push_back(insn(0, 0, 0, 0, 0));
}

// r6: the context, r7: the frame. `body` runs for test frames; others pass.
Program for_test_frames(const Program& body) {
  const int skip = static_cast<int>(body.size());
  Program p{
      move(6, 1),
      load(BPF_W, 7, 1, offsetof(xdp_md, data)),
      load(BPF_W, 3, 1, offsetof(xdp_md, data_end)),
      move(4, 7),
      add(4, 14),
      insn(BPF_JMP | BPF_JGT | BPF_X, 4, 3, skip + 2, 0),
      load(BPF_H, 5, 7, 12),
      insn(BPF_JMP | BPF_JNE | BPF_K, 5, 0, skip, htons(kTestType)),
  };
  p.insert(p.end(), body.begin(), body.end());
  p.push_back(set(0, XDP_PASS));
  p.push_back(leave());
  return p;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

void die(const std::string& what) {
  std::fprintf(stderr, "xdp: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

Fd create_map(bpf_map_type type, std::uint32_t value_size, std::uint32_t entries) {
  bpf_attr attr{};
  attr.map_type = type;
  attr.key_size = 4;
  attr.value_size = value_size;
  attr.max_entries = entries;
  Fd map(bpf(BPF_MAP_CREATE, attr));
  if (map.get() < 0) die("BPF_MAP_CREATE");
  return map;
}

void update(const Fd& map, std::uint32_t key, const void* value) {
  bpf_attr attr{};
  attr.map_fd = static_cast<std::uint32_t>(map.get());
  attr.key = pointer(&key);
  attr.value = pointer(value);
  if (bpf(BPF_MAP_UPDATE_ELEM, attr) != 0) die("BPF_MAP_UPDATE_ELEM");
}

std::uint64_t sum(const Fd& map, std::uint32_t key) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_CONF)));
  bpf_attr attr{};
  attr.map_fd = static_cast<std::uint32_t>(map.get());
  attr.key = pointer(&key);
  attr.value = pointer(values.data());
  if (bpf(BPF_MAP_LOOKUP_ELEM, attr) != 0) die("BPF_MAP_LOOKUP_ELEM");
  std::uint64_t total = 0;
  for (const std::uint64_t v : values) total += v;
  return total;
}

Program count_and_drop(const Fd& counters) {
  Program p{set(2, 0), store(BPF_W, 10, 2, -4), move(2, 10), add(2, -4)};
  load_map(p, 1, counters);
  const Program rest{
      call(BPF_FUNC_map_lookup_elem),
      insn(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3, 0),
      load(BPF_DW, 1, 0, 0),
      add(1, 1),
      store(BPF_DW, 0, 1, 0),
      set(0, XDP_DROP),
      leave(),
  };
  p.insert(p.end(), rest.begin(), rest.end());
  return p;
}

Program reflect() {
  Program body;
  for (int i = 0; i < 6; i += 2) {
    body.push_back(load(BPF_H, 2, 7, i));
    body.push_back(load(BPF_H, 3, 7, i + 6));
    body.push_back(store(BPF_H, 7, 3, i));
    body.push_back(store(BPF_H, 7, 2, i + 6));
  }
  body.push_back(set(0, XDP_TX));
  body.push_back(leave());
  return for_test_frames(body);
}

Program redirect(std::uint32_t ifindex) {
  return for_test_frames(
      {set(1, static_cast<int>(ifindex)), set(2, 0), call(BPF_FUNC_redirect), leave()});
}

Program redirect_map(const Fd& map, bool by_queue) {
  Program body{by_queue ? load(BPF_W, 2, 6, offsetof(xdp_md, rx_queue_index)) : set(2, 0)};
  load_map(body, 1, map);
  body.push_back(set(3, XDP_PASS));
  body.push_back(call(BPF_FUNC_redirect_map));
  body.push_back(leave());
  return for_test_frames(body);
}

Attached attach(const Program& program, unsigned ifindex, bool fragments) {
  static std::array<char, 65536> log;
  bpf_attr attr{};
  attr.prog_type = BPF_PROG_TYPE_XDP;
  attr.expected_attach_type = BPF_XDP;
  attr.insns = pointer(program.data());
  attr.insn_cnt = static_cast<std::uint32_t>(program.size());
  attr.license = pointer("GPL");
  attr.prog_flags = fragments ? BPF_F_XDP_HAS_FRAGS : 0;
  attr.log_buf = pointer(log.data());
  attr.log_size = log.size();
  attr.log_level = 1;
  Attached a{Fd(bpf(BPF_PROG_LOAD, attr)), Fd()};
  if (a.program.get() < 0) die(std::string("BPF_PROG_LOAD: ") + log.data());
  attr = {};
  attr.link_create.prog_fd = static_cast<std::uint32_t>(a.program.get());
  attr.link_create.target_ifindex = ifindex;
  attr.link_create.attach_type = BPF_XDP;
  attr.link_create.flags = XDP_FLAGS_DRV_MODE;
  a.link = Fd(bpf(BPF_LINK_CREATE, attr));
  if (a.link.get() < 0) die("BPF_LINK_CREATE");
  return a;
}

}  // namespace xdp
