/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections to a peer that knows nothing of weir (plain-peer.c, by
 * librdmacm), over a link that can be cut or slowed: in the guest with two
 * devices only.
 */

#include "tests/support/conn-fixture.h"
#include "tests/support/job-fixture.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/domain.h>
#include <weir/srq.h>

#define EVENTS 16

struct plain {
	pid_t pid;
	FILE *to, *from;
	char said[128];
};

struct fixture {
	struct plain peer;
	struct ends e;		/* Of it .r, .opts, .client and .l. */
	struct weir_srq *srq;
	enum rdma_cm_event_type seen[EVENTS];
	unsigned int n_seen;
};

static struct fixture *fixture; /* Whose events are noted. */

static const char *setting(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		skip_because("no RDMA here: %s is not set; see tests/vm", name);
	return value;
}

static void find_program(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *end;

	assert_true(n > 0);
	path[n] = 0;
	end = strrchr(path, '/');
	if (end - path > 6 && !strncmp(end - 6, "/.libs", 6))
		end -= 6;
	strcpy(end, "/plain-peer");
}

static void plain_begin(struct plain *p)
{
	char path[4096];
	int in[2], out[2];

	find_program(path, sizeof(path) - 16);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p->to = fdopen(in[1], "w");
	p->from = fdopen(out[0], "r");
	setvbuf(p->to, NULL, _IOLBF, 0);
}

static void hear(struct plain *p)
{
	if (!fgets(p->said, sizeof(p->said), p->from))
		fail_msg("the plain peer has ended");
	p->said[strcspn(p->said, "\n")] = 0;
	if (!strncmp(p->said, "error", 5))
		fail_msg("the plain peer says: %s", p->said);
}

static const char *tell(struct plain *p, const char *command)
{
	fprintf(p->to, "%s\n", command);
	hear(p);
	return p->said;
}

static void plain_end(struct plain *p)
{
	int status;

	fclose(p->to);
	fclose(p->from);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
}

/* tc, in the guest, which is gone afterwards. */
static void link_is(const char *how)
{
	char command[256];

	snprintf(command, sizeof(command), "tc qdisc %s dev %s root %s",
		 how ? "replace" : "del", setting("WEIR_RDMA_NETDEV"),
		 how ? how : "");
	assert_int_equal(system(command), 0);
}

static void note(struct conn_user *user, const struct rdma_cm_event *ev)
{
	if (fixture->n_seen < EVENTS)
		fixture->seen[fixture->n_seen++] = ev->event;
	conn_event(user, ev);
}

static bool has_seen(const struct fixture *g, enum rdma_cm_event_type type)
{
	unsigned int i;

	for (i = 0; i < g->n_seen; i++)
		if (g->seen[i] == type)
			return true;
	return false;
}

static void fixture_init(struct fixture *g, void **state)
{
	struct weir_srq_opts srq = { .size = sizeof(srq), .recvs = 8 };

	memset(g, 0, sizeof(*g));
	fixture = g;
	setting("WEIR_RDMA_ADDRESS2");
	ends_init(&g->e, state, AF_INET);
	assert_int_equal(weir_srq_create(&g->srq, g->e.r, &srq), 0);
	g->e.opts.srq = g->srq;
	plain_begin(&g->peer);
}

/* The client is ours; the peer listens, serves @reads, and was asked. */
static void fixture_ask(struct fixture *g, unsigned int reads)
{
	char command[64];
	unsigned int port;

	snprintf(command, sizeof(command), "listen %s",
		 setting("WEIR_RDMA_ADDRESS2"));
	assert_int_equal(sscanf(tell(&g->peer, command), "port %u", &port), 1);
	g->e.addr = ip(setting("WEIR_RDMA_ADDRESS2"), (uint16_t)port);
	g->e.from = ip(setting("WEIR_RDMA_ADDRESS"), 0);
	assert_int_equal(weir_conn_create(&g->e.client, g->e.r, NULL,
					  &g->e.opts), 0);
	g->e.client->user.event = note;
	weir_conn_set_end_fn(g->e.client, on_end, &g->e);
	start_connect(&g->e);
	UNTIL(g->e.r, g->e.client->step == CONN_ANSWER);
	snprintf(command, sizeof(command), "request %u %u", reads, reads);
	tell(&g->peer, command);
}

static void fixture_connect(struct fixture *g, unsigned int reads)
{
	fixture_ask(g, reads);
	tell(&g->peer, "accept");
	assert_int_equal(result_of(g->e.r, &g->e.connected), 0);
	assert_starts_with(tell(&g->peer, "event"), "RDMA_CM_EVENT_ESTABLISHED");
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_conn_destroy(g->e.client), 0);
	plain_end(&g->peer);
	assert_int_equal(weir_srq_destroy(g->srq), 0);
}

static void until_told(struct fixture *g, int why_told)
{
	UNTIL(g->e.r, g->e.n_ends[0]);
	assert_int_equal(g->e.why[0], why_told);
	assert_int_equal(state_of(g->e.client), WEIR_CONN_ENDED);
}

static void disconnect_ends_when_peer_has_answered(void **state)
{
	struct fixture g;

	fixture_init(&g, state);
	fixture_connect(&g, 4);
	rec_init(&g.e.closed);
	STARTS(weir_conn_disconnect(g.e.client, &g.e.closed.op));
	assert_starts_with(tell(&g.peer, "event"),
			   "RDMA_CM_EVENT_DISCONNECTED");
	some_turns(g.e.r, 3);
	assert_int_equal(g.e.closed.calls, 0);
	tell(&g.peer, "disconnect");
	assert_int_equal(finish(g.e.r, &g.e.closed), 0);
	assert_true(has_seen(&g, RDMA_CM_EVENT_DISCONNECTED));
	assert_false(has_seen(&g, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	fixture_end(&g);
}

static void peer_that_disconnects_ends_connection(void **state)
{
	struct fixture g;

	fixture_init(&g, state);
	fixture_connect(&g, 4);
	tell(&g.peer, "disconnect");
	until_told(&g, 0);
	assert_starts_with(tell(&g.peer, "event"),
			   "RDMA_CM_EVENT_DISCONNECTED");
	fixture_end(&g);
}

/* Both are on their way at once. */
static void disconnects_that_cross_end_both(void **state)
{
	struct fixture g;

	fixture_init(&g, state);
	fixture_connect(&g, 4);
	link_is("netem delay 300ms");
	rec_init(&g.e.closed);
	STARTS(weir_conn_disconnect(g.e.client, &g.e.closed.op));
	tell(&g.peer, "disconnect");
	assert_int_equal(finish(g.e.r, &g.e.closed), 0);
	assert_starts_with(tell(&g.peer, "event"),
			   "RDMA_CM_EVENT_DISCONNECTED");
	link_is(NULL);
	fixture_end(&g);
}

static void rejected_client_is_told_at_once(void **state)
{
	struct fixture g;

	fixture_init(&g, state);
	fixture_ask(&g, 4);
	tell(&g.peer, "reject");
	assert_int_equal(result_of(g.e.r, &g.e.connected), -ECONNREFUSED);
	assert_true(has_seen(&g, RDMA_CM_EVENT_REJECTED));
	fixture_end(&g);
}

/* The client says that it is ready; before the peer hears that, it gives up. */
static void accept_given_up_ends_established_connection(void **state)
{
	struct fixture g;

	fixture_init(&g, state);
	g.e.opts.keepalive_ns = WEIR_FOREVER;
	fixture_ask(&g, 4);
	link_is("netem delay 2s");
	tell(&g.peer, "accept");
	assert_int_equal(result_of(g.e.r, &g.e.connected), 0);
	tell(&g.peer, "destroy");
	until_told(&g, -ECONNRESET);
	assert_true(has_seen(&g, RDMA_CM_EVENT_REJECTED));
	link_is(NULL);
	fixture_end(&g);
}

static void message_to_peer_without_receives_ends_at_its_deadline(void **state)
{
	struct weir_message m = { .size = sizeof(m), .data = "hello", .len = 5 };
	struct rec sent;
	struct fixture g;

	fixture_init(&g, state);
	g.e.opts.grace_ns = 100 * WEIR_MSEC;
	fixture_connect(&g, 4);
	rec_init(&sent);
	STARTS(weir_message_send(g.e.client, &sent.op, &m));
	weir_op_set_deadline(&sent.op, weir_reactor_now(g.e.r) + 100 * WEIR_MSEC);
	assert_int_equal(finish(g.e.r, &sent), -ETIMEDOUT);
	until_told(&g, -ETIMEDOUT);
	fixture_end(&g);
}

static void message_waits_for_late_receive_of_peer(void **state)
{
	struct weir_message m = { .size = sizeof(m), .data = "hello", .len = 5 };
	struct rec sent;
	struct fixture g;

	fixture_init(&g, state);
	fixture_connect(&g, 4);
	rec_init(&sent);
	STARTS(weir_message_send(g.e.client, &sent.op, &m));
	some_turns(g.e.r, 20);
	assert_int_equal(sent.calls, 0);
	tell(&g.peer, "receive 1");
	assert_int_equal(finish(g.e.r, &sent), 5);
	fixture_end(&g);
}

/* Jobs to and from the peer's memory. */
struct jobs {
	struct weir_dma *dma;
	struct weir_domain *there;
	struct jrec j;
};

/* A job of 8 bytes to or from addresses that nobody has. */
static int start_job(struct jobs *jobs, bool read)
{
	static struct weir_remote_key key = { .rkey = 1 };
	static char here[8];
	struct weir_operand far =
		weir_operand_at(jobs->there, 4096, sizeof(here));
	struct weir_operand near = weir_operand_mem(here, sizeof(here));

	far.ctx = &key;
	jrec_init(&jobs->j);
	weir_job_copy(&jobs->j.job, read ? near : far, read ? far : near);
	return weir_job_start(jobs->dma, &jobs->j.job);
}

static void jobs_begin(struct fixture *g, struct jobs *jobs)
{
	assert_int_equal(weir_domain_remote_create(&jobs->there, NULL), 0);
	assert_int_equal(weir_conn_attach(g->e.client, jobs->there), 0);
	jobs->dma = start_dma(g->e.r, (struct weir_dma_opts){
			      .staging_size = 64 << 10, .staging_bufs = 2 });
}

static void jobs_end(struct fixture *g, struct jobs *jobs)
{
	some_turns(g->e.r, 3);
	assert_int_equal(weir_dma_destroy(jobs->dma), 0);
	assert_int_equal(weir_conn_detach(g->e.client, jobs->there), 0);
	assert_int_equal(weir_domain_destroy(jobs->there), 0);
}

static void read_from_peer_that_serves_none_is_refused(void **state)
{
	struct jobs jobs;
	struct fixture g;

	fixture_init(&g, state);
	fixture_connect(&g, 0);
	jobs_begin(&g, &jobs);
	assert_int_equal(start_job(&jobs, true), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "responder_resources"));
	jobs_end(&g, &jobs);
	fixture_end(&g);
}

/* A job is started after the link was cut; its QP retries for ever. */
static void begin_cut(struct fixture *g, struct jobs *jobs, void **state)
{
	fixture_init(g, state);
	g->e.opts.retries = 7;
	g->e.opts.grace_ns = 100 * WEIR_MSEC;
	fixture_connect(g, 4);
	jobs_begin(g, jobs);
	link_is("netem loss 100%");
	assert_int_equal(start_job(jobs, false), 0);
}

static void cut_link_ends_posted_job_at_its_deadline(void **state)
{
	struct jobs jobs;
	struct fixture g;

	begin_cut(&g, &jobs, state);
	weir_op_set_deadline(&jobs.j.job.op,
			     weir_reactor_now(g.e.r) + 100 * WEIR_MSEC);
	UNTIL(g.e.r, jobs.j.calls);
	assert_int_equal(jobs.j.res, -ETIMEDOUT);
	until_told(&g, -ETIMEDOUT);
	link_is(NULL);
	jobs_end(&g, &jobs);
	fixture_end(&g);
}

static void cut_link_ends_context_that_stops(void **state)
{
	struct jobs jobs;
	struct rec stop;
	struct fixture g;

	begin_cut(&g, &jobs, state);
	weir_dma_flush(jobs.dma);
	rec_init(&stop);
	STARTS(weir_dma_stop(jobs.dma, &stop.op));
	assert_int_equal(finish(g.e.r, &stop), 0);
	assert_int_equal(jobs.j.res, -ECANCELED);
	link_is(NULL);
	jobs_end(&g, &jobs);
	fixture_end(&g);
}

static void keepalive_reaches_peer_and_detects_cut_link(void **state)
{
	struct fixture g;
	bool before;
	int i;

	fixture_init(&g, state);
	g.e.opts.keepalive_ns = 20 * WEIR_MSEC;
	g.e.opts.ack_timeout = 10;
	fixture_connect(&g, 4);
	for (i = 0; i < 4; i++) {
		before = g.e.client->beat->posted;
		UNTIL(g.e.r, g.e.client->beat->posted != before);
	}
	assert_int_equal(g.e.n_ends[0], 0);
	link_is("netem loss 100%");
	until_told(&g, -ECONNRESET);
	link_is(NULL);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(disconnect_ends_when_peer_has_answered),
		CASE(peer_that_disconnects_ends_connection),
		CASE(disconnects_that_cross_end_both),
		CASE(rejected_client_is_told_at_once),
		CASE(accept_given_up_ends_established_connection),
		CASE(message_to_peer_without_receives_ends_at_its_deadline),
		CASE(message_waits_for_late_receive_of_peer),
		CASE(read_from_peer_that_serves_none_is_refused),
		CASE(cut_link_ends_posted_job_at_its_deadline),
		CASE(cut_link_ends_context_that_stops),
		CASE(keepalive_reaches_peer_and_detects_cut_link),
	};

	return run_over_rdma(cases, N_OF(cases));
}
