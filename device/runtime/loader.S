// Secondary loader: brings the image of every tile from host pages into its SRAM (loader.h).
//
// The autoloader puts these bytes at 0x4c000 of every tile and starts them there. An image may fill
// all of 0x4c010..0xe7baf, so the loader must get out of its own way:
// - `start` moves what stays resident to LOADER_HOME, the place of frame 34 behind the host window,
//   which few images reach. When frame 34 comes, it waits behind the last loadable byte. At the end
//   it is copied over the resident code but for the last part, which does that; four instructions
//   at 0x4c000, which no image reaches, copy the rest and fall through into the image.
// - Host words arrive in the window 0x50000..0x53fff. Frames that end up there are only noted. When
//   all others are placed they are asked for once more and received in place: the payload of a
//   frame read to 0x4c000 + 992 i lies where it belongs. What its header and trailer overwrite is
//   kept.
// Beside the frames only the autoloaded bytes, the window, frame 34 and the tail of SRAM change.
//
// Batch r loads the tiles of physical row r. The owners of the columns (row 0) take part in each
// batch to grant the reads; other tiles sit out all batches but theirs and the last meeting.
//
// Supervisor registers that last: m8 state, m9 batch (owners), m11 and m12 the id in packet words.

#include "loader.inc"

// Where a label of the resident part is when it runs.
#define AT(label) ((label) + LOADER_HOME - LOADER_IMAGE)

    .section .text.loader, "ax"
    .align 8
    .globl loader_entry
    .type loader_entry, @function
    .supervisor
loader_entry:                       // 0x4c000
    bri start
    nop                             // 16 bytes for `stub`
    nop
    nop

// --- resident ----------------------------------------------------------------------------------

    .globl resident
resident:                           // at 0x4c010, runs at LOADER_HOME
// Asks for m2 frames from host offset m0 on, with headers at m3 of which the first begins with the
// word m4, and waits for them. Changes m3, m4, m5, m7.
read:
    put $OUTGOING_BASE, $m3
    shl $m7, $m2, 8
    put $INCOMING_DCOUNT, $m7
    shr $m5, $m0, 2                 // units of 64 bytes, in bits 4 and up
    or $m5, $m5, $m12
    add $m7, $m2, -1
1:
    st32step $m4, $mzero, $m3+=, 1
    st32step $m5, $mzero, $m3+=, 1
    add $m4, $m4, LOADER_FRAME / 32
    add $m5, $m5, LOADER_FRAME / 4
    brnzdec $m7, AT(1b)
    add $m3, $m3, -8                // the last header of a stream says so
    ld32 $m4, $m3, $mzero, 0
    or $m4, $m4, 0x0c000000
    st32 $m4, $m3, $mzero, 0
    add $m7, $m2, -1
    send 1, 0, 3                    // two words
    brz $m7, AT(3f)
    add $m7, $m7, -1
2:
    sendoff 1, 0, 3
    brnzdec $m7, AT(2b)
3:
    sync 0
    br $m10

// This tile's descriptor: host offset m0, frames m1. The window is as before. Changes m2..m6.
descriptor:
    or $m2, $m11, 0xcc000000
    or $m2, $m2, 0x200
    ld32 $m3, $m8, $mzero, STATE_ID
    and $m3, $m3, 63
    shl $m3, $m3, 5                 // eight bytes: two units of four
    or $m3, $m3, 2
    or $m3, $m3, $m12
    st32 $m2, $m8, $mzero, STATE_PACKET
    st32 $m3, $m8, $mzero, STATE_PACKET + 1
    setzi $m4, 2
    put $INCOMING_DCOUNT, $m4
    setzi $m4, LOADER_WINDOW
    ld32 $m5, $m4, $mzero, 0
    ld32 $m6, $m4, $mzero, 1
    add $m2, $m8, 4 * STATE_PACKET
    put $OUTGOING_BASE, $m2
    send 1, 0, 3                    // two words
    sync 0
    ld32 $m0, $m4, $mzero, 0
    ld32 $m1, $m4, $mzero, 1
    st32 $m5, $m4, $mzero, 0
    st32 $m6, $m4, $mzero, 1
    br $m10

// Loads this tile's image in its batch. Returns through m13.
target:
    call $m10, AT(descriptor)
    cmpeq $m2, $m0, -1
    brnz $m2, AT(too_early)
    brz $m1, AT(loaded)
burst:
    min $m2, $m1, LOADER_BURST
    st32 $m2, $m8, $mzero, STATE_COUNT
    st32 $m0, $m8, $mzero, STATE_OFFSET
    setzi $m3, LOADER_WINDOW
    or $m4, $m11, 0xe0000000
    or $m4, $m4, 0x200
    call $m10, AT(read)
    setzi $m3, AT(place_frames)
    runall $m3, $m8, 0
    shl $m4, $m2, 10
    add $m0, $m0, $m4
    sub $m1, $m1, $m2
    sync 2
    brnz $m1, AT(burst)
    setzi $m3, LOADER_WINDOW - LOADER_FRAME
    add $m3, $m3, $m4
    ld32 $m3, $m3, $mzero, 2        // the last frame's flags
    shl $m3, $m3, 4
    brpos $m3, AT(truncated)
    ld32 $m3, $m8, $mzero, STATE_NOTED
    brz $m3, AT(loaded)
    // Frames 16 and 33, half in the window, come through its middle.
    add $m1, $m8, 0
    setzi $m6, LOADER_IMAGE + WINDOW_FIRST * LOADER_PAYLOAD
edge:
    ld32 $m0, $m1, $mzero, STATE_TABLE
    brz $m0, AT(1f)
    setzi $m2, 1
    add $m3, $m8, 4 * STATE_PACKET
    or $m4, $m11, 0xe0000000
    or $m4, $m4, 0x200 | 0x2000 / 32
    call $m10, AT(read)
    setzi $m3, LOADER_WINDOW + 0x2010
    setzi $m7, LOADER_PAYLOAD / 16 - 1
    call $m10, AT(copy)
1:
    add $m1, $m1, 4 * (WINDOW_LAST - WINDOW_FIRST)
    sub $m2, $m1, $m8
    cmpult $m2, $m2, 4 * (WINDOW_LAST - WINDOW_FIRST) + 1
    setzi $m6, LOADER_IMAGE + WINDOW_LAST * LOADER_PAYLOAD
    brnz $m2, AT(edge)
    // Frames 17 to 32, in ascending order, in place.
    setzi $m6, LOADER_BASE + (WINDOW_FIRST + 1) * LOADER_PAYLOAD
    setzi $m1, (WINDOW_LAST - WINDOW_FIRST - 2)
    add $m9, $m8, 4 * (STATE_TABLE + 1)
inplace:
    ld32step $m0, $mzero, $m9+=, 1
    brz $m0, AT(1f)
    add $m3, $m8, 4 * STATE_SCRATCH
    add $m2, $m6, 0
    call $m10, AT(move)
    add $m2, $m6, LOADER_FRAME - 16
    call $m10, AT(move)
    setzi $m2, 1
    add $m3, $m8, 4 * STATE_PACKET
    setzi $m4, LOADER_WINDOW
    sub $m4, $m6, $m4
    shr $m4, $m4, 5
    or $m4, $m4, $m11
    or $m4, $m4, 0xe0000000
    or $m4, $m4, 0x200
    call $m10, AT(read)
    add $m2, $m8, 4 * STATE_SCRATCH
    add $m3, $m6, 0
    call $m10, AT(move)
    add $m3, $m6, LOADER_FRAME - 16
    call $m10, AT(move)
1:
    add $m6, $m6, LOADER_PAYLOAD
    brnzdec $m1, AT(inplace)
    get $m3, $TILE_ID               // the scratch words are in use no longer
    st32 $m3, $m8, $mzero, STATE_ID
    setzi $m9, 0                    // only an owner counts, and it is in batch 0
loaded:
    br $m13

// Four words from m2 on to m3 on; both advance. Changes m4.
move:
    setzi $m5, 3
1:
    ld32step $m4, $mzero, $m2+=, 1
    st32step $m4, $mzero, $m3+=, 1
    brnzdec $m5, AT(1b)
    br $m10

// Grants m0 and m1 (XREQ).
grant:
    st32 $m0, $m8, $mzero, STATE_PACKET
    st32 $m1, $m8, $mzero, STATE_PACKET + 1
    add $m2, $m8, 4 * STATE_PACKET
    put $OUTGOING_BASE, $m2
    send 1, 0, 3                    // two words
    br $m10

// A tile that owns no column. `start` has put the right word at `sit_out_rest`: a count, or a
// branch to `last_meeting` where no batch is left to sit out.
member:
    sync 5
    call $m13, AT(target)
sit_out_rest:
    sans 0
    sync 1
last_meeting:
    sync 5
    bri AT(execute)

owner:
    sync 13
    shl $m2, $m9, 1
    setzi $m0, 3
    setzi $m1, 3
    cmpult $m3, $m2, 24
    shl $m0, $m0, $m2
    add $m2, $m2, -24
    shl $m1, $m1, $m2
    brnz $m3, AT(1f)
    setzi $m0, 0
    bri AT(2f)
1:
    setzi $m1, 0
2:
    call $m10, AT(grant)
    brnz $m9, AT(3f)
    call $m13, AT(target)
3:
    add $m9, $m9, 1
    cmpult $m2, $m9, LOADER_BATCHES
    brnz $m2, AT(owner)
    sync 13
    sub $m0, -1, $mzero
    shr $m0, $m0, 8
    shr $m1, $m0, 2
    call $m10, AT(grant)
execute:
    call $m10, AT(descriptor)
    cmpeq $m2, $m0, -1
    brz $m2, AT(too_late)
    setzi $m3, LOADER_IMAGE
    ld32 $m4, $m3, $mzero, 1        // the entry word of the image
    brz $m4, AT(no_image)
    setzi $m3, AT(stashed)
    ld32 $m4, $m3, $mzero, 0
    brz $m4, LOADER_IMAGE
    setzi $m3, LOADER_STASH
    setzi $m6, AT(resident)
    setzi $m7, (finish - resident) / 16 - 1
    setzi $m10, AT(finish)
    bri AT(copy)
too_early:
    trap TRAP_EARLY
too_late:
    trap TRAP_LATE
no_image:
    trap TRAP_NO_IMAGE
truncated:
    trap TRAP_TRUNCATED

// Worker: frames w, w + 6, ... of the window to where their index says, or a note of them.
    .worker
    .align 8
place_frames:
    get $m0, $WSR
    and $m0, $m0, 7
    ld32 $m1, $mvertex_base, $mzero, STATE_COUNT
next_frame:
    cmpult $m2, $m0, $m1
    brz $m2, AT(placed)
    shl $m2, $m0, 10
    setzi $m3, LOADER_WINDOW
    add $m2, $m2, $m3
    add $m0, $m0, 6
    ld32 $m3, $m2, $mzero, LOADER_FRAME / 4 - 1
    cmpeq $m3, $m3, -1
    brz $m3, AT(torn)
    ld32 $m3, $m2, $mzero, 1
    ld32 $m4, $mvertex_base, $mzero, STATE_ID
    cmpeq $m3, $m3, $m4
    brz $m3, AT(next_frame)             // of another tile
    ld32 $m3, $m2, $mzero, 0
    add $m4, $m3, -WINDOW_FIRST
    cmpult $m5, $m4, WINDOW_LAST - WINDOW_FIRST + 1
    brnz $m5, AT(note_frame)
    cmpult $m5, $m3, LOADER_FRAMES
    brz $m5, AT(bad_index)
    setzi $m4, LOADER_STASH
    cmpeq $m5, $m3, HOME_FRAME
    brnz $m5, AT(stash_frame)
    mul $m3, $m3, LOADER_PAYLOAD
    setzi $m4, LOADER_IMAGE
    add $m4, $m3, $m4
place:
    ld64 $a0:1, $m2, $mzero, 2
    add $m2, $m2, 24
    tapack $m6:7, $m2, $mzero, $m4
    .align 8
    {
        rpt LOADER_PAYLOAD / 8 - 1, 0
        fnop
    }
    {
        ldst64pace $a0:1, $a0:1, $m6:7+=, $mzero, 0
        fnop
    }
    st64pace $a0:1, $m6:7+=, $mzero, 0
    bri AT(next_frame)
stash_frame:
    setzi $m5, AT(stashed)
    st32 $m4, $m5, $mzero, 0
    bri AT(place)
note_frame:
    ld32 $m5, $mvertex_base, $mzero, STATE_OFFSET
    setzi $m3, LOADER_WINDOW
    sub $m2, $m2, $m3
    add $m5, $m5, $m2
    shl $m4, $m4, 2
    st32 $m5, $mvertex_base, $m4, STATE_TABLE
    st32 $m5, $mvertex_base, $mzero, STATE_NOTED
    bri AT(next_frame)
torn:
    trap TRAP_TORN
bad_index:
    trap TRAP_INDEX
placed:
    exitz $mzero
stashed:
    .long 0                         // whether frame HOME_FRAME has come

// --- what the end needs, itself copied last -----------------------------------------------------

    .supervisor
    .align 16
finish:
    setzi $m1, LOADER_STASH
    setzi $m0, finish - resident
    add $m1, $m1, $m0
    setzi $m2, AT(finish)
    setzi $m3, (resident + LOADER_PAYLOAD - finish) / 4 - 1
    bri loader_entry                // `stub` by now
// m7 + 1 times four words from m3 on to m6 on. By the supervisor: at the end it overwrites code,
// which the simulator would decode again for a worker at each store. Changes m2 to m7, m9.
copy:
    ld32step $m2, $mzero, $m3+=, 1
    ld32step $m4, $mzero, $m3+=, 1
    ld32step $m5, $mzero, $m3+=, 1
    ld32step $m9, $mzero, $m3+=, 1
    st32step $m2, $mzero, $m6+=, 1
    st32step $m4, $mzero, $m6+=, 1
    st32step $m5, $mzero, $m6+=, 1
    st32step $m9, $mzero, $m6+=, 1
    brnzdec $m7, AT(copy)
    br $m10
    .globl resident_end
resident_end:

// --- start: runs once ---------------------------------------------------------------------------

    .supervisor
start:
    setzi $m0, move_home
    run $m0, $mzero, 0
    get $m0, $TILE_ID
    setzi $m8, LOADER_STATE
    shr $m11, $m0, 1
    shl $m11, $m11, 16
    and $m1, $m0, 1
    shl $m12, $m1, 31
    shl $m1, $m1, 15
    or $m11, $m11, $m1
    put $INCOMING_BASE, $mzero
    and $m7, $m0, 0x3d
    add $m1, $m7, 0x600
    put $INCOMING_MUX, $m1          // the exchange block of this column
    setzi $m3, stub
    ld32 $m1, $m3, $mzero, 0
    ld32 $m2, $m3, $mzero, 1
    ld32 $m4, $m3, $mzero, 2
    ld32 $m5, $m3, $mzero, 3
    setzi $m3, loader_entry
    st32 $m1, $m3, $mzero, 0
    st32 $m2, $m3, $mzero, 1
    st32 $m4, $m3, $mzero, 2
    st32 $m5, $m3, $mzero, 3
    sync 2                          // the code has moved, the state is 0
    st32 $m0, $m8, $mzero, STATE_ID
    st32 $mzero, $m3, $mzero, 5     // no image yet
    setzi $m9, 0
    cmpeq $m3, $m7, $m0
    brz $m3, 1f
    bri AT(owner)
1:
    shr $m3, $m0, 6                 // the row: batches before this tile's own
    sub $m4, LOADER_BATCHES - 2, $m3    // batches after it, less 1
    setzi $m5, 0
    or $m5, $m5, 0x40c00000         // sans
    or $m6, $m4, $m5
    brpos $m4, 2f
    setzi $m6, AT(last_meeting)
    shr $m6, $m6, 2
    or $m6, $m6, 0x40800000         // bri last_meeting
2:
    setzi $m4, AT(sit_out_rest)
    st32 $m6, $m4, $mzero, 0
    brz $m3, 3f
    add $m3, $m3, -1
    or $m3, $m3, $m5
    setzi $m4, sit_out_first
    st32 $m3, $m4, $mzero, 0
    bri sit_out_first               // a taken branch: nothing of it has been fetched
3:
    bri AT(member)

// Copied to 0x4c000: m3 + 1 words from m1 to m2, then on into the image.
stub:
    ld32step $m0, $mzero, $m1+=, 1
    st32step $m0, $mzero, $m2+=, 1
    brnzdec $m3, loader_entry
    nop

    .worker
    .align 8
move_home:
    setzi $m0, resident
    setzi $m1, AT(resident)
    .align 8
    {
        rpt LOADER_PAYLOAD / 8, 1
        fnop
    }
    {
        ld64step $a0:1, $mzero, $m0+=, 1
        fnop
    }
    {
        st64step $a0:1, $mzero, $m1+=, 1
        fnop
    }
    setzi $m0, LOADER_STATE
    .align 8
    {
        rpt STATE_WORDS / 2, 0
        fnop
    }
    {
        st64step $azeros, $mzero, $m0+=, 1
        fnop
    }
    exitz $mzero

    .supervisor
    .space 64
sit_out_first:
    sans 0
    sync 1
    bri AT(member)
    .size loader_entry, . - loader_entry
