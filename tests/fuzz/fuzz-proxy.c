/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a client may say to weir-proxy where a header of the PROXY protocol is
 * expected.  Whatever it is: of a header each beginning is incomplete and what follows
 * changes nothing; what is none stays none; nothing is read behind the bytes; and
 * the addresses of one can be said again.
 */

#include "programs/weir-proxy/weir-proxy.h"
#include "tests/fuzz/fuzz-fixture.h"

const char fuzz_name[] = "proxy";

/* A copy of just these bytes, so that a read behind them is seen. */
static ssize_t parse(const uint8_t *data, size_t len, struct address *client,
		     struct address *local)
{
	uint8_t *copy = malloc(len + !len);
	ssize_t n;

	MUST(copy);
	if (len)
		memcpy(copy, data, len);
	client->len = local->len = 0;
	n = header_parse(copy, len, client, local);
	free(copy);
	MUST(n >= -1 && n <= (ssize_t)len);
	MUST(n > 0 || (!client->len && !local->len));
	return n;
}

static void say_again(const struct address *client, const struct address *local)
{
	struct address client2, local2;
	uint8_t header[HEADER_CAPACITY];
	size_t len;
	int v;

	for (v = HEADER_V1; v <= HEADER_V2; v++) {
		len = header_make(header, v, client, local);
		MUST(len && len <= sizeof(header));
		MUST(parse(header, len, &client2, &local2) == (ssize_t)len);
		if (!client2.len)
			continue;
		MUST(client2.len == client->len && local2.len == local->len);
		MUST(!memcmp(&client2.sa, &client->sa, client->len));
		MUST(!memcmp(&local2.sa, &local->sa, local->len));
	}
}

static void check_beginnings(const uint8_t *data, size_t len)
{
	struct address client, local;
	size_t i;

	for (i = 0; i < len; i += 1 + i / 64)
		MUST(!parse(data, i, &client, &local));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct address client, local, client2, local2;
	uint8_t more[HEADER_MAX + 64];
	ssize_t n;

	if (size > HEADER_MAX)
		size = HEADER_MAX;
	n = parse(data, size, &client, &local);
	if (size)
		memcpy(more, data, size);
	memset(more + size, '\n', 64);
	if (n) {
		MUST(parse(more, size + 64, &client2, &local2) == n);
		MUST(client2.len == client.len && local2.len == local.len);
	}
	if (n > 0)
		check_beginnings(data, (size_t)n);
	if (client.len)
		say_again(&client, &local);
	return 0;
}
