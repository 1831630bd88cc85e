/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four processes write to each other's memory over libfabric, all to all at the same
 * time, and read back what they have written; one of them is killed and replaced
 * meanwhile.  With WEIR_TEST_LONG=1 they move 4 GiB.
 */

#include "tests/support/job-fixture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include <weir/export.h>
#include <weir/fabric/device.h>

#define PEERS 4
#define VICTIM 3
#define SLOT ((size_t)1 << 20)	/* Of each peer's memory, for each other peer. */
#define DESC_MAX 1024

/* What all processes see. */
struct board {
	atomic_uint rounds[PEERS][PEERS];	/* Done, from and to. */
	atomic_uint wrong;			/* Bytes that came back as others. */
};

static struct board *board;
static unsigned int rounds;		/* That each writes to each. */
static uint32_t backend;

/* A process's exported memory, on its way to the others. */
struct hello {
	uint32_t peer, len;
	char desc[DESC_MAX];
};

/* A process. */

struct flow {
	unsigned int from, to, round;
	struct weir_mmap *import;	/* NULL: the peer is not there. */
	struct weir_job job;
	bool busy, reads, lost;
	struct hello next;		/* The peer anew; .len 0: not. */
	char *mem;			/* SLOT to write, and SLOT read back. */
};

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static struct weir_device *device;
static struct flow flows[PEERS];

static struct flow *flow_of(struct weir_op *op)
{
	return weir_container_of(weir_job_of(op), struct flow, job);
}

static unsigned int seed_of(const struct flow *f)
{
	return 1 + f->round * PEERS * PEERS + f->from * PEERS + f->to;
}

static void begin_round(struct flow *f)
{
	void *addr = NULL;
	struct weir_operand far, here;

	if (weir_mmap_memrange(f->import, &addr, NULL))
		_exit(10);
	far = weir_operand_at(weir_mmap_domain(f->import),
			      (uintptr_t)addr + f->from * SLOT, SLOT);
	here = weir_operand_mem(f->mem + (f->reads ? SLOT : 0), SLOT);
	if (!f->reads)
		fill_pattern(f->mem, SLOT, 0, seed_of(f));
	if (f->reads)
		weir_job_copy(&f->job, here, far);
	else
		weir_job_copy(&f->job, far, here);
	f->busy = !weir_job_start(dma, &f->job);
	f->lost = !f->busy;
}

static void on_moved(struct weir_op *op, int64_t res)
{
	struct flow *f = flow_of(op);

	f->busy = false;
	f->lost = res < 0;
	if (f->lost || f->next.len)
		return;
	if (f->reads) {
		if (!is_pattern(f->mem + SLOT, SLOT, 0, seed_of(f)))
			atomic_fetch_add(&board->wrong, 1);
		f->round++;
		atomic_store(&board->rounds[f->from][f->to], f->round);
	}
	f->reads = !f->reads;
	if (f->round < rounds)
		begin_round(f);
}

/* The peer is there, or another in its place: all begins again. */
static void begin_flow(struct flow *f)
{
	if (f->import && weir_mmap_destroy(f->import))
		_exit(11);
	if (weir_mmap_import_device(&f->import, device, f->next.desc,
				    f->next.len, NULL))
		_exit(12);
	f->next.len = 0;
	f->round = 0;
	f->reads = false;
	atomic_store(&board->rounds[f->from][f->to], 0);
	begin_round(f);
}

static void export_memory(uint32_t self, int fd)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = backend };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct hello hello = { .peer = self };
	struct weir_mmap *m;

	if (weir_fabric_open(&device, "127.0.0.1") ||
	    weir_reactor_create(&reactor, &opts) ||
	    weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma) ||
	    weir_mmap_create(&m, NULL) ||
	    weir_mmap_alloc(m, PEERS * SLOT, 0) ||
	    weir_mmap_add_device(m, device) ||
	    weir_mmap_set_permissions(m, WEIR_MMAP_READ | WEIR_MMAP_WRITE |
						 WEIR_MMAP_PEER_READ |
						 WEIR_MMAP_PEER_WRITE) ||
	    weir_mmap_start(m) ||
	    weir_mmap_export_device(m, device, NULL, &desc) ||
	    desc.len > sizeof(hello.desc))
		_exit(13);
	hello.len = (uint32_t)desc.len;
	memcpy(hello.desc, desc.bytes, desc.len);
	if (send(fd, &hello, sizeof(hello), 0) != sizeof(hello))
		_exit(14);
}

static void listen_for_peers(int fd)
{
	struct hello hello;
	ssize_t n;

	while ((n = recv(fd, &hello, sizeof(hello), MSG_DONTWAIT)) ==
	       sizeof(hello))
		flows[hello.peer].next = hello;
	if (!n)
		_exit(0);	/* All have done all. */
	if (errno != EAGAIN)
		_exit(15);
}

static void be_peer(uint32_t self, int fd)
{
	uint32_t i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	export_memory(self, fd);
	for (i = 0; i < PEERS; i++) {
		flows[i].from = self;
		flows[i].to = i;
		flows[i].mem = malloc(2 * SLOT);
		weir_job_init(&flows[i].job, on_moved);
	}
	for (;;) {
		listen_for_peers(fd);
		for (i = 0; i < PEERS; i++)
			if (flows[i].next.len && !flows[i].busy)
				begin_flow(&flows[i]);
		if (weir_reactor_turn(reactor, WEIR_MSEC) < 0)
			_exit(16);
	}
}

/* The test. */

struct peer {
	pid_t pid;
	int fd;
	struct hello hello;
};

static struct peer peers[PEERS];

static void begin_peer(uint32_t i)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				    fd), 0);
	fflush(NULL);
	peers[i].pid = fork();
	if (!peers[i].pid) {
		for (uint32_t k = 0; k < PEERS; k++)
			if (k != i && peers[k].pid)
				close(peers[k].fd);
		close(fd[0]);
		be_peer(i, fd[1]);
	}
	assert_true(peers[i].pid > 0);
	close(fd[1]);
	peers[i].fd = fd[0];
	assert_int_equal(recv(fd[0], &peers[i].hello, sizeof(struct hello), 0),
			 sizeof(struct hello));
}

static void introduce(uint32_t i, uint32_t to)
{
	assert_int_equal(send(peers[to].fd, &peers[i].hello,
			      sizeof(struct hello), 0), sizeof(struct hello));
}

/* Rounds that were done from or to any that are not the victim, or all. */
static unsigned int done(bool all)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < PEERS; i++)
		for (uint32_t k = 0; k < PEERS; k++)
			if (all || (i != VICTIM && k != VICTIM))
				n += atomic_load(&board->rounds[i][k]);
	return n;
}

/* Other processes have to get on. */
static void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
}

static void replace_victim(void)
{
	uint32_t i;

	assert_int_equal(kill(peers[VICTIM].pid, SIGKILL), 0);
	assert_int_equal(waitpid(peers[VICTIM].pid, NULL, 0), peers[VICTIM].pid);
	close(peers[VICTIM].fd);
	for (i = 0; i < PEERS; i++) {
		atomic_store(&board->rounds[VICTIM][i], 0);
		atomic_store(&board->rounds[i][VICTIM], 0);
	}
	begin_peer(VICTIM);
	for (i = 0; i < VICTIM; i++) {
		introduce(i, VICTIM);
		introduce(VICTIM, i);
	}
}

static void peers_fill_each_other_while_one_is_replaced(void **state)
{
	const unsigned int all = PEERS * (PEERS - 1);
	int status;
	uint32_t i, k;

	backend = backend_of(*state);
	/* A round is a slot there and back. */
	rounds = want_long() ? (unsigned int)((UINT64_C(4) << 30) / 2 / SLOT / all) + 1 :
			       scaled(10);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(board != MAP_FAILED);
	memset(peers, 0, sizeof(peers));
	for (i = 0; i < PEERS; i++)
		begin_peer(i);
	for (i = 0; i < PEERS; i++)
		for (k = 0; k < PEERS; k++)
			if (i != k)
				introduce(i, k);
	while (done(false) < rounds)
		nap();
	replace_victim();
	while (done(true) < all * rounds)
		nap();
	assert_int_equal(atomic_load(&board->wrong), 0);
	for (i = 0; i < PEERS; i++) {
		close(peers[i].fd);
		assert_int_equal(waitpid(peers[i].pid, &status, 0),
				 peers[i].pid);
		assert_int_equal(status, 0);
	}
	munmap(board, sizeof(*board));
}

static const struct harness_case cases[] = {
	REAL(peers_fill_each_other_while_one_is_replaced),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
