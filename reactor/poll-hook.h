/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_POLL_HOOK_H
#define WEIR_REACTOR_POLL_HOOK_H

#include <weir/poll-hook.h>

#include "base/provider.h"

/*
 * weir_poll_hook_create() for an object of the library's, whose users know
 * nothing of hooks: messages name @what instead.  The hook has no section on
 * the page of statistics, where the object has its own.
 */
int poll_hook_create(struct weir_poll_hook **ret, struct weir_reactor *r,
		     const struct weir_poll_hook_ops *ops, void *arg,
		     const char *what) PROVIDER_API(poll_hook_create);

#endif /* WEIR_REACTOR_POLL_HOOK_H */
