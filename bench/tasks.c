/* SPDX-License-Identifier: BSD-3-Clause */

/* CPU time by thread: see the header. */

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/tasks.h"

/* The beginning of a file of one of them; empty if it has ended. */
static void read_about(char text[64], const char *dir, const char *id,
		       const char *name)
{
	char path[400];
	FILE *f;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s/%s", dir, id, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(text, 64, f))
		text[0] = '\0';
	fclose(f);
}

static bool is_kernels(const char *id)
{
	static const char *const names[] = { "kworker/u", "loop" };
	char comm[64];

	read_about(comm, "/proc", id, "comm");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(comm, names[i], strlen(names[i])))
			return true;
	return false;
}

static void read_all(struct bench_tasks *t, const char *dir,
		     bool (*wanted)(const char *id))
{
	struct dirent *entry;
	DIR *d = opendir(dir);
	char text[64];
	long id;

	t->n = 0;
	while (d && t->n < BENCH_TASKS_MAX && (entry = readdir(d))) {
		id = strtol(entry->d_name, NULL, 10);
		if (id <= 0 || (wanted && !wanted(entry->d_name)))
			continue;
		read_about(text, dir, entry->d_name, "schedstat");
		t->task[t->n].id = id;
		t->task[t->n++].ns = strtoull(text, NULL, 10);
	}
	if (d)
		closedir(d);
}

void bench_tasks_of(struct bench_tasks *t, pid_t pid)
{
	char dir[64];

	snprintf(dir, sizeof(dir), "/proc/%d/task", pid);
	read_all(t, dir, NULL);
}

void bench_tasks_kernel(struct bench_tasks *t)
{
	read_all(t, "/proc", is_kernels);
}

static uint64_t used_by(const struct bench_tasks *before,
			const struct bench_task *task)
{
	for (unsigned int i = 0; i < before->n; i++)
		if (before->task[i].id == task->id &&
		    before->task[i].ns <= task->ns)
			return task->ns - before->task[i].ns;
	return task->ns;
}

uint64_t bench_tasks_busiest(const struct bench_tasks *before,
			     const struct bench_tasks *after)
{
	uint64_t ns, most = 0;

	for (unsigned int i = 0; i < after->n; i++) {
		ns = used_by(before, &after->task[i]);
		most = ns > most ? ns : most;
	}
	return most;
}

uint64_t bench_tasks_used(const struct bench_tasks *before,
			  const struct bench_tasks *after)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < after->n; i++)
		sum += used_by(before, &after->task[i]);
	return sum;
}
