/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an importer and an exporter say to each other, a packet each:
 *
 *	request	 0  8  magic "weirask1"
 *		 8  4  length of the name
 *		12  4  0
 *		16     the name
 *	answer	 0  8  magic "weirsay1"
 *		 8  4  0, or an errno
 *		12  4  length of the descriptor; 0 with an errno
 *		16     the descriptor
 *
 * Both are on the same machine: bytes are in its order, and the magic has the
 * version at its end.
 */

#include <errno.h>
#include <string.h>

#include "mem/export/internal.h"

static const char ask[8] = { 'w', 'e', 'i', 'r', 'a', 's', 'k', '1' };
static const char say[8] = { 'w', 'e', 'i', 'r', 's', 'a', 'y', '1' };

/* What an exporter may answer; another errno could mean anything to us. */
static const int answers[] = {
	EACCES, EAGAIN, EMFILE, ENOENT, ENOMEM, EPROTO, EPROTONOSUPPORT, ESTALE,
};

static size_t put(uint8_t *buf, const char *magic, uint32_t first,
		  uint32_t second)
{
	memcpy(buf, magic, 8);
	memcpy(buf + 8, &first, 4);
	memcpy(buf + 12, &second, 4);
	return MESSAGE_HEADER;
}

static int get(uint32_t *first, uint32_t *second, const uint8_t *buf,
	       size_t len, const char *magic)
{
	if (len < MESSAGE_HEADER || memcmp(buf, magic, 7))
		return -EPROTO;
	if (buf[7] != (uint8_t)magic[7])
		return -EPROTONOSUPPORT;
	memcpy(first, buf + 8, 4);
	memcpy(second, buf + 12, 4);
	return 0;
}

size_t message_put_request(uint8_t *buf, const char *name)
{
	size_t len = strlen(name);

	put(buf, ask, (uint32_t)len, 0);
	memcpy(buf + MESSAGE_HEADER, name, len);
	return MESSAGE_HEADER + len;
}

int message_get_request(char *name, const uint8_t *buf, size_t len)
{
	uint32_t name_len, zero;
	int err = get(&name_len, &zero, buf, len, ask);

	if (err)
		return err;
	if (zero || !name_len || name_len > MESSAGE_NAME_MAX ||
	    len != MESSAGE_HEADER + name_len ||
	    memchr(buf + MESSAGE_HEADER, 0, name_len))
		return -EPROTO;
	memcpy(name, buf + MESSAGE_HEADER, name_len);
	name[name_len] = '\0';
	return 0;
}

size_t message_put_answer(uint8_t *buf, int err, const void *desc, size_t len)
{
	put(buf, say, (uint32_t)-err, (uint32_t)len);
	if (len)
		memcpy(buf + MESSAGE_HEADER, desc, len);
	return MESSAGE_HEADER + len;
}

/* The errno @code that was answered, if it is one that may be. */
static int refusal(uint32_t code)
{
	size_t i;

	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if ((uint32_t)answers[i] == code)
			return -answers[i];
	return -EPROTO;
}

int message_get_answer(const void **desc, size_t *desc_len, const uint8_t *buf,
		       size_t len)
{
	uint32_t code, n;
	int err = get(&code, &n, buf, len, say);

	if (err)
		return err;
	if (code)
		return refusal(code);
	if (!n || len != MESSAGE_HEADER + (size_t)n)
		return -EPROTO;
	*desc = buf + MESSAGE_HEADER;
	*desc_len = n;
	return 0;
}
