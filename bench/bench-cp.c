/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Copying a file: weir-cp beside cp, dd and, where it is installed, qemu-img
 * convert, and `dd && cksum` where it also computes a checksum; zstd(1) and
 * gzip(1), where it compresses or decompresses a text of random words; a tree of small
 * files to tmpfs beside cp -a, and beside two of cp by xargs(1).  Wall time,
 * and CPU time of the processes with all their threads.
 *
 * Each copy goes to a new file on the file system of --dir; outside of what is
 * timed the last copy is removed and written back, so that no run pays for the
 * one before it.  The order turns round with each repetition.  The CPU time of
 * the kernel's own write-back threads belongs to no copy and is not counted.
 *
 * WEIR_CP names the program if it is neither in the build directory nor in
 * PATH.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define MIB (1 << 20)
#define BLOCK 4096

struct copy {
	const char *what;	/* The case. */
	const char *variant;
	const char *command;	/* Of the shell, with these set: */
};				/* $WEIR_CP weir-cp, $S source, $D destination,
				 * $T text, $Z the same by zstd */

static const struct copy copies[] = {
	{ "cached", "cp", "cp $S $D" },
	{ "cached", "dd 1M", "dd if=$S of=$D bs=1M status=none" },
	{ "cached", "dd 2M", "dd if=$S of=$D bs=2M status=none" },
	{ "cached", "qemu-img", "qemu-img convert -f raw -O raw $S $D" },
	{ "cached", "weir-cp", "$WEIR_CP --quiet $S $D" },
	{ "cached", "weir-cp pipeline", "$WEIR_CP --quiet --path pipeline $S $D" },
	{ "cached", "weir-cp on ev",
	  "$WEIR_CP --quiet --path pipeline --backend ev $S $D" },
	{ "cached, checksum", "dd && cksum",
	  "dd if=$S of=$D bs=1M status=none && cksum $D >/dev/null" },
	{ "cached, checksum", "weir-cp", "$WEIR_CP --quiet --checksum $S $D "
	  ">/dev/null" },
	{ "cached, checksum", "weir-cp on ev",
	  "$WEIR_CP --quiet --checksum --backend ev $S $D >/dev/null" },
	{ "O_DIRECT", "dd 1M",
	  "dd if=$S of=$D bs=1M iflag=direct oflag=direct status=none" },
	{ "O_DIRECT", "qemu-img",
	  "qemu-img convert -T none -t none -f raw -O raw $S $D" },
	{ "O_DIRECT", "weir-cp", "$WEIR_CP --quiet --direct $S $D" },
	{ "O_DIRECT", "weir-cp checksum",
	  "$WEIR_CP --quiet --direct --checksum $S $D >/dev/null" },
	{ "to zstd", "zstd -T1", "zstd -q -T1 $T -o $D" },
	{ "to zstd", "zstd -T2", "zstd -q -T2 $T -o $D" },
	{ "to zstd", "weir-cp", "$WEIR_CP --quiet --compress=zstd $T $D" },
	{ "from zstd", "zstd", "zstd -q -d $Z -o $D" },
	{ "from zstd", "weir-cp", "$WEIR_CP --quiet --decompress $Z $D" },
	{ "to gzip", "gzip -1", "gzip -1 <$T >$D" },
	{ "to gzip", "weir-cp",
	  "$WEIR_CP --quiet --compress=gzip --level=1 $T $D" },
};

static char source[4096], target[4096], text[4096], packed[4096];
static size_t mib, text_mib;
static bool has_qemu_img, has_zstd;

static int shell(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_source(const struct bench *b)
{
	static char block[MIB];
	uint64_t state = 88172645463325252;
	int fd;

	snprintf(source, sizeof(source), "%s/bench-cp.source", b->dir);
	snprintf(target, sizeof(target), "%s/bench-cp.target", b->dir);
	setenv("S", source, 1);
	setenv("D", target, 1);
	fd = open(source, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die(source, errno);
	for (size_t i = 0; i < mib; i++) {
		for (size_t k = 0; k < MIB; k += 8)
			memcpy(block + k, &(uint64_t){ bench_random(&state) },
			       8);
		if (write(fd, block, MIB) != MIB)
			bench_die(source, errno);
	}
	fsync(fd);
	close(fd);
}

/* Words of two to nine letters, of which a few are frequent. */
static void make_text(const struct bench *b)
{
	uint64_t state = 88172645463325252, word;
	size_t left = text_mib * MIB;
	FILE *file;

	snprintf(text, sizeof(text), "%s/bench-cp.text", b->dir);
	snprintf(packed, sizeof(packed), "%s/bench-cp.packed", b->dir);
	setenv("T", text, 1);
	setenv("Z", packed, 1);
	file = fopen(text, "w");
	if (!file)
		bench_die(text, errno);
	for (; left; left--) {
		word = bench_random(&state) % 4096;
		word = word * (bench_random(&state) % 4096) >> 12;
		word *= UINT64_C(0x9e3779b97f4a7c15);
		for (uint64_t n = 2 + (word >> 60) % 8; n && left > 1;
		     n--, left--, word >>= 5)
			putc((int)('a' + (word & 31) % 26), file);
		putc(' ', file);
	}
	if (fclose(file) || shell("zstd -q -f $T -o $Z"))
		bench_die(text, errno);
}

static void write_back(void)
{
	int fd = open(target, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		fsync(fd);
		close(fd);
		unlink(target);
	}
}

static double child_cpu(void)
{
	struct rusage ru;

	getrusage(RUSAGE_CHILDREN, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

/* O_DIRECT may leave the cache without the source: read it in. */
static void warm_file(const char *path)
{
	static char block[MIB];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && read(fd, block, MIB) > 0)
		;
	close(fd);
}

static void warm_source(bool is_text)
{
	warm_file(is_text ? text : source);
	if (is_text)
		warm_file(packed);
}

/*
 * In a virtual machine, memory that has been unused for a while has gone back
 * to the host, and the first touch of a page costs more than the copy into it.
 * So touch as much as the copy will take: what was freed last is used first.  A
 * file's pages may be small or large, depending on how they are written; touch
 * both.
 */
static void touch_memory(size_t size, int advice)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	madvise(p, size, advice);
	for (size_t i = 0; i < size; i += BLOCK)
		p[i] = 1;
	munmap(p, size);
}

static void warm_memory(void)
{
	size_t size = (mib + mib / 4) * MIB;

	touch_memory(size, MADV_NOHUGEPAGE);
	touch_memory(size, MADV_HUGEPAGE);
}

static bool run_one(struct bench *b, const struct copy *c)
{
	bool is_text = strstr(c->what, "zstd") || strstr(c->what, "gzip");
	double gib = (double)(is_text ? text_mib : mib) / 1024, cpu;
	uint64_t wall;
	char what[48];
	int status;

	if (strcmp(c->what, "O_DIRECT"))
		warm_source(is_text);
	warm_memory();
	cpu = child_cpu();
	wall = bench_wall_ns();
	status = shell(c->command);
	wall = bench_wall_ns() - wall;
	cpu = child_cpu() - cpu;
	write_back();
	if (status) {
		bench_note("%s, %s: exit status %d", c->what, c->variant,
			   status);
		return false;
	}
	snprintf(what, sizeof(what), "%s, rate", c->what);
	bench_add(b, what, c->variant, "GiB/s", gib * 1e9 / (double)wall);
	snprintf(what, sizeof(what), "%s, CPU", c->what);
	bench_add(b, what, c->variant, "s/GiB", cpu / gib);
	return true;
}

static void measure(struct bench *b, const char *what)
{
	static bool failed[ARRAY_SIZE(copies)];
	size_t n = ARRAY_SIZE(copies), k;

	for (bench_begin(b); bench_next(b); ) {
		for (size_t i = 0; i < n; i++) {
			k = b->tries % 2 ? n - 1 - i : i;
			if (strcmp(copies[k].what, what) || failed[k] ||
			    (!has_qemu_img &&
			     !strcmp(copies[k].variant, "qemu-img")) ||
			    !bench_wants(b, copies[k].variant))
				continue;
			failed[k] = !run_one(b, &copies[k]);
		}
	}
}

static void goals(struct bench *b)
{
	bench_goal(b, "weir-cp, cached: at least as fast as cp",
		   "cached, rate", "weir-cp", "cp", BENCH_AT_LEAST, 1);
	bench_goal(b, "weir-cp --checksum: 1.6 x dd && cksum",
		   "cached, checksum, rate", "weir-cp", "dd && cksum",
		   BENCH_AT_LEAST, 1.6);
	bench_goal(b, "weir-cp --direct: 1.4 x dd bs=1M",
		   "O_DIRECT, rate", "weir-cp", "dd 1M", BENCH_AT_LEAST, 1.4);
	bench_goal(b, "weir-cp --direct: a fifth of dd's CPU time",
		   "O_DIRECT, CPU", "weir-cp", "dd 1M", BENCH_AT_MOST, 0.2);
	bench_goal(b, "weir-cp --direct --checksum: 1.1 x dd bs=1M",
		   "O_DIRECT, rate", "weir-cp checksum", "dd 1M",
		   BENCH_AT_LEAST, 1.1);
}

/* The pipeline against each of the others: the best is among them. */
static void pipeline_goals(struct bench *b)
{
	bench_goal(b, "pipeline, cached: at least as fast as cp",
		   "cached, rate", "weir-cp pipeline", "cp", BENCH_AT_LEAST, 1);
	bench_goal(b, "pipeline, cached: at least as fast as dd bs=1M",
		   "cached, rate", "weir-cp pipeline", "dd 1M", BENCH_AT_LEAST,
		   1);
	bench_goal(b, "pipeline, cached: at least as fast as dd bs=2M",
		   "cached, rate", "weir-cp pipeline", "dd 2M", BENCH_AT_LEAST,
		   1);
	bench_goal(b, "pipeline, cached: at least as fast as qemu-img",
		   "cached, rate", "weir-cp pipeline", "qemu-img",
		   BENCH_AT_LEAST, 1);
	bench_goal(b, "pipeline, O_DIRECT: at least as fast as qemu-img",
		   "O_DIRECT, rate", "weir-cp", "qemu-img", BENCH_AT_LEAST, 1);
}

/* Of the bytes of plain text, in both directions. */
static void convert_goals(struct bench *b)
{
	bench_goal(b, "weir-cp --compress=zstd: 0.9 x zstd -T1",
		   "to zstd, rate", "weir-cp", "zstd -T1", BENCH_AT_LEAST, 0.9);
	bench_goal(b, "weir-cp --decompress: 0.8 x zstd -d", "from zstd, rate",
		   "weir-cp", "zstd", BENCH_AT_LEAST, 0.8);
	bench_goal(b, "weir-cp --compress=gzip --level=1: as fast as gzip -1",
		   "to gzip, rate", "weir-cp", "gzip -1", BENCH_AT_LEAST, 1);
}

/* A tree of small files, from the page cache to tmpfs. */

static const struct copy trees[] = {
	{ "small files", "cp -a", "cp -a $TREE $SHM" },
	{ "small files", "xargs -P2 cp",
	  "mkdir $SHM && cd $TREE && find . -type d -print0 | "
	  "(cd $SHM && xargs -0 mkdir -p) && find . -type f -print0 | "
	  "xargs -0 -P2 -n 500 cp -a --parents -t $SHM" },
	{ "small files", "weir-cp -a", "$WEIR_CP --quiet -a $TREE $SHM" },
};

static size_t n_files;

/* Directories of a hundred files of up to 8 KiB. */
static void make_tree(const struct bench *b)
{
	char tree[4096], path[4200], block[8192] = "";
	size_t len;
	int fd;

	n_files = b->quick ? 400 : 40000;
	snprintf(path, sizeof(path), "/dev/shm/bench-cp.%d", (int)getpid());
	setenv("SHM", path, 1);
	snprintf(tree, sizeof(tree), "%s/bench-cp.tree", b->dir);
	setenv("TREE", tree, 1);
	if (shell("rm -rf $TREE") || mkdir(tree, 0700))
		bench_die(tree, errno);
	for (size_t i = 0; i < n_files; i++) {
		snprintf(path, sizeof(path), "%s/%zu", tree, i / 100);
		if (!(i % 100) && mkdir(path, 0700))
			bench_die(path, errno);
		snprintf(path, sizeof(path), "%s/%zu/%zu", tree, i / 100, i % 100);
		len = 82 * (i % 100);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, block, len) != (ssize_t)len)
			bench_die(path, errno);
		close(fd);
	}
}

static void copy_tree(struct bench *b, const struct copy *c)
{
	double cpu = child_cpu();
	uint64_t wall = bench_wall_ns();

	if (shell(c->command))
		bench_die(c->variant, EIO);
	wall = bench_wall_ns() - wall;
	cpu = child_cpu() - cpu;
	bench_add(b, "small files, rate", c->variant, "files/s",
		  (double)n_files * 1e9 / (double)wall);
	bench_add(b, "small files, CPU", c->variant, "us/file",
		  cpu * 1e6 / (double)n_files);
	shell("rm -rf $SHM");
}

static void measure_trees(struct bench *b)
{
	size_t n = ARRAY_SIZE(trees), k;

	if (access("/dev/shm", W_OK)) {
		bench_note("no /dev/shm: small files are left out");
		return;
	}
	make_tree(b);
	for (bench_begin(b); bench_next(b); )
		for (size_t i = 0; i < n; i++) {
			k = b->tries % 2 ? n - 1 - i : i;
			if (bench_wants(b, trees[k].variant))
				copy_tree(b, &trees[k]);
		}
	shell("rm -rf $TREE");
	bench_goal(b, "small files: at least 2 x cp -a", "small files, rate",
		   "weir-cp -a", "cp -a", BENCH_AT_LEAST, 2);
	bench_goal(b, "small files: at least 1.1 x two of cp",
		   "small files, rate", "weir-cp -a", "xargs -P2 cp",
		   BENCH_AT_LEAST, 1.1);
}

/* Source, target, and as much again so that nothing is cramped. */
static size_t size_that_fits(const struct bench *b)
{
	struct statvfs vfs;
	uint64_t capacity;
	size_t want = b->quick ? 16 : 1024;

	if (statvfs(b->dir, &vfs))
		bench_die(b->dir, errno);
	capacity = (uint64_t)vfs.f_bavail * vfs.f_frsize / MIB / 3;
	return capacity < want ? (size_t)capacity : want;
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "cp", argc, argv);
	/* The device varies more than a few more repetitions could mend. */
	b.reps = b.reps > 5 ? 5 : b.reps;
	bench_need_example("weir-cp");
	has_qemu_img = !shell("command -v qemu-img >/dev/null");
	if (!has_qemu_img)
		bench_note("no qemu-img (package qemu-utils): left out");
	mib = size_that_fits(&b);
	make_source(&b);
	measure(&b, "cached");
	measure(&b, "cached, checksum");
	measure(&b, "O_DIRECT");
	measure_trees(&b);
	unlink(source);
	has_zstd = !shell("command -v zstd gzip >/dev/null");
	if (!has_zstd) {
		bench_note("no zstd or gzip: conversions are left out");
	} else {
		text_mib = mib > 128 ? 128 : mib;
		make_text(&b);
		measure(&b, "to zstd");
		measure(&b, "from zstd");
		measure(&b, "to gzip");
		unlink(text);
		unlink(packed);
		convert_goals(&b);
	}
	goals(&b);
	pipeline_goals(&b);
	return bench_done(&b);
}
