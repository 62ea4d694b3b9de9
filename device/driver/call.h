/* The protocol between a tile program and the driver. Code generation follows it exactly; the
 * signals are facts/host_protocol.md sections 6 to 9, the order is this project's own.
 *
 * Marks. GS1 and GS2 are 16-bit marks. The host writes a nonzero mark and waits until it reads 0:
 * the tiles have completed one external sync. Tiles use zone 7; a tile that owns an exchange block
 * in the coming phase (it sends the XREQ) enters with zone 15. Tiles that take no part in a batch
 * sit out its two syncs with `sans 1; sync 1`.
 *
 * Start. The runtime (device/runtime) ends its start sequence with one `sync 7`, which the final
 * mark (23, in GS1) completes. The session then starts with one more external sync of all tiles,
 * `sync 7` at the head of the program, which GS2 completes.
 *
 * Pages. Page 0 (device offset 0) is a command page of 4,096 bytes that programs do not use. Page 1
 * (from offset 4096) has 4,096 bytes for each of the 1,472 tiles in ascending logical order: those
 * of tile t are at offset 4096 + 4096 * t. Bytes of a tile's stream: batch b carries bytes
 * [4096 b, 4096 b + 4096), see struct package_nest.
 *
 * Call `initialize` (package call 0): input batches only, possibly none. Call `run` (call 1): input
 * batches, computation, output batches. After its last batch the program waits in the entry sync of
 * the next `run`.
 *
 * Input batch b:  entry sync | owners grant, tiles read their pages | exit sync 7
 *     host phase 2b:      fill the pages, GS2 = 1, wait for 0   (entry)
 *     host phase 2b + 1:  GS2 = 1, wait for 0                   (exit)
 * Output batch j: entry sync | owners grant, tiles write their pages | exit sync 7
 *     The entry of batch 0 is an internal `sync 3` and no host phase: the pages are free. A tile
 *     without data sits that batch out with `sans 1; sync 1` (or `sans 0; sync 1` twice). The entry
 *     of batch j > 0 is a host sync, host phase 2 inputs + 2j - 1: GS2 = 1, wait for 0.
 *     host phase 2 inputs + 2j:  GS2 = 1, wait for 0; then copy the pages out (exit)
 * So a call has 2 * inputs + (outputs ? 2 * outputs - 1 : 0) host phases, as its package declares.
 */
#ifndef IPU_DRIVER_CALL_H
#define IPU_DRIVER_CALL_H

#include "device/driver/session.h"

/* Runs one call. Outputs of `run` are left in session->streams. */
IPU_MUST_CHECK int call_run(struct device_session *session, enum package_call call,
                            struct ipu_error *error);

#endif
