/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A TCP echo server on all cores, in two ways.
 *
 *	26-spread		core 0 takes connections and hands each to the
 *				core that was given the fewest so far
 *	26-spread --reuseport	each core has a listener of its own on the same
 *				port, and the kernel spreads
 *
 * It is its own client: CLIENTS connections at a time from a thread, which
 * checks what comes back; then it ends.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/call.h>
#include <weir/group.h>
#include <weir/socket.h>

#define CORES_MAX 8
#define CLIENTS 32
#define ROUNDS 100

struct connection {
	struct weir_op op;
	uint32_t core;
	int fd;
	char data[512];
};

/* One core's; .given is core 0's. */
struct core {
	struct weir_reactor *reactor;
	struct weir_acceptor *acceptor;
	int listener;
	unsigned int given, served;
};

static struct core cores[CORES_MAX];
static struct weir_group *group;
static struct sockaddr_in address;
static uint32_t n_cores;
static int reuseport, failures;

static void receive(struct connection *c);

static void hang_up(struct connection *c)
{
	close(c->fd);
	free(c);
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct connection *c = weir_container_of(op, struct connection, op);

	if (res < 0)
		hang_up(c);
	else
		receive(c);
}

static void on_received(struct weir_op *op, int64_t res)
{
	struct connection *c = weir_container_of(op, struct connection, op);

	weir_op_init(op, on_sent);
	if (res <= 0 || weir_send(cores[c->core].reactor, op, c->fd, c->data,
				  (size_t)res, 0))
		hang_up(c);
}

/* While the core stops nothing can be started, so this is the end of it. */
static void receive(struct connection *c)
{
	weir_op_init(&c->op, on_received);
	if (weir_recv(cores[c->core].reactor, &c->op, c->fd, c->data,
		      sizeof(c->data), 0))
		hang_up(c);
}

/* On the core that serves it. */
static void serve(void *arg)
{
	struct connection *c = arg;

	cores[c->core].served++;
	receive(c);
}

/* Core 0 knows only what it gave: enough, if connections are alike. */
static uint32_t least_given(void)
{
	uint32_t least = 0;

	for (uint32_t i = 1; i < n_cores; i++)
		if (cores[i].given < cores[least].given)
			least = i;
	return least;
}

/* A connection that is refused there is still ours, and served here. */
static void hand_over(struct connection *c, uint32_t to)
{
	uint32_t here = c->core;

	c->core = to;
	if (to != here && !weir_post(cores[to].reactor, serve, c)) {
		cores[to].given++;
		return;
	}
	c->core = here;
	cores[here].given++;
	serve(c);
}

static void on_connection(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct core *core = arg;
	struct connection *c;

	(void)acceptor;
	if (fd < 0) {
		fprintf(stderr, "26-spread: %s\n", strerror(-fd));
		return;
	}
	c = malloc(sizeof(*c));
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->core = (uint32_t)(core - cores);
	if (reuseport)
		serve(c);
	else
		hand_over(c, least_given());
}

/* On each core's thread, one after the other: core 0 finds a free port. */
static int core_begins(struct weir_group *g, uint32_t i, void *arg)
{
	socklen_t len = sizeof(address);
	struct core *core = &cores[i];
	int err;

	(void)arg;
	core->reactor = weir_group_reactor(g, i);
	core->listener = -1;
	if (i && !reuseport)
		return 0;
	err = weir_listen(&core->listener, (void *)&address, len, CLIENTS,
			  reuseport ? WEIR_LISTEN_REUSEPORT : 0);
	if (err)
		return err;
	getsockname(core->listener, (void *)&address, &len);
	return weir_acceptor_create(&core->acceptor, core->reactor,
				    core->listener, on_connection, core);
}

static void core_ends(struct weir_group *g, uint32_t i, void *arg)
{
	(void)g, (void)arg;
	weir_acceptor_destroy(cores[i].acceptor);
	if (cores[i].listener >= 0)
		close(cores[i].listener);
	printf("core %u served %u connections\n", i, cores[i].served);
}

/* Plain blocking calls, for once.  Returns whether it came back. */
static int talk(int fd, int i)
{
	char out[64], in[64];

	memset(out, 'a' + i % 26, sizeof(out));
	return send(fd, out, sizeof(out), MSG_NOSIGNAL) == sizeof(out) &&
	       recv(fd, in, sizeof(in), MSG_WAITALL) == sizeof(in) &&
	       !memcmp(in, out, sizeof(in));
}

static void *run_clients(void *arg)
{
	int fds[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		failures += connect(fds[i], (void *)&address,
				    sizeof(address)) != 0;
	}
	for (int i = 0; !failures && i < ROUNDS * CLIENTS; i++)
		failures += !talk(fds[i % CLIENTS], i);
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
	weir_group_stop(group);
	return arg;
}

static int run(void)
{
	pthread_t clients;
	int err;

	n_cores = weir_group_size(group);
	weir_group_set_core_fns(group, core_begins, core_ends, NULL);
	err = weir_group_start(group);
	if (err)
		return err;
	if (pthread_create(&clients, NULL, run_clients, NULL)) {
		weir_group_stop(group);
		return weir_group_run(group);
	}
	err = weir_group_run(group);
	pthread_join(clients, NULL);
	return err;
}

int main(int argc, char **argv)
{
	struct weir_group_opts opts = { .size = sizeof(opts) };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int err;

	reuseport = argc > 1 && !strcmp(argv[1], "--reuseport");
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	opts.n_cores = cpus < 2 ? 2 : cpus > CORES_MAX ? CORES_MAX :
					(uint32_t)cpus;
	err = weir_group_create(&group, &opts);
	if (!err) {
		err = run();
		weir_group_destroy(group);
	}
	if (err)
		fprintf(stderr, "26-spread: %s\n", weir_why());
	return err || failures;
}
