/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_EXPORT_MESSAGE_H
#define WEIR_MEM_EXPORT_MESSAGE_H

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

#include "mem/export/descriptor.h"

#define MESSAGE_HEADER 16
#define MESSAGE_NAME_MAX 255
#define MESSAGE_REQUEST_MAX (MESSAGE_HEADER + MESSAGE_NAME_MAX)
#define MESSAGE_ANSWER_MAX (MESSAGE_HEADER + DESCRIPTOR_MAX)

static const char message_ask[8] = { 'w', 'e', 'i', 'r', 'a', 's', 'k', '1' };
static const char message_say[8] = { 'w', 'e', 'i', 'r', 's', 'a', 'y', '1' };

/* What an exporter may answer; another errno could mean anything to us. */
static const int message_errnos[] = {
	EACCES, EAGAIN, EMFILE, ENOENT, ENOMEM, EPROTO, EPROTONOSUPPORT, ESTALE,
};

static inline size_t message_put(uint8_t *buf, const char *magic,
				 uint32_t first, uint32_t second)
{
	memcpy(buf, magic, 8);
	memcpy(buf + 8, &first, 4);
	memcpy(buf + 12, &second, 4);
	return MESSAGE_HEADER;
}

static inline int message_get(uint32_t *first, uint32_t *second,
			      const uint8_t *buf, size_t len,
			      const char *magic)
{
	if (len < MESSAGE_HEADER || memcmp(buf, magic, 7))
		return -EPROTO;
	if (buf[7] != (uint8_t)magic[7])
		return -EPROTONOSUPPORT;
	memcpy(first, buf + 8, 4);
	memcpy(second, buf + 12, 4);
	return 0;
}

static inline size_t message_put_request(uint8_t *buf, const char *name)
{
	size_t len = strlen(name);

	message_put(buf, message_ask, (uint32_t)len, 0);
	memcpy(buf + MESSAGE_HEADER, name, len);
	return MESSAGE_HEADER + len;
}

/*
 * Copy the name in the @len bytes of @buf to @name, which has
 * MESSAGE_NAME_MAX + 1 bytes.  Returns 0, -EPROTO or -EPROTONOSUPPORT.
 */
static inline int message_get_request(char *name, const uint8_t *buf,
				      size_t len)
{
	uint32_t name_len, zero;
	int err = message_get(&name_len, &zero, buf, len, message_ask);

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

/* @err is 0 or a negative errno; @len bytes of a descriptor follow. */
static inline size_t message_put_answer(uint8_t *buf, int err,
					const void *desc, size_t len)
{
	message_put(buf, message_say, (uint32_t)-err, (uint32_t)len);
	if (len)
		memcpy(buf + MESSAGE_HEADER, desc, len);
	return MESSAGE_HEADER + len;
}

/* The errno @code that was answered, if it is one that may be. */
static inline int message_refusal(uint32_t code)
{
	size_t i;

	for (i = 0; i < sizeof(message_errnos) / sizeof(message_errnos[0]); i++)
		if ((uint32_t)message_errnos[i] == code)
			return -message_errnos[i];
	return -EPROTO;
}

/*
 * What the @len bytes of @buf answer.  Returns 0 with *@desc and *@desc_len
 * set, or the negative errno of the exporter, or -EPROTO or -EPROTONOSUPPORT.
 */
static inline int message_get_answer(const void **desc, size_t *desc_len,
				     const uint8_t *buf, size_t len)
{
	uint32_t code, n;
	int err = message_get(&code, &n, buf, len, message_say);

	if (err)
		return err;
	if (code)
		return message_refusal(code);
	if (!n || len != MESSAGE_HEADER + (size_t)n)
		return -EPROTO;
	*desc = buf + MESSAGE_HEADER;
	*desc_len = n;
	return 0;
}

#endif /* WEIR_MEM_EXPORT_MESSAGE_H */
