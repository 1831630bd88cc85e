/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The sentence per thread, and the version: what has no object of its own. */

#include <stdarg.h>
#include <stdio.h>

#include <weir/base.h>

#include "base/why.h"

#define WHY_MAX 512

static _Thread_local char sentence[WHY_MAX];

#define STR(x) #x
#define DOTTED(a, b, c) STR(a) "." STR(b) "." STR(c)

const char *weir_version(void)
{
	return DOTTED(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
		      WEIR_VERSION_PATCH);
}

const char *weir_why(void)
{
	return sentence;
}

int why(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	return err;
}
