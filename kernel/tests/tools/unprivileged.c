// SPDX-License-Identifier: GPL-2.0
/* Runs a command as the user nobody: unprivileged NICE COMMAND... */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NOBODY = 65534 };

int main(int argc, char **argv)
{
	if (argc < 3 || setgid(NOBODY) || setuid(NOBODY) ||
	    nice(atoi(argv[1])) == -1) {
		perror("unprivileged");
		return 1;
	}
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
