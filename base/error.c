/* Error sentences: see error.h. Nothing here allocates; every string is bounded by IPU_ERROR_TEXT.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct err_row {
    int code;
    int exit_code;
    const char *name;
    const char *text;
};

static const struct err_row err_rows[] = {
    {IPU_OK, 0, "OK", "success"},
#define ERR(name, value, exit_code, text) {value, exit_code, #name, text},
#include "base/errors.def"
#undef ERR
};

static const struct err_row *err_row(int code)
{
    for (unsigned i = 0; i < sizeof err_rows / sizeof err_rows[0]; i++)
        if (err_rows[i].code == code)
            return &err_rows[i];
    static const struct err_row unknown = {0, 3, "UNKNOWN", "unknown error"};
    return &unknown;
}

int ipu_error_set(struct ipu_error *error, int code, const char *format, ...)
{
    if (!error)
        return code;
    error->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

int ipu_error_wrap(struct ipu_error *error, const char *format, ...)
{
    if (!error)
        return IPU_ERR_INTERNAL;
    char old[IPU_ERROR_TEXT];
    memcpy(old, error->text, sizeof old);
    old[sizeof old - 1] = '\0';
    va_list args;
    va_start(args, format);
    int used = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    if (used >= 0 && (unsigned)used < sizeof error->text)
        snprintf(error->text + used, sizeof error->text - (unsigned)used, "%s", old);
    return error->code;
}

const char *ipu_err_name(int code)
{
    return err_row(code)->name;
}

const char *ipu_err_text(int code)
{
    return err_row(code)->text;
}

int ipu_err_exit_code(int code)
{
    return err_row(code)->exit_code;
}
