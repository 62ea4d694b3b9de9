/* The program ipud, with the engine to use: the production one in ipud.c, another in tests. */
#ifndef IPU_DAEMON_MAIN_H
#define IPU_DAEMON_MAIN_H

#include "daemon/engine.h"

/* Runs the daemon, or one of its worker programs when argv says `--worker KIND`. Returns the exit
 * status. */
int ipud_main(const struct engine *engine, int argc, char **argv);

#endif
