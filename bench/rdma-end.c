/* SPDX-License-Identifier: BSD-3-Clause */

/* Two ends of a connection: see rdma-end.h. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/device.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/srq.h>

#include "bench/bench.h"
#include "bench/rdma-end.h"

struct waiter {
	struct weir_op op;
	int64_t res;
	bool done;
};

static void on_end(struct weir_op *op, int64_t res)
{
	struct waiter *w = weir_container_of(op, struct waiter, op);

	w->res = res;
	w->done = true;
}

static void wait_for(struct end *end, struct waiter *w, const char *what)
{
	while (!w->done)
		bench_must(weir_reactor_turn(end->r, WEIR_FOREVER), "turn");
	bench_must((int)w->res, what);
}

static void send_wire(struct end *end, const void *p, size_t len)
{
	if (write(end->wire, p, len) != (ssize_t)len)
		bench_die("write to the other process", errno);
}

static bool receive_wire(struct end *end, void *p, size_t len)
{
	return recv(end->wire, p, len, MSG_WAITALL) == (ssize_t)len;
}

static struct weir_conn_opts conn_opts(struct end *end)
{
	return (struct weir_conn_opts){
		.size = sizeof(struct weir_conn_opts),
		.sends = END_JOBS,
		.reads = END_JOBS,
		.srq = end->srq,
	};
}

static void listen_at(struct end *end, struct sockaddr_in *at)
{
	struct weir_conn_opts conn = conn_opts(end);
	struct weir_listener_opts opts = { .size = sizeof(opts),
					   .conn = &conn };
	struct waiter w = { .op.fn = on_end };
	socklen_t len = sizeof(*at);

	bench_must(weir_listener_create(&end->listener, end->r, (void *)at,
					len, &opts), weir_why());
	bench_must(weir_listener_address(end->listener, (void *)at, &len),
		   weir_why());
	send_wire(end, &at->sin_port, sizeof(at->sin_port));
	bench_must(weir_listener_next(end->listener, &w.op, &end->c),
		   weir_why());
	wait_for(end, &w, "weir_listener_next");
	w.done = false;
	bench_must(weir_conn_accept(end->c, &w.op, NULL, 0), weir_why());
	wait_for(end, &w, "weir_conn_accept");
}

static void connect_to(struct end *end, struct sockaddr_in *at)
{
	struct weir_conn_opts conn = conn_opts(end);
	struct waiter w = { .op.fn = on_end };

	if (!receive_wire(end, &at->sin_port, sizeof(at->sin_port)))
		bench_die("the other process", EPIPE);
	bench_must(weir_conn_create(&end->c, end->r, NULL, &conn),
		   weir_why());
	bench_must(weir_conn_connect(end->c, &w.op, (void *)at, sizeof(*at),
				     NULL, 0, NULL, 0), weir_why());
	wait_for(end, &w, "weir_conn_connect");
}

static void make_memory(struct end *end)
{
	struct weir_conn_info info = { .size = sizeof(info) };

	end->mem = aligned_alloc(4096, END_MEMORY);
	memset(end->mem, 0, END_MEMORY);
	bench_must(weir_conn_info(end->c, &info), "weir_conn_info");
	bench_must(weir_device_open_name(&end->dev, info.device), weir_why());
	bench_must(weir_mmap_create(&end->m, NULL), weir_why());
	bench_must(weir_mmap_set_memrange(end->m, end->mem, END_MEMORY),
		   weir_why());
	bench_must(weir_mmap_set_permissions(end->m, WEIR_MMAP_WRITE |
			WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE),
		   weir_why());
	bench_must(weir_mmap_add_device(end->m, end->dev), weir_why());
	bench_must(weir_mmap_start(end->m), weir_why());
	bench_must(weir_inventory_create(&end->inv, end->r, NULL), weir_why());
	bench_must(weir_inventory_attach(end->inv, end->m), weir_why());
}

static void exchange(struct end *end)
{
	struct { uint64_t addr, rkey; } mine = { (uintptr_t)end->mem, 0 };
	uint32_t rkey;

	bench_must(weir_mmap_keys(end->m, end->dev, NULL, &rkey), weir_why());
	mine.rkey = rkey;
	send_wire(end, &mine, sizeof(mine));
	if (!receive_wire(end, &mine, sizeof(mine)))
		bench_die("the other process", EPIPE);
	end->far = mine.addr;
	end->key.rkey = (uint32_t)mine.rkey;
}

static void set_up(struct end *end, const char *address, bool first)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .spin_ns = end->spin_ns };

	inet_pton(AF_INET, address, &at.sin_addr);
	bench_must(weir_reactor_create(&end->r, &opts), weir_why());
	bench_must(weir_srq_create(&end->srq, end->r, NULL), weir_why());
	if (first)
		connect_to(end, &at);
	else
		listen_at(end, &at);
	make_memory(end);
	exchange(end);
	end->jobs = calloc(END_JOBS, sizeof(*end->jobs));
	bench_must(weir_dma_create(&end->dma, end->r, NULL), weir_why());
	bench_must(weir_dma_start(end->dma), weir_why());
	bench_must(weir_domain_remote_create(&end->there, NULL), weir_why());
	bench_must(weir_conn_attach(end->c, end->there), weir_why());
	bench_must(weir_conn_set_message_fn(end->c, ping_message, end),
		   weir_why());
}

static void tear_down(struct end *end)
{
	struct waiter w = { .op.fn = on_end };

	bench_must(weir_dma_destroy(end->dma), weir_why());
	bench_must(weir_conn_detach(end->c, end->there), weir_why());
	bench_must(weir_domain_destroy(end->there), weir_why());
	if (weir_conn_disconnect(end->c, &w.op) == 0)
		wait_for(end, &w, "weir_conn_disconnect");
	bench_must(weir_conn_destroy(end->c), weir_why());
	bench_must(weir_listener_destroy(end->listener), weir_why());
	bench_must(weir_srq_destroy(end->srq), weir_why());
	bench_must(weir_inventory_destroy(end->inv), weir_why());
	bench_must(weir_mmap_destroy(end->m), weir_why());
	bench_must(weir_device_close(end->dev), weir_why());
	bench_must(weir_reactor_destroy(end->r), weir_why());
	free(end->jobs);
	free(end->mem);
}

/* The child: does nothing, and asleep, but what it is asked for. */
static void answer(struct end *end)
{
	struct ping p;

	while (receive_wire(end, &p, sizeof(p)) && p.n)
		ping_run(end, &p, false, NULL);
}

void end_ask(struct end *end, const struct ping *p)
{
	send_wire(end, p, sizeof(*p));
}

void end_open(struct end *end, const char *address, uint32_t spin_ns)
{
	int wire[2];

	memset(end, 0, sizeof(*end));
	end->spin_ns = spin_ns;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, wire))
		bench_die("socketpair", errno);
	end->peer = fork();
	if (end->peer < 0)
		bench_die("fork", errno);
	end->wire = wire[end->peer > 0];
	close(wire[end->peer == 0]);
	set_up(end, address, end->peer > 0);
	if (end->peer > 0)
		return;
	answer(end);
	tear_down(end);
	_exit(0);
}

void end_close(struct end *end)
{
	static const struct ping none;

	end_ask(end, &none);
	tear_down(end);
	waitpid(end->peer, NULL, 0);
	close(end->wire);
}

struct weir_operand end_far(struct end *end, uint64_t off, uint64_t len)
{
	struct weir_operand operand =
		weir_operand_at(end->there, end->far + off, len);

	operand.ctx = &end->key;
	return operand;
}

struct weir_buf *end_buf(struct end *end, uint64_t off, size_t len, bool data)
{
	struct weir_buf *buf = NULL;
	char *at = end->mem + off;

	bench_must(weir_inventory_get(&buf, end->inv, end->m, at, len, at,
				      data ? len : 0), weir_why());
	return buf;
}
