/* ipud: compiles and runs workloads on an IPU21 for the users of a machine. See main.h for the
 * program and docs/PROTOCOL.md for what it speaks.
 */
#include "daemon/main.h"

int main(int argc, char **argv)
{
    return ipud_main(&engine_production, argc, argv);
}
