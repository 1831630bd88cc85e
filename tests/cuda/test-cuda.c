/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of libweir-cuda, over a real driver or the mock. */

#include "tests/support/cuda-fixture.h"
#include "tests/support/stats-fixture.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/pool.h>

#define LEN ((size_t)1 << 20)
#define LARGE ((size_t)8 << 20)		/* A slice. */
#define MANY 12				/* Of them: more than are posted. */

struct gpu {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_device *dev;
	struct weir_domain *domain;
	uint64_t addr;			/* LEN bytes of the GPU's. */
	char *mem;			/* The same here, twice. */
	struct jrec j;
};

static void gpu_begin_on(struct gpu *g, struct weir_reactor *r)
{
	memset(g, 0, sizeof(*g));
	g->r = r;
	g->dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_device_open_name(&g->dev, "cuda0"), 0);
	g->domain = weir_cuda_domain(g->dev);
	assert_non_null(g->domain);
	assert_int_equal(weir_cuda_alloc(g->dev, &g->addr, LEN), 0);
	g->mem = malloc(2 * LEN);
	fill_pattern(g->mem, LEN, 0, 1);
	memset(g->mem + LEN, 0, LEN);
	jrec_init(&g->j);
}

static void gpu_begin(struct gpu *g, void **state)
{
	gpu_begin_on(g, start_reactor(state));
}

static void gpu_end(struct gpu *g)
{
	assert_int_equal(weir_cuda_free(g->dev, g->addr), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_device_close(g->dev), 0);
	free(g->mem);
}

static struct weir_operand there(const struct gpu *g, size_t at, size_t len)
{
	return weir_operand_at(g->domain, g->addr + at, len);
}

static int64_t copy(struct gpu *g, struct weir_operand to,
		    struct weir_operand from)
{
	weir_job_copy(&g->j.job, to, from);
	return jrec_run(g->dma, &g->j);
}

static void devices_are_listed_with_their_memory(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n, found = 0;

	(void)state;
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		if (caps.kind != WEIR_DEVICE_CUDA)
			continue;
		found++;
		assert_true(caps.flags & WEIR_DEVICE_USABLE);
		assert_true(caps.dm_size >= LEN);
		assert_true(caps.caps & WEIR_DEVICE_CAP_MMAP);
	}
	assert_true(found > 0);
	weir_device_list_free(list);
}

static void bytes_go_there_and_back(void **state)
{
	static const size_t lens[] = { 1, 7, 4096, 4097, 300000, LEN };
	struct gpu g;
	size_t len;

	gpu_begin(&g, state);
	for (size_t i = 0; i < N_OF(lens); i++) {
		len = lens[i];
		memset(g.mem + LEN, 0, LEN);
		assert_int_equal(copy(&g, there(&g, LEN - len, len),
				      weir_operand_mem(g.mem, len)), len);
		assert_int_equal(copy(&g, weir_operand_mem(g.mem + LEN, len),
				      there(&g, LEN - len, len)), len);
		assert_true(is_pattern(g.mem + LEN, len, 0, 1));
	}
	gpu_end(&g);
}

/* Past the caches; what is beside it stays. */
static void large_copy_goes_to_any_address(void **state)
{
	const size_t len = 3 * LEN + 5;
	char *from, *to;
	uint64_t addr;
	struct gpu g;

	gpu_begin(&g, state);
	from = malloc(len);
	to = malloc(len + 32);
	fill_pattern(from, len, 0, 9);
	assert_int_equal(weir_cuda_alloc(g.dev, &addr, len), 0);
	assert_int_equal(copy(&g, weir_operand_at(g.domain, addr, len),
			      weir_operand_mem(from, len)), len);
	for (size_t at = 0; at < 16; at += 5) {
		memset(to, 'g', len + 32);
		assert_int_equal(copy(&g, weir_operand_mem(to + at, len),
				      weir_operand_at(g.domain, addr, len)), len);
		assert_true(is_pattern(to + at, len, 0, 9));
		for (size_t i = 0; i < at; i++)
			assert_int_equal(to[i], 'g');
		for (size_t i = at + len; i < len + 32; i++)
			assert_int_equal(to[i], 'g');
	}
	assert_int_equal(weir_cuda_free(g.dev, addr), 0);
	free(from);
	free(to);
	gpu_end(&g);
}

static void bytes_move_within_the_gpu(void **state)
{
	struct gpu g;

	gpu_begin(&g, state);
	assert_int_equal(copy(&g, there(&g, 0, 1000),
			      weir_operand_mem(g.mem, 1000)), 1000);
	assert_int_equal(copy(&g, there(&g, 5000, 1000), there(&g, 0, 1000)),
			 1000);
	assert_int_equal(copy(&g, weir_operand_mem(g.mem + LEN, 1000),
			      there(&g, 5000, 1000)), 1000);
	assert_true(is_pattern(g.mem + LEN, 1000, 0, 1));
	gpu_end(&g);
}

static void bytes_move_between_gpus(void **state)
{
	struct weir_device *other;
	struct gpu g;
	uint64_t addr;

	gpu_begin(&g, state);
	if (weir_device_open_name(&other, "cuda1")) {
		gpu_end(&g);
		skip_because("there is one GPU");
	}
	assert_int_equal(weir_cuda_alloc(other, &addr, 1000), 0);
	assert_int_equal(copy(&g, there(&g, 0, 1000),
			      weir_operand_mem(g.mem, 1000)), 1000);
	assert_int_equal(copy(&g, weir_operand_at(weir_cuda_domain(other), addr,
						  1000), there(&g, 0, 1000)),
			 1000);
	assert_int_equal(copy(&g, weir_operand_mem(g.mem + LEN, 1000),
			      weir_operand_at(weir_cuda_domain(other), addr,
					      1000)), 1000);
	assert_true(is_pattern(g.mem + LEN, 1000, 0, 1));
	assert_int_equal(weir_cuda_free(other, addr), 0);
	gpu_end(&g);
	assert_int_equal(weir_device_close(other), 0);
}

/* Pieces of one side end in the middle of the other's. */
static void pieces_of_the_sides_may_differ(void **state)
{
	struct iovec here[3], far[2], back[1];
	struct gpu g;

	gpu_begin(&g, state);
	here[0] = (struct iovec){ g.mem, 10 };
	here[1] = (struct iovec){ g.mem + 10, 5000 };
	here[2] = (struct iovec){ g.mem + 5010, 90 };
	far[0] = (struct iovec){ (void *)(uintptr_t)(g.addr + 777), 100 };
	far[1] = (struct iovec){ (void *)(uintptr_t)(g.addr + 9000), 5000 };
	back[0] = (struct iovec){ g.mem + LEN, 5100 };
	assert_int_equal(copy(&g, weir_operand_iov(g.domain, far, 2),
			      weir_operand_iov(NULL, here, 3)), 5100);
	assert_int_equal(copy(&g, weir_operand_iov(NULL, back, 1),
			      weir_operand_iov(g.domain, far, 2)), 5100);
	assert_true(is_pattern(g.mem + LEN, 5100, 0, 1));
	gpu_end(&g);
}

static void fill_repeats_its_pattern(void **state)
{
	static const struct { uint64_t pattern; size_t at, len; } row[] = {
		{ 0, 0, 5000 },
		{ UINT64_C(0x4242424242424242), 3, 4999 },
		{ UINT64_C(0x0807060504030201), 8, 4000 },
		{ UINT64_C(0x0807060504030201), 3, 5 },
		{ UINT64_C(0x0807060504030201), 3, 1001 },
	};
	char want[5000];
	struct gpu g;

	gpu_begin(&g, state);
	for (size_t i = 0; i < N_OF(row); i++) {
		weir_job_fill(&g.j.job, there(&g, row[i].at, row[i].len),
			      row[i].pattern);
		assert_int_equal(jrec_run(g.dma, &g.j), row[i].len);
		weir_job_fill(&g.j.job, weir_operand_mem(want, row[i].len),
			      row[i].pattern);
		assert_int_equal(jrec_run(g.dma, &g.j), row[i].len);
		assert_int_equal(copy(&g, weir_operand_mem(g.mem, row[i].len),
				      there(&g, row[i].at, row[i].len)),
				 row[i].len);
		assert_memory_equal(g.mem, want, row[i].len);
	}
	gpu_end(&g);
}

static int start_copy(struct gpu *g, struct weir_operand to,
		      struct weir_operand from)
{
	weir_job_copy(&g->j.job, to, from);
	return weir_job_start(g->dma, &g->j.job);
}

static void addresses_that_are_no_memory_of_a_gpu_are_refused(void **state)
{
	struct weir_operand here;
	struct gpu g;

	gpu_begin(&g, state);
	here = weir_operand_mem(g.mem, 100);
	assert_int_equal(start_copy(&g, there(&g, LEN - 99, 100), here),
			 -ERANGE);
	assert_non_null(strstr(weir_why(), "one allocation"));
	assert_int_equal(start_copy(&g, weir_operand_at(
			g.domain, (uintptr_t)g.mem + LEN, 100), here), -ERANGE);
	assert_int_equal(start_copy(&g, here, there(&g, LEN, 100)), -ERANGE);
	assert_int_equal(start_copy(&g, there(&g, 50, 100), there(&g, 0, 100)),
			 -EINVAL);
	weir_job_fill(&g.j.job, there(&g, LEN - 99, 100), 1);
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -ERANGE);
	gpu_end(&g);
}

/* The context has used it, and gives it back at its own end. */
static void device_may_be_closed_before_the_context_ends(void **state)
{
	struct gpu g;

	gpu_begin(&g, state);
	assert_int_equal(copy(&g, there(&g, 0, 100),
			      weir_operand_mem(g.mem, 100)), 100);
	assert_int_equal(weir_cuda_free(g.dev, g.addr), 0);
	assert_int_equal(weir_device_close(g.dev), 0);
	some_turns(g.r, 2);
	/* It can be opened again meanwhile, and be used. */
	assert_int_equal(weir_device_open_name(&g.dev, "cuda0"), 0);
	g.domain = weir_cuda_domain(g.dev);
	assert_int_equal(weir_cuda_alloc(g.dev, &g.addr, LEN), 0);
	assert_int_equal(copy(&g, there(&g, 0, 100),
			      weir_operand_mem(g.mem, 100)), 100);
	gpu_end(&g);
}

/* The engine looks an address up again after weir_cuda_free(). */
static void freed_memory_is_refused(void **state)
{
	struct gpu g;
	uint64_t addr;

	gpu_begin(&g, state);
	assert_int_equal(weir_cuda_alloc(g.dev, &addr, 4096), 0);
	assert_int_equal(copy(&g, weir_operand_at(g.domain, addr, 100),
			      weir_operand_mem(g.mem, 100)), 100);
	assert_int_equal(weir_cuda_free(g.dev, addr), 0);
	assert_int_equal(start_copy(&g, weir_operand_at(g.domain, addr, 100),
				    weir_operand_mem(g.mem, 100)), -ERANGE);
	assert_int_equal(weir_cuda_free(g.dev, addr), -EINVAL);
	gpu_end(&g);
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_cuda_pointer p = { .size = sizeof(p) };
	struct weir_device *cpu;
	struct gpu g;
	uint64_t addr = 7;
	int fd = -7;

	gpu_begin(&g, state);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_null(weir_cuda_domain(cpu));
	assert_null(weir_cuda_domain(NULL));
	assert_int_equal(weir_cuda_alloc(cpu, &addr, 10), -EINVAL);
	assert_int_equal(weir_cuda_alloc(g.dev, NULL, 10), -EINVAL);
	assert_int_equal(weir_cuda_alloc(g.dev, &addr, 0), -EINVAL);
	assert_int_equal(weir_cuda_alloc(g.dev, &addr, (size_t)1 << 60),
			 -ENOMEM);
	assert_int_equal(addr, 7);
	assert_int_equal(weir_cuda_free(cpu, 7), -EINVAL);
	assert_int_equal(weir_cuda_free(g.dev, 0), 0);
	assert_int_equal(weir_cuda_pointer(cpu, g.addr, &p), -EINVAL);
	assert_int_equal(weir_cuda_pointer(g.dev, (uintptr_t)g.mem, &p),
			 -EFAULT);
	assert_int_equal(weir_cuda_dmabuf(cpu, g.addr, 4096, &fd), -EINVAL);
	assert_int_equal(weir_cuda_dmabuf(g.dev, 0, 4096, &fd), -EINVAL);
	if (hold) {
		assert_int_equal(weir_cuda_dmabuf(g.dev, g.addr, 4096, &fd),
				 -EOPNOTSUPP);
		assert_non_null(strstr(weir_why(), "dma-buf"));
	}
	assert_int_equal(fd, -7);
	assert_int_equal(weir_device_close(cpu), 0);
	gpu_end(&g);
}

static void memory_in_pages_of_its_own_is_aligned_and_given_back(void **state)
{
	struct { struct weir_cuda_alloc_opts opts; uint64_t more; } later = {
		.opts = { .size = sizeof(later) }, .more = 1,
	};
	struct weir_cuda_alloc_opts opts = { .size = sizeof(opts) };
	size_t page = (size_t)2 << 20;
	uint64_t addr = 0, second = 0;
	struct gpu g;

	gpu_begin(&g, state);
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &addr, 3 * page, NULL), 0);
	assert_int_equal(addr % page, 0);
	opts.granularity = 2 * page;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, 4 * page, &opts),
			 0);
	assert_int_equal(second % (2 * page), 0);
	assert_int_equal(copy(&g, weir_operand_at(g.domain, addr + 5, LEN),
			      weir_operand_mem(g.mem, LEN)), LEN);
	assert_int_equal(copy(&g, weir_operand_at(g.domain, second, LEN),
			      weir_operand_at(g.domain, addr + 5, LEN)), LEN);
	assert_int_equal(copy(&g, weir_operand_mem(g.mem + LEN, LEN),
			      weir_operand_at(g.domain, second, LEN)), LEN);
	assert_true(is_pattern(g.mem + LEN, LEN, 0, 1));

	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, page, &opts),
			 -EINVAL);
	assert_non_null(strstr(weir_why(), "whole pages"));
	opts.granularity = 3 * page;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, 3 * page, &opts),
			 -EINVAL);
	opts.granularity = 4096;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, page, &opts),
			 -EINVAL);
	opts.granularity = 0;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, 0, &opts),
			 -EINVAL);
	assert_int_equal(weir_cuda_alloc_pages(g.dev, NULL, page, &opts),
			 -EINVAL);
	assert_int_equal(weir_cuda_alloc_pages(NULL, &second, page, &opts),
			 -EINVAL);
	opts.flags = 2;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, page, &opts),
			 -EINVAL);
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second, page,
					       &later.opts), -E2BIG);
	opts.flags = 0;
	assert_int_equal(weir_cuda_alloc_pages(g.dev, &second,
					       (size_t)1 << 45, &opts), -ENOMEM);
	if (hold) {
		opts.flags = WEIR_CUDA_ALLOC_RDMA;
		assert_int_equal(weir_cuda_alloc_pages(g.dev, &addr, page,
						       &opts), -EOPNOTSUPP);
	}

	assert_int_equal(weir_cuda_free(g.dev, second), 0);
	assert_int_equal(weir_cuda_free(g.dev, second), -EINVAL);
	weir_job_copy(&g.j.job, weir_operand_at(g.domain, second, LEN),
		      weir_operand_mem(g.mem, LEN));
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -ERANGE);
	assert_int_equal(weir_cuda_free(g.dev, addr), 0);
	gpu_end(&g);
}

static void pointer_is_known_by_its_allocation(void **state)
{
	struct weir_cuda_pointer p = { .size = sizeof(p) };
	struct gpu g;

	gpu_begin(&g, state);
	assert_int_equal(weir_cuda_pointer(g.dev, g.addr + 100, &p), 0);
	assert_int_equal(p.start, g.addr);
	assert_true(p.len >= LEN);
	assert_int_equal(p.is_host, 0);
	assert_int_equal(p.device, 0);
	gpu_end(&g);
}

/* Bufs of an mmap with the device need no staging, and the mmap's stop gives the
 * pages back. */
static void bufs_of_an_mmap_with_the_device_are_page_locked(void **state)
{
	struct weir_cuda_pointer p = { .size = sizeof(p) };
	struct weir_inventory *inv;
	struct weir_mmap *m;
	struct weir_buf *buf;
	unsigned int before;
	struct gpu g;
	char *mem;

	gpu_begin(&g, state);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	before = count ? count(MOCK_CUDA_HOST_ALLOC) : 0;
	m = start_mmap_on(g.dev, mem, LEN, WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	inv = start_inventory(g.r, m);
	fill_pattern(mem, LEN, 0, 3);
	buf = get_buf(inv, m, mem, LEN, LEN);
	assert_int_equal(copy(&g, there(&g, 0, LEN), weir_operand_buf(buf)),
			 LEN);
	assert_int_equal(weir_cuda_pointer(g.dev, (uintptr_t)mem, &p), 0);
	assert_int_equal(p.is_host, 1);
	memset(mem, 0, LEN);
	assert_int_equal(weir_buf_reset(buf), 0);
	assert_int_equal(copy(&g, weir_operand_buf(buf), there(&g, 0, LEN)),
			 LEN);
	assert_int_equal(weir_buf_data_len(buf), LEN);
	assert_true(is_pattern(mem, LEN, 0, 3));
	if (count)
		assert_int_equal(count(MOCK_CUDA_HOST_ALLOC), before);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_cuda_pointer(g.dev, (uintptr_t)mem, &p), -EFAULT);
	assert_int_equal(weir_mmap_destroy(m), 0);
	munmap(mem, LEN);
	gpu_end(&g);
}

static void dmabuf_of_the_gpus_memory_is_the_range_of_an_mmap(void **state)
{
	const size_t len = (size_t)2 << 20;
	struct weir_mmap *m = NULL;
	uint64_t addr = 0;
	struct gpu g;
	int fd = -1, err;

	gpu_begin(&g, state);
	assert_int_equal(weir_cuda_alloc(g.dev, &addr, len), 0);
	err = weir_cuda_dmabuf(g.dev, addr, len, &fd);
	if (!err) {
		assert_int_equal(weir_mmap_create(&m, NULL), 0);
		assert_int_equal(weir_mmap_set_dmabuf(m, fd, 0, len), 0);
		close(fd);
		assert_int_equal(weir_mmap_start(m), 0);
		print_message("# the domain of a dma-buf of it: %s\n",
			      weir_domain_id(weir_mmap_domain(m)));
		assert_int_equal(weir_mmap_destroy(m), 0);
	}
	assert_int_equal(weir_cuda_free(g.dev, addr), 0);
	gpu_end(&g);
	if (err == -EOPNOTSUPP)
		skip_because("there is no dma-buf of it");
	assert_int_equal(err, 0);
}

static void file_goes_to_the_gpu_and_back(void **state)
{
	int in = test_file(state, "in", LEN, 5), out;
	struct weir_domain *from = file_domain(in), *to;
	struct gpu g;

	out = test_file(state, "out", 1, 0);
	to = file_domain(out);
	gpu_begin(&g, state);
	assert_int_equal(copy(&g, there(&g, 0, LEN),
			      weir_operand_at(from, 0, LEN)), LEN);
	assert_int_equal(copy(&g, weir_operand_at(to, 0, LEN),
			      there(&g, 0, LEN)), LEN);
	assert_int_equal(pread(out, g.mem, LEN, 0), LEN);
	assert_true(is_pattern(g.mem, LEN, 0, 5));
	gpu_end(&g);
	assert_int_equal(weir_domain_destroy(from), 0);
	assert_int_equal(weir_domain_destroy(to), 0);
	close(in);
	close(out);
}

static void checksum_of_the_gpus_memory_is_taken_through_staging(void **state)
{
	struct gpu g;

	gpu_begin(&g, state);
	assert_int_equal(copy(&g, there(&g, 0, LEN),
			      weir_operand_mem(g.mem, LEN)), LEN);
	weir_job_copy_crc32c(&g.j.job, weir_operand_mem(g.mem + LEN, LEN),
			     there(&g, 0, LEN), 0);
	assert_int_equal(jrec_run(g.dma, &g.j), LEN);
	assert_int_equal(g.j.job.crc, weir_crc32c(0, g.mem, LEN));
	assert_memory_equal(g.mem, g.mem + LEN, LEN);
	gpu_end(&g);
}

/* More than the driver is given at once, of page-locked memory. */
struct many {
	struct gpu g;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_buf *buf[MANY];
	struct jrec j[MANY];
	char *mem;
	uint64_t addr;
};

static void many_begin(struct many *w, void **state)
{
	uint32_t key;

	gpu_begin(&w->g, state);
	w->mem = mmap(NULL, MANY * LARGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w->mem, MAP_FAILED);
	w->m = start_mmap_on(w->g.dev, w->mem, MANY * LARGE,
			     WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_keys(w->m, w->g.dev, &key, NULL), 0);
	w->inv = start_inventory(w->g.r, w->m);
	assert_int_equal(weir_cuda_alloc(w->g.dev, &w->addr, MANY * LARGE), 0);
	weir_job_fill(&w->g.j.job, weir_operand_at(w->g.domain, w->addr,
						   MANY * LARGE),
		      UINT64_C(0x1111111111111111));
	assert_int_equal(jrec_run(w->g.dma, &w->g.j), MANY * LARGE);
	if (hold)
		hold(1);
	for (int i = 0; i < MANY; i++) {
		w->buf[i] = get_buf(w->inv, w->m, w->mem + i * LARGE, LARGE, 0);
		jrec_init(&w->j[i]);
		weir_job_copy(&w->j[i].job, weir_operand_buf(w->buf[i]),
			      weir_operand_at(w->g.domain, w->addr + i * LARGE,
					      LARGE));
	}
}

static void many_start(struct many *w)
{
	for (int i = 0; i < MANY; i++)
		STARTS(weir_job_start(w->g.dma, &w->j[i].job));
	weir_dma_flush(w->g.dma);
}

/* Nothing comes late: what ended without success is not written any more. */
static void many_end(struct many *w)
{
	struct jrec probe;
	uint64_t i;

	if (hold)
		hold(0);
	for (i = 0; i < MANY; i++) {
		if (!w->j[i].calls)
			jrec_finish(w->g.r, &w->j[i]);
		assert_int_equal(w->j[i].calls, 1);
		if (w->j[i].res < 0)
			memset(w->mem + i * LARGE, 0x77, LARGE);
	}
	/* Behind them in the stream. */
	jrec_init(&probe);
	weir_job_copy(&probe.job, weir_operand_mem(w->g.mem, 100),
		      weir_operand_at(w->g.domain, w->addr, 100));
	assert_int_equal(jrec_run(w->g.dma, &probe), 100);
	for (i = 0; i < MANY * LARGE; i += 4096)
		assert_int_equal(w->mem[i], w->j[i / LARGE].res < 0 ? 0x77 :
								     0x11);
	for (i = 0; i < MANY; i++)
		weir_buf_put(w->buf[i]);
	assert_int_equal(weir_cuda_free(w->g.dev, w->addr), 0);
	assert_int_equal(weir_inventory_destroy(w->inv), 0);
	assert_int_equal(weir_mmap_stop(w->m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(w->m), 0);
	munmap(w->mem, MANY * LARGE);
	gpu_end(&w->g);
}

static void cancel_ends_at_once_what_has_not_begun(void **state)
{
	struct many w;

	many_begin(&w, state);
	many_start(&w);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(weir_op_cancel(&w.j[i].job.op), 0);
	some_turns(w.g.r, 2);
	for (int i = 4; i < MANY; i++) {
		assert_int_equal(w.j[i].calls, 1);
		assert_int_equal(w.j[i].res, -ECANCELED);
		assert_int_equal(w.j[i].detail.bytes, 0);
	}
	/* And not those that have. */
	if (hold)
		assert_int_equal(w.j[0].calls, 0);
	many_end(&w);
	assert_int_equal(w.j[0].res, LARGE);
}

static void deadline_ends_at_once_what_has_not_begun(void **state)
{
	struct many w;

	many_begin(&w, state);
	many_start(&w);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(weir_op_set_deadline(
			&w.j[i].job.op, weir_reactor_now(w.g.r)), 0);
	UNTIL(w.g.r, w.j[MANY - 1].calls);
	assert_int_equal(w.j[MANY - 1].res, -ETIMEDOUT);
	assert_int_equal(w.j[MANY - 1].detail.bytes, 0);
	many_end(&w);
}

/* One job that is larger than what is posted at once. */
static void cancel_in_the_middle_ends_with_the_bytes_that_are_there(void **state)
{
	struct many w;
	struct jrec j;

	many_begin(&w, state);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(w.mem, MANY * LARGE),
		      weir_operand_at(w.g.domain, w.addr, MANY * LARGE));
	STARTS(weir_job_start(w.g.dma, &j.job));
	weir_dma_flush(w.g.dma);
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	some_turns(w.g.r, 2);
	if (hold) {
		assert_int_equal(j.calls, 0);
		hold(0);
	}
	if (!j.calls)
		jrec_finish(w.g.r, &j);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(j.detail.bytes, 4 * LARGE);
	many_start(&w);
	many_end(&w);
}

static void stop_of_the_context_waits_for_the_gpu(void **state)
{
	struct many w;
	struct rec rec;

	many_begin(&w, state);
	many_start(&w);
	rec_init(&rec);
	STARTS(weir_dma_stop(w.g.dma, &rec.op));
	some_turns(w.g.r, 3);
	if (hold) {
		assert_int_equal(rec.calls, 0);
		hold(0);
	}
	assert_int_equal(rec.calls ? rec.res : finish(w.g.r, &rec), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(w.j[i].calls, 1);
	assert_int_equal(weir_dma_start(w.g.dma), 0);
	many_end(&w);
}

/* Completions wake the reactor, and not only the timer that looks for a failed GPU. */
static void staged_jobs_wake_the_reactor_that_does_not_spin(void **state)
{
	struct weir_stats *page;
	struct weir_reactor *r;
	struct jrec j[8];
	struct gpu g;

	publish_here(state);
	r = start_reactor_with(state,
		(struct weir_reactor_opts){ .spin_ns = WEIR_SPIN_NONE });
	gpu_begin_on(&g, r);
	for (unsigned int round = 0; round < scaled(100); round++) {
		for (size_t i = 0; i < N_OF(j); i++) {
			jrec_init(&j[i]);
			weir_job_copy(&j[i].job, there(&g, 0, LEN),
				      weir_operand_mem(g.mem, LEN));
			assert_int_equal(weir_job_start(g.dma, &j[i].job), 0);
		}
		for (size_t i = 0; i < N_OF(j); i++) {
			if (!j[i].calls)
				jrec_finish(r, &j[i]);
			assert_int_equal(j[i].res, LEN);
		}
	}
	page = must_open(getpid());
	assert_true(value_of(page, "poll_hook", "cuda", "sleeps") > 0);
	assert_true(value_of(page, "poll_hook", "cuda", "wakeups") > 0);
	weir_stats_close(page);
	gpu_end(&g);
	publish_no_more(state);
}

/* Many small jobs, whose bytes are all there afterwards. */
static void thousand_jobs_are_in_flight(void **state)
{
	enum { N = 1000, SIZE = 1000 };
	struct jrec *j = calloc(N, sizeof(*j));
	struct gpu g;

	gpu_begin(&g, state);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			struct weir_operand here, far;

			here = weir_operand_mem(
				g.mem + (size_t)round * LEN + i * SIZE, SIZE);
			far = there(&g, (size_t)i * SIZE, SIZE);
			jrec_init(&j[i]);
			weir_job_copy(&j[i].job, round ? here : far,
				      round ? far : here);
			STARTS(weir_job_start(g.dma, &j[i].job));
		}
		for (int i = 0; i < N; i++) {
			if (!j[i].calls)
				jrec_finish(g.r, &j[i]);
			assert_int_equal(j[i].res, SIZE);
		}
	}
	assert_true(is_pattern(g.mem + LEN, N * SIZE, 0, 1));
	gpu_end(&g);
	free(j);
}

static void chain_goes_through_the_gpu(void **state)
{
	struct weir_chain *chain;
	struct jrec j[3];
	struct rec rec;
	struct gpu g;

	gpu_begin(&g, state);
	for (size_t i = 0; i < N_OF(j); i++)
		jrec_init(&j[i]);
	assert_int_equal(weir_chain_create(&chain, g.r, NULL), 0);
	weir_job_copy(&j[0].job, there(&g, 0, LEN),
		      weir_operand_mem(g.mem, LEN));
	weir_job_copy(&j[1].job, there(&g, 0, 1000), there(&g, 5000, 1000));
	weir_job_copy(&j[2].job, weir_operand_mem(g.mem + LEN, LEN),
		      there(&g, 0, LEN));
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_chain_add_job(
			chain, i ? i - 1 : WEIR_CHAIN_FIRST, g.dma, &j[i].job),
			i);
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(g.r, &rec), 3);
	assert_memory_equal(g.mem + LEN, g.mem + 5000, 1000);
	assert_memory_equal(g.mem + LEN + 1000, g.mem + 1000, LEN - 1000);
	assert_int_equal(weir_chain_destroy(chain), 0);
	gpu_end(&g);
}

/* Chains there and back, of which some are cancelled or have a deadline: each ends
 * once, and what one says that it has done is there. */
static void storm_of_chains_ends_each_once(void **state)
{
	enum { N = 20, SIZE = 40000 };
	struct storm {
		struct weir_chain *chain;
		struct jrec j[3];
		struct rec rec;
	} *c = calloc(N, sizeof(*c));
	unsigned int seed = 1, rounds = scaled(50), good = 0;
	struct gpu g;

	gpu_begin(&g, state);
	for (size_t i = 0; i < N; i++) {
		size_t at = i * SIZE;

		assert_int_equal(weir_chain_create(&c[i].chain, g.r, NULL), 0);
		for (int k = 0; k < 3; k++)
			jrec_init(&c[i].j[k]);
		weir_job_copy(&c[i].j[0].job, there(&g, at, SIZE / 2),
			      weir_operand_mem(g.mem + at, SIZE / 2));
		weir_job_copy(&c[i].j[1].job, there(&g, at + SIZE / 2, SIZE / 2),
			      there(&g, at, SIZE / 2));
		weir_job_copy(&c[i].j[2].job,
			      weir_operand_mem(g.mem + LEN + at, SIZE / 2),
			      there(&g, at + SIZE / 2, SIZE / 2));
		for (int k = 0; k < 3; k++)
			assert_int_equal(weir_chain_add_job(
				c[i].chain, k ? k - 1 : WEIR_CHAIN_FIRST, g.dma,
				&c[i].j[k].job), k);
	}
	while (rounds--) {
		memset(g.mem + LEN, 0, LEN);
		for (size_t i = 0; i < N; i++) {
			rec_init(&c[i].rec);
			if (rand_r(&seed) % 4 == 0)
				weir_op_set_deadline(
					&c[i].rec.op,
					weir_reactor_now(g.r) +
						rand_r(&seed) % 200 * WEIR_USEC);
			STARTS(weir_chain_start(c[i].chain, &c[i].rec.op));
		}
		some_turns(g.r, (uint32_t)rand_r(&seed) % 4);
		for (size_t i = 0; i < N; i++)
			if (rand_r(&seed) % 4 == 0 && !c[i].rec.calls)
				assert_int_equal(weir_op_cancel(&c[i].rec.op), 0);
		for (size_t i = 0; i < N; i++) {
			size_t at = i * SIZE;

			if (!c[i].rec.calls)
				finish(g.r, &c[i].rec);
			assert_int_equal(c[i].rec.calls, 1);
			if (c[i].rec.res < 0)
				continue;
			good++;
			assert_int_equal(c[i].rec.res, 3);
			assert_memory_equal(g.mem + LEN + at, g.mem + at,
					    SIZE / 2);
		}
	}
	assert_true(good > 0);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(weir_chain_destroy(c[i].chain), 0);
	gpu_end(&g);
	free(c);
}

/* All jobs end once, with the driver's error, which is the process's. */
/* What the driver has of it still writes; then it has not ended. */
static void fill_of_which_a_part_is_refused_ends_after_the_others(void **state)
{
	unsigned int before;
	struct gpu g;

	if (!refuse)
		skip_because("a real device refuses all of it, or nothing");
	gpu_begin(&g, state);
	before = count(MOCK_CUDA_SYNC);
	refuse(MOCK_CUDA_FILL, 1, 2);
	weir_job_fill(&g.j.job, there(&g, 0, 64), 0x0102030405060708);
	assert_int_equal(jrec_run(g.dma, &g.j), -ENOMEM);
	assert_int_equal(g.j.detail.code, 2);
	assert_int_equal(g.j.detail.bytes, 0);
	assert_true(count(MOCK_CUDA_SYNC) > before);

	/* Nothing of it comes later. */
	weir_job_fill(&g.j.job, there(&g, 0, 64), 0);
	assert_int_equal(jrec_run(g.dma, &g.j), 64);
	weir_job_copy(&g.j.job, weir_operand_mem(g.mem, 64), there(&g, 0, 64));
	assert_int_equal(jrec_run(g.dma, &g.j), 64);
	for (int i = 0; i < 64; i++)
		assert_int_equal(g.mem[i], 0);
	gpu_end(&g);
}

static void failure_of_the_gpu_ends_all_jobs(void **state)
{
	struct weir_cuda_pointer p = { .size = sizeof(p) };
	struct weir_device *again;
	struct many w;

	if (!break_it)
		skip_because("a real device is not broken on purpose");
	many_begin(&w, state);
	many_start(&w);
	some_turns(w.g.r, 2);
	break_it(700);
	for (int i = 0; i < MANY; i++) {
		if (!w.j[i].calls)
			jrec_finish(w.g.r, &w.j[i]);
		assert_int_equal(w.j[i].res, -EIO);
		assert_int_equal(w.j[i].detail.code, 700);
		assert_int_equal(w.j[i].calls, 1);
	}
	hold(0);
	assert_int_equal(start_copy(&w.g, there(&w.g, 0, 10),
				    weir_operand_mem(w.g.mem, 10)), -EIO);
	assert_non_null(strstr(weir_why(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
	assert_int_equal(weir_cuda_free(w.g.dev, w.addr), -EIO);
	assert_int_equal(weir_cuda_alloc(w.g.dev, &w.addr, 10), -EIO);
	assert_int_equal(weir_cuda_alloc_pages(w.g.dev, &w.addr, LARGE, NULL),
			 -EIO);
	assert_int_equal(weir_cuda_pointer(w.g.dev, w.g.addr, &p), -EIO);
	for (int i = 0; i < MANY; i++)
		weir_buf_put(w.buf[i]);
	assert_int_equal(weir_inventory_destroy(w.inv), 0);
	assert_int_equal(weir_mmap_stop(w.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(w.m), 0);
	munmap(w.mem, MANY * LARGE);
	assert_int_equal(weir_dma_destroy(w.g.dma), 0);
	assert_int_equal(weir_device_close(w.g.dev), 0);
	free(w.g.mem);
	end_reactor(state);

	assert_int_equal(weir_device_open_name(&again, "cuda0"), -EIO);
	assert_non_null(strstr(weir_why(), "another process"));
	break_it(0);
	assert_int_equal(weir_device_open_name(&again, "cuda0"), 0);
	assert_int_equal(weir_device_close(again), 0);
}

/* In a child: 0 if the list says why there is none. */
static int says_why_there_is_none(void)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n;
	int ret = 2;

	if (weir_device_list(&list, &n))
		return 1;
	for (size_t i = 0; i < n; i++)
		if (!weir_devinfo_caps(list[i], &caps) &&
		    caps.kind == WEIR_DEVICE_CUDA)
			ret = caps.flags & WEIR_DEVICE_USABLE ||
			      !strstr(caps.why, "fork");
	weir_device_list_free(list);
	return ret;
}

static void child_of_fork_has_no_device(void **state)
{
	struct weir_device *dev;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(weir_device_open_name(&dev, "cuda0"), 0);
	assert_int_equal(weir_device_close(dev), 0);
	pid = fork();
	if (!pid)
		_exit(says_why_there_is_none());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static const struct harness_case cases[] = {
	CASE(devices_are_listed_with_their_memory),
	CASE(bytes_go_there_and_back),
	CASE(large_copy_goes_to_any_address),
	CASE(bytes_move_within_the_gpu),
	CASE(bytes_move_between_gpus),
	CASE(pieces_of_the_sides_may_differ),
	CASE(fill_repeats_its_pattern),
	CASE(addresses_that_are_no_memory_of_a_gpu_are_refused),
	CASE(device_may_be_closed_before_the_context_ends),
	CASE(freed_memory_is_refused),
	CASE(bad_arguments_are_refused),
	CASE(memory_in_pages_of_its_own_is_aligned_and_given_back),
	CASE(pointer_is_known_by_its_allocation),
	CASE(bufs_of_an_mmap_with_the_device_are_page_locked),
	REAL(dmabuf_of_the_gpus_memory_is_the_range_of_an_mmap),
	REAL(file_goes_to_the_gpu_and_back),
	CASE(checksum_of_the_gpus_memory_is_taken_through_staging),
	CASE(cancel_ends_at_once_what_has_not_begun),
	CASE(deadline_ends_at_once_what_has_not_begun),
	CASE(cancel_in_the_middle_ends_with_the_bytes_that_are_there),
	CASE(stop_of_the_context_waits_for_the_gpu),
	REAL(staged_jobs_wake_the_reactor_that_does_not_spin),
	CASE(thousand_jobs_are_in_flight),
	CASE(chain_goes_through_the_gpu),
	CASE(storm_of_chains_ends_each_once),
	CASE(fill_of_which_a_part_is_refused_ends_after_the_others),
	CASE(failure_of_the_gpu_ends_all_jobs),
	REAL(child_of_fork_has_no_device),
};

int main(void)
{
	if (!cuda_begin())
		return 0;
	cuda_say();
	return harness_run_all(cases, N_OF(cases));
}
