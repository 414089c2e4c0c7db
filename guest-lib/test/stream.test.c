// Values that streams wait for and write, and attributes: what is refused here, and what is sent.
#include "streams/stream.h"

#include <string.h>

#include "check.h"
#include "guest_calls.h"
#include "session.h"

#define MIB (1ull << 20)

static struct wire_value sent[WIRE_VALUES_MAX];
static uint32_t sent_count, attributes_sent;
static uint32_t last_attribute;
static _Bool keep(struct server *server, const struct wire_header *h, void *context) {
  (void)server;
  (void)context;
  if (h->op == WIRE_StreamValues) {
    const struct wire_StreamValues *q = (const void *)h;
    sent_count = q->values_size / (uint32_t)sizeof *sent;
    memcpy(sent, q + 1, q->values_size);
  } else if (h->op == WIRE_StreamAttribute) {
    last_attribute = ((const struct wire_StreamAttribute *)h)->attribute;
    attributes_sent++;
  }
  return 0;
}

static void values_are_checked_and_sent(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){keep, NULL});
  CUdeviceptr at;
  assert_int_equal(cuMemAlloc_v2(&at, 64), CUDA_SUCCESS);
  const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at + 2, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue64_v2(NULL, at + 4, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue64_v2(NULL, 0, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at - 4, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at, 1, 2), invalid);
  assert_int_equal(cuStreamWaitValue32_v2(NULL, at, 1, 4), invalid);
  assert_int_equal(cuStreamWaitValue32_v2(NULL, at, 1, CU_STREAM_WAIT_VALUE_FLUSH),
                   CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuStreamWaitValue32_v2((CUstream)0x1230, at, 1, 0), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuStreamWaitValue64_v2(NULL, at + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_AND),
                   CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(sent_count, 1);
  assert_int_equal(sent[0].operation, CU_STREAM_MEM_OP_WAIT_VALUE_64);
  assert_int_equal(sent[0].flags, CU_STREAM_WAIT_VALUE_AND);
  assert_int_equal(sent[0].address, at + 8);
  assert_int_equal(sent[0].value, 1ull << 40);

  CUstreamBatchMemOpParams list[3];
  memset(list, 0, sizeof list);
  list[0].operation = CU_STREAM_MEM_OP_BARRIER;
  list[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  list[1].writeValue.address = at;
  list[1].writeValue.value64 = 0x500000006;  // only 32 bits of it count
  list[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[2].waitValue.address = at + 4;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 1), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 0, list, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 257, list, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, NULL, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamBatchMemOp(NULL, 1, list, 0), CUDA_SUCCESS);  // nothing to send
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(sent_count, 2);
  assert_int_equal(sent[0].value, 6);
  assert_int_equal(sent[1].operation, CU_STREAM_MEM_OP_WAIT_VALUE_32);
  list[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), CUDA_ERROR_NOT_SUPPORTED);
  list[0].operation = (CUstreamBatchMemOpType)77;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), invalid);
}

static void attributes_are_kept_and_copied(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){keep, NULL});
  CUstream a, b;
  assert_int_equal(cuStreamCreate(&a, 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamCreate(&b, 0), CUDA_SUCCESS);
  CUstreamAttrValue value;
  assert_int_equal(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value),
                   CUDA_SUCCESS);
  assert_int_equal(value.memSyncDomainMap.remote, 1);
  assert_int_equal(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL),
                   CUDA_ERROR_INVALID_VALUE);
  memset(&value, 0, sizeof value);
  value.syncPolicy = (CUsynchronizationPolicy)9;
  const CUstreamAttrID policy = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  assert_int_equal(cuStreamSetAttribute(a, policy, &value), CUDA_ERROR_INVALID_VALUE);
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  assert_int_equal(cuStreamSetAttribute(a, policy, &value), CUDA_SUCCESS);
  memset(&value, 0, sizeof value);
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  assert_int_equal(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value),
                   CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, a), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(NULL, b), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, b), CUDA_SUCCESS);
  assert_int_equal(cuStreamDestroy_v2(a), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, a), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuStreamGetAttribute(CU_STREAM_LEGACY, policy, &value), CUDA_SUCCESS);
  assert_int_equal(value.syncPolicy, CU_SYNC_POLICY_YIELD);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  // How to wait is not the server's business.
  assert_int_equal(attributes_sent, 3);
  assert_int_equal(last_attribute, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  CUgreenCtx green = (CUgreenCtx)1;
  CUcontext context;
  assert_int_equal(cuStreamGetCtx_v2(b, &context, &green), CUDA_SUCCESS);
  assert_null(green);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_checked_and_sent),
      cmocka_unit_test(attributes_are_kept_and_copied),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
