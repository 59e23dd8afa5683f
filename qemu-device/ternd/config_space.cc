// SPDX-License-Identifier: GPL-2.0-or-later
#include "config_space.h"

#include <linux/pci_regs.h>

#include <algorithm>

#include "tern_hw.hpp"

namespace tern::daemon {

namespace {

constexpr std::size_t kPm = 0x40;
constexpr std::size_t kExp = 0x48;
constexpr std::size_t kMsix = 0x84;
// Power management, version 3: D0 and D3hot, state kept in D3hot.
constexpr std::uint16_t kPmCapabilities = 3;
constexpr std::uint32_t kLinkWidth = 16;

}  // namespace

ConfigSpace::ConfigSpace(const Options& options) {
  set16(PCI_VENDOR_ID, TERN_PCI_VENDOR_ID);
  set16(PCI_DEVICE_ID, TERN_PCI_DEVICE_ID);
  set16(PCI_COMMAND, 0,
        PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR |
            PCI_COMMAND_INTX_DISABLE);
  set16(PCI_STATUS, PCI_STATUS_CAP_LIST, 0, 0xf900);
  set32(PCI_CLASS_REVISION, TERN_PCI_CLASS << 8 | TERN_PCI_REVISION);
  set16(PCI_CACHE_LINE_SIZE, 0, 0xff);
  set16(PCI_SUBSYSTEM_VENDOR_ID, TERN_PCI_VENDOR_ID);
  set16(PCI_SUBSYSTEM_ID, TERN_PCI_DEVICE_ID);
  set16(PCI_INTERRUPT_LINE, 0, 0xff);
  add_bar(TERN_BAR_REGS, TERN_BAR_REGS_SIZE, 0);
  add_bar(TERN_BAR_UAR, options.uar_size, PCI_BASE_ADDRESS_MEM_TYPE_64);
  if (options.dm_size != 0)
    add_bar(TERN_BAR_DM, options.dm_size,
            PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH);
  add_capabilities(options);
  initial_ = value_;
}

void ConfigSpace::set16(std::size_t at, std::uint16_t value, std::uint16_t writable,
                        std::uint16_t clearable) {
  for (std::size_t i = 0; i < 2; ++i) {
    value_[at + i] = static_cast<std::byte>(value >> (8 * i));
    writable_[at + i] = static_cast<std::byte>(writable >> (8 * i));
    clearable_[at + i] = static_cast<std::byte>(clearable >> (8 * i));
  }
}

void ConfigSpace::set32(std::size_t at, std::uint32_t value, std::uint32_t writable) {
  set16(at, static_cast<std::uint16_t>(value), static_cast<std::uint16_t>(writable));
  set16(at + 2, static_cast<std::uint16_t>(value >> 16),
        static_cast<std::uint16_t>(writable >> 16));
}

// The writable bits show the BAR's size.
void ConfigSpace::add_bar(unsigned index, std::uint64_t size, std::uint32_t flags) {
  const std::uint64_t mask = ~(size - 1);
  const std::size_t at = PCI_BASE_ADDRESS_0 + std::size_t{4} * index;
  set32(at, flags, static_cast<std::uint32_t>(mask));
  if ((flags & PCI_BASE_ADDRESS_MEM_TYPE_64) != 0)
    set32(at + 4, 0, static_cast<std::uint32_t>(mask >> 32));
}

void ConfigSpace::add_capabilities(const Options& options) {
  set16(PCI_CAPABILITY_LIST, kPm);
  set16(kPm, PCI_CAP_ID_PM | kExp << 8);
  set16(kPm + PCI_PM_PMC, kPmCapabilities);
  set16(kPm + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK);

  set16(kExp, PCI_CAP_ID_EXP | kMsix << 8);
  set16(kExp + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4);
  set32(kExp + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_FLR);
  set16(kExp + PCI_EXP_DEVCTL, 0, static_cast<std::uint16_t>(~PCI_EXP_DEVCTL_BCR_FLR));
  set16(kExp + PCI_EXP_DEVSTA, 0, 0, 0xf);
  set32(kExp + PCI_EXP_LNKCAP, options.link_speed | kLinkWidth << 4);
  set16(kExp + PCI_EXP_LNKCTL, 0,
        PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB | PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES);
  set16(kExp + PCI_EXP_LNKSTA, static_cast<std::uint16_t>(options.link_speed | kLinkWidth << 4));
  set16(kExp + PCI_EXP_DEVCTL2, 0, 0x1f);
  set32(kExp + PCI_EXP_LNKCAP2, ((1U << options.link_speed) - 1) << 1);
  set16(kExp + PCI_EXP_LNKCTL2, static_cast<std::uint16_t>(options.link_speed),
        PCI_EXP_LNKCTL2_TLS);

  set16(kMsix, PCI_CAP_ID_MSIX);
  set16(kMsix + PCI_MSIX_FLAGS, static_cast<std::uint16_t>(options.vectors - 1),
        PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
  set32(kMsix + PCI_MSIX_TABLE, TERN_MSIX_TABLE_OFFSET | TERN_BAR_REGS);
  set32(kMsix + PCI_MSIX_PBA, TERN_MSIX_PBA_OFFSET | TERN_BAR_REGS);
}

void ConfigSpace::read(std::size_t at, std::span<std::byte> to) const {
  std::ranges::copy(std::span(value_).subspan(at, to.size()), to.begin());
}

// The bits that this value changes. A power state that the function lacks is discarded.
std::byte ConfigSpace::writable(std::size_t at, std::byte value) const {
  constexpr std::byte kState{PCI_PM_CTRL_STATE_MASK};  // the value of D3hot, too
  const std::byte state = value & kState;
  const bool lacks = at == kPm + PCI_PM_CTRL && state != std::byte{} && state != kState;
  return lacks ? writable_[at] & ~kState : writable_[at];
}

bool ConfigSpace::write(std::size_t at, std::span<const std::byte> from) {
  constexpr std::size_t kFlr = kExp + PCI_EXP_DEVCTL + 1;
  bool flr = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::byte& byte = value_[at + i];
    const std::byte mask = writable(at + i, from[i]);
    byte = (byte & ~mask & ~(from[i] & clearable_[at + i])) | (from[i] & mask);
    flr |= at + i == kFlr && (from[i] & std::byte{PCI_EXP_DEVCTL_BCR_FLR >> 8}) != std::byte{};
  }
  return flr;
}

void ConfigSpace::reset() { value_ = initial_; }

void ConfigSpace::load(std::span<const std::byte, kSize> contents) {
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::byte mask = writable(i, contents[i]) | clearable_[i];
    value_[i] = (value_[i] & ~mask) | (contents[i] & mask);
  }
}

bool ConfigSpace::bus_master() const {
  return (value_[PCI_COMMAND] & std::byte{PCI_COMMAND_MASTER}) != std::byte{};
}

bool ConfigSpace::awake() const {
  return (value_[kPm + PCI_PM_CTRL] & std::byte{PCI_PM_CTRL_STATE_MASK}) == std::byte{};
}

}  // namespace tern::daemon
