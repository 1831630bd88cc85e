/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-proxy, as it is, between a client and two servers, through kills, power cuts
 * and partitions of all but the client: bytes arrive as they were sent, and the end
 * of a stream is passed on only behind all of its bytes; what was cut short is
 * reset.  The kernel ends the streams of a process that was killed as if it had
 * closed them, so nothing is said of connections during which one was.
 *
 * A client sends a head, which names the lengths of question and answer, and the
 * question; the server reads to the end, answers, and closes.
 */

#include "tests/programs/worlds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/watch.h>

/* The program, whose main() does not return while it serves. */
int weir_proxy_main(int argc, char **argv);
#define main weir_proxy_main
#include "programs/weir-proxy/main.c"
#undef main

#define SERVERS 2
#define CALLERS 6
#define LONGEST 200000u		/* Of a question or an answer. */
#define CALLS 65536u		/* Of a seed, at most. */
#define PART 16384u		/* Of a send or receive, at most. */
#define TIMEOUT_NS (5 * WEIR_SEC)
#define END_NS (900 * WEIR_SEC)
#define PORT 80

struct head {
	uint32_t id, question, answer, check;
};

static uint8_t byte_of(uint32_t id, bool answer, uint32_t at)
{
	return (uint8_t)((id * 2654435761u + answer * 40503u + at) * 2246822519u
			 >> 24);
}

static void fill(uint8_t *to, uint32_t id, bool answer, uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = byte_of(id, answer, at + i);
}

static void compare(const uint8_t *data, uint32_t id, bool answer, uint32_t at,
		    uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (data[i] != byte_of(id, answer, at + i))
			weir_sim_violation("bytes arrive as they were sent",
					   "byte %u of the %s of %u", at + i,
					   answer ? "answer" : "question", id);
}

/* Programs that were killed, all in all: their streams ended as if closed. */
static uint32_t n_killed;
static uint64_t killed_ns;	/* When the last one was. */
static uint32_t killed_before[CALLS]; /* .n_killed when call .id % CALLS began. */
static uint64_t n_verified, n_answered;
static struct weir_sim *sim;

static void note_end(const struct weir_sim_host *host)
{
	if (weir_sim_host_state(host) != WEIR_SIM_HOST_DOWN)
		return;
	n_killed++;
	killed_ns = weir_sim_now(sim);
}

static void close_hard(int fd)
{
	struct linger none = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* The proxy: what main() does before it waits. */

static struct {
	struct weir_sim_host *host;
	struct proxy *p;
} proxy;

/* Of killed programs: the library keeps them with their reactors. */
static struct kept {
	struct weir_group *group;
	struct kept *next;
} *kept;

static void proxy_start(struct weir_sim_host *host, void *arg)
{
	char *argv[] = { "weir-proxy", "--cores=1", "--set=log access.log",
			 "--set=splice 4096", "--set=idle-timeout 60",
			 "--set=rest 0.05", "10.0.0.1:80", "10.0.0.2:80",
			 "10.0.0.3:80", NULL };
	struct proxy *p = calloc(1, sizeof(*p));
	struct config *plan;
	int status;

	(void)host, (void)arg;
	optind = 1;
	proxy.p = p;
	MUST("weir-proxy takes its options",
	     p && !parse_options(&p->o, 9, argv, &status));
	MUST("weir-proxy makes its cores", !make_cores(p));
	allow_descriptors(p);
	p->first = configs_open(p, &plan);
	MUST("weir-proxy opens its sockets", p->first);
	p->config = plan;
	MUST("weir-proxy opens its log", !log_begin(p));
	MUST("weir-proxy begins",
	     !weir_group_set_core_fns(p->group, core_begin, core_end, p) &&
		     !weir_group_start(p->group));
}

static void free_flow(struct flow *f)
{
	free(f->buf);
	free(f->pipe);
}

/* The system takes a process's memory back; here it has to be found. */
static void proxy_gone(void *arg)
{
	struct proxy *p = proxy.p;
	struct core *core = &p->cores[0];
	struct kept *k = malloc(sizeof(*k));
	struct listener *l;
	struct conn *c;

	(void)arg;
	while ((c = core->conns)) {
		core->conns = c->next;
		free_flow(&c->up);
		free_flow(&c->down);
		if (c->server)
			server_put(c->server);
		config_put(c->config);
		free(c);
	}
	while ((l = core->listeners)) {
		core->listeners = l->next;
		free(l);
	}
	buffers_free(core);
	pipes_free(core);
	config_put(core->config);
	config_put(p->config);
	free(p->first);
	free(core->log.records);
	free(p->cores);
	free(p->o.text);
	if (k)
		*k = (struct kept){ p->group, kept };
	kept = k;
	free(p);
	proxy.p = NULL;
	note_end(proxy.host);
}

/* Servers. */

struct back_end;

/* A connection there. */
struct talk {
	struct weir_op op;
	struct back_end *server;
	struct talk *next, **pprev;
	int fd;
	uint32_t at;		/* Of the head and question, or the answer. */
	bool answers;
	struct head head;
	uint8_t buf[PART];
};

static struct back_end {
	struct weir_sim_host *host;
	struct weir_reactor *r;
	struct talk *talks;
} servers[SERVERS];

static void talk_end(struct talk *t, bool well)
{
	if (well)
		close(t->fd);
	else
		close_hard(t->fd);
	*t->pprev = t->next;
	if (t->next)
		t->next->pprev = t->pprev;
	free(t);
}

static void on_answered(struct weir_op *op, int64_t res);
static void on_asked(struct weir_op *op, int64_t res);

static void answer(struct talk *t)
{
	uint32_t n = t->head.answer - t->at;

	if (!n) {
		talk_end(t, true);
		return;
	}
	if (n > PART)
		n = PART;
	fill(t->buf, t->head.id, true, t->at, n);
	t->op.fn = on_answered;
	weir_op_set_deadline(&t->op, weir_reactor_now(t->server->r) + TIMEOUT_NS);
	if (weir_send(t->server->r, &t->op, t->fd, t->buf, n, 0))
		talk_end(t, false);
}

static void on_answered(struct weir_op *op, int64_t res)
{
	struct talk *t = weir_container_of(op, struct talk, op);

	if (res < 0) {
		talk_end(t, false);
		return;
	}
	t->at += (uint32_t)res;
	answer(t);
}

static void listen_on(struct talk *t)
{
	uint32_t n = sizeof(t->head) - t->at;

	if (t->at >= sizeof(t->head))
		n = PART;
	t->op.fn = on_asked;
	weir_op_set_deadline(&t->op, weir_reactor_now(t->server->r) +
				     4 * TIMEOUT_NS);
	if (weir_recv(t->server->r, &t->op, t->fd, t->buf, n, 0))
		talk_end(t, false);
}

static void took(struct talk *t, uint32_t n)
{
	const uint32_t size = sizeof(t->head);

	if (t->at < size) {
		memcpy((uint8_t *)&t->head + t->at, t->buf, n);
		t->at += n;
		if (t->at == size)
			MUST("a head is as it was sent",
			     t->head.check == (t->head.id ^ t->head.question ^
					       t->head.answer));
		return;
	}
	MUST("no more arrives than was sent",
	     t->at - size + n <= t->head.question);
	compare(t->buf, t->head.id, false, t->at - size, n);
	n_verified += n;
	t->at += n;
}

/* A connection without a head may have waited in a backlog for some time. */
static bool may_be_of_killed(const struct talk *t)
{
	if (t->at >= sizeof(t->head))
		return killed_before[t->head.id % CALLS] != n_killed;
	return n_killed && weir_sim_now(sim) < killed_ns + 4 * TIMEOUT_NS;
}

static void on_asked(struct weir_op *op, int64_t res)
{
	struct talk *t = weir_container_of(op, struct talk, op);
	bool all = t->at >= sizeof(t->head) &&
		   t->at - sizeof(t->head) == t->head.question;

	if (res > 0) {
		took(t, (uint32_t)res);
		listen_on(t);
	} else if (res < 0) {
		talk_end(t, false);
	} else if (!all && !may_be_of_killed(t)) {
		weir_sim_violation("an end is behind all bytes",
				   "the server has %u of the question of %u",
				   t->at, t->head.id);
	} else if (!all) {
		talk_end(t, false);
	} else {
		t->at = 0;
		answer(t);
	}
}

static void on_accept(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct back_end *s = arg;
	struct talk *t = fd < 0 ? NULL : calloc(1, sizeof(*t));

	(void)acceptor;
	if (!t)
		return;
	weir_op_init(&t->op, on_asked);
	t->server = s;
	t->fd = fd;
	t->next = s->talks;
	t->pprev = &s->talks;
	if (t->next)
		t->next->pprev = &t->next;
	s->talks = t;
	listen_on(t);
}

static void server_start(struct weir_sim_host *host, void *arg)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(PORT) };
	struct weir_acceptor *acceptor;
	struct back_end *s = arg;
	int fd;

	(void)host;
	s->r = reactor_here();
	MUST("a server listens",
	     !weir_listen(&fd, (struct sockaddr *)&in, sizeof(in), 64, 0) &&
		     !weir_acceptor_create(&acceptor, s->r, fd, on_accept, s));
}

static void server_gone(void *arg)
{
	struct back_end *s = arg;
	struct talk *t;

	while ((t = s->talks)) {
		s->talks = t->next;
		free(t);
	}
	note_end(s->host);
}

/* The client. */

enum doing { IDLE, CONNECTS, SENDS, ENDS, READS };

static struct caller {
	struct weir_op op;
	enum doing step;
	int fd;
	uint32_t at;
	struct head head;
	uint8_t buf[PART];
} callers[CALLERS];

static struct {
	struct weir_reactor *r;
	uint32_t id, left;
} client;

static void caller_end(struct caller *c, bool well)
{
	n_answered += well;
	if (well)
		close(c->fd);
	else
		close_hard(c->fd);
	c->step = IDLE;
}

static void on_call(struct weir_op *op, int64_t res);

static int start_step(struct caller *c)
{
	const struct head *h = &c->head;
	uint32_t n = (uint32_t)sizeof(*h) + h->question - c->at;

	weir_op_init(&c->op, on_call);
	weir_op_set_deadline(&c->op, weir_reactor_now(client.r) + TIMEOUT_NS);
	switch (c->step) {
	case SENDS:
		if (c->at < sizeof(*h)) {
			n = (uint32_t)sizeof(*h) - c->at;
			memcpy(c->buf, (const uint8_t *)h + c->at, n);
		} else {
			n = n < PART ? n : PART;
			fill(c->buf, h->id, false,
			     c->at - (uint32_t)sizeof(*h), n);
		}
		return weir_send(client.r, &c->op, c->fd, c->buf, n, 0);
	case ENDS:
		return weir_shutdown(client.r, &c->op, c->fd, SHUT_WR);
	default:
		return weir_recv(client.r, &c->op, c->fd, c->buf, PART, 0);
	}
}

static void next_step(struct caller *c)
{
	if (start_step(c))
		caller_end(c, false);
}

static void read_on(struct caller *c, uint32_t n)
{
	const struct head *h = &c->head;

	if (n) {
		MUST("no more arrives than was sent", c->at + n <= h->answer);
		compare(c->buf, h->id, true, c->at, n);
		n_verified += n;
		c->at += n;
		next_step(c);
		return;
	}
	if (c->at < h->answer && killed_before[h->id % CALLS] == n_killed)
		weir_sim_violation("an end is behind all bytes",
				   "the client has %u of %u of the answer to "
				   "%u", c->at, h->answer, h->id);
	caller_end(c, c->at == h->answer);
}

static void on_call(struct weir_op *op, int64_t res)
{
	struct caller *c = weir_container_of(op, struct caller, op);

	if (res < 0) {
		caller_end(c, false);
		return;
	}
	switch (c->step) {
	case CONNECTS:
		c->at = 0;
		c->step = SENDS;
		next_step(c);
		break;
	case SENDS:
		c->at += (uint32_t)res;
		if (c->at == sizeof(c->head) + c->head.question)
			c->step = ENDS;
		next_step(c);
		break;
	case ENDS:
		c->at = 0;
		c->step = READS;
		next_step(c);
		break;
	default:
		read_on(c, (uint32_t)res);
	}
}

static void call(struct caller *c)
{
	static struct sockaddr_in to;
	struct head *h = &c->head;

	to.sin_family = AF_INET;
	to.sin_port = htons(PORT);
	to.sin_addr.s_addr = htonl(weir_sim_host_address(proxy.host));
	*h = (struct head){ .id = ++client.id };
	h->question = draw(sim, draw(sim, 3) ? 3000 : LONGEST);
	h->answer = draw(sim, draw(sim, 3) ? 3000 : LONGEST);
	h->check = h->id ^ h->question ^ h->answer;
	killed_before[h->id % CALLS] = n_killed;
	c->step = CONNECTS;
	MUST("the client gets a socket",
	     !weir_sim_host_socket(weir_sim_host_here(), &c->fd, AF_INET));
	weir_op_init(&c->op, on_call);
	weir_op_set_deadline(&c->op, weir_reactor_now(client.r) + TIMEOUT_NS);
	if (weir_connect(client.r, &c->op, c->fd, (struct sockaddr *)&to,
			 sizeof(to)))
		caller_end(c, false);
}

/* Idle clients call. */
static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	for (int i = 0; i < CALLERS && client.left; i++) {
		if (callers[i].step != IDLE)
			continue;
		client.left--;
		call(&callers[i]);
	}
}

static void client_start(struct weir_sim_host *host, void *arg)
{
	struct weir_timer *timer;

	(void)host, (void)arg;
	client.r = reactor_here();
	MUST("the client has a clock",
	     !weir_timer_create(&timer, client.r, on_tick, NULL));
	weir_timer_start(timer, weir_reactor_now(client.r), WEIR_MSEC);
}

static bool is_quiet(void)
{
	for (int i = 0; i < CALLERS; i++)
		if (callers[i].step != IDLE)
			return false;
	return !client.left;
}

/* The test. */

static void disturb(void)
{
	struct weir_sim_host *hosts[] = { proxy.host, servers[0].host,
					  servers[1].host };
	struct weir_sim_host *host = hosts[draw(sim, 3)];
	struct weir_sim_host *other = hosts[draw(sim, 3)];
	struct weir_sim_link link = { .size = sizeof(link), .cut = 1 };

	switch (draw(sim, 5)) {
	case 0:
		weir_sim_host_kill(host);
		break;
	case 1:
		weir_sim_host_power_off(host);
		break;
	case 2:
		weir_sim_signal(sim, proxy.host, SIGHUP);
		return;
	case 3:
		if (host == other)
			return;
		weir_sim_host_link(host, other, &link);
		weir_sim_run(sim, draw(sim, 50) * WEIR_MSEC, 0);
		link.cut = 0;
		weir_sim_host_link(host, other, &link);
		return;
	default:
		return;
	}
	weir_sim_run(sim, draw(sim, 50) * WEIR_MSEC, 0);
	weir_sim_host_start(host);
}

static void run_until_quiet(const char *rule)
{
	uint64_t end = weir_sim_now(sim) + END_NS;

	while (!is_quiet() && weir_sim_now(sim) < end)
		weir_sim_run(sim, 100 * WEIR_MSEC, 0);
	MUST(rule, is_quiet());
}

/* Without faults all is well again, and ends when it is told to. */
static void run_well(void)
{
	struct weir_sim_host *all[] = { proxy.host, servers[0].host,
					servers[1].host };
	uint64_t before;

	weir_sim_set_faults(sim, 0);
	for (size_t i = 0; i < 3; i++)
		if (weir_sim_host_state(all[i]) <= WEIR_SIM_HOST_OFF)
			weir_sim_host_start(all[i]);
	run_until_quiet("every call comes to its end");
	/* Until connections that are never ended are idle for long enough. */
	weir_sim_run(sim, 130 * WEIR_SEC, 0);
	MUST("no connection is left", !proxy.p->cores[0].n_conns);
	before = n_answered;
	client.left = 10;
	run_until_quiet("every call comes to its end");
	MUST("calls are answered again", n_answered == before + 10);
	MUST("the log has lines",
	     weir_sim_file_size(sim, "proxy/access.log") > 0);
	MUST("the proxy gets a signal",
	     !weir_sim_signal(sim, proxy.host, SIGTERM));
	weir_sim_run(sim, 10 * WEIR_SEC, 0);
	MUST("the proxy has ended", proxy.p->n_drained == 1);
}

static void run_proxy(struct weir_sim_trial *trial)
{
	static const char *const names[] = { "one", "two" };

	sim = trial->sim;
	n_killed = 0;
	killed_ns = 0;
	n_verified = n_answered = 0;
	memset(&client, 0, sizeof(client));
	memset(callers, 0, sizeof(callers));
	memset(servers, 0, sizeof(servers));
	proxy.host = host_add(sim, (struct weir_sim_host_opts){
		.name = "proxy", .start = proxy_start, .gone = proxy_gone });
	for (int i = 0; i < SERVERS; i++)
		servers[i].host = host_add(sim, (struct weir_sim_host_opts){
			.name = names[i], .start = server_start,
			.gone = server_gone, .arg = &servers[i] });
	host_add(sim, (struct weir_sim_host_opts){
		.name = "client", .start = client_start,
		.flags = WEIR_SIM_HOST_HEALTHY });
	for (uint32_t i = 0; i < trial->ops; i++) {
		client.left += draw(sim, 12);
		weir_sim_run(sim, draw(sim, 50) * WEIR_MSEC, 0);
		disturb();
	}
	run_well();
	weir_sim_note(sim, "answered", n_answered);
	trial->verified += n_verified;
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "proxy",
	.what = "weir-proxy through kills, power cuts and partitions",
	.run = run_proxy,
	.ops = 30,
	.hosts = "proxy,one,two",
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
