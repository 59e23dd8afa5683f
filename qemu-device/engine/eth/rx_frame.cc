// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/rx_frame.h"

#include <isa-l/crc.h>

namespace tern {

void RxFrame::describe(tern_cqe& cqe, bool strip) const {
  cqe.opcode = TERN_ETH_RX;
  cqe.flags |= TERN_CQE_F_RECV;
  cqe.inv_rkey = le(hash.value);
  cqe.pkey_index = le(std::uint16_t{hash.type});
  cqe.src_qp = le(tag);
  if (checked.l3_ok) cqe.flags |= TERN_CQE_F_L3_OK;
  if (checked.l4_ok) cqe.flags |= TERN_CQE_F_L4_OK;
  if (strip && tagged()) {
    cqe.flags |= TERN_CQE_F_VLAN;
    cqe.vlan = le(frames::tci_of(bytes));
  }
}

StoredFrame::StoredFrame(const RxFrame& frame, bool strip, bool fcs) {
  if (strip && frame.tagged()) {
    add(frame.bytes.first(frames::kAddresses));
    add(frame.bytes.subspan(frames::kAddresses + frames::kTag));
  } else {
    add(frame.bytes);
  }
  if (!fcs) return;
  // IEEE 802.3, 3.2.9: the CRC's bytes follow in the order of the wire.
  const std::uint32_t crc = crc32_gzip_refl(
      0, reinterpret_cast<const unsigned char*>(frame.bytes.data()), frame.bytes.size());
  for (std::size_t i = 0; i < fcs_.size(); ++i) fcs_[i] = static_cast<std::byte>(crc >> (8 * i));
  add(fcs_);
}

void StoredFrame::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  pieces_[count_++] = bytes;
  size_ += bytes.size();
}

}  // namespace tern
