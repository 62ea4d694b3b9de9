/* The .ipuprofile of a run (proto/profile.proto): the package's steps joined with the counters that
 * the tiles wrote. Any thread that owns the session.
 */
#ifndef IPU_DRIVER_PROFILE_H
#define IPU_DRIVER_PROFILE_H

#include "device/driver/driver.h"

#include "base/buffer.h"

/* Appends the serialised profile of the session's last successful run, whose summary is given. A
 * package without samples gives a profile without tiles. */
IPU_MUST_CHECK int profile_build(const struct device_session *session,
                                 const struct package *package,
                                 const struct device_summary *summary, struct buffer *out,
                                 struct ipu_error *error);

#endif
