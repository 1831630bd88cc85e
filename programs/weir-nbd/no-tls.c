/* SPDX-License-Identifier: CC0-1.0 */
/* In a build without OpenSSL: there is no TLS. */
#include <errno.h>

#include "weir-nbd.h"

int tls_open(struct server *server)
{
	if (!server->opts.tls)
		return 0;
	say("this weir-nbd was built without TLS", -EOPNOTSUPP);
	return -EOPNOTSUPP;
}

void tls_close(struct server *server)
{
	(void)server;
}

void tls_reload(struct server *server)
{
	(void)server;
}

void tls_begin(struct conn *c)
{
	(void)c;
}

void tls_say_end(struct conn *c)
{
	(void)c;
}

void tls_end(struct conn *c)
{
	(void)c;
}
