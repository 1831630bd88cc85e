/* SPDX-License-Identifier: CC0-1.0 */
/* What is said: errors, checksums, the summary; as text or as JSON. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/json.h"
#include "weir-cp.h"

/* Put @name before @at in a path that grows to the front. */
static char *prepend(char *at, const char *name, bool slash)
{
	size_t len = strlen(name);

	if (slash)
		*--at = '/';
	return memcpy(at - len, name, len);
}

static const char *name_in(const struct dir *dir, bool dst)
{
	return dst ? dir->dst_name : dir->name;
}

static char *join(const struct dir *dir, const char *name, bool dst)
{
	size_t len = name ? strlen(name) + 2 : 1;
	const struct dir *d;
	char *path, *at;
	bool slash = false;

	for (d = dir; d; d = d->parent)
		len += strlen(name_in(d, dst)) + 1;
	path = malloc(len);
	if (!path)
		return NULL;
	at = path + len - 1;
	*at = 0;
	if (name) {
		at = prepend(at, name, false);
		slash = true;
	}
	for (d = dir; d; d = d->parent) {
		const char *part = name_in(d, dst);

		/* The top may end in a slash, or be "." for nothing. */
		if (!d->parent && !strcmp(part, ".") && *at)
			break;
		if (!d->parent && part[strlen(part) - 1] == '/')
			slash = false;
		at = prepend(at, part, slash);
		slash = true;
	}
	memmove(path, at, strlen(at) + 1);
	return path;
}

/* The path of @name in @dir, or of @dir, as it is to be shown; to be freed. */
char *path_of(const struct dir *dir, const char *name)
{
	return join(dir, name, false);
}

char *dst_path_of(const struct dir *dir, const char *name)
{
	return join(dir, name, true);
}

/* A name for a person and a terminal: control characters as \ooo. */
void print_name(FILE *out, const char *s)
{
	putc('\'', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '\n')
			fputs("\\n", out);
		else if (c == '\\')
			fputs("\\\\", out);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\%03o", c);
		else
			putc(c, out);
	}
	putc('\'', out);
}

static void json_error(const char *type, const char *what, const char *path,
		       int err)
{
	printf("{\"type\":\"%s\",\"path\":", type);
	json_put_string(stdout, path);
	printf(",\"what\":");
	json_put_string(stdout, what);
	if (err) {
#ifdef HAVE_STRERRORNAME_NP
		printf(",\"error\":\"%s\"", strerrorname_np(-err));
#else
		/* musl knows no names. */
		printf(",\"error\":\"%d\"", -err);
#endif
		printf(",\"cause\":\"%s\"", strerror(-err));
	}
	printf("}\n");
}

/*
 * Something went wrong.  With @err it is "cannot WHAT 'path': cause", else
 * "'path' WHAT", where @what says all.
 */
void say_error(struct cp *cp, const char *what, const char *path, int err)
{
	cp->n_errors++;
	progress_clear(cp);
	if (!path)
		path = "(out of memory)";
	if (cp->opts.json)
		json_error("error", what, path, err);
	fputs("weir-cp: ", stderr);
	if (err)
		fprintf(stderr, "cannot %s ", what);
	print_name(stderr, path);
	if (err)
		fprintf(stderr, ": %s\n", strerror(-err));
	else
		fprintf(stderr, " %s\n", what);
}

/* Something is not quite as it was asked for: "'path' WHAT". */
void say_warning(struct cp *cp, const char *what, const char *path)
{
	cp->n_warnings++;
	progress_clear(cp);
	if (!path)
		path = "(out of memory)";
	if (cp->opts.json)
		json_error("warning", what, path, 0);
	fputs("weir-cp: warning: ", stderr);
	print_name(stderr, path);
	fprintf(stderr, " %s\n", what);
}

/* A copy lacks attributes that it was to have. */
void say_lost(struct cp *cp, const struct lost *lost, const char *path)
{
	char what[sizeof(lost->names) + 128];

	snprintf(what, sizeof(what), "was copied without its %s: %s",
		 lost->names, strerror(lost->err));
	if (lost->bad)
		say_error(cp, what, path, 0);
	else
		say_warning(cp, what, path);
}

/* As cksum and its like: a name with a newline is escaped, and says so. */
static void print_checksum(uint32_t crc, const char *path)
{
	bool escape = strpbrk(path, "\n\\") != NULL;

	if (escape)
		putchar('\\');
	printf("%08" PRIx32 "  ", crc);
	for (; *path; path++) {
		if (escape && *path == '\n')
			fputs("\\n", stdout);
		else if (escape && *path == '\\')
			fputs("\\\\", stdout);
		else
			putchar(*path);
	}
	putchar('\n');
}

/* A file is complete. */
void say_file(struct cp *cp, const struct file *f)
{
	char *path;

	if (!cp->opts.checksum)
		return;
	path = path_of(f->dir, f->name);
	if (!path)
		return;
	progress_clear(cp);
	if (cp->opts.json) {
		printf("{\"type\":\"file\",\"path\":");
		json_put_string(stdout, path);
		printf(",\"bytes\":%" PRIu64 ",\"crc32c\":\"%08" PRIx32 "\"}\n",
		       (uint64_t)f->st.st_size, f->crc);
	} else {
		print_checksum(f->crc, path);
	}
	free(path);
}

static const char *path_name(const struct cp *cp)
{
	if (cp->n_kernel && cp->n_pipeline)
		return "both";
	return cp->n_kernel ? "kernel" : cp->n_pipeline ? "pipeline" : "none";
}

static uint64_t registered(struct cp *cp)
{
	struct weir_pool_stats st = { .size = sizeof(st) };

	if (!cp->pool || weir_pool_stats(cp->pool, &st))
		return 0;
	return st.registered;
}

static void json_summary(struct cp *cp, double s)
{
	printf("{\"type\":\"summary\",\"files\":%" PRIu64 ",\"links\":%" PRIu64
	       ",\"hard_links\":%" PRIu64 ",\"directories\":%" PRIu64
	       ",\"special\":%" PRIu64 ",\"skipped\":%" PRIu64
	       ",\"errors\":%" PRIu64 ",\"warnings\":%" PRIu64,
	       cp->n_files, cp->n_links, cp->n_hard, cp->n_dirs, cp->n_nodes,
	       cp->n_skipped, cp->n_errors, cp->n_warnings);
	printf(",\"size\":%" PRIu64 ",\"bytes_moved\":%" PRIu64
	       ",\"seconds\":%.6f", cp->size, cp->bytes, s);
	printf(",\"path\":\"%s\",\"by_kernel\":%" PRIu64
	       ",\"by_pipeline\":%" PRIu64 ",\"registered_bytes\":%" PRIu64,
	       path_name(cp), cp->n_kernel, cp->n_pipeline, registered(cp));
	printf(",\"backend\":\"%s\",\"why\":",
	       weir_reactor_backend(cp->reactor));
	json_put_string(stdout, weir_reactor_describe(cp->reactor));
	printf(",\"signal\":%d}\n", cp->signo);
}

static void text_summary(struct cp *cp, double s)
{
	char size[16], moved[16], rate[16];

	print_size(size, sizeof(size), (double)cp->size);
	print_size(moved, sizeof(moved), (double)cp->bytes);
	print_size(rate, sizeof(rate), s > 0 ? (double)cp->bytes / s : 0);
	fprintf(stderr, "%" PRIu64 " files, %" PRIu64 " symbolic and %" PRIu64
		" hard links, %" PRIu64 " directories, %" PRIu64 " errors\n",
		cp->n_files, cp->n_links, cp->n_hard, cp->n_dirs,
		cp->n_errors);
	if (cp->n_nodes || cp->n_skipped || cp->n_warnings)
		fprintf(stderr, "%" PRIu64 " special files, %" PRIu64
			" skipped, %" PRIu64 " warnings\n", cp->n_nodes,
			cp->n_skipped, cp->n_warnings);
	fprintf(stderr, "%s, of which %s had to be moved, in %.2f s: %s/s\n",
		size, moved, s, rate);
	fprintf(stderr, "path: %" PRIu64 " files by the kernel, %" PRIu64
		" by the pipeline", cp->n_kernel, cp->n_pipeline);
	if (cp->pool)
		fprintf(stderr, " (%u buffers of %zu KiB, %" PRIu64
			" KiB registered)", cp->opts.depth,
			cp->opts.block >> 10, registered(cp) >> 10);
	fprintf(stderr, "\nbackend: %s\n", weir_reactor_describe(cp->reactor));
}

void say_summary(struct cp *cp)
{
	uint64_t now;
	double s;

	if (!cp->opts.json && !cp->opts.verbose && !cp->shown)
		return;
	weir_reactor_turn(cp->reactor, 0);	/* For the time. */
	now = weir_reactor_now(cp->reactor);
	s = (double)(now - cp->started_ns) / 1e9;
	if (cp->opts.json)
		json_summary(cp, s);
	if (cp->opts.verbose || (cp->shown && !cp->opts.json))
		text_summary(cp, s);
}
