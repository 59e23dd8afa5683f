// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet function of a port: transmit and receive queues, receive filter, RSS groups and
// flows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "core/list.h"
#include "core/table.h"
#include "eth/eth_queue.h"
#include "eth/rss_hash.h"
#include "eth/steering.h"
#include "eth/tx_poller.h"
#include "objects/queues.h"

namespace tern {

class Addresses;
class Context;
class UarPages;
class StoredFrame;
struct RxFrame;

class Ethernet {
 public:
  static constexpr std::uint16_t kMaxQueues = 16;  // of each direction
  static constexpr std::uint32_t kMaxRss = 64;     // groups

  Ethernet(Context& context, const Addresses& addresses);
  ~Ethernet();

  // ---- commands ----
  // The caller has checked reserved bytes; the rest is checked here. The UAR page, one of `uars`,
  // is allocated. `cq`: the CQ that the command refers to, null if it does not exist.
  [[nodiscard]] Status create_queue(const tern_cmd_create_eth_queue& cmd, Cq* cq, UarPages& uars,
                                    std::uint32_t* id);
  [[nodiscard]] Status destroy_queue(std::uint32_t id);
  [[nodiscard]] Status set_filter(const tern_cmd_set_rx_filter& cmd);
  [[nodiscard]] Status set_default(const tern_cmd_set_rx_default& cmd);
  [[nodiscard]] Status create_rss(const tern_cmd_rss& cmd, std::uint32_t* id);
  [[nodiscard]] Status modify_rss(const tern_cmd_rss& cmd);
  [[nodiscard]] Status destroy_rss(std::uint32_t id);
  [[nodiscard]] Status create_flow(const tern_cmd_create_flow& cmd, std::uint32_t* id);
  [[nodiscard]] Status destroy_flow(std::uint32_t id);
  void reset();
  // Saved state, while no packet is open. find_cq(number): null if there is none.
  void state(Archive& ar, const std::function<Cq*(std::uint32_t)>& find_cq, UarPages& uars);

  // Whether a flow or a group refers to the QP. Such a QP must not be destroyed.
  [[nodiscard]] bool refers_to_qp(std::uint32_t qpn) const;

  // ---- sending ----
  // TERN_DB_CMD_ETH_TX through page `uar`. Returns false if the page has no such transmit queue.
  [[nodiscard]] bool kick(std::uint32_t id, std::uint32_t uar);
  // Sends frames for about `budget` bytes.
  void run(std::uint32_t budget);
  [[nodiscard]] bool waiting() const { return !kicked_.empty(); }

  // The sender of a frame. A raw QP's frames to this port's own address are looped back instead of
  // sent; its frames to groups are both sent and looped back.
  struct Sender {
    std::uint32_t qpn = 0;  // 0: a transmit queue
    bool skip_self =
        false;  // its frames to groups do not come back to it (TERN_QP_F_NO_MCAST_LOOPBACK)
  };
  // Sends the frame in the first `bytes` bytes of `room`, which Effects::begin_frame() has just
  // returned and which has space for frames::kMinFrame. Pads and counts it. The frame is sent,
  // looped back, or both. If the port is not active it is lost, and counted as an error.
  void emit(std::span<std::byte> room, std::size_t bytes, const Sender& sender);

  // ---- receiving ----
  // Handles a frame that is not RoCE to this port: flows, filter, destination. Counters record the
  // outcome. A queue that coalesces may complete it as late as end_burst().
  void receive(std::span<const std::byte> frame);
  // Stores a train of TCP segments as a coalesced packet. Returns false if the caller must divide
  // it.
  [[nodiscard]] bool receive_train(const WireFrame& train);
  // Completes the packets to which frames may be added.
  void end_burst() {
    while (EthQueue* const q = opened_.front()) close(*q);
  }
  [[nodiscard]] bool sniffs() const { return steering.any(eth::Stage::kSniffer); }
  // Whether flows may take datagrams to QPs.
  [[nodiscard]] bool takes_datagrams() const { return steering.any(eth::Stage::kDatagram); }
  // Finds the flows of a datagram in a frame of `bytes` bytes, of which `headers` has the headers.
  [[nodiscard]] eth::Steering::Verdict steer_datagram(std::span<const std::byte> headers,
                                                      std::size_t bytes);
  // Gives a RoCE frame to this port to the sniffers.
  void sniff(std::span<const std::byte> frame) {
    if (sniffs()) [[unlikely]]
      show_sniffers(frame);
  }

  // Maximum of each direction.
  [[nodiscard]] std::uint16_t max_queues() const;
  [[nodiscard]] std::uint32_t queue_count() const { return queues_.count(); }
  [[nodiscard]] std::uint32_t rss_count() const { return groups_.count(); }

  TxPoller tx_poller;
  eth::Steering steering;  // counters are created and destroyed directly
  bool capture = false;    // looped back frames become captured frames

 private:
  // A group with its queues looked up.
  struct Group {
    explicit Group(const tern_cmd_rss& command) : cmd(command), toeplitz(command.key) {}
    tern_cmd_rss cmd;
    eth::Toeplitz toeplitz;
    std::array<EthQueue*, TERN_RSS_ENTRIES> queues{};  // of a group of receive queues
  };

  // Commands.
  [[nodiscard]] static Status check_queue(const tern_cmd_create_eth_queue& cmd);
  [[nodiscard]] std::unique_ptr<EthQueue> make_queue(const tern_cmd_create_eth_queue& cmd, Cq& cq);
  [[nodiscard]] Status check_flow(const tern_cmd_create_flow& cmd) const;
  void claim(std::uint32_t id, const tern_cmd_create_flow& cmd);
  void find_first_rx();
  void queues_state(Archive& ar, const std::function<Cq*(std::uint32_t)>& find_cq, UarPages& uars);
  void queue_state(Archive& ar, EthQueue& q, UarPages& uars);
  void large_state(Archive& ar, TxLarge& large) const;
  void groups_state(Archive& ar);
  [[nodiscard]] EthQueue* receive_queue(std::uint32_t id) const;
  [[nodiscard]] std::uint32_t count_of(std::uint8_t direction) const;
  [[nodiscard]] Status check_rss(const tern_cmd_rss& cmd) const;
  [[nodiscard]] Status resolve(Group& group) const;
  void refer(const Group& group, bool add);
  [[nodiscard]] bool is_destination(std::uint8_t dest, std::uint32_t id) const;
  [[nodiscard]] bool is_destination(const tern_cmd_create_flow& cmd) const;
  [[nodiscard]] bool claims(const tern_cmd_create_flow& cmd) const;

  // Sending: ethernet_tx.cc.
  enum class Took : std::uint8_t { kFrame, kNothing, kBroken };
  bool serve(EthQueue& q, std::uint32_t allowance, std::uint32_t& spent);
  [[nodiscard]] Took take(EthQueue& q, TxDescriptors& frame);
  std::uint32_t send(EthQueue& q, const TxDescriptors& frame);
  std::uint32_t send_plain(EthQueue& q, const TxDescriptors& frame);
  std::uint32_t send_whole(EthQueue& q, const TxDescriptors& frame,
                           const tern_eth_offload& offload);
  std::uint32_t begin_large(EthQueue& q, const TxDescriptors& frame,
                            const tern_eth_offload& offload);
  std::uint32_t send_segment(EthQueue& q);
  std::uint32_t send_train(EthQueue& q);
  [[nodiscard]] bool gather(const TxDescriptors& frame, std::size_t offset,
                            std::span<std::byte> to);
  void sent(EthQueue& q, std::uint8_t status);
  void count_sent(std::span<const std::byte> frame, std::size_t bytes, std::uint32_t number);
  [[nodiscard]] bool may_send(std::span<const std::byte> frame);
  [[nodiscard]] bool loop_back(std::span<const std::byte> frame, const Sender& sender);

  // Receiving: ethernet_rx.cc.
  [[nodiscard]] bool receives() const;
  [[nodiscard]] bool wanted(std::span<const std::byte> frame) const;
  [[nodiscard]] bool mac_wanted(const Mac& dst) const;
  void show_sniffers(std::span<const std::byte> frame);
  bool steer(RxFrame& frame, const Sender* sender);
  void to_default(RxFrame& frame, const Sender* sender);
  void give(const eth::Target& target, RxFrame& frame, const Sender* sender);
  void give_to_group(const Group& group, RxFrame& frame, const Sender* sender);
  void give_to_qp(std::uint32_t qpn, RxFrame& frame, const Sender* sender);
  [[nodiscard]] static std::uint32_t entry_of(const Group& group, RxFrame& frame);
  [[nodiscard]] EthQueue* queue_for_train(RxFrame& frame) const;
  void examine(RxFrame& frame);
  void count_received(RxFrame& frame);
  void count_received(std::span<const std::byte> frame, std::size_t bytes, std::uint32_t number);
  [[nodiscard]] bool find_buffers(EthQueue& q, std::size_t size, RxBuffers& buffers);
  [[nodiscard]] bool write(RxBuffers& buffers, std::span<const std::byte> bytes);
  [[nodiscard]] bool place(EthQueue& q, RxFrame& frame, RxBuffers& buffers, tern_cqe& cqe);
  void store(EthQueue& q, RxFrame& frame);
  // Coalescing.
  void coalesce(EthQueue& q, RxFrame& frame);
  [[nodiscard]] bool join(EthQueue& q, RxFrame& frame);
  [[nodiscard]] bool extend(EthQueue& q, RxBuffers& buffers, std::uint64_t size);
  [[nodiscard]] bool write_headers(RxOpen& open);
  void close(EthQueue& q);

  // Used by both directions.
  [[nodiscard]] bool read_pi(EthQueue& q);
  [[nodiscard]] std::size_t most_bytes() const;
  void complete(EthQueue& q, std::uint32_t index, tern_cqe& cqe);
  void fail(EthQueue& q, std::uint32_t index);
  void stop(EthQueue& q);

  Context& context_;
  const Addresses& addresses_;
  List<EthQueue> kicked_;
  List<EthQueue> opened_;  // receive queues with a packet to which frames may be added
  Table<EthQueue> queues_;
  bool trains_ = false;           // in this run()
  EthQueue* first_rx_ = nullptr;  // the receive queue with the lowest number
  tern_cmd_set_rx_filter filter_{};
  eth::Target default_;
  Table<Group> groups_;
  // Number of entries in groups of raw QPs that name a QP, by QP.
  std::map<std::uint32_t, std::uint32_t> qp_entries_;
  // Destination addresses that flows to raw QPs match in full: number of flows by address, and
  // address by flow.
  std::map<std::uint64_t, std::uint32_t> claims_;
  std::map<std::uint32_t, std::uint64_t> claim_of_;
};

}  // namespace tern
