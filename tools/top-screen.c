/* SPDX-License-Identifier: BSD-3-Clause */

/* weir top on a terminal: the text of top-text.c, as much as fits, refreshed.
 * Keys: q quits, arrows and page keys scroll, a blank pauses. */

#include <errno.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "top.h"

struct screen {
	struct process *p;
	char *text;		/* As of the last look. */
	int top;		/* The line that is uppermost. */
	int lines;		/* Of the text. */
	bool paused;
};

static int count_lines(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static int take_text(struct screen *s)
{
	size_t len;
	FILE *f;

	free(s->text);
	s->text = NULL;
	f = open_memstream(&s->text, &len);
	if (!f)
		return -errno;
	top_text(f, s->p);
	if (fclose(f))
		return -errno;
	s->lines = count_lines(s->text);
	return 0;
}

static void move_by(struct screen *s, int n)
{
	s->top += n;
	if (s->top > s->lines - (LINES - 1))
		s->top = s->lines - (LINES - 1);
	if (s->top < 0)
		s->top = 0;
}

/* The text may be shorter than before, and the terminal taller. */
static void draw(struct screen *s)
{
	const char *line = s->text, *end;
	int y;

	move_by(s, 0);
	erase();
	for (y = 0; y < s->top && *line; y++)
		line = strchr(line, '\n') + 1;
	for (y = 0; y < LINES - 1 && *line; y++, line = end + 1) {
		end = strchr(line, '\n');
		mvaddnstr(y, 0, line, end - line < COLS ? (int)(end - line) :
							  COLS);
	}
	attron(A_REVERSE);
	mvaddnstr(LINES - 1, 0, s->paused ?
		  " q quit   arrows move   space goes on " :
		  " q quit   arrows move   space stops   ", COLS);
	attroff(A_REVERSE);
	refresh();
}

/* Returns whether to continue. */
static bool heed(struct screen *s, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case ' ':
		s->paused = !s->paused;
		break;
	case KEY_UP:
		move_by(s, -1);
		break;
	case KEY_DOWN:
		move_by(s, 1);
		break;
	case KEY_PPAGE:
		move_by(s, -(LINES - 1));
		break;
	case KEY_NPAGE:
		move_by(s, LINES - 1);
		break;
	}
	return true;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait until the interval is over.  Returns whether to continue. */
static bool wait_for_keys(struct screen *s, int64_t until)
{
	int64_t left;
	int key;

	for (left = until - now_ms(); left > 0; left = until - now_ms()) {
		timeout((int)left);
		key = getch();
		if (key != ERR && !heed(s, key))
			return false;
		draw(s);
	}
	return true;
}

static int look_and_draw(struct screen *s, bool first)
{
	int err = first || s->paused ? 0 : process_look(s->p);

	if (!err && !s->paused)
		err = take_text(s);
	if (!err)
		draw(s);
	return err;
}

/* 0, or an errno, to be reported when the terminal has been restored. */
static int show_on(struct screen *s, uint64_t interval_ns, uint64_t count)
{
	int64_t interval = (int64_t)(interval_ns / WEIR_MSEC);
	uint64_t n;
	int err;

	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	for (n = 0; !count || n < count; n++) {
		err = look_and_draw(s, n == 0);
		if (err)
			return err;
		if (!wait_for_keys(s, now_ms() + interval))
			break;
	}
	return 0;
}

int top_screen(struct process *p, uint64_t interval_ns, uint64_t count)
{
	struct screen s = { .p = p };
	SCREEN *term;
	int err;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -1;
	term = newterm(NULL, stdout, stdin);
	if (!term)
		return -1;
	err = show_on(&s, interval_ns, count);
	endwin();
	delscreen(term);
	free(s.text);
	return err ? process_failed(p, err) : EXIT_OK;
}
