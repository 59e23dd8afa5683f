// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of the program dmshare, by subject.
#pragma once

#include <string>
#include <vector>

#include "child.h"
#include "far.h"
#include "runner.h"

namespace guest {

// What the processes of the tests open: the program itself has no file of the device.
struct Where {
  std::string device;
  int gid_index;
  std::uint64_t size;  // max_dm_size

  [[nodiscard]] Device open() const { return {device, gid_index}; }
  // One of the device's own counts.
  [[nodiscard]] std::uint64_t count(const char* name) const;
  // Waits until a count is this: the kernel frees what a process left a moment after its end.
  void expect_count(const char* name, std::uint64_t expected) const;
  // A new process gets all of the device memory, and it is zero.
  void expect_all_free() const;
};

constexpr std::uint64_t kPage = 4096;

// The file's mappings beyond what it had before, which is the allocation's own.
Mapping mapping_of(const std::vector<Mapping>& before);
// Maps again what is mapped there already; nullptr, with the errno, when it is refused.
std::byte* map_again(const Device& dev, std::uint64_t offset, std::uint64_t length);

std::vector<Named> isolation_tests(const Where& where);
std::vector<Named> death_tests(const Where& where);
std::vector<Named> share_tests(const Where& where);

}  // namespace guest
