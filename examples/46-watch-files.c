/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Changes of files, as a program follows its configuration: a directory is
 * watched; a file in it is written beside its place and moved there; it is moved
 * away, and the directory is removed.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/fswatch.h>
#include <weir/reactor.h>

static struct weir_reactor *reactor;
static char dir[] = "/tmp/weir-watch-XXXXXX";
static unsigned int seen;

static const char *path(const char *name)
{
	static char paths[2][64];
	static int i;

	i = !i;
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", dir, name);
	return paths[i];
}

static void on_change(struct weir_fswatch *watch,
		      const struct weir_fswatch_event *e, void *arg)
{
	(void)watch, (void)arg;
	seen++;
	if (e->mask & IN_Q_OVERFLOW) {
		printf("changes were lost: look at all again\n");
	} else if (e->from_name) {
		printf("%s: %s is now %s: read it\n", (char *)e->data,
		       e->from_name, e->name);
		unlink(path(e->name));
	} else if (e->mask & IN_CLOSE_WRITE) {
		printf("%s: %s was written\n", (char *)e->data, e->name);
		rename(path("new"), path("current"));
	} else if (e->mask & IN_DELETE) {
		printf("%s: %s is gone\n", (char *)e->data, e->name);
		rmdir(dir);
	} else if (e->mask & IN_IGNORED) {
		printf("%s: it is gone itself\n", (char *)e->data);
		weir_reactor_stop(reactor);
	}
}

int main(void)
{
	struct weir_fswatch *watch = NULL;
	int err, fd;

	if (!mkdtemp(dir) || weir_reactor_create(&reactor, NULL)) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	err = weir_fswatch_create(&watch, reactor, on_change, NULL);
	if (!err)
		err = weir_fswatch_add(watch, dir, IN_CLOSE_WRITE | IN_MOVE |
				       IN_DELETE | IN_ONLYDIR, "config");
	if (err < 0) {
		printf("%s\n", weir_why());
		return err == -EMFILE || err == -ENOSPC ? 77 : 1;
	}
	fd = open(path("new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	err = weir_reactor_run(reactor);
	weir_fswatch_destroy(watch);
	if (!err)
		err = weir_reactor_destroy(reactor);
	return err || seen != 4;
}
