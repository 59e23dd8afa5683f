// SPDX-License-Identifier: GPL-2.0-or-later
// XDP programs of a few instructions, loaded by system calls: no compiler for BPF and no library is
// needed.
#ifndef BPF_H
#define BPF_H
#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace xdp {

// The EtherType of test frames (IEEE 802, local experimental).
constexpr std::uint16_t kTestType = 0x88b5;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void die(const std::string& what);

Fd create_map(bpf_map_type type, std::uint32_t value_size, std::uint32_t entries);
void update(const Fd& map, std::uint32_t key, const void* value);
// The sum over all processors of an entry of a map of one array of 8 bytes per processor.
std::uint64_t sum(const Fd& map, std::uint32_t key);

using Program = std::vector<bpf_insn>;
Program count_and_drop(const Fd& counters);  // all frames
Program reflect();                           // test frames go back to their sender
Program redirect(std::uint32_t ifindex);     // test frames go out of another interface
Program redirect_map(const Fd& map,
                     bool by_queue);  // test frames go to the entry of their queue, or to entry 0

// Attaches a program until the result is closed, and at the latest when the process ends.
struct Attached {
  Fd program;
  Fd link;
};
Attached attach(const Program& program, unsigned ifindex, bool fragments);

}  // namespace xdp
#endif
