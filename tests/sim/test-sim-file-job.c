/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs over simulated files: byte for byte what a model says, whatever is cut
 * short, late or told in another order; and honest when something fails.
 */

#include "tests/support/sim-fixture.h"

#include <weir/crc32c.h>
#include <weir/sim/file.h>

#define LEN 40000u
#define FILES 3		/* One of them O_DIRECT, one a disk. */
#define HARMLESS (ALWAYS(WEIR_SIM_SHORT) | ALWAYS(WEIR_SIM_EINTR) | \
		  ALWAYS(WEIR_SIM_DELAY) | ALWAYS(WEIR_SIM_REORDER) | \
		  ALWAYS(WEIR_SIM_FULL) | ALWAYS(WEIR_SIM_SLOW) | \
		  ALWAYS(WEIR_SIM_CLOCK))

static const char *const paths[FILES] = { "f", "direct", "disk" };

struct fixture {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct weir_dma *dma;
	int fd[FILES];
	struct weir_domain *file[FILES];
	unsigned char *shadow[FILES + 1];	/* The last is memory's. */
	unsigned char *mem;
};

static void fixture_begin(struct fixture *g, uint64_t seed, uint64_t faults,
			  uint32_t rate)
{
	static const int flags[FILES] = { 0, O_DIRECT, O_DIRECT };
	struct weir_dma_opts opts = { .staging_size = 8192 };

	memset(g, 0, sizeof(*g));
	g->sim = sim_world(seed, faults, rate);
	g->r = sim_reactor_in(g->sim);
	g->dma = start_dma(g->r, opts);
	assert_int_equal(weir_sim_disk(g->sim, "disk", 65536, 4096), 0);
	for (int i = 0; i < FILES; i++) {
		g->shadow[i] = malloc(LEN);
		fill_pattern(g->shadow[i], LEN, 0, (unsigned int)i);
		assert_int_equal(weir_sim_file_write(g->sim, paths[i],
						     g->shadow[i], LEN, 0),
				 LEN);
		g->fd[i] = weir_sim_file_open(g->sim, paths[i],
					      O_RDWR | flags[i], 0);
		g->file[i] = file_domain(g->fd[i]);
	}
	g->mem = aligned_alloc(4096, 40960);
	g->shadow[FILES] = malloc(LEN);
	fill_pattern(g->mem, LEN, 0, 9);
	memcpy(g->shadow[FILES], g->mem, LEN);
}

static void fixture_end(struct fixture *g)
{
	weir_sim_set_faults(g->sim, 0);
	sim_end_dma(g->sim, g->dma);
	for (int i = 0; i < FILES; i++)
		assert_int_equal(weir_domain_destroy(g->file[i]), 0);
	assert_int_equal(weir_reactor_destroy(g->r), 0);
	assert_int_equal(weir_sim_destroy(g->sim), 0);
	for (int i = 0; i <= FILES; i++)
		free(g->shadow[i]);
	free(g->mem);
}

static unsigned int draw(struct fixture *g, unsigned int n)
{
	return (unsigned int)(weir_sim_random(g->sim) % n);
}

static struct weir_operand operand_at(struct fixture *g, unsigned int place,
				      size_t off, size_t len)
{
	return place == FILES ? weir_operand_mem(g->mem + off, len) :
				weir_operand_at(g->file[place], off, len);
}

/* What a place has now, by other means. */
static const unsigned char *look(struct fixture *g, unsigned int place,
				 unsigned char *capacity)
{
	if (place == FILES)
		return g->mem;
	assert_int_equal(weir_sim_file_read(g->sim, paths[place], capacity, LEN,
					    0),
			 LEN);
	return capacity;
}

static void check(struct fixture *g)
{
	unsigned char *capacity = malloc(LEN);

	for (unsigned int i = 0; i <= FILES; i++)
		assert_memory_equal(look(g, i, capacity), g->shadow[i], LEN);
	free(capacity);
}

/* A job, and what is known of it. */
struct sjob {
	struct jrec j;
	unsigned int src, dst;
	size_t from, to, len;
};

/* Ranges do not overlap, so that jobs can be in flight together. */
static void make_job(struct fixture *g, struct sjob *s, size_t low, size_t high)
{
	size_t half = (high - low) / 2;
	struct weir_operand src, dst;

	jrec_init(&s->j);
	s->src = draw(g, FILES + 1);
	s->dst = draw(g, FILES + 1);
	s->len = 1 + draw(g, (unsigned int)half);
	s->from = low + draw(g, (unsigned int)(half - s->len + 1));
	s->to = low + half + draw(g, (unsigned int)(half - s->len + 1));
	src = operand_at(g, s->src, s->from, s->len);
	dst = operand_at(g, s->dst, s->to, s->len);
	switch (draw(g, 6)) {
	case 0:
		weir_job_crc32c(&s->j.job, src, 0);
		break;
	case 1:
		weir_job_copy_crc32c(&s->j.job, dst, src, 0);
		break;
	case 2:
		weir_job_fill(&s->j.job, dst, 0x1122334455667788);
		break;
	default:
		weir_job_copy(&s->j.job, dst, src);
	}
}

static void expect(struct fixture *g, struct sjob *s, size_t n)
{
	unsigned char *dst = g->shadow[s->dst] + s->to;
	const unsigned char *src = g->shadow[s->src] + s->from;

	switch (s->j.job.kind) {
	case WEIR_JOB_FILL:
		for (size_t i = 0; i < n; i++)
			dst[i] = (unsigned char)(s->j.job.pattern >>
						 (i & 7) * 8);
		break;
	case WEIR_JOB_COPY: case WEIR_JOB_COPY_CRC32C:
		memcpy(dst, src, n);
	}
	if (n == s->len && (s->j.job.kind == WEIR_JOB_CRC32C ||
			    s->j.job.kind == WEIR_JOB_COPY_CRC32C))
		assert_int_equal(s->j.job.crc, weir_crc32c(0, src, n));
}

static uint64_t run_a_seed(uint64_t seed, uint64_t faults, unsigned int n)
{
	struct sjob s[4];
	uint64_t digest;
	struct fixture g;
	size_t i;

	fixture_begin(&g, seed, faults, 4);
	while (n--) {
		for (i = 0; i < N_OF(s); i++) {
			make_job(&g, &s[i], i * LEN / N_OF(s),
				 (i + 1) * LEN / N_OF(s));
			STARTS(weir_job_start(g.dma, &s[i].j.job));
		}
		assert_int_equal(weir_sim_run(g.sim, WEIR_FOREVER, 0), 0);
		for (i = 0; i < N_OF(s); i++) {
			assert_int_equal(s[i].j.calls, 1);
			assert_int_equal(s[i].j.res, s[i].len);
			expect(&g, &s[i], s[i].len);
		}
		check(&g);
	}
	digest = weir_sim_digest(g.sim);
	fixture_end(&g);
	return digest;
}

static void jobs_move_what_the_model_says(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 10; seed++)
		run_a_seed(seed, 0, 10);
}

static void jobs_on_files_are_right_when_io_is_short_late_or_reordered(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++)
		assert_true(run_a_seed(seed, HARMLESS, 5) ==
			    run_a_seed(seed, HARMLESS, 5));
}

/* What is counted is there; what is not may be anything, in its range only. */
static void check_failed(struct fixture *g, struct sjob *s)
{
	unsigned char *capacity = malloc(LEN);
	const unsigned char *now = look(g, s->dst, capacity);
	size_t n = s->j.detail.bytes;

	assert_in_range(n, 0, s->len);
	expect(g, s, n);
	memcpy(g->shadow[s->dst] + s->to + n, now + s->to + n, s->len - n);
	free(capacity);
}

static void jobs_that_fail_say_how_far_they_came(void **state)
{
	unsigned int failed = 0, in_part = 0;
	struct sjob s;
	struct fixture g;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		fixture_begin(&g, seed,
			      HARMLESS | ALWAYS(WEIR_SIM_ERROR) |
				      ALWAYS(WEIR_SIM_REFUSED),
			      12);
		for (int n = 0; n < 10; n++) {
			make_job(&g, &s, 0, LEN);
			STARTS(weir_job_start(g.dma, &s.j.job));
			weir_sim_run(g.sim, WEIR_FOREVER, 0);
			assert_int_equal(s.j.calls, 1);
			if (s.j.res < 0) {
				failed++;
				in_part += s.j.detail.bytes != 0;
				check_failed(&g, &s);
			} else {
				expect(&g, &s, s.len);
			}
			check(&g);
		}
		fixture_end(&g);
	}
	assert_true(failed > 50);
	assert_true(in_part > 10);
}

static void a_full_disk_and_bad_sectors_are_told_with_what_was_moved(
	void **state)
{
	struct weir_domain *d;
	struct jrec j;
	struct fixture g;
	int fd;

	(void)state;
	fixture_begin(&g, 1, 0, 0);
	fd = weir_sim_file_open(g.sim, "small", O_RDWR | O_CREAT, 0);
	d = file_domain(fd);
	weir_sim_space(g.sim, "small", 12345);
	for (int i = 0; i < 2; i++) {
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_at(d, 0, LEN),
			      i ? weir_operand_mem(g.mem, LEN) :
				  weir_operand_at(g.file[0], 0, LEN));
		STARTS(weir_job_start(g.dma, &j.job));
		sim_idle(g.sim);
		assert_int_equal(j.res, -ENOSPC);
		assert_int_equal(j.detail.bytes, 12345);
		assert_int_equal(weir_sim_file_size(g.sim, "small"), 12345);
	}
	weir_sim_bad_sectors(g.sim, "f", 20000, 1, WEIR_SIM_BAD_READS);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, LEN),
		      weir_operand_at(g.file[0], 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	sim_idle(g.sim);
	assert_int_equal(j.res, -EIO);
	assert_int_equal(j.detail.bytes, 19968);
	assert_memory_equal(g.mem, g.shadow[0], 19968);
	assert_int_equal(weir_domain_destroy(d), 0);
	fixture_end(&g);
}

static void a_job_in_a_power_cut_fails_and_another_world_goes_on(void **state)
{
	struct jrec j[FILES];
	struct fixture g;

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		fixture_begin(&g, seed, 0, 0);
		for (int i = 0; i < FILES; i++) {
			jrec_init(&j[i]);
			weir_job_copy_crc32c(
				&j[i].job,
				weir_operand_at(g.file[i], 0, LEN / 2),
				weir_operand_at(g.file[i], LEN / 2, LEN / 2),
				0);
			STARTS(weir_job_start(g.dma, &j[i].job));
		}
		weir_sim_run(g.sim, WEIR_FOREVER, 1 + weir_sim_random(g.sim) %
			     20);
		weir_sim_power_cut(g.sim, "di");
		sim_idle(g.sim);
		assert_int_equal(j[0].res, LEN / 2);
		assert_int_equal(j[1].res, -EIO);
		assert_int_equal(j[2].res, -EIO);
		fixture_end(&g);
	}
}

static void domains_are_made_of_what_a_world_has(void **state)
{
	struct weir_domain_file_opts opts = { .size = sizeof(opts) };
	struct weir_domain *d = NULL;
	int fd, other, pair[2];
	struct fixture g;

	(void)state;
	fixture_begin(&g, 1, 0, 0);
	weir_sim_mkdir(g.sim, "dir");
	fd = weir_sim_file_open(g.sim, "dir", O_RDONLY, 0);
	assert_int_equal(weir_domain_file_create(&d, fd, NULL), -EINVAL);
	fd = weir_sim_file_open(g.sim, "f", O_RDWR | O_APPEND, 0);
	assert_int_equal(weir_domain_file_create(&d, fd, NULL), -EINVAL);
	fd = weir_sim_file_open(g.sim, "f", O_PATH, 0);
	assert_int_equal(weir_domain_file_create(&d, fd, NULL), -EINVAL);
	assert_int_equal(weir_domain_file_create(&d, fd + 50, NULL), -EBADF);
	assert_int_equal(pipe(pair), 0);
	fd = weir_sim_file_open(g.sim, "f", O_RDWR | O_DIRECT, 0);
	opts.flags = WEIR_DOMAIN_FILE_BUFFERED;
	opts.buffered_fd = pair[0];
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), -ESPIPE);
	opts.buffered_fd = fd;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), -EINVAL);
	other = weir_sim_file_open(g.sim, "direct", O_RDWR, 0);
	opts.buffered_fd = other;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), -EINVAL);
	other = weir_sim_file_open(g.sim, "f", O_RDWR, 0);
	opts.buffered_fd = other;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(pair[0]);
	close(pair[1]);
	fixture_end(&g);
}

/* Without a way round, what is not aligned is refused when it starts. */
static void o_direct_alone_wants_what_is_aligned(void **state)
{
	struct weir_domain_file_opts opts = { .size = sizeof(opts),
		.flags = WEIR_DOMAIN_FILE_DIRECT_ONLY, .align = 512 };
	struct weir_domain *d = NULL;
	struct jrec j;
	struct fixture g;

	(void)state;
	fixture_begin(&g, 1, HARMLESS, 3);
	assert_int_equal(weir_domain_file_create(&d, g.fd[1], &opts), 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(d, 100, 512),
		      weir_operand_mem(g.mem, 512));
	assert_int_equal(weir_job_start(g.dma, &j.job), -EINVAL);
	weir_job_copy(&j.job, weir_operand_at(d, 512, 8192),
		      weir_operand_mem(g.mem, 8192));
	STARTS(weir_job_start(g.dma, &j.job));
	sim_idle(g.sim);
	assert_int_equal(j.res, 8192);
	memcpy(g.shadow[1] + 512, g.mem, 8192);
	check(&g);
	assert_int_equal(weir_domain_destroy(d), 0);
	fixture_end(&g);
}

static const struct harness_case cases[] = {
	CASE(jobs_move_what_the_model_says),
	CASE(jobs_on_files_are_right_when_io_is_short_late_or_reordered),
	CASE(jobs_that_fail_say_how_far_they_came),
	CASE(a_full_disk_and_bad_sectors_are_told_with_what_was_moved),
	CASE(a_job_in_a_power_cut_fails_and_another_world_goes_on),
	CASE(domains_are_made_of_what_a_world_has),
	CASE(o_direct_alone_wants_what_is_aligned),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
