// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of the program dmshare, by subject.
#pragma once

#include <string>
#include <vector>

#include "child.h"
#include "pair.h"
#include "program.h"

namespace guest {

// The device that the tests' processes open; the program itself does not keep it open.
struct Where {
  std::string device;
  int gid_index;
  std::uint64_t size;  // max_dm_size

  [[nodiscard]] Device open() const { return {device, gid_index}; }
  // Returns one of the device's object counts.
  [[nodiscard]] std::uint64_t count(const char* name) const;
  // Waits until a count has this value: the kernel frees a process's objects a moment after its
  // end.
  void expect_count(const char* name, std::uint64_t expected) const;
  // Checks that a new process can allocate all device memory and that it is zero.
  void expect_all_free() const;
};

constexpr std::uint64_t kPage = 4096;

// Returns the only device mapping that is not in `before`: the allocation's own.
Mapping mapping_of(const std::vector<Mapping>& before);
// Maps an offset of the device file once more. Returns nullptr and sets errno if it is refused.
std::byte* map_again(const Device& dev, std::uint64_t offset, std::uint64_t length);

std::vector<Test> isolation_tests(const Where& where);
std::vector<Test> death_tests(const Where& where);
std::vector<Test> share_tests(const Where& where);

}  // namespace guest
