/* Error codes and the sentence that goes with one.
 *
 * A function that can fail returns 0 or a negative enum ipu_err and fills the caller's struct
 * ipu_error with a sentence for the user: what, where, what to do. Callers add context on the way
 * up with ipu_error_wrap(). Safe from any thread: no globals.
 */
#ifndef IPU_BASE_ERROR_H
#define IPU_BASE_ERROR_H

enum ipu_err {
    IPU_OK = 0,
#define ERR(name, value, exit_code, text) IPU_ERR_##name = (value),
#include "base/errors.def"
#undef ERR
};

enum { IPU_ERROR_TEXT = 1024 };

struct ipu_error {
    int code;
    char text[IPU_ERROR_TEXT];
};

#define IPU_MUST_CHECK __attribute__((warn_unused_result))

/* Sets code and sentence, returns code. `error` may be NULL. Truncates long text. */
int ipu_error_set(struct ipu_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix" before the sentence, returns error->code. `error` may be NULL only when the result
 * is not used. */
int ipu_error_wrap(struct ipu_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Name ("NO_FIT"), short text, and the exit code of ipuctl for a code; never NULL. */
const char *ipu_err_name(int code);
const char *ipu_err_text(int code);
int ipu_err_exit_code(int code);

#endif
