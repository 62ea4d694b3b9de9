/* Showing a job while it runs: shared by submit and watch.
 *
 * On a terminal: one live line on stderr with phase, bar and best cost so far. Otherwise plain
 * lines on stderr, one an event. Result lines always go to stdout. Interrupt (SIGINT, SIGTERM)
 * raises a flag and wakes the connection. One follower per process.
 */
#ifndef IPU_CLIENT_FOLLOW_H
#define IPU_CLIENT_FOLLOW_H

#include "client/command.h"

struct follow {
    struct context *context;
    bool terminal; /* stderr is a terminal: draw the live line */
    bool show_log; /* print log records */
    bool json;     /* events as JSON lines on stdout */
    bool drawn;
    char line[160];  /* the live line now on the screen */
    char error[512]; /* shown already: the state that follows does not say it again */
};

/* Prepares `follow` and installs the interrupt handlers; the connection's wake descriptor is set.
 * False with c->error set. */
bool follow_begin(struct follow *follow, struct context *c, bool show_log);
/* An ipu_event_fn with a struct follow as context. */
int follow_event(void *context, const Ipu__Rpc__Event *event);
/* Progress of an upload, for the live line. */
void follow_upload(void *context, uint64_t done, uint64_t total);
/* Clears the live line. */
void follow_end(struct follow *follow);
/* Whether the user interrupted; also re-arms the wake descriptor for further calls. */
bool follow_interrupted(struct follow *follow);

#endif
