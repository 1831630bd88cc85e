/* SPDX-License-Identifier: BSD-3-Clause */
/* Statuses of commands, as errnos and as text. */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "nvme/nvme.h"

/* The type and the code; the rest of a status says what to do about it. */
#define CODE 0x7ff

static const struct {
	uint16_t status;
	int16_t err;
	const char *text;
} statuses[] = {
	{ 0x000, 0, "success" },
	{ 0x001, -EOPNOTSUPP, "invalid command opcode" },
	{ 0x002, -EINVAL, "invalid field in command" },
	{ 0x004, -EIO, "data transfer error" },
	{ 0x005, -EIO, "aborted: power loss" },
	{ 0x006, -EIO, "internal error" },
	{ 0x007, -EIO, "aborted by request" },
	{ 0x008, -EIO, "aborted: its queue was deleted" },
	{ 0x00b, -EINVAL, "invalid namespace or format" },
	{ 0x00c, -EIO, "command sequence error" },
	{ 0x013, -EINVAL, "PRP offset invalid" },
	{ 0x01c, -EIO, "sanitize failed" },
	{ 0x01d, -EIO, "sanitize in progress" },
	{ 0x020, -EROFS, "namespace is write protected" },
	{ 0x021, -EIO, "interrupted" },
	{ 0x022, -EIO, "transient transport error" },
	{ 0x080, -ERANGE, "LBA out of range" },
	{ 0x081, -ENOSPC, "capacity exceeded" },
	{ 0x082, -EIO, "namespace not ready" },
	{ 0x083, -EBADE, "reservation conflict" },
	{ 0x084, -EIO, "format in progress" },
	{ 0x10a, -EINVAL, "invalid format" },
	{ 0x180, -EINVAL, "conflicting attributes" },
	{ 0x181, -EINVAL, "invalid protection information" },
	{ 0x182, -EROFS, "write to a read only range" },
	{ 0x183, -EINVAL, "command size limit exceeded" },
	{ 0x280, -EIO, "write fault" },
	{ 0x281, -EIO, "unrecovered read error" },
	{ 0x282, -EILSEQ, "end-to-end guard check error" },
	{ 0x283, -EILSEQ, "end-to-end application tag check error" },
	{ 0x284, -EILSEQ, "end-to-end reference tag check error" },
	{ 0x285, -EILSEQ, "compare failure" },
	{ 0x286, -EACCES, "access denied" },
	{ 0x287, -ENODATA, "deallocated or unwritten logical block" },
	{ 0x300, -EIO, "internal path error" },
	{ 0x301, -EIO, "asymmetric access persistent loss" },
	{ 0x302, -EIO, "asymmetric access inaccessible" },
	{ 0x303, -EIO, "asymmetric access transition" },
	{ 0x360, -EIO, "controller path error" },
	{ 0x370, -EIO, "host path error" },
	{ 0x371, -EIO, "aborted by the host" },
};

#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

static size_t find(int status)
{
	size_t i = 0;

	while (i < STATUSES && statuses[i].status != (status & CODE))
		i++;
	return i;
}

int nvme_errno(int res)
{
	size_t i;

	/* The kernel has no such call for this file. */
	if (res == -ENOTTY)
		return -EOPNOTSUPP;
	if (res == -ENXIO)
		return -ENODEV;
	if (res <= 0)
		return res;
	i = find(res);
	return i < STATUSES ? statuses[i].err : -EIO;
}

const char *weir_nvme_status_text(int status)
{
	const char *text = status < 0 ? strerrordesc_np(-status) : NULL;
	size_t i = find(status);

	if (status < 0)
		return text ? text : "unknown status";
	return i < STATUSES ? statuses[i].text : "unknown status";
}
