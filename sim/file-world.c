/* SPDX-License-Identifier: BSD-3-Clause */
/* All files of a world: space, power cuts, copies, and the queries of mem/. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/file.h"

#define STREAM 200	/* Of chances. */

uint64_t inode_capacity(const struct inode *i, uint64_t from, uint64_t to)
{
	const struct inode *each;
	const struct budget *b;
	uint64_t used;

	for (b = i->files->budgets; b; b = b->next) {
		if (!begins_with(i->name->path, b->prefix))
			continue;
		used = 0;
		for (each = i->files->inodes; each; each = each->next)
			if (each->kind == INODE_FILE &&
			    begins_with(each->name->path, b->prefix))
				used += ranges_in(&each->held, 0, UINT64_MAX);
		to = ranges_capacity(&i->held, from, to,
				     used < b->bytes ? b->bytes - used : 0);
	}
	return to;
}

/* Operations on names that the power cut interrupts end, and do nothing. */
static int remember_cut(struct sim_files *files, const char *prefix)
{
	size_t len = strlen(prefix) + 1;
	struct cut *cut = malloc(sizeof(*cut) + len);

	if (!cut)
		return -ENOMEM;
	cut->serial = files->sim->serial;
	memcpy(cut->prefix, prefix, len);
	cut->next = files->cuts;
	files->cuts = cut;
	return 0;
}

/* A power cut of a directory is one of all files in it. */
static bool is_hit(struct file *file, const char *prefix)
{
	if (file->inode && file->inode->kind != INODE_DIR)
		return begins_with(file->inode->name->path, prefix);
	return cut_hits(prefix, file->dir);
}

static bool is_stuck_in_a_cut(struct weir_op *op, void *sim)
{
	return sim_names_path(op) && sim_path_is_cut(sim, op);
}

static void files_cut(struct sim_part *part, const char *prefix)
{
	struct sim_files *files = weir_container_of(part, struct sim_files,
						    part);
	struct weir_sim *sim = files->sim;
	struct inode *i;

	for (uint32_t n = 0; n < sim->n_fds; n++)
		if (sim->fds[n] && file_of(sim->fds[n]) &&
		    is_hit(file_of(sim->fds[n]), prefix))
			sim_fd_kill(sim->fds[n]);
	if (!remember_cut(files, prefix))
		sim_stuck_again(sim, is_stuck_in_a_cut, sim);
	for (i = files->inodes; i; i = i->next)
		if (begins_with(i->name->path, prefix))
			inode_cut(i);
	names_cut(files, prefix);
}

static void files_off(struct sim_part *part, struct weir_sim_host *host)
{
	char prefix[PATH_BYTES];

	snprintf(prefix, sizeof(prefix), "%s/", host->name);
	files_cut(part, prefix);
}

static void files_destroy(struct sim_part *part)
{
	struct sim_files *files = weir_container_of(part, struct sim_files,
						    part);
	struct budget *b;
	struct cut *cut;

	names_fini(files);
	while ((b = files->budgets)) {
		files->budgets = b->next;
		free(b);
	}
	while ((cut = files->cuts)) {
		files->cuts = cut->next;
		free(cut);
	}
	free(files);
}

struct sim_files *files_of(struct weir_sim *sim)
{
	struct sim_part *part = sim_part(sim, "files");
	struct sim_files *files;

	if (part)
		return weir_container_of(part, struct sim_files, part);
	files = calloc(1, sizeof(*files));
	if (!files)
		return NULL;
	files->part.name = "files";
	files->part.cut = files_cut;
	files->part.off = files_off;
	files->part.destroy = files_destroy;
	files->sim = sim;
	files->changes_last = &files->changes;
	files->inodes_last = &files->inodes;
	sim_rng_init(&files->rng, sim->seed, STREAM);
	sim_part_add(sim, &files->part);
	return files;
}

static struct file *find(struct weir_sim *sim, int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	return f && f->sim == sim ? file_of(f) : NULL;
}

/* Within one file, as far as possible. */
static bool overlap(const struct weir_op *op, const struct file *src,
		    const struct file *dst)
{
	uint64_t from = op->u.io.off, to = op->u.io.aux, len = op->u.io.len;

	if (src->inode != dst->inode || from >= src->inode->size)
		return false;
	if (len > src->inode->size - from)
		len = src->inode->size - from;
	return from < to + len && to < from + len;
}

/* The answer of copy_file_range(2) for two descriptors. */
static int check_copy(const struct weir_op *op, struct file *src,
		      struct file *dst)
{
	if (!src || !dst)
		return sim_fd_find(op->u.io.fd) &&
		       sim_fd_find((int)op->u.io.addr) ? -EINVAL : -EBADF;
	if (src->f.dead || dst->f.dead)
		return -EIO;
	if (!src->inode || !dst->inode || src->inode->kind == INODE_DIR ||
	    dst->inode->kind == INODE_DIR)
		return -EISDIR;
	if (src->inode->kind != INODE_FILE || dst->inode->kind != INODE_FILE)
		return -EINVAL;
	if ((src->f.flags & O_ACCMODE) == O_WRONLY ||
	    (dst->f.flags & O_ACCMODE) == O_RDONLY ||
	    (src->f.flags | dst->f.flags) & O_PATH ||
	    dst->f.flags & O_APPEND)
		return -EBADF;
	return overlap(op, src, dst) ? -EINVAL : 0;
}

/* Copy the next @n bytes, which the file's size allows, through @block. */
static int64_t copy_block(struct file *src, struct file *dst, char *block,
			  uint64_t from, uint64_t to, uint64_t n)
{
	struct io_step step = { .addr = block, .len = n };
	const struct inode *i = src->inode;
	uint64_t good = ranges_first(&i->bad[0], from, from + n) - from;
	int64_t done;
	int err;

	if (!good)
		return -EIO;
	good = inode_capacity(dst->inode, to, to + good) - to;
	if (!good)
		return -ENOSPC;
	inode_read(i, &step, good, from);
	done = inode_write(dst->inode, &step, good, to);
	if (done < 0)
		return done;
	err = ranges_add(&dst->inode->held, to, to + (uint64_t)done);
	if (!err && to + (uint64_t)done > dst->inode->size)
		err = inode_resize(dst->inode, to + (uint64_t)done);
	return err ? err : done;
}

int64_t sim_copy_range(struct weir_sim *sim, struct weir_op *op)
{
	struct file *src = find(sim, op->u.io.fd);
	struct file *dst = find(sim, (int)op->u.io.addr);
	int64_t n = check_copy(op, src, dst);
	char block[CHUNK];
	uint64_t from, left;

	while (!n && op->u.io.done < op->u.io.len) {
		from = op->u.io.off + op->u.io.done;
		if (from >= src->inode->size)
			break;
		left = op->u.io.len - op->u.io.done;
		if (left > src->inode->size - from)
			left = src->inode->size - from;
		if (left > CHUNK)
			left = CHUNK;
		n = copy_block(src, dst, block, from,
			       op->u.io.aux + op->u.io.done, left);
		if (n > 0) {
			op->u.io.done += (uint64_t)n;
			n = 0;
		}
	}
	return n ? n : (int64_t)op->u.io.done;
}

int sim_file_info(int fd, struct vfd_info *ret)
{
	struct sim_fd *f = sim_fd_find(fd);
	struct file *file;

	if (!f)
		return -EBADF;
	*ret = (struct vfd_info){ .flags = (int)f->flags };
	file = file_of(f);
	if (!file)
		return 0;
	ret->is_dir = !file->inode || file->inode->kind == INODE_DIR;
	ret->has_offsets = true;
	if (ret->is_dir)
		return 0;
	ret->file[0] = UINT64_MAX - f->sim->slot;
	ret->file[1] = file->inode->number;
	ret->align = file->inode->align;
	ret->mem_align = DIRECT_MEM;
	return 0;
}

int sim_file_reopen(int fd, int flags)
{
	struct sim_fd *f = sim_fd_find(fd);
	struct file *file = f ? file_of(f) : NULL;

	if (!file || !file->inode)
		return -EBADF;
	return f->dead ? -EIO : inode_open(file->inode, flags);
}
