// SPDX-License-Identifier: GPL-2.0-or-later
// The end that answers: in this process, or on another machine behind TCP.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "end.h"

namespace guest {

enum class Verb : std::uint32_t { kOpen, kConnect, kPaint, kCheck, kRecv, kPoll, kClose };

// Both go over the wire as they stand: the two ends run the same program.
struct Order {
  Verb verb{};
  std::uint32_t end = 0;
  EndSpec spec;
  Endpoint other;
  Kind kind = Kind::kHost;
  std::uint32_t count = 0;
  std::uint64_t value = 0;  // a background, or a wr_id
  std::array<Patch, 4> patches{};
  std::array<Piece, 4> pieces{};
};

struct Answer {
  bool failed = false;
  std::array<char, 200> text{};
  std::uint32_t end = 0;
  Address address;
  ibv_wc wc{};
};

// Does what orders say, on ends that live until closed or this is gone.
class Server {
 public:
  explicit Server(const Device& dev) : dev_(dev) {}
  Answer execute(const Order& order);

 private:
  Answer run(const Order& order);

  const Device& dev_;
  std::map<std::uint32_t, std::unique_ptr<End>> ends_;
  std::uint32_t next_ = 1;
};

// How orders get to a server.
class Wire {
 public:
  virtual ~Wire() = default;
  // The answer; a failure at the other end is a Failure here.
  Answer call(const Order& order);

 private:
  virtual Answer exchange(const Order& order) = 0;
};

std::unique_ptr<Wire> local_wire(Server& server);
std::unique_ptr<Wire> tcp_wire(const std::string& host, const std::string& port);
// Serves one client on a device of its own.
void serve(const std::string& device, int gid_index, const std::string& port);

class FarEnd {
 public:
  FarEnd(Wire& wire, EndSpec spec);
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;
  ~FarEnd();

  [[nodiscard]] const Address& address() const { return address_; }
  void connect(const Endpoint& other) const;
  void paint(Kind kind, std::uint64_t background, Patches patches = {}) const;
  void check(Kind kind, std::uint64_t background, Patches patches = {}) const;
  void recv(std::uint64_t wr_id, Pieces pieces) const;
  void recv(std::uint64_t wr_id, const Piece& piece) const { recv(wr_id, {&piece, 1}); }
  // The next receive completion.
  [[nodiscard]] ibv_wc poll() const;

 private:
  [[nodiscard]] Order order(Verb verb, std::uint64_t value = 0) const;
  void bytes(Verb verb, Kind kind, std::uint64_t background, Patches patches) const;

  Wire& wire_;
  std::uint32_t end_ = 0;
  Address address_;
};

// Two connected ends, and how one asks the other.
class Couple {
 public:
  Couple(const Device& dev, Wire& wire, EndSpec spec = {}, std::optional<EndSpec> other = {});

  End near;
  FarEnd far;

  // A request of these pieces here on one piece there.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, Pieces here, const Piece& there) const;
  [[nodiscard]] Send request(ibv_wr_opcode opcode, const Piece& here, const Piece& there) const {
    return request(opcode, {&here, 1}, there);
  }
  // Posts it, and the completion has this status.
  void run(const Send& send, Api api = Api::kPost, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Post a receive for piece there, and what it completed with.
  void recv(std::uint64_t wr_id, Piece piece) const;
  ibv_wc received(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;

 private:
  AhPtr ah_;
};

}  // namespace guest
