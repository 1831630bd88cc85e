/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer that knows nothing of weir: librdmacm and libibverbs alone, one
 * connection, which does what it is told on stdin, a command a line, and
 * answers each with a line on stdout.
 *
 *	listen ADDRESS		"port N"
 *	request RR DEPTH	waits for one; "request RR DEPTH", the peer's.  An
 *				accept will say RR and DEPTH itself.
 *	connect ADDRESS PORT FROM RR DEPTH	the name of the event that ends it
 *	accept, reject, disconnect, destroy	"done", or "error ERRNO"
 *	receive N		post N receives; "done"
 *	event			waits for the next one; "NAME STATUS"
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener, *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[4096];
static unsigned int rr, depth;

static void die(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address(const char *text, unsigned int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };

	if (inet_pton(AF_INET, text, &in.sin_addr) != 1)
		die(text);
	return in;
}

static struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(events, &ev))
		die("rdma_get_cm_event");
	return ev;
}

static enum rdma_cm_event_type take_event(void)
{
	struct rdma_cm_event *ev = next_event();
	enum rdma_cm_event_type type = ev->event;

	rdma_ack_cm_event(ev);
	return type;
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	if (!pd || !cq)
		die("ibv_create_cq");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = cq;
	if (!mr || rdma_create_qp(id, pd, &init))
		die("rdma_create_qp");
}

static struct rdma_conn_param param(void)
{
	return (struct rdma_conn_param){
		.responder_resources = (uint8_t)rr,
		.initiator_depth = (uint8_t)depth,
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

static void answer(int failed)
{
	if (failed)
		printf("error %d\n", errno);
	else
		puts("done");
}

static void do_listen(const char *text)
{
	struct sockaddr_in in = address(text, 0);

	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&in) ||
	    rdma_listen(listener, 8))
		die("rdma_listen");
	printf("port %u\n", ntohs(rdma_get_src_port(listener)));
}

static void do_request(void)
{
	struct rdma_cm_event *ev = next_event();

	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		die(rdma_event_str(ev->event));
	id = ev->id;
	printf("request %u %u\n", ev->param.conn.responder_resources,
	       ev->param.conn.initiator_depth);
	rdma_ack_cm_event(ev);
}

static void do_connect(const char *to, unsigned int port, const char *from)
{
	struct sockaddr_in a = address(to, port), b = address(from, 0);
	struct rdma_conn_param p;
	enum rdma_cm_event_type type;

	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, (struct sockaddr *)&b, (struct sockaddr *)&a,
			      5000))
		die("rdma_resolve_addr");
	type = take_event();
	if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		if (rdma_resolve_route(id, 5000))
			die("rdma_resolve_route");
		type = take_event();
	}
	if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		make_qp();
		p = param();
		if (rdma_connect(id, &p))
			die("rdma_connect");
		type = take_event();
	}
	puts(rdma_event_str(type));
}

static void do_accept(void)
{
	struct rdma_conn_param p = param();

	make_qp();
	answer(rdma_accept(id, &p));
}

static void do_destroy(void)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (mr)
		ibv_dereg_mr(mr);
	answer(rdma_destroy_id(id));
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	mr = NULL;
	cq = NULL;
	pd = NULL;
}

static void do_receive(unsigned int n)
{
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	while (n--)
		if (ibv_post_recv(id->qp, &wr, &bad))
			die("ibv_post_recv");
	puts("done");
}

static void do_event(void)
{
	struct rdma_cm_event *ev = next_event();

	printf("%s %d\n", rdma_event_str(ev->event), ev->status);
	rdma_ack_cm_event(ev);
}

static void obey(const char *line)
{
	char a[64], b[64];
	unsigned int port;

	if (sscanf(line, "listen %63s", a) == 1)
		do_listen(a);
	else if (sscanf(line, "request %u %u", &rr, &depth) == 2)
		do_request();
	else if (sscanf(line, "connect %63s %u %63s %u %u", a, &port, b, &rr,
			&depth) == 5)
		do_connect(a, port, b);
	else if (!strncmp(line, "accept", 6))
		do_accept();
	else if (!strncmp(line, "reject", 6))
		answer(rdma_reject(id, NULL, 0));
	else if (!strncmp(line, "disconnect", 10))
		answer(rdma_disconnect(id));
	else if (!strncmp(line, "destroy", 7))
		do_destroy();
	else if (sscanf(line, "receive %u", &port) == 1)
		do_receive(port);
	else if (!strncmp(line, "event", 5))
		do_event();
	else
		printf("error: %s", line);
}

int main(void)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	events = rdma_create_event_channel();
	if (!events)
		die("rdma_create_event_channel");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
