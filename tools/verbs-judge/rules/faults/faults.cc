// SPDX-License-Identifier: GPL-2.0-or-later
// What a bad wire may change: nothing on RC, the number of messages on UC and UD.
#include <arpa/inet.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>

#include "rule.h"

extern char** environ;

namespace guest::faults {
namespace {

constexpr std::uint32_t kLength = 9000;  // several packets at any path MTU
constexpr int kRounds = 30;

// Rules of faults on the wire, by the caller's command, until the end of the scope.
class Wire {
 public:
  Wire(const Env& env, const std::string& rules) : command_(env.faults) {
    if (command_.empty()) skip("no --faults: nobody can spoil the wire");
    require(set(rules), "the command of --faults fails for '{}'", rules);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() { clear(); }
  void clear() const { note_destroy("clearing the faults", set("") ? 0 : EIO); }

 private:
  [[nodiscard]] bool set(const std::string& rules) const {
    std::string command = command_;
    std::string text = rules;
    std::array<char, 3> shell{"sh"};
    std::array<char, 3> option{"-c"};
    const std::array<char*, 6> argv{shell.data(), option.data(), command.data(),
                                    shell.data(), text.data(),   nullptr};
    pid_t pid = 0;
    if (::posix_spawnp(&pid, "sh", nullptr, nullptr, argv.data(), environ) != 0) return false;
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::string command_;
};

// Retransmits after about 0.27 s.
Connection patient() { return {.mtu = IBV_MTU_1024, .timeout = 16, .retry_cnt = 7}; }

PairOptions options() {
  PairOptions o;
  o.how = patient();
  return o;
}

void send(const Pair& pair, std::uint64_t seed) {
  pair.fill({0, kLength}, seed);
  pair.remote.post_recv(seed, {0, kLength});
  pair.run(pair.request(IBV_WR_SEND, kLength, 0, 0, seed));
  pair.expect_recv(seed);
  pair.remote.check({0, kLength}, seed);
}

void write(const Pair& pair, std::uint64_t seed) {
  pair.fill({0, kLength}, seed);
  pair.run(pair.request(IBV_WR_RDMA_WRITE, kLength, 0, 10000, seed));
  pair.remote.check({10000, kLength}, seed);
}

void read(const Pair& pair, std::uint64_t seed) {
  pair.remote.fill({20000, kLength}, seed);
  pair.run(pair.request(IBV_WR_RDMA_READ, kLength, 20000, 20000, seed));
  pair.check({20000, kLength}, seed);
}

// Each addition fetches the number of those before it: none is lost, none is executed twice.
void add(const Pair& pair, std::uint64_t before) {
  Send send = pair.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 30000, 32768, before);
  send.compare_add = 1;
  pair.run(send);
  require(pair.local.memory().load64(30000) == before, "addition {} fetches {}", before,
          pair.local.memory().load64(30000));
  require(pair.remote.load64(32768) == before + 1, "after {} additions the word is {}", before + 1,
          pair.remote.load64(32768));
}

void all_operations(const Pair& pair, std::uint64_t rounds) {
  pair.remote.store64(32768, 0);
  for (std::uint64_t i = 0; i < rounds; i++) {
    send(pair, 4 * i);
    write(pair, 4 * i + 1);
    read(pair, 4 * i + 2);
    add(pair, i);
  }
}

std::string both_ways(const std::string& action, const std::string& which) {
  return action + " tx transport=rc " + which + " seed=11; " + action + " rx transport=rc " +
         which + " seed=12";
}

void reliable(const Env& env, const std::string& rules) {
  const Pair pair(env, options());
  const Wire wire(env, rules);
  all_operations(pair, kRounds);
}

// The K-th packet of an opcode is lost, in either direction.
void lost_once(const Env& env, const std::string& opcode) {
  for (const char* way : {"tx", "rx"}) {
    const Pair pair(env, options());
    const Wire wire(env, std::string("drop ") + way + " opcode=" + opcode + " nth=2");
    all_operations(pair, 3);
  }
}

// Without an answer a request fails, and the connection can be made anew.
void all_lost(const Env& env) {
  PairOptions o = options();
  o.how.timeout = 14;
  o.how.retry_cnt = 2;
  Pair pair(env, o);
  {
    const Wire wire(env, "drop tx transport=rc; drop rx transport=rc");
    pair.run(pair.request(IBV_WR_RDMA_WRITE, 8), Api::kPost, IBV_WC_RETRY_EXC_ERR);
    require(state_of(pair.local.qp()) == IBV_QPS_ERR, "the QP is not in ERR");
  }
  require_err(to_state(pair.local.qp(), IBV_QPS_RESET), 0, "to RESET");
  pair.remote.to_state(IBV_QPS_RESET);
  pair.connect();
  pair.expect_traffic();
}

// Of messages on a type without retransmission, those that arrive are whole and in order. The last
// one is sent without faults and ends the test.
void unreliable(const Env& env, ibv_qp_type type, const std::string& rules) {
  constexpr std::uint32_t kMessages = 200;
  constexpr std::uint32_t kEnd = 0xffffffff;
  PairOptions o = alike({.type = type, .send_wr = 16, .recv_wr = kMessages + 1, .recv_cqe = 256});
  const Pair pair(env, o);
  const std::uint32_t length = type == IBV_QPT_UD ? 512 : 3 * 4096;
  const Range receive{0, length + pair.local.header()};
  for (std::uint32_t i = 0; i <= kMessages; i++) pair.remote.post_recv(i, receive);
  Send message = pair.request(IBV_WR_SEND_WITH_IMM, length);
  {
    const Wire wire(env, rules);
    for (message.imm = 0; message.imm < kMessages; message.imm++) {
      pair.fill({0, length}, 5);
      pair.run(message);
    }
  }
  message.imm = kEnd;
  pair.run(message);
  std::int64_t last = -1;
  for (std::uint32_t arrived = 0;; arrived++) {
    require(arrived <= kMessages, "more messages arrive than were sent");
    const ibv_wc wc = pair.remote.poll_recv(1).front();
    require_status(wc, arrived, IBV_WC_SUCCESS);
    require(wc.byte_len == receive.length, "a message of {} bytes arrives", wc.byte_len);
    const std::uint32_t number = ntohl(wc.imm_data);
    if (number == kEnd) break;
    require(static_cast<std::int64_t>(number) > last, "message {} arrives after message {}", number,
            last);
    last = number;
  }
  pair.remote.check({pair.local.header(), length}, 5);
}

}  // namespace

Rules all() {
  Rules rules;
  struct Spoiled {
    const char* name;
    const char* says;
    std::string rules;
  };
  const Spoiled spoiled[] = {
      {"loss", "lost packets", both_ways("drop", "rate=1%")},
      {"duplicates", "packets that arrive twice", both_ways("duplicate", "rate=5%")},
      {"late-duplicates", "packets that arrive again much later",
       both_ways("duplicate", "after=20ms rate=5%")},
      {"reordering", "packets that overtake others", both_ways("reorder=2", "rate=2%")},
      {"delay", "packets that arrive late", both_ways("delay=3ms", "rate=10%")},
      {"bit-errors", "packets with a wrong bit", both_ways("corrupt=any", "rate=1%")},
      {"marks", "marks of congestion", both_ways("mark", "rate=20%")},
      {"everything", "all of these together",
       both_ways("drop", "rate=0.5%") + "; " + both_ways("duplicate", "rate=1%") + "; " +
           both_ways("reorder=2", "rate=1%") + "; " + both_ways("corrupt=any", "rate=0.5%")},
  };
  for (const Spoiled& s : spoiled) {
    rules.push_back({std::string("rc-") + s.name,
                     std::string(s.says) + " change no data, and each atomic is executed once",
                     [text = s.rules](const Env& env) { reliable(env, text); }});
  }
  for (const char* opcode :
       {"send-first", "send-middle", "send-last", "write-first", "write-middle", "write-last",
        "read-request", "read-response-first", "read-response-middle", "read-response-last",
        "fetch-add", "atomic-ack", "ack"}) {
    rules.push_back({std::string("rc-lost-") + opcode,
                     std::string("a lost packet ") + opcode + " is made good",
                     [opcode](const Env& env) { lost_once(env, opcode); }});
  }
  rules.push_back({"rc-all-lost", "without any answer: IBV_WC_RETRY_EXC_ERR", all_lost});
  for (const auto& [type, name] : {std::pair{IBV_QPT_UC, "uc"}, std::pair{IBV_QPT_UD, "ud"}}) {
    const std::string transport = std::string(" transport=") + name;
    rules.push_back({std::string(name) + "-loss",
                     "what arrives in spite of losses is whole and in order",
                     [type = type, transport](const Env& env) {
                       unreliable(env, type, "drop tx rate=5% seed=3" + transport);
                     }});
    rules.push_back({std::string(name) + "-bit-errors",
                     "what arrives in spite of bit errors is whole and in order",
                     [type = type, transport](const Env& env) {
                       unreliable(env, type, "corrupt=any tx rate=5% seed=3" + transport);
                     }});
  }
  return rules;
}

}  // namespace guest::faults
