/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that another process has imported, and writes to all the time while
 * its owner takes it back; and the ends of either process.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/mmap.h>

#include "bench/late.h"

enum ending { REVOKE, STOP, DRAIN, KILLED, EXITED, STOPPED, N_ENDINGS };

static const char *const endings[] = {
	"revoke", "stop", "drain", "killed", "exit", "stopped",
};

/* What both processes see, beside the memory. */
static struct notes {
	_Atomic uint64_t told_ns;	/* When the watch has ended. */
	_Atomic uint64_t left_ns;	/* When the exporter has exited. */
	_Atomic uint32_t running;	/* A transfer has begun. */
	_Atomic uint32_t leave;		/* Exit, in the middle of one. */
} *notes;

static void share_notes(void)
{
	if (notes)
		return;
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED)
		bench_die("mmap", errno);
}

/* The importer. */

struct importer {
	const struct late *l;
	enum late_engine engine;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *mmap;
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct weir_domain *file;
	int fd;			/* Of it. */
	char *own;
	struct weir_job job;
	struct weir_op watch;
	struct late_end ended, told;
};

static void job_ended(struct weir_op *op, int64_t res)
{
	late_ended(&weir_container_of(op, struct importer, job.op)->ended, res);
}

static void on_watch(struct weir_op *op, int64_t res)
{
	atomic_store(&notes->told_ns, bench_wall_ns());
	late_ended(&weir_container_of(op, struct importer, watch)->told, res);
}

static void importer_open(struct importer *im, const struct late *l,
			  enum late_engine engine)
{
	memset(im, 0, sizeof(*im));
	im->l = l;
	im->engine = engine;
	im->own = malloc(l->size);
	if (!im->own)
		bench_die("malloc", ENOMEM);
	memset(im->own, LATE_THEIRS, l->size);
	im->r = late_reactor(l);
	im->dma = late_dma(im->r, engine);
	im->fd = late_file(im->own, l->size);
	im->file = late_domain(im->fd);
	weir_job_init(&im->job, job_ended);
}

static int receive(int sock, char *bytes, size_t *len, int *fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
	} control;
	struct iovec iov = { bytes, 1024 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (!c)
		return 0;
	*len = (size_t)n;
	n = (ssize_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	return (int)n;
}

/* Import what comes from @sock, sent by @pid; false: nothing comes. */
static bool import(struct importer *im, int sock, pid_t pid, bool full)
{
	struct weir_exporter_peer peer = { pid, geteuid(), getegid() };
	struct weir_import_opts opts = {
		.size = sizeof(opts), .flags = WEIR_IMPORT_COPY, .peer = &peer,
	};
	int fds[WEIR_EXPORT_FDS], n;
	char bytes[1024];
	size_t len;
	void *addr;

	n = receive(sock, bytes, &len, fds);
	if (n <= 0)
		return false;
	bench_must(weir_mmap_import(&im->mmap, bytes, len, fds, (uint32_t)n,
				    &opts), "weir_mmap_import");
	for (int i = 0; i < n; i++)
		close(fds[i]);
	bench_must(weir_inventory_create(&im->inv, im->r, NULL), "inventory");
	bench_must(weir_inventory_attach(im->inv, im->mmap), "attach");
	bench_must(weir_mmap_memrange(im->mmap, &addr, NULL), "memrange");
	bench_must(weir_inventory_get(&im->buf, im->inv, im->mmap, addr,
				      im->l->size, NULL,
				      full ? im->l->size : 0),
		   "weir_inventory_get");
	weir_op_init(&im->watch, on_watch);
	im->told.n = 0;
	bench_must(weir_mmap_watch(im->mmap, im->r, &im->watch), "watch");
	return true;
}

static void let_go(struct importer *im)
{
	late_wait(im->r, &im->told);
	weir_buf_put(im->buf);
	bench_must(weir_inventory_destroy(im->inv), "inventory");
	bench_must(weir_mmap_destroy(im->mmap), "weir_mmap_destroy");
}

static int start_write(struct importer *im)
{
	im->ended.n = 0;
	late_plan(&im->job, im->engine, weir_operand_buf(im->buf), im->file,
		  im->own, im->l->size);
	return weir_job_start(im->dma, &im->job);
}

static void write_there(int sock, const struct late *l, enum late_engine engine)
{
	struct importer im;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (l->pinned)
		bench_pin(1);
	importer_open(&im, l, engine);
	while (import(&im, sock, getppid(), false)) {
		while (!start_write(&im)) {
			atomic_store(&notes->running, 1);
			while (!im.ended.n) {
				bench_must(weir_reactor_turn(im.r, WEIR_MSEC),
					   "turn");
				if (atomic_load(&notes->leave))
					_exit(0);
			}
			if (im.ended.res < 0)
				break;
		}
		let_go(&im);
		if (send(sock, "", 1, MSG_NOSIGNAL) != 1)
			break;
	}
	_exit(0);
}

/* The exporter. */

struct owner {
	const struct late *l;
	enum late_engine engine;
	struct weir_reactor *r;
	struct weir_mmap *mmap;
	char *memory;
	pid_t pid;
	int sock;
	struct weir_op op;
	struct late_end end;
	struct late_sum *sum;
};

static void on_end(struct weir_op *op, int64_t res)
{
	late_ended(&weir_container_of(op, struct owner, op)->end, res);
}

/* Fork a process that is connected with this one: each has an end. */
static pid_t fork_with(int ends[2])
{
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		bench_die("socketpair", errno);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		bench_die("fork", errno);
	close(ends[!pid ? 0 : 1]);
	return pid;
}

static void begin_other(struct owner *o)
{
	int ends[2];

	o->pid = fork_with(ends);
	if (!o->pid)
		write_there(ends[1], o->l, o->engine);
	o->sock = ends[0];
}

static void end_other(struct owner *o)
{
	int status;

	close(o->sock);
	if (waitpid(o->pid, &status, 0) < 0 ||
	    (status && status != SIGKILL))
		bench_die("the other process failed", EPIPE);
}

static void owner_map(struct owner *o)
{
	o->r = late_reactor(o->l);
	bench_must(weir_mmap_create(&o->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(o->mmap, o->l->size,
				   o->engine == LATE_PROCESS ? 0 :
				   WEIR_MMAP_ALLOC_MEMFD), "weir_mmap_alloc");
	bench_must(weir_mmap_set_permissions(o->mmap, WEIR_MMAP_WRITE |
					     WEIR_MMAP_PEER_WRITE), "permissions");
	bench_must(weir_mmap_memrange(o->mmap, (void **)&o->memory, NULL),
		   "weir_mmap_memrange");
	weir_op_init(&o->op, on_end);
}

static void owner_open(struct owner *o, const struct late *l,
		       enum late_engine engine, struct late_sum *sum)
{
	*o = (struct owner){ .l = l, .engine = engine, .sum = sum };
	begin_other(o);
	owner_map(o);
}

static void owner_close(struct owner *o)
{
	end_other(o);
	bench_must(weir_mmap_destroy(o->mmap), "weir_mmap_destroy");
	bench_must(weir_reactor_destroy(o->r), "weir_reactor_destroy");
}

/* Export it; returns when the other process has begun to use it. */
static void hand_over(struct owner *o)
{
	struct weir_export_opts opts = {
		.size = sizeof(opts), .flags = WEIR_EXPORT_COPY,
	};
	struct weir_export_desc d = { .size = sizeof(d) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
	} control = { .buf = { 0 } };
	struct iovec iov;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
	};
	struct cmsghdr *c;
	char byte;

	bench_must(weir_mmap_start(o->mmap), "weir_mmap_start");
	bench_must(weir_mmap_export(o->mmap, &opts, &d), "weir_mmap_export");
	iov.iov_base = (void *)d.bytes;
	iov.iov_len = d.len;
	msg.msg_controllen = CMSG_SPACE(d.n_fds * sizeof(int));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(d.n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), d.fds, d.n_fds * sizeof(int));
	atomic_store(&notes->running, 0);
	atomic_store(&notes->leave, 0);
	atomic_store(&notes->told_ns, 0);
	if (sendmsg(o->sock, &msg, MSG_NOSIGNAL) < 0)
		bench_die("sendmsg", errno);
	while (!atomic_load(&notes->running)) {
		if (!recv(o->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT))
			bench_die("the other process has ended", EPIPE);
		usleep(20);
	}
}

static int64_t take_back(struct owner *o, enum ending ending,
			 uint64_t timeout_ns)
{
	int err;

	o->end.n = 0;
	if (timeout_ns)
		weir_op_set_deadline(&o->op, weir_reactor_now(o->r) +
					     timeout_ns);
	err = ending == STOP ? weir_mmap_stop(o->mmap, o->r, &o->op) :
	      ending == DRAIN ? weir_mmap_drain(o->mmap, o->r, &o->op) :
				weir_mmap_revoke(o->mmap, o->r, &o->op);
	bench_must(err, endings[ending]);
	late_wait(o->r, &o->end);
	return o->end.res;
}

/* Take it back from a process that is stopped: if that was in the middle of a
 * slice, the message has to name it. */
static void take_from_stopped(struct owner *o)
{
	char pid[24];
	int64_t res;

	kill(o->pid, SIGSTOP);
	/* Until it has stopped. */
	waitpid(o->pid, NULL, WUNTRACED);
	res = take_back(o, REVOKE, WEIR_MSEC);
	if (res && res != -ETIMEDOUT)
		bench_die("a revoke with a deadline", (int)-res);
	snprintf(pid, sizeof(pid), "%d", (int)o->pid);
	o->sum->timed_out += res == -ETIMEDOUT;
	o->sum->named += res == -ETIMEDOUT && strstr(weir_why(), pid);
	kill(o->pid, SIGCONT);
}

/* One ending, in the middle of a write. */
static void end_one(struct owner *o, enum ending ending,
		    struct bench_hist *took, struct bench_hist *told)
{
	uint64_t begun, ended;
	char byte;

	hand_over(o);
	late_delay_spin(o->l->size);
	if (ending == KILLED)
		kill(o->pid, SIGKILL);
	if (ending == EXITED)
		atomic_store(&notes->leave, 1);
	if (ending == STOPPED)
		take_from_stopped(o);
	begun = bench_wall_ns();
	bench_must((int)take_back(o, ending, 0), endings[ending]);
	ended = bench_wall_ns();
	late_paint(o->memory, o->l->size);
	bench_hist_add(took, ended - begun);
	if (ending == KILLED || ending == EXITED) {
		end_other(o);
		begin_other(o);
	} else if (recv(o->sock, &byte, 1, 0) != 1) {
		bench_die("the other process has ended", EPIPE);
	} else if (ending != STOPPED) {
		bench_hist_add(told, atomic_load(&notes->told_ns) - begun);
	}
	/* What the other process did is over: its job has ended, or itself. */
	late_count(o->sum, late_count_bytes(o->memory, o->l->size),
		   ended - begun);
	bench_must(weir_mmap_stop(o->mmap, NULL, NULL), "weir_mmap_stop");
}

/* The exporter exits. */

static void export_and_exit(int sock, const struct late *l,
			    enum late_engine engine)
{
	struct owner o = { .l = l, .engine = engine, .sock = sock };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	owner_map(&o);
	memset(o.memory, LATE_THEIRS, l->size);
	hand_over(&o);
	late_delay_spin(l->size);
	atomic_store(&notes->left_ns, bench_wall_ns());
	_exit(0);
}

static int start_read(struct importer *im, char *memory)
{
	im->ended.n = 0;
	weir_job_copy(&im->job, weir_operand_mem(memory, im->l->size),
		      weir_operand_buf(im->buf));
	return weir_job_start(im->dma, &im->job);
}

/* We read what a process has exported that exits meanwhile: until its end is
 * known, and no job can be started. */
static void lose_exporter(struct importer *im, char *memory,
			  struct late_sum *sum)
{
	int ends[2], status;
	pid_t pid = fork_with(ends);

	if (!pid)
		export_and_exit(ends[1], im->l, im->engine);
	if (!import(im, ends[0], pid, true))
		bench_die("the exporter sent nothing", EPIPE);
	while (!start_read(im, memory)) {
		atomic_store(&notes->running, 1);
		late_wait(im->r, &im->ended);
		if (im->ended.res < 0)
			break;
	}
	late_paint(memory, im->l->size);
	let_go(im);
	if (waitpid(pid, &status, 0) < 0 || status)
		bench_die("the exporter failed", EPIPE);
	close(ends[0]);
	usleep(late_settle_us(im->l->size));
	late_count(sum, late_count_bytes(memory, im->l->size),
		   atomic_load(&notes->told_ns) -
		   atomic_load(&notes->left_ns));
}

static void exporter_exits(const struct late *l, enum late_engine engine, int n)
{
	struct late_sum sum = { .tried = 0 };
	char *memory = malloc(l->size);
	struct importer im;

	if (!memory)
		bench_die("malloc", ENOMEM);
	importer_open(&im, l, engine);
	for (int i = 0; i < n; i++)
		lose_exporter(&im, memory, &sum);
	late_tell_weir(l, late_engines[engine], "exporter exits", &sum);
	bench_must(weir_dma_destroy(im.dma), "weir_dma_destroy");
	bench_must(weir_domain_destroy(im.file), "weir_domain_destroy");
	close(im.fd);
	bench_must(weir_reactor_destroy(im.r), "weir_reactor_destroy");
	free(im.own);
	free(memory);
}

static void by_engine(const struct late *l, enum late_engine engine)
{
	char what[48], variant[24];
	struct owner o;
	struct late_sum sum;
	int n;

	snprintf(variant, sizeof(variant), "weir %s %s", late_engines[engine],
		 l->backend_name);
	owner_open(&o, l, engine, &sum);
	for (enum ending e = 0; e < N_ENDINGS; e++) {
		memset(&sum, 0, sizeof(sum));
		snprintf(what, sizeof(what), "%s, told", endings[e]);
		/* A process for each costs more than all else. */
		n = e == KILLED || e == EXITED ? (l->n + 3) / 4 : l->n;
		for (int i = 0; i < n; i++)
			end_one(&o, e, bench_latency(l->b, endings[e], variant),
				bench_latency(l->b, what, variant));
		late_tell_weir(l, late_engines[engine], endings[e], &sum);
	}
	owner_close(&o);
	if (engine != LATE_FILE && engine != LATE_BOUNCE)
		exporter_exits(l, engine, (l->n + 3) / 4);
}

/* Some containers allow no process to copy from another one. */
static bool may_copy(void)
{
	char from = 0, to;
	struct iovec a = { &from, 1 }, b = { &to, 1 };

	return process_vm_readv(getpid(), &b, 1, &a, 1, 0) == 1;
}

void late_by_others(const struct late *l)
{
	share_notes();
	for (enum late_engine e = 0; e < LATE_ENGINES; e++) {
		if (!late_wants(l, late_engines[e]))
			continue;
		if (e != LATE_PROCESS || may_copy())
			by_engine(l, e);
		else
			bench_note("process is left out: process_vm_readv: %s",
				   strerror(errno));
	}
}

/* How soon it ends, and how soon the other process knows, while that writes
 * without a pause. */

#define SLICE (1 << 20)
#define LOAD "revoke under load"

/* What one slice costs while the other processor is as busy as it is now: what
 * a revoke may have to wait for. */
static uint64_t slice_ns(char *memory)
{
	static char slice[SLICE];
	struct bench_hist *h = calloc(1, sizeof(*h));
	uint64_t begun, ns;

	if (!h)
		bench_die("malloc", ENOMEM);
	for (int i = 0; i < 64; i++) {
		memset(slice, i, sizeof(slice));
		begun = bench_wall_ns();
		memcpy(memory, slice, sizeof(slice));
		bench_hist_add(h, bench_wall_ns() - begun);
	}
	ns = (uint64_t)bench_hist_quantile(h, 0.5);
	free(h);
	return ns;
}

static void add_load(const struct late *l, const char *variant,
		     const struct bench_hist *took,
		     const struct bench_hist *told, uint64_t slice)
{
	double took_us = bench_hist_quantile(took, 0.99) / 1e3;

	bench_add(l->b, LOAD ", p99 of told", variant, "us",
		  bench_hist_quantile(told, 0.99) / 1e3);
	bench_add(l->b, LOAD ", p99 of the end", variant, "us", took_us);
	bench_add(l->b, LOAD ", a slice", variant, "us", (double)slice / 1e3);
	bench_add(l->b, LOAD ", p99 less a slice", variant, "us",
		  took_us - (double)slice / 1e3);
	bench_hist_merge(bench_latency(l->b, LOAD, variant), took);
	bench_hist_merge(bench_latency(l->b, LOAD ", told", variant), told);
}

static void revoke_once(struct owner *o, struct bench_hist *took,
			struct bench_hist *told)
{
	uint64_t begun;
	char byte;

	late_delay_spin(o->l->size);
	begun = bench_wall_ns();
	bench_must((int)take_back(o, REVOKE, 0), "weir_mmap_revoke");
	bench_hist_add(took, bench_wall_ns() - begun);
	if (recv(o->sock, &byte, 1, 0) != 1)
		bench_die("the other process has ended", EPIPE);
	bench_hist_add(told, atomic_load(&notes->told_ns) - begun);
	bench_must(weir_mmap_stop(o->mmap, NULL, NULL), "weir_mmap_stop");
}

/* At a real-time priority other programs take no CPU from it: chrt(1). */
static void load_variant(char variant[24], const char *backend)
{
	snprintf(variant, 24, "weir load %s%s", backend,
		 sched_getscheduler(0) == SCHED_OTHER ? "" : " rt");
}

void late_under_load(const struct late *l)
{
	struct bench_hist *took, *told;
	struct late big = *l;
	char variant[24];
	struct late_sum sum = { .tried = 0 };
	struct owner o;
	uint64_t slice;
	int nice_now;

	load_variant(variant, l->backend_name);
	if (!bench_wants(l->b, variant))
		return;
	took = calloc(1, sizeof(*took));
	told = calloc(1, sizeof(*told));
	if (!took || !told)
		bench_die("malloc", ENOMEM);
	share_notes();
	/* Larger than a slice, and small enough to be in flight at once. */
	big.size = 16 << 20;
	/* By workers there would be more threads than CPUs, and the scheduler
	 * would be measured. */
	big.pinned = bench_pin(0);
	owner_open(&o, &big, LATE_CPU, &sum);
	hand_over(&o);
	slice = slice_ns(o.memory);
	nice_now = getpriority(PRIO_PROCESS, 0);
	if (nice_now)
		bench_note("revoke under load was measured at nice %d",
			   nice_now);
	for (int i = 0; i < l->n_load; i++) {
		if (i)
			hand_over(&o);
		revoke_once(&o, took, told);
	}
	add_load(l, variant, took, told, slice);
	owner_close(&o);
	bench_unpin();
	free(took);
	free(told);
}

void late_load_goals(struct bench *b, uint32_t backend, const char *name)
{
	char variant[24];

	if (!bench_wants_backend(b, backend))
		return;
	load_variant(variant, name);
	bench_goal(b, "revoke under load: the peer knows within 1 ms, p99",
		   LOAD ", p99 of told", variant, NULL, BENCH_AT_MOST, 1000);
	bench_goal(b, "revoke under load: ends a slice plus 1 ms later, p99",
		   LOAD ", p99 less a slice", variant, NULL, BENCH_AT_MOST,
		   1000);
}
