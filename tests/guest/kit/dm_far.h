// SPDX-License-Identifier: GPL-2.0-or-later
// The responder's end: in this process, or on another machine over TCP.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "dm_end.h"

namespace guest {

enum class Verb : std::uint32_t { kOpen, kConnect, kPaint, kCheck, kRecv, kPoll, kClose };

// Sent over TCP as raw structures: both ends run the same program.
struct Order {
  Verb verb{};
  std::uint32_t end = 0;
  EndSpec spec;
  Endpoint other;
  Kind kind = Kind::kHost;
  std::uint32_t count = 0;
  std::uint64_t value = 0;  // background of the memory, or a wr_id
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

// Executes orders on its ends, which exist until they are closed or the server is destroyed.
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

// Carries orders to a server.
class Wire {
 public:
  virtual ~Wire() = default;
  // Returns the answer. Throws a Failure if the order failed at the other end.
  Answer call(const Order& order);

 private:
  virtual Answer exchange(const Order& order) = 0;
};

std::unique_ptr<Wire> local_wire(Server& server);
std::unique_ptr<Wire> tcp_wire(const std::string& host, const std::string& port);
// Opens a device and serves one client.
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
  // Returns the next receive completion.
  [[nodiscard]] ibv_wc poll() const;

 private:
  [[nodiscard]] Order order(Verb verb, std::uint64_t value = 0) const;
  void bytes(Verb verb, Kind kind, std::uint64_t background, Patches patches) const;

  Wire& wire_;
  std::uint32_t end_ = 0;
  Address address_;
};

// Two connected ends, and the requests of the near end to the far end.
class Couple {
 public:
  Couple(const Device& dev, Wire& wire, EndSpec spec = {}, std::optional<EndSpec> other = {});

  End near;
  FarEnd far;

  // Builds a request from these pieces here and this piece there.
  [[nodiscard]] Send request(ibv_wr_opcode opcode, Pieces here, const Piece& there) const;
  [[nodiscard]] Send request(ibv_wr_opcode opcode, const Piece& here, const Piece& there) const {
    return request(opcode, {&here, 1}, there);
  }
  // Posts the request and checks the status of its completion.
  void run(const Send& send, Api api = Api::kPost, ibv_wc_status status = IBV_WC_SUCCESS) const;
  // Posts a receive at the far end, and returns its completion.
  void recv(std::uint64_t wr_id, Piece piece) const;
  ibv_wc received(std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS) const;

 private:
  AhPtr ah_;
};

}  // namespace guest
