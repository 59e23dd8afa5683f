// SPDX-License-Identifier: GPL-2.0-or-later
// The admin commands: the input and reply of each, and the functions that execute them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "control/registry.h"
#include "memory/memory.h"
#include "tern_hw.hpp"

namespace tern {

class Admin;
class Device;

// The reply of a command that succeeds.
class Reply {
 public:
  template <class T>
  void set(const T& value) {
    static_assert(sizeof(T) <= kMax);
    std::memcpy(bytes_.data(), &value, sizeof(T));
    size_ = sizeof(T);
  }
  void set_id(std::uint32_t id, std::uint32_t generation = 0) {
    set(tern_rsp_object{le(id), le(generation)});
  }
  // The command completes, and the reply is valid, only once this part of device memory is zeroed.
  void when_clear(std::uint32_t dmn) { dmn_ = dmn; }
  [[nodiscard]] std::uint32_t clearing() const { return dmn_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  static constexpr std::size_t kMax = 512;
  std::array<std::byte, kMax> bytes_;
  std::size_t size_ = 0;
  std::uint32_t dmn_ = 0;
};

// Bytes of an input structure that must be zero.
struct Reserved {
  std::uint16_t offset;
  std::uint16_t len;
};

struct Command {
  bool known = false;
  std::uint16_t in_size = 0;   // minimum input, bytes
  std::uint16_t out_size = 0;  // maximum reply, bytes
  std::span<const Reserved> reserved;
  // `in` has in_size bytes.
  Status (*run)(Admin& admin, Device& device, const std::byte* in, Reply& reply) = nullptr;
  std::uint64_t needs = 0;  // TERN_CAP_*, at least one of them; 0: none
};

// Returns the command with this opcode, null if there is none.
[[nodiscard]] const Command* find_command(std::uint16_t opcode);

// Returns whether reserved bytes and bytes past the structure are zero. `in` has in_size bytes or
// more.
[[nodiscard]] bool is_clean(const Command& command, std::span<const std::byte> in);

// The commands. The caller has checked reserved bytes; a command checks everything else. They
// return TERN_ST_*.
namespace commands {

// The objects that a QP refers to; null if its type has none.
struct QpParents {
  Registry::Pd* pd = nullptr;
  Registry::Xrcd* xrcd = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
};
// Check a command without the objects that it refers to; find those objects.
[[nodiscard]] Status check_qp(const tern_cmd_create_qp& cmd);
[[nodiscard]] Status check_srq(const tern_cmd_create_srq& cmd, const Config& config);
[[nodiscard]] Status find_qp_parents(const Registry& registry, const tern_cmd_create_qp& cmd,
                                     QpParents& p);

struct None {};  // no input

// The number of the object that a command refers to.
inline std::uint32_t id_of(const tern_cmd_object& cmd) { return le(std::uint32_t{cmd.id}); }

Status nop(Admin&, Device&, const None&, Reply&);

Status query_caps(Admin&, Device&, const None&, Reply&);
Status query_objects(Admin&, Device&, const None&, Reply&);
Status query_counters(Admin&, Device&, const tern_cmd_query_counters&, Reply&);
Status query_port(Admin&, Device&, const tern_cmd_query_port&, Reply&);
Status modify_port(Admin&, Device&, const tern_cmd_modify_port&, Reply&);
Status set_gid(Admin&, Device&, const tern_cmd_set_gid&, Reply&);

Status query_cc(Admin&, Device&, const tern_cmd_query_port&, Reply&);
Status set_cc(Admin&, Device&, const tern_cmd_set_cc&, Reply&);

Status alloc_uar(Admin&, Device&, const None&, Reply&);
Status free_uar(Admin&, Device&, const tern_cmd_object&, Reply&);
Status alloc_pd(Admin&, Device&, const tern_cmd_alloc_pd&, Reply&);
Status free_pd(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_eq(Admin&, Device&, const tern_cmd_create_eq&, Reply&);
Status destroy_eq(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_cq(Admin&, Device&, const tern_cmd_create_cq&, Reply&);
Status destroy_cq(Admin&, Device&, const tern_cmd_object&, Reply&);
Status resize_cq(Admin&, Device&, const tern_cmd_resize_cq&, Reply&);
Status modify_cq(Admin&, Device&, const tern_cmd_modify_cq&, Reply&);
Status query_cq(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_mr(Admin&, Device&, const tern_cmd_create_mr&, Reply&);
Status destroy_mr(Admin&, Device&, const tern_cmd_object&, Reply&);
Status rereg_mr(Admin&, Device&, const tern_cmd_rereg_mr&, Reply&);
Status update_pages(Admin&, Device&, const tern_cmd_update_pages&, Reply&);
Status query_mr(Admin&, Device&, const tern_cmd_object&, Reply&);
Status alloc_mw(Admin&, Device&, const tern_cmd_alloc_mw&, Reply&);
Status free_mw(Admin&, Device&, const tern_cmd_object&, Reply&);
Status alloc_dm(Admin&, Device&, const tern_cmd_alloc_dm&, Reply&);
Status free_dm(Admin&, Device&, const tern_cmd_object&, Reply&);
Status map_dm_op(Admin&, Device&, const tern_cmd_map_dm_op&, Reply&);

Status create_qp(Admin&, Device&, const tern_cmd_create_qp&, Reply&);
Status destroy_qp(Admin&, Device&, const tern_cmd_object&, Reply&);
Status modify_qp(Admin&, Device&, const tern_cmd_modify_qp&, Reply&);
Status resume_qp(Admin&, Device&, const tern_cmd_resume_qp&, Reply&);
Status query_qp(Admin&, Device&, const tern_cmd_object&, Reply&);

Status alloc_xrcd(Admin&, Device&, const None&, Reply&);
Status free_xrcd(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_srq(Admin&, Device&, const tern_cmd_create_srq&, Reply&);
Status destroy_srq(Admin&, Device&, const tern_cmd_object&, Reply&);
Status modify_srq(Admin&, Device&, const tern_cmd_modify_srq&, Reply&);
Status query_srq(Admin&, Device&, const tern_cmd_object&, Reply&);

Status attach_mcast(Admin&, Device&, const tern_cmd_mcast&, Reply&);
Status detach_mcast(Admin&, Device&, const tern_cmd_mcast&, Reply&);

Status create_eth_queue(Admin&, Device&, const tern_cmd_create_eth_queue&, Reply&);
Status destroy_eth_queue(Admin&, Device&, const tern_cmd_object&, Reply&);
Status set_rx_filter(Admin&, Device&, const tern_cmd_set_rx_filter&, Reply&);
Status set_rx_default(Admin&, Device&, const tern_cmd_set_rx_default&, Reply&);
Status create_rss(Admin&, Device&, const tern_cmd_rss&, Reply&);
Status modify_rss(Admin&, Device&, const tern_cmd_rss&, Reply&);
Status destroy_rss(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_flow(Admin&, Device&, const tern_cmd_create_flow&, Reply&);
Status destroy_flow(Admin&, Device&, const tern_cmd_object&, Reply&);
Status create_flow_counter(Admin&, Device&, const None&, Reply&);
Status query_flow_counter(Admin&, Device&, const tern_cmd_object&, Reply&);
Status destroy_flow_counter(Admin&, Device&, const tern_cmd_object&, Reply&);

Status create_counter_set(Admin&, Device&, const None&, Reply&);
Status destroy_counter_set(Admin&, Device&, const tern_cmd_object&, Reply&);
Status query_counter_set(Admin&, Device&, const tern_cmd_object&, Reply&);
Status bind_counter_set(Admin&, Device&, const tern_cmd_bind_counter_set&, Reply&);
Status create_comp_cntr(Admin&, Device&, const tern_cmd_create_comp_cntr&, Reply&);
Status destroy_comp_cntr(Admin&, Device&, const tern_cmd_object&, Reply&);
Status modify_comp_cntr(Admin&, Device&, const tern_cmd_modify_comp_cntr&, Reply&);
Status attach_comp_cntr(Admin&, Device&, const tern_cmd_attach_comp_cntr&, Reply&);

}  // namespace commands

}  // namespace tern
