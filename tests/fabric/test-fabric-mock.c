/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-fabric over a mock of libfabric: what providers do that is hard to provoke.
 * tools/weir-sim-fabric does all of it at once, by seeds.
 */

#include "tests/support/fabric-fixture.h"

#include <dlfcn.h>
#include <limits.h>

#include <rdma/fi_domain.h>

#include "tests/support/child-fixture.h"
#include "tests/support/mock-fabric.h"

static void (*enter)(const struct mock_fabric_world *world);
static void (*left)(struct mock_fabric_left *ret);
static int (*step)(void);
static void **state_of_child;

/* What goes wrong: calls of each kind, but for the first .after. */
static struct {
	unsigned int after, times, asked;
} wrong[MOCK_FABRIC_FAULTS];

static int goes_wrong(void *arg, int fault)
{
	unsigned int n = wrong[fault].asked++;

	(void)arg;
	return n >= wrong[fault].after &&
	       n < wrong[fault].after + wrong[fault].times;
}

static void go_wrong(int fault, unsigned int after, unsigned int times)
{
	wrong[fault].after = after;
	wrong[fault].times = times;
	wrong[fault].asked = 0;
}

static void be_calm(void)
{
	memset(wrong, 0, sizeof(wrong));
}

/* Nothing arrives while a test holds the wire. */
static void hold(void *arg)
{
	(void)arg;
}

static struct mock_fabric_world world_of(uint64_t mr_mode, size_t key_size)
{
	return (struct mock_fabric_world){
		.mr_mode = mr_mode, .key_size = key_size, .max_msg = 1 << 20,
		.iov_limit = 4, .fault = goes_wrong,
	};
}

static void begin_in(struct both *b, void **state, struct mock_fabric_world world)
{
	be_calm();
	enter(&world);
	both_begin(b, state, RW);
}

static void begin(struct both *b, void **state)
{
	begin_in(b, state, world_of(0, 8));
}

static void end(struct both *b)
{
	struct mock_fabric_left l;

	be_calm();
	both_end(b);
	left(&l);
	assert_int_equal(l.fabrics + l.domains + l.cqs + l.eqs + l.peps + l.eps +
			 l.mrs + l.requests + l.infos + l.conns, 0);
}

/* Nothing depends on how fast the machine is: a connection has as long as it needs. */
static void set_limits(const struct both *b, uint64_t stall_ns, uint64_t grace_ns)
{
	struct weir_fabric_opts opts = {
		.size = sizeof(opts), .connect_ns = WEIR_FOREVER,
		.stall_ns = stall_ns, .grace_ns = grace_ns,
	};

	assert_int_equal(weir_fabric_set_opts(b->dev, &opts), 0);
}

static void start_put(struct both *b)
{
	weir_job_copy(&b->j.job, there(b, 0, 1000), weir_operand_mem(b->mem, 1000));
	STARTS(weir_job_start(b->dma, &b->j.job));
}

/* Providers. */

static void keys_have_the_size_that_a_provider_takes(void **state)
{
	static const uint64_t modes[] = { 0, FI_MR_VIRT_ADDR, FI_MR_PROV_KEY };
	struct both b;

	for (size_t size = 2; size <= 8; size *= 2) {
		for (size_t i = 0; i < N_OF(modes); i++) {
			begin_in(&b, state, world_of(modes[i], size));
			assert_int_equal(put(&b, 100, 1000), 1000);
			assert_true(is_pattern(b.far + 100, 1000, 0, 1));
			end(&b);
			end_reactor(state);
		}
	}
}

static void memory_that_cannot_be_registered_is_not_exported(void **state)
{
	struct weir_lease_opts opts = { .size = sizeof(opts), .permissions = RW };
	struct weir_lease *lease = NULL;
	struct both b;

	begin(&b, state);
	opts.device = b.dev;
	go_wrong(MOCK_FABRIC_REGISTER, 0, 1);
	assert_int_equal(weir_lease_create(&lease, b.r, b.m, &opts), -ENOMEM);
	assert_non_null(strstr(weir_why(), DEVICE));
	assert_int_equal(weir_lease_create(&lease, b.r, b.m, &opts), 0);
	assert_int_equal(weir_lease_destroy(lease), 0);
	end(&b);
}

/* Of each object in turn, on the side that connects or on the one that accepts. */
static void setup_failure_refuses_or_ends_the_job(void **state)
{
	int64_t res = 0;
	struct both b;
	int refused = 0;

	begin(&b, state);
	for (unsigned int i = 0; res <= 0; i++) {
		jrec_init(&b.j);
		go_wrong(MOCK_FABRIC_SETUP, i, 1);
		weir_job_copy(&b.j.job, there(&b, 0, 1000),
			      weir_operand_mem(b.mem, 1000));
		res = weir_job_start(b.dma, &b.j.job);
		if (res < 0) {
			refused++;
			assert_starts_with(weir_why(), "weir_job_start: " DEVICE);
		}
		if (!res)
			res = jrec_finish(b.r, &b.j);
		assert_true(res == 1000 || res == -ENOMEM || res == -EINVAL ||
			    res == -ECONNREFUSED || res == -ECONNRESET);
		assert_int_equal(stats_of(b.dev).links, res > 0);
	}
	assert_true(refused > 2);
	end(&b);
}

static void a_provider_without_descriptors_is_refused(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_device *dev = NULL;
	static char mem[4096];
	struct weir_dma *dma;
	struct weir_mmap *m;

	be_calm();
	world.flags = MOCK_FABRIC_NO_WAIT;
	enter(&world);
	assert_int_equal(weir_device_open_name(&dev, DEVICE), 0);
	dma = start_dma(r, (struct weir_dma_opts){ 0 });
	m = start_mmap_on(dev, mem, sizeof(mem), RW | WEIR_MMAP_READ |
			  WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_export_device(m, dev, NULL, &desc), -ENOSYS);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Of a key of 16 bits another region may have the first that is drawn. */
static void a_key_that_is_taken_is_drawn_again(void **state)
{
	struct weir_lease_opts opts = { .size = sizeof(opts), .permissions = RW };
	struct weir_lease *lease = NULL;
	struct both b;

	begin_in(&b, state, world_of(0, 2));
	opts.device = b.dev;
	go_wrong(MOCK_FABRIC_KEY, 0, 7);
	assert_int_equal(weir_lease_create(&lease, b.r, b.m, &opts), 0);
	assert_int_equal(weir_lease_destroy(lease), 0);
	go_wrong(MOCK_FABRIC_KEY, 0, 8);
	assert_int_equal(weir_lease_create(&lease, b.r, b.m, &opts), -EACCES);
	assert_int_equal(wrong[MOCK_FABRIC_KEY].asked, 8);
	end(&b);
}

/* Reactors. */

/* There are two of this thread, of which one turns. */
static void a_lease_is_served_by_its_own_reactor(void **state)
{
	const struct world *w = *state;
	struct weir_reactor_opts opts = { .size = sizeof(opts), .sim = harness_sim };
	struct weir_reactor *other = NULL;
	struct weir_dma *dma;
	struct both b;

	if (!harness_sim)
		opts.backend = backend_of(w);
	assert_int_equal(weir_reactor_create(&other, &opts), 0);
	dma = start_dma(other, (struct weir_dma_opts){ 0 });
	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	end(&b);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_reactor_destroy(other), 0);
}

/* It arrives in fi_trywait(), which resets the descriptor. */
static void an_event_before_the_reactor_sleeps_is_read(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct mock_fabric_world world = world_of(0, 8);
	struct both b, other;

	assert_true(weir_reactor_fd(r) >= 0);
	be_calm();
	enter(&world);
	both_begin_on(&b, r, RW);
	other = b;
	make_lease(&other, RW);
	assert_int_equal(put(&b, 0, 1000), 1000);
	assert_int_equal(put(&other, 0, 1000), 1000);
	assert_int_equal(weir_lease_destroy(other.lease), 0);
	UNTIL(r, stats_of(b.dev).links == 1);
	assert_int_equal(weir_mmap_destroy(other.import), 0);
	end(&b);
}

/* Closing. */

static void a_job_lasts_until_its_endpoint_is_closed(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	struct both b;

	begin_in(&b, state, world);
	assert_int_equal(put(&b, 0, 1000), 1000);
	set_limits(&b, WEIR_FOREVER, WEIR_MSEC);
	world.later = hold;
	enter(&world);
	jrec_init(&b.j);
	start_put(&b);
	some_turns(b.r, 3);
	go_wrong(MOCK_FABRIC_CLOSE, 0, 5);
	assert_int_equal(weir_op_cancel(&b.j.job.op), 0);
	UNTIL(b.r, wrong[MOCK_FABRIC_CLOSE].asked == 5 || b.j.calls);
	assert_int_equal(b.j.calls, 0);
	assert_int_equal(jrec_finish(b.r, &b.j), -ECANCELED);
	assert_true(wrong[MOCK_FABRIC_CLOSE].asked > 5);
	world.later = NULL;
	enter(&world);
	end(&b);
}

static void a_lease_is_over_when_its_connections_are_closed(void **state)
{
	struct weir_lease_info info = { .size = sizeof(info) };
	struct both b;

	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	go_wrong(MOCK_FABRIC_CLOSE, 0, 3);
	assert_int_equal(weir_lease_revoke(b.lease, NULL), -EINPROGRESS);
	assert_non_null(strstr(weir_why(), DEVICE));
	assert_int_equal(weir_lease_info(b.lease, &info), 0);
	assert_int_equal(info.state, WEIR_LEASE_ENDING);
	UNTIL(b.r, stats_of(b.dev).conns == 0);
	assert_int_equal(weir_lease_info(b.lease, &info), 0);
	assert_int_equal(info.state, WEIR_LEASE_OVER);
	end(&b);
}

/* The lease's connection is not closed yet; another importer is refused. */
static void a_lease_that_ends_takes_no_connection(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct both b, other;

	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	other = b;
	jrec_init(&other.j);
	assert_int_equal(weir_lease_export(b.lease, &desc), 0);
	import_bytes(&other, desc.bytes, desc.len);
	go_wrong(MOCK_FABRIC_CLOSE, 0, UINT32_MAX / 2);
	assert_int_equal(weir_lease_revoke(b.lease, NULL), -EINPROGRESS);
	assert_int_equal(put(&other, 1000, 1000), -ESTALE);
	assert_int_equal(b.far[1000], 0);
	be_calm();
	assert_int_equal(weir_mmap_destroy(other.import), 0);
	end(&b);
}

/* Each connection is closed at the first attempt. */
static void a_contexts_end_closes_however_many_connections(void **state)
{
	enum { IMPORTS = 1010 };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap **imports = calloc(IMPORTS, sizeof(*imports));
	struct mock_fabric_left l;
	struct both b;

	begin(&b, state);
	assert_int_equal(weir_mmap_destroy(b.import), 0);
	assert_int_equal(weir_lease_export(b.lease, &desc), 0);
	for (int i = 0; i < IMPORTS; i++) {
		import_bytes(&b, desc.bytes, desc.len);
		imports[i] = b.import;
		assert_int_equal(put(&b, 0, 10), 10);
	}
	b.import = NULL;
	assert_int_equal(stats_of(b.dev).links, IMPORTS);
	assert_int_equal(weir_dma_destroy(b.dma), 0);
	b.dma = NULL;
	left(&l);
	assert_int_equal(l.eps, 0);
	for (int i = 0; i < IMPORTS; i++)
		assert_int_equal(weir_mmap_destroy(imports[i]), 0);
	end(&b);
	free(imports);
}

static int keep_a_connection(void)
{
	static struct both b;

	begin(&b, state_of_child);
	CHECK(put(&b, 0, 1000) == 1000);
	go_wrong(MOCK_FABRIC_CLOSE, 0, UINT32_MAX / 2);
	CHECK(!weir_dma_destroy(b.dma));
	be_calm();
	CHECK(weir_mmap_stop(b.m, NULL, NULL) == -EBUSY);
	CHECK(strstr(weir_why(), "libfabric has not closed it"));
	CHECK(weir_mmap_stop(b.m, NULL, NULL) == -EBUSY);
	return 0;
}

/* In a child, for its descriptors stay open. */
static void memory_with_an_open_connection_after_the_last_context_is_kept(void **state)
{
	state_of_child = state;
	assert_int_equal(in_child(keep_a_connection), 0);
}

static void a_registration_that_libfabric_keeps_is_told_of(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	static char mem[4096];
	struct weir_mmap *m;
	struct both b;

	begin(&b, state);
	m = start_mmap_on(b.dev, mem, sizeof(mem), RW | WEIR_MMAP_READ |
			  WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_export_device(m, b.dev, NULL, &desc), 0);
	go_wrong(MOCK_FABRIC_REGION, 0, 1);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EIO);
	assert_non_null(strstr(weir_why(), "keeps the registration"));
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	end(&b);
}

/* The lease is revoked before the importer has heard that it is accepted. */
static void a_connection_that_is_closed_is_not_accepted_later(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	struct both b;

	begin_in(&b, state, world);
	set_limits(&b, WEIR_FOREVER, WEIR_FOREVER);
	world.later = hold;
	enter(&world);
	start_put(&b);
	step();
	UNTIL(b.r, stats_of(b.dev).conns == 1);
	go_wrong(MOCK_FABRIC_CLOSE, 0, UINT32_MAX / 2);
	assert_int_equal(weir_lease_revoke(b.lease, NULL), -EINPROGRESS);
	step();
	UNTIL(b.r, stats_of(b.dev).connects == 1);
	some_turns(b.r, 5);
	assert_int_equal(stats_of(b.dev).accepted, 0);
	be_calm();
	UNTIL(b.r, stats_of(b.dev).conns == 0);
	world.later = NULL;
	enter(&world);
	assert_int_equal(jrec_finish(b.r, &b.j), -ECONNRESET);
	end(&b);
}

static void a_job_on_an_import_that_was_destroyed_is_refused(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	struct jrec late;
	struct both b;

	begin_in(&b, state, world);
	assert_int_equal(put(&b, 0, 1000), 1000);
	world.later = hold;
	enter(&world);
	jrec_init(&b.j);
	start_put(&b);
	/* Its domain lasts until the job has ended. */
	assert_int_equal(weir_mmap_destroy(b.import), 0);
	b.import = NULL;
	jrec_init(&late);
	weir_job_copy(&late.job, there(&b, 0, 1000), weir_operand_mem(b.mem, 1000));
	assert_int_equal(weir_job_start(b.dma, &late.job), -ESTALE);
	assert_non_null(strstr(weir_why(), "the import was destroyed"));
	world.later = NULL;
	enter(&world);
	assert_int_equal(jrec_finish(b.r, &b.j), 1000);
	end(&b);
}

static void an_import_that_is_destroyed_ends_its_jobs(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	enum { JOBS = 30 };
	struct jrec *j = calloc(JOBS, sizeof(*j));
	struct both b;

	begin_in(&b, state, world);
	assert_int_equal(put(&b, 0, 1000), 1000);
	set_limits(&b, WEIR_MSEC, WEIR_MSEC);
	world.later = hold;
	enter(&world);
	/* More than the endpoint takes. */
	for (int i = 0; i < JOBS; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job, there(&b, 0, 1000),
			      weir_operand_mem(b.mem, 1000));
		STARTS(weir_job_start(b.dma, &j[i].job));
	}
	assert_int_equal(weir_mmap_destroy(b.import), 0);
	b.import = NULL;
	for (int i = 0; i < JOBS; i++) {
		UNTIL(b.r, j[i].calls);
		assert_int_equal(j[i].res, -ECONNRESET);
	}
	world.later = NULL;
	enter(&world);
	end(&b);
	free(j);
}

/* Posts. */

static void a_post_that_never_has_capacity_ends_its_job(void **state)
{
	struct both b;

	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	set_limits(&b, WEIR_MSEC, WEIR_MSEC);
	go_wrong(MOCK_FABRIC_AGAIN, 0, UINT32_MAX / 2);
	assert_int_equal(put(&b, 0, 1000), -ECONNRESET);
	be_calm();
	set_limits(&b, WEIR_FOREVER, WEIR_FOREVER);
	assert_int_equal(put(&b, 0, 1000), 1000);
	end(&b);
}

static void a_post_that_has_no_capacity_is_made_again(void **state)
{
	struct both b;

	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	go_wrong(MOCK_FABRIC_AGAIN, 0, 20);
	assert_int_equal(put(&b, 0, 1000), 1000);
	assert_int_equal(wrong[MOCK_FABRIC_AGAIN].asked, 21);
	assert_int_equal(stats_of(b.dev).lost, 0);
	end(&b);
}

static void a_post_that_fails_is_made_over_another_connection(void **state)
{
	struct both b;

	begin(&b, state);
	assert_int_equal(put(&b, 0, 1000), 1000);
	go_wrong(MOCK_FABRIC_POST, 0, 1);
	assert_int_equal(put(&b, 0, 1000), 1000);
	assert_int_equal(stats_of(b.dev).lost, 1);
	assert_int_equal(stats_of(b.dev).connects, 2);
	end(&b);
}

/* Connections. */

static uint32_t last_of(void *arg, uint32_t n)
{
	(void)arg;
	return n - 1;
}

static void a_connection_without_capacity_ends_jobs_that_were_started(void **state)
{
	struct mock_fabric_world world = world_of(0, 8);
	struct both b;

	begin_in(&b, state, world);
	assert_int_equal(put(&b, 0, 1000), 1000);
	/* Of the errors that the mock draws from, the last: -FI_EAGAIN. */
	world.below = last_of;
	enter(&world);
	go_wrong(MOCK_FABRIC_POST, 0, 1);
	go_wrong(MOCK_FABRIC_CONNECT, 0, 2);
	assert_int_equal(put(&b, 0, 1000), -ECONNRESET);
	assert_int_equal(b.j.detail.code, FI_EIO);
	/* One that is not started yet waits. */
	assert_int_equal(put(&b, 0, 1000), 1000);
	/* Two that fail, one that does not, and fi_accept(). */
	assert_int_equal(wrong[MOCK_FABRIC_CONNECT].asked, 4);
	end(&b);
}

/* The endpoint of the first is closed later, and the next one fails, too. */
static void a_connection_that_fails_at_once_has_libfabrics_error(void **state)
{
	struct both b;

	begin(&b, state);
	go_wrong(MOCK_FABRIC_CONNECT, 0, 2);
	go_wrong(MOCK_FABRIC_CLOSE, 0, 3);
	weir_job_copy(&b.j.job, there(&b, 0, 1000), weir_operand_mem(b.mem, 1000));
	assert_int_equal(weir_job_start(b.dma, &b.j.job), -ENOMEM);
	assert_int_equal(put(&b, 0, 1000), -ENOMEM);
	assert_int_equal(b.j.detail.code, FI_ENOMEM);
	end(&b);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(keys_have_the_size_that_a_provider_takes),
		CASE(memory_that_cannot_be_registered_is_not_exported),
		CASE(setup_failure_refuses_or_ends_the_job),
		CASE(a_provider_without_descriptors_is_refused),
		CASE(a_key_that_is_taken_is_drawn_again),
		CASE(a_lease_is_served_by_its_own_reactor),
		REAL(an_event_before_the_reactor_sleeps_is_read),
		CASE(a_job_lasts_until_its_endpoint_is_closed),
		CASE(a_lease_is_over_when_its_connections_are_closed),
		CASE(a_lease_that_ends_takes_no_connection),
		CASE(a_contexts_end_closes_however_many_connections),
		REAL(memory_with_an_open_connection_after_the_last_context_is_kept),
		CASE(a_registration_that_libfabric_keeps_is_told_of),
		CASE(a_connection_that_is_closed_is_not_accepted_later),
		CASE(a_job_on_an_import_that_was_destroyed_is_refused),
		CASE(an_import_that_is_destroyed_ends_its_jobs),
		CASE(a_post_that_never_has_capacity_ends_its_job),
		CASE(a_post_that_has_no_capacity_is_made_again),
		CASE(a_post_that_fails_is_made_over_another_connection),
		CASE(a_connection_without_capacity_ends_jobs_that_were_started),
		CASE(a_connection_that_fails_at_once_has_libfabrics_error),
	};
	char path[PATH_MAX];
	void *mock;

	if (!realpath("tests/.libs/mock-fabric.so", path)) {
		printf("1..0 # SKIP there is no mock in a build without shared "
		       "libraries\n");
		return 0;
	}
	setenv("WEIR_FABRIC_LIBRARY", path, 1);
	mock = dlopen(path, RTLD_NOW);
	if (!mock)
		return 1;
	enter = (void (*)(const struct mock_fabric_world *))dlsym(
		mock, "mock_fabric_enter");
	left = (void (*)(struct mock_fabric_left *))dlsym(mock,
							  "mock_fabric_left");
	step = (int (*)(void))dlsym(mock, "mock_fabric_step");
	return harness_run_all(cases, N_OF(cases));
}
