/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The verbs engine: bytes between here and a peer are where they should be, and
 * nowhere else, whatever their shape; work requests, windows, doorbells.
 */

#include "tests/support/verbs-fixture.h"

#include <weir/crc32c.h>
#include <weir/dm.h>
#include <weir/domain.h>
#include <weir/route.h>

#include "tests/support/sim-calls.h"

/* A shape: pieces of different lengths, with gaps between them. */
static uint32_t cut(struct iovec *iov, uint32_t n, char *mem, uint64_t len)
{
	uint64_t off = 0, some;
	uint32_t i, n_used = 0;

	for (i = 0; i < n && off < len; i++) {
		some = i + 1 == n ? len - off : len / n + i % 3;
		if (some > len - off)
			some = len - off;
		if (!some)
			continue;
		n_used++;
		iov[n_used - 1] = (struct iovec){
			mem + off + (size_t)n_used * 7, some };
		off += some;
	}
	return n_used;
}

/* Bufs for the pieces, in one list. */
static struct weir_buf *bufs_of(struct wire *l, const struct iovec *iov,
				uint32_t n, bool data)
{
	struct weir_buf *head = NULL, *b;
	uint32_t i;

	for (i = 0; i < n; i++) {
		b = near_buf(l, (uint64_t)((char *)iov[i].iov_base - l->near),
			     iov[i].iov_len, data);
		if (head)
			assert_int_equal(weir_buf_chain(head, b), 0);
		else
			head = b;
	}
	return head;
}

/* What the job should do, byte by byte. */
static void shadow_move(struct wire *l, const struct iovec *here,
			const struct iovec *there, uint64_t len, bool read)
{
	uint64_t hi = 0, ti = 0;
	char *h, *t;

	while (len--) {
		h = l->near_shadow + ((char *)here->iov_base - l->near) + hi;
		t = l->far_shadow + ((char *)there->iov_base - l->far) + ti;
		*(read ? h : t) = read ? *t : *h;
		if (++hi == here->iov_len) {
			here++;
			hi = 0;
		}
		if (++ti == there->iov_len) {
			there++;
			ti = 0;
		}
	}
}

struct shape {
	uint64_t len;
	uint32_t n_here, n_there;
	bool read, raw, narrow;	/* .narrow: PUSH or PULL. */
};

static void run_shape(struct wire *l, const struct shape *s)
{
	struct iovec here[64], there[64];
	uint32_t n_here = cut(here, s->n_here, l->near + 13, s->len);
	uint32_t n_there = cut(there, s->n_there, l->far + 5, s->len);
	struct weir_operand far = weir_operand_iov(l->there, there, n_there);
	struct weir_operand near = weir_operand_iov(NULL, here, n_here);
	struct jrec *j = &l->j[0];
	struct weir_buf *b = NULL;

	far.ctx = &l->key;
	if (!s->raw) {
		b = bufs_of(l, here, n_here, !s->read);
		near = weir_operand_buf(b);
	}
	jrec_init(j);
	weir_job_copy(&j->job, s->read ? near : far, s->read ? far : near);
	if (s->narrow)
		j->job.kind = s->read ? WEIR_JOB_PULL : WEIR_JOB_PUSH;
	shadow_move(l, here, there, s->len, s->read);
	if (jrec_run(l->dma, j) != (int64_t)s->len)
		fail_msg("%s %u -> %u pieces, %llu bytes%s: %lld",
			 s->read ? "read" : "write", s->n_here, s->n_there,
			 (unsigned long long)s->len, s->raw ? ", raw" : "",
			 (long long)j->res);
	if (b)
		weir_buf_put(b);
}

/* Large ones are the same job whatever its kind; soft-RoCE gets a sample. */
static bool is_left_out(const struct shape *s, unsigned int i)
{
	if (s->len <= 70001)
		return false;
	if (s->narrow)
		return true;
	return !mocked && (want_long() ? i % 3 && (s->read || s->raw) : i % 5);
}

static void every_shape_and_size(void **state, uint32_t max_len)
{
	static const uint64_t sizes[] = { 1, 63, 64, 65, 4097, 70001,
					  (1 << 20) + 17, 3000003 };
	static const uint32_t pieces[] = { 1, 2, 5, 37 };
	struct wire l;
	unsigned int i, how;

	wire_begin(&l, state);
	l.c->queue->max_len = max_len;
	for (i = 0; i < N_OF(sizes) * N_OF(pieces) * N_OF(pieces); i++)
		for (how = 0; how < 8; how++) {
			struct shape s = {
				.len = sizes[i % 8],
				.n_here = pieces[i / 8 % 4],
				.n_there = pieces[i / 32],
				.read = how & 1, .raw = how & 2,
				.narrow = how & 4,
			};

			if (!is_left_out(&s, i))
				run_shape(&l, &s);
		}
	assert_is_shadow(&l);
	wire_end(&l);
}

static void bytes_are_where_they_should_be(void **state)
{
	every_shape_and_size(state, VERBS_WR_LEN);
}

static void long_job_becomes_several_work_requests(void **state)
{
	every_shape_and_size(state, 9973);
}

/* More pieces than the device takes in one. */
static void verbs_engine_works_with_2_pieces_a_request(void **state)
{
	struct shape s = { .len = 70001, .n_here = 37, .n_there = 2 };
	struct wire l;

	wire_init(&l, state);
	l.e.opts.max_sge = 2;
	wire_open(&l);
	run_shape(&l, &s);
	s.read = true;
	run_shape(&l, &s);
	s.len = 61000;
	s.n_there = 37;
	run_shape(&l, &s);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void move_shadow(struct wire *l, uint64_t off, size_t len, bool read)
{
	memcpy((read ? l->near_shadow : l->far_shadow) + off,
	       (read ? l->far_shadow : l->near_shadow) + off, len);
}

/* Each at its place, readers and writers in turn. */
static void many_jobs(struct wire *l)
{
	int i;

	for (i = 0; i < 64; i++) {
		if (i % 2)
			start_read(l, i, (uint64_t)i * 60000, 50000);
		else
			start_write(l, i, (uint64_t)i * 60000, 50000);
		move_shadow(l, (uint64_t)i * 60000, 50000, i % 2);
	}
	wait_for(l, 64);
	for (i = 0; i < 64; i++)
		assert_int_equal(l->j[i].res, 50000);
	assert_is_shadow(l);
}

static void a_window_of_one_is_enough(void **state)
{
	struct wire l;

	wire_init(&l, state);
	l.e.opts.sends = 1;
	wire_open(&l);
	l.c->queue->max_len = 9973;
	many_jobs(&l);
	wire_end(&l);
}

static void no_more_reads_are_under_way_than_the_peer_takes(void **state)
{
	struct wire l;
	int i;

	wire_init(&l, state);
	l.e.opts.reads = 2;
	wire_open(&l);
	l.c->queue->max_len = 9973;
	if (mocked)
		mock_hold(true);
	for (i = 0; i < 8; i++)
		start_read(&l, i, (uint64_t)i * 60000, 50000);
	weir_dma_flush(l.dma);
	assert_int_equal(l.c->queue->reads, 2);
	assert_int_equal(l.c->queue->tail - l.c->queue->head, 2);
	start_write(&l, 8, 1 << 20, 50000);
	assert_true(l.c->queue->tail - l.c->queue->head > 2);
	if (mocked)
		mock_hold(false);
	wait_for(&l, 9);
	for (i = 0; i < 8; i++)
		move_shadow(&l, (uint64_t)i * 60000, 50000, true);
	move_shadow(&l, 1 << 20, 50000, false);
	many_jobs(&l);
	wire_end(&l);
}

static void verbs_engine_rings_one_doorbell_a_turn(void **state)
{
	unsigned int posts, cqes;
	struct wire l;
	int i;

	if (!mocked)
		skip_because("soft-RoCE does not count doorbells");
	wire_begin(&l, state);
	posts = mocked()->posts;
	cqes = mocked()->cqes;
	for (i = 0; i < 16; i++)
		start_write(&l, i, (uint64_t)i * 60000, 50000);
	assert_int_equal(mocked()->posts, posts);
	weir_dma_flush(l.dma);
	assert_int_equal(mocked()->posts, posts + 1);
	wait_for(&l, 16);
	assert_int_equal(mocked()->posts, posts + 1);
	assert_int_equal(mocked()->cqes, cqes + 16);
	wire_end(&l);
}

static void job_in_parts_signals_few_of_them(void **state)
{
	unsigned int cqes;
	struct wire l;

	if (!mocked)
		skip_because("soft-RoCE does not count completions");
	wire_begin(&l, state);
	cqes = mocked()->cqes;
	l.c->queue->max_len = 10000;
	start_write(&l, 0, 0, 16 * 10000);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, 160000);
	assert_int_equal(mocked()->cqes, cqes + 16 / VERBS_RUN);
	wire_end(&l);
}

static void route_of(struct wire *l, int i, const char *engine,
		     uint64_t bounced)
{
	struct weir_job_route route = { .size = sizeof(route) };

	assert_int_equal(weir_job_get_route(&l->j[i].job, &route), 0);
	if (engine)
		assert_string_equal(route.engine, engine);
	assert_int_equal(route.bounced, bounced);
}

/* What the device does not know goes through staging, unless it is small. */
static void memory_without_a_key_goes_round(void **state)
{
	static char mem[100000];
	struct wire l;

	wire_begin(&l, state);
	fill_pattern(mem, sizeof(mem), 0, 3);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, far_at(&l, 0, sizeof(mem)),
		      weir_operand_mem(mem, sizeof(mem)));
	assert_int_equal(jrec_run(l.dma, &l.j[0]), sizeof(mem));
	route_of(&l, 0, NULL, sizeof(mem));
	assert_memory_equal(l.far, mem, sizeof(mem));
	jrec_init(&l.j[1]);
	weir_job_copy(&l.j[1].job, far_at(&l, 9, 64),
		      weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(l.dma, &l.j[1]), 64);
	route_of(&l, 1, "verbs", 0);
	assert_memory_equal(l.far + 9, mem, 64);
	start_write(&l, 2, 0, 4096);
	wait_for(&l, 1);
	UNTIL(l.r, l.j[2].calls);
	route_of(&l, 2, "verbs", 0);
	wire_end(&l);
}

/* Sums, and files, by blocks through staging. */
static void job_kind_without_an_opcode_is_done_by_blocks(void **state)
{
	struct weir_domain *file;
	struct wire l;
	int fd;

	wire_begin(&l, state);
	fd = test_file(state, "f", 200000, 9);
	file = file_domain(fd);
	jrec_init(&l.j[0]);
	weir_job_crc32c(&l.j[0].job, far_at(&l, 3, 150000), 0);
	assert_int_equal(jrec_run(l.dma, &l.j[0]), 150000);
	assert_int_equal(l.j[0].job.crc, weir_crc32c(0, l.far + 3, 150000));
	jrec_init(&l.j[1]);
	weir_job_copy(&l.j[1].job, far_at(&l, 3, 150000),
		      weir_operand_at(file, 100, 150000));
	assert_int_equal(jrec_run(l.dma, &l.j[1]), 150000);
	assert_true(is_pattern(l.far + 3, 150000, 100, 9));
	jrec_init(&l.j[2]);
	weir_job_fill(&l.j[2].job, far_at(&l, 7, 99999), 0);
	assert_int_equal(jrec_run(l.dma, &l.j[2]), 99999);
	jrec_init(&l.j[3]);
	weir_job_copy(&l.j[3].job, weir_operand_at(file, 0, 150000),
		      far_at(&l, 7, 150000));
	assert_int_equal(jrec_run(l.dma, &l.j[3]), 150000);
	assert_int_equal(pread(fd, l.near, 150000, 0), 150000);
	assert_memory_equal(l.near, l.far + 7, 150000);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	wire_end(&l);
}

static void memory_of_a_device_is_reached_directly(void **state)
{
	struct weir_inventory *inv = NULL;
	struct weir_mmap *m = NULL;
	struct weir_dm *dm = NULL;
	struct weir_buf *b = NULL;
	static char bytes[4096];
	struct wire l;

	wire_begin(&l, state);
	if (weir_dm_alloc(&dm, l.dev, sizeof(bytes), 0) == -EOPNOTSUPP) {
		wire_end(&l);
		skip_because("the device has no memory of its own");
	}
	fill_pattern(bytes, sizeof(bytes), 0, 4);
	assert_int_equal(weir_dm_copy_to(dm, 0, bytes, sizeof(bytes)), 0);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_add_device(m, l.dev), 0);
	assert_int_equal(weir_mmap_set_dm(m, dm, 0, sizeof(bytes)), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_READ |
						   WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_inventory_create(&inv, l.r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	assert_int_equal(weir_inventory_get(&b, inv, m, (void *)64, 4000,
					    (void *)64, 4000), 0);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, far_at(&l, 1, 4000), weir_operand_buf(b));
	assert_int_equal(jrec_run(l.dma, &l.j[0]), 4000);
	assert_memory_equal(l.far + 1, bytes + 64, 4000);
	jrec_init(&l.j[1]);
	weir_job_copy(&l.j[1].job, weir_operand_buf(b), far_at(&l, 5000, 4000));
	l.j[1].job.flags = WEIR_JOB_OVERWRITE;
	assert_int_equal(jrec_run(l.dma, &l.j[1]), 4000);
	assert_int_equal(weir_dm_copy_from(bytes, dm, 0, sizeof(bytes)), 0);
	assert_memory_equal(l.far + 5000, bytes + 64, 4000);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dm_free(dm), 0);
	wire_end(&l);
}

static void contexts_share_a_connection(void **state)
{
	struct weir_dma *first, *second;
	struct wire l;
	int i;

	wire_begin(&l, state);
	first = l.dma;
	second = start_dma(l.r, (struct weir_dma_opts){ .size = 0 });
	for (i = 0; i < 20; i++) {
		l.dma = i % 3 ? first : second;
		start_write(&l, i, (uint64_t)i * 60000, 50000);
		move_shadow(&l, (uint64_t)i * 60000, 50000, false);
	}
	l.dma = first;
	wait_for(&l, 20);
	assert_is_shadow(&l);
	some_turns(l.r, 3);
	assert_int_equal(weir_dma_destroy(second), 0);
	wire_end(&l);
}

static void memory_without_a_key_is_refused(void **state)
{
	struct weir_domain *other = NULL;
	struct jrec *j;
	struct wire l;

	wire_begin(&l, state);
	j = &l.j[0];
	jrec_init(j);
	weir_job_copy(&j->job, far_at(&l, 0, 99), weir_operand_mem(l.near, 99));
	j->job.dst.ctx = NULL;
	assert_int_equal(weir_job_start(l.dma, &j->job), -EACCES);
	assert_int_equal(weir_domain_remote_create(&other, NULL), 0);
	j->job.dst.ctx = &l.key;
	j->job.dst.domain = other;
	assert_int_equal(weir_job_start(l.dma, &j->job), -ENOTCONN);
	assert_int_equal(weir_conn_attach(l.c, l.there), -EALREADY);
	assert_int_equal(weir_conn_attach(l.peer, l.there), -EBUSY);
	assert_int_equal(weir_conn_attach(l.c, weir_domain_system()), -EINVAL);
	assert_int_equal(weir_conn_detach(l.c, other), -ENOENT);
	assert_int_equal(weir_conn_destroy(l.c), -EBUSY);
	assert_int_equal(weir_domain_destroy(l.there), -EBUSY);
	assert_int_equal(weir_domain_destroy(other), 0);
	wire_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_are_where_they_should_be),
		CASE(long_job_becomes_several_work_requests),
		CASE(verbs_engine_works_with_2_pieces_a_request),
		CASE(a_window_of_one_is_enough),
		CASE(no_more_reads_are_under_way_than_the_peer_takes),
		CASE(verbs_engine_rings_one_doorbell_a_turn),
		CASE(job_in_parts_signals_few_of_them),
		CASE(memory_without_a_key_goes_round),
		CASE(job_kind_without_an_opcode_is_done_by_blocks),
		CASE(memory_of_a_device_is_reached_directly),
		CASE(contexts_share_a_connection),
		CASE(memory_without_a_key_is_refused),
	};

	return run_over_rdma(cases, N_OF(cases));
}
