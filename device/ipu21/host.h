/* What the host sees of a card: the ioctls of the kernel module and the register window. Facts:
 * facts/driver.md sections 2 to 4. The driver issues them, the board of the simulator implements
 * them; neither has numbers of its own.
 */
#ifndef IPU_IPU21_HOST_H
#define IPU_IPU21_HOST_H

#include <stdint.h>

/* dir << 30 | size << 16 | 0xed << 8 | number */
#define IPU21_HOST_IOCTL(dir, size, number)                                                        \
    ((uint32_t)(dir) << 30 | (uint32_t)(size) << 16 | 0xedu << 8 | (uint32_t)(number))

#define IPU21_HOST_USER_ATTACH       IPU21_HOST_IOCTL(3, 8, 10) /* by value, 0 */
#define IPU21_HOST_BUFFER_ATTACH     IPU21_HOST_IOCTL(3, 8, 11) /* struct ipu21_host_buffer * */
#define IPU21_HOST_BUFFER_DETACH     IPU21_HOST_IOCTL(3, 8, 12) /* by value: index */
#define IPU21_HOST_SET_IPU_ID        IPU21_HOST_IOCTL(3, 8, 14) /* by value, 0 */
#define IPU21_HOST_BUFFER_DETACH_ALL IPU21_HOST_IOCTL(0, 0, 18)
#define IPU21_HOST_MAILBOX           IPU21_HOST_IOCTL(3, 8, 31) /* struct ipu21_host_mail * */
#define IPU21_HOST_STOP_MONITORING   IPU21_HOST_IOCTL(0, 0, 34)
#define IPU21_HOST_START_MONITORING  IPU21_HOST_IOCTL(0, 0, 35)
#define IPU21_HOST_ACCUMULATE_ERRORS IPU21_HOST_IOCTL(0, 0, 36)
#define IPU21_HOST_HEXOPT_IDENTITY   IPU21_HOST_IOCTL(0, 0, 44)
#define IPU21_HOST_RESET_NOTIFY      IPU21_HOST_IOCTL(1, 4, 45) /* by value, 0 */
#define IPU21_HOST_SET_SECONDARY_ID  IPU21_HOST_IOCTL(1, 8, 47) /* const uint32_t * to 0 */

/* Page-aligned memory of this process that the device reads and writes until it is detached. */
struct ipu21_host_buffer {
    uint32_t index, size;
    uint64_t address;
};
/* A message to the controller of the card and its answer, whose upper half of word 0 must repeat
 * that of the request. */
struct ipu21_host_message {
    uint32_t word[5];
};
struct ipu21_host_mail {
    const struct ipu21_host_message *request;
    struct ipu21_host_message *reply;
};
#define IPU21_HOST_MESSAGE_RESET UINT32_C(0x4078020e)

enum { IPU21_HOST_WINDOW_BYTES = 0x80000 };

/* Registers of the window. */
enum ipu21_host_register {
    IPU21_HOST_CCSR = 0x2000,       /* bit 1 no-snoop, bit 10 exchange ECRC */
    IPU21_HOST_AUTOLD_CSR = 0x2068, /* [5:0] words - 1, 8 GO, [19:9] last tile, 20 data present */
    IPU21_HOST_AUTOLD_TARGET = 0x206c, /* 32 << 20 | KiB count << 10 | start KiB */
    IPU21_HOST_AUTOLD_DATA = 0x2070,   /* word FIFO */
    IPU21_HOST_GS1 = 0x302c,           /* low 16 bits: mark */
    IPU21_HOST_GS2 = 0x3030,
    IPU21_HOST_WINDOW_BASE = 0x3044, /* bit 11 HEXOPT */
    IPU21_HOST_TDI = 0x30000         /* + physical * 0x40 + 4 * enum ipu21_host_tdi */
};
enum ipu21_host_tdi {
    IPU21_HOST_TDI_CTXT_STS = 0,
    IPU21_HOST_TDI_RBRK = 1,
    IPU21_HOST_TDI_IEXEC = 3,
    IPU21_HOST_TDI_IOWNER = 4,
    IPU21_HOST_TDI_ECSR = 5,
    IPU21_HOST_TDI_ECLR = 6,
    IPU21_HOST_TDI_DATA = 7,
    IPU21_HOST_TDI_STS = 8,
    IPU21_HOST_TDI_CLR = 9,
    IPU21_HOST_TDI_DCOUNT = 10,
    IPU21_HOST_TDI_EXCHANGE_CTL = 11,
    IPU21_HOST_TDI_CTL = 12
};
#define IPU21_HOST_TDI_REGISTER(physical, r)                                                       \
    ((uint32_t)IPU21_HOST_TDI + (uint32_t)(physical)*0x40u + 4u * (uint32_t)(r))
/* DCXCR of exchange block 0..15. */
#define IPU21_HOST_DCXCR(i) ((uint32_t)((i) < 8 ? 0x5404 + (i)*0x400 : 0x1b804 + ((i)-8) * 0x400))

/* Fields. */
#define IPU21_HOST_CCSR_NO_SNOOP      UINT32_C(0x00000002)
#define IPU21_HOST_CCSR_ECRC          UINT32_C(0x00000400)
#define IPU21_HOST_AUTOLD_GO          UINT32_C(0x00000100)
#define IPU21_HOST_AUTOLD_PRESENT     UINT32_C(0x00100000)
#define IPU21_HOST_AUTOLD_ZONE        (UINT32_C(32) << 20)
#define IPU21_HOST_WINDOW_BASE_HEXOPT UINT32_C(0x00000800)
#define IPU21_HOST_MARK_MASK          UINT32_C(0x0000ffff)
#define IPU21_HOST_RBRK_RESET         UINT32_C(0x40000000) /* ATOV; no run-break enabled */
/* DCXCR: the id in its four fields; 0x3f disables the block. */
#define IPU21_HOST_DCXCR_VALUE(id)                                                                 \
    (UINT32_C(2) | UINT32_C(id) << 3 | UINT32_C(id) << 9 | UINT32_C(id) << 15 | UINT32_C(id) << 21)
#define IPU21_HOST_DCXCR_PRIMARY   IPU21_HOST_DCXCR_VALUE(0) /* blocks 0..7 */
#define IPU21_HOST_DCXCR_SECONDARY IPU21_HOST_DCXCR_VALUE(1) /* blocks 8..15 */
#define IPU21_HOST_DCXCR_DISABLED  IPU21_HOST_DCXCR_VALUE(0x3f)
enum { IPU21_HOST_BLOCKS = 16, IPU21_HOST_PRIMARY_BLOCKS = 8 };

/* Tile debug interface: two bits for each context in CTXT_STS, bits of STS, and the instructions
 * that facts/driver.md section 4 injects. */
enum ipu21_host_context {
    IPU21_HOST_CONTEXT_INACTIVE,
    IPU21_HOST_CONTEXT_ACTIVE,
    IPU21_HOST_CONTEXT_DEBUG, /* stopped by a debug exception */
    IPU21_HOST_CONTEXT_FAULT
};
enum {
    IPU21_HOST_CONTEXTS = 7, /* supervisor, then workers 0..5 */
    IPU21_HOST_STS_NOT_QUIESCENT = 1,
    IPU21_HOST_STS_INVALID = 2,
    IPU21_HOST_STS_DOUBLE = 4,
    IPU21_HOST_STS_BUSY = 8,
    IPU21_HOST_CSR_DATA = 0x70, /* on the tile: what TDI DATA holds */
    IPU21_HOST_CSR_PC = 0,
    IPU21_HOST_CSR_STATUS = 1 /* SSR or WSR: ETYPE in bits 7:4 */
};
#define IPU21_HOST_INJECT_GET(m, csr) (UINT32_C(0x41000000) | (uint32_t)(m) << 16 | (uint32_t)(csr))
#define IPU21_HOST_INJECT_PUT_DATA(m) (UINT32_C(0x43008070) | (uint32_t)(m) << 20)
#define IPU21_HOST_INJECT_LD32_M0_M1  UINT32_C(0x01f01000) /* ld32 $m0, [$m1] */
#define IPU21_HOST_INJECT_ST32_M0_M1  UINT32_C(0x4f10f000) /* st32 $m0, [$m1] */

#endif
