/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections that another core serves: handed to it by a post, or taken by it
 * from a listener of its own on the same port.  Each is served once, by the
 * core that it was meant for, or closed by who knows that it will not be.
 */

#include "tests/support/group-fixture.h"

#include <netinet/in.h>
#include <stdatomic.h>

#include <weir/socket.h>

#define CORES 2
#define CLIENTS 64
#define REQUEST 4		/* Bytes; the answer has one more: whose it is. */
#define SPSC 8

/* What to do with a connection that core 1 has no capacity for. */
enum when_full { SERVE_HERE, WAIT_FOR_CAPACITY };

struct server;

struct conn {
	struct weir_op op;
	struct server *server;
	struct conn *next;		/* Waits for capacity. */
	uint32_t core;			/* Who is to serve it. */
	int fd;
	char data[REQUEST + 1];
};

struct server {
	struct team team;
	struct weir_reactor *reactors[CORES];
	struct weir_acceptor *acceptors[CORES];
	int listeners[CORES];
	struct sockaddr_in address;
	bool reuseport;
	bool all_to_one;		/* To core 1, not in turn. */
	enum when_full when_full;
	unsigned int accepted, refused;	/* Core 0's, as is what follows. */
	struct weir_op capacity;
	struct conn *waiting;
	atomic_uint served[CORES];
	atomic_uint dropped;
	int clients[CLIENTS];
};

/* Which core this thread is. */
static __thread uint32_t here;
static __thread struct weir_reactor *mine;

static unsigned int ended(struct server *s)
{
	return s->served[0] + s->served[1] + s->dropped;
}

static void look(void *arg)
{
	(void)arg;
}

/* Core 0 may be asleep, waiting for the last one. */
static void hang_up(struct conn *c, atomic_uint *count)
{
	struct server *s = c->server;

	close(c->fd);
	free(c);
	atomic_fetch_add(count, 1);
	if (here && ended(s) == CLIENTS)
		weir_post(s->reactors[0], look, NULL);
}

static void drop(struct conn *c)
{
	hang_up(c, &c->server->dropped);
}

static void on_answered(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, op);

	if (res < 0)
		drop(c);
	else
		hang_up(c, &c->server->served[here]);
}

static void on_request(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, op);

	c->data[REQUEST] = (char)('0' + here);
	weir_op_init(op, on_answered);
	if (res != REQUEST ||
	    weir_send(mine, op, c->fd, c->data, sizeof(c->data), 0))
		drop(c);
}

/* On the core that serves it. */
static void serve(void *arg)
{
	struct conn *c = arg;

	weir_op_init(&c->op, on_request);
	if (here != c->core ||
	    weir_recv(mine, &c->op, c->fd, c->data, REQUEST, WEIR_SOCK_ALL))
		drop(c);
}

static void wait_for_capacity(struct server *s, struct conn *c)
{
	c->next = s->waiting;
	s->waiting = c;
	if (weir_op_is_busy(&s->capacity) ||
	    !weir_capacity_wait(mine, &s->capacity, s->reactors[c->core]))
		return;
	s->waiting = c->next;
	drop(c);
}

static void hand_over(struct conn *c)
{
	struct server *s = c->server;
	int err = weir_post(s->reactors[c->core], serve, c);

	if (!err)
		return;
	if (err != -EAGAIN) {
		drop(c);
		return;
	}
	s->refused++;
	if (s->when_full == WAIT_FOR_CAPACITY) {
		wait_for_capacity(s, c);
		return;
	}
	c->core = here;
	serve(c);
}

static void on_capacity(struct weir_op *op, int64_t res)
{
	struct server *s = weir_container_of(op, struct server, capacity);
	struct conn *c = s->waiting, *next;

	s->waiting = NULL;
	for (; c; c = next) {
		next = c->next;
		if (res < 0)
			drop(c);
		else
			hand_over(c);
	}
}

static void on_connection(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct server *s = arg;
	struct conn *c = calloc(1, sizeof(*c));

	(void)acceptor;
	if (fd < 0 || !c)
		abort();
	c->server = s;
	c->fd = fd;
	c->core = here;
	if (s->reuseport) {
		serve(c);
		return;
	}
	c->core = s->all_to_one ? 1 : s->accepted % CORES;
	s->accepted++;
	if (c->core == here)
		serve(c);
	else
		hand_over(c);
}

static int listen_on(struct server *s, uint32_t core)
{
	socklen_t len = sizeof(s->address);
	int err;

	if (!core) {
		s->address.sin_family = AF_INET;
		s->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	err = weir_listen(&s->listeners[core], (struct sockaddr *)&s->address,
			  len, CLIENTS,
			  s->reuseport ? WEIR_LISTEN_REUSEPORT : 0);
	if (!err && !core)
		err = getsockname(s->listeners[core],
				  (struct sockaddr *)&s->address, &len);
	return err;
}

static int core_begins(struct weir_group *group, uint32_t core, void *arg)
{
	struct server *s = arg;
	int err;

	here = core;
	mine = weir_group_reactor(group, core);
	s->reactors[core] = mine;
	s->listeners[core] = -1;
	if (core && !s->reuseport)
		return 0;
	err = listen_on(s, core);
	if (err)
		return err;
	return weir_acceptor_create(&s->acceptors[core], mine,
				    s->listeners[core], on_connection, s);
}

static void core_ends(struct weir_group *group, uint32_t core, void *arg)
{
	struct server *s = arg;

	(void)group;
	weir_acceptor_destroy(s->acceptors[core]);
	if (s->listeners[core] >= 0)
		close(s->listeners[core]);
}

static void server_begin(struct server *s, void **state, uint32_t spsc)
{
	weir_op_init(&s->capacity, on_capacity);
	team_create(&s->team, state, CORES, spsc);
	assert_int_equal(weir_group_set_core_fns(s->team.group, core_begins,
						 core_ends, s), 0);
	team_start(&s->team);
}

/* All of them call, and ask at once: before anybody has taken the call. */
static void clients_begin(struct server *s)
{
	for (int i = 0; i < CLIENTS; i++) {
		s->clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(s->clients[i],
					 (struct sockaddr *)&s->address,
					 sizeof(s->address)), 0);
		assert_int_equal(send(s->clients[i], &i, REQUEST, 0), REQUEST);
	}
}

/* Counts in @by whose answers the clients got; the others got the end. */
static unsigned int clients_end(struct server *s, unsigned int by[CORES])
{
	unsigned int cut_off = 0;

	memset(by, 0, CORES * sizeof(*by));
	for (int i = 0; i < CLIENTS; i++) {
		char answer[REQUEST + 1];
		ssize_t n = recv(s->clients[i], answer, sizeof(answer),
				 MSG_WAITALL);

		close(s->clients[i]);
		if (n != sizeof(answer)) {
			cut_off++;
			continue;
		}
		assert_memory_equal(answer, &i, REQUEST);
		by[answer[REQUEST] - '0']++;
	}
	return cut_off;
}

/* A server that clients come to, until each was answered; which core did. */
static void serve_all(struct server *s, void **state, uint32_t spsc,
		      unsigned int by[CORES])
{
	server_begin(s, state, spsc);
	clients_begin(s);
	UNTIL(s->team.r[0], ended(s) == CLIENTS);
	assert_int_equal(clients_end(s, by), 0);
}

static void connection_is_served_by_the_core_it_is_handed_to(void **state)
{
	struct server s = { .when_full = SERVE_HERE };
	unsigned int by[CORES];

	serve_all(&s, state, 0, by);
	assert_int_equal(by[0], CLIENTS / 2);
	assert_int_equal(by[1], CLIENTS / 2);
	assert_int_equal(s.refused, 0);
	team_end(&s.team);
}

/* More come in one turn than the way holds. */
static void a_refused_one_is_still_the_senders(void **state)
{
	struct server s = { .when_full = SERVE_HERE, .all_to_one = true };
	unsigned int by[CORES];

	serve_all(&s, state, SPSC, by);
	assert_true(s.refused > 0);
	assert_int_equal(by[0], s.refused);
	assert_int_equal(by[1], CLIENTS - s.refused);
	team_end(&s.team);
}

static void a_refused_one_can_wait_for_capacity(void **state)
{
	struct server s = { .when_full = WAIT_FOR_CAPACITY,
			    .all_to_one = true };
	unsigned int by[CORES];

	serve_all(&s, state, SPSC, by);
	assert_true(s.refused > 0);
	assert_int_equal(by[1], CLIENTS);
	team_end(&s.team);
}

/* Whatever was taken is served or closed: no client waits for ever, and the
 * harness finds no descriptor left. */
static void a_stop_in_the_middle_leaves_none_behind(void **state)
{
	for (unsigned int turns = 1; turns <= 12; turns++) {
		struct server s = { .when_full = WAIT_FOR_CAPACITY,
				    .all_to_one = turns % 2 };
		unsigned int by[CORES];

		server_begin(&s, state, SPSC);
		clients_begin(&s);
		some_turns(s.team.r[0], (int)turns / 2);
		team_end(&s.team);
		clients_end(&s, by);
		assert_int_equal(by[0], s.served[0]);
		assert_int_equal(by[1], s.served[1]);
		assert_int_equal(ended(&s), s.accepted);
	}
}

/* The kernel picks: by the addresses, so nearly surely not one core for all. */
static void cores_can_have_listeners_of_the_same_port(void **state)
{
	struct server s = { .reuseport = true };
	unsigned int by[CORES];

	serve_all(&s, state, 0, by);
	assert_int_equal(by[0] + by[1], CLIENTS);
	assert_true(by[0] > 0);
	assert_true(by[1] > 0);
	team_end(&s.team);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(connection_is_served_by_the_core_it_is_handed_to),
		CASE(a_refused_one_is_still_the_senders),
		CASE(a_refused_one_can_wait_for_capacity),
		CASE(a_stop_in_the_middle_leaves_none_behind),
		CASE(cores_can_have_listeners_of_the_same_port),
	};

	return harness_run(cases, N_OF(cases));
}
