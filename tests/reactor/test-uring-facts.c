/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What io_uring answers, as reactor/uring relies on it: of the kernel that is here,
 * and, in another program, of the model of tests/support/mock-uring.h, in each
 * of its versions.
 */

#include "tests/support/harness.h"

#include <liburing.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <sys/utsname.h>

#ifndef IORING_FEAT_REG_REG_RING
#define IORING_FEAT_REG_REG_RING (1u << 13)
#endif

#define REPORT_USAGE (1u << 3)	/* Newer than the headers may be. */
#define COPIED ((int32_t)(1u << 31))
#define MORE IORING_CQE_F_MORE

#define RECVSEND_BUNDLE (1u << 4) /* Linux 6.10 */

static struct io_uring ring;
static int version;		/* 100 * major + minor */

static struct {
	uint64_t data;
	int32_t res;
	uint32_t flags;
} got[16];
static int n_got;

static void set_version(const char *release)
{
	int major, minor;

	if (sscanf(release, "%d.%d", &major, &minor) == 2)
		version = 100 * major + minor;
}

/* The version of the model, or that of the kernel. */
static void choose(void **state)
{
	const struct world *w = *state;
	struct utsname u;

	if (harness_model) {
		harness_model->calm(w->backend);
		set_version(strchr(w->backend, '-') + 1);
	} else if (!uname(&u)) {
		set_version(u.release);
	}
}

static int open_ring(unsigned int entries, unsigned int flags)
{
	struct io_uring_params p = { .flags = flags };

	n_got = 0;
	return io_uring_queue_init_params(entries, &ring, &p);
}

static struct io_uring_sqe *entry(unsigned int op, int fd, uint64_t data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		abort();
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = (uint8_t)op;
	sqe->fd = fd;
	sqe->user_data = data;
	return sqe;
}

static struct io_uring_sqe *transfer(unsigned int op, int fd, uint64_t data,
				     void *p, size_t len)
{
	struct io_uring_sqe *sqe = entry(op, fd, data);

	sqe->addr = (uintptr_t)p;
	sqe->len = (uint32_t)len;
	return sqe;
}

static void poll_for(int fd, uint64_t data, unsigned int len)
{
	struct io_uring_sqe *sqe = entry(IORING_OP_POLL_ADD, fd, data);

	sqe->poll32_events = POLLIN;
	sqe->len = len;
}

static struct io_uring_sqe *cancel(uint64_t what, uint64_t data)
{
	struct io_uring_sqe *sqe = entry(IORING_OP_ASYNC_CANCEL, -1, data);

	sqe->addr = what;
	return sqe;
}

/* Take one completion more; false: none came in that time. */
static bool take(long ns)
{
	struct __kernel_timespec ts = { .tv_sec = ns / 1000000000,
					.tv_nsec = ns % 1000000000 };
	struct io_uring_cqe *cqe = NULL;
	int err;

	io_uring_submit(&ring);
	do
		err = io_uring_wait_cqe_timeout(&ring, &cqe, &ts);
	while (err == -EINTR);
	if (err || !cqe)
		return false;
	assert_true(n_got < (int)N_OF(got));
	got[n_got].data = cqe->user_data;
	got[n_got].res = cqe->res;
	got[n_got++].flags = cqe->flags;
	io_uring_cqe_seen(&ring, cqe);
	return true;
}

/* The next completion of @data: its result, and its flags in *@flags. */
static int32_t result_of(uint64_t data, uint32_t *flags)
{
	int32_t res;
	int i;

	for (i = 0; ; i++) {
		if (i == n_got && !take(10000000000))
			fail_msg("no completion of %d",
				 (int)data);
		if (got[i].data == data)
			break;
	}
	res = got[i].res;
	*flags = got[i].flags & ~IORING_CQE_F_SOCK_NONEMPTY;
	memmove(&got[i], &got[i + 1], (size_t)(n_got - i - 1) * sizeof(*got));
	n_got--;
	return res;
}

static void expect(uint64_t data, int32_t res, uint32_t flags)
{
	uint32_t has;

	assert_int_equal(result_of(data, &has), res);
	assert_int_equal(has, flags);
}

static void expect_nothing(void)
{
	if (n_got || take(2000000))
		fail_msg("%d has %d", (int)got[0].data, got[0].res);
}

static void expect_cancelled(uint64_t what)
{
	expect_nothing();
	cancel(what, 99);
	expect(99, 0, 0);
	expect(what, -ECANCELED, 0);
}

static void begin(void)
{
	assert_int_equal(open_ring(8, 0), 0);
}

static void finish_ring(void)
{
	expect_nothing();
	io_uring_queue_exit(&ring);
}

static void setup_knows_flags_of_its_version(void **state)
{
	static const struct { unsigned int flags; int since; } row[] = {
		{ IORING_SETUP_SUBMIT_ALL, 518 },
		{ IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 519 },
		{ IORING_SETUP_SQE128 | IORING_SETUP_CQE32, 519 },
		{ IORING_SETUP_SINGLE_ISSUER, 600 },
		{ IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 601 },
		{ IORING_SETUP_DEFER_TASKRUN, 9999 },
		{ 1u << 18 /* CQE_MIXED */, 618 },
		{ 1u << 30, 9999 },
	};
	int err;

	choose(state);
	for (size_t i = 0; i < N_OF(row); i++) {
		err = open_ring(8, row[i].flags);
		assert_int_equal(err, version < row[i].since ? -EINVAL : 0);
		if (!err)
			finish_ring();
	}
	begin();
	assert_int_equal(!!(ring.features & IORING_FEAT_EXT_ARG), 1);
	assert_int_equal(!!(ring.features & IORING_FEAT_CQE_SKIP),
			 version >= 517);
	assert_int_equal(!!(ring.features & IORING_FEAT_REG_REG_RING),
			 version >= 603);
	finish_ring();
}

static void probe_tells_the_last_opcode(void **state)
{
	static const struct { int version, last; } row[] = {
		{ 511, 36 }, { 515, 39 }, { 519, 46 }, { 601, 48 }, { 618, 62 },
	};
	struct io_uring_probe *p = calloc(1, sizeof(*p) +
					  256 * sizeof(p->ops[0]));

	choose(state);
	assert_non_null(p);
	begin();
	assert_int_equal(io_uring_register_probe(&ring, p, 256), 0);
	for (size_t i = 0; i < N_OF(row); i++)
		if (row[i].version == version)
			assert_int_equal(p->last_op, row[i].last);
	assert_true(io_uring_opcode_supported(p, IORING_OP_UNLINKAT));
	assert_int_equal(!!io_uring_opcode_supported(p, IORING_OP_SEND_ZC),
			 version >= 600);
	finish_ring();
	free(p);
}

static void cancel_of_nothing_is_enoent(void **state)
{
	choose(state);
	begin();
	cancel(7, 1);
	expect(1, -ENOENT, 0);
	finish_ring();
}

static void cancel_ends_what_waits(void **state)
{
	char c[8];
	int sv[2], p[2];

	choose(state);
	begin();
	socket_pair(sv);
	pipe_pair(p);
	transfer(IORING_OP_RECV, sv[0], 1, c, sizeof(c));
	expect_cancelled(1);
	poll_for(p[0], 2, 0);
	expect_cancelled(2);
	cancel(2, 3);
	expect(3, -ENOENT, 0);
	if (version >= 604) {	/* Before, a thread reads a pipe. */
		transfer(IORING_OP_READ, p[0], 4, c, sizeof(c));
		expect_cancelled(4);
	}
	finish_ring();
	close_pair(sv);
	close_pair(p);
}

static void cancel_is_silent_if_it_succeeds_and_was_asked_to(void **state)
{
	int p[2];

	choose(state);
	begin();
	pipe_pair(p);
	poll_for(p[0], 1, 0);
	expect_nothing();
	cancel(1, 2)->flags = IOSQE_CQE_SKIP_SUCCESS;
	if (version >= 517) {
		expect(1, -ECANCELED, 0);
		cancel(1, 2)->flags = IOSQE_CQE_SKIP_SUCCESS;
		expect(2, -ENOENT, 0);
	} else {
		expect(2, -EINVAL, 0);
		expect_cancelled(1);
	}
	finish_ring();
	close_pair(p);
}

static void request_keeps_the_file_of_a_closed_descriptor(void **state)
{
	char c[8];
	int sv[2];

	choose(state);
	begin();
	socket_pair(sv);
	transfer(IORING_OP_RECV, sv[0], 1, c, sizeof(c));
	expect_nothing();
	close(sv[0]);
	assert_int_equal(write(sv[1], "hello", 5), 5);
	expect(1, 5, 0);
	finish_ring();
	close(sv[1]);
}

static void descriptor_decides_the_error(void **state)
{
	int file = test_file(state, "file", 10, 1);
	char c[8];

	choose(state);
	begin();
	transfer(IORING_OP_RECV, 9999, 1, c, sizeof(c));
	expect(1, -EBADF, 0);
	transfer(IORING_OP_RECV, file, 2, c, sizeof(c));
	expect(2, -ENOTSOCK, 0);
	poll_for(file, 3, 0);
	expect(3, POLLIN, 0);
	transfer(IORING_OP_READ, file, 4, c, 0);
	expect(4, 0, 0);
	finish_ring();
	close(file);
}

static void unknown_bits_of_an_entry_are_einval(void **state)
{
	char c[8];
	int sv[2];

	choose(state);
	begin();
	socket_pair(sv);
	entry(IORING_OP_POLL_ADD, sv[0], 1)->ioprio = 1 << 14;
	expect(1, -EINVAL, 0);
	entry(IORING_OP_ACCEPT, sv[0], 2)->ioprio = 1 << 14;
	expect(2, -EINVAL, 0);
	if (version >= 519) {
		transfer(IORING_OP_RECV, sv[0], 3, c, 8)->ioprio = 1 << 14;
		expect(3, -EINVAL, 0);
	}
	entry(200, sv[0], 4);
	expect(4, -EINVAL, 0);
	finish_ring();
	close_pair(sv);
}

/* The rest stays in the queue. */
static void submission_ends_at_a_refused_entry_unless_told_otherwise(
	void **state)
{
	int n;

	choose(state);
	for (int all = 0; all < 2; all++) {
		if (all && version < 518)
			break;
		assert_int_equal(open_ring(8, all ? IORING_SETUP_SUBMIT_ALL :
						    0), 0);
		entry(IORING_OP_POLL_ADD, 0, 1)->ioprio = 1 << 14;
		entry(IORING_OP_NOP, -1, 2);
		n = io_uring_submit(&ring);
		assert_int_equal(n, all ? 2 : 1);
		expect(1, -EINVAL, 0);
		expect(2, 0, 0);
		finish_ring();
	}
}

static void multishot_poll_tells_each_wakeup(void **state)
{
	char c[8];
	int p[2];

	choose(state);
	begin();
	pipe_pair(p);
	poll_for(p[0], 1, IORING_POLL_ADD_MULTI);
	if (version < 513) {
		expect(1, -EINVAL, 0);
		finish_ring();
		close_pair(p);
		return;
	}
	expect_nothing();
	for (int i = 0; i < 2; i++) {	/* Readable already the second time. */
		assert_int_equal(write(p[1], "x", 1), 1);
		expect(1, POLLIN, MORE);
	}
	assert_int_equal(read(p[0], c, sizeof(c)), 2);
	expect_nothing();
	close(p[1]);
	expect(1, POLLHUP, MORE);
	expect_cancelled(1);
	finish_ring();
	close(p[0]);
}

static int listen_at(struct sockaddr_in *a)
{
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET };
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)a, len), 0);
	assert_int_equal(listen(l, 8), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)a, &len), 0);
	return l;
}

static void multishot_accept_takes_all_until_the_listener_ends(void **state)
{
	struct sockaddr_in a;
	int l = listen_at(&a), c[2];

	choose(state);
	begin();
	entry(IORING_OP_ACCEPT, l, 1)->ioprio = IORING_ACCEPT_MULTISHOT;
	if (version < 519) {
		expect(1, -EINVAL, 0);
		entry(IORING_OP_ACCEPT, l, 1);
	} else {
		expect_nothing();
		for (int i = 0; i < 2; i++) {
			c[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			assert_int_equal(connect(c[i], (struct sockaddr *)&a,
						 sizeof(a)), 0);
			assert_true(take(10000000000));
			assert_int_equal(got[0].flags, MORE);
			assert_true(got[0].res > 2);
			close(got[0].res);
			close(c[i]);
			n_got = 0;
		}
	}
	expect_nothing();
	shutdown(l, SHUT_RD);
	expect(1, -EINVAL, 0);
	finish_ring();
	close(l);
}

static void connect_waits_for_the_peer(void **state)
{
	struct sockaddr_in a;
	int l = listen_at(&a), c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC,
					  0);

	choose(state);
	begin();
	transfer(IORING_OP_CONNECT, c, 1, &a, 0)->off = sizeof(a);
	expect(1, 0, 0);
	finish_ring();
	close(c);
	close(l);
}

/* A thread of the kernel waits, and hears of the cancel by a signal. */
static void connect_to_a_full_unix_listener_waits_in_a_thread(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	uint32_t flags;
	int32_t res;
	int l, c[3];

	choose(state);
	if (version < 601)
		return; /* Older kernels were not asked. */
	begin();
	l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 test_path(state, "l"));
	assert_int_equal(bind(l, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(l, 0), 0);
	for (int i = 0; i < 3; i++)
		c[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
			      (i == 1 ? SOCK_NONBLOCK : 0), 0);
	assert_int_equal(connect(c[0], (struct sockaddr *)&un, sizeof(un)), 0);
	transfer(IORING_OP_CONNECT, c[1], 1, &un, 0)->off = sizeof(un);
	expect(1, -EAGAIN, 0);
	/* Until the thread has begun it is cancelled as it is. */
	do {
		transfer(IORING_OP_CONNECT, c[2], 2, &un, 0)->off = sizeof(un);
		expect_nothing();
		cancel(2, 3);
		res = result_of(3, &flags);
		expect(2, res ? -EINTR : -ECANCELED, 0);
	} while (!res);
	assert_int_equal(res, -EALREADY);
	finish_ring();
	for (int i = 0; i < 3; i++)
		close(c[i]);
	close(l);
}

static void multishot_receive_picks_buffers(void **state)
{
	struct io_uring_buf_reg reg = { .ring_entries = 2 };
	static char mem[2][16];
	struct io_uring_buf_ring *bufs = NULL;
	int sv[2], err;

	choose(state);
	begin();
	socket_pair(sv);
	assert_int_equal(posix_memalign((void **)&bufs, 4096, 4096), 0);
	memset(bufs, 0, 4096);
	reg.ring_addr = (uintptr_t)bufs;
	err = io_uring_register_buf_ring(&ring, &reg, 0);
	assert_int_equal(err, version < 519 ? -EINVAL : 0);
	for (int i = 0; !err && i < 4; i++) {
		struct io_uring_sqe *sqe = entry(IORING_OP_RECV, sv[0], 1);

		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->ioprio = IORING_RECV_MULTISHOT;
		if (version < 600) {
			expect(1, -EINVAL, 0);
		} else if (i == 0) {
			expect(1, -ENOBUFS, 0);
			for (int k = 0; k < 2; k++)
				io_uring_buf_ring_add(bufs, mem[k], 16,
						      (uint16_t)k, 1, k);
			io_uring_buf_ring_advance(bufs, 2);
		} else if (i == 1) {
			expect_nothing();
			assert_int_equal(write(sv[1], "abc", 3), 3);
			expect(1, 3, IORING_CQE_F_BUFFER | MORE);
			assert_memory_equal(mem[0], "abc", 3);
			assert_int_equal(write(sv[1], "0123456789abcdefg", 17),
					 17);
			expect(1, 16, IORING_CQE_F_BUFFER | MORE | 1 << 16);
			expect(1, -ENOBUFS, 0);
			io_uring_buf_ring_add(bufs, mem[1], 16, 1, 1, 0);
			io_uring_buf_ring_advance(bufs, 1);
		} else if (i == 2) {
			expect(1, 1, IORING_CQE_F_BUFFER | MORE | 1 << 16);
			/* 6.18 knows that the socket is empty, and waits. */
			if (version < 618)
				expect(1, -ENOBUFS, 0);
			else
				i++;
			io_uring_buf_ring_add(bufs, mem[1], 16, 1, 1, 0);
			io_uring_buf_ring_advance(bufs, 1);
			close(sv[1]);
			if (version >= 618)
				expect(1, 0, 0);
		} else {
			expect(1, 0, 0);
		}
	}
	finish_ring();
	free(bufs);
	close(sv[0]);
	if (version < 600)
		close(sv[1]);
}

static void bundles_from(int fd)
{
	struct io_uring_sqe *sqe = entry(IORING_OP_RECV, fd, 1);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->ioprio = IORING_RECV_MULTISHOT | RECVSEND_BUNDLE;
}

/* Each of the buffers is full but for the last, and the completion has the first.  How
 * many a bundle has is the kernel's choice. */
static void bundle_fills_buffers_in_the_order_in_which_they_were_given(void **state)
{
	static const uint16_t ids[] = { 2, 0, 3, 1 };
	struct io_uring_buf_reg reg = { .ring_entries = 4 };
	struct io_uring_buf_ring *bufs = NULL;
	static char mem[4][16];
	uint32_t flags, at = 0;
	int32_t got_bytes = 0, most = 0, res;
	int sv[2];

	choose(state);
	begin();
	socket_pair(sv);
	if (version >= 519 && version < 610) {
		bundles_from(sv[0]);
		expect(1, -EINVAL, 0);
	}
	if (version < 616) {
		finish_ring();
		close_pair(sv);
		return;
	}
	assert_int_equal(posix_memalign((void **)&bufs, 4096, 4096), 0);
	memset(bufs, 0, 4096);
	reg.ring_addr = (uintptr_t)bufs;
	assert_int_equal(io_uring_register_buf_ring(&ring, &reg, 0), 0);
	for (int i = 0; i < 4; i++)
		io_uring_buf_ring_add(bufs, mem[ids[i]], 16, ids[i], 3, i);
	io_uring_buf_ring_advance(bufs, 4);
	assert_int_equal(write(sv[1], "0123456789abcdefghijklmnopqrstuvwxyz", 36), 36);
	bundles_from(sv[0]);
	for (; got_bytes < 36; got_bytes += res) {
		res = result_of(1, &flags);
		assert_true(res > 0 && (res % 16 == 0 || got_bytes + res == 36));
		assert_int_equal(flags, IORING_CQE_F_BUFFER | MORE |
				 (uint32_t)ids[at] << 16);
		at += ((uint32_t)res + 15) / 16;
		most = res > most ? res : most;
	}
	assert_true(most > 16);
	assert_int_equal(at, 3);
	assert_memory_equal(mem[2], "0123456789abcdef", 16);
	assert_memory_equal(mem[0], "ghijklmnopqrstuv", 16);
	assert_memory_equal(mem[3], "wxyz", 4);
	assert_int_equal(write(sv[1], "next", 4), 4);
	/* It ends when there are no more, and not with -ENOBUFS. */
	expect(1, 4, IORING_CQE_F_BUFFER | 1 << 16);
	assert_memory_equal(mem[1], "next", 4);
	close(sv[1]);
	finish_ring();
	free(bufs);
	close(sv[0]);
}

static void zero_copy_send_has_two_completions(void **state)
{
	bool told = version >= 603;
	int tcp[2], sv[2];

	choose(state);
	if (version < 601)
		return; /* It has no such sends. */
	begin();
	tcp_pair(tcp);
	socket_pair(sv);
	transfer(IORING_OP_SEND_ZC, tcp[0], 1, (char[]){ "abc" }, 3)->ioprio =
		told ? REPORT_USAGE : 0;
	expect(1, 3, MORE);
	expect(1, told ? COPIED : 0, IORING_CQE_F_NOTIF);
	transfer(IORING_OP_SEND_ZC, sv[0], 1, (char[]){ "abc" }, 3);
	expect(1, -EOPNOTSUPP, MORE);
	expect(1, 0, IORING_CQE_F_NOTIF);
	finish_ring();
	close_pair(tcp);
	close_pair(sv);
}

static void pipe_takes_what_fits(void **state)
{
	static char big[200000];
	int p[2];

	choose(state);
	if (version < 604)
		return; /* A thread writes to it until all is written. */
	begin();
	pipe_pair(p);
	transfer(IORING_OP_WRITE, p[1], 1, big, sizeof(big));
	expect(1, 65536, 0);
	transfer(IORING_OP_WRITE, p[1], 1, big, sizeof(big));
	expect_cancelled(1);
	finish_ring();
	close_pair(p);
}

static void nonblocking_descriptor_waits_all_the_same(void **state)
{
	struct sockaddr_in a;
	int l, p[2];
	char c[8];

	choose(state);
	if (version < 618)
		return; /* Older kernels may say -EAGAIN. */
	begin();
	l = listen_at(&a);
	pipe_pair(p);
	set_nonblock(p[0]);
	set_nonblock(l);
	transfer(IORING_OP_READ, p[0], 1, c, sizeof(c));
	expect_cancelled(1);
	entry(IORING_OP_ACCEPT, l, 2);
	expect_cancelled(2);
	finish_ring();
	close_pair(p);
	close(l);
}

static void full_completion_queue_loses_nothing(void **state)
{
	choose(state);
	assert_int_equal(open_ring(2, 0), 0);
	for (int i = 0; i < 3; i++) {
		entry(IORING_OP_NOP, -1, 10 + 2 * (uint64_t)i);
		entry(IORING_OP_NOP, -1, 11 + 2 * (uint64_t)i);
		if (io_uring_submit(&ring) < 2)
			break;
	}
	assert_true(*ring.sq.kflags & IORING_SQ_CQ_OVERFLOW);
	for (uint64_t i = 10; i < 16; i++)
		expect(i, 0, 0);
	finish_ring();
}

static void registered_file_is_known_by_its_index(void **state)
{
	int none = -1, sv[2], err;
	char c[8];

	choose(state);
	begin();
	socket_pair(sv);
	err = io_uring_register_files_sparse(&ring, 16);
	assert_int_equal(err, version < 519 ? -EINVAL : 0);
	if (!err) {
		assert_int_equal(io_uring_register_files_update(&ring, 3,
								&sv[0], 1), 1);
		close(sv[0]);
		assert_int_equal(write(sv[1], "abc", 3), 3);
		transfer(IORING_OP_RECV, 3, 1, c, 8)->flags = IOSQE_FIXED_FILE;
		expect(1, 3, 0);
		assert_int_equal(io_uring_register_files_update(&ring, 3,
								&none, 1), 1);
		transfer(IORING_OP_RECV, 3, 1, c, 8)->flags = IOSQE_FIXED_FILE;
		expect(1, -EBADF, 0);
		/* Nothing else had the socket open. */
		set_nonblock(sv[1]);
		while (read(sv[1], c, 1) < 0 && errno == EAGAIN)
			sched_yield();
	} else {
		close(sv[0]);
	}
	finish_ring();
	close(sv[1]);
}

static void registered_buffer_bounds_what_is_read(void **state)
{
	int file = test_file(state, "file", 64, 1), err;
	static char mem[2][32];
	struct iovec iov = { mem[0], 32 };
	static const __u64 no_tag;

	choose(state);
	begin();
	err = io_uring_register_buffers_sparse(&ring, 4);
	assert_int_equal(err, version < 519 ? -EINVAL : 0);
	if (!err) {
		assert_int_equal(io_uring_register_buffers_update_tag(
				 &ring, 2, &iov, &no_tag, 1), 1);
		transfer(IORING_OP_READ_FIXED, file, 1, mem[0], 32)->buf_index
			= 2;
		expect(1, 32, 0);
		assert_true(is_pattern(mem[0], 32, 0, 1));
		transfer(IORING_OP_READ_FIXED, file, 1, mem[0] + 1, 32)
			->buf_index = 2;
		expect(1, -EFAULT, 0);
		transfer(IORING_OP_READ_FIXED, file, 1, mem[0], 32)->buf_index
			= 3;
		expect(1, -EFAULT, 0);
	}
	finish_ring();
	close(file);
}

static void eventfd_counts_completions(void **state)
{
	struct pollfd p = { .fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN };
	int sv[2];

	choose(state);
	begin();
	socket_pair(sv);
	assert_int_equal(io_uring_register_eventfd(&ring, p.fd), 0);
	poll_for(sv[0], 1, 0);
	io_uring_submit(&ring);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(write(sv[1], "x", 1), 1);
	assert_int_equal(poll(&p, 1, 10000), 1);
	expect(1, POLLIN, 0);
	assert_int_equal(io_uring_unregister_eventfd(&ring), 0);
	finish_ring();
	close_pair(sv);
	close(p.fd);
}

static const struct harness_case cases[] = {
	CASE(setup_knows_flags_of_its_version),
	CASE(probe_tells_the_last_opcode),
	CASE(cancel_of_nothing_is_enoent),
	CASE(cancel_ends_what_waits),
	CASE(cancel_is_silent_if_it_succeeds_and_was_asked_to),
	CASE(request_keeps_the_file_of_a_closed_descriptor),
	CASE(descriptor_decides_the_error),
	CASE(unknown_bits_of_an_entry_are_einval),
	CASE(submission_ends_at_a_refused_entry_unless_told_otherwise),
	CASE(multishot_poll_tells_each_wakeup),
	CASE(multishot_accept_takes_all_until_the_listener_ends),
	CASE(connect_waits_for_the_peer),
	CASE(connect_to_a_full_unix_listener_waits_in_a_thread),
	CASE(multishot_receive_picks_buffers),
	CASE(bundle_fills_buffers_in_the_order_in_which_they_were_given),
	CASE(zero_copy_send_has_two_completions),
	CASE(pipe_takes_what_fits),
	CASE(nonblocking_descriptor_waits_all_the_same),
	CASE(full_completion_queue_loses_nothing),
	CASE(registered_file_is_known_by_its_index),
	CASE(registered_buffer_bounds_what_is_read),
	CASE(eventfd_counts_completions),
};

int main(void)
{
	int err;

	if (harness_model)
		return harness_run(cases, N_OF(cases));
	err = open_ring(8, 0);
	if (err) {
		printf("1..0 # SKIP no io_uring here: %s\n", strerror(-err));
		return 0;
	}
	io_uring_queue_exit(&ring);
	return harness_run_plain(cases, N_OF(cases));
}
