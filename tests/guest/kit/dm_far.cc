// SPDX-License-Identifier: GPL-2.0-or-later
#include "dm_far.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "tcp.h"

namespace guest {

static_assert(std::is_trivially_copyable_v<Order> && std::is_trivially_copyable_v<Answer>);

Answer Server::run(const Order& order) {
  Answer answer;
  if (order.verb == Verb::kOpen) {
    auto end = std::make_unique<End>(dev_, order.spec);
    answer.end = next_;
    answer.address = end->address();
    ends_.emplace(next_++, std::move(end));
    return answer;
  }
  End& end = *ends_.at(order.end);
  const Patches patches = std::span(order.patches).first(order.count);
  switch (order.verb) {
    case Verb::kOpen:
      break;
    case Verb::kConnect:
      end.connect(order.other);
      break;
    case Verb::kPaint:
      end.space(order.kind).paint(order.value, patches);
      break;
    case Verb::kCheck:
      end.check(order.kind, order.value, patches);
      break;
    case Verb::kRecv:
      end.recv(order.value, std::span(order.pieces).first(order.count));
      break;
    case Verb::kPoll:
      answer.wc = poll(end.recv_cq(), 1).front();
      break;
    case Verb::kClose:
      ends_.erase(order.end);
      break;
  }
  return answer;
}

Answer Server::execute(const Order& order) {
  try {
    Answer answer = run(order);
    const std::string errors = take_destroy_errors();
    require(errors.empty(), "{}", errors);
    return answer;
  } catch (const std::exception& e) {
    Answer answer;
    answer.failed = true;
    std::snprintf(answer.text.data(), answer.text.size(), "%s", e.what());
    return answer;
  }
}

Answer Wire::call(const Order& order) {
  Answer answer = exchange(order);
  require(!answer.failed, "far end: {}", answer.text.data());
  return answer;
}

namespace {

class LocalWire final : public Wire {
 public:
  explicit LocalWire(Server& server) : server_(server) {}

 private:
  Answer exchange(const Order& order) override { return server_.execute(order); }

  Server& server_;
};

class TcpWire final : public Wire {
 public:
  explicit TcpWire(Socket socket) : socket_(std::move(socket)) {}

 private:
  Answer exchange(const Order& order) override {
    Answer answer;
    socket_.write(&order, sizeof(order));
    require(socket_.read(&answer, sizeof(answer)), "the far end has gone");
    return answer;
  }

  Socket socket_;
};

}  // namespace

std::unique_ptr<Wire> local_wire(Server& server) { return std::make_unique<LocalWire>(server); }

std::unique_ptr<Wire> tcp_wire(const std::string& host, const std::string& port) {
  return std::make_unique<TcpWire>(tcp_connect(host, port));
}

void serve(const std::string& device, int gid_index, const std::string& port) {
  const Socket client = tcp_listen(port).accept();
  const Device dev(device, gid_index);
  Server server(dev);
  Order order;
  while (client.read(&order, sizeof(order))) {
    const Answer answer = server.execute(order);
    client.write(&answer, sizeof(answer));
  }
}

FarEnd::FarEnd(Wire& wire, EndSpec spec) : wire_(wire) {
  Order open;
  open.verb = Verb::kOpen;
  open.spec = spec;
  open.spec.answers = true;
  const Answer answer = wire_.call(open);
  end_ = answer.end;
  address_ = answer.address;
}

FarEnd::~FarEnd() {
  try {
    wire_.call(order(Verb::kClose));
  } catch (const std::exception& e) {
    note_destroy(e.what(), EIO);
  }
}

Order FarEnd::order(Verb verb, std::uint64_t value) const {
  Order order;
  order.verb = verb;
  order.end = end_;
  order.value = value;
  return order;
}

void FarEnd::connect(const Endpoint& other) const {
  Order o = order(Verb::kConnect);
  o.other = other;
  wire_.call(o);
}

void FarEnd::bytes(Verb verb, Kind kind, std::uint64_t background, Patches patches) const {
  Order o = order(verb, background);
  o.kind = kind;
  require(patches.size() <= o.patches.size(), "too many patches");
  o.count = static_cast<std::uint32_t>(patches.size());
  std::ranges::copy(patches, o.patches.begin());
  wire_.call(o);
}

void FarEnd::paint(Kind kind, std::uint64_t background, Patches patches) const {
  bytes(Verb::kPaint, kind, background, patches);
}

void FarEnd::check(Kind kind, std::uint64_t background, Patches patches) const {
  bytes(Verb::kCheck, kind, background, patches);
}

void FarEnd::recv(std::uint64_t wr_id, Pieces pieces) const {
  Order o = order(Verb::kRecv, wr_id);
  require(pieces.size() <= o.pieces.size(), "too many pieces");
  o.count = static_cast<std::uint32_t>(pieces.size());
  std::ranges::copy(pieces, o.pieces.begin());
  wire_.call(o);
}

ibv_wc FarEnd::poll() const { return wire_.call(order(Verb::kPoll)).wc; }

namespace {

AhPtr create_ah(const Device& dev, const ibv_gid& gid) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid;
  attr.grh.sgid_index = dev.gid_index();
  attr.grh.hop_limit = 64;
  AhPtr ah(ibv_create_ah(dev.pd(), &attr));
  if (!ah) {
    fail_errno("ibv_create_ah");
  }
  return ah;
}

}  // namespace

Couple::Couple(const Device& dev, Wire& wire, EndSpec spec, std::optional<EndSpec> other)
    : near(dev, spec), far(wire, other.value_or(spec)) {
  if (spec.type == IBV_QPT_UD) {
    ah_ = create_ah(dev, far.address().endpoint.gid);
  }
  far.connect(near.address().endpoint);
  near.connect(far.address().endpoint);
}

Send Couple::request(ibv_wr_opcode opcode, Pieces here, const Piece& there) const {
  const auto kind = static_cast<std::size_t>(there.kind);
  Send send{.opcode = opcode, .sges = near.sges(here), .wr_id = 0x5e4d, .imm = 0x1badcafe};
  send.raddr = far.address().base[kind] + there.offset;
  send.rkey = far.address().rkey[kind];
  send.ah = ah_.get();
  send.remote_qpn = far.address().endpoint.qpn;
  send.remote_qkey = kQkey;
  send.srqn = far.address().srqn;
  return send;
}

void Couple::run(const Send& send, Api api, ibv_wc_status status) const {
  const int err = post(near.qp(), api, send);
  require(err == 0, "{}: {}", api_name(api), errno_name(err));
  require_status(poll(near.send_cq(), 1).front(), send.wr_id, status);
}

void Couple::recv(std::uint64_t wr_id, Piece piece) const {
  if (near.spec().type == IBV_QPT_UD) {
    piece.offset -= kGrh;
    piece.length += kGrh;
  }
  far.recv(wr_id, piece);
}

ibv_wc Couple::received(std::uint64_t wr_id, ibv_wc_status status) const {
  const ibv_wc wc = far.poll();
  require_status(wc, wr_id, status);
  return wc;
}

}  // namespace guest
