// SPDX-License-Identifier: GPL-2.0-or-later
// rpma: writes, flushes, reads and sends with librpma, and compares every byte.
//	rpma ADDRESS PORT		serves one client
//	rpma ADDRESS PORT MIB		writes MIB MiB to that server; prints a rate
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <librpma.h>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kMessage = 64;

void must(int status, const char *what) {
  if (!status) return;
  fprintf(stderr, "rpma: %s: %s\n", what, rpma_err_2str(status));
  exit(1);
}
void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "rpma: %s\n", what);
  exit(1);
}

// A mebibyte of noise for each round; the same at both ends.
void fill(char *to, uint64_t round) {
  uint64_t x = 88172645463325252u + round;
  for (size_t i = 0; i < kMiB; i += sizeof(x)) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    memcpy(to + i, &x, sizeof(x));
  }
}

rpma_peer *peer;
rpma_conn *conn;
rpma_cq *cq;
alignas(4096) char data[kMiB], messages[2 * kMessage];
rpma_mr_local *data_mr, *messages_mr;

// wait(N): N completions, all good, of sends and receives alike.
void wait(int n, const char *what) {
  while (n > 0) {
    ibv_wc wc;
    const int status = rpma_cq_get_wc(cq, 1, &wc, nullptr);
    if (status == RPMA_E_NO_COMPLETION) {
      must(rpma_cq_wait(cq), "rpma_cq_wait");
      continue;
    }
    must(status, what);
    if (wc.status != IBV_WC_SUCCESS)
      fprintf(stderr, "rpma: %s: %s\n", what, ibv_wc_status_str(wc.status));
    check(wc.status == IBV_WC_SUCCESS, "a bad completion");
    n--;
  }
}
void receive() { must(rpma_recv(conn, messages_mr, 0, kMessage, nullptr), "rpma_recv"); }
void send(const char *text) {
  snprintf(messages + kMessage, kMessage, "%s", text);
  must(rpma_send(conn, messages_mr, kMessage, kMessage, RPMA_F_COMPLETION_ALWAYS, nullptr),
       "rpma_send");
}
void established(rpma_conn_req **request, const rpma_conn_private_data *pdata) {
  rpma_conn_event event;
  must(rpma_conn_req_connect(request, pdata, &conn), "rpma_conn_req_connect");
  must(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
  check(event == RPMA_CONN_ESTABLISHED, rpma_utils_conn_event_2str(event));
  must(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
}
void closed() {
  rpma_conn_event event;
  must(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
  check(event == RPMA_CONN_CLOSED, rpma_utils_conn_event_2str(event));
  must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
  must(rpma_conn_delete(&conn), "rpma_conn_delete");
}

void serve(const char *address, const char *port) {
  rpma_ep *ep;
  rpma_conn_req *request;
  char descriptor[256];
  size_t size;
  must(rpma_mr_get_descriptor_size(data_mr, &size), "rpma_mr_get_descriptor_size");
  check(size <= sizeof(descriptor), "the descriptor is too long");
  must(rpma_mr_get_descriptor(data_mr, descriptor), "rpma_mr_get_descriptor");
  rpma_conn_private_data pdata{descriptor, static_cast<uint8_t>(size)};
  must(rpma_ep_listen(peer, address, port, &ep), "rpma_ep_listen");
  must(rpma_ep_next_conn_req(ep, nullptr, &request), "rpma_ep_next_conn_req");
  must(rpma_conn_req_recv(request, messages_mr, 0, kMessage, nullptr), "rpma_conn_req_recv");
  established(&request, &pdata);
  std::vector<char> expected(kMiB);
  for (;;) {
    wait(1, "receive");
    uint64_t round = 0;
    char answer[kMessage] = "same";
    if (sscanf(messages, "compare %lu", &round) == 1) {
      fill(expected.data(), round);
      if (memcmp(data, expected.data(), kMiB)) strcpy(answer, "different");
    } else if (sscanf(messages, "fill %lu", &round) == 1) {
      fill(data, round);
    } else if (!strncmp(messages, "word", 4)) {
      snprintf(answer, sizeof(answer), "%.8s", data + 8);
    } else {
      break;
    }
    receive();
    send(answer);
    wait(1, "send");
  }
  closed();
  must(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
}

// One message there, and its answer.
std::string ask(const std::string &text) {
  receive();
  send(text.c_str());
  wait(2, "message");
  return messages;
}

void run(const char *address, const char *port, uint64_t mib) {
  rpma_conn_req *request;
  rpma_conn_private_data pdata;
  rpma_mr_remote *remote;
  must(rpma_conn_req_new(peer, address, port, nullptr, &request), "rpma_conn_req_new");
  established(&request, nullptr);
  must(rpma_conn_get_private_data(conn, &pdata), "rpma_conn_get_private_data");
  must(rpma_mr_remote_from_descriptor(pdata.ptr, pdata.len, &remote),
       "rpma_mr_remote_from_descriptor");

  double took = 0;
  for (uint64_t round = 1; round <= mib; round++) {
    fill(data, round);
    const auto began = std::chrono::steady_clock::now();
    must(rpma_write(conn, remote, 0, data_mr, 0, kMiB, RPMA_F_COMPLETION_ON_ERROR, nullptr),
         "rpma_write");
    must(rpma_flush(conn, remote, 0, kMiB, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                    nullptr),
         "rpma_flush");
    wait(1, "write and flush");
    took += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    check(ask("compare " + std::to_string(round)) == "same",
          "the server has other data than were written");
  }
  check(ask("fill 1000") == "same", "fill");
  std::vector<char> expected(kMiB);
  fill(expected.data(), 1000);
  must(rpma_read(conn, data_mr, 0, remote, 0, kMiB, RPMA_F_COMPLETION_ALWAYS, nullptr),
       "rpma_read");
  wait(1, "read");
  check(!memcmp(data, expected.data(), kMiB), "other data were read than the server has");
  must(rpma_atomic_write(conn, remote, 8, "tern4rpm", RPMA_F_COMPLETION_ALWAYS, nullptr),
       "rpma_atomic_write");
  wait(1, "atomic write");
  check(ask("word") == "tern4rpm", "the server has another word than was written atomically");
  send("end");
  wait(1, "send");
  must(rpma_mr_remote_delete(&remote), "rpma_mr_remote_delete");
  must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
  closed();
  printf("%.1f MB/s\n", mib * kMiB / took / 1e6);
}

}  // namespace

int main(int argc, char **argv) {
  check(argc == 3 || argc == 4, "usage: rpma ADDRESS PORT [MIB]");
  rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_NOTICE);
  ibv_context *device;
  must(
      rpma_utils_get_ibv_context(
          argv[1], argc == 3 ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &device),
      "rpma_utils_get_ibv_context");
  must(rpma_peer_new(device, &peer), "rpma_peer_new");
  must(rpma_mr_reg(peer, data, sizeof(data),
                   RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                       RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
                   &data_mr),
       "rpma_mr_reg");
  must(rpma_mr_reg(peer, messages, sizeof(messages), RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
                   &messages_mr),
       "rpma_mr_reg");
  if (argc == 3)
    serve(argv[1], argv[2]);
  else
    run(argv[1], argv[2], strtoull(argv[3], nullptr, 0));
  must(rpma_mr_dereg(&messages_mr), "rpma_mr_dereg");
  must(rpma_mr_dereg(&data_mr), "rpma_mr_dereg");
  must(rpma_peer_delete(&peer), "rpma_peer_delete");
}
