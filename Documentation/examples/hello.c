// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * A client sends a line to a server, which sends it back.
 *
 *   hello          the server: serves one client
 *   hello HOST     the client
 *
 * cc -o hello hello.c -lrdmacm -libverbs
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PORT "7471"

static char buffer[64];

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Waits for one completion, of a receive or of a send. */
static void completed(int n, const struct ibv_wc *wc, const char *what)
{
	check(n == 1, what);
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static void receive(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	completed(rdma_get_recv_comp(id, &wc), &wc, "receive");
}

static void send_line(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	check(!rdma_post_send(id, NULL, buffer, sizeof(buffer), mr, 0), "post_send");
	completed(rdma_get_send_comp(id, &wc), &wc, "send");
}

int main(int argc, char **argv)
{
	const char *host = argc > 1 ? argv[1] : NULL;
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *addr;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *listener = NULL, *id;
	struct timespec start, end;
	struct ibv_mr *mr;

	if (!host)
		hints.ai_flags = RAI_PASSIVE;
	check(!rdma_getaddrinfo(host, PORT, &hints, &addr), "getaddrinfo");
	check(!rdma_create_ep(&id, addr, NULL, &attr), "create_ep");
	if (!host) {
		listener = id;
		check(!rdma_listen(listener, 1), "listen");
		check(!rdma_get_request(listener, &id), "get_request");
	}
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	check(mr != NULL, "reg_msgs");
	check(!rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr), "post_recv");
	if (host) {
		check(!rdma_connect(id, NULL), "connect");
		strcpy(buffer, "hello, world");
		clock_gettime(CLOCK_MONOTONIC, &start);
		send_line(id, mr);
		receive(id);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("the server answers: %s (%.1f ms)\n", buffer,
		       (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6);
	} else {
		check(!rdma_accept(id, NULL), "accept");
		receive(id);
		printf("the client says: %s\n", buffer);
		send_line(id, mr);
	}
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	if (listener)
		rdma_destroy_ep(listener);
	rdma_freeaddrinfo(addr);
	return 0;
}
