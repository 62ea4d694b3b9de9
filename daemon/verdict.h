/* Verdicts: whether the outputs of a run have passed their check before. Loop thread only.
 *
 * A check is a function of the workload file, the compiler and reference in this program, the bytes
 * of the outputs, and the figures that its result line prints. The digest of all these is the key;
 * only passed checks are kept, so a run that gives one other bit is always compared in full.
 */
#ifndef IPU_DAEMON_VERDICT_H
#define IPU_DAEMON_VERDICT_H

#include "daemon/job.h"

/* Looks for the verdict of a job in CHECKING; ends in jobs_checked() or jobs_check_needed(). */
void verdict_find(struct job *job);
/* Keeps the result line of a job whose check has just passed. */
void verdict_keep(const struct job *job, const char *line);

#endif
