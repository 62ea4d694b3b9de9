/* The sandbox of a compile worker: no file can be made, changed or removed (Landlock).
 *
 * Compilers get their input and give their output through the socket and open nothing for writing,
 * so the rule set allows nothing. A kernel without Landlock leaves the process as it is: limits on
 * memory and time, no new privileges, and what the service's unit takes away still hold.
 */
#include "daemon/child.h"

#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void child_enter_sandbox(void)
{
    struct landlock_ruleset_attr rules = {
        .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                             LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                             LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                             LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                             LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM |
                             LANDLOCK_ACCESS_FS_EXECUTE,
    };
    long fd = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd < 0)
        return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)syscall(SYS_landlock_restrict_self, (int)fd, 0);
    close((int)fd);
}
