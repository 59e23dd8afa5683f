// SPDX-License-Identifier: GPL-2.0-or-later
#include "end.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace guest::bench {
namespace {

constexpr std::uint32_t kPage = 4096;
// Twice as many receives as messages in flight: a message is acknowledged before its receiver polls
// and posts the next receive.
constexpr std::uint32_t kSpare = 2;
// Steps between two checks for a message of the client.
constexpr unsigned kSteps = 2000;

EndSpec spec_of(const Job& job, ibv_cq* cq) {
  return {.memory = std::max(job.size * job.buffers, kPage),
          .send_wr = std::max(job.buffers, 64U),
          .recv_wr = kSpare * job.buffers,
          .send_sge = 1,
          .recv_sge = 1,
          .inline_data = 0,
          .psn = 0x1234,
          .send_cq = cq,
          .recv_cq = cq};
}

}  // namespace

End::End(const Device& dev, const Job& job)
    : job_(job),
      cq_(create_cq(dev, static_cast<int>((2 + kSpare) * job.buffers + 64))),
      end_(dev, spec_of(job, cq_.get())) {}

Address End::address() const {
  return {.endpoint = end_.endpoint(),
          .memory = memory().address(),
          .rkey = memory().rkey(),
          .mtu = end_.device().active_mtu()};
}

void End::connect(const Address& remote) {
  remote_ = remote;
  const Device& dev = end_.device();
  guest::connect(qp(), dev, {.mtu = std::min(dev.active_mtu(), remote.mtu)}, end_.endpoint(),
                 remote.endpoint);
  if (job_.part == Part::kSendBack || job_.part == Part::kTake) {
    for (std::uint32_t i = 0; i < kSpare * job_.buffers; ++i) post_recv(i % job_.buffers);
  }
}

void End::post_recv(std::uint32_t buffer) const {
  ibv_sge sge = memory().sge(std::uint64_t{buffer} * job_.size, job_.size);
  ibv_recv_wr wr{.wr_id = buffer, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (const int err = ibv_post_recv(qp(), &wr, &bad)) fail("ibv_post_recv: {}", errno_name(err));
}

ibv_send_wr End::request(ibv_wr_opcode opcode, std::uint32_t buffer, ibv_sge& sge) const {
  const std::uint64_t offset = std::uint64_t{buffer} * job_.size;
  sge = memory().sge(offset, job_.size);
  ibv_send_wr wr{};
  wr.wr_id = buffer;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic = {
        .remote_addr = remote_.memory + offset, .compare_add = 1, .swap = 0, .rkey = remote_.rkey};
  } else {
    wr.wr.rdma = {.remote_addr = remote_.memory + offset, .rkey = remote_.rkey};
  }
  return wr;
}

void End::post(ibv_send_wr& wr) const {
  ibv_send_wr* bad = nullptr;
  if (const int err = ibv_post_send(qp(), &wr, &bad)) fail("ibv_post_send: {}", errno_name(err));
}

int End::poll(ibv_wc* wcs, int num) const {
  const int n = ibv_poll_cq(cq_.get(), num, wcs);
  require(n >= 0, "ibv_poll_cq fails");
  for (int i = 0; i < n; ++i) {
    require(wcs[i].status == IBV_WC_SUCCESS, "a completion: {}", ibv_wc_status_str(wcs[i].status));
  }
  return n;
}

void End::step() {
  switch (job_.part) {
    case Part::kWriteBack:
      return write_back();
    case Part::kSendBack:
      return send_back();
    case Part::kTake:
      return take();
    default:
      return;
  }
}

void End::write_back() {
  ibv_wc wc{};
  poll(&wc, 1);
  const std::uint64_t number = memory().load64(kNumberAt);
  if (number == seen_) return;
  seen_ = number;
  memory().store64(kOwnAt, number);
  ibv_sge sge{};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 0, sge);
  sge.addr = memory().address(kOwnAt);
  post(wr);
}

void End::send_back() {
  ibv_wc wc{};
  if (poll(&wc, 1) == 0 || wc.opcode != IBV_WC_RECV) return;
  post_recv(0);
  ibv_sge sge{};
  ibv_send_wr wr = request(IBV_WR_SEND, 0, sge);
  post(wr);
}

void End::take() {
  std::array<ibv_wc, 16> wcs;
  const int n = poll(wcs.data(), static_cast<int>(wcs.size()));
  for (int i = 0; i < n; ++i)
    post_recv(static_cast<std::uint32_t>(wcs.at(static_cast<std::size_t>(i)).wr_id));
}

namespace {

class LocalPeer : public Peer {
 public:
  explicit LocalPeer(const Device& dev) : dev_(dev) {}
  void begin(End& end) override {
    other_ = std::make_unique<End>(dev_, end.job());
    end.connect(other_->address());
    other_->connect(end.address());
  }
  void step() override { other_->step(); }
  void finish() override { other_.reset(); }

 private:
  const Device& dev_;
  std::unique_ptr<End> other_;
};

class RemotePeer : public Peer {
 public:
  RemotePeer(const std::string& host, const std::string& port) : socket_(tcp_connect(host, port)) {}
  RemotePeer(const RemotePeer&) = delete;
  RemotePeer& operator=(const RemotePeer&) = delete;
  ~RemotePeer() override {
    try {
      const Job end{.part = Part::kEnd};
      socket_.write(&end, sizeof(end));
    } catch (const std::exception&) {
      // The server has gone first.
    }
  }
  void begin(End& end) override {
    const Address mine = end.address();
    Address theirs;
    socket_.write(&end.job(), sizeof(Job));
    socket_.write(&mine, sizeof(mine));
    require(socket_.read(&theirs, sizeof(theirs)), "the server has gone");
    end.connect(theirs);
    wait();
  }
  void finish() override {
    const char word = 0;
    socket_.write(&word, 1);
    wait();
  }

 private:
  // Waits until the server has reached the same point.
  void wait() const {
    char word = 0;
    require(socket_.read(&word, 1), "the server has gone");
  }
  Socket socket_;
};

void serve_job(const Device& dev, const Socket& socket, const Job& job) {
  const char word = 0;
  Address theirs;
  require(socket.read(&theirs, sizeof(theirs)), "the client has gone");
  End end(dev, job);
  const Address mine = end.address();
  end.connect(theirs);
  socket.write(&mine, sizeof(mine));
  socket.write(&word, 1);
  pollfd fd{.fd = socket.fd(), .events = POLLIN, .revents = 0};
  // An end without a part leaves the processor to its device.
  const int timeout = job.part == Part::kNothing ? -1 : 0;
  while (::poll(&fd, 1, timeout) == 0) {
    for (unsigned i = 0; i < kSteps; ++i) end.step();
  }
  char done = 0;
  require(socket.read(&done, 1), "the client has gone");
  socket.write(&word, 1);
}

}  // namespace

std::unique_ptr<Peer> local_peer(const Device& dev) { return std::make_unique<LocalPeer>(dev); }

std::unique_ptr<Peer> remote_peer(const std::string& host, const std::string& port) {
  return std::make_unique<RemotePeer>(host, port);
}

void serve(const Device& dev, const std::string& port) {
  const Socket listener = tcp_listen(port);
  const Socket socket = listener.accept();
  for (Job job; socket.read(&job, sizeof(job)) && job.part != Part::kEnd;)
    serve_job(dev, socket, job);
}

}  // namespace guest::bench
