/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of simulated files, sorted by their bytes, and the journal of changes
 * of names that are not durable.
 *
 * Each change says where names lead after it, and is made as a whole.  A name
 * is never deleted, so changes can refer to it.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/file.h"

bool begins_with(const char *path, const char *prefix)
{
	return !strncmp(path, prefix, strlen(prefix));
}

bool cut_hits(const char *prefix, const char *path)
{
	size_t len = strlen(path);

	return begins_with(path, prefix) ||
	       (begins_with(prefix, path) && !strcmp(prefix + len, "/"));
}

uint32_t name_place(const struct sim_files *files, const char *path)
{
	uint32_t low = 0, high = files->n_names, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (strcmp(files->names[mid]->path, path) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct name *name_find(struct sim_files *files, const char *path)
{
	uint32_t at = name_place(files, path);

	return at < files->n_names && !strcmp(files->names[at]->path, path) ?
		       files->names[at] : NULL;
}

struct inode *name_inode(struct sim_files *files, const char *path)
{
	struct name *name = name_find(files, path);

	return name ? name->now : NULL;
}

static bool grow(struct sim_files *files)
{
	uint32_t max = files->max_names ? 2 * files->max_names : 16;
	struct name **names;

	if (files->n_names < files->max_names)
		return true;
	names = realloc(files->names, max * sizeof(struct name *));
	if (!names)
		return false;
	files->names = names;
	files->max_names = max;
	return true;
}

struct name *name_make(struct sim_files *files, const char *path)
{
	uint32_t at = name_place(files, path);
	size_t len = strlen(path) + 1;
	struct name *name;

	if (at < files->n_names && !strcmp(files->names[at]->path, path))
		return files->names[at];
	name = grow(files) ? calloc(1, sizeof(*name) + len) : NULL;
	if (!name)
		return NULL;
	memcpy(name->path, path, len);
	memmove(files->names + at + 1, files->names + at,
		(files->n_names - at) * sizeof(struct name *));
	files->names[at] = name;
	files->n_names++;
	return name;
}

static bool has_names_below(struct sim_files *files, const char *dir)
{
	char begin[PATH_BYTES + 1];
	struct name *name;

	snprintf(begin, sizeof(begin), *dir ? "%s/" : "%s", dir);
	for (uint32_t i = name_place(files, begin); i < files->n_names; i++) {
		name = files->names[i];
		if (!begins_with(name->path, begin))
			break;
		if (name->now)
			return true;
	}
	return false;
}

bool dir_exists(struct sim_files *files, const char *path)
{
	struct inode *i = name_inode(files, path);

	if (i)
		return i->kind == INODE_DIR;
	return !*path || has_names_below(files, path);
}

bool dir_is_empty(struct sim_files *files, const char *path)
{
	return !has_names_below(files, path);
}

bool has_file_above(struct sim_files *files, const char *path)
{
	char above[PATH_BYTES];
	struct inode *i;
	size_t len = 0;

	for (; path[len]; len++) {
		if (path[len] != '/')
			continue;
		memcpy(above, path, len);
		above[len] = 0;
		i = name_inode(files, above);
		if (i && i->kind != INODE_DIR)
			return true;
	}
	return false;
}

static void lead(struct name *name, struct inode *to)
{
	if (to) {
		inode_get(to);
		to->links++;
		to->name = name;
	}
	if (name->now) {
		name->now->links--;
		inode_put(name->now);
	}
	name->now = to;
}

static void lead_durably(struct name *name, struct inode *to)
{
	if (to)
		inode_get(to);
	if (name->old)
		inode_put(name->old);
	name->old = to;
}

void name_settle(struct name *name, struct inode *i)
{
	lead(name, i);
	lead_durably(name, i);
}

static void change_free(struct change *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->at[i].to)
			inode_put(c->at[i].to);
	free(c);
}

int names_change(struct sim_files *files, const struct leads *at, uint32_t n)
{
	struct change *c = calloc(1, sizeof(*c) + n * sizeof(*at));

	if (!c)
		return -ENOMEM;
	c->n = n;
	memcpy(c->at, at, n * sizeof(*at));
	for (uint32_t i = 0; i < n; i++)
		if (c->at[i].to)
			inode_get(c->at[i].to);
	for (uint32_t i = 0; i < n; i++)
		lead(c->at[i].name, c->at[i].to);
	*files->changes_last = c;
	files->changes_last = &c->next;
	return 0;
}

/* Remove the marked changes from the journal: the first @n are durable, the
 * others are lost. */
static void finish(struct sim_files *files, uint64_t n)
{
	struct change *c, **at = &files->changes;

	while ((c = *at)) {
		if (!c->marked) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		for (uint32_t i = 0; i < c->n; i++) {
			if (n)
				lead_durably(c->at[i].name, c->at[i].to);
			else
				lead(c->at[i].name, c->at[i].name->old);
		}
		n -= n != 0;
		change_free(c);
	}
	files->changes_last = at;
}

static bool is_in(const struct name *name, const char *dir)
{
	const char *rest = name->path;
	size_t len = strlen(dir);

	if (len && (strncmp(rest, dir, len) || rest[len++] != '/'))
		return false;
	return !strchr(rest + len, '/');
}

static bool has_name_in(const struct change *c, const char *dir)
{
	uint32_t i = 0;

	while (i < c->n && !is_in(c->at[i].name, dir))
		i++;
	return i < c->n;
}

static bool is_hit(const struct change *c, const char *prefix)
{
	uint32_t i = 0;

	while (i < c->n && !begins_with(c->at[i].name->path, prefix))
		i++;
	return i < c->n;
}

static bool share_a_name(const struct change *a, const struct change *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		for (uint32_t j = 0; j < b->n; j++)
			if (a->at[i].name == b->at[j].name)
				return true;
	return false;
}

/* Earlier changes of a name of a durable change are durable, too. */
static bool mark_before(struct sim_files *files)
{
	struct change *c, *later;
	bool more = false;

	for (c = files->changes; c; c = c->next) {
		if (c->marked)
			continue;
		for (later = c->next; later && !c->marked; later = later->next)
			c->marked = later->marked && share_a_name(c, later);
		more |= c->marked;
	}
	return more;
}

void names_sync(struct sim_files *files, const char *dir)
{
	struct change *c;

	for (c = files->changes; c; c = c->next)
		c->marked = has_name_in(c, dir);
	while (mark_before(files))
		;
	finish(files, UINT64_MAX);
}

void names_cut(struct sim_files *files, const char *prefix)
{
	struct weir_sim *sim = files->sim;
	uint64_t n = 0, kept;
	struct change *c;
	struct name *name;

	for (c = files->changes; c; c = c->next) {
		c->marked = is_hit(c, prefix);
		n += c->marked;
	}
	kept = n ? sim_below(&files->rng, n + 1) : 0;
	sim_mix(sim, kept);
	if (n && sim_traced(sim))
		sim_trace(sim, "of %llu changes of names the first %llu are "
			  "kept", (unsigned long long)n,
			  (unsigned long long)kept);
	finish(files, kept);
	/* After the power cut the durable target of a name is its present
	 * one. */
	for (uint32_t i = 0; i < files->n_names; i++) {
		name = files->names[i];
		if (name->now != name->old && begins_with(name->path, prefix))
			lead(name, name->old);
	}
}

void names_fini(struct sim_files *files)
{
	for (uint32_t i = 0; i < files->n_names; i++)
		name_settle(files->names[i], NULL);
	for (struct change *c = files->changes, *next; c; c = next) {
		next = c->next;
		change_free(c);
	}
	for (uint32_t i = 0; i < files->n_names; i++)
		free(files->names[i]);
	free(files->names);
}
