/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * O_DIRECT: jobs of any alignment on files and block devices that are open with
 * it and nothing else; what is refused where there is no way round.
 */

#include "tests/support/job-fixture.h"
#include "tests/support/loopdev.h"

#include <weir/buf.h>
#include <weir/crc32c.h>
#include <weir/inventory.h>

#include "base/fault.h"
#include "mem/domain-internal.h"

#include "tests/support/sim-calls.h"

#define LEN 65536u
#define MOST 20000u	/* Bytes of a job. */

static const uint64_t offsets[] = { 0, 1, 511, 512, 4095, 4096, 4097, 12288 };
static const uint64_t lengths[] = { 1, 512, 4095, 4096, 4097, 8192, 12345 };

struct fixture {
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *mmap;
	struct weir_domain *d;
	char *mem;	/* To write from, LEN; then as much to read into. */
	char *shadow;	/* What must be in the file. */
	int fd;		/* O_DIRECT. */
	int plain;	/* The same without, to look. */
};

static void fixture_begin(struct fixture *g, void **state, int fd, int plain,
			  struct weir_dma_opts opts)
{
	struct weir_reactor *r = start_reactor(state);

	g->fd = fd;
	g->plain = plain;
	g->d = file_domain(fd);
	g->dma = start_dma(r, opts);
	g->mem = aligned_alloc(4096, 2 * LEN);
	g->shadow = malloc(LEN);
	assert_int_equal(pread(plain, g->shadow, LEN, 0), LEN);
	fill_pattern(g->mem, 2 * LEN, 0, 3);
	g->mmap = start_mmap(g->mem, 2 * LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&g->inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->mmap), 0);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->mmap), 0);
	assert_int_equal(weir_domain_destroy(g->d), 0);
	free(g->mem);
	free(g->shadow);
	close(g->fd);
	close(g->plain);
}

static int open_direct(void **state, const char *name, int flags)
{
	int fd = open(test_path(state, name), flags | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		skip_because("no O_DIRECT here: %s", strerror(errno));
	return fd;
}

static void fixture_on_file(struct fixture *g, void **state,
			    struct weir_dma_opts opts)
{
	int plain = test_file(state, "f", LEN, 1);

	fixture_begin(g, state, open_direct(state, "f", O_RDWR), plain, opts);
}

/* Bytes that no earlier job has written. */
static void fresh(struct fixture *g, size_t at, uint64_t len)
{
	static unsigned int seed = 10;

	fill_pattern(g->mem + at, len, 0, seed++);
}

static struct weir_buf *take(struct fixture *g, size_t at, size_t len,
			     size_t data_len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get(&buf, g->inv, g->mmap, g->mem + at,
					    len, g->mem + at, data_len), 0);
	return buf;
}

static struct weir_operand place(struct fixture *g, struct weir_buf **buf,
				 size_t at, uint64_t len, bool full)
{
	if (!buf)
		return weir_operand_mem(g->mem + at, len);
	*buf = take(g, at, len, full ? len : 0);
	return weir_operand_buf(*buf);
}

/* To the file and back, from and to memory that begins at @at; @bufs: bufs. */
static void there_and_back(struct fixture *g, uint64_t off, uint64_t len,
			   size_t at, bool bufs)
{
	struct weir_buf *src = NULL, *dst = NULL;
	struct jrec j;

	fresh(g, at, len);
	memcpy(g->shadow + off, g->mem + at, len);
	memset(g->mem + LEN, 0, LEN);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(g->d, off, len),
		      place(g, bufs ? &src : NULL, at, len, true));
	assert_int_equal(jrec_run(g->dma, &j), len);
	weir_job_copy(&j.job,
		      place(g, bufs ? &dst : NULL, LEN + at, len, false),
		      weir_operand_at(g->d, off, len));
	assert_int_equal(jrec_run(g->dma, &j), len);
	assert_memory_equal(g->mem + LEN + at, g->shadow + off, len);
	assert_int_equal(g->mem[LEN + at + len], 0);
	weir_buf_put(src);
	weir_buf_put(dst);
}

static void check_shadow(struct fixture *g)
{
	char *now = malloc(LEN);

	assert_int_equal(pread(g->plain, now, LEN, 0), LEN);
	assert_memory_equal(now, g->shadow, LEN);
	free(now);
}

static void every_alignment(struct fixture *g, bool bufs)
{
	size_t at;
	size_t i = 0;

	for (at = 0; at < 64; at++, i++) {
		there_and_back(g, offsets[i % N_OF(offsets)] + at,
			       lengths[i % N_OF(lengths)], at, bufs);
		there_and_back(g, 4096 * (at % 4), 8192, at, bufs);
		there_and_back(g, at, 4096 + at, 4096 + at, bufs);
	}
	check_shadow(g);
}

static void every_range(struct fixture *g, bool bufs)
{
	static const size_t ats[] = { 0, 1, 512, 4095 };
	size_t o, l, a;

	for (o = 0; o < N_OF(offsets); o++)
		for (l = 0; l < N_OF(lengths); l++)
			for (a = 0; a < N_OF(ats); a++)
				there_and_back(g, offsets[o], lengths[l],
					       ats[a], bufs);
	check_shadow(g);
}

static void direct_file_takes_any_range_and_any_memory(void **state)
{
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	every_range(&g, false);
	every_alignment(&g, false);
	fixture_end(&g);
}

static void direct_file_takes_bufs_in_registered_memory(void **state)
{
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	every_range(&g, true);
	every_alignment(&g, true);
	fixture_end(&g);
}

static void aligned_data_goes_directly_and_registered(void **state)
{
	struct weir_dma_stats stats = { .size = sizeof(stats) };
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	/* If it went the other way it would fail. */
	close(domain_to_file(g.d)->buffered_fd);
	there_and_back(&g, 4096, 8192, 4096, true);
	assert_int_equal(dup3(g.plain, domain_to_file(g.d)->buffered_fd,
			      O_CLOEXEC), domain_to_file(g.d)->buffered_fd);
	there_and_back(&g, 4097, 8192, 4096, true);
	check_shadow(&g);
	assert_int_equal(weir_dma_stats(g.dma, &stats), 0);
	if (weir_mmap_registered(g.mmap, weir_dma_reactor(g.dma), NULL) > 0)
		assert_true(stats.fixed >= 4);
	fixture_end(&g);
}

static void lists_of_odd_pieces_do(void **state)
{
	static const size_t cuts[] = { 1, 4095, 4096, 511, 513, 3000 };
	struct iovec mem[N_OF(cuts)], file[N_OF(cuts)];
	size_t i, at = 3, off = 5, total = 0;
	struct jrec j;
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(cuts); i++) {
		mem[i] = (struct iovec){ g.mem + at, cuts[i] };
		at += cuts[i] + 7;
		file[i].iov_len = cuts[N_OF(cuts) - 1 - i];
		file[i].iov_base = (void *)(uintptr_t)off;
		off += file[i].iov_len + 300;
		total += cuts[i];
	}
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_iov(g.d, file, N_OF(cuts)),
		      weir_operand_iov(NULL, mem, N_OF(cuts)));
	assert_int_equal(jrec_run(g.dma, &j), total);
	weir_job_copy(&j.job, weir_operand_mem(g.mem + LEN + 1, total),
		      weir_operand_iov(g.d, file, N_OF(cuts)));
	assert_int_equal(jrec_run(g.dma, &j), total);
	for (i = 0, at = LEN + 1; i < N_OF(cuts); at += mem[i++].iov_len)
		assert_memory_equal(g.mem + at, mem[i].iov_base,
				    mem[i].iov_len);
	fixture_end(&g);
}

/* What no engine does at once: the checksum on the way goes through staging. */
static void bounce(struct fixture *g, uint64_t from, uint64_t to, uint64_t len,
		   size_t at)
{
	uint32_t crc = weir_crc32c(0, g->shadow + from, len);
	struct jrec j;

	jrec_init(&j);
	weir_job_crc32c(&j.job, weir_operand_at(g->d, from, len), 0);
	assert_int_equal(jrec_run(g->dma, &j), len);
	assert_int_equal(j.job.crc, crc);
	weir_job_copy_crc32c(&j.job, weir_operand_mem(g->mem + at, len),
			     weir_operand_at(g->d, from, len), 0);
	assert_int_equal(jrec_run(g->dma, &j), len);
	assert_int_equal(j.job.crc, crc);
	assert_memory_equal(g->mem + at, g->shadow + from, len);
	weir_job_copy_crc32c(&j.job, weir_operand_at(g->d, to, len),
			     weir_operand_at(g->d, from, len), 0);
	assert_int_equal(jrec_run(g->dma, &j), len);
	assert_int_equal(j.job.crc, crc);
	memcpy(g->shadow + to, g->shadow + from, len);
	weir_job_fill(&j.job, weir_operand_at(g->d, to + len, at + 1), 0);
	assert_int_equal(jrec_run(g->dma, &j), at + 1);
	memset(g->shadow + to + len, 0, at + 1);
	weir_job_compare(&j.job, weir_operand_at(g->d, from, len),
			 weir_operand_mem(g->mem + at, len));
	assert_int_equal(jrec_run(g->dma, &j), len);
}

static void bounce_all(void **state, uint32_t staging_size)
{
	struct fixture g;
	size_t i;

	fixture_on_file(&g, state,
			(struct weir_dma_opts){ .staging_bufs = 1,
						.staging_size = staging_size });
	for (i = 0; i < 64; i++)
		bounce(&g, offsets[i % N_OF(offsets)] + i,
		       32768 + offsets[(i / 8) % N_OF(offsets)],
		       lengths[i % N_OF(lengths)], i);
	check_shadow(&g);
	fixture_end(&g);
}

static void staging_takes_any_alignment(void **state)
{
	bounce_all(state, 0);
}

static void staging_takes_any_alignment_in_blocks_of_a_page(void **state)
{
	bounce_all(state, 4096);
}

/* Between the page caches of both: the kernel's own copy, or staging. */
static void files_are_copied_to_files_at_any_offset(void **state)
{
	struct weir_domain *to;
	int fd, other;
	struct jrec j;
	struct fixture g;
	size_t i;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	other = test_file(state, "g", LEN, 9);
	fd = open_direct(state, "g", O_RDWR);
	to = file_domain(fd);
	for (i = 0; i < 64; i++) {
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_at(to, 64 - i, MOST),
			      weir_operand_at(g.d, 11 * i, MOST));
		assert_int_equal(jrec_run(g.dma, &j), MOST);
		assert_int_equal(pread(other, g.mem, MOST, (off_t)(64 - i)),
				 MOST);
		assert_memory_equal(g.mem, g.shadow + 11 * i, MOST);
	}
	assert_int_equal(weir_domain_destroy(to), 0);
	close(fd);
	close(other);
	fixture_end(&g);
}

static void the_end_of_a_file_need_not_be_aligned(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	assert_int_equal(ftruncate(g.plain, 10001), 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, LEN),
		      weir_operand_at(g.d, 0, LEN));
	j.job.flags = WEIR_JOB_SHORT_OK;
	assert_int_equal(jrec_run(g.dma, &j), 10001);
	assert_memory_equal(g.mem, g.shadow, 10001);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, LEN),
		      weir_operand_at(g.d, 4096, LEN));
	assert_int_equal(jrec_run(g.dma, &j), -ENODATA);
	assert_int_equal(j.detail.bytes, 10001 - 4096);
	fixture_end(&g);
}

/* Block devices. */

static void on_a_device(void **state, uint32_t block)
{
	struct loopdev l;
	struct fixture g;
	char *noise;
	int err;

	err = loopdev_open(&l, LEN, block);
	if (err)
		skip_because("no loop device here: %s", strerror(-err));
	noise = malloc(LEN);
	fill_pattern(noise, LEN, 0, 1);
	fixture_begin(&g, state, dup(l.fd), open(l.path, O_RDWR | O_CLOEXEC),
		      (struct weir_dma_opts){ 0 });
	assert_int_equal(pwrite(g.plain, noise, LEN, 0), LEN);
	memcpy(g.shadow, noise, LEN);
	every_range(&g, false);
	every_alignment(&g, true);
	bounce(&g, 1, 32768 + 513, 12345, 5);
	check_shadow(&g);
	fixture_end(&g);
	loopdev_close(&l);
	free(noise);
}

static void a_block_device_takes_any_range(void **state)
{
	on_a_device(state, 512);
}

static void a_block_device_with_large_blocks_takes_any_range(void **state)
{
	on_a_device(state, 4096);
}

/* The domain's own descriptor. */

static int own_flags(struct weir_domain *d)
{
	int fd = domain_to_file(d)->buffered_fd;

	return fd < 0 ? -1 : fcntl(fd, F_GETFL);
}

static void the_domain_opens_the_file_again_as_it_was(void **state)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	int mask = O_ACCMODE | O_DIRECT | O_SYNC | O_DSYNC, fds, fd;
	struct weir_domain *d;
	size_t i;

	close(test_file(state, "f", LEN, 1));
	for (i = 0; i < N_OF(modes); i++) {
		fd = open_direct(state, "f", modes[i] | O_DSYNC);
		fds = count_fds();
		d = file_domain(fd);
		assert_int_equal(own_flags(d) & mask, modes[i] | O_DSYNC);
		assert_int_equal(fcntl(domain_to_file(d)->buffered_fd, F_GETFD),
				 FD_CLOEXEC);
		assert_int_equal(count_fds(), fds + 1);
		assert_int_equal(weir_domain_destroy(d), 0);
		assert_int_equal(count_fds(), fds);
		close(fd);
	}
}

static void a_file_without_a_name_is_opened_again_too(void **state)
{
	struct weir_domain *d;
	int fd;

	close(test_file(state, "f", LEN, 1));
	fd = open_direct(state, "f", O_RDWR);
	assert_int_equal(unlink(test_path(state, "f")), 0);
	d = file_domain(fd);
	assert_true(own_flags(d) >= 0);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

static void buffered_file_is_not_opened_again(void **state)
{
	int fd = test_file(state, "f", LEN, 1), fds = count_fds();
	struct weir_domain *d = file_domain(fd);

	assert_int_equal(count_fds(), fds);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

/* Where there is no way round. */

static void refused(struct fixture *g, uint64_t off, uint64_t len, size_t at,
		    const char *reason)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(g->d, off, len),
		      weir_operand_mem(g->mem + at, len));
	assert_int_equal(weir_job_start(g->dma, &j.job), -EINVAL);
	assert_non_null(strstr(weir_why(), reason));
	weir_job_copy(&j.job, weir_operand_mem(g->mem + at, len),
		      weir_operand_at(g->d, off, len));
	assert_int_equal(weir_job_start(g->dma, &j.job), -EINVAL);
	assert_int_equal(j.calls, 0);
}

/* Staging is aligned: there is no other way here. */
static void bounce_strictly(struct fixture *g)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_copy_crc32c(&j.job,
			     weir_operand_at(g->d, 32768, MOST & ~4095u),
			     weir_operand_at(g->d, 4096, MOST & ~4095u), 0);
	assert_int_equal(jrec_run(g->dma, &j), MOST & ~4095u);
	memcpy(g->shadow + 32768, g->shadow + 4096, MOST & ~4095u);
	assert_int_equal(j.job.crc, weir_crc32c(0, g->shadow + 4096,
						MOST & ~4095u));
	check_shadow(g);
}

/* With @d, which has none, for @g's own. */
static void is_strict(struct fixture *g, struct weir_domain *d,
		      const char *reason)
{
	assert_int_equal(own_flags(d), -1);
	assert_int_equal(weir_domain_destroy(g->d), 0);
	g->d = d;
	refused(g, 0, 100, 0, reason);
	refused(g, 7, 4096, 0, reason);
	refused(g, 0, 4096, 1, reason);
	there_and_back(g, 4096, 8192, 4096, false);
	there_and_back(g, 4096, 8192, 4096, true);
	bounce_strictly(g);
}

static void direct_file_without_proc_wants_alignment(void **state)
{
	struct weir_domain *d;
	struct fixture g;
	int n = 0;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	/* The one fault that is survived is that of the open. */
	do {
		d = NULL;
		fault_arm(n++);
		if (weir_domain_file_create(&d, g.fd, NULL))
			assert_null(d);
		assert_true(fault_disarm());
		if (d && own_flags(d) >= 0) {
			assert_int_equal(weir_domain_destroy(d), 0);
			d = NULL;
		}
	} while (!d);
	is_strict(&g, d, strerror(ENOENT));
	fixture_end(&g);
}

static void caller_without_rights_is_told(void **state)
{
	struct weir_domain *d;
	struct fixture g;

	if (geteuid())
		skip_because("not root, so no rights to give up");
	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	assert_int_equal(fchmod(g.plain, 0600), 0);
	assert_int_equal(seteuid(65534), 0);
	d = file_domain(g.fd);
	assert_int_equal(seteuid(0), 0);
	is_strict(&g, d, strerror(EACCES));
	fixture_end(&g);
}

static void direct_only_file_refuses_the_buffered_way(void **state)
{
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts),
		.flags = WEIR_DOMAIN_FILE_DIRECT_ONLY,
		.align = 4096,
	};
	struct weir_domain *d;
	struct fixture g;

	fixture_on_file(&g, state, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_domain_file_create(&d, g.fd, &opts), 0);
	is_strict(&g, d, "asked for");
	opts.flags |= WEIR_DOMAIN_FILE_BUFFERED;
	opts.buffered_fd = g.plain;
	assert_int_equal(weir_domain_file_create(&d, g.fd, &opts), -EINVAL);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(direct_file_takes_any_range_and_any_memory),
		CASE(direct_file_takes_bufs_in_registered_memory),
		REAL(aligned_data_goes_directly_and_registered),
		CASE(lists_of_odd_pieces_do),
		CASE(staging_takes_any_alignment),
		CASE(staging_takes_any_alignment_in_blocks_of_a_page),
		CASE(files_are_copied_to_files_at_any_offset),
		CASE(the_end_of_a_file_need_not_be_aligned),
		REAL(a_block_device_takes_any_range),
		REAL(a_block_device_with_large_blocks_takes_any_range),
		REAL(the_domain_opens_the_file_again_as_it_was),
		REAL(a_file_without_a_name_is_opened_again_too),
		CASE(buffered_file_is_not_opened_again),
		CASE(direct_file_without_proc_wants_alignment),
		REAL(caller_without_rights_is_told),
		CASE(direct_only_file_refuses_the_buffered_way),
	};

	return harness_run_all(cases, N_OF(cases));
}
