/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A page of statistics, from anybody.  The input is 16-bit decisions about a
 * sound page: what is written where; an input that begins as a page is one.
 * Whatever it is, the reader opens it or not, and then can be asked anything,
 * and what it tells is text and numbers.
 */

#include <sys/mman.h>
#include <unistd.h>

#include "reactor/stats/read.h"
#include "tests/fuzz/fuzz-fixture.h"

const char fuzz_name[] = "stats";

#define PAGE_LEN 16384u

static const struct stats_kind_entry kinds[2] = {
	{ .name = "reactor", .first_field = 0, .n_fields = 2 },
	{ .name = "operation", .first_field = 1, .n_fields = 2 },
};

static const struct stats_field_entry fields[3] = {
	{ "busy_ns", "Time", 0, 1, WEIR_STATS_COUNTER, WEIR_STATS_NS, 0, 0, 0 },
	{ "count", "How many", 1, 1, WEIR_STATS_GAUGE, 0, 0, 0, 0 },
	{ "latency_ns", "Time", 2, 40, WEIR_STATS_HISTOGRAM, WEIR_STATS_NS,
	  HISTOGRAM_SHIFT, HISTOGRAM_SUB, 0 },
};

static void put_record(unsigned char *page, uint64_t at, uint32_t kind)
{
	struct stats_record head = {
		.size = 512,
		.kind = kind,
		.n_counters = 48,
		.id = kind,
		.label = "label",
	};

	memcpy(page + at, &head, sizeof(head));
	memset(page + at + sizeof(head), 7, 300);
}

static void make_page(unsigned char *page)
{
	struct stats_header h = {
		.magic = STATS_MAGIC, .version = STATS_VERSION,
		.header_size = sizeof(h), .kind_size = sizeof(kinds[0]),
		.field_size = sizeof(fields[0]),
		.record_size = sizeof(struct stats_record),
		.n_kinds = 2, .n_fields = 3, .kinds_at = 192,
		.fields_at = 320, .records_at = 704, .used = 704 + 3 * 512,
		.pid = 1, .program = "program", .weir = "1",
	};

	memset(page, 0, PAGE_LEN);
	memcpy(page, &h, sizeof(h));
	memcpy(page + h.kinds_at, kinds, sizeof(kinds));
	memcpy(page + h.fields_at, fields, sizeof(fields));
	put_record(page, 704, 1);
	put_record(page, 704 + 512, 2);
	put_record(page, 704 + 1024, 2);
}

/* Numbers are put where they do harm: at multiples of four. */
static void spoil(unsigned char *page, struct input *in)
{
	uint32_t at;
	uint64_t n;

	while (in->p < in->end) {
		at = 4 * (take(in, 256) | take(in, 3) << 8);
		n = take_rubbish(in, 704);
		memcpy(page + at, &n, take(in, 2) ? 8 : 4);
	}
}

static void check_text(const char *s)
{
	for (; *s; s++)
		MUST(*s >= ' ' && *s <= '~');
}

static void ask(const struct weir_stats *s)
{
	struct weir_stats_section sec = { .size = sizeof(sec) };
	struct weir_stats_field f = { .size = sizeof(f) };
	uint64_t end, count, before;
	uint32_t i, j, k;

	for (i = 0; !weir_stats_section(s, i, &sec); i++) {
		check_text(sec.kind);
		check_text(sec.label);
		for (j = 0; !weir_stats_field(s, i, j, &f); j++) {
			check_text(f.name);
			check_text(f.help);
			for (before = k = 0; !weir_stats_bucket(s, i, j, k,
					&end, &count); k++, before = end)
				MUST(end >= before);
			weir_stats_quantile(s, i, j, 500000, &end);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char page[PAGE_LEN];
	struct input in = { data, data + size };
	bool whole = size >= 8 && !memcmp(data, "weirstat", 8);
	int fd = memfd_create("page", MFD_CLOEXEC);
	struct weir_stats *s = NULL;

	MUST(fd >= 0);
	make_page(page);
	if (!whole)
		spoil(page, &in);
	MUST(write(fd, whole ? data : page, whole ? size : PAGE_LEN) > 0);
	if (!stats_open_fd(&s, fd)) {
		ask(s);
		weir_stats_read(s);
	}
	weir_stats_close(s);
	return 0;
}
