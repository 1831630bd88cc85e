/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every public function, called from every function of the user's: callbacks,
 * engines, domains, kinds, steps of chains, cancel functions.  A seed decides
 * what is called, on which object, and how our functions answer; what they are
 * called with is what the headers allow.  So
 *
 *   - each operation that was started has its callback once, after its start,
 *     and nothing touches it, or an object that was destroyed, afterwards: the
 *     memory of both is freed at once, for ASan to tell;
 *   - each errno is one that tests/errnos.txt has for that function;
 *   - nothing hangs; all can be ended, drained and destroyed at the end, and
 *     all limits are what they were;
 *   - in a world the same seed does the same.
 *
 *	run-calls [--backend uring|ev|sim] [--seed N] [--calls N] [--trace]
 *		[--count]
 *
 * A run is one seed, and at most RUN_CALLS calls; without --seed there are as
 * many runs as make up the calls (WEIR_FUZZ_CALLS).  A failure prints the
 * command that repeats its run.  A smaller --calls cuts that short, which finds
 * the first call after which it fails.
 *
 *	calls-reactor.c  reactors, operations, groups, io_uring
 *	calls-op.c       files and sockets
 *	calls-source.c   what calls back again and again
 *	calls-dma.c      jobs, engines, domains, kinds
 *	calls-flow.c     chains, pipelines, sync events
 *	calls-mem.c      mmaps, bufs, pools, inventories, devices
 *	calls-share.c    exports, leases, the map of memory, statistics
 */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/calls.h"

#define RUN_CALLS 2500
#define CALLS_DEFAULT 20000
#define CALLS_LONG 3000000
#define CALLS_FOR_ALL 500000	/* Rare ones, too. */
#define DEPTH_MAX 4
#define TURNS_TO_DRAIN 20000
#define RUN_SECONDS 120
#define FNS 700

struct world w;

static struct fn fns[FNS];
static uint32_t n_fns;
static uint32_t total_weight;
static bool trace, count;
static uint64_t seed;
static const char *backend_name = "none";

static const struct call *const tables[] = {
	calls_reactor, calls_op, calls_source, calls_udp, calls_dma, calls_flow,
	calls_mem, calls_share,
};

enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

/* Functions that are not called, and why. */
static const struct {
	const char *name, *why;
} exceptions[] = {
	{ "weir_sync_remote_add", "needs a peer" },
	{ "weir_sync_remote_get", "needs a peer" },
	{ "weir_sync_remote_set", "needs a peer" },
	{ "weir_sync_remote_wait", "needs a peer" },
	{ "weir_chain_add_sync_remote", "needs a peer" },
	{ "weir_mmap_bind", "needs a device of a provider" },
	{ "weir_mmap_part", "is for devices of providers" },
	{ "weir_mmap_desc", "providers are for the whole process" },
	{ "weir_mmap_describe", "needs a device of a provider" },
	{ "weir_mmap_import_desc", "providers are for the whole process" },
	{ "weir_provider_read_desc", "providers are for the whole process" },
	{ "weir_provider_card", "providers are for the whole process" },
	{ "weir_provider_dm_data", "needs a device of a provider" },
	{ "weir_provider_list_add", "providers are for the whole process" },
	{ "weir_provider_list_wants", "providers are for the whole process" },
	{ "weir_provider_lost", "providers are for the whole process" },
	{ "weir_provider_register", "providers are for the whole process" },
	{ "weir_provider_revoked", "providers are for the whole process" },
	{ "weir_provider_unregister", "providers are for the whole process" },
	{ "weir_mmap_export_device", "needs a device of a provider" },
	{ "weir_mmap_import_device", "needs a device of a provider" },
	{ "weir_buf_key", "needs a device of a provider" },
	{ "weir_job_keys", "needs a device of a provider" },
};

/* Reports. */

static void say_how(void)
{
	fprintf(stderr, "# to repeat it: run-calls --backend %s --seed %llu "
		"--calls %llu\n", backend_name, (unsigned long long)seed,
		(unsigned long long)w.calls);
}

void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s does not hold\n# %s\n", file, line, what,
		weir_why());
	say_how();
	printf("not ok - %s, seed %llu\n", backend_name,
	       (unsigned long long)seed);
	fflush(NULL);
	abort();
}

static void on_alarm(int signo)
{
	(void)signo;
	fail(__FILE__, __LINE__, "a run takes less than RUN_SECONDS: it");
}

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

/* Decisions. */

uint32_t rnd(uint32_t n)
{
	uint64_t x = w.random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	w.random = x;
	return (uint32_t)(x >> 32) % n;
}

uint64_t some_span(void)
{
	static const uint64_t spans[] = { 0, 700, WEIR_USEC, 30 * WEIR_USEC,
					  WEIR_MSEC };

	return spans[rnd(5)] * (1 + rnd(4));
}

static uint64_t now(void)
{
	struct timespec ts;

	if (w.sim)
		return weir_sim_now(w.sim);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t some_time(void)
{
	return now() + some_span();
}

/* Functions, and what is documented of them. */

struct fn *fn_find(const char *name)
{
	uint32_t i;

	for (i = 0; i < n_fns; i++)
		if (!strcmp(fns[i].name, name))
			return &fns[i];
	MUST(n_fns < FNS);
	fns[n_fns].name = strdup(name);
	return &fns[n_fns++];
}

static void mix(uint64_t value)
{
	w.digest = (w.digest ^ value) * UINT64_C(0x100000001b3);
}

void fn_begins(struct fn *fn)
{
	w.calls++;
	fn->calls++;
	if (w.depth) {
		w.inner++;
		fn->inner++;
	}
	if (w.left)
		w.left--;
	if (trace)
		fprintf(stderr, "%7llu %*s%s\n", (unsigned long long)w.calls,
			2 * w.depth, "", fn->name);
}

static bool has(const uint64_t *set, int64_t err)
{
	return err < 512 && set[err / 64] >> err % 64 & 1;
}

int64_t fn_ended(struct fn *fn, int64_t res)
{
	mix((uint64_t)(fn - fns) << 32 ^ (uint64_t)res);
	fn->good += res >= 0;
	if (trace)
		fprintf(stderr, "        %*s= %lld %s\n", 2 * w.depth, "",
			(long long)res, res < 0 ? weir_why() : "");
	if (res >= 0 || res < -4095 || has(fn->returns, -res) ||
	    res == -EPROTO)
		return res;
	fprintf(stderr, "%s returned %s, which is not documented\n", fn->name,
		strerror((int)-res));
	fail(__FILE__, __LINE__, fn->name);
}

bool fn_completes(const struct fn *fn, int64_t res)
{
	return res >= 0 || res == -ECANCELED || res == -ETIMEDOUT ||
	       has(fn->completes, -res);
}

static FILE *source(const char *name)
{
	const char *top = getenv("srcdir");
	char path[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top ? top : ".", name);
	f = fopen(path, "r");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static int errno_of(const char *name)
{
	int err;

	for (err = 1; err < 512; err++)
		if (strerrorname_np(err) && !strcmp(strerrorname_np(err), name))
			return err;
	if (!strcmp(name, "EOPNOTSUPP"))
		return EOPNOTSUPP;
	return 0;
}

static void errnos_load(void)
{
	char line[512], name[64], how[16], code[24];
	FILE *f = source("tests/errnos.txt");
	struct fn *fn;
	uint64_t *set;
	int err;

	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || sscanf(line, "%63s %15s -%23s", name,
					     how, code) != 3)
			continue;
		err = errno_of(code);
		if (!err)
			continue;
		fn = fn_find(name);
		set = !strcmp(how, "returns") ? fn->returns : fn->completes;
		set[err / 64] |= UINT64_C(1) << err % 64;
	}
	fclose(f);
}

/* What headers say by a reference to another function, or to ours. */
static void errnos_more(void)
{
	static const struct {
		const char *name, *like;
	} likes[] = {
		{ "weir_chain_add_call", "weir_chain_add_job" },
		{ "weir_chain_add_op", "weir_chain_add_job" },
		{ "weir_chain_add_sync", "weir_chain_add_job" },
		{ "weir_call", "weir_defer" },
		{ "weir_capacity_wait", "weir_defer" },
		{ "weir_dm_copy_from", "weir_dm_copy_to" },
		{ "weir_exporter_add", "weir_mmap_export" },
		{ "weir_job_start_batch", "weir_job_start" },
		{ "weir_lease_create", "weir_mmap_export" },
		{ "weir_nop", "weir_defer" },
		{ "weir_route_explain", "weir_job_start" },
		{ "weir_sleep_until", "weir_defer" },
		{ "weir_sync_add", "weir_sync_set" },
		{ "weir_work", "weir_defer" },
	};
	static const char *const ours[] = {
		"weir_domain_pull", "weir_domain_push", "weir_domain_transfer",
		"weir_domain_fill", "weir_domain_translate", "weir_job_start",
		"weir_job_start_batch", "weir_route_explain",
	};
	static const int errnos[] = { EXDEV, EOPNOTSUPP, EAGAIN };
	uint32_t i, j;

	/* "It ends with -ESHUTDOWN when @to stops." */
	fn_find("weir_capacity_wait")->completes[ESHUTDOWN / 64] |=
		UINT64_C(1) << ESHUTDOWN % 64;
	/* "and what weir_mmap_import() returns." */
	for (j = 0; j < 8; j++)
		fn_find("weir_mmap_import_from")->completes[j] |=
			fn_find("weir_mmap_import")->returns[j];
	for (i = 0; i < sizeof(likes) / sizeof(likes[0]); i++)
		for (j = 0; j < 8; j++) {
			fn_find(likes[i].name)->returns[j] |=
				fn_find(likes[i].like)->returns[j];
			fn_find(likes[i].name)->completes[j] |=
				fn_find(likes[i].like)->completes[j];
		}
	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		for (j = 0; j < 3; j++)
			fn_find(ours[i])->returns[errnos[j] / 64] |=
				UINT64_C(1) << errnos[j] % 64;
}

/* Objects. */

static struct object *focused(enum what what)
{
	uint32_t i;

	for (i = w.n_focus; i--;)
		if (w.focus[i] && w.focus[i]->what == what &&
		    w.focus[i]->h && !w.focus[i]->hidden)
			return w.focus[i];
	return NULL;
}

static struct object *pick(enum what what, const struct core *c)
{
	uint32_t i, from = rnd(OF_EACH);
	struct object *o;

	for (i = 0; i < OF_EACH; i++) {
		o = w.objects[what][(from + i) % OF_EACH];
		if (o && o->h && !o->hidden && (!c || o->core == c))
			return o;
	}
	return NULL;
}

struct object *any(enum what what)
{
	struct object *o = rnd(2) ? focused(what) : NULL;

	return o ? o : pick(what, NULL);
}

struct object *any_on(enum what what, const struct core *c)
{
	return pick(what, c);
}

struct object *object_new(enum what what, struct core *c)
{
	uint32_t i;

	for (i = 0; i < OF_EACH; i++)
		if (!w.objects[what][i]) {
			struct object *o = calloc(1, sizeof(*o));

			MUST(o);
			o->what = what;
			o->core = c;
			o->fd = -1;
			w.objects[what][i] = o;
			return o;
		}
	return NULL;
}

void object_made(struct object *o, void *h, int64_t err)
{
	if (!err)
		memcpy(&o->h, h, sizeof(o->h));
	else
		object_free(o);
}

void object_pin(struct object *o, struct object *of)
{
	MUST(!o->of);
	o->of = of;
	of->pins++;
}

void object_free(struct object *o)
{
	uint32_t i;

	MUST(!o->pins);
	for (i = 0; i < OF_EACH; i++)
		if (w.objects[o->what][i] == o)
			w.objects[o->what][i] = NULL;
	for (i = 0; i < w.n_focus; i++)
		if (w.focus[i] == o)
			w.focus[i] = NULL;
	if (o->of)
		o->of->pins--;
	if (o->link)
		link_free(o->link);
	free(o->mem);
	free(o);
}

static void fd_close(int fd)
{
	MUST(!(w.sim ? weir_sim_close(fd) : close(fd)));
}

struct object *fd_new(int fd, int kind)
{
	struct object *o = object_new(A_FD, NULL);

	if (!o) {
		fd_close(fd);
		return NULL;
	}
	o->h = o;
	o->fd = fd;
	o->fd_kind = kind;
	return o;
}

static int64_t destroy(struct object *o)
{
	int i;

	switch (o->what) {
	case A_FD:
		for (i = 0; i < CORES; i++)
			if (w.cores[i].r)
				CALLV(weir_fd_unregister, w.cores[i].r, o->fd);
		fd_close(o->fd);
		return 0;
	case A_DMA:
		return CALL(weir_dma_destroy, o->h);
	case A_CHAIN:
		return CALL(weir_chain_destroy, o->h);
	case A_PIPELINE:
		return CALL(weir_pipeline_destroy, o->h);
	case A_POOL:
		return CALL(weir_pool_destroy, o->h);
	case AN_INVENTORY:
		return CALL(weir_inventory_destroy, o->h);
	case A_MMAP:
		return CALL(weir_mmap_destroy, o->h);
	case A_BUF:
		CALLV(weir_buf_put, o->h);
		return 0;
	case A_DOMAIN:
		return CALL(weir_domain_destroy, o->h);
	case A_TIMER:
		CALLV(weir_timer_destroy, o->h);
		return 0;
	case A_WATCH:
		CALLV(weir_watch_destroy, o->h);
		return 0;
	case AN_EVENT:
		CALLV(weir_event_destroy, o->h);
		return 0;
	case A_SIGNAL:
		CALLV(weir_signal_destroy, o->h);
		return 0;
	case A_CHILD:
		CALLV(weir_child_destroy, o->h);
		return 0;
	case AN_ALARM:
		CALLV(weir_alarm_destroy, o->h);
		return 0;
	case A_FSWATCH:
		CALLV(weir_fswatch_destroy, o->h);
		return 0;
	case AN_OBJECT:
		CALLV(weir_object_destroy, o->h);
		return 0;
	case A_HOOK:
		CALLV(weir_poll_hook_destroy, o->h);
		return 0;
	case A_POLLER:
		CALLV(weir_poller_destroy, o->h);
		return 0;
	case AN_ACCEPTOR:
		CALLV(weir_acceptor_destroy, o->h);
		return 0;
	case A_STREAM:
		return CALL(weir_stream_close, o->h, NULL);
	case A_RECEIVER:
		CALLV(weir_receiver_destroy, o->h);
		return 0;
	case A_UDP:
		CALLV(weir_udp_destroy, o->h);
		return 0;
	case A_DATAGRAM:
		CALLV(weir_udp_release, o->of->h, o->h);
		return 0;
	case KEPT:
		if (o->of)
			CALLV(weir_receiver_release_own, o->of->h, o->h);
		else
			CALLV(weir_receiver_release, o->core->r, o->h);
		return 0;
	case A_SYNC:
		return CALL(weir_sync_destroy, o->h);
	case A_LEASE:
		return CALL(weir_lease_destroy, o->h);
	case AN_EXPORTER:
		CALLV(weir_exporter_destroy, o->h);
		return 0;
	case A_SHARED_POOL:
		return CALL(weir_shared_pool_destroy, o->h);
	case A_GROUP:
		return CALL(weir_group_destroy, o->h);
	case A_PAGE:
		CALLV(weir_stats_close, o->h);
		return 0;
	case A_DEVICE:
		return CALL(weir_device_close, o->h);
	case A_DM:
		return CALL(weir_dm_free, o->h);
	case A_TRANSLATION:
		CALLV(weir_domain_invalidate, o->h);
		free(o->h);
		return 0;
	default:
		MUST(!"an object that can be destroyed");
	}
}

bool object_destroy(struct object *o)
{
	struct object *outer = w.destroying;
	int64_t err;

	if (o->pins)
		return false;
	o->hidden = true;
	w.destroying = o;
	err = destroy(o);
	w.destroying = outer;
	o->hidden = false;
	if (!err)
		object_free(o);
	return !err;
}

/* Tasks. */

struct task *task_new(struct core *c)
{
	uint32_t i;
	struct task *t;

	if (!c->r)
		return NULL;
	for (i = 0; i < TASKS; i++)
		if (!w.tasks[i]) {
			t = calloc(1, sizeof(*t));
			MUST(t);
			weir_job_init(&t->job, task_end);
			t->core = c;
			w.tasks[i] = t;
			if (one_in(8))
				(void)CALL(weir_op_set_deadline, OP(t),
					   some_time());
			return t;
		}
	return NULL;
}

static void task_forget(struct task *t)
{
	uint32_t i;

	for (i = 0; i < TASKS; i++)
		if (w.tasks[i] == t)
			w.tasks[i] = NULL;
	for (i = 0; i < w.n_focus; i++)
		if (w.focus_task[i] == t)
			w.focus_task[i] = NULL;
	for (i = 0; i < t->n_pinned; i++)
		t->pinned[i]->pins--;
	t->n_pinned = 0;
}

static void task_free(struct task *t)
{
	free(t->buf);
	free(t);
}

void task_drop(struct task *t)
{
	MUST(!t->in_flight);
	task_forget(t);
	task_free(t);
}

void task_pin(struct task *t, struct object *o)
{
	t->pinned[t->n_pinned++] = o;
	o->pins++;
}

void task_buf(struct task *t)
{
	t->buf = calloc(3, LEN_MAX);
	MUST(t->buf);
	t->len = 2 + rnd(LEN_MAX - 2);
}

struct task *any_task(void)
{
	uint32_t i, from = rnd(TASKS);
	struct task *t;

	for (i = w.n_focus; i-- && rnd(2);)
		if (w.focus_task[i])
			return w.focus_task[i];
	for (i = 0; i < TASKS; i++) {
		t = w.tasks[(from + i) % TASKS];
		if (t && t->in_flight)
			return t;
	}
	return NULL;
}

void task_begins(struct task *t, struct fn *fn)
{
	t->fn = fn;
	t->starting = t->in_flight = true;
	MUST(w.n_focus < 16);
	w.focus_task[w.n_focus] = t;
	w.focus[w.n_focus++] = NULL;
}

void task_begun(struct task *t, int64_t err)
{
	w.focus_task[--w.n_focus] = NULL;
	t->starting = false;
	if (!err)
		return;
	t->in_flight = false;
	task_drop(t);
}

void task_end(struct weir_op *op, int64_t res)
{
	struct task *t = weir_container_of(op, struct task, job.op);
	struct task *outer = w.ended;

	MUST(t->in_flight && !t->starting);
	if (trace)
		fprintf(stderr, "        %*s%s ends: %lld\n", 2 * w.depth, "",
			t->fn->name, (long long)res);
	if (!t->any_errno && !fn_completes(t->fn, res)) {
		fprintf(stderr, "%s completed with %s\n", t->fn->name,
			strerror((int)-res));
		fail(__FILE__, __LINE__, "a documented errno");
	}
	MUST(res > -4096);
	mix((uint64_t)(t->fn - fns) << 40 ^ (uint64_t)res);
	t->in_flight = false;
	task_forget(t);
	if (t->end)
		t->end(t, res);
	if (rnd(2)) {
		task_free(t);
		act(NULL);
		return;
	}
	w.ended = t;
	act(NULL);
	w.ended = outer;
	task_free(t);
}

/* Calls. */

static void call_one(struct core *c)
{
	uint32_t i, n = rnd(total_weight);
	const struct call *call;

	for (i = 0; i < N_TABLES; i++)
		for (call = tables[i]; call->name; call++) {
			if (n < call->weight) {
				call->fn(c);
				return;
			}
			n -= call->weight;
		}
}

static struct core *some_core(void)
{
	struct core *c = &w.cores[rnd(CORES)];

	return c->r ? c : w.cores[0].r ? &w.cores[0] :
	       w.cores[CORES - 1].r ? &w.cores[CORES - 1] : NULL;
}

static void act_on(struct object *o, struct task *t)
{
	struct core *c;
	uint32_t n;

	if (w.ending || w.depth >= DEPTH_MAX || !w.left || w.n_focus == 16)
		return;
	w.depth++;
	w.focus[w.n_focus] = o;
	w.focus_task[w.n_focus++] = t;
	for (n = rnd(4); n && w.left; n--) {
		c = some_core();
		if (c)
			call_one(c);
	}
	w.n_focus--;
	w.focus[w.n_focus] = NULL;
	w.focus_task[w.n_focus] = NULL;
	w.depth--;
}

void act(struct object *o)
{
	act_on(o, NULL);
}

void act_task(struct task *t)
{
	act_on(NULL, t);
}

void act_not(void)
{
	MUST(weir_why());
}

/* One run. */

static void turn(struct core *c, uint64_t ns)
{
	int res;

	if (!c->r)
		return;
	res = (int)CALL(weir_reactor_turn, c->r, ns);
	MUST(res >= 0 || res == -EDEADLK);
}

static void go_on(uint64_t ns)
{
	uint32_t i;

	if (w.sim) {
		MUST(weir_sim_run(w.sim, ns + WEIR_USEC, 200) >= 0);
		return;
	}
	for (i = 0; i < CORES; i++)
		turn(&w.cores[i], ns / CORES);
}

static void cores_create(void)
{
	struct weir_reactor_opts opts = reactor_opts();
	uint32_t i;

	for (i = 0; i < CORES; i++) {
		if (!w.cores[i].r &&
		    CALL(weir_reactor_create, &w.cores[i].r, &opts))
			w.cores[i].r = NULL;
		if (w.cores[i].r && one_in(4))
			(void)CALL(weir_reactor_start, w.cores[i].r);
	}
}

static bool in_flight(void)
{
	uint32_t i;

	for (i = 0; i < TASKS; i++)
		if (w.tasks[i])
			return true;
	return w.n_pending || w.posts;
}

/* End what only we can end. */
static void let_go(void)
{
	uint32_t i;

	while (w.n_pending)
		pending_end(0, -ECANCELED);
	for (i = 0; i < OF_EACH; i++)
		if (w.objects[A_PIPELINE][i])
			(void)CALL(weir_pipeline_resume,
				   w.objects[A_PIPELINE][i]->h);
	/* A finally step that waits is not cancelled with its chain. */
	for (i = 0; i < OF_EACH; i++)
		if (w.objects[A_SYNC][i])
			(void)CALL(weir_sync_set, w.objects[A_SYNC][i]->h,
				   1000);
	for (i = 0; i < TASKS; i++) {
		if (!w.tasks[i])
			continue;
		if (w.tasks[i]->is_own)
			(void)CALL(weir_op_finish, OP(w.tasks[i]), 0);
		(void)CALL(weir_op_cancel, OP(w.tasks[i]));
	}
}

static void destroy_all(enum what what)
{
	uint32_t i;

	for (i = 0; i < OF_EACH; i++)
		if (w.objects[what][i])
			object_destroy(w.objects[what][i]);
}

static bool objects_left(void)
{
	uint32_t i, j;

	for (i = 0; i < N_WHATS; i++)
		for (j = 0; j < OF_EACH; j++)
			if (w.objects[i][j])
				return true;
	return false;
}

static void say_steps(const struct object *o)
{
	struct weir_chain_step step = { .size = sizeof(step) };
	uint32_t i;

	for (i = 0; !weir_chain_get_step(o->h, i, &step); i++)
		fprintf(stderr, "# step %u: state %u, res %lld\n", i,
			step.state, (long long)step.res);
}

static void say_left(void)
{
	uint32_t i, j;

	for (i = 0; i < OF_EACH; i++)
		if (w.objects[A_CHAIN][i])
			say_steps(w.objects[A_CHAIN][i]);
	for (i = 0; i < TASKS; i++)
		if (w.tasks[i])
			fprintf(stderr, "# in flight: %s\n",
				w.tasks[i]->fn->name);
	for (i = 0; i < N_WHATS; i++)
		for (j = 0; j < OF_EACH; j++)
			if (w.objects[i][j]) {
				bool gone = object_destroy(w.objects[i][j]);

				fprintf(stderr, "# object %u: %d %s\n", i, gone,
					gone ? "" : weir_why());
			}
}

static void drain(void)
{
	uint32_t n;

	w.ending = true;
	/* A group that runs is on no stack any more: it never did. */
	for (n = 0; n < OF_EACH; n++)
		if (w.objects[A_GROUP][n]) {
			(void)CALL(weir_group_stop, w.objects[A_GROUP][n]->h);
			(void)CALL(weir_group_run, w.objects[A_GROUP][n]->h);
		}
	destroy_all(KEPT);
	destroy_all(A_DATAGRAM);
	for (n = A_TIMER; n <= A_UDP; n++)
		destroy_all((enum what)n);
	destroy_all(AN_EXPORTER);
	for (n = 0; n < TURNS_TO_DRAIN && in_flight(); n++) {
		let_go();
		destroy_all(A_BUF);
		go_on(n < 100 ? 0 : WEIR_MSEC);
	}
	if (in_flight())
		say_left();
	MUST(!in_flight());
	for (n = 0; n < TURNS_TO_DRAIN && objects_left(); n++) {
		uint32_t i;

		for (i = 0; i < N_WHATS; i++)
			destroy_all((enum what)i);
		go_on(n < 100 ? 0 : WEIR_MSEC);
	}
	if (objects_left())
		say_left();
	MUST(!objects_left());
}

static void ended_op(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

/* All of .ops_max is there again: at least the 2 that are its least. */
static void check_limits(struct core *c)
{
	struct weir_op ops[2];
	uint32_t i, n;

	if (weir_reactor_start(c->r))
		return;
	for (i = 0; i < 2; i++) {
		weir_op_init(&ops[i], ended_op);
		MUST(!weir_defer(c->r, &ops[i]));
	}
	for (n = 0; n < 100 && (weir_op_is_busy(&ops[0]) ||
				weir_op_is_busy(&ops[1])); n++)
		go_on(0);
	MUST(!weir_op_is_busy(&ops[0]) && !weir_op_is_busy(&ops[1]));
}

static void cores_destroy(void)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };
	uint32_t i, n;

	for (i = 0; i < CORES; i++) {
		if (!w.cores[i].r)
			continue;
		check_limits(&w.cores[i]);
		for (n = 0; n < TURNS_TO_DRAIN; n++) {
			MUST(!weir_reactor_stats(w.cores[i].r, &stats));
			if (!stats.in_flight)
				break;
			go_on(WEIR_MSEC);
		}
		MUST(!stats.in_flight);
		for (n = 0; n < 1000 && weir_reactor_destroy(w.cores[i].r); n++)
			;
		MUST(n < 1000);
		w.cores[i].r = NULL;
	}
	MUST(!w.posts);
}

static uint64_t run(int backend, uint64_t calls)
{
	struct weir_sim_opts opts = { .size = sizeof(opts) };
	uint64_t digest;
	uint32_t i;
	char dir[sizeof(w.dir)];

	memcpy(dir, w.dir, sizeof(dir));
	memset(&w, 0, sizeof(w));
	memcpy(w.dir, dir, sizeof(dir));
	w.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
	w.backend = backend;
	w.left = calls;
	w.digest = UINT64_C(0xcbf29ce484222325);
	for (i = 0; i < CORES; i++)
		w.cores[i].number = i;
	if (backend == WEIR_BACKEND_SIM) {
		MUST(!weir_sim_create(&w.sim, seed, &opts));
		(void)weir_sim_mkdir(w.sim, "a");
	}
	alarm(RUN_SECONDS);
	share_begin();
	domains_begin();
	while (w.left) {
		struct core *c;
		uint32_t n;

		cores_create();
		for (n = rnd(4); n; n--) {
			c = some_core();
			if (c)
				call_one(c);
		}
		go_on(one_in(4) ? some_span() % (100 * WEIR_USEC) : 0);
	}
	drain();
	cores_destroy();
	share_end();
	digest = w.digest;
	if (w.sim) {
		mix(weir_sim_digest(w.sim));
		digest = w.digest;
		MUST(!weir_sim_destroy(w.sim));
	}
	return digest;
}

/* The table is complete. */

static bool is_excepted(const char *name)
{
	uint32_t i;

	for (i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
		if (!strcmp(exceptions[i].name, name))
			return true;
	return false;
}

/* Whether a function of ours has called it; */
static bool was_called(const char *name)
{
	uint32_t i;

	for (i = 0; i < n_fns; i++)
		if (!strcmp(fns[i].name, name))
			return fns[i].inner != 0;
	return false;
}

/* whether it could, by the sources. */
static bool is_mentioned(const char *name)
{
	static const char *const files[] = {
		"reactor", "op", "source", "udp", "dma", "flow", "mem",
		"share",
	};
	char line[256], path[64];
	bool found = false;
	const char *at;
	uint32_t i;
	FILE *f;

	for (i = 0; i < sizeof(files) / sizeof(files[0]) && !found; i++) {
		snprintf(path, sizeof(path), "tests/fuzz/calls-%s.c", files[i]);
		f = source(path);
		while (!found && fgets(line, sizeof(line), f)) {
			at = strstr(line, name);
			found = at && !isalnum((unsigned char)at[strlen(name)]) &&
				at[strlen(name)] != '_';
		}
		fclose(f);
	}
	return found;
}

/* Whether @is holds for each function that the library exports. */
static bool all(bool (*is)(const char *name), const char *what)
{
	FILE *f = source("weir.map");
	char line[256], name[128];
	bool holds = true;

	memcpy(name, "weir_", 5);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " weir_%120[a-z0-9_];", name + 5) != 1 ||
		    name[5] == '_' || is(name) || is_excepted(name))
			continue;
		printf("# %s %s\n", name, what);
		holds = false;
	}
	fclose(f);
	return holds;
}

static void remove_dir(void)
{
	DIR *dir = opendir(w.dir);
	struct dirent *e;
	char path[512];

	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", w.dir, e->d_name);
		if (e->d_name[0] != '.' && unlink(path))
			rmdir(path);
	}
	if (dir)
		closedir(dir);
	rmdir(w.dir);
}

static bool is_there(int backend)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r;

	if (backend == WEIR_BACKEND_SIM)
		return true;
	opts.backend = (uint32_t)backend;
	if (weir_reactor_create(&r, &opts))
		return false;
	MUST(!weir_reactor_destroy(r));
	return true;
}

/* As many runs as make up @calls.  Returns the calls of functions of ours. */
static uint64_t runs(int backend, uint64_t calls)
{
	uint64_t digest, done = 0, inner = 0;
	uint32_t n = 0;

	while (done < calls) {
		digest = run(backend, RUN_CALLS);
		done += w.inner;
		inner += w.inner;
		if (backend == WEIR_BACKEND_SIM && n++ % 8 == 0) {
			MUST(run(backend, RUN_CALLS) == digest);
			inner += w.inner;
		}
		seed++;
	}
	return inner;
}

static uint64_t calls_wanted(void)
{
	const char *is_long = getenv("WEIR_TEST_LONG");
	const char *wanted = getenv("WEIR_FUZZ_CALLS");

	if (wanted)
		return strtoull(wanted, NULL, 0);
	return is_long && !strcmp(is_long, "1") ? CALLS_LONG : CALLS_DEFAULT;
}

static const char *const backends[] = { NULL, "uring", "ev", "sim" };

int main(int argc, char **argv)
{
	uint64_t calls = 0, wanted = calls_wanted(), inner;
	bool one = false, complete, called = true;
	int backend, only = 0, i, n = 0;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--trace")) {
			trace = true;
		} else if (!strcmp(argv[i], "--count")) {
			count = true;
		} else if (i + 1 < argc && !strcmp(argv[i], "--seed")) {
			seed = strtoull(argv[++i], NULL, 0);
			one = true;
		} else if (i + 1 < argc && !strcmp(argv[i], "--calls")) {
			calls = strtoull(argv[++i], NULL, 0);
		} else if (i + 1 < argc && !strcmp(argv[i], "--backend")) {
			i++;
			for (only = 3; only && strcmp(backends[only], argv[i]);)
				only--;
		} else {
			fprintf(stderr, "usage: run-calls [--backend B] "
				"[--seed N] [--calls N] [--trace] "
				"[--count]\n");
			return 2;
		}
	}
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_how);
	signal(SIGALRM, on_alarm);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* Not on a disk, whose other users an fsync waits for: for half a minute once. */
	setenv("TMPDIR", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", 0);
	snprintf(w.dir, sizeof(w.dir), "%.40s/calls-XXXXXX", getenv("TMPDIR"));
	MUST(mkdtemp(w.dir));
	errnos_load();
	errnos_more();
	kinds_register();
	for (i = 0; i < N_TABLES; i++)
		for (const struct call *c = tables[i]; c->name; c++)
			total_weight += c->weight;
	setenv("WEIR_STATS", w.dir, 1);
	MUST(!weir_stats_publish(w.dir));

	for (backend = WEIR_BACKEND_URING; backend <= WEIR_BACKEND_SIM;
	     backend++) {
		if (only && backend != only)
			continue;
		backend_name = backends[backend];
		if (!is_there(backend)) {
			printf("ok %d - %s # SKIP there is none\n", ++n,
			       backend_name);
			continue;
		}
		if (one) {
			(void)run(backend, calls ? calls : RUN_CALLS);
			inner = w.inner;
		} else {
			seed = 0;
			inner = runs(backend, (calls ? calls : wanted) / 3);
		}
		printf("ok %d - every function may be called by every other "
		       "on %s: %llu calls\n", ++n, backend_name,
		       (unsigned long long)inner);
		fflush(stdout);
	}
	complete = all(is_mentioned, "is not in the fuzzer: add it to its "
		       "table, or, with the reason, to its exceptions");
	printf("%sok %d - the fuzzer has all that weir.map exports\n",
	       complete ? "" : "not ", ++n);
	if (!one && !only && (calls ? calls : wanted) >= CALLS_FOR_ALL) {
		called = all(was_called, "was called by no function of ours");
		printf("%sok %d - functions of ours have called all that "
		       "weir.map exports\n", called ? "" : "not ", ++n);
	}
	printf("1..%d\n", n);
	(void)weir_stats_withdraw();
	remove_dir();
	for (uint32_t k = 0; count && k < n_fns; k++)
		printf("# %-40s %8llu calls, %8llu inner, %8llu good\n",
		       fns[k].name, (unsigned long long)fns[k].calls,
		       (unsigned long long)fns[k].inner,
		       (unsigned long long)fns[k].good);
	for (uint32_t k = 0; k < n_fns; k++)
		free((char *)(uintptr_t)fns[k].name);
	free(area);
	return !complete || !called;
}
