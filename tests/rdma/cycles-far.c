/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/rdma/cycles-far.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <infiniband/verbs.h>

#include <weir/device.h>
#include <weir/watch.h>

#include "rdma/device.h"

static char *memory;

char *far_memory(void)
{
	return memory;
}

/* Its side of connections. */

static void take_next(struct far *f);

static void on_far_end(struct weir_conn *c, int why_told, void *arg)
{
	struct far *f = arg;

	(void)why_told;
	assert_ptr_equal(c, f->c);
	assert_int_equal(weir_conn_destroy(c), 0);
	f->c = NULL;
}

static void on_accepted(struct weir_op *op, int64_t res)
{
	struct far *f = weir_container_of(op, struct far, accepted);

	if (res) {
		assert_int_equal(weir_conn_destroy(f->c), 0);
		f->c = NULL;
	}
	if (f->l)
		take_next(f);
}

/* A peer that asks again has lost what it had; nobody may have told us. */
static void on_next(struct weir_op *op, int64_t res)
{
	struct far *f = weir_container_of(op, struct far, next);
	struct far_offer offer = { (uintptr_t)f->mem, f->mr->rkey, 0 };

	if (res)
		return;
	assert_int_equal(weir_conn_destroy(f->c), 0);
	f->c = f->asks;
	f->asks = NULL;
	weir_conn_set_end_fn(f->c, on_far_end, f);
	weir_op_init(&f->accepted, on_accepted);
	if (weir_conn_accept(f->c, &f->accepted, &offer, sizeof(offer))) {
		assert_int_equal(weir_conn_destroy(f->c), 0);
		f->c = NULL;
		take_next(f);
	}
}

static void take_next(struct far *f)
{
	weir_op_init(&f->next, on_next);
	weir_listener_next(f->l, &f->next, &f->asks);
}

const char *far_ip(void)
{
	const char *text = mocked ? "10.77.1.1" : getenv("WEIR_RDMA_ADDRESS2");

	if (!text)
		skip_because("there is no link: WEIR_RDMA_ADDRESS2 is not "
			     "set; see tests/vm");
	return text;
}

/* Who was killed may still hold the port. */
static void far_listen(struct far *f, struct address *at)
{
	struct weir_conn_opts conn = { .size = sizeof(conn), .retries = 6,
				       .ack_timeout = 13 };
	struct weir_listener_opts opts = { .size = sizeof(opts),
					   .conn = &conn };
	int tries = 200, err;

	do
		err = weir_listener_create(&f->l, f->r, sa_of(at), at->len,
					   &opts);
	while (err == -EADDRINUSE && tries-- && !poll(NULL, 0, 10));
	assert_int_equal(err, 0);
	at->len = sizeof(at->sa);
	assert_int_equal(weir_listener_address(f->l, (struct sockaddr *)&at->sa,
					       &at->len), 0);
}

static uint16_t far_open(struct far *f, struct weir_reactor *r, uint16_t port)
{
	const char *device = mocked ? "mock_mlx5" : getenv("WEIR_RDMA_DEVICE2");
	struct address at = ip(far_ip(), port);

	memset(f, 0, sizeof(*f));
	f->r = r;
	f->mem = memory;
	assert_int_equal(weir_device_open_name(&f->dev, device), 0);
	f->mr = ibv_reg_mr(device_verbs_of(f->dev)->pd, f->mem, FAR_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(f->mr);
	far_listen(f, &at);
	take_next(f);
	return port_of(&at);
}

static void far_close(struct far *f)
{
	struct weir_listener *l = f->l;

	f->l = NULL;
	weir_op_cancel(&f->accepted);
	weir_op_cancel(&f->next);
	UNTIL(f->r, !weir_op_is_busy(&f->next) &&
		    !weir_op_is_busy(&f->accepted));
	assert_int_equal(weir_conn_destroy(f->c), 0);
	assert_int_equal(weir_listener_destroy(l), 0);
	assert_int_equal(ibv_dereg_mr(f->mr), 0);
	assert_int_equal(weir_device_close(f->dev), 0);
}

/* The process. */

static int zygote = -1;		/* The socket to it. */
static pid_t pid;		/* Of the far end. */

struct started {
	int32_t pid, port;
};

static void on_signal(struct weir_signal *s,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct far *f = arg;

	(void)s;
	if (info->ssi_signo == SIGTERM)
		weir_reactor_stop(f->r);
	else if (f->c && f->c->qp)
		conn_qp_error(f->c);
}

static void far_main(int sock, uint32_t backend, uint16_t port)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = backend };
	struct weir_signal *term, *usr;
	struct started told;
	struct far f;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	assert_int_equal(weir_reactor_create(&f.r, &opts), 0);
	told.port = far_open(&f, f.r, port);
	told.pid = getpid();
	assert_int_equal(weir_signal_create(&term, f.r, SIGTERM, on_signal,
					    &f), 0);
	assert_int_equal(weir_signal_create(&usr, f.r, SIGUSR1, on_signal,
					    &f), 0);
	assert_int_equal(write(sock, &told, sizeof(told)), sizeof(told));
	assert_int_equal(weir_reactor_run(f.r), 0);
	far_close(&f);
	weir_signal_destroy(usr);
	weir_signal_destroy(term);
	assert_int_equal(weir_reactor_destroy(f.r), 0);
	_exit(0);
}

/* What it is told: start one, or wait for it to be gone. */
struct order {
	uint32_t start, port, backend;
};

static void zygote_main(int sock)
{
	struct order o;
	pid_t child = 0;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(sock, &o, sizeof(o)) == sizeof(o)) {
		if (o.start) {
			child = fork();
			if (!child)
				far_main(sock, o.backend, (uint16_t)o.port);
			continue;
		}
		waitpid(child, &status, 0);
		if (write(sock, &status, sizeof(status)) < 0)
			break;
	}
	_exit(0);
}

void far_prepare(void)
{
	int fd[2];

	memory = mmap(NULL, FAR_LEN, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mocked)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return;
	if (!fork()) {
		close(fd[0]);
		zygote_main(fd[1]);
	}
	close(fd[1]);
	zygote = fd[0];
}

/* As it would be without a process. */
static struct far here;
static uint16_t here_port;

void far_start(struct weir_reactor *r, const char *backend, uint16_t port)
{
	struct order o = { .start = true, .port = port,
			   .backend = !strcmp(backend, "ev") ?
				      WEIR_BACKEND_EV : WEIR_BACKEND_URING };

	far_ip();
	if (mocked)
		here_port = far_open(&here, r, port);
	else
		assert_int_equal(write(zygote, &o, sizeof(o)), sizeof(o));
}

uint16_t far_wait(void)
{
	struct started told;

	if (mocked)
		return here_port;
	assert_int_equal(read(zygote, &told, sizeof(told)), sizeof(told));
	pid = told.pid;
	return (uint16_t)told.port;
}

static int far_end(int signo)
{
	struct order o = { .start = false };
	int status;

	assert_int_equal(kill(pid, signo), 0);
	assert_int_equal(write(zygote, &o, sizeof(o)), sizeof(o));
	assert_int_equal(read(zygote, &status, sizeof(status)),
			 sizeof(status));
	return status;
}

void far_kill(void)
{
	if (mocked) {
		if (here.c && here.c->qp)
			mock_kill(here.c->qp);
		far_close(&here);
	} else {
		assert_int_equal(WTERMSIG(far_end(SIGKILL)), SIGKILL);
	}
}

void far_stop(void)
{
	if (mocked)
		far_close(&here);
	else
		assert_int_equal(far_end(SIGTERM), 0);
}

void far_break(void)
{
	if (!mocked)
		assert_int_equal(kill(pid, SIGUSR1), 0);
	else if (here.c && here.c->qp)
		conn_qp_error(here.c);
}
