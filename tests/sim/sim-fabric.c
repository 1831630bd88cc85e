/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenario: memory of peers over libfabric, of which there is a mock: hosts export,
 * import, copy and take back, while connections, posts and registrations fail.
 *
 * A host exports by leases, and all hosts import them.  Each slot is a part of an
 * export that one host copies to and from, so every byte of it is known: what a job
 * has done is there, nothing else changes, and nothing changes after the lease is over.
 */

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>

#include <weir/crc32c.h>
#include <weir/device.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/fabric/device.h>
#include <weir/job.h>
#include <weir/lease.h>
#include <weir/mmap.h>
#include <weir/timer.h>

#include "tests/support/mock-fabric.h"
#include "tools/sim-fixture.h"
#include "tools/sim-scenarios.h"

#define HOSTS 3
#define EXPORTS 3
#define SLOTS 6			/* Of an export. */
#define CAPACITY 16384		/* Bytes of a slot, on each side. */
#define MOST 6000		/* Of these a job moves. */
#define PIECES 4
#define DESC_MAX 1024
#define PERMISSIONS (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

struct host {
	struct weir_reactor *r;
	struct weir_dma *dma;		/* NULL: it has none just now. */
};

/* The bytes of a job: pieces of .each bytes, .step apart. */
struct shape {
	uint32_t off, each, step, n;
};

/* One side of a slot, and what is in it by all that is known. */
struct ground {
	unsigned char *mem;
	unsigned char was[CAPACITY];
};

struct slot {
	struct export *x;
	struct host *host;
	struct weir_job job;
	bool busy, reads, wrong;
	bool disturbed;			/* A cancel, a deadline, or its import ended. */
	bool beside;			/* As is one on the same connection. */
	bool tainted;			/* Bytes of a job that failed may come. */
	uint64_t revoked;		/* The export's count at the start. */
	struct ground here, there;
	struct shape here_at, there_at;
	struct iovec here_iov[PIECES], there_iov[PIECES];
	unsigned char bytes[MOST];	/* What is to arrive. */
	uint32_t len;
};

/* By which a host reaches an export; with a key that is no good, or a good one. */
struct import {
	struct weir_mmap *m;		/* NULL: there is none. */
	struct weir_domain *d;
	uint64_t addr;			/* Of the first byte in .d. */
};

struct export {
	struct program *program;
	struct host *host;		/* Of the lease. */
	struct weir_mmap *m;
	struct weir_lease *lease;	/* NULL: it is not exported. */
	bool is_ending, is_over, may_write;
	uint64_t revoked;		/* How often. */
	struct import good[HOSTS], bad[HOSTS];
	struct slot slots[SLOTS];
	unsigned char mem[SLOTS * CAPACITY], sealed[SLOTS * CAPACITY];
	unsigned char here[SLOTS * CAPACITY];
};

struct program {
	struct run *run;
	struct weir_device *device;
	struct host hosts[HOSTS];
	uint32_t n_hosts;
	struct export exports[EXPORTS];
	uint32_t n_exports;
	struct weir_timer *wire;	/* When something on it arrives. */
	uint64_t stamps;
	bool has_no_wait;
};

/* The mock. */

static void (*enter)(const struct mock_fabric_world *world);
static int (*step)(void);
static void (*left)(struct mock_fabric_left *ret);

__attribute__((constructor)) static void load_mock(void)
{
	char path[PATH_MAX];
	void *mock;

	if (!getenv("WEIR_FABRIC_LIBRARY") &&
	    realpath("tests/.libs/mock-fabric.so", path))
		setenv("WEIR_FABRIC_LIBRARY", path, 1);
	mock = dlopen(getenv("WEIR_FABRIC_LIBRARY"), RTLD_NOW);
	if (!mock)
		return;
	enter = (void (*)(const struct mock_fabric_world *))dlsym(
		mock, "mock_fabric_enter");
	step = (int (*)(void))dlsym(mock, "mock_fabric_step");
	left = (void (*)(struct mock_fabric_left *))dlsym(mock,
							  "mock_fabric_left");
}

static uint32_t draw(void *arg, uint32_t n)
{
	struct program *p = arg;

	return n ? rnd(p->run, n) : 0;
}

static int goes_wrong(void *arg, int fault)
{
	static const enum weir_sim_fault kinds[MOCK_FABRIC_FAULTS] = {
		[MOCK_FABRIC_SETUP] = WEIR_SIM_SYSCALL,
		[MOCK_FABRIC_REGISTER] = WEIR_SIM_REGISTER,
		[MOCK_FABRIC_CONNECT] = WEIR_SIM_REFUSED,
		[MOCK_FABRIC_AGAIN] = WEIR_SIM_FULL,
		[MOCK_FABRIC_POST] = WEIR_SIM_ERROR,
		[MOCK_FABRIC_LOST] = WEIR_SIM_RESET,
		[MOCK_FABRIC_SILENT] = WEIR_SIM_STALL,
		[MOCK_FABRIC_CLOSE] = WEIR_SIM_STUCK,
		[MOCK_FABRIC_REGION] = WEIR_SIM_ERROR,
		[MOCK_FABRIC_KEY] = WEIR_SIM_REGISTER,
	};
	struct program *p = arg;

	return weir_sim_fault(p->run->sim, kinds[fault]);
}

static void set_wire(struct program *p)
{
	weir_timer_start(p->wire, weir_sim_now(p->run->sim) + 1 +
			 rnd(p->run, 20000), 0);
}

static void on_later(void *arg)
{
	struct program *p = arg;

	if (!weir_timer_is_set(p->wire))
		set_wire(p);
}

static void on_wire(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct program *p = arg;
	uint32_t times = 1 + rnd(p->run, 6);

	(void)timer, (void)n;
	while (times-- && step())
		;
	set_wire(p);
}

static void enter_mock(struct program *p)
{
	struct mock_fabric_world world = {
		.below = draw, .fault = goes_wrong, .later = on_later, .arg = p,
	};

	world.mr_mode = one_in(p->run, 2) ? FI_MR_VIRT_ADDR : 0;
	world.mr_mode |= one_in(p->run, 2) ? FI_MR_PROV_KEY : 0;
	world.key_size = one_in(p->run, 2) ? 8 : 4;
	world.max_msg = one_in(p->run, 2) ? 1u << 20 : 100 + rnd(p->run, 3000);
	world.iov_limit = 1 + rnd(p->run, 4);
	world.flags = rnd(p->run, 32) & ~MOCK_FABRIC_NO_WAIT;
	p->has_no_wait = one_in(p->run, 32);
	if (p->has_no_wait)
		world.flags |= MOCK_FABRIC_NO_WAIT;
	enter(&world);
}

/* Exports. */

static void export_check(struct export *x)
{
	if (x->is_over)
		must(!memcmp(x->mem, x->sealed, sizeof(x->mem)),
		     "nothing comes after a lease is over", "%s", "it did");
}

static void export_seal(struct export *x)
{
	x->is_over = true;
	memcpy(x->sealed, x->mem, sizeof(x->mem));
}

static void export_open(struct export *x)
{
	struct program *p = x->program;
	struct weir_lease_opts opts = {
		.size = sizeof(opts), .device = p->device,
		.permissions = PERMISSIONS,
	};
	uint32_t i;
	int err;

	x->host = &p->hosts[rnd(p->run, p->n_hosts)];
	if (!x->host->dma)
		return;
	x->may_write = !one_in(p->run, 6);
	if (!x->may_write)
		opts.permissions = WEIR_MMAP_PEER_READ;
	err = weir_lease_create(&x->lease, x->host->r, x->m, &opts);
	must(!err || p->run->trial->faults || p->has_no_wait,
	     "memory can be exported", "%d: %s", err, weir_why());
	if (err) {
		x->lease = NULL;
		return;
	}
	x->is_ending = x->is_over = false;
	for (i = 0; i < SLOTS; i++) {
		x->slots[i].tainted = false;
		memcpy(x->slots[i].there.was, x->slots[i].there.mem, CAPACITY);
	}
}

static void import_open(struct export *x, struct import *import, bool is_bad)
{
	static const char begin[] = { 1, 0, 3, 16 };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct program *p = x->program;
	unsigned char bytes[DESC_MAX], *field;
	void *addr = NULL;
	uint32_t crc;
	int err;

	if (!x->lease || weir_lease_export(x->lease, &desc))
		return;
	memcpy(bytes, desc.bytes, desc.len);
	field = memmem(bytes, desc.len, begin, sizeof(begin));
	must(field != NULL, "a descriptor has the provider's part", "%zu",
	     desc.len);
	if (is_bad)
		field[4 + 5] ^= 0x55;
	memset(bytes + 16, 0, 4);
	crc = weir_crc32c(0, bytes, desc.len);
	memcpy(bytes + 16, &crc, 4);
	err = weir_mmap_import_device(&import->m, p->device, bytes, desc.len, NULL);
	must(!err || p->run->trial->faults, "memory can be imported", "%d: %s",
	     err, weir_why());
	if (err) {
		import->m = NULL;
		return;
	}
	import->d = weir_mmap_domain(import->m);
	(void)weir_mmap_memrange(import->m, &addr, NULL);
	import->addr = (uintptr_t)addr;
}

static void import_close(struct export *x, struct import *import)
{
	uint32_t i;
	int err = weir_mmap_destroy(import->m);

	must(!err, "an import can go at any time", "%d: %s", err, weir_why());
	import->m = NULL;
	for (i = 0; i < SLOTS; i++)
		x->slots[i].disturbed = true;
}

static void imports_close(struct export *x)
{
	uint32_t i;

	for (i = 0; i < x->program->n_hosts; i++) {
		import_close(x, &x->good[i]);
		import_close(x, &x->bad[i]);
	}
}

static void export_end(struct export *x)
{
	struct weir_lease_info info = { .size = sizeof(info) };
	int err = 0;

	if (!x->is_ending) {
		err = weir_lease_revoke(x->lease, NULL);
		if (err == -ENOMEM)
			return;
		must(!err || err == -EINPROGRESS, "a lease can be ended",
		     "%d: %s", err, weir_why());
		x->is_ending = true;
		x->revoked++;
	}
	if (x->is_over)
		return;
	(void)weir_lease_info(x->lease, &info);
	if (info.state == WEIR_LEASE_OVER)
		export_seal(x);
	must(err || x->is_over, "a lease that was ended at once is over", "%u",
	     info.state);
}

static bool slots_idle(const struct export *x)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		if (x->slots[i].busy)
			return false;
	return true;
}

/* It is over, and what could be exported again. */
static bool export_close(struct export *x)
{
	int err;

	if (!x->lease)
		return true;
	export_end(x);
	if (!x->is_over || !slots_idle(x))
		return false;
	imports_close(x);
	err = weir_lease_destroy(x->lease);
	must(!err, "a lease that is over can go", "%d: %s", err, weir_why());
	x->lease = NULL;
	return true;
}

static void export_act(struct export *x)
{
	struct run *run = x->program->run;
	struct import *import;
	uint32_t host = rnd(run, x->program->n_hosts);

	if (!x->lease) {
		export_open(x);
		return;
	}
	import = one_in(run, 4) ? &x->bad[host] : &x->good[host];
	if (!import->m)
		import_open(x, import, import == &x->bad[host]);
	else if (one_in(run, 40))
		import_close(x, import);
	if (x->is_ending)
		(void)export_close(x);
	else if (one_in(run, 30))
		export_end(x);
}

/* Jobs. */

static void draw_shape(struct run *run, struct shape *shape, uint32_t len)
{
	do
		shape->n = 1 + rnd(run, PIECES);
	while (len % shape->n);
	shape->each = len / shape->n;
	shape->step = shape->each + rnd(run, 1000);
	shape->off = rnd(run, 1000);
}

static uint32_t at(const struct shape *shape, uint32_t i)
{
	return shape->off + i / shape->each * shape->step + i % shape->each;
}

static void ground_fill(struct program *p, struct ground *g)
{
	pattern_fill(g->mem, CAPACITY, ++p->stamps, 0);
	memcpy(g->was, g->mem, CAPACITY);
}

static void ground_check(const struct slot *s, const struct ground *g,
			 const char *where)
{
	must(!memcmp(g->mem, g->was, CAPACITY),
	     "memory changes by what is asked for, and then", "%s", where);
	s->x->program->run->trial->verified += CAPACITY;
}

/* @g is where the bytes of @s went, of which @done are told to be there. */
static void ground_take(struct slot *s, struct ground *g,
			const struct shape *shape, uint32_t done)
{
	uint32_t i, off;

	for (i = 0; i < s->len; i++) {
		off = at(shape, i);
		must(g->mem[off] == s->bytes[i] ||
		     (i >= done && g->mem[off] == g->was[off]),
		     "what a job has done is there", "byte %u of %u, %u done",
		     i, s->len, done);
		g->was[off] = g->mem[off];
	}
}

/* Bytes that were sent arrive while the export is open, though the job has failed. */
static void there_check(const struct slot *s)
{
	if (!s->tainted)
		ground_check(s, &s->there, "at the peer");
}

static void check_cause(const struct slot *s, int64_t res)
{
	struct run *run = s->x->program->run;
	bool known = res == -ECONNREFUSED || res == -ESTALE ||
		     res == -ETIMEDOUT || res == -ECONNRESET ||
		     res == -ECANCELED;

	must(res != 0, "a job moves bytes, or fails", "%s", "0");
	if (res > 0)
		return;
	/* What does not end within the grace period ends the connection. */
	must(run->trial->faults || s->disturbed || s->wrong ||
	     (s->beside && res == -ECONNRESET) ||
	     s->revoked != s->x->revoked, "a job fails for a cause", "%lld",
	     (long long)res);
	/* A connection that cannot be made anew has the errno of that. */
	must(known || (run->trial->faults &&
		       (res == -ENOMEM || res == -EMFILE || res == -EIO ||
			res == -EINVAL)),
	     "a result that is documented", "%lld", (long long)res);
}

static void act(void *program);

static void on_job(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);
	struct weir_op_detail detail = { .bytes = 0 };
	struct run *run = s->x->program->run;

	must(s->busy, "one completion for each operation", "%s", "another");
	s->busy = false;
	run->under_way--;
	(void)weir_op_get_detail(op, &detail);
	check_cause(s, res);
	must(res < 0 || (res == s->len && detail.bytes == s->len && !s->wrong),
	     "a job that ends well has done all of it", "%lld of %u",
	     (long long)res, s->len);
	must(detail.bytes <= s->len, "no more bytes than asked for", "%llu",
	     (unsigned long long)detail.bytes);
	must(!s->wrong || !detail.bytes, "a wrong key moves nothing", "%llu",
	     (unsigned long long)detail.bytes);
	if (!s->wrong)
		ground_take(s, s->reads ? &s->here : &s->there,
			    s->reads ? &s->here_at : &s->there_at,
			    (uint32_t)detail.bytes);
	ground_check(s, &s->here, "here");
	if (res < 0 && !s->reads && !s->wrong)
		s->tainted = true;
	else
		there_check(s);
	weir_sim_note(run->sim, "job", (uint64_t)(res & 0xffffffff));
	if (one_in(run, 2))
		act(s->x->program);
}

static uint32_t fill_iov(struct iovec *iov, uintptr_t mem,
			 const struct shape *shape)
{
	uint32_t i;

	for (i = 0; i < shape->n; i++) {
		iov[i].iov_base = (void *)(mem + shape->off + i * shape->step);
		iov[i].iov_len = shape->each;
	}
	return shape->n;
}

static void prepare(struct slot *s, const struct import *import)
{
	struct run *run = s->x->program->run;
	const struct ground *from = s->reads ? &s->there : &s->here;
	const struct shape *shape = s->reads ? &s->there_at : &s->here_at;
	uintptr_t far = import->addr + (uintptr_t)(s->there.mem - s->x->mem);
	struct weir_operand here, there;
	uint32_t i;

	s->len = one_in(run, 3) ? 1 + rnd(run, 100) : 1 + rnd(run, MOST);
	draw_shape(run, &s->here_at, s->len);
	draw_shape(run, &s->there_at, s->len);
	for (i = 0; i < s->len; i++)
		s->bytes[i] = from->mem[at(shape, i)];
	here = weir_operand_iov(NULL, s->here_iov,
				fill_iov(s->here_iov, (uintptr_t)s->here.mem,
					 &s->here_at));
	there = weir_operand_iov(import->d, s->there_iov,
				 fill_iov(s->there_iov, far, &s->there_at));
	weir_job_init(&s->job, on_job);
	weir_job_copy(&s->job, s->reads ? here : there, s->reads ? there : here);
}

/* Note which jobs in flight are on a connection with one that was disturbed. */
static void note_beside(struct export *x, const struct host *host)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		any |= x->slots[i].busy && x->slots[i].host == host &&
		       x->slots[i].disturbed;
	for (i = 0; i < SLOTS; i++)
		x->slots[i].beside |= any && x->slots[i].busy &&
				      x->slots[i].host == host;
}

static void start(struct slot *s)
{
	struct program *p = s->x->program;
	uint32_t host = (uint32_t)(s->host - p->hosts);
	struct import *import = &s->x->good[host];
	int err;

	s->wrong = one_in(p->run, 30);
	if (s->wrong)
		import = &s->x->bad[host];
	s->reads = !s->x->may_write || one_in(p->run, 2);
	/* What it has failed to write may still come. */
	if (!import->m || s->tainted || !s->host->dma)
		return;
	ground_check(s, &s->here, "here");
	there_check(s);
	ground_fill(p, s->reads ? &s->here : &s->there);
	if (s->x->is_over)
		export_seal(s->x);
	s->disturbed = s->x->is_ending;
	s->beside = false;
	s->revoked = s->x->revoked;
	prepare(s, import);
	err = weir_job_start(s->host->dma, &s->job);
	must(!err || err == -EAGAIN || p->run->trial->faults || p->has_no_wait,
	     "a job is refused for a cause", "%d: %s", err, weir_why());
	if (err)
		return;
	s->busy = true;
	p->run->under_way++;
	note_beside(s->x, s->host);
}

static void disturb(struct slot *s)
{
	struct run *run = s->x->program->run;

	s->disturbed = true;
	note_beside(s->x, s->host);
	if (one_in(run, 2))
		(void)weir_op_cancel(&s->job.op);
	else
		(void)weir_op_set_deadline(&s->job.op,
					   weir_sim_now(run->sim) +
					   rnd(run, 1000000));
}

/* Contexts. */

static void host_open(struct program *p, struct host *h)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	int err;

	opts.jobs_max = one_in(p->run, 4) ? 1 + rnd(p->run, 6) : 0;
	err = weir_dma_create(&h->dma, h->r, &opts);
	if (err)
		h->dma = NULL;
	else
		err = weir_dma_start(h->dma);
	must(!err || p->run->trial->faults, "a context can be made", "%d: %s",
	     err, weir_why());
}

/* Its exports end with it, whoever is connected. */
static void host_close(struct program *p, struct host *h)
{
	struct export *x;
	uint32_t i, k;

	for (i = 0; i < p->n_exports; i++)
		for (k = 0; k < SLOTS; k++)
			if (p->exports[i].slots[k].busy &&
			    p->exports[i].slots[k].host == h)
				return;
	if (weir_dma_destroy(h->dma))
		return;
	h->dma = NULL;
	for (i = 0; i < p->n_exports; i++) {
		x = &p->exports[i];
		if (!x->lease || x->host != h || x->is_over)
			continue;
		x->is_ending = true;
		x->revoked++;
		export_seal(x);
	}
}

/* On any reactor: all have one thread. */
static void act(void *program)
{
	struct program *p = program;
	struct host *h = &p->hosts[rnd(p->run, p->n_hosts)];
	struct export *x;
	struct slot *s;
	uint32_t n;

	if (!h->dma)
		host_open(p, h);
	else if (one_in(p->run, 100))
		host_close(p, h);
	for (n = 1 + rnd(p->run, 6); n && p->run->budget && !p->run->ending; n--) {
		x = &p->exports[rnd(p->run, p->n_exports)];
		export_act(x);
		s = &x->slots[rnd(p->run, SLOTS)];
		if (s->busy && one_in(p->run, 6)) {
			disturb(s);
		} else if (!s->busy) {
			p->run->budget--;
			start(s);
		}
		export_check(x);
	}
}

/* All of it. */

static void export_set_up(struct program *p, struct export *x)
{
	uint32_t i;

	x->program = p;
	if (weir_mmap_create(&x->m, NULL) ||
	    weir_mmap_add_device(x->m, p->device) ||
	    weir_mmap_set_memrange(x->m, x->mem, sizeof(x->mem)) ||
	    weir_mmap_set_permissions(x->m, PERMISSIONS | WEIR_MMAP_READ |
				      WEIR_MMAP_WRITE) ||
	    weir_mmap_start(x->m))
		must(false, "an mmap can be made", "%s", weir_why());
	for (i = 0; i < SLOTS; i++) {
		struct slot *s = &x->slots[i];

		s->x = x;
		s->host = &p->hosts[i % p->n_hosts];
		s->here.mem = x->here + i * CAPACITY;
		s->there.mem = x->mem + i * CAPACITY;
		ground_fill(p, &s->here);
		ground_fill(p, &s->there);
	}
}

static void set_up(struct program *p)
{
	struct weir_fabric_opts opts = { .size = sizeof(opts) };
	struct run *run = p->run;
	uint32_t i;
	int err;

	p->n_hosts = 1 + rnd(run, HOSTS);
	p->n_exports = 1 + rnd(run, EXPORTS);
	make_reactors(run, p->n_hosts);
	err = weir_timer_create(&p->wire, run->reactors[0], on_wire, p);
	must(!err, "a timer can be made", "%d: %s", err, weir_why());
	enter_mock(p);
	err = weir_device_open_name(&p->device, "tcp@127.0.0.1");
	must(!err, "a device can be opened", "%d: %s", err, weir_why());
	opts.connect_ns = WEIR_MSEC + rnd(run, 20 * 1000000);
	opts.stall_ns = WEIR_MSEC + rnd(run, 20 * 1000000);
	opts.grace_ns = WEIR_MSEC + rnd(run, 5 * 1000000);
	/* A wire that is slow loses nothing then. */
	if (!run->trial->faults)
		opts.connect_ns = opts.stall_ns = WEIR_FOREVER;
	(void)weir_fabric_set_opts(p->device, &opts);
	for (i = 0; i < p->n_hosts; i++) {
		p->hosts[i].r = run->reactors[i];
		host_open(p, &p->hosts[i]);
	}
	for (i = 0; i < p->n_exports; i++)
		export_set_up(p, &p->exports[i]);
}

static bool is_done(struct run *run)
{
	struct program *p = run->program;
	bool done = true;
	uint32_t i;

	if (!run->ending)
		return false;
	for (i = 0; i < p->n_exports; i++)
		done = export_close(&p->exports[i]) && done;
	return done;
}

static void nothing_is_left(void)
{
	struct mock_fabric_left l;

	left(&l);
	must(!l.fabrics && !l.domains && !l.cqs && !l.eqs && !l.peps && !l.eps &&
	     !l.mrs && !l.requests && !l.infos && !l.conns,
	     "all is given back", "fabrics %d, domains %d, cqs %d, eqs %d, "
	     "peps %d, eps %d, mrs %d, requests %d, infos %d, conns %d",
	     l.fabrics, l.domains, l.cqs, l.eqs, l.peps, l.eps, l.mrs,
	     l.requests, l.infos, l.conns);
}

static void take_down(struct program *p)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < p->n_exports && !err; i++)
		err = weir_mmap_destroy(p->exports[i].m);
	must(!err, "an mmap can go", "%d: %s", err, weir_why());
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (i = 0; i < p->n_hosts && !err; i++)
		err = weir_dma_destroy(p->hosts[i].dma);
	must(!err, "an idle context can go", "%d: %s", err, weir_why());
	err = weir_device_close(p->device);
	must(!err, "nobody uses the device", "%d: %s", err, weir_why());
	weir_timer_destroy(p->wire);
	end_reactors(p->run);
	nothing_is_left();
	enter(NULL);
}

static void run_fabric(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;

	must(enter != NULL, "the mock is there", "%s",
	     "WEIR_FABRIC_LIBRARY does not name it");
	program_begin(run, &p, sizeof(p));
	p.run = run;
	set_up(&p);
	run_budget(run, 40, 60, act);
	run_to_end(run, WEIR_MSEC, is_done);
	take_down(&p);
}

static const struct weir_sim_scenario scenario_fabric = {
	.size = sizeof(scenario_fabric),
	.name = "fabric",
	.what = "memory of peers over a mock of libfabric, while all of it fails",
	.run = run_fabric,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 200,
};

const struct weir_sim_scenario *const scenarios[] = { &scenario_fabric, NULL };
