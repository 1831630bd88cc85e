/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Operations of our own that end early: jobs, receives, and a read whose reactor
 * is destroyed.  The owner of the memory writes to it in the callback.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/socket.h>

#include "bench/late.h"

/* An operation into @memory, which is painted when it ends. */
struct own {
	const struct late *l;
	struct weir_reactor *r;
	char *memory;
	struct weir_job job;	/* Its op is used for all else, too. */
	struct late_end end;
	uint64_t ended_ns;
};

static void own_ended(struct weir_op *op, int64_t res)
{
	struct own *o = weir_container_of(op, struct own, job.op);

	o->ended_ns = bench_wall_ns();
	late_paint(o->memory, o->l->size);
	late_ended(&o->end, res);
}

static void own_open(struct own *o, const struct late *l)
{
	memset(o, 0, sizeof(*o));
	o->l = l;
	o->memory = malloc(l->size);
	if (!o->memory)
		bench_die("malloc", ENOMEM);
	memset(o->memory, 0, l->size);
	o->r = late_reactor(l);
	weir_job_init(&o->job, own_ended);
}

static void own_close(struct own *o)
{
	bench_must(weir_reactor_destroy(o->r), "weir_reactor_destroy");
	free(o->memory);
}

enum how { CANCEL, DEADLINE, CLOSE, PEER, N_HOWS };

static const char *const hows[] = {
	"cancel", "deadline", "close", "peer closes",
};

/* Returns when its deadline passes, if it has one. */
static uint64_t arm(struct own *o, enum how how)
{
	uint64_t at = bench_wall_ns() + 1 + late_delay(o->l->size);

	weir_op_init(&o->job.op, own_ended);
	o->end.n = 0;
	/* The reactor's clock is the same one. */
	if (how == DEADLINE)
		weir_op_set_deadline(&o->job.op, at);
	return at;
}

/* Turn for some part of the time that it takes; returns when it was ended. */
static uint64_t run_a_while(struct own *o)
{
	uint64_t until = bench_wall_ns() + late_delay(o->l->size);

	do {
		bench_must(weir_reactor_turn(o->r, 0), "turn");
	} while (!o->end.n && bench_wall_ns() < until);
	return bench_wall_ns();
}

/* It has been asked to end, at @begun: what comes of that? */
static void count_own(struct own *o, struct late_sum *sum, uint64_t begun)
{
	late_wait(o->r, &o->end);
	/* A worker or the kernel that went on would be seen within this. */
	usleep(late_settle_us(o->l->size));
	sum->over += o->ended_ns < begun;
	late_count(sum, late_count_bytes(o->memory, o->l->size),
		   o->ended_ns > begun ? o->ended_ns - begun : 0);
}

/* Jobs. */

struct source {
	char *bytes;
	struct weir_domain *file;
	int fd;			/* Of it. */
	struct weir_dma *dma;
};

static void end_job(struct own *o, enum late_engine engine,
		    const struct source *s, enum how how, struct late_sum *sum)
{
	uint64_t begun;

	late_plan(&o->job, engine, weir_operand_mem(o->memory, o->l->size),
		  s->file, s->bytes, o->l->size);
	begun = arm(o, how);
	bench_must(weir_job_start(s->dma, &o->job), "weir_job_start");
	if (how == CANCEL) {
		begun = run_a_while(o);
		if (!o->end.n)
			weir_op_cancel(&o->job.op);
	}
	count_own(o, sum, begun);
}

static void jobs_by(const struct late *l, enum late_engine engine)
{
	struct late_sum sum[2] = { { .tried = 0 }, { .tried = 0 } };
	struct source s = { .bytes = malloc(l->size) };
	struct own o;

	if (!s.bytes)
		bench_die("malloc", ENOMEM);
	memset(s.bytes, LATE_THEIRS, l->size);
	own_open(&o, l);
	s.fd = late_file(s.bytes, l->size);
	s.file = late_domain(s.fd);
	s.dma = late_dma(o.r, engine);
	for (int i = 0; i < 2 * l->n; i++)
		end_job(&o, engine, &s, i & 1 ? DEADLINE : CANCEL, &sum[i & 1]);
	late_tell_weir(l, late_engines[engine], "cancel", &sum[0]);
	late_tell_weir(l, late_engines[engine], "deadline", &sum[1]);
	/* What was cancelled may still be in staging of ours. */
	while (weir_dma_destroy(s.dma) == -EBUSY)
		bench_must(weir_reactor_turn(o.r, WEIR_MSEC), "turn");
	bench_must(weir_domain_destroy(s.file), "weir_domain_destroy");
	close(s.fd);
	own_close(&o);
	free(s.bytes);
}

void late_by_us(const struct late *l)
{
	for (enum late_engine e = 0; e < LATE_ENGINES; e++)
		if (e != LATE_PROCESS && late_wants(l, late_engines[e]))
			jobs_by(l, e);
}

/* Receives. */

/* The other end of a connection: a thread that sends. */
struct sender {
	pthread_t thread;
	int fd;
	char bytes[1 << 16];
};

static void *send_on(void *arg)
{
	struct sender *s = arg;

	while (send(s->fd, s->bytes, sizeof(s->bytes), MSG_NOSIGNAL) > 0)
		;
	return NULL;
}

static void tcp_pair(int fds[2])
{
	static uint32_t host;
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || fds[1] < 0 ||
	    bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		bench_die("a TCP listener", errno);
	/* From another address each time: the ports of one run out. */
	if (bind(fds[1], (struct sockaddr *)&(struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_addr.s_addr = htonl(0x7f000002 +
						 host++ % 0xfffff0),
		}, sizeof(a)) ||
	    connect(fds[1], (struct sockaddr *)&a, sizeof(a)))
		bench_die("a TCP connection", errno);
	fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fds[0] < 0)
		bench_die("accept4", errno);
	close(listener);
}

static void op_done(struct weir_op *op, int64_t res)
{
	late_ended(op->data, res);
}

/* The connection @fd is closed: the receive ends, and then the descriptor. */
static void close_connection(struct own *o, int fd)
{
	struct late_end down = { .n = 0 }, closed = { .n = 0 };
	struct weir_op op;

	weir_op_init(&op, op_done);
	op.data = &down;
	bench_must(weir_shutdown(o->r, &op, fd, SHUT_RDWR), "weir_shutdown");
	late_wait(o->r, &down);
	late_wait(o->r, &o->end);
	weir_op_init(&op, op_done);
	op.data = &closed;
	bench_must(weir_close(o->r, &op, fd), "weir_close");
	late_wait(o->r, &closed);
}

static void end_recv(struct own *o, bool tcp, enum how how,
		     struct sender *s, struct late_sum *sum)
{
	uint64_t begun;
	int fds[2];

	if (tcp)
		tcp_pair(fds);
	else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		bench_die("socketpair", errno);
	s->fd = fds[1];
	begun = arm(o, how);
	bench_must(weir_recv(o->r, &o->job.op, fds[0], o->memory, o->l->size,
			     WEIR_SOCK_ALL), "weir_recv");
	if (pthread_create(&s->thread, NULL, send_on, s))
		bench_die("pthread_create", EAGAIN);
	if (how != DEADLINE)
		begun = run_a_while(o);
	if (how == CANCEL && !o->end.n)
		weir_op_cancel(&o->job.op);
	if (how == PEER)
		shutdown(fds[1], SHUT_RDWR);
	if (how == CLOSE)
		close_connection(o, fds[0]);
	count_own(o, sum, begun);
	if (how != CLOSE)
		close(fds[0]);
	/* TCP would probe a closed window for minutes before it gives up. */
	shutdown(fds[1], SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(fds[1]);
}

static void receives(const struct late *l, bool tcp)
{
	const char *engine = tcp ? "tcp" : "unix";
	static struct sender s;
	struct late_sum sum;
	char ending[32];
	struct own o;

	if (!late_wants(l, engine))
		return;
	memset(s.bytes, LATE_THEIRS, sizeof(s.bytes));
	own_open(&o, l);
	for (enum how how = 0; how < N_HOWS; how++) {
		memset(&sum, 0, sizeof(sum));
		for (int i = 0; i < l->n; i++)
			end_recv(&o, tcp, how, &s, &sum);
		snprintf(ending, sizeof(ending), "recv, %s", hows[how]);
		late_tell_weir(l, engine, ending, &sum);
	}
	own_close(&o);
}

void late_sockets(const struct late *l)
{
	receives(l, false);
	receives(l, true);
}

/* The end of all. */

static void destroy_one(const struct late *l, int fd, char *memory,
			struct late_sum *sum)
{
	struct own o = { .l = l, .memory = memory, .r = late_reactor(l) };
	uint64_t begun;

	weir_job_init(&o.job, own_ended);
	arm(&o, CANCEL);
	bench_must(weir_read(o.r, &o.job.op, fd, memory, l->size, 0),
		   "weir_read");
	begun = run_a_while(&o);
	weir_reactor_stop(o.r);
	bench_must(weir_reactor_run(o.r), "weir_reactor_run");
	bench_must(weir_reactor_destroy(o.r), "weir_reactor_destroy");
	if (o.end.n != 1)
		bench_die("a read has not completed", ENODATA);
	o.ended_ns = bench_wall_ns();
	late_paint(memory, l->size);
	usleep(late_settle_us(l->size));
	late_count(sum, late_count_bytes(memory, l->size), o.ended_ns - begun);
}

void late_destroy(const struct late *l)
{
	struct late_sum sum = { .tried = 0 };
	char *memory = malloc(l->size);
	int fd;

	if (!memory)
		bench_die("malloc", ENOMEM);
	if (!late_wants(l, "read")) {
		free(memory);
		return;
	}
	memset(memory, LATE_THEIRS, l->size);
	fd = late_file(memory, l->size);
	for (int i = 0; i < l->n; i++)
		destroy_one(l, fd, memory, &sum);
	late_tell_weir(l, "read", "destroy", &sum);
	close(fd);
	free(memory);
}
