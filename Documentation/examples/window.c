// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * A server lends a part of its buffer to a client through a type 2 memory
 * window, and takes it back.
 *
 *   window [-d DEVICE] [-g GID_INDEX]          the server
 *   window [-d DEVICE] [-g GID_INDEX] HOST     the client
 *
 * cc -o window window.c -libverbs
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "18517"
#define BUFFER 8192	/* of which the client */
#define LENT_AT 1024	/* gets this part */
#define LENT 512

/* What the two tell each other over TCP, each time the same struct. */
struct message {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char buffer[BUFFER];
static int sock;

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static void tell(const struct message *m)
{
	check(send(sock, m, sizeof(*m), 0) == sizeof(*m), "send");
}

static struct message hear(void)
{
	struct message m;

	check(recv(sock, &m, sizeof(m), MSG_WAITALL) == sizeof(m), "recv");
	return m;
}

static int connect_to(const char *host)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET };
	struct addrinfo *a;
	int fd;

	check(getaddrinfo(host, PORT, &hints, &a) == 0, host);
	fd = socket(a->ai_family, a->ai_socktype, 0);
	check(connect(fd, a->ai_addr, a->ai_addrlen) == 0, "connect");
	freeaddrinfo(a);
	return fd;
}

static int wait_for_client(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_port = htons(atoi(PORT)) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	check(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0, "bind");
	check(listen(listener, 1) == 0, "listen");
	fd = accept(listener, NULL, NULL);
	check(fd >= 0, "accept");
	close(listener);
	return fd;
}

/* Device, PD, CQ, RC QP, and a region that the peer itself has no right to. */
static void make(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int i;

	check(list && list[0], "no RDMA device");
	for (i = 0; list[i + 1] && name; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			break;
	context = ibv_open_device(list[i]);
	check(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	check(qp != NULL, "ibv_create_qp");
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	check(mr != NULL, "ibv_reg_mr");
}

static void connect_qp(int gid_index)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = gid_index, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 1,
	};
	struct message me = { .qpn = qp->qp_num }, peer;

	check(ibv_query_gid(context, 1, gid_index, &me.gid) == 0, "ibv_query_gid");
	tell(&me);
	peer = hear();
	rtr.dest_qp_num = peer.qpn;
	rtr.ah_attr.grh.dgid = peer.gid;
	check(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "to INIT");
	check(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "to RTR");
	check(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT |
			     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC), "to RTS");
	/* Nobody sends before both are ready. */
	tell(&me);
	hear();
}

/* Posts one request and waits for its end. */
static enum ibv_wc_status execute(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	wr->send_flags = IBV_SEND_SIGNALED;
	check(ibv_post_send(qp, wr, &bad) == 0, "ibv_post_send");
	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0);
	check(n == 1, "ibv_poll_cq");
	return wc.status;
}

static void serve(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_send_wr lend = { .opcode = IBV_WR_BIND_MW };
	struct ibv_send_wr revoke = { .opcode = IBV_WR_LOCAL_INV };
	struct message window = { .addr = (uintptr_t)buffer + LENT_AT };

	check(mw != NULL, "ibv_alloc_mw");
	/* The low byte of the key is ours to choose. */
	window.rkey = ibv_inc_rkey(mw->rkey);
	lend.bind_mw.mw = mw;
	lend.bind_mw.rkey = window.rkey;
	lend.bind_mw.bind_info.mr = mr;
	lend.bind_mw.bind_info.addr = window.addr;
	lend.bind_mw.bind_info.length = LENT;
	lend.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
						 IBV_ACCESS_REMOTE_READ;
	check(execute(&lend) == IBV_WC_SUCCESS, "bind");
	printf("lent %d bytes with key %#x\n", LENT, window.rkey);
	tell(&window);

	hear();
	printf("the client wrote: %s\n", buffer + LENT_AT);
	revoke.invalidate_rkey = window.rkey;
	check(execute(&revoke) == IBV_WC_SUCCESS, "invalidate");
	printf("revoked\n");
	tell(&window);

	hear();
	printf("the buffer still says: %s\n", buffer + LENT_AT);
	check(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

static void use(void)
{
	struct message window = hear();
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	enum ibv_wc_status status;

	wr.wr.rdma.remote_addr = window.addr;
	wr.wr.rdma.rkey = window.rkey;
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge.length = sprintf(buffer, "hello") + 1;
	status = execute(&wr);
	printf("write: %s\n", ibv_wc_status_str(status));
	check(status == IBV_WC_SUCCESS, "write");

	memset(buffer, 0, sizeof(buffer));
	wr.opcode = IBV_WR_RDMA_READ;
	status = execute(&wr);
	printf("read: %s, %s\n", ibv_wc_status_str(status), buffer);
	check(status == IBV_WC_SUCCESS && !strcmp(buffer, "hello"), "read");
	tell(&window);

	hear();	/* it is revoked */
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge.length = sprintf(buffer, "too late") + 1;
	status = execute(&wr);
	printf("write after it was revoked: %s\n", ibv_wc_status_str(status));
	check(status == IBV_WC_REM_ACCESS_ERR, "the write was not refused");
	tell(&window);
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	int gid_index = 1, c;

	while ((c = getopt(argc, argv, "d:g:")) != -1) {
		if (c == 'd')
			device = optarg;
		else if (c == 'g')
			gid_index = atoi(optarg);
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	make(device);
	sock = optind < argc ? connect_to(argv[optind]) : wait_for_client();
	connect_qp(gid_index);
	if (optind < argc)
		use();
	else
		serve();

	check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	check(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	check(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
	check(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	check(ibv_close_device(context) == 0, "ibv_close_device");
	close(sock);
	return 0;
}
