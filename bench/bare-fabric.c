/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "bench/bare-fabric.h"
#include "bench/bench.h"

#define DEPTH_MAX 64
#define POLLS 1024		/* Between looks at whether it is over. */

/* What the child tells: where it listens, and what it has. */
struct hello {
	struct sockaddr_storage at;
	uint64_t key, base;
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_ep *ep;
	struct fid_mr *mr;
};

static struct end end;
static struct hello far;
static char *memory;
static size_t size;
static int fd[2];		/* The child's end is 1. */
static pid_t pid;
static atomic_bool *is_on;
static bool connected;

static struct fi_info *tcp(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	if (!hints)
		return NULL;
	hints->caps = FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup("tcp");
	if (fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints,
		       &info))
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

static int open_end(struct end *e)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .size = 4096 };
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	int err;

	e->info = tcp();
	if (!e->info)
		return -FI_ENODATA;
	err = fi_fabric(e->info->fabric_attr, &e->fabric, NULL);
	if (!err)
		err = fi_domain(e->fabric, e->info, &e->domain, NULL);
	if (!err)
		err = fi_cq_open(e->domain, &cq, &e->cq, NULL);
	if (!err)
		err = fi_eq_open(e->fabric, &eq, &e->eq, NULL);
	return err;
}

static int open_ep(struct end *e, struct fi_info *info)
{
	int err = fi_endpoint(e->domain, info, &e->ep, NULL);

	if (!err)
		err = fi_ep_bind(e->ep, &e->eq->fid, 0);
	if (!err)
		err = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
	return err ? err : fi_enable(e->ep);
}

/* Wait for the event @what of @e. */
static int await(struct end *e, uint32_t what, struct fi_eq_cm_entry *entry)
{
	uint32_t event;
	ssize_t n;

	do {
		n = fi_eq_sread(e->eq, &event, entry, sizeof(*entry), 5000, 0);
	} while (n == -FI_EINTR);
	return n < 0 ? (int)n : event == what ? 0 : -FI_ECONNREFUSED;
}

/* The child. */

static int listen_and_tell(struct fid_pep **pep)
{
	struct hello own = { .base = 0 };
	size_t len = sizeof(own.at);
	int err = open_end(&end);

	if (!err)
		err = fi_mr_reg(end.domain, memory, size, FI_REMOTE_READ |
				FI_REMOTE_WRITE, 0, 77, 0, &end.mr, NULL);
	if (!err)
		err = fi_passive_ep(end.fabric, end.info, pep, NULL);
	if (!err)
		err = fi_pep_bind(*pep, &end.eq->fid, 0);
	if (!err)
		err = fi_listen(*pep);
	if (!err)
		err = fi_getname(&(*pep)->fid, &own.at, &len);
	if (err)
		return err;
	own.key = fi_mr_key(end.mr);
	if (end.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		own.base = (uint64_t)(uintptr_t)memory;
	return write(fd[1], &own, sizeof(own)) == sizeof(own) ? 0 : -FI_EIO;
}

static int serve(void)
{
	struct fi_eq_cm_entry entry = { 0 };
	struct fi_cq_entry done[16];
	struct fid_pep *pep;
	char go;
	int err = listen_and_tell(&pep), i;

	if (!err)
		err = await(&end, FI_CONNREQ, &entry);
	if (!err)
		err = open_ep(&end, entry.info);
	if (!err)
		err = fi_accept(end.ep, NULL, 0);
	if (!err)
		err = await(&end, FI_CONNECTED, &entry);
	while (!err && read(fd[1], &go, 1) == 1)
		while (atomic_load(is_on))
			for (i = 0; i < POLLS; i++)
				(void)fi_cq_read(end.cq, done, 16);
	return err ? 1 : 0;
}

void bare_fork(size_t bytes)
{
	size = bytes;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	is_on = mmap(NULL, sizeof(*is_on), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || is_on == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		bench_die("memory of a bench", errno);
	memset(memory, 1, size);
	pid = fork();
	bench_must(pid < 0 ? -errno : 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		_exit(serve());
	}
	close(fd[1]);
}

/* This process. */

const char *bare_connect(void)
{
	static char why[100];
	struct fi_eq_cm_entry entry;
	int err;

	if (connected)
		return NULL;
	/* What the child cannot do ends it. */
	if (read(fd[0], &far, sizeof(far)) != sizeof(far))
		return "libfabric has no provider tcp";
	err = open_end(&end);
	if (!err)
		err = open_ep(&end, end.info);
	if (!err)
		err = fi_connect(end.ep, &far.at, NULL, 0);
	if (!err)
		err = await(&end, FI_CONNECTED, &entry);
	connected = !err;
	snprintf(why, sizeof(why), "libfabric: %s", fi_strerror(-err));
	return err ? why : NULL;
}

void bare_begin(void)
{
	atomic_store(is_on, true);
	bench_must(write(fd[0], "g", 1) == 1 ? 0 : -EPIPE, "the bare end");
}

void bare_end(void)
{
	atomic_store(is_on, false);
}

static ssize_t post(bool read, size_t bytes, struct fi_context2 *context)
{
	struct iovec iov = { memory, bytes };
	struct fi_rma_iov there = { far.base, bytes, far.key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &there,
		.rma_iov_count = 1, .context = context,
	};

	return read ? fi_readmsg(end.ep, &msg, FI_COMPLETION) :
		      fi_writemsg(end.ep, &msg,
				  FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

void bare_move(bool read, size_t bytes, uint32_t depth, uint32_t n)
{
	static struct fi_context2 contexts[DEPTH_MAX];
	struct fi_cq_entry done[DEPTH_MAX];
	uint32_t begun = 0, ended = 0;
	ssize_t err;

	while (ended < n) {
		while (begun < n && begun - ended < depth) {
			err = post(read, bytes, &contexts[begun % DEPTH_MAX]);
			if (err == -FI_EAGAIN)
				break;
			bench_must((int)err, "libfabric");
			begun++;
		}
		err = fi_cq_read(end.cq, done, DEPTH_MAX);
		if (err > 0)
			ended += (uint32_t)err;
		else if (err != -FI_EAGAIN)
			bench_die("libfabric", (int)-err);
	}
}

pid_t bare_pid(void)
{
	return pid;
}

void bare_kill(void)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
