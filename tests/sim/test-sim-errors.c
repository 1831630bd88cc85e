/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each errno with which a simulated call may fail comes some time, and no
 * other: what a row of a table has and no seed draws is never tried by any
 * scenario.
 */

#include "tests/support/harness.h"

#include <fcntl.h>
#include <sys/un.h>

#include <weir/dma.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/sim/file.h>
#include <weir/sim/memory.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>

#define SEEDS 400
#define ERRNOS 12

/* Of one seed, in which whatever may fail does. */
struct place {
	struct weir_sim *sim;
	struct weir_reactor *r;
	int file, file2, sv[2], listener, socket;
	struct sockaddr_un addr;
	struct iovec iov;
	struct msghdr msg;
	struct statx st;
	char buf[64];
};

static void place_begin(struct place *w, uint64_t seed)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts),
		.faults = UINT64_C(1) << WEIR_SIM_ERROR,
		.rate = 1,
	};
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };

	memset(w, 0, sizeof(*w));
	assert_int_equal(weir_sim_create(&w->sim, seed, &opts), 0);
	ropts.sim = w->sim;
	assert_int_equal(weir_reactor_create(&w->r, &ropts), 0);
	w->file = weir_sim_file_open(w->sim, "a", O_RDWR | O_CREAT, 0600);
	w->file2 = weir_sim_file_open(w->sim, "b", O_RDWR | O_CREAT, 0600);
	assert_true(w->file >= 0 && w->file2 >= 0);
	assert_int_equal(weir_sim_socket_pair(w->sim, w->sv), 0);
	assert_int_equal(weir_sim_listen(w->sim, &w->listener, "port", 8), 0);
	assert_int_equal(weir_sim_socket(w->sim, &w->socket, "host"), 0);
	w->addr.sun_family = AF_UNIX;
	strcpy(w->addr.sun_path, "port");
	w->iov = (struct iovec){ w->buf, sizeof(w->buf) };
	w->msg.msg_iov = &w->iov;
	w->msg.msg_iovlen = 1;
}

static void place_end(struct place *w)
{
	assert_int_equal(weir_reactor_destroy(w->r), 0);
	assert_int_equal(weir_sim_destroy(w->sim), 0);
}

#define START(name, ...)                                              \
	static int start_##name(struct place *w, struct weir_op *op) \
	{                                                            \
		return weir_##name(w->r, op, __VA_ARGS__);           \
	}

START(read, w->file, w->buf, sizeof(w->buf), 0)
START(readv, w->file, &w->iov, 1, 0)
START(write, w->file, w->buf, sizeof(w->buf), 0)
START(writev, w->file, &w->iov, 1, 0)
START(fsync, w->file, 0)
START(fallocate, w->file, 0, 0, 10)
START(open, AT_FDCWD, "a", O_RDONLY, 0)
START(statx, AT_FDCWD, "a", 0, STATX_BASIC_STATS, &w->st)
START(rename, AT_FDCWD, "a", AT_FDCWD, "c", 0)
START(unlink, AT_FDCWD, "a", 0)
START(copy_range, w->file, 0, w->file2, 0, 10)
START(accept, w->listener, NULL, NULL, 0)
START(connect, w->socket, (struct sockaddr *)&w->addr, sizeof(w->addr))
START(recv, w->sv[0], w->buf, sizeof(w->buf), 0)
START(recvmsg, w->sv[0], &w->msg, 0)
START(send, w->sv[0], w->buf, sizeof(w->buf), 0)
START(sendv, w->sv[0], &w->iov, 1, 0)
START(sendmsg, w->sv[0], &w->msg, 0)

#define ROW(name, ...) { #name, start_##name, { __VA_ARGS__ } }

static const struct row {
	const char *name;
	int (*start)(struct place *w, struct weir_op *op);
	int errnos[ERRNOS];
} rows[] = {
	ROW(read, EIO, ENOMEM, ENOBUFS),
	ROW(readv, EIO, ENOMEM, ENOBUFS),
	ROW(write, EIO, ENOSPC, EDQUOT, EFBIG, EPERM, ENOMEM),
	ROW(writev, EIO, ENOSPC, EDQUOT, EFBIG, EPERM, ENOMEM),
	ROW(fsync, EIO, ENOSPC, EDQUOT),
	ROW(fallocate, EIO, ENOSPC, EDQUOT, EFBIG, EOPNOTSUPP, EPERM),
	ROW(open, EIO, EMFILE, ENFILE, EACCES, ENOMEM, ENOSPC, EROFS),
	ROW(statx, EIO, ENOMEM, EACCES),
	ROW(rename, EIO, ENOSPC, EDQUOT, EACCES, EROFS, ENOMEM),
	ROW(unlink, EIO, EACCES, EBUSY, EROFS, ENOMEM),
	ROW(copy_range, EIO, ENOSPC, EDQUOT, EXDEV, EOPNOTSUPP, EFBIG, ENOMEM),
	ROW(accept, EMFILE, ECONNABORTED, ENFILE, ENOBUFS, ENOMEM, EPERM,
	    EPROTO),
	ROW(connect, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
	    EADDRNOTAVAIL, EAGAIN, ECONNRESET),
	ROW(recv, ECONNRESET, ETIMEDOUT, ENOMEM, EHOSTUNREACH),
	ROW(recvmsg, ECONNRESET, ETIMEDOUT, ENOMEM, EHOSTUNREACH),
	ROW(send, ECONNRESET, EPIPE, ETIMEDOUT, ENOBUFS, ENOMEM, EHOSTUNREACH),
	ROW(sendv, ECONNRESET, EPIPE, ETIMEDOUT, ENOBUFS, ENOMEM, EHOSTUNREACH),
	ROW(sendmsg, ECONNRESET, EPIPE, ETIMEDOUT, ENOBUFS, ENOMEM,
	    EHOSTUNREACH),
};

/* How often each of @errnos came; any other ends the test. */
struct tally {
	const char *name;
	const int *errnos;
	unsigned int n[ERRNOS];
};

static void count(struct tally *t, int64_t res)
{
	for (unsigned int i = 0; i < ERRNOS && t->errnos[i]; i++)
		if (res == -t->errnos[i]) {
			t->n[i]++;
			return;
		}
	fail_msg("%s: %lld is not in its row", t->name, (long long)res);
}

static void all_came(const struct tally *t)
{
	for (unsigned int i = 0; i < ERRNOS && t->errnos[i]; i++)
		if (!t->n[i])
			fail_msg("%s: %s never came in %d seeds", t->name,
				 strerror(t->errnos[i]), SEEDS);
}

static void calls_fail_with_each_errno_of_their_row(void **state)
{
	struct tally tallies[N_OF(rows)] = { 0 };

	(void)state;
	for (unsigned int i = 0; i < N_OF(rows); i++)
		tallies[i] = (struct tally){ .name = rows[i].name,
					     .errnos = rows[i].errnos };
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct place w;
		struct rec rec;

		place_begin(&w, seed);
		for (unsigned int i = 0; i < N_OF(rows); i++) {
			rec_init(&rec);
			assert_int_equal(rows[i].start(&w, &rec.op), 0);
			assert_int_equal(weir_sim_run(w.sim, WEIR_FOREVER, 0),
					 0);
			assert_int_equal(rec.calls, 1);
			count(&tallies[i], rec.res);
		}
		place_end(&w);
	}
	for (unsigned int i = 0; i < N_OF(rows); i++)
		all_came(&tallies[i]);
}

static void on_accept(struct weir_acceptor *acceptor, int fd, void *arg)
{
	(void)acceptor;
	count(arg, fd);
}

static unsigned int sum_of(const struct tally *t)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < ERRNOS; i++)
		sum += t->n[i];
	return sum;
}

/* Of a connection that was aborted the acceptor says nothing. */
static void acceptor_fails_with_each_errno_of_its_row(void **state)
{
	static const int errnos[] = { EMFILE, ECONNABORTED, ENOMEM, 0 };
	struct tally tally = { .name = "acceptor", .errnos = errnos };
	struct weir_acceptor *acceptor;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct weir_sim_stats stats = { .size = sizeof(stats) };
		unsigned int told = sum_of(&tally);
		struct place w;

		place_begin(&w, seed);
		assert_int_equal(weir_acceptor_create(&acceptor, w.r,
						      w.listener, on_accept,
						      &tally), 0);
		(void)weir_sim_connect(w.socket, (struct sockaddr *)&w.addr,
				       sizeof(w.addr));
		(void)weir_sim_run(w.sim, WEIR_MSEC, 0);
		assert_int_equal(weir_sim_stats(w.sim, &stats), 0);
		told = sum_of(&tally) - told;
		assert_int_equal(told, 1);
		for (; told < stats.faults[WEIR_SIM_ERROR]; told++)
			count(&tally, -ECONNABORTED);
		weir_acceptor_destroy(acceptor);
		place_end(&w);
	}
	all_came(&tally);
}

static void job_ended(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t copy_to(struct place *w, struct weir_domain *domain)
{
	int64_t res = 0;
	struct weir_job job;
	struct weir_dma *dma;

	weir_job_init(&job, job_ended);
	job.op.data = &res;
	assert_int_equal(weir_dma_create(&dma, w->r, NULL), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	weir_job_copy(&job, weir_operand_at(domain, 0, sizeof(w->buf)),
		      weir_operand_mem(w->buf, sizeof(w->buf)));
	assert_int_equal(weir_job_start(dma, &job), 0);
	(void)weir_sim_run(w->sim, WEIR_SEC, 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	return res;
}

static void memory_elsewhere_fails_with_each_errno_of_its_row(void **state)
{
	static const int of_peer[] = { EIO, EREMOTEIO, 0 };
	static const int of_card[] = { EIO, 0 };
	struct tally peers = { .name = "peer", .errnos = of_peer };
	struct tally cards = { .name = "card", .errnos = of_card };

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct weir_sim_peer_opts popts = { .size = sizeof(popts),
						    .bytes = 4096 };
		struct weir_sim_card_opts copts = { .size = sizeof(copts),
						    .bytes = 4096 };
		struct weir_sim_peer *peer;
		struct weir_sim_card *card;
		struct place w;

		place_begin(&w, seed);
		assert_int_equal(weir_sim_peer_create(&peer, w.sim, &popts), 0);
		assert_int_equal(weir_sim_card_create(&card, w.sim, &copts), 0);
		count(&peers, copy_to(&w, weir_sim_peer_domain(peer)));
		count(&cards, copy_to(&w, weir_sim_card_domain(card)));
		assert_int_equal(weir_sim_peer_destroy(peer), 0);
		assert_int_equal(weir_sim_card_destroy(card), 0);
		place_end(&w);
	}
	all_came(&peers);
	all_came(&cards);
}

/* A provider's calls, made in a turn of a world that lets those of @name fail. */
struct points {
	struct weir_op op;
	const char *name;
	char failed[256];
};

static void make_calls(struct weir_op *op, int64_t res)
{
	struct points *p = weir_container_of(op, struct points, op);
	size_t i;

	assert_int_equal(res, 0);
	for (i = 0; i < sizeof(p->failed); i++)
		p->failed[i] = (char)weir_fault(p->name);
}

static int failures(struct points *p, uint64_t faults, const char *name)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .faults = faults,
				      .rate = 8 };
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };
	struct weir_reactor *r;
	int n = 0;
	size_t i;

	memset(p, 0, sizeof(*p));
	p->name = name;
	weir_op_init(&p->op, make_calls);
	assert_int_equal(weir_sim_create(&ropts.sim, 7, &opts), 0);
	assert_int_equal(weir_reactor_create(&r, &ropts), 0);
	assert_int_equal(weir_nop(r, &p->op), 0);
	assert_true(weir_sim_run(ropts.sim, WEIR_SEC, 0) >= 0);
	assert_false(weir_op_is_busy(&p->op));
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(ropts.sim), 0);
	for (i = 0; i < sizeof(p->failed); i++)
		n += p->failed[i];
	return n;
}

static void world_decides_which_calls_of_others_fail(void **state)
{
	const uint64_t memory = UINT64_C(1) << WEIR_SIM_NOMEM;
	const uint64_t calls = UINT64_C(1) << WEIR_SIM_SYSCALL;
	struct points a, b;
	int i;

	(void)state;
	assert_in_range(failures(&a, calls, "acme_open"), 10, 100);
	failures(&b, calls, "acme_open");
	assert_memory_equal(a.failed, b.failed, sizeof(a.failed));
	assert_int_equal(failures(&a, calls, "malloc"), 0);
	assert_int_equal(failures(&a, memory, "acme_open"), 0);
	assert_in_range(failures(&a, memory, "malloc"), 10, 100);
	for (i = 0; i < 1000; i++)
		assert_int_equal(weir_fault("acme_open"), 0);
}

static const struct harness_case cases[] = {
	CASE(calls_fail_with_each_errno_of_their_row),
	CASE(acceptor_fails_with_each_errno_of_its_row),
	CASE(memory_elsewhere_fails_with_each_errno_of_its_row),
	CASE(world_decides_which_calls_of_others_fail),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
