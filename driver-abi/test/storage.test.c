#include "abi_storage.h"

#include <pthread.h>
#include <stdatomic.h>

#include "host.h"

static CUcontext context(uintptr_t number) { return (CUcontext)(0x1000 + number * 16); }
static void *key(uintptr_t number) { return (void *)(0x9000 + number); }

static int dtor_calls;
static void count_dtor(CUcontext of, void *the_key, void *value) {
  assert_ptr_equal(of, context(1));
  assert_ptr_equal(value, (char *)the_key + 1);
  dtor_calls++;
  // A dtor may use the storage.
  assert_int_equal(abi_storage_get(&value, of, the_key), CUDA_ERROR_INVALID_HANDLE);
}

static void values_belong_to_context_and_key(void **state) {
  (void)state;
  void *value = (void *)5;
  assert_int_equal(abi_storage_get(&value, context(1), key(1)), CUDA_ERROR_INVALID_HANDLE);
  assert_ptr_equal(value, (void *)5);
  assert_int_equal(abi_storage_put(context(1), key(1), (void *)11, NULL), CUDA_SUCCESS);
  assert_int_equal(abi_storage_put(context(1), key(2), (void *)12, NULL), CUDA_SUCCESS);
  assert_int_equal(abi_storage_put(context(2), key(1), (void *)21, NULL), CUDA_SUCCESS);
  assert_int_equal(abi_storage_put(context(1), key(1), (void *)13, NULL), CUDA_SUCCESS);
  assert_int_equal(abi_storage_get(&value, context(1), key(1)), CUDA_SUCCESS);
  assert_ptr_equal(value, (void *)13);
  assert_int_equal(abi_storage_get(&value, context(2), key(1)), CUDA_SUCCESS);
  assert_ptr_equal(value, (void *)21);
  assert_int_equal(abi_storage_delete(context(1), key(1)), CUDA_SUCCESS);
  assert_int_equal(abi_storage_delete(context(1), key(1)), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(abi_storage_get(&value, context(1), key(1)), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(abi_storage_get(&value, context(1), key(2)), CUDA_SUCCESS);
  abi_storage_drop(context(1));
  abi_storage_drop(context(2));
  assert_int_equal(abi_storage_get(&value, context(2), key(1)), CUDA_ERROR_INVALID_HANDLE);
}

static void null_means_current(void **state) {
  (void)state;
  void *value;
  test_current = NULL;
  assert_int_equal(abi_storage_put(NULL, key(1), (void *)1, NULL), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(abi_storage_get(&value, NULL, key(1)), CUDA_ERROR_INVALID_HANDLE);
  test_current = context(3);
  assert_int_equal(abi_storage_put(NULL, key(1), (void *)1, NULL), CUDA_SUCCESS);
  assert_int_equal(abi_storage_get(&value, context(3), key(1)), CUDA_SUCCESS);
  assert_int_equal(abi_storage_get(&value, (CUcontext)-1, key(1)), CUDA_SUCCESS);
  abi_storage_drop(context(3));
  test_current = NULL;
}

static void drop_calls_dtors_once_and_delete_does_not(void **state) {
  (void)state;
  dtor_calls = 0;
  for (uintptr_t i = 0; i < 300; i++)  // more than one chunk
    assert_int_equal(abi_storage_put(context(1), key(i * 8), (char *)key(i * 8) + 1, count_dtor),
                     CUDA_SUCCESS);
  assert_int_equal(abi_storage_delete(context(1), key(8)), CUDA_SUCCESS);
  assert_int_equal(dtor_calls, 0);
  abi_storage_drop(context(1));
  assert_int_equal(dtor_calls, 299);
  abi_storage_drop(context(1));
  assert_int_equal(dtor_calls, 299);
}

static atomic_int stop;
static void *churn(void *unused) {
  (void)unused;
  for (uintptr_t i = 0; !atomic_load(&stop); i++) {
    abi_storage_put(context(7), key(i % 5), (void *)1, NULL);
    abi_storage_delete(context(7), key(i % 5));
  }
  return NULL;
}

static void readers_never_miss_what_stays(void **state) {
  (void)state;
  assert_int_equal(abi_storage_put(context(8), key(1), (void *)88, NULL), CUDA_SUCCESS);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
  for (int i = 0; i < 100000; i++) {
    void *value = NULL;
    assert_int_equal(abi_storage_get(&value, context(8), key(1)), CUDA_SUCCESS);
    assert_ptr_equal(value, (void *)88);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  abi_storage_drop(context(8));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_belong_to_context_and_key),
      cmocka_unit_test(null_means_current),
      cmocka_unit_test(drop_calls_dtors_once_and_delete_does_not),
      cmocka_unit_test(readers_never_miss_what_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
