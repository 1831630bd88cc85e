/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-nbd, as it is, through kills and power cuts of its host: its disk is one that
 * a client can rely on (worlds-disk.h).
 */

#include "tests/programs/worlds-disk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/timer.h>

#include "programs/weir-nbd/weir-nbd.h"

#define TIMEOUT_NS (500 * WEIR_MSEC) /* Without an answer. */

/* The server: what main() of weir-nbd does, without its threads. */
static struct {
	struct weir_sim_host *host;
	struct weir_reactor *r;
	struct server *server;
} server;

static void server_start(struct weir_sim_host *host, void *arg)
{
	char *argv[] = { "weir-nbd", "--export=path=disk.img",
			 "--address=10.0.0.1", "--quiet", NULL };

	(void)host, (void)arg;
	optind = 1;
	server.r = reactor_here();
	MUST("weir-nbd takes its options",
	     server_create(&server.server, 4, argv) < 0);
	MUST("weir-nbd opens its file and socket", !server_open(server.server));
	MUST("weir-nbd begins", !core_begin(server.server, 0, server.r));
}

/* A connection that was accepted and not adopted yet is in the mailbox alone, which
 * a killed program leaves behind: leaks are not looked for. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return 1;
}

/* The system takes a process's memory back; here it has to be found. */
static void server_gone(void *arg)
{
	struct conn *c, *next;

	(void)arg;
	for (c = server.server->cores[0].conns; c; c = next) {
		next = c->next;
		if (c->slab)
			munmap(c->slab, SLAB_BYTES);
		free(c);
	}
	free(server.server);
	server.server = NULL;
}

/* The client. */

enum step { GREETING_IN, CHOICE_OUT, CHOICE_IN, REPLY_IN, DATA_IN };

static struct client {
	struct weir_reactor *r;
	struct weir_op rx, tx, pause;
	int fd;
	enum step step;
	bool connected, sending;
	struct want *reading;
	uint8_t in[MOST * SECTOR], head[64];
	uint8_t out[NBD_REQUEST_BYTES + MOST * SECTOR];
} client;

/* The connection is over: what became of requests in flight is not known. */
static void lose_wants(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (disk.wants[i].used)
			disk_interrupted(&disk.wants[i]);
}

static void connect_later(uint64_t ns);
static void go_on(void);

static void drop(void)
{
	if (client.fd < 0)
		return;
	lose_wants();
	client.connected = false;
	weir_op_cancel(&client.rx);
	weir_op_cancel(&client.tx);
	close(client.fd);
	client.fd = -1;
	connect_later(WEIR_MSEC * (1 + draw(disk.sim, 200)));
}

/* Requests. */

static void on_tx(struct weir_op *op, int64_t res)
{
	(void)op;
	client.sending = false;
	if (res < 0)
		drop();
	else
		go_on();
}

static void send_want(const struct want *w)
{
	static const uint16_t types[] = {
		[WANT_READ] = NBD_CMD_READ, [WANT_WRITE] = NBD_CMD_WRITE,
		[WANT_FLUSH] = NBD_CMD_FLUSH, [WANT_TRIM] = NBD_CMD_TRIM,
		[WANT_ZERO] = NBD_CMD_WRITE_ZEROES,
	};
	uint8_t *p = put32(client.out, NBD_REQUEST_MAGIC);
	size_t len = NBD_REQUEST_BYTES;

	p = put16(p, w->fua ? NBD_CMD_FLAG_FUA : 0);
	p = put16(p, types[w->kind]);
	p = put64(p, (uint64_t)(w - disk.wants));
	p = put64(p, w->first * SECTOR);
	put32(p, w->n * SECTOR);
	if (w->kind == WANT_WRITE) {
		disk_fill(w, client.out + len);
		len += w->n * SECTOR;
	}
	weir_op_init(&client.tx, on_tx);
	client.sending = true;
	if (weir_send(client.r, &client.tx, client.fd, client.out, len, 0)) {
		client.sending = false;
		drop();
	}
}

/* The next request, if there is place for it. */
static void go_on(void)
{
	const struct want *w;

	if (!client.connected || client.sending)
		return;
	w = disk_next();
	if (w)
		send_want(w);
}

/* Answers. */

static void answered(struct want *w, uint32_t error)
{
	/* Others may be those of the server alone: no memory, it stops. */
	bool lost = error == NBD_EIO || error == NBD_ENOSPC;

	disk_answered(w, !error ? DISK_OK : lost ? DISK_LOST : DISK_FAILED, client.in);
}

static void receive(enum step step, void *to, size_t len);

static void took_reply(void)
{
	uint32_t error = get32(client.head + 4);
	uint64_t cookie = get64(client.head + 8);
	struct want *w = &disk.wants[cookie % DEPTH];

	MUST("a reply is one to a request",
	     get32(client.head) == NBD_SIMPLE_REPLY_MAGIC && cookie < DEPTH &&
	     w->used);
	if (!error && w->kind == WANT_READ) {
		client.reading = w;
		receive(DATA_IN, client.in, w->n * SECTOR);
		return;
	}
	answered(w, error);
	receive(REPLY_IN, client.head, 16);
	go_on();
}

static void send_choice(void)
{
	uint8_t *p = put32(client.out, NBD_FLAG_FIXED_NEWSTYLE |
					       NBD_FLAG_NO_ZEROES);

	p = put64(p, NBD_OPTION_MAGIC);
	p = put32(p, NBD_OPT_EXPORT_NAME);
	put32(p, 0);
	weir_op_init(&client.tx, on_tx);
	client.sending = true;
	if (weir_send(client.r, &client.tx, client.fd, client.out, 20, 0)) {
		client.sending = false;
		drop();
		return;
	}
	receive(CHOICE_IN, client.head, 10);
}

static void on_rx(struct weir_op *op, int64_t res)
{
	static const size_t lengths[] = { [GREETING_IN] = 18, [CHOICE_IN] = 10,
					  [REPLY_IN] = 16 };

	(void)op;
	if (client.fd < 0)
		return;
	if (client.step == DATA_IN ? !client.reading ||
	    res != (int64_t)client.reading->n * SECTOR :
	    res != (int64_t)lengths[client.step]) {
		drop();
		return;
	}
	switch (client.step) {
	case GREETING_IN:
		MUST("a greeting is one", get64(client.head) == NBD_MAGIC);
		send_choice();
		break;
	case CHOICE_IN:
		MUST("the export is the file",
		     get64(client.head) == SECTORS * SECTOR);
		client.connected = true;
		disk.at = 0;
		receive(REPLY_IN, client.head, 16);
		go_on();
		break;
	case REPLY_IN:
		took_reply();
		break;
	default:
		answered(client.reading, 0);
		client.reading = NULL;
		receive(REPLY_IN, client.head, 16);
		go_on();
	}
}

static void receive(enum step step, void *to, size_t len)
{
	client.step = step;
	if (client.fd < 0)
		return;
	weir_op_init(&client.rx, on_rx);
	weir_op_set_deadline(&client.rx, weir_reactor_now(client.r) + TIMEOUT_NS);
	if (weir_recv(client.r, &client.rx, client.fd, to, len, WEIR_SOCK_ALL))
		drop();
}

static void on_connected(struct weir_op *op, int64_t res)
{
	(void)op;
	if (client.fd < 0)
		return;
	if (res < 0)
		drop();
	else
		receive(GREETING_IN, client.head, 18);
}

static void connect_now(void)
{
	static struct sockaddr_in to;

	to.sin_family = AF_INET;
	to.sin_port = htons(PORT);
	to.sin_addr.s_addr = htonl(weir_sim_host_address(server.host));
	client.reading = NULL;
	client.fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST("the client gets a socket", client.fd >= 0);
	weir_op_init(&client.rx, on_connected);
	weir_op_set_deadline(&client.rx, weir_reactor_now(client.r) + TIMEOUT_NS);
	if (weir_connect(client.r, &client.rx, client.fd,
			 (struct sockaddr *)&to, sizeof(to)))
		drop();
}

/* The operations of the last connection may not have ended yet. */
static void on_pause(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
	if (weir_op_is_busy(&client.rx) || weir_op_is_busy(&client.tx))
		connect_later(WEIR_MSEC);
	else
		connect_now();
}

static void connect_later(uint64_t ns)
{
	weir_op_init(&client.pause, on_pause);
	MUST("the client sleeps",
	     !weir_sleep_until(client.r, &client.pause,
			       weir_reactor_now(client.r) + ns));
}

/* A name that is too long is no other one, cut off. */
static void try_long_name(void)
{
	char path[PATH_MAX + 1];

	memset(path, '/', PATH_MAX);
	path[PATH_MAX] = 0;
	memcpy(path + PATH_MAX - 4, "file", 4);
	MUST("a long name is refused",
	     open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) == -1 &&
	     errno == ENAMETOOLONG);
}

static void client_start(struct weir_sim_host *host, void *arg)
{
	(void)host, (void)arg;
	try_long_name();
	client.r = reactor_here();
	client.fd = -1;
	connect_later(WEIR_MSEC);
}

/* The test. */

static void gone(void *arg)
{
	server_gone(arg);
	disk_server_ended(weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF);
}

static void powered_off(void)
{
	disk_server_ended(true);
}

static void run(struct weir_sim_trial *trial)
{
	struct weir_sim *sim = trial->sim;

	memset(&client, 0, sizeof(client));
	client.fd = -1;
	server.host = host_add(sim, (struct weir_sim_host_opts){
		.name = "server", .start = server_start, .gone = gone });
	disk_begin(sim);
	host_add(sim, (struct weir_sim_host_opts){
		.name = "client", .start = client_start,
		.flags = WEIR_SIM_HOST_HEALTHY });
	disk_run(trial, server.host, go_on, powered_off);
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "nbd",
	.what = "weir-nbd through kills and power cuts of its host",
	.run = run,
	.ops = 30,
	.hosts = "server",
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
