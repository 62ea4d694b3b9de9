/* Small programs for tests of lowering: made by codegen_flows.h, without the later modules. */
#ifndef IPU_TESTS_LOWER_FLOWS_H
#define IPU_TESTS_LOWER_FLOWS_H

#define CODEGEN_FLOWS_LOWER_ONLY
#include "tests/unit/codegen_flows.h"

#endif
