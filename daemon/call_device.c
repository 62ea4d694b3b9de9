/* The request that tests the device: FRAME_SELFTEST. See proto/rpc.proto.
 *
 * Invariant: `testing` is set exactly while the device owner holds the call's `test`; whoever ends
 * the call for another reason takes it back there (release_call()). It fails when another test
 * waits or runs, when a step fails, and when the owner process dies of the device.
 */
#include "daemon/conn.h"

static void on_step(void *context, const Ipu__Rpc__SelftestStep *step)
{
    call_send(context, IPU__RPC__FRAME_TYPE__REPLY_SELFTEST, &step->base);
}

static void on_done(void *context, int rc, const char *text)
{
    struct call *call = context;
    call->testing = false;
    if (rc)
        call_fail(call, rc, text);
    else
        call_reply(call, IPU__RPC__FRAME_TYPE__REPLY_OK, NULL);
}

int call_selftest(struct call *call, const ProtobufCMessage *request, struct ipu_error *error)
{
    (void)request;
    call->test = (struct selftest){on_step, on_done, call};
    int rc = owner_test(call->daemon->owner, &call->test, error);
    call->testing = rc == 0;
    return rc;
}
