/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Submission entries that the caller fills in: weir_uring_submit(), over rings
 * of all sizes of entries and completions.
 */

#include "tests/support/harness.h"

#include <linux/nvme_ioctl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <weir/chain.h>
#include <weir/file.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/uring.h>
#include <weir/watch.h>

#include "base/fault.h"
#include "reactor/uring/uring.h"

/* Newer than the headers of liburing 2.3. */
#define NOP_CQE32 (1u << 5)		/* Linux 6.18 */
#define FTRUNCATE 55			/* 6.9 */
#define SOCKET_SIOCINQ 0		/* 6.7 */

#define N_MIXTURE 20000
#define N_OVERFLOW 6000			/* More than completions fit. */
#define NARROW 4

/* Sizes of a ring: those that the program asks for, and what the kernel has. */
struct sizes {
	const char *name;
	uint32_t sqe128, cqe32;
	bool no_mixed;
};

static const struct sizes all_sizes[] = {
	{ "usual", 0, 0, false },
	{ "SQE128", 1, 0, false },
	{ "CQE32", 0, 1, true },
	{ "CQE mixed", 0, 1, false },
	{ "SQE128 CQE32", 1, 1, true },
	{ "SQE128 CQE mixed", 1, 1, false },
};

static int refuse_mixed(const char *name)
{
	return !strcmp(name, "cqe_mixed");
}

static const struct sizes *sizes_of(void **state)
{
	return ((const struct world *)*state)->arg;
}

static struct weir_reactor *make_of(const struct sizes *sizes)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.sqe128 = sizes->sqe128, .cqe32 = sizes->cqe32,
	};
	struct weir_reactor *r;
	int err;

	if (sizes->no_mixed)
		fault_ask(refuse_mixed);
	err = weir_reactor_create(&r, &opts);
	fault_ask(NULL);
	if (err)
		skip_because("%s", weir_why());
	return r;
}

static struct weir_reactor *make(void **state)
{
	return make_of(sizes_of(state));
}

static void unmake(struct weir_reactor *r)
{
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static void copy_entry(struct io_uring_sqe *sqe, void *arg)
{
	static const struct io_uring_sqe zeros;

	assert_memory_equal(sqe, &zeros, sizeof(zeros));
	*sqe = *(struct io_uring_sqe *)arg;
}

static int submit(struct weir_reactor *r, struct rec *rec,
		  struct io_uring_sqe sqe)
{
	sqe.user_data = 12345;	/* The library's is another. */
	return weir_uring_submit(r, &rec->op, copy_entry, &sqe);
}

static struct io_uring_sqe poll_of(int fd, uint32_t events)
{
	return (struct io_uring_sqe){
		.opcode = IORING_OP_POLL_ADD, .fd = fd, .poll32_events = events,
	};
}

static struct io_uring_sqe big_nop(uint64_t a, uint64_t b)
{
	return (struct io_uring_sqe){
		.opcode = IORING_OP_NOP, .off = a, .addr = b,
		.rw_flags = NOP_CQE32,
	};
}

static bool is_big(struct weir_reactor *r)
{
	return uring_of(r)->big_cqes;
}

/* Whether this kernel has a NOP with a completion of 32 bytes. */
static bool has_big_nop(struct weir_reactor *r)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(submit(r, &rec, big_nop(1, 2)));
	return !finish(r, &rec) && is_big(r);
}

static void features_are_those_asked_for(void **state)
{
	const struct sizes *sizes = sizes_of(state);
	struct weir_reactor *r = make(state);
	struct weir_uring_info info = { .size = sizeof(info) }, here = info;

	assert_int_equal(weir_uring_probe(&here), 0);
	assert_int_equal(weir_uring_get_info(r, &info), 0);
	assert_int_equal(!!(info.features & WEIR_URING_SQE128), sizes->sqe128);
	assert_int_equal(!!(info.features & WEIR_URING_CQE32), sizes->cqe32);
	assert_int_equal(!!(info.features & WEIR_URING_CQE_MIXED),
			 sizes->cqe32 && !sizes->no_mixed &&
			 here.features & WEIR_URING_CQE_MIXED);
	assert_int_equal(info.features & ~here.features, 0);
	assert_true(info.max_ops > 0);
	assert_int_equal(info.max_buffers, here.max_buffers);
	assert_int_equal(weir_uring_has_opcode(r, IORING_OP_NOP), 1);
	assert_int_equal(weir_uring_has_opcode(r, 255), 0);
	assert_int_equal(weir_uring_has_opcode(r, 256), 0);
	assert_int_equal(weir_uring_has_opcode(r, UINT32_MAX), 0);
	assert_int_equal(!!strstr(weir_reactor_describe(r), " SQE128"),
			 sizes->sqe128);
	info.size = 4;
	assert_int_equal(weir_uring_get_info(r, &info), -EINVAL);
	unmake(r);
}

static void entry_ends_with_result_of_kernel(void **state)
{
	struct weir_reactor *r = make(state);
	uint64_t extra[2] = { 1, 2 };
	struct weir_op_detail detail;
	struct rec rec;

	rec_init(&rec);
	STARTS(submit(r, &rec, (struct io_uring_sqe){ .opcode = 0 }));
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_uring_get_extra(&rec.op, extra), -EINVAL);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_uring_get_extra(&rec.op, extra), 0);
	assert_int_equal(extra[0] | extra[1], 0);
	assert_int_equal(weir_op_get_detail(&rec.op, &detail), 0);
	assert_int_equal(detail.bytes, 0);
	/* An error is passed on as it is. */
	rec_init(&rec);
	STARTS(submit(r, &rec, (struct io_uring_sqe){
		.opcode = IORING_OP_FSYNC, .fd = -1 }));
	assert_int_equal(finish(r, &rec), -EBADF);
	/* Of other operations there is nothing more. */
	rec_init(&rec);
	STARTS(weir_nop(r, &rec.op));
	finish(r, &rec);
	assert_int_equal(weir_uring_get_extra(&rec.op, extra), -EINVAL);
	assert_starts_with(weir_why(), "weir_uring_get_extra: ");
	unmake(r);
}

static void big_completion_brings_its_words(void **state)
{
	struct weir_reactor *r = make(state);
	uint64_t extra[2];
	struct rec rec;

	if (!is_big(r)) {
		/* The kernel refuses it in such a ring. */
		rec_init(&rec);
		STARTS(submit(r, &rec, big_nop(7, 8)));
		finish(r, &rec);
		assert_true(rec.res == -EINVAL || !rec.res);
	} else if (has_big_nop(r)) {
		rec_init(&rec);
		STARTS(submit(r, &rec, big_nop(UINT64_MAX, 8)));
		assert_int_equal(finish(r, &rec), 0);
		assert_int_equal(weir_uring_get_extra(&rec.op, extra), 0);
		assert_true(extra[0] == UINT64_MAX && extra[1] == 8);
	}
	unmake(r);
}

/*
 * Operations of all kinds, with completions of both sizes: each has its own
 * result, past the end of the ring, too, where the kernel skips a place.
 */
struct mixture {
	struct weir_reactor *r;
	struct rec rec[64];
	uint64_t id[64];
	char byte[64];
	int fd;
	bool has_big;
	uint64_t chance;
};

static uint32_t draw(struct mixture *m, uint32_t n)
{
	m->chance = m->chance * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->chance >> 33) % n;
}

enum { BIG, SMALL, NOP, READ, KINDS };

static int mix_start(struct mixture *m, int i, uint64_t id)
{
	int kind = (int)draw(m, KINDS);

	rec_init(&m->rec[i]);
	m->id[i] = id * KINDS + (uint64_t)kind;
	switch (kind) {
	case BIG:
		return submit(m->r, &m->rec[i], m->has_big ?
			      big_nop(id, ~id) : (struct io_uring_sqe){ 0 });
	case SMALL:
		return submit(m->r, &m->rec[i], (struct io_uring_sqe){ 0 });
	case NOP:
		return weir_nop(m->r, &m->rec[i].op);
	default:
		return weir_read(m->r, &m->rec[i].op, m->fd, &m->byte[i], 1,
				 id % 4096);
	}
}

static void mix_check(struct mixture *m, int i)
{
	uint64_t id = m->id[i] / KINDS, extra[2];
	struct rec *rec = &m->rec[i];

	assert_int_equal(rec->calls, 1);
	switch (m->id[i] % KINDS) {
	case BIG:
		assert_int_equal(rec->res, 0);
		assert_int_equal(weir_uring_get_extra(&rec->op, extra), 0);
		assert_true(!m->has_big ||
			    (extra[0] == id && extra[1] == ~id));
		break;
	case SMALL:
		assert_int_equal(weir_uring_get_extra(&rec->op, extra), 0);
		assert_int_equal(extra[0] | extra[1] | (uint64_t)rec->res, 0);
		break;
	case NOP:
		assert_int_equal(rec->res, 0);
		break;
	default:
		assert_int_equal(rec->res, 1);
		assert_true(is_pattern(&m->byte[i], 1, id % 4096, 3));
	}
}

static void ignore(struct weir_watch *watch, uint32_t events, void *arg)
{
	char c;

	(void)watch, (void)events;
	assert_int_equal(read(*(int *)arg, &c, 1), 1);
}

static void operations_of_all_kinds_have_their_own_results(void **state)
{
	struct mixture m = { .r = make(state), .chance = 1 };
	struct weir_watch *watch;
	int p[2], n;

	m.has_big = has_big_nop(m.r);
	m.fd = test_file(state, "file", 4096, 3);
	pipe_pair(p);
	assert_int_equal(weir_watch_create(&watch, m.r, p[0], WEIR_READABLE,
					   ignore, &p[0]), 0);
	for (uint64_t id = 0; id < scaled(N_MIXTURE); id += (uint64_t)n) {
		n = 1 + (int)draw(&m, N_OF(m.rec));
		for (int i = 0; i < n; i++)
			STARTS(mix_start(&m, i, id + (uint64_t)i));
		if (draw(&m, 4) == 0)
			assert_int_equal(write(p[1], "x", 1), 1);
		for (int i = 0; i < n; i++) {
			UNTIL(m.r, m.rec[i].calls);
			mix_check(&m, i);
		}
	}
	weir_watch_destroy(watch);
	close(m.fd);
	close_pair(p);
	unmake(m.r);
}

static void full_completion_queue_loses_no_entry(void **state)
{
	struct weir_reactor *r = make(state);
	struct rec *recs = calloc(N_OVERFLOW, sizeof(*recs));
	bool has_big = has_big_nop(r);
	uint64_t extra[2];

	assert_non_null(recs);
	uring_of(r)->window = uring_of(r)->limit = 2 * N_OVERFLOW;
	for (uint64_t i = 0; i < N_OVERFLOW; i++) {
		rec_init(&recs[i]);
		STARTS(submit(r, &recs[i], has_big && i % 3 ?
			      big_nop(i, ~i) : (struct io_uring_sqe){ 0 }));
	}
	for (uint64_t i = 0; i < N_OVERFLOW; i++) {
		UNTIL(r, recs[i].calls);
		assert_int_equal(recs[i].res, 0);
		assert_int_equal(weir_uring_get_extra(&recs[i].op, extra), 0);
		if (has_big && i % 3)
			assert_true(extra[0] == i && extra[1] == ~i);
	}
	free(recs);
	unmake(r);
}

static void entry_without_capacity_waits_with_all_its_bytes(void **state)
{
	struct weir_reactor *r = make(state);
	struct uring *u = uring_of(r);
	bool has_big = has_big_nop(r);
	struct rec recs[8 * NARROW];
	uint64_t extra[2];

	some_turns(r, 2);
	u->window = u->limit = NARROW;
	for (uint64_t i = 0; i < N_OF(recs); i++) {
		rec_init(&recs[i]);
		STARTS(submit(r, &recs[i], has_big ? big_nop(i, i + 1) :
			      (struct io_uring_sqe){ 0 }));
	}
	assert_false(op_queue_empty(&u->backlog));
	assert_int_equal(uring_in_flight(u), NARROW);
	assert_int_equal(weir_op_cancel(&recs[2 * NARROW].op), 0);
	for (uint64_t i = 0; i < N_OF(recs); i++) {
		UNTIL(r, recs[i].calls);
		assert_int_equal(recs[i].res, i == 2 * NARROW ? -ECANCELED : 0);
		assert_int_equal(weir_uring_get_extra(&recs[i].op, extra), 0);
		if (has_big && i != 2 * NARROW)
			assert_true(extra[0] == i && extra[1] == i + 1);
		else
			assert_int_equal(extra[0] | extra[1], 0);
	}
	assert_int_equal(uring_in_flight(u), 0);
	unmake(r);
}

/* The kernel has no opcode that shows them, but the queue has. */
static void fill_long(struct io_uring_sqe *sqe, void *arg)
{
	(void)arg;
	memset(sqe + 1, 0x5a, sizeof(*sqe));
}

static void entry_of_128_bytes_reaches_the_queue(void **state)
{
	struct weir_reactor *r = make(state);
	struct uring *u = uring_of(r);
	const char *at;
	struct rec recs[2];
	unsigned int tail;

	for (int waits = 0; waits < 2; waits++) {
		some_turns(r, 2);
		rec_init(&recs[0]);
		rec_init(&recs[1]);
		if (!sizes_of(state)->sqe128) {
			assert_int_equal(weir_uring_submit(r, &recs[0].op,
							   fill_long, NULL),
					 -EINVAL);
			assert_non_null(strstr(weir_why(), ".sqe128"));
			continue;
		}
		/* At once, and from the backlog. */
		if (waits)
			u->window = u->limit = 1;
		tail = u->ring.sq.sqe_tail;
		STARTS(weir_uring_submit(r, &recs[0].op, fill_long, NULL));
		STARTS(weir_uring_submit(r, &recs[1].op, fill_long, NULL));
		UNTIL(r, recs[0].calls && recs[1].calls);
		for (unsigned int i = 0; i < 2; i++) {
			at = (const char *)u->ring.sq.sqes +
			     128 * ((tail + i) & u->ring.sq.ring_mask);
			for (int j = 64; j < 128; j++)
				assert_int_equal(at[j], 0x5a);
			assert_int_equal(recs[i].res, 0);
		}
	}
	unmake(r);
}

static void waiting_entry_is_cancelled_in_every_way(void **state)
{
	struct weir_reactor *r = make(state);
	struct rec rec[2];
	int p[2];

	pipe_pair(p);
	for (int way = 0; way < 4; way++) {
		rec_init(&rec[0]);
		rec_init(&rec[1]);
		if (way == 1)
			weir_op_set_deadline(&rec[0].op, weir_reactor_now(r) +
					     WEIR_MSEC);
		STARTS(submit(r, &rec[0], poll_of(p[0], POLLIN)));
		if (way > 1) {
			some_turns(r, 3);
			assert_int_equal(rec[0].calls, 0);
		}
		if (way == 3)
			weir_reactor_stop(r);
		else if (way != 1)
			assert_int_equal(weir_op_cancel(&rec[0].op), 0);
		UNTIL(r, rec[0].calls);
		assert_int_equal(rec[0].res,
				 way == 1 ? -ETIMEDOUT : -ECANCELED);
	}
	assert_int_equal(submit(r, &rec[1], poll_of(p[0], POLLIN)), -ESHUTDOWN);
	unmake(r);
	close_pair(p);
}

static int misses;

static int miss(const char *name)
{
	return !strcmp(name, "cancel") && misses-- > 0;
}

static void cancel_of_entry_is_repeated(void **state)
{
	struct weir_reactor *r = make(state);
	struct rec rec;
	int p[2];

	pipe_pair(p);
	rec_init(&rec);
	STARTS(submit(r, &rec, poll_of(p[0], POLLIN)));
	some_turns(r, 2);
	misses = 3;
	fault_ask(miss);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	fault_ask(NULL);
	unmake(r);
	close_pair(p);
}

static void late_entry_touches_nothing(void **state)
{
	struct weir_reactor *r = make(state);
	int fd = test_file(state, "file", 100, 1);
	uint64_t extra[2];
	struct stat st;
	struct rec rec;

	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r));
	STARTS(submit(r, &rec, (struct io_uring_sqe){
		.opcode = IORING_OP_FALLOCATE, .fd = fd, .addr = 4096 }));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	assert_int_equal(weir_uring_get_extra(&rec.op, extra), -EINVAL);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 100);
	close(fd);
	unmake(r);
}

static void entry_that_breaks_the_account_is_refused(void **state)
{
	static const struct io_uring_sqe bad[] = {
		{ .flags = IOSQE_IO_LINK },
		{ .flags = IOSQE_IO_HARDLINK },
		{ .flags = IOSQE_IO_DRAIN },
		{ .flags = IOSQE_BUFFER_SELECT },
		{ .flags = IOSQE_CQE_SKIP_SUCCESS },
		{ .flags = 0x80 },
		{ .opcode = IORING_OP_ASYNC_CANCEL },
		{ .opcode = IORING_OP_POLL_REMOVE },
		{ .opcode = IORING_OP_TIMEOUT_REMOVE },
		{ .opcode = IORING_OP_LINK_TIMEOUT },
		{ .opcode = IORING_OP_PROVIDE_BUFFERS },
		{ .opcode = IORING_OP_REMOVE_BUFFERS },
		{ .opcode = IORING_OP_FILES_UPDATE },
		{ .opcode = IORING_OP_POLL_ADD, .len = IORING_POLL_ADD_MULTI },
		{ .opcode = IORING_OP_ACCEPT,
		  .ioprio = IORING_ACCEPT_MULTISHOT },
		{ .opcode = IORING_OP_RECV, .ioprio = IORING_RECV_MULTISHOT },
		{ .opcode = IORING_OP_RECVMSG,
		  .ioprio = IORING_RECV_MULTISHOT },
		{ .opcode = IORING_OP_TIMEOUT, .timeout_flags = 1u << 6 },
		{ .opcode = IORING_OP_URING_CMD, .uring_cmd_flags = 1u << 1 },
		{ .opcode = 49 }, /* READ_MULTISHOT */
		{ .opcode = 58 }, /* RECV_ZC */
		{ .opcode = IORING_OP_ACCEPT, .file_index = 1 },
		{ .opcode = IORING_OP_OPENAT, .file_index = 1 },
		{ .opcode = IORING_OP_OPENAT2, .file_index = 1 },
		{ .opcode = IORING_OP_SOCKET, .file_index = UINT32_MAX },
		{ .opcode = IORING_OP_CLOSE, .file_index = 1 },
		{ .opcode = 62, .file_index = 1 }, /* PIPE */
	};
	struct weir_reactor *r = make(state);
	struct rec rec, before;

	rec_init(&rec);
	before = rec;
	for (size_t i = 0; i < N_OF(bad); i++) {
		if (submit(r, &rec, bad[i]) != -EINVAL)
			fail_msg("entry %zu was not refused", i);
		assert_starts_with(weir_why(), "weir_uring_submit: ");
		assert_memory_equal(&rec, &before, sizeof(rec));
	}
	assert_int_equal(weir_uring_submit(r, &rec.op, NULL, NULL), -EINVAL);
	STARTS(submit(r, &rec, (struct io_uring_sqe){ .flags = IOSQE_ASYNC }));
	assert_int_equal(submit(r, &rec, (struct io_uring_sqe){ 0 }), -EINVAL);
	assert_int_equal(finish(r, &rec), 0);
	rec.op.fn = NULL;
	assert_int_equal(submit(r, &rec, (struct io_uring_sqe){ 0 }), -EINVAL);
	unmake(r);
}

/* It starts what it likes, and cannot take the reactor away. */
struct meddler {
	struct weir_reactor *r;
	struct rec nops[300];	/* More than the submission queue holds. */
};

static void meddle(struct io_uring_sqe *sqe, void *arg)
{
	struct meddler *m = arg;

	sqe->opcode = IORING_OP_FSYNC;
	sqe->fd = -1;
	for (size_t i = 0; i < N_OF(m->nops); i++) {
		rec_init(&m->nops[i]);
		assert_int_equal(weir_nop(m->r, &m->nops[i].op), 0);
	}
	assert_int_equal(weir_reactor_destroy(m->r), -EBUSY);
	assert_int_equal(weir_reactor_turn(m->r, 0), -EBUSY);
}

static void function_that_fills_entry_may_start_operations(void **state)
{
	struct meddler m = { .r = make(state) };
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_uring_submit(m.r, &rec.op, meddle, &m));
	assert_int_equal(finish(m.r, &rec), -EBADF);
	for (size_t i = 0; i < N_OF(m.nops); i++) {
		UNTIL(m.r, m.nops[i].calls);
		assert_int_equal(m.nops[i].res, 0);
	}
	unmake(m.r);
}

/* Which makes another ring. */
static void give_to_a_host(struct io_uring_sqe *sqe, void *arg)
{
	sqe->opcode = IORING_OP_NOP;
	assert_true(weir_reactor_fd(arg) >= 0);
}

static void function_that_fills_entry_may_ask_for_a_descriptor(void **state)
{
	struct weir_reactor *r = make(state);
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_uring_submit(r, &rec.op, give_to_a_host, r));
	assert_int_equal(finish(r, &rec), 0);
	unmake(r);
}

static void full_reactor_refuses_entry(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.ops_max = 1,
	};
	struct weir_reactor *r;
	struct rec rec, other;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	rec_init(&rec);
	rec_init(&other);
	STARTS(submit(r, &rec, (struct io_uring_sqe){ 0 }));
	assert_int_equal(submit(r, &other, (struct io_uring_sqe){ 0 }),
			 -EAGAIN);
	assert_int_equal(finish(r, &rec), 0);
	STARTS(submit(r, &other, (struct io_uring_sqe){ 0 }));
	assert_int_equal(finish(r, &other), 0);
	unmake(r);
}

/* Its result comes first, and its memory is free later. */
static void send_without_a_copy_ends_when_its_memory_is_free(void **state)
{
	struct weir_reactor *r = make(state);
	char out[100] = "hello", in[100];
	struct rec rec;
	int sv[2];

	tcp_pair(sv);
	rec_init(&rec);
	STARTS(submit(r, &rec, (struct io_uring_sqe){
		.opcode = IORING_OP_SEND_ZC, .fd = sv[0],
		.addr = (uintptr_t)out, .len = sizeof(out) }));
	finish(r, &rec);
	if (rec.res != -EINVAL && rec.res != -EOPNOTSUPP) {
		assert_int_equal(rec.res, sizeof(out));
		assert_int_equal(recv(sv[1], in, sizeof(in), MSG_WAITALL),
				 sizeof(in));
		assert_memory_equal(in, out, sizeof(in));
	}
	assert_int_equal(uring_in_flight(uring_of(r)), 0);
	close_pair(sv);
	unmake(r);
}

static void opcodes_that_weir_lacks_do_their_work(void **state)
{
	struct weir_reactor *r = make(state);
	int fd = test_file(state, "file", 8192, 1);
	struct rec rec;
	struct stat st;
	int sv[2];

	rec_init(&rec);
	STARTS(submit(r, &rec, (struct io_uring_sqe){
		.opcode = IORING_OP_FADVISE, .fd = fd, .len = 4096,
		.fadvise_advice = POSIX_FADV_WILLNEED }));
	assert_int_equal(finish(r, &rec), 0);
	if (weir_uring_has_opcode(r, FTRUNCATE)) {
		rec_init(&rec);
		STARTS(submit(r, &rec, (struct io_uring_sqe){
			.opcode = FTRUNCATE, .fd = fd, .off = 77 }));
		assert_int_equal(finish(r, &rec), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 77);
	}
	/* A registered file, which has the descriptor's number. */
	if (weir_fd_register(r, fd) == 1) {
		rec_init(&rec);
		STARTS(submit(r, &rec, (struct io_uring_sqe){
			.opcode = IORING_OP_FSYNC, .fd = fd,
			.flags = IOSQE_FIXED_FILE }));
		assert_int_equal(finish(r, &rec), 0);
		weir_fd_unregister(r, fd);
	}
	/* A command to a socket: how many bytes are there? */
	tcp_pair(sv);
	assert_int_equal(write(sv[1], "12345", 5), 5);
	rec_init(&rec);
	STARTS(submit(r, &rec, (struct io_uring_sqe){
		.opcode = IORING_OP_URING_CMD, .fd = sv[0],
		.cmd_op = SOCKET_SIOCINQ }));
	finish(r, &rec);
	if (rec.res != -EOPNOTSUPP)
		assert_int_equal(rec.res, 5);
	close_pair(sv);
	close(fd);
	unmake(r);
}

static int step_done;

static int step_start(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_NOP };

	(void)chain, (void)step;
	step_done++;
	return weir_uring_submit(arg, op, copy_entry, &sqe);
}

static void entry_is_a_step_of_a_chain(void **state)
{
	struct weir_reactor *r = make(state);
	struct weir_chain *chain;
	struct rec rec;

	step_done = 0;
	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, r, NULL), 0);
	assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST, step_start,
					   r), 0);
	assert_int_equal(weir_chain_add_op(chain, 0, step_start, r), 1);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(step_done, 2);
	assert_int_equal(weir_chain_destroy(chain), 0);
	unmake(r);
}

/* A drive: of a flush nothing returns but its end; a controller tells what it
 * is. */
static void fill_nvme(struct io_uring_sqe *sqe, void *arg)
{
	const struct nvme_uring_cmd *cmd = arg;

	sqe->opcode = IORING_OP_URING_CMD;
	memcpy(sqe->cmd, cmd, sizeof(*cmd));
}

struct drive {
	struct nvme_uring_cmd cmd;
	uint32_t op;
	int fd;
};

static void fill_drive(struct io_uring_sqe *sqe, void *arg)
{
	struct drive *drive = arg;

	fill_nvme(sqe, &drive->cmd);
	sqe->fd = drive->fd;
	sqe->cmd_op = drive->op;
}

static void drive_does_commands(void **state)
{
	struct drive drive = { .op = NVME_URING_CMD_IO };
	static char page[4096];
	struct weir_reactor *r;
	uint64_t extra[2];
	struct rec rec;

	if (!sizes_of(state)->sqe128 || !sizes_of(state)->cqe32)
		return;
	drive.fd = open("/dev/ng0n1", O_RDONLY | O_CLOEXEC);
	if (drive.fd < 0)
		skip_because("there is no /dev/ng0n1");
	r = make(state);
	drive.cmd.nsid = (uint32_t)ioctl(drive.fd, NVME_IOCTL_ID);
	rec_init(&rec);
	STARTS(weir_uring_submit(r, &rec.op, fill_drive, &drive));
	assert_int_equal(finish(r, &rec), 0);
	close(drive.fd);

	/* Identify. */
	drive.fd = open("/dev/nvme0", O_RDONLY | O_CLOEXEC);
	assert_true(drive.fd >= 0);
	drive.op = NVME_URING_CMD_ADMIN;
	drive.cmd = (struct nvme_uring_cmd){
		.opcode = 0x06, .cdw10 = 1, .addr = (uintptr_t)page,
		.data_len = sizeof(page),
	};
	rec_init(&rec);
	STARTS(weir_uring_submit(r, &rec.op, fill_drive, &drive));
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_uring_get_extra(&rec.op, extra), 0);
	assert_true(page[4] > ' '); /* A serial number. */
	/* An opcode that there is not: the drive's status is the result. */
	drive.cmd.opcode = 0xbf;
	rec_init(&rec);
	STARTS(weir_uring_submit(r, &rec.op, fill_drive, &drive));
	assert_true(finish(r, &rec) != 0);
	close(drive.fd);
	unmake(r);
}

/* What concerns no ring, or all. */

static void assert_no_entries(struct weir_reactor *r)
{
	struct weir_uring_info info = { .size = sizeof(info) };
	struct rec rec;

	rec_init(&rec);
	assert_int_equal(submit(r, &rec, (struct io_uring_sqe){ 0 }),
			 -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_uring_submit: the reactor's "
			   "backend is ");
	assert_int_equal(weir_uring_has_opcode(r, 0), -EOPNOTSUPP);
	assert_int_equal(weir_uring_get_info(r, &info), -EOPNOTSUPP);
	unmake(r);
}

static void reactor_without_ring_refuses_entries(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_EV,
		.sqe128 = 1, .cqe32 = 1,
	};
	struct weir_reactor *r;

	(void)state;
	if (!weir_reactor_create(&r, &opts))
		assert_no_entries(r);
	opts.backend = WEIR_BACKEND_SIM;
	assert_int_equal(weir_sim_create(&opts.sim, 1, NULL), 0);
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_no_entries(r);
	assert_int_equal(weir_sim_destroy(opts.sim), 0);
}

static int refuse_setup(const char *name)
{
	return !strcmp(name, "io_uring_setup");
}

static void kernel_without_large_entries_has_no_such_ring(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.sqe128 = 1,
	};
	struct weir_reactor *r;

	(void)state;
	fault_ask(refuse_setup);
	assert_int_equal(weir_reactor_create(&r, &opts), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "leave .sqe128 and .cqe32 at 0"));
	opts.backend = WEIR_BACKEND_AUTO;
	if (!weir_reactor_create(&r, &opts)) {
		assert_string_equal(weir_reactor_backend(r), "ev");
		unmake(r);
	}
	fault_ask(NULL);
	opts.sqe128 = 2;
	assert_int_equal(weir_reactor_create(&r, &opts), -EINVAL);
	opts.sqe128 = 0;
	opts.cqe32 = 2;
	assert_int_equal(weir_reactor_create(&r, &opts), -EINVAL);
}

/* The ring for a host replaces the first one, and has its sizes. */
static void ring_for_a_host_has_the_same_sizes(void **state)
{
	struct weir_reactor *r = make(state);
	struct rec rec;
	int p[2];

	assert_true(weir_reactor_fd(r) >= 0);
	assert_int_equal(uring_of(r)->sqe_shift, sizes_of(state)->sqe128);
	assert_int_equal(is_big(r), sizes_of(state)->cqe32);
	pipe_pair(p);
	rec_init(&rec);
	STARTS(submit(r, &rec, poll_of(p[0], POLLIN)));
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(finish(r, &rec), POLLIN);
	unmake(r);
	close_pair(p);
}

static const struct harness_case sized[] = {
	CASE(features_are_those_asked_for),
	CASE(entry_ends_with_result_of_kernel),
	CASE(big_completion_brings_its_words),
	CASE(operations_of_all_kinds_have_their_own_results),
	CASE(full_completion_queue_loses_no_entry),
	CASE(entry_without_capacity_waits_with_all_its_bytes),
	CASE(entry_of_128_bytes_reaches_the_queue),
	CASE(waiting_entry_is_cancelled_in_every_way),
	CASE(cancel_of_entry_is_repeated),
	CASE(late_entry_touches_nothing),
	CASE(entry_that_breaks_the_account_is_refused),
	CASE(function_that_fills_entry_may_start_operations),
	CASE(function_that_fills_entry_may_ask_for_a_descriptor),
	CASE(full_reactor_refuses_entry),
	CASE(send_without_a_copy_ends_when_its_memory_is_free),
	CASE(opcodes_that_weir_lacks_do_their_work),
	CASE(entry_is_a_step_of_a_chain),
	CASE(ring_for_a_host_has_the_same_sizes),
	CASE(drive_does_commands),
};

static const struct harness_case plain[] = {
	CASE(reactor_without_ring_refuses_entries),
	CASE(kernel_without_large_entries_has_no_such_ring),
};

int main(void)
{
	static struct harness_case cases[N_OF(all_sizes) * N_OF(sized) +
					 N_OF(plain)];
	static char names[N_OF(cases)][128];
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
	};
	struct weir_reactor *r;
	size_t n = 0;

	/* Each case names its backend; the probe would refuse by that of the
	 * environment. */
	unsetenv("WEIR_BACKEND");
	if (weir_reactor_create(&r, &opts)) {
		printf("1..0 # SKIP %s\n", weir_why());
		return 0;
	}
	unmake(r);
	for (size_t i = 0; i < N_OF(plain); i++)
		cases[n++] = plain[i];
	for (size_t i = 0; i < N_OF(all_sizes); i++)
		for (size_t j = 0; j < N_OF(sized); j++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s",
				 all_sizes[i].name, sized[j].name);
			cases[n] = sized[j];
			cases[n].name = names[n];
			cases[n].arg = &all_sizes[i];
		}
	return harness_run_plain(cases, n);
}
