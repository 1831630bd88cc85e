/* SPDX-License-Identifier: BSD-3-Clause */

/* What the user of a benchmark may choose: see bench.h. */

#include <stdlib.h>
#include <string.h>

#include <weir/reactor.h>

#include "bench/bench.h"

static const struct {
	const char *name;
	uint32_t backend;
} backends[] = {
	{ "uring", WEIR_BACKEND_URING },
	{ "ev", WEIR_BACKEND_EV },
};

static void refuse(const char *option, const char *value, const char *want)
{
	fprintf(stderr, "--%s %s: not %s\n", option, value, want);
	exit(2);
}

/* A number, and K, M or G after it. */
static uint64_t number(const char *option, const char *text, char **end)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t v;

	if (*text < '0' || *text > '9')
		refuse(option, text, "a number");
	v = strtoull(text, end, 10);
	unit = **end ? strchr(units, **end) : NULL;
	if (unit) {
		if (v >> 33)
			refuse(option, text, "a size that can be");
		v <<= 10 * (unit - units + 1);
		++*end;
	}
	if (!v || v >> 40)
		refuse(option, text, "between 1 and 1024G");
	return v;
}

double bench_number(const char *option, const char *text, double max)
{
	char want[48], *end;
	double v = strtod(text, &end);

	snprintf(want, sizeof(want), "a number from 0 to %g", max);
	if (end == text || *end || !(v >= 0 && v <= max))
		refuse(option, text, want);
	return v;
}

int bench_count(const char *option, const char *text, int max)
{
	char want[48], *end;
	long v = strtol(text, &end, 10);

	snprintf(want, sizeof(want), "a number from 1 to %d", max);
	if (*text < '0' || *text > '9' || *end || v < 1 || v > max)
		refuse(option, text, want);
	return (int)v;
}

static void take_list(struct bench_list *list, const char *option,
		      const char *text)
{
	const char *at = text;
	char *end;

	list->n = 0;
	do {
		if (list->n == BENCH_LIST_MAX)
			refuse(option, text, "a list of at most 16");
		list->value[list->n++] = number(option, at, &end);
		at = end + 1;
	} while (*end == ',');
	if (*end)
		refuse(option, text, "numbers with commas between them");
}

static uint32_t backend_named(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		if (strlen(backends[i].name) == len &&
		    !strncmp(backends[i].name, name, len))
			return 1u << backends[i].backend;
	return 0;
}

static void take_backends(struct bench *b, const char *text)
{
	const char *at = text;
	size_t len;
	uint32_t one;

	b->backends = 0;
	for (;; at += len + 1) {
		len = strcspn(at, ",");
		one = backend_named(at, len);
		if (!one)
			refuse("backend", text, "uring, ev or both");
		b->backends |= one;
		if (!at[len])
			return;
	}
}

void bench_choose(struct bench *b, unsigned int what, const char *text)
{
	if (!(b->takes & what)) {
		fprintf(stderr, "bench-%s has no choice of that: %s\n",
			b->name, text);
		exit(2);
	}
	switch (what) {
	case BENCH_BACKENDS:
		take_backends(b, text);
		break;
	case BENCH_SIZES:
		take_list(&b->sizes, "size", text);
		break;
	case BENCH_DEPTHS:
		take_list(&b->depths, "depth", text);
		break;
	case BENCH_CORES:
		take_list(&b->cores, "cores", text);
		break;
	case BENCH_ENDINGS:
		b->endings = bench_count("endings", text, 1000000);
		break;
	}
}

void bench_default(struct bench_list *list, const uint64_t *value, int n)
{
	if (list->n)
		return;
	memcpy(list->value, value, (size_t)n * sizeof(*value));
	list->n = n;
}

bool bench_wants_backend(const struct bench *b, uint32_t backend)
{
	return !b->backends || b->backends >> backend & 1;
}

const char *bench_backend_missing(uint32_t backend)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &opts))
		return weir_why();
	weir_reactor_destroy(r);
	return NULL;
}

bool bench_wants_cores(const struct bench *b, uint64_t n)
{
	for (int i = 0; i < b->cores.n; i++)
		if (b->cores.value[i] == n)
			return true;
	return !b->cores.n;
}

const char *bench_size_text(char text[24], uint64_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	size_t i = 0;

	while (size >= 1024 && !(size % 1024) && i + 1 < ARRAY_SIZE(units)) {
		size /= 1024;
		i++;
	}
	snprintf(text, 24, "%llu %s", (unsigned long long)size, units[i]);
	return text;
}
