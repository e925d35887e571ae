// SPDX-License-Identifier: GPL-2.0
/* Runs a command as the user nobody: unprivileged COMMAND... */
#include <stdio.h>
#include <unistd.h>

enum { NOBODY = 65534 };

int main(int argc, char **argv)
{
	if (argc < 2 || setgid(NOBODY) || setuid(NOBODY)) {
		perror("unprivileged");
		return 1;
	}
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
