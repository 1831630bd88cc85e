/* SPDX-License-Identifier: BSD-3-Clause */

/* The verbs engine, and what a peer has exported: bufs at the peer. */

#include "tests/support/verbs-fixture.h"

#include <weir/crc32c.h>
#include <weir/export.h>

#include "base/fault.h"

static struct weir_buf *far_buf(struct wire *l, struct import *im, uint64_t off,
				size_t len, bool data)
{
	struct weir_buf *b = NULL;

	assert_int_equal(weir_inventory_get(&b, l->inv, im->m, l->far + off,
					    len, l->far + off,
					    data ? len : 0), 0);
	return b;
}

/* Two bufs there, of which the second is before the first. */
static struct weir_buf *two_far(struct wire *l, struct import *im, bool data)
{
	struct weir_buf *b = far_buf(l, im, 200000, 70000, data);

	assert_int_equal(weir_buf_chain(b, far_buf(l, im, 100, 30000, data)),
			 0);
	return b;
}

static int64_t run(struct wire *l, struct weir_operand dst,
		   struct weir_operand src)
{
	jrec_init(&l->j[0]);
	weir_job_copy(&l->j[0].job, dst, src);
	return jrec_run(l->dma, &l->j[0]);
}

#define RIGHTS (WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE)

static void bytes_go_to_bufs_of_an_import_and_back(void **state)
{
	struct weir_buf *near, *far;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, RIGHTS);
	near = near_buf(&l, 0, 100000, true);
	far = two_far(&l, &im, false);
	assert_int_equal(run(&l, weir_operand_buf(far), weir_operand_buf(near)),
			 100000);
	memcpy(l.far_shadow + 200000, l.near, 70000);
	memcpy(l.far_shadow + 100, l.near + 70000, 30000);
	assert_is_shadow(&l);
	weir_buf_put(near);
	near = near_buf(&l, 1 << 20, 100000, false);
	assert_int_equal(run(&l, weir_operand_buf(near), weir_operand_buf(far)),
			 100000);
	memcpy(l.near_shadow + (1 << 20), l.near, 100000);
	assert_is_shadow(&l);
	weir_buf_put(near);
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
}

/* Blocks of it: each keeps the key of its buf. */
static void imported_memory_is_reached_through_staging(void **state)
{
	static char mem[100000];
	struct weir_buf *far;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, RIGHTS);
	fill_pattern(mem, sizeof(mem), 0, 8);
	far = two_far(&l, &im, false);
	assert_int_equal(run(&l, weir_operand_buf(far),
			     weir_operand_mem(mem, 100000)),
			 100000);
	assert_true(is_pattern(l.far + 200000, 70000, 0, 8));
	assert_true(is_pattern(l.far + 100, 30000, 70000, 8));
	memset(mem, 0, sizeof(mem));
	assert_int_equal(run(&l, weir_operand_mem(mem, 100000),
			     weir_operand_buf(far)),
			 100000);
	assert_true(is_pattern(mem, 100000, 0, 8));
	jrec_init(&l.j[1]);
	weir_job_crc32c(&l.j[1].job, weir_operand_buf(far), 0);
	assert_int_equal(jrec_run(l.dma, &l.j[1]), 100000);
	assert_int_equal(l.j[1].job.crc, weir_crc32c(0, mem, 100000));
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
}

static void job_without_a_right_of_the_peer_is_not_begun(void **state)
{
	struct weir_buf *near, *far;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, WEIR_MMAP_RDMA_READ);
	near = near_buf(&l, 0, 4096, true);
	far = far_buf(&l, &im, 0, 4096, true);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, weir_operand_buf(far),
		      weir_operand_buf(near));
	l.j[0].job.flags = WEIR_JOB_OVERWRITE;
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EACCES);
	weir_job_copy(&l.j[0].job, weir_operand_buf(near),
		      weir_operand_buf(far));
	l.j[0].job.flags = WEIR_JOB_OVERWRITE;
	assert_int_equal(jrec_run(l.dma, &l.j[0]), 4096);
	assert_memory_equal(l.near, l.far, 4096);
	weir_buf_put(near);
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
}

static void job_that_may_not_read_the_peer_is_not_begun(void **state)
{
	struct weir_buf *near, *far;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, WEIR_MMAP_RDMA_WRITE);
	near = near_buf(&l, 0, 4096, true);
	far = far_buf(&l, &im, 0, 4096, true);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, weir_operand_buf(near),
		      weir_operand_buf(far));
	l.j[0].job.flags = WEIR_JOB_OVERWRITE;
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EACCES);
	assert_string_equal(weir_why(), "weir_job_start: the peer does not give "
			    "this right");
	weir_buf_put(near);
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
}

/* It goes through staging, and reads both. */
static int64_t compare_with(void **state, uint32_t right)
{
	static char mem[4096];
	struct weir_buf *far;
	struct import im;
	struct wire l;
	int64_t res;

	wire_begin(&l, state);
	import_far(&l, &im, right);
	memcpy(mem, l.far + 64, sizeof(mem));
	far = far_buf(&l, &im, 64, 4096, true);
	jrec_init(&l.j[0]);
	weir_job_compare(&l.j[0].job, weir_operand_mem(mem, 4096),
			 weir_operand_buf(far));
	res = weir_job_start(l.dma, &l.j[0].job);
	if (!res)
		res = jrec_finish(l.r, &l.j[0]);
	assert_int_equal(weir_conn_state(l.c), WEIR_CONN_ESTABLISHED);
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
	return res;
}

static void comparison_needs_no_right_to_write(void **state)
{
	assert_int_equal(compare_with(state, WEIR_MMAP_RDMA_READ), 4096);
}

static void comparison_needs_the_right_to_read(void **state)
{
	assert_int_equal(compare_with(state, WEIR_MMAP_RDMA_WRITE), -EACCES);
}

/* A key that is given beside bufs is not theirs. */
static void bufs_have_their_own_key_whatever_is_given(void **state)
{
	struct weir_remote_key wrong = { .rkey = 0xdead };
	static char mem[5000];
	struct weir_operand to;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, RIGHTS);
	fill_pattern(mem, sizeof(mem), 0, 8);
	to = weir_operand_buf(far_buf(&l, &im, 0, 5000, false));
	to.ctx = &wrong;
	/* Through staging, too. */
	assert_int_equal(run(&l, to, weir_operand_mem(mem, 5000)), 5000);
	assert_memory_equal(l.far, mem, 5000);
	assert_int_equal(weir_buf_reset(to.buf), 0);
	assert_int_equal(run(&l, to, weir_operand_mem(mem + 100, 8)), 8);
	assert_memory_equal(l.far, mem + 100, 8);
	weir_buf_put(to.buf);
	import_end(&l, &im);
	wire_end(&l);
}

/* The stop takes the key back; what comes later is its error. */
static void stopped_peer_receives_nothing(void **state)
{
	struct weir_buf *near, *far;
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_far(&l, &im, RIGHTS);
	near = near_buf(&l, 0, 4096, true);
	far = far_buf(&l, &im, 0, 4096, false);
	assert_int_equal(weir_mmap_stop(im.theirs, NULL, NULL), 0);
	assert_int_equal(run(&l, weir_operand_buf(far), weir_operand_buf(near)),
			 -EACCES);
	assert_is_shadow(&l);
	UNTIL(l.r, l.e.n_ends[0]);
	weir_buf_put(near);
	weir_buf_put(far);
	import_end(&l, &im);
	wire_end(&l);
}

/* The one that the ring does not use. */
static struct weir_device *other_device(const struct wire *l)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	struct weir_device *dev = NULL;
	size_t n, i;

	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n && !dev; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		if (caps.kind != WEIR_DEVICE_RDMA ||
		    weir_device_open(&dev, list[i]))
			continue;
		if (dev != l->dev)
			continue;
		weir_device_close(dev);
		dev = NULL;
	}
	weir_device_list_free(list);
	return dev;
}

static void change_devices(struct wire *l, struct weir_device *other, bool add)
{
	assert_int_equal(weir_inventory_detach(l->inv, l->m), 0);
	assert_int_equal(weir_mmap_stop(l->m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_rm_device(l->m, l->dev), 0);
	if (add)
		assert_int_equal(weir_mmap_add_device(l->m, other), 0);
	else
		assert_int_equal(weir_mmap_rm_device(l->m, other), 0);
	assert_int_equal(weir_mmap_add_device(l->m, l->dev), 0);
	assert_int_equal(weir_mmap_start(l->m), 0);
	assert_int_equal(weir_inventory_attach(l->inv, l->m), 0);
}

/* One device has taken its key back, the other refuses: the mmap goes on. */
static void a_key_that_half_a_stop_took_back_is_not_used(void **state)
{
	struct weir_device *other;
	uint32_t old, now;
	struct wire l;

	wire_begin(&l, state);
	other = other_device(&l);
	if (!other) {
		wire_end(&l);
		skip_because("there is only one RDMA device");
	}
	/* A stop asks those first that were added last. */
	change_devices(&l, other, true);
	assert_int_equal(weir_mmap_keys(l.m, other, NULL, NULL), 0);
	start_write(&l, 0, 0, 4096);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, 4096);
	assert_int_equal(weir_mmap_keys(l.m, l.dev, &old, NULL), 0);
	fault_arm(1);
	assert_int_equal(weir_mmap_stop(l.m, NULL, NULL), -EBUSY);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(weir_mmap_state(l.m), WEIR_MMAP_STARTED);
	start_write(&l, 0, 8192, 4096);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, 4096);
	assert_memory_equal(l.far + 8192, l.near + 8192, 4096);
	assert_int_equal(weir_mmap_keys(l.m, l.dev, &now, NULL), 0);
	assert_int_not_equal(old, now);
	change_devices(&l, other, false);
	assert_int_equal(weir_device_close(other), 0);
	wire_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_go_to_bufs_of_an_import_and_back),
		CASE(imported_memory_is_reached_through_staging),
		CASE(job_without_a_right_of_the_peer_is_not_begun),
		CASE(job_that_may_not_read_the_peer_is_not_begun),
		CASE(comparison_needs_no_right_to_write),
		CASE(comparison_needs_the_right_to_read),
		CASE(bufs_have_their_own_key_whatever_is_given),
		CASE(stopped_peer_receives_nothing),
		CASE(a_key_that_half_a_stop_took_back_is_not_used),
	};

	return run_over_rdma(cases, N_OF(cases));
}
