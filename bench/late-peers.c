/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The peers' rows of bench-late: liburing and libuv here, each ending in a child;
 * libfabric and UCX in programs beside this one, for these libraries change the
 * process that links them.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <liburing.h>

#include "bench/late.h"
#include "bench/late-uv.h"

/* liburing. */

struct ring_how {
	bool wait;		/* For the completion, after a cancel. */
};

static uint64_t get_cqe(struct io_uring *ring, uint64_t data)
{
	struct io_uring_cqe *cqe;
	uint64_t got = 0;

	while (got != data && !io_uring_wait_cqe(ring, &cqe)) {
		got = cqe->user_data;
		io_uring_cqe_seen(ring, cqe);
	}
	return late_now();
}

static void read_in_ring(struct late_one *one, size_t size, const void *arg)
{
	const struct ring_how *how = arg;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	uint64_t begun;
	char *memory = malloc(size);
	int fd;

	if (!memory || io_uring_queue_init(4, &ring, 0))
		late_skip(one, "the kernel refuses io_uring");
	memset(memory, LATE_THEIRS, size);
	fd = late_file(memory, size);
	memset(memory, 0, size);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, fd, memory, (unsigned int)size, 0);
	io_uring_sqe_set_data64(sqe, 1);
	/* Otherwise a cached file is read in the submission. */
	sqe->flags |= IOSQE_ASYNC;
	if (io_uring_submit(&ring) != 1)
		late_skip(one, "the read was not submitted");
	late_delay_spin(size);
	begun = late_now();
	if (how->wait) {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_cancel64(sqe, 1, 0);
		io_uring_submit(&ring);
		one->end_ns = get_cqe(&ring, 1) - begun;
	}
	io_uring_queue_exit(&ring);
	if (!how->wait)
		one->end_ns = late_now() - begun;
	late_paint(memory, size);
	/* The kernel's worker reads on for as long as a whole read takes. */
	usleep(20000 + late_settle_us(size));
	one->bytes = late_count_bytes(memory, size);
}

/* All of them. */

static const struct ring_how exits = { false }, waits = { true };

static const struct peer {
	const char *who, *engine, *ending;
	const char *contract;	/* What it says of this, in our words. */
	/* In this process; or, without, in the program of that name. */
	late_fn *fn;
	const void *arg;
	const char *program;
} peers[] = {
	{
		.who = "liburing", .engine = "read", .ending = "queue_exit",
		.contract = "outside of its contract: its manual says nothing "
			    "of requests in flight, and leaves their end to "
			    "the program",
		.fn = read_in_ring, .arg = &exits,
	}, {
		.who = "liburing", .engine = "read",
		.ending = "cancel, completion",
		.contract = "within its contract: the memory is the "
			    "program's from the completion on",
		.fn = read_in_ring, .arg = &waits,
	}, {
		.who = "libuv", .engine = "read", .ending = "uv_cancel",
		.contract = "within its contract: what a worker has begun is "
			    "refused with UV_EBUSY, and ends in its callback",
		.fn = late_uv_read,
	}, {
		.who = "libuv", .engine = "unix", .ending = "uv_close, write",
		.contract = "within its contract: the buffer is the "
			    "program's from the write's callback on",
		.fn = late_uv_write,
	},
#define FABRIC(prov, name, what, text) \
	{ .who = "libfabric", .engine = prov, .ending = name, \
	  .contract = text, .program = "late-fabric", .arg = what }
#define FABRICS(prov) \
	FABRIC(prov, "fi_close(mr)", "mr", \
	       "outside of its contract: the program has to know that no " \
	       "peer uses a region before it closes it"), \
	FABRIC(prov, "fi_close(ep)", "ep", \
	       "within its contract: what is posted is dropped; it says " \
	       "nothing of what peers have begun"), \
	FABRIC(prov, "fi_cancel, recv", "cancel", \
	       "within its contract: an attempt, whose outcome is in the " \
	       "completion")
	FABRICS("net"), FABRICS("tcp;ofi_rxm"),
#define UCX(tls, name, what, text) \
	{ .who = "UCX", .engine = tls, .ending = name, .contract = text, \
	  .program = "late-ucx", .arg = what }
#define UCXS(tls) \
	UCX(tls, "ucp_mem_unmap", "unmap", \
	    "outside of its contract: remote keys are invalid afterwards, and " \
	    "a peer's access may fail"), \
	UCX(tls, "ucp_ep_close, force", "force", \
	    "within its contract, seen by the closing side: requests end as " \
	    "cancelled; it says nothing of bytes on their way"), \
	UCX(tls, "ucp_request_cancel, recv", "cancel", \
	    "within its contract: a request is complete or cancelled, not " \
	    "both")
	UCXS("tcp"), UCXS("sysv"), UCXS("posix"), UCXS("cma"),
};

static const char *version_of(const struct peer *p)
{
	if (p->program)
		return "";	/* It says so itself. */
	if (!strcmp(p->who, "liburing"))
		return LIBURING_VERSION;
	return late_uv_version();
}

/* The program of that name beside this one; libtool has this one in .libs. */
static bool find_beside(const char *name, char *path, size_t size)
{
	char self[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	snprintf(path, size, "%.3900s/%s", self, name);
	if (!access(path, X_OK))
		return true;
	slash = strrchr(self, '/');
	if (!slash || strcmp(slash, "/.libs"))
		return false;
	*slash = '\0';
	snprintf(path, size, "%.3900s/%s", self, name);
	return !access(path, X_OK);
}

static void run_program(const struct peer *p, size_t size, int n,
			struct late_sum *sum)
{
	char path[4096], command[5000], line[512], *found = NULL;
	FILE *f;

	if (!find_beside(p->program, path, sizeof(path))) {
		snprintf(sum->why, sizeof(sum->why), "%s is not built: %s was "
			 "not found", p->program, p->who);
		return;
	}
	snprintf(command, sizeof(command), "exec '%s' '%s' %s %zu %d 2>%s",
		 path, p->engine, (const char *)p->arg, size, n,
		 getenv("LATE_PEERS_LOUD") ? "&2" : "/dev/null");
	f = popen(command, "re");
	/* UCX has a log, which goes the same way. */
	while (f && (found = fgets(line, sizeof(line), f)) != NULL &&
	       late_parse(sum, line))
		;
	if (!found)
		snprintf(sum->why, sizeof(sum->why), "%s failed", p->program);
	if (f)
		pclose(f);
}

static void by_peer(struct bench *b, const struct peer *p, size_t size, int n)
{
	struct late_sum sum = { .tried = 0 };
	struct late_row row = {
		.who = p->who, .engine = p->engine, .ending = p->ending,
		.backend = "", .contract = p->contract, .size = size,
	};
	char variant[48];

	snprintf(variant, sizeof(variant), "%s %s", p->who, p->engine);
	if (!bench_wants(b, variant))
		return;
	if (p->fn)
		late_repeat(&sum, p->fn, p->arg, size, n);
	else
		run_program(p, size, n, &sum);
	row.version = sum.version[0] ? sum.version : version_of(p);
	late_tell(b, &row, &sum);
}

void late_by_peers(struct bench *b, size_t size, int n)
{
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
		by_peer(b, &peers[i], size, n);
}
