/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests in C share. */
#include <iolane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	4096

#define expect(condition)						\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: %s (last error: %s)\n",	\
				__FILE__, __LINE__, #condition,		\
				iolane_last_error());			\
			abort();					\
		}							\
	} while (0)

/* Last error: is it told, and does it say this? */
#define expect_text(words)	expect(strstr(iolane_last_error(), words) != NULL)

static inline struct iolane_file *new_file(struct iolane_engine *engine, const char *folder,
					   const char *name, uint64_t size)
{
	struct iolane_file *file;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	expect(iolane_file_open(engine, path,
				IOLANE_OPEN_READ | IOLANE_OPEN_WRITE | IOLANE_OPEN_CREATE,
				size, &file) == 0);
	return file;
}
