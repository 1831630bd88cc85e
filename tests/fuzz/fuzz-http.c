/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parser of requests of the example 43-http-files.  The input is what comes
 * before an empty line.
 *
 * Whatever it is, the answer has one of the statuses that the server knows; a
 * path that is opened is relative, ends, has no part ".." and no control
 * character; bytes that are sent are bytes of the file; and a connection goes on
 * only after a request that was understood.
 */

#include "tests/fuzz/fuzz-fixture.h"

#include "examples/http.h"

const char fuzz_name[] = "http";

static void check_path(const char *path)
{
	const char *part;

	MUST(*path && *path != '/' && strlen(path) < HEAD_MAX);
	for (part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		MUST(strncmp(part, "..", 2) || (part[2] && part[2] != '/'));
	}
	for (; *path; path++)
		MUST((unsigned char)*path >= ' ' && *path != 127);
}

static void check_range(const struct request *rq, int64_t size)
{
	int64_t first = -7, last = -7;
	int status = http_choose(rq, size, 1000000000, &first, &last);

	MUST(status == 200 || status == 206 || status == 304 || status == 416);
	MUST(first >= 0 && last < size && last - first + 1 >= 0);
	MUST(status != 206 || first <= last);
	MUST(status != 200 || last - first + 1 == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct request rq;
	char when[40];
	char *head;
	int status;

	if (size > HEAD_MAX - 4)
		return 0;
	/* Of its own size, so that ASan sees what is read beyond it. */
	head = malloc(size + 4);
	MUST(head);
	memcpy(head, data, size);
	memcpy(head + size, "\r\n\r\n", 4);
	status = http_parse(&rq, head, size + 4);
	free(head);
	MUST(strcmp(http_reason(status), "Bad Request") || status == 400);
	MUST(status == 200 || !rq.keep);
	if (status == 200) {
		check_path(rq.path);
		MUST(http_type(rq.path));
		check_range(&rq, 0);
		check_range(&rq, 1);
		check_range(&rq, 1000);
		check_range(&rq, INT64_MAX);
		if (rq.has_since)
			http_date(when, rq.since);
	}
	return 0;
}
