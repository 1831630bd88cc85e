/* SPDX-License-Identifier: BSD-3-Clause */

/* weir info as text: one screen, 80 columns. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

#define COLUMNS 80

/* Write words in lines of at most 80 columns; further lines are indented. */
struct line {
	size_t at, indent;
};

static void word(struct line *l, const char *s)
{
	size_t len = strlen(s);

	if (l->at > l->indent && l->at + 1 + len > COLUMNS) {
		printf("\n%*s", (int)l->indent, "");
		l->at = l->indent;
	} else if (l->at > l->indent) {
		putchar(' ');
		l->at++;
	}
	fputs(s, stdout);
	l->at += len;
}

static void words(struct line *l, const char *s)
{
	char one[COLUMNS];
	size_t n;

	while (*s) {
		n = strcspn(s, " ");
		snprintf(one, sizeof(one), "%.*s", (int)n, s);
		if (n)
			word(l, one);
		s += n + (s[n] == ' ');
	}
}

static struct line new_line(size_t indent)
{
	printf("\n%*s", (int)indent, "");
	return (struct line){ indent, indent };
}

/* "  name      " */
static struct line begin(char mark, const char *name, size_t indent)
{
	printf("%c %s", mark, name);
	if (strlen(name) > indent - 3)
		return new_line(indent);
	printf("%*s", (int)(indent - 2 - strlen(name)), "");
	return (struct line){ indent, indent };
}

static const char *size_str(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = {
		"bytes", "KiB", "MiB", "GiB", "TiB"
	};
	double v = (double)n;
	size_t i = 0;

	for (; v >= 1024 && i + 1 < N_OF(units); i++)
		v /= 1024;
	if (n == UNKNOWN)
		snprintf(buf, size, "unlimited");
	else if (v < 10 && v != (double)(int)v)
		snprintf(buf, size, "%.1f %s", v, units[i]);
	else
		snprintf(buf, size, "%.0f %s", v, units[i]);
	return buf;
}

static void bits(struct line *l, uint64_t set, const struct bit_name *names,
		 size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (set & names[i].bit)
			word(l, names[i].name);
}

/* Write a title and the names of bits, if there are any. */
static void titled(struct line *l, const char *title, uint64_t set,
		   const struct bit_name *names, size_t n)
{
	if (!set)
		return;
	word(l, title);
	bits(l, set, names, n);
}

static void show_head(const struct info *info)
{
	char memory[32] = "memory unknown";

	if (info->memory != UNKNOWN)
		size_str(info->memory, memory, sizeof(memory));
	printf("weir %s on %s %s %s: %ld CPU%s, %s\n", weir_version(),
	       info->system.sysname, info->system.release,
	       info->system.machine, info->cpus, info->cpus == 1 ? "" : "s",
	       memory);
}

static char mark_of(const struct info *info, const struct backend *b)
{
	return info->chosen && !strcmp(info->chosen, b->name) ? '*' : ' ';
}

static void show_backends(const struct info *info)
{
	struct line l;

	puts("\nBackends (* is what a program gets that asks for none)");
	l = begin(mark_of(info, &info->uring), "uring", 13);
	if (info->uring.usable)
		bits(&l, info->features.features, feature_names,
		     n_feature_names);
	else
		words(&l, "not usable, see below");
	putchar('\n');
	l = begin(mark_of(info, &info->ev), "ev", 13);
	words(&l, info->ev.usable ? "libev and worker threads" :
				    "not usable, see below");
	putchar('\n');
}

static void show_identity(struct line *l, const struct device *d)
{
	const char *const ids[] = { d->pci, d->iface, d->mac, d->ipv4 };
	char text[32];
	size_t i;

	for (i = 0; i < N_OF(ids); i++)
		if (*ids[i])
			word(l, ids[i]);
	if (*d->lid) {
		snprintf(text, sizeof(text), "LID %s", d->lid);
		words(l, text);
	}
	if (d->caps.numa_node >= 0) {
		snprintf(text, sizeof(text), "NUMA node %d",
			 d->caps.numa_node);
		words(l, text);
	}
}

/* A card, or memory of its own. */
static bool is_single(const struct device *d)
{
	return *d->pci || *d->iface || d->caps.numa_node >= 0 || d->caps.dm_size;
}

/* Whether what is shown of them differs in the names alone. */
static bool are_alike(const struct device *a, const struct device *b)
{
	return !is_single(a) && !is_single(b) &&
	       is_usable(a) == is_usable(b) && a->caps.jobs == b->caps.jobs &&
	       a->caps.caps == b->caps.caps &&
	       (!is_usable(a) || (a->caps.kind == b->caps.kind &&
				  a->caps.flags == b->caps.flags));
}

static void show_device(const struct device *d, struct line l)
{
	char size[32], text[64];

	show_identity(&l, d);
	if (!is_usable(d))
		words(&l, "not usable, see below");
	else if (d->caps.flags & WEIR_DEVICE_SOFTWARE)
		words(&l, "software;");
	titled(&l, "jobs:", d->caps.jobs, job_names, n_job_names);
	if (d->caps.jobs && d->caps.caps) {
		putchar(';');
		l.at++;
	}
	titled(&l, "can:", d->caps.caps, cap_names, n_cap_names);
	if (d->caps.dm_size) {
		snprintf(text, sizeof(text), "(%s)", size_str(
			 d->caps.dm_size, size, sizeof(size)));
		words(&l, text);
	}
	putchar('\n');
}

/* The device and those after it that are like it, together. */
static void show_alike(const struct info *info, size_t i)
{
	const struct device *d = &info->devices[i];
	struct line names = { 2, 2 };
	size_t j, more = 0;

	for (j = i + 1; j < info->n_devices; j++)
		more += are_alike(d, &info->devices[j]);
	if (!more) {
		show_device(d, begin(' ', d->caps.name, 13));
		return;
	}
	fputs("  ", stdout);
	word(&names, d->caps.name);
	for (j = i + 1; j < info->n_devices; j++)
		if (are_alike(d, &info->devices[j]))
			word(&names, info->devices[j].caps.name);
	show_device(d, new_line(13));
}

static void show_devices(const struct info *info)
{
	size_t i, j;

	puts("\nDevices, and what they can do");
	for (i = 0; i < info->n_devices; i++) {
		for (j = 0; j < i; j++)
			if (are_alike(&info->devices[j], &info->devices[i]))
				break;
		if (j == i)
			show_alike(info, i);
	}
}

/* Those that reach a domain: "tcp" for each "tcp@ADDRESS". */
static bool show_reaching(const struct info *info, uint32_t kind, struct line *l)
{
	char name[COLUMNS], last[COLUMNS] = "";
	const struct device *d;
	bool any = false;
	size_t i;

	for (i = 0; i < info->n_devices; i++) {
		d = &info->devices[i];
		if (!reaches(d, kind))
			continue;
		snprintf(name, sizeof(name), "%.*s",
			 (int)strcspn(d->caps.name, "@"), d->caps.name);
		if (strcmp(name, last))
			word(l, name);
		memcpy(last, name, sizeof(last));
		any = true;
	}
	return any;
}

static void show_domain(const struct info *info, const struct domain_kind *k)
{
	struct line l = begin(' ', k->name, 13);

	printf("%-36s", k->address);
	l.at = l.indent = 13 + 36;
	puts(show_reaching(info, k->kind, &l) ? "" : "-");
}

static void show_limit(const char *name, const struct limit *lim, bool bytes)
{
	char soft[32], hard[32];
	struct line l = begin(' ', name, 20);

	if (bytes) {
		size_str(lim->soft, soft, sizeof(soft));
		size_str(lim->hard, hard, sizeof(hard));
	} else {
		snprintf(soft, sizeof(soft), "%" PRIu64, lim->soft);
		snprintf(hard, sizeof(hard), "%" PRIu64, lim->hard);
	}
	words(&l, lim->soft == UNKNOWN ? "unlimited" : soft);
	if (lim->hard != lim->soft)
		printf(", can be raised to %s",
		       lim->hard == UNKNOWN ? "any" : hard);
	putchar('\n');
}

static void show_pages(const struct info *info)
{
	struct line l = begin(' ', "huge pages", 20);
	char size[32], text[100];
	size_t i;

	for (i = 0; i < info->n_huge; i++) {
		snprintf(text, sizeof(text), "%s: %" PRIu64 " of %" PRIu64
			 " free;", size_str(info->huge[i].size, size,
					    sizeof(size)),
			 info->huge[i].free, info->huge[i].total);
		words(&l, text);
	}
	snprintf(text, sizeof(text), "transparent: %s",
		 *info->thp ? info->thp : "none");
	words(&l, text);
	putchar('\n');
}

static void show_sharing(const struct info *info)
{
	char scope[32] = "not there";

	if (info->ptrace_scope != UNKNOWN)
		snprintf(scope, sizeof(scope), "%" PRIu64, info->ptrace_scope);
	begin(' ', "sharing", 20);
	printf("memfd: %s; keys: %s; udmabuf: %s; ptrace_scope: %s\n",
	       info->memfd ? "yes" : "no", info->keys ? "yes" : "no",
	       info->udmabuf ? "yes" : "no", scope);
	begin(' ', "physical memory", 20);
	printf("addresses are %s\n", info->phys ? "told" : "not told");
}

static void show_limits(const struct info *info)
{
	puts("\nLimits");
	show_limit("locked memory", &info->memlock, true);
	show_limit("open files", &info->nofile, false);
	if (info->uring.usable) {
		begin(' ', "uring's reactor", 20);
		printf("%u files and %u buffers registered, %u operations\n",
		       info->features.max_files, info->features.max_buffers,
		       info->features.max_ops);
	}
	show_pages(info);
	show_sharing(info);
}

static void show_nodes(const struct info *info)
{
	char memory[32], free_[32], name[32];
	size_t i;

	for (i = 0; i < info->n_nodes; i++) {
		snprintf(name, sizeof(name), "NUMA node %u",
			 info->nodes[i].id);
		begin(' ', name, 20);
		printf("CPUs %s; %s, %s free\n", info->nodes[i].cpus,
		       size_str(info->nodes[i].memory, memory, sizeof(memory)),
		       size_str(info->nodes[i].free, free_, sizeof(free_)));
	}
}

static void show_unused(const struct info *info)
{
	const struct unused *u;
	struct line l;
	size_t i;

	if (info->n_unused)
		puts("\nNot used: why, and what would change that");
	for (i = 0; i < info->n_unused; i++) {
		u = &info->unused[i];
		l = begin(' ', u->what, 25);
		words(&l, u->why);
		if (*u->remedy) {
			word(&l, "->");
			words(&l, u->remedy);
		}
		putchar('\n');
	}
}

void show_text(const struct info *info)
{
	size_t i;

	show_head(info);
	show_backends(info);
	show_devices(info);
	puts("\nDomains                                          reached by");
	for (i = 0; i < n_domain_kinds; i++)
		show_domain(info, &domain_kinds[i]);
	show_limits(info);
	show_nodes(info);
	show_unused(info);
}
