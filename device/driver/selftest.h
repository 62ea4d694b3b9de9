/* Step by step from a closed device node to a checked kernel result, so that an owner of a card can
 * tell how far it gets (`ipuctl device selftest`). The same steps for every device.
 *
 * The steps, in order; the little programs that they load are assembled on the spot from the text
 * in this module and packaged like any other (device/asm, device/package):
 *   open            the node opens, its register window maps, the process attaches
 *   reset           the controller of the card answers its mailbox and the device comes out of
 *                   reset
 *   configuration   every write of the IPUCFG1 file, both marks read back 0
 *   load            a program of one tile reaches it through autoloader and secondary loader
 *   synchronise     all tiles pass the first host synchronisation, the session starts, and the
 *                   debug interface reads what the program computed
 *   exchange        two tiles send each other words over the fabric and compare them
 *   kernel          a GEMM of device/kernels on the AMP units (an addition when the device takes
 *                   other AMP flag numbers than ours); every element of the result is compared
 *   host pages      each of a set of tiles returns the pages it was sent, changed in a known way
 *
 * The device is opened for the test and closed after it; nobody else may hold it. Blocks for as
 * long as the timeouts of the steps say (a second on a healthy device, at most about a minute), so
 * an event loop must not call it. Thread: any, one at a time for each device.
 */
#ifndef IPU_DRIVER_SELFTEST_H
#define IPU_DRIVER_SELFTEST_H

#include "device/driver/driver.h"

enum selftest_outcome {
    SELFTEST_PASSED,
    SELFTEST_FAILED,
    SELFTEST_SKIPPED /* an earlier step failed, or this device cannot take it: `detail` says why */
};

struct selftest_step {
    unsigned index, count; /* 0 .. count - 1 */
    const char *name;      /* "open", one of the above; constant */
    enum selftest_outcome outcome;
    const char *detail; /* one line for people, valid during the callback */
    const char *report; /* many lines: what device_fault_report() says; "" when passed */
    double milliseconds;
};
typedef void (*selftest_callback)(void *context, const struct selftest_step *step);

/* Runs the steps and reports each when it has ended; all of them are reported, in order. Options:
 * as for device_open(). 0 when no step failed, else the code of the first failure with its sentence
 * (IPU_ERR_CANCELLED when options->cancel was set). */
IPU_MUST_CHECK int device_selftest(const struct device_options *options, selftest_callback callback,
                                   void *context, struct ipu_error *error);
/* Name of step `index`, or NULL past the end. */
const char *selftest_step_name(unsigned index);
const char *selftest_outcome_name(enum selftest_outcome outcome); /* "passed" */

#endif
