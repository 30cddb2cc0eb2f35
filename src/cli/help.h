/* SPDX-License-Identifier: BSD-3-Clause */
/* help: what --help prints. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "args.h"

/* Print the help of a command, or with CLI_COMMAND_NONE of the tool, to stdout. */
void cli_help(cli_command command);

#endif
