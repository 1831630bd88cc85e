/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A fuzz target without libFuzzer, for any compiler: gives it each file of its
 * corpus, or of those that are named, and speaks TAP.  With --write-seeds N DIR
 * it makes N files there to begin with, always the same.
 */

#include <dirent.h>

#include "tests/fuzz/fuzz-fixture.h"

#define INPUT_MAX 65536

static int n_files;

static int run_file(const char *path, const char *name)
{
	static uint8_t buf[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	uint8_t *copy;
	size_t len;

	if (!f) {
		perror(path);
		return 1;
	}
	len = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	copy = malloc(len ? len : 1);	/* Of this size, for ASan. */
	if (!copy)
		return 1;
	memcpy(copy, buf, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
	printf("ok %d - %s\n", ++n_files, name);
	fflush(stdout);
	return 0;
}

static int run_corpus(void)
{
	const char *top = getenv("srcdir");
	struct dirent **list;
	char dir[1024], path[2048];
	int n, i, bad = 0;

	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%s", top ? top : ".",
		 fuzz_name);
	n = scandir(dir, &list, NULL, alphasort);
	if (n < 0) {
		perror(dir);
		return 1;
	}
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			bad |= run_file(path, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	printf("1..%d\n", n_files);
	return bad || !n_files;
}

/* xorshift: the same everywhere. */
static int write_seeds(unsigned int n, const char *dir)
{
	uint64_t x = UINT64_C(0x9e3779b97f4a7c15);
	unsigned int i, j;
	char path[2048];
	FILE *f;

	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/seed-%02u", dir, i);
		f = fopen(path, "wb");
		if (!f)
			return perror(path), 1;
		for (j = 0; j < 64 + 16 * i; j++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			fputc((int)(x >> 32 & 0xff), f);
		}
		fclose(f);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int i, bad = 0;

	if (argc == 4 && !strcmp(argv[1], "--write-seeds"))
		return write_seeds((unsigned int)atoi(argv[2]), argv[3]);
	if (argc < 2)
		return run_corpus();
	for (i = 1; i < argc; i++)
		bad |= run_file(argv[i], argv[i]);
	return bad;
}
