/* SPDX-License-Identifier: BSD-3-Clause */

/* Programs that weir is compared with: their versions, and the Debian package
 * of each missing one.  The benchmarks name the libraries. */

#include <ctype.h>
#include <string.h>

#include "bench.h"

static const struct {
	const char *name, *command, *package;
} peers[] = {
	{ "UCX", "ucx_info -v", "ucx-utils" },
	{ "libfabric", "fi_info --version", "libfabric-bin" },
	{ "fio", "fio --version", "fio" },
	{ "qemu", "qemu-img --version", "qemu-utils" },
	{ "nbdkit", "nbdkit --version", "nbdkit" },
	{ "nbd-server", "nbd-server --version", "nbd-server" },
	{ "haproxy", "haproxy -v", "haproxy" },
	{ "nginx", "nginx -v", "nginx-core libnginx-mod-stream" },
	{ "socat", "socat -V", "socat" },
	{ "wrk", "wrk -v", "wrk" },
	{ "iperf3", "iperf3 --version", "iperf3" },
};

#define N_PEERS (sizeof(peers) / sizeof(peers[0]))

/* The first word of @line that looks like 1.2 or 1.2.3; the rest of the line is
 * cut off. */
static char *version_in(char *line)
{
	for (char *p = line; *p; p += *p != '\0') {
		size_t len = strspn(p, "0123456789.");
		char *dot = memchr(p, '.', len);

		if (isdigit((unsigned char)*p) && dot && dot < p + len - 1) {
			p[len] = '\0';
			return p;
		}
		p += len;
	}
	return NULL;
}

static bool ask(const char *command, char *version, size_t size)
{
	char full[128], line[256], *found = NULL;
	FILE *f;

	snprintf(full, sizeof(full), "%s 2>&1 </dev/null", command);
	f = popen(full, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = version_in(line);
	if (found)
		snprintf(version, size, "%.*s", (int)size - 1, found);
	if (f)
		pclose(f);	/* Its status says nothing: we may leave early. */
	return found;
}

void write_peers(FILE *out)
{
	char version[32];

	for (size_t i = 0; i < N_PEERS; i++)
		if (ask(peers[i].command, version, sizeof(version)))
			fprintf(out, "{\"peer\":\"%s\",\"version\":\"%s\"}\n",
				peers[i].name, version);
		else
			fprintf(out, "{\"missing\":\"%s\",\"package\":\"%s\"}\n",
				peers[i].name, peers[i].package);
}
