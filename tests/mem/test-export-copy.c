/* SPDX-License-Identifier: BSD-3-Clause */

/* Exports of what cannot be shared, which are reached by copying; and that
 * nobody can have us copy to where he could not. */

#include "tests/support/export-fixture.h"

#include "tests/fuzz/descriptor-fixture.h"
#include "tests/support/job-fixture.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <weir/inventory.h>

#include "base/fault.h"

static char plain[FIXTURE_LEN] __attribute__((aligned(8)));

static struct weir_export_opts copying(uint32_t permissions)
{
	return (struct weir_export_opts){
		.size = sizeof(struct weir_export_opts),
		.flags = WEIR_EXPORT_COPY, .permissions = permissions,
	};
}

static struct weir_import_opts wanting(const struct weir_exporter_peer *peer)
{
	return (struct weir_import_opts){
		.size = sizeof(struct weir_import_opts),
		.flags = WEIR_IMPORT_COPY, .peer = peer,
	};
}

/* Export plain memory, in the other process, until it is told to end: 's' stop
 * the mmap, 'c' say whether it is pattern 2, else end. */
static void export_there(int sock, void *arg)
{
	uint32_t permissions = *(uint32_t *)arg;
	struct weir_export_opts opts = copying(0);
	struct weir_mmap *m = start_mmap(plain, sizeof(plain),
					 WEIR_MMAP_WRITE | permissions);
	struct parcel p;
	char c;

	fill_pattern(plain, sizeof(plain), 0, 1);
	parcel_of(&p, m, &opts);
	EXPECT(!parcel_send(sock, &p));
	while (recv(sock, &c, 1, 0) == 1 && c) {
		if (c == 's')
			EXPECT(!weir_mmap_stop(m, NULL, NULL));
		else
			EXPECT(is_pattern(plain, sizeof(plain), 0, 2));
		EXPECT(!say(sock));
	}
}

struct fixture {
	struct weir_reactor *r;
	struct proc proc;
	struct parcel p;
	struct weir_exporter_peer peer;
	struct weir_mmap *im;
};

static void tell(struct fixture *g, char c)
{
	assert_int_equal(send(g->proc.sock, &c, 1, MSG_NOSIGNAL), 1);
	assert_int_equal(hear(g->proc.sock), 0);
}

/* Another process has exported; nothing is imported yet. */
static void fixture_begin(struct fixture *g, void **state, uint32_t permissions)
{
	struct weir_import_opts opts = wanting(&g->peer);
	int err;

	close(own_pidfd());
	memset(g, 0, sizeof(*g));
	proc_begin(&g->proc, export_there, &permissions);
	g->r = start_reactor(state);
	g->peer.pid = g->proc.pid;
	g->peer.uid = geteuid();
	g->peer.gid = getegid();
	assert_int_equal(parcel_recv(g->proc.sock, &g->p), 0);
	err = parcel_import(&g->im, &g->p, &opts);
	if (err == -EPERM) {
		parcel_drop(&g->p);
		proc_kill(&g->proc);
		skip_because("%s", weir_why());
	}
	assert_int_equal(err, 0);
}

static void fixture_end(struct fixture *g)
{
	parcel_drop(&g->p);
	assert_int_equal(weir_mmap_destroy(g->im), 0);
	if (g->proc.pid)
		assert_int_equal(say(g->proc.sock) | proc_end(&g->proc), 0);
}

/* Copy all of it to @mem, or from it, through a buf of the import. */
static int64_t move(struct fixture *g, char *mem, bool to_it)
{
	struct weir_dma *dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	struct weir_operand here = weir_operand_mem(mem, FIXTURE_LEN);
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct jrec j;
	int64_t res;
	int err;

	assert_int_equal(weir_inventory_create(&inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, g->im), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, g->im,
					    fixture_addr(g->im), FIXTURE_LEN,
					    fixture_addr(g->im),
					    to_it ? 0 : FIXTURE_LEN),
			 0);
	jrec_init(&j);
	if (to_it)
		weir_job_copy(&j.job, weir_operand_buf(buf), here);
	else
		weir_job_copy(&j.job, here, weir_operand_buf(buf));
	err = weir_job_start(dma, &j.job);
	res = err ? err : jrec_finish(g->r, &j);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	return res;
}

static void plain_memory_goes_by_copying(void **state)
{
	char mem[FIXTURE_LEN];
	struct fixture g;
	size_t len;

	fixture_begin(&g, state, RW);
	assert_int_equal(weir_domain_kind(weir_mmap_domain(g.im)),
			 WEIR_DOMAIN_PROCESS);
	assert_int_equal(weir_mmap_memrange(g.im, NULL, &len), 0);
	assert_int_equal(len, FIXTURE_LEN);
	assert_int_equal(weir_mmap_is_imported(g.im), 1);
	assert_int_equal(move(&g, mem, false), FIXTURE_LEN);
	assert_true(is_pattern(mem, FIXTURE_LEN, 0, 1));
	fill_pattern(mem, FIXTURE_LEN, 0, 2);
	assert_int_equal(move(&g, mem, true), FIXTURE_LEN);
	tell(&g, 'c');
	fixture_end(&g);
}

/* A job by address, in the domain of the import. */
static int64_t read_at(struct weir_dma *dma, struct weir_domain *domain,
		       uint64_t addr, uint64_t len)
{
	static char mem[FIXTURE_LEN];
	struct jrec j;
	int err;

	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(mem, len),
		      weir_operand_at(domain, addr, len));
	err = weir_job_start(dma, &j.job);
	return err ? err : jrec_finish(weir_dma_reactor(dma), &j);
}

static void domain_of_a_copying_import_is_its_range_until_it_is_stale(
	void **state)
{
	struct weir_domain *domain;
	struct weir_dma *dma;
	struct fixture g;
	uint64_t at;

	fixture_begin(&g, state, RW);
	dma = start_dma(g.r, (struct weir_dma_opts){ 0 });
	domain = weir_mmap_domain(g.im);
	at = (uintptr_t)fixture_addr(g.im);
	assert_int_equal(read_at(dma, domain, at, FIXTURE_LEN), FIXTURE_LEN);
	assert_int_equal(read_at(dma, domain, at + FIXTURE_LEN - 1, 1), 1);
	assert_int_equal(read_at(dma, domain, at + FIXTURE_LEN, 1), -ERANGE);
	assert_int_equal(read_at(dma, domain, at + 1, FIXTURE_LEN), -ERANGE);
	assert_int_equal(read_at(dma, domain, at - 1, 1), -ERANGE);
	tell(&g, 's');
	assert_int_equal(read_at(dma, domain, at, 1), -ESTALE);
	assert_int_equal(weir_dma_destroy(dma), 0);
	fixture_end(&g);
}

static void rights_of_a_copying_export_hold(void **state)
{
	struct weir_import_opts opts;
	struct weir_mmap *im = NULL;
	char mem[FIXTURE_LEN];
	struct fixture g;

	fixture_begin(&g, state, RO);
	assert_int_equal(weir_mmap_permissions(g.im), WEIR_MMAP_READ);
	assert_int_equal(move(&g, mem, false), FIXTURE_LEN);
	assert_int_equal(move(&g, mem, true), -EACCES);
	opts = wanting(&g.peer);
	opts.permissions = WEIR_MMAP_WRITE;
	assert_int_equal(parcel_import(&im, &g.p, &opts), -EACCES);
	fixture_end(&g);
}

static void stop_revokes_a_copying_export(void **state)
{
	struct weir_import_opts opts;
	struct weir_mmap *im = NULL;
	struct rec rec;
	struct fixture g;

	fixture_begin(&g, state, RW);
	rec_init(&rec);
	STARTS(weir_mmap_watch(g.im, g.r, &rec.op));
	tell(&g, 's');
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	assert_int_equal(finish(g.r, &rec), -ESTALE);
	opts = wanting(&g.peer);
	assert_int_equal(parcel_import(&im, &g.p, &opts), -ESTALE);
	fixture_end(&g);
}

/* Imported by ourselves. */
static struct weir_mmap *import_copying(struct weir_mmap *m)
{
	struct weir_exporter_peer peer = { getpid(), geteuid(), getegid() };
	struct weir_import_opts importing = wanting(&peer);
	struct weir_export_opts exporting = copying(0);
	struct weir_mmap *im = NULL;
	struct parcel p;
	int err;

	parcel_of(&p, m, &exporting);
	err = parcel_import(&im, &p, &importing);
	parcel_drop(&p);
	if (err == -EPERM)
		skip_because("%s", weir_why());
	assert_int_equal(err, 0);
	return im;
}

#define LARGE (64u << 20)

/* Stop the export when the first bytes have come.  Returns what came of the
 * job, and in *@bytes how many it has written. */
static int64_t stop_under(struct weir_reactor *r, const char *ours, char *mem,
			  uint64_t *bytes)
{
	struct weir_mmap *m = start_mmap(mem, LARGE, WEIR_MMAP_WRITE | RW);
	struct weir_mmap *im = import_copying(m);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct rec stop;
	struct jrec j;
	int64_t res;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, im), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, im, mem, LARGE, NULL, 0),
			 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(buf),
		      weir_operand_mem((void *)(uintptr_t)ours, LARGE));
	memset(mem, 0, LARGE);
	assert_int_equal(weir_job_start(dma, &j.job), 0);
	while (!*(volatile char *)mem)
		weir_reactor_turn(r, 0);
	rec_init(&stop);
	STARTS(weir_mmap_stop(m, r, &stop.op));
	UNTIL(r, stop.calls);
	assert_int_equal(stop.res, 0);
	memset(mem, 2, LARGE);
	UNTIL(r, j.calls);
	res = j.res;
	*bytes = j.job.op.detail.bytes;
	assert_int_equal(mem[0], 2);
	assert_memory_equal(mem, mem + 1, LARGE - 1);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return res;
}

/* Else it would write on to what the exporter has something else in by now.  It
 * may have been done before we could stop it. */
static void a_job_under_way_writes_no_further(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t bytes = LARGE;
	char *ours, *mem;
	unsigned int tries;
	int64_t res;

	close(own_pidfd());
	ours = malloc(LARGE);
	mem = malloc(LARGE);
	assert_non_null(ours);
	assert_non_null(mem);
	memset(ours, 1, LARGE);
	for (tries = 0; bytes == LARGE && tries < 50; tries++) {
		res = stop_under(r, ours, mem, &bytes);
		assert_true(res == LARGE || res == -ESTALE);
	}
	assert_int_equal(res, -ESTALE);
	assert_true(bytes < LARGE);
	free(ours);
	free(mem);
}

static void a_dead_exporter_is_noticed(void **state)
{
	struct weir_import_opts opts;
	struct weir_mmap *im = NULL;
	char mem[FIXTURE_LEN];
	struct rec rec;
	struct fixture g;

	fixture_begin(&g, state, RW);
	proc_kill(&g.proc);
	g.proc.pid = 0;
	assert_int_equal(move(&g, mem, false), -ESRCH);
	rec_init(&rec);
	STARTS(weir_mmap_watch(g.im, g.r, &rec.op));
	assert_int_equal(finish(g.r, &rec), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	opts = wanting(&g.peer);
	assert_int_equal(parcel_import(&im, &g.p, &opts), -ESRCH);
	assert_null(im);
	fixture_end(&g);
}

static void wait_there(int sock, void *arg)
{
	(void)arg;
	hear(sock);
}

/* Whoever asked for no copying, or did not say from whom, gets none; nor does
 * one get another process than the one that sent it. */
static void copying_import_reaches_the_exporter_only(void **state)
{
	struct weir_exporter_peer peer;
	struct weir_import_opts opts;
	struct weir_mmap *im = NULL;
	struct proc other;
	struct parcel q;
	struct fixture g;

	close(own_pidfd());
	proc_begin(&other, wait_there, NULL);
	fixture_begin(&g, state, RW);
	assert_int_equal(parcel_import(&im, &g.p, NULL), -EOPNOTSUPP);
	opts = wanting(NULL);
	assert_int_equal(parcel_import(&im, &g.p, &opts), -EACCES);
	opts.peer = &peer;
	peer = g.peer;
	peer.pid = other.pid;
	assert_int_equal(parcel_import(&im, &g.p, &opts), -EACCES);
	peer = g.peer;
	peer.uid++;
	assert_int_equal(parcel_import(&im, &g.p, &opts), -EACCES);

	q = g.p;
	peer = g.peer;
	q.fds[0] = (int)syscall(SYS_pidfd_open, other.pid, 0);
	assert_true(q.fds[0] >= 0);
	assert_int_equal(parcel_import(&im, &q, &opts), -EACCES);
	/* Its number was given out again: it began at another time. */
	peer.pid = other.pid;
	fixture_put((uint8_t *)q.bytes + DESCRIPTOR_HEADER + 72 + 16, 1, 8);
	fixture_repair((uint8_t *)q.bytes, q.len, 0);
	assert_int_equal(parcel_import(&im, &q, &opts), -EACCES);
	close(q.fds[0]);
	q = g.p;
	q.fds[0] = g.p.fds[1];
	assert_int_equal(parcel_import(&im, &q, &opts), -EBADMSG);
	assert_null(im);
	assert_int_equal(say(other.sock) | proc_end(&other), 0);
	fixture_end(&g);
}

/* Have a child do the rest as the first process of a PID namespace of its own,
 * with a /proc of that, unless this process may not make one. */
static void enter_a_pid_namespace(int sock)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL))
		_exit(77);
	pid = fork();
	if (pid) {
		EXPECT(send(sock, &pid, sizeof(pid), 0) == sizeof(pid));
		EXPECT(waitpid(pid, &status, 0) == pid);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	if (mount("proc", "/proc", "proc", 0, NULL))
		_exit(77);
	/* The number has arrived. */
	EXPECT(!hear(sock));
}

/* Returns the process, by its number here. */
static pid_t begin_in_a_pid_namespace(struct proc *proc,
				      void (*fn)(int sock, void *arg), void *arg)
{
	pid_t pid = 0;
	int status;

	proc_begin(proc, fn, arg);
	if (recv(proc->sock, &pid, sizeof(pid), 0) != sizeof(pid)) {
		status = proc_end(proc);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 77);
		skip_because("may not make a PID namespace; needs root");
	}
	/* It may have ended already. */
	(void)say(proc->sock);
	return pid;
}

static void judge_there(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_because("may not mount; needs root");
	assert_int_equal(status, 0);
}

static void import_in_a_pid_namespace(int sock, void *arg)
{
	struct weir_exporter_peer peer = { .pid = -1 };
	struct weir_import_opts opts = wanting(&peer);
	struct weir_mmap *im = NULL;
	socklen_t len = sizeof(peer);
	struct parcel p;

	(void)arg;
	enter_a_pid_namespace(sock);
	EXPECT(!parcel_recv(sock, &p));
	EXPECT(!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len));
	EXPECT(peer.pid == 0);
	EXPECT(parcel_import(&im, &p, &opts) == -EOPNOTSUPP);
	EXPECT(strstr(weir_why(), "weir_mmap_import: the exporter is in a PID"));
}

static void exporter_outside_of_our_pid_namespace_is_refused(void **state)
{
	struct weir_export_opts opts = copying(0);
	struct weir_mmap *m = start_mmap(plain, sizeof(plain),
					 WEIR_MMAP_WRITE | RW);
	struct proc proc;
	struct parcel p;
	int status;

	(void)state;
	close(own_pidfd());
	begin_in_a_pid_namespace(&proc, import_in_a_pid_namespace, NULL);
	parcel_of(&p, m, &opts);
	(void)parcel_send(proc.sock, &p);
	parcel_drop(&p);
	status = proc_end(&proc);
	assert_int_equal(weir_mmap_destroy(m), 0);
	judge_there(status);
}

static void export_in_a_pid_namespace(int sock, void *arg)
{
	enter_a_pid_namespace(sock);
	export_there(sock, arg);
}

static void exporter_in_a_pid_namespace_of_ours_is_reached(void **state)
{
	uint32_t permissions = RW;
	static char mem[FIXTURE_LEN];
	struct weir_import_opts opts;
	struct fixture g;

	close(own_pidfd());
	memset(&g, 0, sizeof(g));
	g.peer.pid = begin_in_a_pid_namespace(&g.proc, export_in_a_pid_namespace,
					      &permissions);
	g.peer.uid = geteuid();
	g.r = start_reactor(state);
	opts = wanting(&g.peer);
	if (parcel_recv(g.proc.sock, &g.p)) {
		judge_there(proc_end(&g.proc));
		fail_msg("it has exported nothing");
	}
	assert_int_equal(parcel_import(&g.im, &g.p, &opts), 0);
	assert_int_equal(move(&g, mem, false), FIXTURE_LEN);
	assert_true(is_pattern(mem, FIXTURE_LEN, 0, 1));
	fixture_end(&g);
}

static uint32_t kind_of(struct weir_mmap *m, struct weir_export_opts *opts)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	assert_int_equal(weir_mmap_export(m, opts, &desc), 0);
	return ((const uint8_t *)desc.bytes)[20];
}

static void shareable_memory_is_shared_not_copied(void **state)
{
	struct weir_export_opts opts = copying(0);
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m;

	(void)state;
	close(own_pidfd());
	m = fixture_started(FIXTURE_LEN, RW);
	assert_int_equal(kind_of(m, &opts), DESCRIPTOR_MEMFD);
	/* But not with a right that the seals cannot keep. */
	opts = copying(RO);
	assert_int_equal(kind_of(m, &opts), DESCRIPTOR_PROCESS);
	opts = copying(RW);
	assert_int_equal(kind_of(m, &opts), DESCRIPTOR_MEMFD);
	opts.flags = 0;
	opts.permissions = RO;
	assert_int_equal(weir_mmap_export(m, &opts, &desc), -EACCES);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static int64_t import_from(struct weir_reactor *r, const char *path,
			   const struct weir_import_opts *opts,
			   struct weir_mmap **ret)
{
	struct rec rec;
	int64_t res;

	rec_init(&rec);
	STARTS(weir_mmap_import_from(r, &rec.op, path, "plain", opts));
	res = finish(r, &rec);
	*ret = weir_mmap_imported(&rec.op);
	return res;
}

static void exporter_hands_out_a_copying_export_if_added_as_one(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_import_opts opts = wanting(NULL);
	struct weir_export_opts export = copying(0);
	const char *path = test_path(state, "socket");
	struct weir_mmap *m, *im = NULL;
	struct weir_exporter *x;
	int64_t res;

	close(own_pidfd());
	m = start_mmap(plain, sizeof(plain), WEIR_MMAP_WRITE | RW);
	assert_int_equal(weir_exporter_create(&x, r, path, NULL), 0);
	assert_int_equal(weir_exporter_add(x, "plain", m, NULL), -EOPNOTSUPP);
	assert_int_equal(weir_exporter_add(x, "plain", m, &export), 0);
	assert_int_equal(import_from(r, path, NULL, &im), -EOPNOTSUPP);
	res = import_from(r, path, &opts, &im);
	if (res != -EPERM)
		assert_int_equal(res, 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	weir_exporter_destroy(x);
	some_turns(r, 3);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void failed_copying_export_leaves_nothing_behind(void **state)
{
	struct weir_exporter_peer peer = { getpid(), geteuid(), getegid() };
	struct weir_import_opts import = wanting(&peer);
	struct weir_export_opts opts = copying(0);
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m, *im = NULL;
	struct parcel p;
	int n, err = -1;

	(void)state;
	close(own_pidfd());
	m = start_mmap(plain, sizeof(plain), WEIR_MMAP_WRITE | RW);
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = weir_mmap_export(m, &opts, &desc);
		if (!fault_disarm())
			break;
	}
	assert_true(n > 0 && n < 100 && !err);
	parcel_of(&p, m, &opts);
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = parcel_import(&im, &p, &import);
		if (!fault_disarm())
			break;
		if (!err)	/* Without a start time it is not compared. */
			assert_int_equal(weir_mmap_destroy(im), 0);
		im = NULL;
	}
	assert_true(n > 5 && n < 100 && (!err || err == -EPERM));
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(plain_memory_goes_by_copying),
		CASE(domain_of_a_copying_import_is_its_range_until_it_is_stale),
		CASE(rights_of_a_copying_export_hold),
		CASE(stop_revokes_a_copying_export),
		CASE(a_job_under_way_writes_no_further),
		CASE(a_dead_exporter_is_noticed),
		CASE(copying_import_reaches_the_exporter_only),
		CASE(exporter_outside_of_our_pid_namespace_is_refused),
		CASE(exporter_in_a_pid_namespace_of_ours_is_reached),
		CASE(shareable_memory_is_shared_not_copied),
		CASE(exporter_hands_out_a_copying_export_if_added_as_one),
		CASE(failed_copying_export_leaves_nothing_behind),
	};

	return harness_run(cases, N_OF(cases));
}
