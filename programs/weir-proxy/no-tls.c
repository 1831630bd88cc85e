/* SPDX-License-Identifier: CC0-1.0 */
/* In a build without OpenSSL: a configuration that wants TLS is refused. */
#include "weir-proxy.h"

int tls_make(struct route *route, const struct route *like)
{
	(void)like;
	if (!route->tls.cert && !route->tls.to_target)
		return 0;
	complain("configuration: this weir-proxy was built without TLS");
	return -1;
}

void tls_free(struct route *route)
{
	(void)route;
}

void tls_accept(struct conn *c)
{
	(void)c;
}

void tls_begin(struct conn *c)
{
	(void)c;
}

void tls_close(struct weir_stream *s)
{
	(void)s;
}
