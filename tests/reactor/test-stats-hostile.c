/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The reader of a page of statistics, with pages that are written to, that
 * shrink, that are damaged or made up, or newer.
 */

#include "tests/support/stats-fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "reactor/stats/place.h"
#include "reactor/stats/read.h"

#define N_WORDS 40

static const struct stats_field many_fields[N_WORDS] = {
	[0] = STATS_COUNT("first", "The first"),
	[1 ... N_WORDS - 1] = STATS_COUNT("word", "Another one"),
};
static const struct stats_kind many_kind = STATS_KIND("many", many_fields);

static const struct stats_field spread_fields[] = {
	STATS_COUNT("count", "How many"),
	{ "spread", "A histogram", WEIR_STATS_HISTOGRAM, WEIR_STATS_NS,
	  HISTOGRAM_COUNTERS },
};
static const struct stats_kind spread_kind =
	STATS_KIND("spread", spread_fields);

static atomic_bool go_on;

static void *write_for_ever(void *arg)
{
	uint64_t counters[N_WORDS], n;
	struct stats_record *record = arg;

	for (n = 1; atomic_load(&go_on); n++) {
		for (int i = 0; i < N_WORDS; i++)
			counters[i] = n;
		stats_put(record, n, counters);
	}
	return NULL;
}

/* All words and the stamp are of one time. */
static void assert_whole(const struct weir_stats *s)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	struct weir_stats_field f = { .size = sizeof(f) };
	uint32_t i = (uint32_t)find_section(s, "many", "written"), j;

	assert_int_equal(weir_stats_section(s, i, &section), 0);
	for (j = 0; !weir_stats_field(s, i, j, &f) && !section.torn; j++)
		assert_int_equal(f.value, section.stamp_ns);
}

static void sections_are_whole_while_they_are_written(void **state)
{
	struct stats_record *record;
	struct weir_stats *s;
	pthread_t thread;
	int n = want_long() ? 1000000 : 20000;

	publish_here(state);
	record = stats_record_add(&many_kind, 0, "written");
	assert_non_null(record);
	atomic_store(&go_on, true);
	assert_int_equal(pthread_create(&thread, NULL, write_for_ever, record),
			 0);
	s = must_open(getpid());
	for (n = (int)scaled((unsigned int)n); n; n--) {
		assert_int_equal(weir_stats_read(s), 0);
		assert_whole(s);
	}
	atomic_store(&go_on, false);
	pthread_join(thread, NULL);
	weir_stats_close(s);
	stats_record_del(record);
	publish_no_more(state);
}

/* Whoever was killed in the middle leaves a section that is marked. */
static void a_section_that_stays_half_written_is_marked(void **state)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	struct stats_record *record;
	struct weir_stats *s;

	publish_here(state);
	record = stats_record_add(&many_kind, 0, "half");
	record->seq++;
	s = must_open(getpid());
	assert_int_equal(weir_stats_section(s, 0, &section), 0);
	assert_int_equal(section.torn, 1);
	record->seq++;
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(weir_stats_section(s, 0, &section), 0);
	assert_int_equal(section.torn, 0);
	weir_stats_close(s);
	stats_record_del(record);
	publish_no_more(state);
}

static void records_are_used_again(void **state)
{
	struct stats_record *record, *other;
	struct weir_stats *s;
	uint64_t used;

	publish_here(state);
	other = stats_record_add(&spread_kind, 0, "");
	record = stats_record_add(&many_kind, 0, "one");
	s = must_open(getpid());
	used = s->now.header.used;
	for (int i = 0; i < 100; i++) {
		stats_record_del(record);
		assert_int_equal(weir_stats_read(s), 0);
		assert_int_equal(find_section(s, "many", ""), -1);
		record = stats_record_add(&many_kind, 0, "another");
		assert_int_equal(weir_stats_read(s), 0);
		assert_int_equal(value_of(s, "many", "another", "first"), 0);
	}
	assert_int_equal(s->now.header.used, used);
	weir_stats_close(s);
	stats_record_del(record);
	stats_record_del(other);
	publish_no_more(state);
}

static void a_full_page_counts_what_is_left_out(void **state)
{
	static struct stats_record *records[STATS_SIZE_MAX / 128];
	struct weir_stats_info info = { .size = sizeof(info) };
	struct weir_stats *s;
	size_t n = 0;

	publish_here(state);
	while ((records[n] = stats_record_add(&spread_kind, 0, "x")))
		n++;
	s = must_open(getpid());
	assert_int_equal(weir_stats_info(s, &info), 0);
	assert_int_equal(info.left_out, 1);
	assert_true(n > 1000 && s->now.n_sections == n);
	weir_stats_close(s);
	while (n)
		stats_record_del(records[--n]);
	publish_no_more(state);
}

/* A page as bytes: what this process has published with a reactor. */
struct bytes {
	unsigned char *p;
	size_t len;
};

static struct bytes page_bytes(void)
{
	struct weir_stats *s = must_open(getpid());
	struct bytes b = { .len = s->now.header.used };

	b.p = malloc(b.len);
	assert_non_null(b.p);
	assert_int_equal(pread(s->fd, b.p, b.len, 0), b.len);
	weir_stats_close(s);
	return b;
}

static struct bytes make_bytes(void **state)
{
	uint64_t counters[1 + HISTOGRAM_COUNTERS] = { 3 };
	struct stats_record *a, *b;
	struct bytes bytes;

	publish_here(state);
	a = stats_record_add(&many_kind, 0, "a");
	b = stats_record_add(&spread_kind, stats_record_id(a), "b");
	counters[5] = 1;
	counters[HISTOGRAM_COUNTERS] = 2;
	stats_put(b, 1, counters);
	bytes = page_bytes();
	stats_record_del(b);
	stats_record_del(a);
	publish_no_more(state);
	return bytes;
}

static int open_bytes(struct weir_stats **ret, const void *p, size_t len)
{
	int fd = memfd_create("page", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, len), len);
	return stats_open_fd(ret, fd);
}

/* Opens or not, and then can be asked anything. */
static int try_bytes(const void *p, size_t len)
{
	struct weir_stats *s = NULL;
	int err = open_bytes(&s, p, len);

	if (err) {
		assert_null(s);
		assert_true(err == -EBADMSG || err == -EOPNOTSUPP);
	} else {
		ask_everything(s);
	}
	weir_stats_close(s);
	return err;
}

static uint64_t draw(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void damaged_pages_are_errors(void **state)
{
	struct bytes b = make_bytes(state);
	unsigned char *copy = malloc(b.len);
	uint64_t x = UINT64_C(0x123456789abcdef);
	int n = want_long() ? 1000000 : 5000, refused = 0;
	size_t at, i;

	assert_non_null(copy);
	for (n = (int)scaled((unsigned int)n); n; n--) {
		memcpy(copy, b.p, b.len);
		for (i = 1 + draw(&x) % 8; i; i--) {
			/* Tables and heads more often than what they say. */
			at = draw(&x) % 4 ? draw(&x) % b.len :
			     draw(&x) % sizeof(struct stats_header);
			copy[at] = (unsigned char)draw(&x);
		}
		refused += try_bytes(copy, b.len) != 0;
	}
	assert_true(refused > 0);
	free(copy);
	free(b.p);
}

static void pages_that_are_cut_off_are_errors(void **state)
{
	struct bytes b = make_bytes(state);
	size_t len, step = want_long() ? 1 : 97;

	assert_int_equal(try_bytes(b.p, b.len), 0);
	for (len = 0; len < b.len; len += step)
		assert_int_equal(try_bytes(b.p, len), -EBADMSG);
	free(b.p);
}

/* Each number of the header, at the values where things go wrong. */
static void headers_that_lie_are_errors(void **state)
{
	static const uint64_t lies[] = {
		0, 1, 63, 127, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX,
		UINT64_MAX - 127, STATS_READ_MAX + 1,
	};
	struct bytes b = make_bytes(state);
	unsigned char *copy = malloc(b.len);
	size_t at, i;

	assert_non_null(copy);
	for (at = 0; at < offsetof(struct stats_header, program); at += 4)
		for (i = 0; i < N_OF(lies); i++) {
			memcpy(copy, b.p, b.len);
			memcpy(copy + at, &lies[i], at % 8 ? 4 : 8);
			try_bytes(copy, b.len);
		}
	free(copy);
	free(b.p);
}

struct shrinking {
	int fd;
	struct bytes b;
};

static void *shrink_and_grow(void *arg)
{
	struct shrinking *it = arg;

	while (atomic_load(&go_on)) {
		if (ftruncate(it->fd, 100) ||
		    pwrite(it->fd, it->b.p, it->b.len, 0) < 0)
			break;
	}
	return NULL;
}

static void a_page_that_shrinks_is_an_error_and_no_signal(void **state)
{
	struct shrinking it = { .b = make_bytes(state) };
	struct weir_stats *s = NULL;
	int good = 0, bad = 0, err;
	pthread_t thread;

	it.fd = memfd_create("page", MFD_CLOEXEC);
	assert_int_equal(write(it.fd, it.b.p, it.b.len), it.b.len);
	assert_int_equal(stats_open_fd(&s, dup(it.fd)), 0);
	atomic_store(&go_on, true);
	assert_int_equal(pthread_create(&thread, NULL, shrink_and_grow, &it),
			 0);
	while (good + bad < 200 || !bad) {
		err = weir_stats_read(s);
		assert_true(!err || err == -EBADMSG);
		good += !err;
		bad += err != 0;
		ask_everything(s);
	}
	atomic_store(&go_on, false);
	pthread_join(thread, NULL);
	weir_stats_close(s);
	close(it.fd);
	free(it.b.p);
}

/* What a later version may do: all entries are larger, and there are more
 * types and units. */
static struct bytes widen(const struct bytes *old, uint32_t by)
{
	struct stats_header h;
	struct bytes b = { .len = old->len * 4 + 8192 };
	size_t from, to, i;
	struct stats_record rec_head;

	memcpy(&h, old->p, sizeof(h));
	b.p = calloc(1, b.len);
	assert_non_null(b.p);
	to = h.header_size + by;
	for (i = 0; i < h.n_kinds; i++)
		memcpy(b.p + to + i * (h.kind_size + by),
		       old->p + h.kinds_at + i * h.kind_size, h.kind_size);
	h.kinds_at = to;
	to += h.n_kinds * (h.kind_size + by);
	for (i = 0; i < h.n_fields; i++)
		memcpy(b.p + to + i * (h.field_size + by),
		       old->p + h.fields_at + i * h.field_size, h.field_size);
	h.fields_at = to;
	to += h.n_fields * (h.field_size + by);
	from = h.records_at;
	h.records_at = to;
	for (; from < h.used; from += rec_head.size) {
		size_t head = sizeof(rec_head);

		memcpy(&rec_head, old->p + from, head);
		memcpy(b.p + to, &rec_head, head);
		i = rec_head.size + by;
		memcpy(b.p + to, &i, 4);
		memcpy(b.p + to + head + by, old->p + from + head,
		       rec_head.size - head);
		to += i;
	}
	h.used = to;
	h.header_size += by;
	h.kind_size += by;
	h.field_size += by;
	h.record_size += by;
	h.version += 7;
	memcpy(b.p, &h, sizeof(h));
	return b;
}

static void a_newer_page_is_read_as_far_as_it_is_known(void **state)
{
	struct bytes old = make_bytes(state), b = widen(&old, 64);
	struct weir_stats *s = NULL;
	struct stats_header h;

	assert_int_equal(open_bytes(&s, b.p, b.len), 0);
	assert_int_equal(value_of(s, "spread", "b", "count"), 3);
	assert_int_equal(value_of(s, "spread", "b", "spread"), 3);
	weir_stats_close(s);
	s = NULL;
	memcpy(&h, b.p, sizeof(h));
	h.version += 1 << 16;
	memcpy(b.p, &h, sizeof(h));
	assert_int_equal(open_bytes(&s, b.p, b.len), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "version 2"));
	free(b.p);
	free(old.p);
}

static void texts_cannot_reach_the_terminal(void **state)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	struct stats_record *record;
	struct weir_stats *s;

	publish_here(state);
	record = stats_record_add(&many_kind, 0, "a\033[2Jb\n\"c\x80");
	s = must_open(getpid());
	assert_int_equal(weir_stats_section(s, 0, &section), 0);
	assert_string_equal(section.label, "a?[2Jb?\"c?");
	weir_stats_close(s);
	stats_record_del(record);
	publish_no_more(state);
}

static void buckets_are_log_linear(void **state)
{
	uint64_t v, x = 88172645463325252u;
	uint32_t k;

	(void)state;
	for (k = 0; k + 1 < HISTOGRAM_COUNTERS; k++) {
		v = histogram_begin(k, HISTOGRAM_SHIFT, HISTOGRAM_SUB);
		assert_int_equal(histogram_bucket(v), k);
		v = histogram_begin(k + 1, HISTOGRAM_SHIFT, HISTOGRAM_SUB) - 1;
		assert_int_equal(histogram_bucket(v), k);
	}
	for (int i = 0; i < 100000; i++) {
		v = draw(&x) >> draw(&x) % 64;
		k = histogram_bucket(v);
		assert_true(v >= histogram_begin(k, HISTOGRAM_SHIFT,
						 HISTOGRAM_SUB));
	}
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_COUNTERS - 1);
	assert_int_equal(histogram_begin(UINT32_MAX, 63, 1), UINT64_MAX);
}

static void quantiles_are_ends_of_buckets(void **state)
{
	struct bytes b = make_bytes(state);
	struct weir_stats *s = NULL;
	uint64_t v;
	int i;

	assert_int_equal(open_bytes(&s, b.p, b.len), 0);
	i = find_section(s, "spread", "");
	assert_int_equal(weir_stats_quantile(s, (uint32_t)i, 1, 300000, &v), 0);
	assert_int_equal(v, 5 * 64);
	assert_int_equal(weir_stats_quantile(s, (uint32_t)i, 1, 1000000, &v),
			 0);
	assert_int_equal(v, UINT64_MAX);
	assert_int_equal(weir_stats_quantile(s, (uint32_t)i, 0, 1, &v),
			 -ENOENT);
	weir_stats_close(s);
	free(b.p);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(sections_are_whole_while_they_are_written),
		CASE(a_section_that_stays_half_written_is_marked),
		CASE(records_are_used_again),
		CASE(a_full_page_counts_what_is_left_out),
		CASE(damaged_pages_are_errors),
		CASE(pages_that_are_cut_off_are_errors),
		CASE(headers_that_lie_are_errors),
		CASE(a_page_that_shrinks_is_an_error_and_no_signal),
		CASE(a_newer_page_is_read_as_far_as_it_is_known),
		CASE(texts_cannot_reach_the_terminal),
		CASE(buckets_are_log_linear),
		CASE(quantiles_are_ends_of_buckets),
	};

	return harness_run_plain(cases, N_OF(cases));
}
