/* SPDX-License-Identifier: CC0-1.0 */
/* The command line. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-cp.h"

enum { OPT_PATH = 256, OPT_BACKEND, OPT_DIRECT, OPT_BLOCK, OPT_DEPTH,
       OPT_VERIFY, OPT_CHECKSUM, OPT_FSYNC, OPT_PROGRESS, OPT_JSON, OPT_HELP,
       OPT_VERSION, OPT_PRESERVE, OPT_CHANGED, OPT_RETRY, OPT_COMPRESS,
       OPT_DECOMPRESS, OPT_LEVEL, OPT_ENCRYPT, OPT_DECRYPT, OPT_SECTOR };

static const char shorts[] = ":rRadpLPHnuft:Tqv";
static const struct option options[] = {
	{ "recursive", no_argument, NULL, 'r' },
	{ "archive", no_argument, NULL, 'a' },
	{ "preserve", optional_argument, NULL, OPT_PRESERVE },
	{ "dereference", no_argument, NULL, 'L' },
	{ "no-dereference", no_argument, NULL, 'P' },
	{ "no-clobber", no_argument, NULL, 'n' },
	{ "update", no_argument, NULL, 'u' },
	{ "force", no_argument, NULL, 'f' },
	{ "target-directory", required_argument, NULL, 't' },
	{ "no-target-directory", no_argument, NULL, 'T' },
	{ "changed", required_argument, NULL, OPT_CHANGED },
	{ "retry", required_argument, NULL, OPT_RETRY },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "path", required_argument, NULL, OPT_PATH },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "direct", no_argument, NULL, OPT_DIRECT },
	{ "block", required_argument, NULL, OPT_BLOCK },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "checksum", no_argument, NULL, OPT_CHECKSUM },
	{ "fsync", no_argument, NULL, OPT_FSYNC },
	{ "compress", required_argument, NULL, OPT_COMPRESS },
	{ "decompress", no_argument, NULL, OPT_DECOMPRESS },
	{ "level", required_argument, NULL, OPT_LEVEL },
	{ "encrypt", required_argument, NULL, OPT_ENCRYPT },
	{ "decrypt", required_argument, NULL, OPT_DECRYPT },
	{ "sector", required_argument, NULL, OPT_SECTOR },
	{ "progress", no_argument, NULL, OPT_PROGRESS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-cp [options] SOURCE DEST\n"
"       weir-cp [options] SOURCE... DIRECTORY\n"
"       weir-cp [options] -t DIRECTORY SOURCE...\n"
"Copy files, or with -r trees, as cp does, each complete or not at all.\n"
"\n"
"What is copied:\n"
"  -r, -R, --recursive   copy directories and all that is in them\n"
"  -a, --archive         -rP, and keep everything (--preserve=all)\n"
"  -p, --preserve[=LIST] keep mode (with ACLs), ownership, timestamps; also\n"
"                        links, xattr, all\n"
"  -d                    -P --preserve=links\n"
"  -P, --no-dereference  copy symbolic links as links; so does -r alone\n"
"  -L, --dereference     copy what symbolic links lead to\n"
"  -H                    only those that are given as SOURCE\n"
"\n"
"Where to:\n"
"  -n, --no-clobber      leave names that are there\n"
"  -u, --update          likewise if they are not older than the source\n"
"  -f, --force           nothing: what can be replaced is replaced anyway\n"
"  -t, --target-directory=DIRECTORY\n"
"                        copy all SOURCEs into it\n"
"  -T, --no-target-directory\n"
"                        DEST is the copy, even if it is a directory now\n"
"\n"
"Safety:\n"
"      --changed=WHAT    of a source that changes meanwhile: keep the copy\n"
"                        and warn (the default), or fail, with no copy\n"
"      --retry=N         before that, copy it again up to N times (0)\n"
"      --checksum        print the CRC-32C of each file\n"
"      --verify          read each copy back, and compare\n"
"      --fsync           have everything written out before it gets its name\n"
"\n"
"Conversion:\n"
"      --compress=FORMAT compress each file: gzip or zstd\n"
"      --level=N         how well: 1 to 9, with zstd to 19 (6, with zstd 3)\n"
"      --decompress      the reverse, of either format\n"
"      --encrypt=KEYFILE encrypt each file by AES-XTS, as dm-crypt does\n"
"      --decrypt=KEYFILE the reverse\n"
"      --sector=SIZE     of encryption: 512 (the default) to 4096\n"
"\n"
"Speed:\n"
"      --path=PATH       how bytes move: pipeline (through our buffers),\n"
"                        kernel (reflink, copy_file_range), or auto\n"
"      --direct          go round the page cache (O_DIRECT)\n"
"      --block=SIZE      bytes in a buffer, 4K to 64M (2M, direct 1M,\n"
"                        compressed 512K)\n"
"      --depth=N         buffers, 1 to 1024 (8)\n"
"      --backend=NAME    uring, ev, or auto\n"
"\n"
"Output:\n"
"      --progress        show progress, also if it is no terminal\n"
"  -q, --quiet           no progress, only errors\n"
"  -v, --verbose         say at the end what was done, and how\n"
"      --json            the same, and files and errors, as lines of JSON\n"
"      --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-cp -a /srv/data /mnt/backup\n"
"  weir-cp --direct --verify disk.img /mnt/disk.img\n"
"  weir-cp -r --compress=zstd logs archive\n"
"\n"
"Exit status: 0 all was copied; 1 something was not; 2 wrong usage; 3 nothing\n"
"could be begun.  weir-cp(1) has the details.\n";

void say_usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-cp", fmt, ap);
	va_end(ap);
}

static int parse_number(const char *name, const char *arg, uint64_t min,
			uint64_t max, uint64_t *ret)
{
	if (size_parse(arg, min, max, ret) == 0)
		return 0;
	say_usage_error("--%s=%s: give a number from %llu to %llu", name,
			arg, (unsigned long long)min, (unsigned long long)max);
	return -1;
}

static int parse_word(const char *name, const char *arg,
		      const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(arg, words[i]))
			return i;
	if (words[2])
		say_usage_error("--%s=%s: give %s, %s or %s", name, arg,
				words[0], words[1], words[2]);
	else
		say_usage_error("--%s=%s: give %s or %s", name, arg,
				words[0], words[1]);
	return -1;
}

static int keep_one(struct cp_opts *o, const char *word, size_t len)
{
	static const struct { const char *name; unsigned keep; } words[] = {
		{ "mode", KEEP_MODE },
		{ "ownership", KEEP_OWNER },
		{ "timestamps", KEEP_TIMES },
		{ "links", KEEP_LINKS },
		{ "xattr", KEEP_XATTR },
		{ "all", KEEP_MODE | KEEP_OWNER | KEEP_TIMES | KEEP_LINKS |
			 KEEP_XATTR },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].name) != len ||
		    memcmp(words[i].name, word, len))
			continue;
		o->keep |= words[i].keep;
		if (words[i].keep == KEEP_XATTR)
			o->xattr_required = true;
		return 0;
	}
	say_usage_error("--preserve=%.*s: give mode, ownership, timestamps, "
			"links, xattr or all", (int)len, word);
	return -1;
}

static int parse_preserve(struct cp_opts *o, const char *list)
{
	size_t len;

	if (!list)
		list = "mode,ownership,timestamps";
	for (;; list += len + 1) {
		len = strcspn(list, ",");
		if (keep_one(o, list, len))
			return -1;
		if (!list[len])
			return 0;
	}
}

static int parse_target(struct cp_opts *o, const char *arg)
{
	if (o->target_dir) {
		say_usage_error("-t is given twice");
		return -1;
	}
	o->target_dir = true;
	o->dest = arg;
	return 0;
}

static int set_convert(struct cp_opts *o, enum convert convert)
{
	if (o->convert) {
		say_usage_error("only one of --compress, --decompress, "
				"--encrypt and --decrypt is possible");
		return -1;
	}
	o->convert = convert;
	return 0;
}

static int parse_convert(struct cp_opts *o, int c, const char *arg)
{
	static const char *const words[] = { "gzip", "zstd", NULL };
	uint64_t n;
	int word;

	switch (c) {
	case OPT_COMPRESS:
		word = parse_word("compress", arg, words);
		return word < 0 ? -1 : set_convert(o, word ? CONVERT_ZSTD :
							     CONVERT_GZIP);
	case OPT_LEVEL:
		if (parse_number("level", arg, 1, 19, &n))
			return -1;
		o->level = (int)n;
		return 0;
	case OPT_SECTOR:
		if (parse_number("sector", arg, 512, 4096, &n))
			return -1;
		o->sector = (uint32_t)n;
		return 0;
	default:
		o->key = arg;
		return set_convert(o, c == OPT_ENCRYPT ? CONVERT_ENCRYPT :
							 CONVERT_DECRYPT);
	}
}

static int parse_valued(struct cp_opts *o, int c, const char *arg)
{
	static const char *const paths[] = { "auto", "pipeline", "kernel",
					     NULL };
	static const char *const backends[] = { "auto", "uring", "ev", NULL };
	static const char *const changed[] = { "keep", "fail", NULL };
	uint64_t n;
	int word;

	if (c >= OPT_COMPRESS)
		return parse_convert(o, c, arg);
	switch (c) {
	case 't':
		return parse_target(o, arg);
	case OPT_PRESERVE:
		return parse_preserve(o, arg);
	case OPT_CHANGED:
		word = parse_word("changed", arg, changed);
		o->fail_if_changed = word == 1;
		return word < 0 ? -1 : 0;
	case OPT_RETRY:
		if (parse_number("retry", arg, 0, 1000, &n))
			return -1;
		o->retry = (uint32_t)n;
		return 0;
	case OPT_PATH:
		word = parse_word("path", arg, paths);
		o->path = (enum cp_path)word;
		return word < 0 ? -1 : 0;
	case OPT_BACKEND:
		word = parse_word("backend", arg, backends);
		o->backend = (uint32_t)word;
		return word < 0 ? -1 : 0;
	case OPT_BLOCK:
		if (parse_number("block", arg, 4096, 64u << 20, &n))
			return -1;
		o->block = n;
		return 0;
	default:
		if (parse_number("depth", arg, 1, 1024, &n))
			return -1;
		o->depth = (uint32_t)n;
		return 0;
	}
}

/* Returns 0, 1 if @c is none without a value, or -1 for a wrong option. */
static int parse_flag(struct cp_opts *o, int c)
{
	switch (c) {
	case 'r':
		o->recursive = true;
		break;
	case 'a':
		o->recursive = true;
		o->follow = FOLLOW_NEVER;
		return keep_one(o, "all", 3);
	case 'p':
		return parse_preserve(o, NULL);
	case 'd':
		o->follow = FOLLOW_NEVER;
		o->keep |= KEEP_LINKS;
		break;
	case 'P':
		o->follow = FOLLOW_NEVER;
		break;
	case 'L':
		o->follow = FOLLOW_ALL;
		break;
	case 'H':
		o->follow = FOLLOW_SOURCES;
		break;
	case 'n':
		o->no_clobber = true;
		break;
	case 'u':
		o->update = true;
		break;
	case 'f':
		break;
	case 'T':
		o->no_target_dir = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'v':
		o->verbose = true;
		break;
	case OPT_DIRECT:
		o->direct = true;
		break;
	case OPT_VERIFY:
		o->verify = true;
		break;
	case OPT_CHECKSUM:
		o->checksum = true;
		break;
	case OPT_FSYNC:
		o->fsync = true;
		break;
	case OPT_DECOMPRESS:
		return set_convert(o, CONVERT_BACK);
	case OPT_PROGRESS:
		o->progress = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	default:
		return 1;
	}
	return 0;
}

/* What needs the copy to be what the source is. */
static int check_convert(const struct cp_opts *o)
{
	const char *with = o->path == PATH_KERNEL ? "path=kernel" :
			   o->direct ? "direct" :
			   o->verify ? "verify" :
			   o->checksum ? "checksum" : NULL;

	if (o->convert && with) {
		say_usage_error("--%s does not go with --compress, --decompress, "
				"--encrypt or --decrypt", with);
		return -1;
	}
	if (o->level && o->convert != CONVERT_GZIP &&
	    o->convert != CONVERT_ZSTD) {
		say_usage_error("--level goes with --compress only");
		return -1;
	}
	if (o->level > 9 && o->convert == CONVERT_GZIP) {
		say_usage_error("--level=%d: gzip has levels 1 to 9", o->level);
		return -1;
	}
	if (o->sector && !o->key) {
		say_usage_error("--sector goes with --encrypt and --decrypt "
				"only");
		return -1;
	}
	if (o->sector & (o->sector - 1)) {
		say_usage_error("--sector=%u is no power of two", o->sector);
		return -1;
	}
	return 0;
}

static int check(const struct cp_opts *o)
{
	const char *with = o->checksum ? "checksum" :
			   o->direct ? "direct" : NULL;

	if (o->path == PATH_KERNEL && with) {
		say_usage_error("--path=kernel excludes --%s, which "
				"needs the bytes", with);
		return -1;
	}
	if (o->block % 4096) {
		say_usage_error("--block=%zu is no multiple of 4096", o->block);
		return -1;
	}
	if ((uint64_t)o->block * o->depth > UINT64_C(4) << 30) {
		say_usage_error("%u blocks of %zu bytes are more than 4 GiB",
				o->depth, o->block);
		return -1;
	}
	return check_convert(o);
}

/* Compressed, or decompressed. */
static bool is_stream(const struct cp_opts *o)
{
	return o->convert == CONVERT_GZIP || o->convert == CONVERT_ZSTD ||
	       o->convert == CONVERT_BACK;
}

/* Two for each processor: one that is converted, and one that moves. */
static uint32_t depth_to_convert(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 4 ? 8 : cpus > 16 ? 32 : (uint32_t)cpus * 2;
}

/*
 * Through the page cache a write of 2 MiB, where it begins at a multiple of
 * that, can get its pages in one piece, and then costs a fraction of four of
 * 512 KiB: more than staying in the processor's cache would save.  A disk moves
 * any size alike.  What is compressed or decompressed does not begin at such
 * multiples, and its buffers are two or three times as large.
 */
static void set_defaults(struct cp_opts *o)
{
	if (!o->block)
		o->block = is_stream(o) ? 512 << 10 :
			   o->direct ? 1 << 20 : 2 << 20;
	if (!o->depth)
		o->depth = o->convert ? depth_to_convert() : 8;
	if (o->follow == FOLLOW_DEFAULT)
		o->follow = o->recursive ? FOLLOW_NEVER : FOLLOW_ALL;
}

static int take_names(struct cp_opts *o, int argc, char **argv)
{
	int n = argc - optind;

	if (o->target_dir && o->no_target_dir) {
		say_usage_error("-t and -T exclude each other");
		return -1;
	}
	if (n < (o->target_dir ? 1 : 2)) {
		say_usage_error(o->target_dir ? "give a SOURCE" :
				"give SOURCE and DEST");
		return -1;
	}
	if (o->no_target_dir && n > 2) {
		say_usage_error("-T takes only one SOURCE");
		return -1;
	}
	o->sources = argv + optind;
	o->n_sources = o->target_dir ? n : n - 1;
	if (!o->target_dir)
		o->dest = argv[argc - 1];
	for (int i = 0; i < n; i++) {
		if (!argv[optind + i][0]) {
			say_usage_error("a name is empty");
			return -1;
		}
	}
	if (!o->dest[0]) {
		say_usage_error("a name is empty");
		return -1;
	}
	return 0;
}

/* Returns -1 to go on, or the exit status. */
int options_parse(struct cp_opts *o, int argc, char **argv)
{
	char wrong[OPTION_TEXT];
	int c, err;

	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) != -1) {
		if (c == OPT_HELP) {
			fputs(help, stdout);
			return fflush(stdout) ? 1 : 0;
		}
		if (c == OPT_VERSION) {
			printf("weir-cp %s\n", weir_version());
			return fflush(stdout) ? 1 : 0;
		}
		if (c == '?' || c == ':') {
			say_usage_error("%s", option_wrong(wrong, c, argv, shorts,
							   options));
			return 2;
		}
		err = parse_flag(o, c == 'R' ? 'r' : c);
		if (err > 0)
			err = parse_valued(o, c, optarg);
		if (err)
			return 2;
	}
	set_defaults(o);
	if (take_names(o, argc, argv) || check(o))
		return 2;
	if (!o->sector)
		o->sector = 512;
	return -1;
}
