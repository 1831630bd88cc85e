/* SPDX-License-Identifier: BSD-3-Clause */

/* seed-descriptor DIR: files to begin the fuzzing of descriptors with. */

#include <stdio.h>

#include "tests/fuzz/descriptor-fixture.h"

static int write_seed(const char *dir, unsigned int i, unsigned int how)
{
	uint8_t buf[1 + DESCRIPTOR_MAX];
	struct descriptor d;
	char path[4096];
	FILE *f;
	int n;

	fixture_descriptor(&d, i);
	n = descriptor_format(buf + 1, &d, how & 1 ? fixture_key : NULL,
			      how & 1 ? sizeof(fixture_key) : 0, FIXTURE_CALL);
	if (n < 0)
		return 0;	/* No libsodium. */
	buf[0] = (uint8_t)how;
	snprintf(path, sizeof(path), "%s/%u-%u", dir, i, how);
	f = fopen(path, "wb");
	if (!f || fwrite(buf, 1 + (size_t)n, 1, f) != 1 || fclose(f)) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int i, how;
	struct descriptor d;

	if (argc != 2)
		return fprintf(stderr, "usage: seed-descriptor DIR\n"), 2;
	for (i = 0; fixture_descriptor(&d, i); i++)
		for (how = 0; how < 4; how++)
			if (write_seed(argv[1], i, how))
				return 1;
	return 0;
}
