// SPDX-License-Identifier: GPL-2.0-or-later
// The whole daemon: its commands, metrics and captures, and eight adapters at work.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "commands.h"
#include "contention.h"
#include "control.h"
#include "daemon.h"
#include "fixture.h"
#include "metrics.h"
#include "sandbox.h"

namespace tern::daemon {
namespace {

using Json = nlohmann::ordered_json;
using test::Qp;
using testing::HasSubstr;

struct DaemonTest : AdapterFixture {
  static std::vector<Descriptor> files_of(Descriptor file) {
    std::vector<Descriptor> files;
    if (file) files.push_back(std::move(file));
    return files;
  }
  Json ask(const Json& request, Descriptor file = Descriptor()) {
    return Json::parse(run_command(parts, request.dump(), files_of(std::move(file))));
  }
  Json result(const Json& request, Descriptor file = Descriptor()) {
    const Json answer = ask(request, std::move(file));
    EXPECT_TRUE(answer.contains("result")) << answer;
    return answer.value("result", Json::object());
  }
  std::string error(const Json& request) { return ask(request).value("error", ""); }
};

TEST_F(DaemonTest, ListsWhatIsThere) {
  make(2);
  attach(1);
  const Json list = result({{"command", "list"}});
  ASSERT_EQ(list.at("adapters").size(), 2U);
  const Json& first = list.at("adapters").at(0);
  EXPECT_EQ(first.at("name"), "1");
  EXPECT_EQ(first.at("path"), path(1));
  EXPECT_EQ(first.at("mac"), "52:54:00:77:00:01");
  EXPECT_EQ(first.at("attached"), true);
  EXPECT_EQ(first.at("memory"), TestMachine::kMemory);
  EXPECT_EQ(first.at("port").at("link"), true);
  EXPECT_EQ(list.at("adapters").at(1).at("attached"), false);
}

TEST_F(DaemonTest, ChangesPortsAndLinks) {
  make(1);
  EXPECT_EQ(
      result(
          {{"command", "port"}, {"port", "1"}, {"properties", {{"rate", "10G"}, {"delay", "5us"}}}})
          .at("properties")
          .at("rate"),
      10'000'000'000U);
  EXPECT_EQ(fabric.ports()[0].policy().delay, 5000U);
  EXPECT_THAT(error({{"command", "port"}, {"port", "1"}, {"properties", {{"rate", "fast"}}}}),
              HasSubstr("rate"));
  EXPECT_THAT(error({{"command", "port"}, {"port", "1"}, {"properties", {{"speed", "1"}}}}),
              HasSubstr("no property"));
  EXPECT_THAT(error({{"command", "port"},
                     {"port", "1"},
                     {"properties", {{"red-max", "10K"}, {"red-min", "20K"}}}}),
              HasSubstr("less than"));
  EXPECT_EQ(fabric.ports()[0].policy().rate, 10'000'000'000U) << "a wrong change changes nothing";
  attach(1);
  result({{"command", "link"}, {"adapter", "1"}, {"up", false}});
  EXPECT_FALSE(fabric.ports()[0].link());
  result({{"command", "speed"}, {"adapter", "1"}, {"mbps", 500}});
}

TEST_F(DaemonTest, RefusesWhatItDoesNotUnderstand) {
  make(1);
  EXPECT_THAT(run_command(parts, "{", {}), HasSubstr("error"));
  EXPECT_THAT(run_command(parts, "[1]", {}), HasSubstr("error"));
  EXPECT_THAT(run_command(parts, "{\"command\":1}", {}), HasSubstr("error"));
  EXPECT_THAT(error({{"command", "dance"}}), HasSubstr("no command 'dance'"));
  EXPECT_THAT(error({{"command", "link"}, {"adapter", "9"}, {"up", true}}),
              HasSubstr("no adapter '9'"));
  EXPECT_NE(error({{"command", "link"}, {"adapter", "1"}, {"up", "yes"}}), "");
  for (const std::int64_t mbps : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 33})
    EXPECT_THAT(error({{"command", "speed"}, {"adapter", "1"}, {"mbps", mbps}}),
                HasSubstr("must be 1 to"));
  EXPECT_NE(error({{"command", "icrc"}, {"adapter", "1"}, {"mode", "maybe"}}), "");
  EXPECT_THAT(error({{"command", "faults"}, {"adapter", "1"}, {"rules", "explode"}}),
              HasSubstr("explode"));
}

TEST_F(DaemonTest, ADeepRequestIsRefused) {
  make(1);
  const std::string deep = std::string(32000, '[') + std::string(32000, ']');
  for (const std::string start :
       {R"({"command":"port","port":"1","properties":)",
        R"({"command":"uplink-add","text":"tap=t","index":1,"files":)", R"({"command":)"}) {
    EXPECT_LT(start.size() + deep.size(), Control::kMaxRequest);
    EXPECT_THAT(run_command(parts, start + deep + "}", {}), HasSubstr("nested too deeply"));
  }
  result({{"command", "list"}});
}

TEST_F(DaemonTest, CapturesBeginAndEnd) {
  make(1);
  TestMachine& m = attach(1);
  Qp x(m);
  Qp y(m);
  connect(x, y);
  const std::string file = dir + "/capture.pcap";
  result({{"command", "capture"}, {"adapter", "1"}},
         checked(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), file));
  exchange(x, y, 1);
  result({{"command", "capture"}, {"adapter", "1"}});
  const auto size = std::filesystem::file_size(file);
  EXPECT_GT(size, Qp::kBytes) << "looped back frames";
  std::uint32_t magic = 0;
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&magic), sizeof(magic));
  EXPECT_EQ(magic, 0xa1b23c4dU) << "nanoseconds";
  exchange(x, y, 2);
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

unsigned open_descriptors() {
  unsigned n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST_F(DaemonTest, OnlyRegularFilesThatCanBeWrittenAreCaptures) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  const Json begin = {{"command", "capture"}, {"adapter", "1"}};
  const std::string file = dir + "/capture.pcap";
  std::ofstream(file) << "what is there stays";
  const unsigned before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(
        ask(begin, checked(open(file.c_str(), O_RDONLY | O_CLOEXEC), file)).contains("error"));
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const Descriptor reader(ends[0]);
    EXPECT_TRUE(ask(begin, Descriptor(ends[1])).contains("error")) << "nobody reads it";
    EXPECT_TRUE(ask(begin, checked(open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full"))
                    .contains("error"));
    EXPECT_TRUE(
        ask(begin, checked(open(file.c_str(), O_PATH | O_CLOEXEC), file)).contains("error"));
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(std::filesystem::file_size(file), 19U);
  exchange(qa, qb, 1);
}

TEST_F(DaemonTest, ACaptureWhoseFileTakesNoMoreEnds) {
  make(1);
  TestMachine& m = attach(1);
  Qp x(m);
  Qp y(m);
  connect(x, y);
  constexpr std::int64_t kSize = 65536;
  const Descriptor file =
      checked(memfd_create("capture", MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd");
  ASSERT_EQ(ftruncate(file.get(), kSize), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
  testing::internal::CaptureStderr();
  result({{"command", "capture"}, {"adapter", "1"}}, Descriptor(dup(file.get())));
  exchange(x, y, 1);
  result({{"command", "capture"}, {"adapter", "1"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a capture ends: Operation not permitted"));
  exchange(x, y, 2);
}

TEST_F(DaemonTest, AnAdapterLogsItsEvents) {
  const std::string file = dir + "/events";
  make(1, ",events=" + file);
  {
    TestMachine& m = attach(1);
    Qp x(m);
    Qp y(m);
    connect(x, y);
    exchange(x, y, 1);
  }
  tern_log_header header{};
  const auto complete = [&] {
    tern_log_event event{};
    bool packet = false;
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char*>(&header), sizeof(header));
    while (in.read(reinterpret_cast<char*>(&event), sizeof(event))) {
      packet |= event.type == TERN_LOG_SENT;
      if (packet && event.type == TERN_LOG_CQE) return true;
    }
    return false;
  };
  EXPECT_TRUE(test::wait_until(complete)) << "written soon";
  EXPECT_STREQ(reinterpret_cast<const char*>(header.magic), TERN_LOG_MAGIC);
  EXPECT_STREQ(reinterpret_cast<const char*>(header.name), "1");
  EXPECT_EQ(header.clock, TERN_LOG_CLOCK_MONOTONIC);
  EXPECT_EQ(header.mac[5], 1);
}

TEST_F(DaemonTest, AnAdapterIsRemovedBySurprise) {
  make(1);
  TestMachine& m = attach(1);
  result({{"command", "removed"}, {"adapter", "1"}, {"on", true}});
  EXPECT_EQ(m.reg_read(TERN_REG_MAGIC), std::uint32_t{TERN_REG_GONE});
  std::uint32_t id = 0;
  EXPECT_EQ(m.client.read(Client::kConfig, 0, &id, 4), 0);
  EXPECT_EQ(id, UINT32_MAX);
  result({{"command", "removed"}, {"adapter", "1"}, {"on", false}});
  EXPECT_EQ(m.reg_read(TERN_REG_MAGIC), std::uint32_t{TERN_MAGIC});
  EXPECT_EQ(m.reg_read(TERN_REG_STATUS), std::uint32_t{TERN_STATUS_READY});
  m.set_bus_master(true);
  m.forget();
  m.bring_up();
}

TEST_F(DaemonTest, TheNextHypervisorGetsAnAdapterThatIsThere) {
  make(1);
  {
    const TestMachine m(path(1), 1);
    result({{"command", "removed"}, {"adapter", "1"}, {"on", true}});
  }
  ASSERT_TRUE(test::wait_until([&] { return !attached(1); }));
  TestMachine m(path(1), 1);
  EXPECT_EQ(m.reg_read(TERN_REG_MAGIC), std::uint32_t{TERN_MAGIC});
}

TEST_F(DaemonTest, MetricsHaveTheCountersOfEachAdapter) {
  make(2);
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  exchange(qa, qb, 1);
  const auto value = [&](const std::string& name, const std::string& who) {
    for (const auto& family : Metrics(parts).Collect()) {
      for (const auto& metric : family.metric) {
        if (family.name == name && metric.label.at(0).value == who)
          return metric.counter.value + metric.gauge.value;
      }
    }
    return -1.0;
  };
  EXPECT_EQ(value("tern_rx_write_requests_total", "2"), 5);
  EXPECT_EQ(value("tern_rx_write_requests_total", "1"), 0);
  EXPECT_GT(value("tern_tx_rdma_bytes_total", "1"), Qp::kBytes);
  EXPECT_EQ(value("tern_adapter_attached", "1"), 1);
  EXPECT_GT(value("tern_port_out_frames_total", "2"), 120);
  EXPECT_EQ(value("tern_out_of_sequence_total", "2"), 0);
}

// Anybody who reaches the port may ask as often as he likes.
TEST_F(DaemonTest, MetricsAreCollectedOnceInAWhile) {
  make(1);
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  const Metrics metrics(parts, kHour);
  const auto responds = [](const Metrics& m) {
    for (const auto& family : m.Collect())
      if (family.name == "tern_adapter_responds") return family.metric.at(0).gauge.value != 0;
    return false;
  };
  EXPECT_TRUE(responds(metrics));
  std::binary_semaphore go{0};
  auto stuck = adapter(1).post([&] { go.acquire(); });
  EXPECT_TRUE(responds(metrics)) << "it was asked";
  EXPECT_FALSE(responds(Metrics(parts)));
  go.release();
  EXPECT_TRUE(stuck.wait());
}

TEST_F(DaemonTest, EachMetricHasAHelpText) {
  make(1);
  attach(1);
  for (const auto& family : Metrics(parts).Collect()) EXPECT_NE(family.help, "") << family.name;
}

TEST_F(DaemonTest, AdaptersThatDoNotRespondAreAskedTogether) {
  make(3);
  std::atomic<bool> go = false;
  std::atomic<unsigned> waiting = 0;
  const auto wait = [&] {
    ++waiting;
    go.wait(false);
  };
  std::array tickets{adapter(1).post(wait), adapter(2).post(wait)};
  ASSERT_TRUE(test::wait_until([&] { return waiting == 2; }));
  const auto answers = ask_all(parts.adapters());
  go = true;
  go.notify_all();
  for (TaskQueue::Ticket& ticket : tickets) EXPECT_TRUE(ticket.wait());
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_FALSE(answers[0].responds);
  EXPECT_FALSE(answers[1].responds);
  EXPECT_TRUE(answers[2].responds) << "the others do not cost it its answer";
}

// ---- the sandbox ----

TEST(SandboxTest, AThreadThatComesLaterMeasuresItsTimes) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer makes calls that the filter refuses";
#endif
  const pid_t child = fork();
  if (child == 0) {
    enter_sandbox();
    runner::CpuTimes times;
    _exit(runner::open_thread_clock()->read(times) && times.ran != 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// ---- sockets ----

TEST(UnixSocketTest, AFileThatIsNoSocketStays) {
  const std::string file = testing::TempDir() + "ternd-file-" + std::to_string(getpid());
  std::ofstream(file) << "an image";
  try {
    (void)listen_at(file);
    ADD_FAILURE() << "it listens";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code().value(), EADDRINUSE);
  }
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
  std::filesystem::remove(file);
}

TEST(UnixSocketTest, ASocketThatNobodyListensOnIsReplaced) {
  const std::string path = testing::TempDir() + "ternd-stale-" + std::to_string(getpid());
  {
    const Descriptor old = listen_at(path);
  }
  const Descriptor now = listen_at(path);
  EXPECT_THROW((void)listen_at(path), std::system_error) << "somebody listens";
  EXPECT_TRUE(connect_to(path));
  std::filesystem::remove(path);
}

TEST(UnixSocketTest, UserAndGroupLimitWhoMayConnect) {
  const std::string path = testing::TempDir() + "ternd-rights-" + std::to_string(getpid());
  const auto mode = [&](const SocketRights& rights) {
    const Descriptor listener = listen_at(path, 0, rights);
    struct stat file{};
    EXPECT_EQ(stat(path.c_str(), &file), 0);
    EXPECT_EQ(file.st_uid, rights.user.value_or(geteuid()));
    EXPECT_EQ(file.st_gid, rights.group.value_or(getegid()));
    return file.st_mode & 0777U;
  };
  const mode_t old = umask(0);
  EXPECT_EQ(mode({}), 0777U);
  EXPECT_EQ(mode({.user = geteuid(), .group = std::nullopt}), 0600U);
  EXPECT_EQ(mode({.user = std::nullopt, .group = getegid()}), 0660U);
  EXPECT_EQ(mode({.user = geteuid(), .group = getegid()}), 0660U);
  umask(old);
  EXPECT_THROW((void)socket_rights("no such user", ""), std::invalid_argument);
  EXPECT_THROW((void)socket_rights("", "no such group"), std::invalid_argument);
  EXPECT_EQ(socket_rights("root", "").user, uid_t{0});
  EXPECT_FALSE(socket_rights("root", "").group);
  if (geteuid() != 0) return;
  constexpr uid_t kOther = 65534;
  const Descriptor listener = listen_at(path, 0, socket_rights("root", "root"));
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(kOther) != 0 || setuid(kOther) != 0) _exit(2);
    try {
      (void)connect_to(path);
    } catch (const std::system_error& e) {
      _exit(e.code().value() == EACCES ? 0 : 3);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::filesystem::remove(path);
}

// Of daemons that start at the same time, one gets the socket.
TEST(UnixSocketTest, TwoDaemonsDoNotRemoveEachOthers) {
  const std::string path = testing::TempDir() + "ternd-race-" + std::to_string(getpid());
  for (int round = 0; round < 30; ++round) {
    std::array<int, 2> go{};
    ASSERT_EQ(pipe2(go.data(), O_CLOEXEC), 0);
    std::array<pid_t, 3> children{};
    for (pid_t& child : children) {
      child = fork();
      if (child != 0) continue;
      close(go[1]);
      char c = 0;
      (void)!read(go[0], &c, 1);  // ends when the parent closes it
      try {
        const Descriptor listener = listen_at(path);
        pause();
      } catch (const std::system_error&) {
      }
      _exit(0);
    }
    close(go[0]);
    close(go[1]);
    // The losers end by themselves.
    for (std::size_t ended = 0; ended < children.size() - 1; ++ended) {
      const pid_t child = wait(nullptr);
      std::ranges::replace(children, child, 0);
    }
    EXPECT_NO_THROW((void)connect_to(path));
    for (const pid_t child : children) {
      if (child != 0) kill(child, SIGKILL);
    }
    wait(nullptr);
  }
  std::filesystem::remove(path);
}

TEST(TernctlTest, SaysThatAPathIsTooLong) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("ternctl");
  const std::string path = "/" + std::string(sizeof(sockaddr_un::sun_path), 'x');
  FILE* const out = popen((program + " adapter add " + path + " 2>&1").c_str(), "re");
  ASSERT_NE(out, nullptr);
  std::array<char, 512> text{};
  (void)!fread(text.data(), 1, text.size() - 1, out);
  const int status = pclose(out);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_THAT(text.data(), HasSubstr("ternctl: " + path + ": File name too long"));
}

// ---- the control socket ----

// Whether a process with these numbers gets an answer.
bool answers(Control& control, const std::string& path, uid_t uid, gid_t gid) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(gid) != 0 || setuid(uid) != 0) _exit(2);
    try {
      const Descriptor s = connect_to(path);
      char c = 0;
      const timeval limit{10, 0};
      setsockopt(s.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
      _exit(send(s.get(), "x\n", 2, MSG_NOSIGNAL) == 2 && recv(s.get(), &c, 1, 0) == 1 ? 0 : 1);
    } catch (const std::system_error&) {
      _exit(1);
    }
  }
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    control.serve();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(WEXITSTATUS(status), 2);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ControlTest, AnswersItsOwnerAndOneGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kOther = 65534;
  constexpr gid_t kMembers = 4711;
  constexpr gid_t kOthers = 4712;
  std::string dir = "/tmp/ternd-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  ASSERT_EQ(chmod(dir.c_str(), 0755), 0);
  const std::string path = dir + "/control";
  const auto handler = [](const std::string& request, const Control::Files&) { return request; };
  {
    Control control(path, std::nullopt, handler);
    EXPECT_TRUE(answers(control, path, 0, 0));
    EXPECT_FALSE(answers(control, path, kOther, kMembers));
    ASSERT_EQ(chmod(path.c_str(), 0777), 0);
    EXPECT_FALSE(answers(control, path, kOther, kMembers)) << "whatever the mode is";
  }
  Control control(path, kMembers, handler);
  EXPECT_TRUE(answers(control, path, 0, 0));
  EXPECT_TRUE(answers(control, path, kOther, kMembers));
  EXPECT_FALSE(answers(control, path, kOther, kOthers));
  std::filesystem::remove_all(dir);
}

TEST(ControlTest, WaitsForDescriptorsWithoutSpinning) {
  const std::string path = testing::TempDir() + "ternd-control-" + std::to_string(getpid());
  Control control(path, std::nullopt,
                  [](const std::string& request, const Control::Files&) { return request; });
  const Descriptor client = connect_to(path);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int again = control.serve();
  EXPECT_GT(again, 0);
  pollfd p{control.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0) << "the main loop would not sleep";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(send(client.get(), "x\n", 2, MSG_NOSIGNAL), 2);
  char c = 0;
  EXPECT_TRUE(test::wait_until([&] {
    control.serve();
    return recv(client.get(), &c, 1, MSG_DONTWAIT) == 1;
  }));
}

TEST(ControlTest, ServesSeveralClientsAndDropsBadOnes) {
  const std::string path = testing::TempDir() + "ternd-control-" + std::to_string(getpid());
  Control control(path, std::nullopt, [](const std::string& request, const Control::Files&) {
    return "<" + request + ">";
  });
  const Descriptor a = connect_to(path);
  const Descriptor b = connect_to(path);
  control.serve();
  const auto serve = [&control] {
    while (control.serve() == 0) {
    }
  };
  const auto say = [](const Descriptor& s, const std::string& text) {
    return send(s.get(), text.data(), text.size(), MSG_NOSIGNAL);
  };
  const auto hear = [](const Descriptor& s) {
    std::array<char, 256> data{};
    const ssize_t n = recv(s.get(), data.data(), data.size(), MSG_DONTWAIT);
    return std::string(data.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  };
  say(a, "one\ntwo\nth");
  say(b, "x\n");
  serve();
  EXPECT_EQ(hear(a), "<one>\n<two>\n");
  EXPECT_EQ(hear(b), "<x>\n");
  say(a, "ree\n");
  serve();
  EXPECT_EQ(hear(a), "<three>\n");
  // A line without end.
  const std::string much(4096, 'x');
  for (std::size_t sent = 0; sent <= Control::kMaxRequest + 4096; sent += much.size()) {
    say(a, much);
    serve();
  }
  char c;
  EXPECT_EQ(recv(a.get(), &c, 1, MSG_DONTWAIT), 0) << "dropped";
  say(b, "y\n");
  serve();
  EXPECT_EQ(hear(b), "<y>\n");
}

TEST(ControlTest, AnAnswerMayBeLongerThanTheSocketTakes) {
  const std::string path = testing::TempDir() + "ternd-control-" + std::to_string(getpid());
  const std::string list(std::size_t{3} << 20, 'x');
  Control control(path, std::nullopt, [&](const std::string& request, const Control::Files&) {
    return request == "list" ? list : request;
  });
  const Descriptor slow = connect_to(path);
  const Descriptor other = connect_to(path);
  const auto serve = [&control] {
    while (control.serve() == 0) {
    }
  };
  ASSERT_EQ(send(slow.get(), "list\nlast\n", 10, MSG_NOSIGNAL), 10);
  serve();
  ASSERT_EQ(send(other.get(), "x\n", 2, MSG_NOSIGNAL), 2);
  serve();
  char c = 0;
  EXPECT_EQ(recv(other.get(), &c, 1, MSG_DONTWAIT), 1) << "nobody waits for the slow one";
  std::string got;
  std::array<char, 65536> data{};
  EXPECT_TRUE(test::wait_until([&] {
    serve();
    const ssize_t n = recv(slow.get(), data.data(), data.size(), MSG_DONTWAIT);
    got.append(data.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return got.size() >= list.size() + 6;
  }));
  EXPECT_EQ(got, list + "\nlast\n");
}

TEST(ControlTest, NoClientKeepsOthersOut) {
  const std::string path = testing::TempDir() + "ternd-control-" + std::to_string(getpid());
  std::size_t handled = 0;
  Control control(path, std::nullopt,
                  [&handled](const std::string& request, const Control::Files&) {
                    ++handled;
                    return request;
                  });
  std::vector<Descriptor> idle;
  for (std::size_t i = 0; i < Control::kMaxClients; ++i) {
    idle.push_back(connect_to(path));
    control.serve();
  }
  std::this_thread::sleep_for(std::chrono::nanoseconds(Control::kIdle));
  const std::string many = "1\n2\n3\n4\n";
  ASSERT_EQ(send(idle.back().get(), many.data(), many.size(), MSG_NOSIGNAL), 8);
  const Descriptor other = connect_to(path);
  ASSERT_EQ(send(other.get(), "x\n", 2, MSG_NOSIGNAL), 2);
  char c = 0;
  while (recv(other.get(), &c, 1, MSG_DONTWAIT) != 1) {
    const std::size_t before = handled;
    control.serve();
    ASSERT_LE(handled, before + 1) << "one at a time: a signal may wait";
    ASSERT_LE(handled, many.size()) << "it was not served";
  }
  EXPECT_EQ(c, 'x');
  EXPECT_LT(handled, 5U) << "it had its turn before the last request of the other one";
  EXPECT_EQ(recv(idle.front().get(), &c, 1, MSG_DONTWAIT), 0) << "the one that was idle longest";
}

// Each of the clients has a request that waits for those before it.
TEST(ControlTest, NewClientsDoNotDropThoseThatWait) {
  const std::string path = testing::TempDir() + "ternd-control-" + std::to_string(getpid());
  Control control(path, std::nullopt,
                  [](const std::string& request, const Control::Files&) { return request; });
  std::vector<Descriptor> clients;
  for (std::size_t i = 0; i < Control::kMaxClients; ++i) {
    clients.push_back(connect_to(path));
    control.serve();
  }
  for (const Descriptor& client : clients) ASSERT_EQ(send(client.get(), "x\n", 2, MSG_NOSIGNAL), 2);
  std::vector<Descriptor> more;
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  path.copy(addr.sun_path, sizeof(addr.sun_path) - 1);
  for (int i = 0; i < 20; ++i) {
    Descriptor s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(s.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof(addr));
    more.push_back(std::move(s));
    control.serve();
  }
  char c = 0;
  for (const Descriptor& client : clients) EXPECT_EQ(recv(client.get(), &c, 1, MSG_DONTWAIT), 1);
}

// ---- many adapters ----

// Eight adapters in four pairs, each pair driven by a thread of its own, while another thread asks.
TEST_F(DaemonTest, EightAdaptersWorkAtATime) {
  make(8);
  std::deque<Qp> qps;
  for (unsigned id = 1; id <= 8; ++id) qps.emplace_back(attach(id));
  for (std::size_t i = 0; i < 8; i += 2) connect(qps[i], qps[i + 1]);
  std::atomic<bool> done = false;
  std::thread watcher([&] {
    while (!done) {
      EXPECT_EQ(result({{"command", "list"}}).at("adapters").size(), 8U);
      EXPECT_FALSE(Metrics(parts).Collect().empty());
      result({{"command", "port"}, {"port", "3"}, {"properties", {{"delay", "1us"}}}});
      result({{"command", "port"}, {"port", "3"}, {"properties", {{"delay", "0"}}}});
    }
  });
  std::vector<std::thread> drivers;
  for (std::size_t i = 0; i < 8; i += 2) {
    drivers.emplace_back([&, i] {
      for (unsigned round = 0; round < 5; ++round) {
        exchange(qps[i], qps[i + 1], round);
        exchange(qps[i + 1], qps[i], round + 100);
      }
    });
  }
  for (std::thread& t : drivers) t.join();
  done = true;
  watcher.join();
  for (const Port& port : fabric.ports())
    EXPECT_EQ(port.counters().out_discards, 0U) << port.name();
}

}  // namespace
}  // namespace tern::daemon
