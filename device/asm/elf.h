/* Private: ELF constants of the IPU. Source: facts/asm_dialect.md section 7. */
#ifndef IPU_ASM_ELF_H
#define IPU_ASM_ELF_H

enum { ELF_MACHINE_IPU = 248, ELF_OSABI_IPU = 255, ELF_FLAGS_IPU21 = 0x21 };

/* Relocation types. S + A is the value; `18_S2` takes (S + A) >> 2 into 18 bits, and so on. */
enum {
    R_IPU_NONE = 0,
    R_IPU_8 = 1,
    R_IPU_16 = 2,
    R_IPU_20 = 3,
    R_IPU_32 = 4,
    R_IPU_64 = 5,
    R_IPU_RELATIVE_16_S2 = 6, /* relative to the base of region 0 */
    R_IPU_18_S2 = 7,          /* bits 17:0 */
    R_IPU_19_S2 = 8,          /* bits 18:0 */
    R_IPU_RUN = 9,            /* v[15:12] -> 19:16, v[11:0] -> 11:0, relative to region 0 */
    R_IPU_16_S3 = 14,
    R_IPU_16_S4 = 15,
    R_IPU_16_S5 = 16,
    R_IPU_21 = 17,
    R_IPU_SEND_18_S2 = 200 /* [G] ours: the address field of send, bits 20:3 */
};

#endif
