// SPDX-License-Identifier: GPL-2.0-or-later
// apm: automatic path migration between two machines whose port has two IPv4 addresses each.
//
//   apm -s [-p PORT]             serve one client, then exit
//   apm -c HOST [-p PORT]        run the tests with the server on HOST
//
// A path goes between the addresses with the same prefix, kFirst or kSecond. It dies when a machine
// removes its address: the device no longer takes packets to it. Prints "ok apm/NAME" or "not ok
// apm/NAME - why" for each test.
#include <arpa/inet.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "end.h"
#include "program.h"
#include "tcp.h"

namespace guest {
namespace {

constexpr char kFirst[] = "10.77.0.";
constexpr char kSecond[] = "10.79.0.";
constexpr int kSoon = 30000;  // ms
constexpr std::uint8_t kAltTimeout = 15;
constexpr std::uint32_t kBytes = 1 << 16;
constexpr std::uint64_t kWord = kBytes;  // offset of the word for atomics
constexpr std::uint32_t kMessages = 200;

std::string text_of(const ibv_gid& gid) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
  return text;
}

// The RoCE v2 GID of an address with this prefix, when ib_core has it.
std::optional<ibv_gid_entry> find_gid(const Device& dev, const std::string& prefix) {
  ibv_gid_entry entry{};
  for (std::uint32_t i = 0; i < 64; i++) {
    if (ibv_query_gid_ex(dev.context(), 1, i, &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
        IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(entry.gid.raw)) &&
        text_of(entry.gid).starts_with(prefix)) {
      return entry;
    }
  }
  return std::nullopt;
}

ibv_gid_entry wait_gid(const Device& dev, const std::string& prefix) {
  for (int ms = 0; ms < kSoon; ms += 20) {
    if (const auto entry = find_gid(dev, prefix)) return *entry;
    usleep(20000);
  }
  fail("no GID of {}x", prefix);
}

// Removes or adds the address `gid` of the port's netdev.
void change_address(const char* how, const ibv_gid& gid) {
  std::string netdev;
  std::ifstream("/sys/class/infiniband/tern0/ports/1/gid_attrs/ndevs/0") >> netdev;
  const std::string command = std::format("ip address {} {}/24 dev {}", how, text_of(gid), netdev);
  require(std::system(command.c_str()) == 0, "{}", command);
}

// What an end has to know of the other one.
struct Peer {
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  ibv_gid first{};
  ibv_gid second{};
};

// One end of the connection, and the steps that both ends make together.
class Half {
 public:
  Half(const Device& dev, const Socket& socket)
      : dev_(dev),
        socket_(socket),
        cq_(create_cq(dev, 512)),
        end_(dev, {.memory = kBytes + 4096,
                   .recv_wr = 256,
                   .psn = 7,
                   .send_cq = cq_.get(),
                   .recv_cq = cq_.get()}) {
    const ibv_gid_entry first = wait_gid(dev, kFirst);
    const Peer self{.qpn = qp()->qp_num,
                    .rkey = memory().rkey(),
                    .address = memory().address(),
                    .first = first.gid,
                    .second = wait_gid(dev, kSecond).gid};
    socket_.write(&self, sizeof(self));
    require(socket_.read(&peer_, sizeof(peer_)), "the other end has closed");
    self_ = self;
    // About 1 s each for the first transmission and one retry.
    how_ = {.mtu = IBV_MTU_1024, .timeout = 16, .retry_cnt = 1};
    require_err(to_init(qp(), how_), 0, "INIT");
    require_err(to_rtr_by(first), 0, "RTR");
    require_err(to_rts(qp(), how_, 7), 0, "RTS");
    sync();
  }

  [[nodiscard]] ibv_qp* qp() const { return end_.qp(); }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] const Device& dev() const { return dev_; }
  [[nodiscard]] const Memory& memory() const { return end_.memory(); }
  [[nodiscard]] const Peer& self() const { return self_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }

  // Both ends get here.
  void sync() const {
    char byte = 1;
    socket_.write(&byte, 1);
    require(socket_.read(&byte, 1), "the other end has closed");
  }
  [[nodiscard]] ibv_ah_attr address(const std::string& prefix) const {
    ibv_ah_attr ah{};
    ah.is_global = 1;
    ah.port_num = 1;
    ah.grh.dgid = prefix == kFirst ? peer_.first : peer_.second;
    ah.grh.sgid_index = static_cast<std::uint8_t>(wait_gid(dev_, prefix).gid_index);
    ah.grh.hop_limit = 64;
    return ah;
  }
  [[nodiscard]] int load(const std::string& prefix, int more = 0) const {
    ibv_qp_attr attr{};
    attr.alt_ah_attr = address(prefix);
    attr.alt_port_num = 1;
    attr.alt_timeout = kAltTimeout;
    attr.path_mig_state = IBV_MIG_REARM;
    return ibv_modify_qp(qp(), &attr, IBV_QP_ALT_PATH | more);
  }
  [[nodiscard]] int request(ibv_mig_state state) const {
    ibv_qp_attr attr{};
    attr.path_mig_state = state;
    return ibv_modify_qp(qp(), &attr, IBV_QP_PATH_MIG_STATE);
  }
  [[nodiscard]] ibv_qp_attr query() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    constexpr int kMask =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_TIMEOUT;
    require_err(ibv_query_qp(qp(), &attr, kMask, &init), 0, "ibv_query_qp");
    return attr;
  }
  void require_path(const std::string& prefix) const {
    const ibv_gid& want = prefix == kFirst ? peer_.first : peer_.second;
    const ibv_qp_attr attr = query();
    require(std::memcmp(attr.ah_attr.grh.dgid.raw, want.raw, sizeof(want)) == 0,
            "the path leads to {}", text_of(attr.ah_attr.grh.dgid));
    require(attr.path_mig_state == IBV_MIG_MIGRATED, "state {}",
            static_cast<int>(attr.path_mig_state));
    require(attr.timeout == kAltTimeout, "timeout {}", attr.timeout);
  }
  // Loads the path at both ends; traffic of the client arms them.
  void arm(const std::string& prefix, bool client) {
    require_err(load(prefix, IBV_QP_PATH_MIG_STATE), 0, "load");
    sync();
    if (client) transfer(1);
    sync();
    const ibv_qp_attr attr = query();
    require(attr.path_mig_state == IBV_MIG_ARMED, "state {} after a message",
            static_cast<int>(attr.path_mig_state));
    sync();
  }
  void require_event(ibv_event_type type) const {
    require(dev_.wait_async(type, kSoon), "no {}", ibv_event_type_str(type));
  }

  // Posts `count` rounds: a WRITE of new bytes, a SEND that tells which, and a FETCH_ADD of 1.
  void transfer(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; i++) {
      const std::uint32_t at = (rounds_ % 16) * 4096;
      fill(memory().bytes().subspan(at, 4096), rounds_);
      Send write{.opcode = IBV_WR_RDMA_WRITE,
                 .sges = {memory().sge(at, 4096)},
                 .raddr = peer_.address + at,
                 .rkey = peer_.rkey};
      Send message{.opcode = IBV_WR_SEND_WITH_IMM, .sges = {memory().sge(at, 64)}, .imm = rounds_};
      Send add{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
               .sges = {memory().sge(kWord + 8, 8)},
               .raddr = peer_.address + kWord,
               .rkey = peer_.rkey,
               .compare_add = 1};
      for (const Send& s : {write, message, add}) require_err(post(qp(), Api::kPost, s), 0, "post");
      for (const ibv_wc& wc : poll(cq_.get(), 3, kSoon)) require_status(wc, 0, IBV_WC_SUCCESS);
      require(memory().load64(kWord + 8) == rounds_, "FETCH_ADD returned {}, not {}",
              memory().load64(kWord + 8), rounds_);
      rounds_++;
    }
  }
  // The server's part: checks that `count` messages came, once each and in order.
  void receive(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; i++) {
      const ibv_wc wc = poll(cq_.get(), 1, kSoon)[0];
      require(wc.status == IBV_WC_SUCCESS && ntohl(wc.imm_data) == rounds_,
              "message {}: status {}, number {}", rounds_, static_cast<int>(wc.status),
              ntohl(wc.imm_data));
      // The bytes stay until 16 more rounds, which need receives that are not posted yet.
      const auto wrong = mismatch(memory().bytes().subspan((rounds_ % 16) * 4096, 4096), rounds_);
      require(!wrong, "byte {} of round {}", wrong.value_or(0), rounds_);
      rounds_++;
      post_receive();
    }
  }
  void post_receive() { end_.recv(0, {kWord + 64, 64}); }

 private:
  int to_rtr_by(const ibv_gid_entry& entry) {
    const Device primary("tern0", static_cast<int>(entry.gid_index));
    return to_rtr(qp(), primary, how_, {.qpn = peer_.qpn, .psn = 7, .gid = peer_.first});
  }

  const Device& dev_;
  const Socket& socket_;
  CqPtr cq_;
  End end_;
  Connection how_;
  Peer self_;
  Peer peer_;
  std::uint32_t rounds_ = 0;
};

constexpr std::uint32_t kWindow = 8;  // receives of the server

// ---- both ends of each test ----

// The client alone.
void refusals(Half& end) {
  require((end.dev().attr().device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG) != 0, "no capability");
  require_err(end.request(IBV_MIG_MIGRATED), 0, "MIGRATED");
  require_err(end.request(IBV_MIG_REARM), EINVAL, "REARM without a path");
  require_err(end.request(IBV_MIG_ARMED), EINVAL, "ARMED");
  const auto load = [&](auto change) {
    ibv_qp_attr attr{};
    attr.alt_ah_attr = end.address(kSecond);
    attr.alt_port_num = 1;
    change(attr);
    return ibv_modify_qp(end.qp(), &attr, IBV_QP_ALT_PATH);
  };
  require_err(load([](ibv_qp_attr& a) { a.alt_port_num = a.alt_ah_attr.port_num = 2; }), EINVAL,
              "port 2");
  require_err(load([](ibv_qp_attr& a) { a.alt_port_num = 2; }), EINVAL, "two ports");
  require_err(load([](ibv_qp_attr& a) { a.alt_ah_attr.is_global = 0; }), EINVAL, "no GRH");
  require_err(load([](ibv_qp_attr& a) { a.alt_timeout = 32; }), EINVAL, "timeout");
  require_err(load([](ibv_qp_attr& a) { a.alt_pkey_index = 1; }), EINVAL, "P_Key index");
  require(load([](ibv_qp_attr& a) { a.alt_ah_attr.grh.sgid_index = 255; }) != 0,
          "a GID that is not there");
  const ibv_qp_attr attr = end.query();
  require(attr.alt_port_num == 0 && attr.path_mig_state == IBV_MIG_MIGRATED, "something changed");
}

void queries(Half& end) {
  require_err(end.load(kSecond), 0, "load");
  const ibv_qp_attr attr = end.query();
  require(attr.alt_port_num == 1 && attr.alt_timeout == kAltTimeout && attr.alt_pkey_index == 0 &&
              attr.alt_ah_attr.port_num == 1 && attr.alt_ah_attr.is_global == 1,
          "port {}, timeout {}", attr.alt_port_num, attr.alt_timeout);
  require(std::memcmp(attr.alt_ah_attr.grh.dgid.raw, end.peer().second.raw, 16) == 0, "GID");
  require(attr.path_mig_state == IBV_MIG_MIGRATED, "state {}",
          static_cast<int>(attr.path_mig_state));
}

// The server's first address goes while the client sends; both ends go to the second path.
void path_dies(Half& end, bool client) {
  end.arm(kSecond, client);
  if (client) {
    end.transfer(kMessages / 2);
    end.sync();
    end.transfer(kMessages / 2);
  } else {
    end.receive(1 + kMessages / 2);
    change_address("del", end.self().first);
    end.sync();
    end.receive(kMessages / 2);
  }
  end.require_event(IBV_EVENT_PATH_MIG);
  end.require_path(kSecond);
  end.sync();
  if (!client) change_address("add", end.self().first);
  end.sync();
}

// Back to the first path at the request of one end.
void on_request(Half& end, bool client, bool server_asks, const char* to) {
  end.arm(to, client);
  if (client != server_asks) require_err(end.request(IBV_MIG_MIGRATED), 0, "MIGRATED");
  end.sync();
  if (client) {
    end.transfer(kMessages);
  } else {
    end.receive(1 + kMessages);
  }
  end.require_event(IBV_EVENT_PATH_MIG);
  end.require_path(to);
  end.sync();
}

// The address of the client's alternate path is gone when the server's address goes.
void no_way_out(Half& end, bool client) {
  end.arm(kSecond, client);
  if (client) {
    change_address("del", end.self().second);
    end.sync();
    const Send write{.opcode = IBV_WR_RDMA_WRITE,
                     .sges = {end.memory().sge(0, 8)},
                     .raddr = end.peer().address,
                     .rkey = end.peer().rkey};
    require_err(post(end.qp(), Api::kPost, write), 0, "post");
    require_status(poll(end.cq(), 1, kSoon)[0], 0, IBV_WC_RETRY_EXC_ERR);
    end.require_event(IBV_EVENT_PATH_MIG_ERR);
    change_address("add", end.self().second);
  } else {
    end.receive(1);
    change_address("del", end.self().first);
    end.sync();
  }
  end.sync();
  if (!client) change_address("add", end.self().first);
  end.sync();
}

void run(const Socket& socket, bool client) {
  const Device dev("tern0", -1);
  Half end(dev, socket);
  if (!client) {
    for (std::uint32_t i = 0; i < kWindow; i++) end.post_receive();
  }
  end.sync();
  std::vector<Test> tests;
  if (client) tests = {{"refusals", [&] { refusals(end); }}, {"queries", [&] { queries(end); }}};
  tests.insert(tests.end(),
               {{"path-dies", [&] { path_dies(end, client); }},
                {"requested-by-the-client", [&] { on_request(end, client, false, kFirst); }},
                {"requested-by-the-server", [&] { on_request(end, client, true, kSecond); }},
                {"back-again", [&] { on_request(end, client, false, kFirst); }},
                {"no-way-out", [&] { no_way_out(end, client); }}});
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(
      argc, argv,
      {.group = "apm",
       .port = "18520",
       .run = [](const CommandLine& line) { run(tcp_connect(line.host, line.port), true); },
       .serve =
           [](const CommandLine& line) {
             set_group("apm-server");
             const Socket listener = tcp_listen(line.port);
             run(listener.accept(), false);
           }});
}
