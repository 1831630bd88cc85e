/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Command lines and the environment of `weir`, and the options of weir-cp.  The
 * first byte says of which; the rest are words, with a 0 after each, the first
 * being $WEIR_BACKEND.
 *
 * Whatever they are, the command ends by itself with 0, 1 or 2; if it is 2 it
 * has said why in a message, and written nothing else; if it is 0 it has had
 * nothing to complain of; and strings of its JSON end.
 *
 * Slashes are taken out of the words: a place can be a file, and those of this
 * machine are not to be opened.
 */

#include <getopt.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz-fixture.h"

int weir_main(int argc, char **argv);
#define main weir_main
#include "tools/weir.c"
#undef main
#include "programs/weir-cp/weir-cp.h"

/* It runs other programs: not here. */
int cmd_bench(int argc, char **argv)
{
	(void)argc, (void)argv;
	return usage_error("bench: not here");
}

/* It reads standard input: not here. */
int cmd_trace(int argc, char **argv)
{
	(void)argc, (void)argv;
	return usage_error("trace: not here");
}

const char fuzz_name[] = "command";

#define WORDS 16
#define TEXT_MAX 262144

static char said[TEXT_MAX], wrote[TEXT_MAX];
static int said_fd = -1, wrote_fd = -1;

/* What goes to @fd goes to @memory, until the old one is put back. */
static int divert(int fd, int *memory, const char *name)
{
	int old = dup(fd);

	if (*memory < 0)
		*memory = memfd_create(name, MFD_CLOEXEC);
	MUST(old >= 0 && *memory >= 0);
	MUST(!ftruncate(*memory, 0) && !lseek(*memory, 0, SEEK_SET));
	MUST(dup2(*memory, fd) == fd);
	return old;
}

static void put_back(int fd, int old, int memory, char *text)
{
	ssize_t n = pread(memory, text, TEXT_MAX - 1, 0);

	MUST(dup2(old, fd) == fd && n >= 0);
	close(old);
	text[n] = 0;
}

/* argv of what is at @words; NULL-terminated. */
static int split(char *words, size_t len, char **argv)
{
	char *end = words + len;
	int argc = 1;

	argv[0] = (char *)"weir";
	while (words < end && argc < WORDS) {
		argv[argc++] = words;
		words += strlen(words) + 1;
	}
	argv[argc] = NULL;
	return argc;
}

static void check_json(const char *text)
{
	bool inside = false;

	for (; *text; text++) {
		if (inside)
			MUST((unsigned char)*text >= ' ');
		if (inside && *text == '\\')
			MUST(*++text && strchr("\"\\/bfnrtu", *text));
		else if (*text == '"')
			inside = !inside;
	}
	MUST(!inside);
}

static bool has(int argc, char **argv, const char *word)
{
	while (argc--)
		if (!strcmp(argv[argc], word))
			return true;
	return false;
}

static int run_weir(int argc, char **argv)
{
	int status = run(argc, argv);

	MUST(!fflush(stdout));
	return status;
}

static int run_cp(int argc, char **argv)
{
	struct cp_opts opts = { 0 };
	int status = options_parse(&opts, argc, argv);

	if (status == -1)
		MUST(opts.block >= 4096 && opts.block <= 64u << 20 &&
		     opts.block % 4096 == 0 && opts.depth >= 1 &&
		     opts.depth <= 1024 && opts.backend <= 2 && opts.n_sources > 0 &&
		     opts.sources[0] && opts.dest);
	return status < 0 ? 0 : status;
}

static void check(int status, const char *name)
{
	size_t len = strlen(said);

	MUST(status >= 0 && status <= 2);
	if (status == 2) {
		MUST(len > strlen(name) + 10 && said[len - 1] == '\n');
		MUST(!wrote[0]);
	} else if (!status) {
		MUST(!len);
	}
}

static void run_words(bool cp, char *words, size_t len)
{
	char *argv[WORDS + 2];
	int out, err, status, argc;

	setenv("WEIR_BACKEND", words, 1);
	argc = (int)strlen(words) + 1;
	len -= (size_t)argc <= len ? (size_t)argc : len;
	argc = split(words + argc, len, argv);
	optind = 0;
	fflush(stdout);
	out = divert(STDOUT_FILENO, &wrote_fd, "stdout");
	err = divert(STDERR_FILENO, &said_fd, "stderr");
	status = cp ? run_cp(argc, argv) : run_weir(argc, argv);
	put_back(STDERR_FILENO, err, said_fd, said);
	put_back(STDOUT_FILENO, out, wrote_fd, wrote);
	check(status, cp ? "weir-cp" : "weir");
	if (!cp && wrote[0] == '{' && has(argc, argv, "--json"))
		check_json(wrote);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *words;
	size_t i;

	if (size < 2)
		return 0;
	words = calloc(1, size + 1);
	MUST(words);
	memcpy(words, data + 1, size - 1);
	for (i = 0; i < size; i++)
		if (words[i] == '/')
			words[i] = '_';
	run_words(data[0] & 1, words, size - 1);
	free(words);
	return 0;
}
