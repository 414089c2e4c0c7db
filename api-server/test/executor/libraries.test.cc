// Arguments of libraries' calls, as guests send them and as hostile ones might.
#include "libraries/library_arguments.h"

#include <cstring>
#include <vector>

#include "check.h"
#include "cublas_calls.h"

using namespace outboard;

namespace {

constexpr uint64_t kMemory = 0x400000000000, kSize = 4096;

bool within(uint64_t address, uint64_t size) {
  return address >= kMemory && address <= kMemory + kSize && size <= kMemory + kSize - address;
}

std::vector<uint8_t> bytes_of(const std::vector<uint64_t> &words) {
  std::vector<uint8_t> bytes(words.size() * 8);
  memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// Why a call is malformed; "" for one that names memory which is not the guest's; "ok".
std::string judge(uint32_t function, uint32_t mode, const std::vector<uint64_t> &words) {
  LibraryArguments arguments;
  if (const char *why = arguments.decode(cublas_calls[function], mode, bytes_of(words))) return why;
  return arguments.are_reachable(within) ? "ok" : "";
}

std::vector<uint64_t> sgemm(int64_t m, int64_t n, int64_t k, int64_t lda = 8,
                            uint64_t a = kMemory) {
  return {0,       0, uint64_t(m), uint64_t(n), uint64_t(k), 0, a, uint64_t(lda),
          kMemory, 8, 0,           kMemory,     8,           0, 0};
}

constexpr uint32_t kHost = LIBRARY_MODE_HOST, kDevice = LIBRARY_MODE_DEVICE;

}  // namespace

TEST(arguments_are_laid_out_as_the_library_takes_them) {
  std::vector<uint64_t> words = sgemm(4, 4, 4);
  const float alpha = 2.5, beta = -1;
  memcpy(&words[13], &alpha, sizeof alpha);
  memcpy(&words[14], &beta, sizeof beta);
  LibraryArguments arguments;
  CHECK(!arguments.decode(cublas_calls[CUBLAS_cublasSgemm_v2], kHost, bytes_of(words)));
  CHECK_EQUAL(arguments.words()[2], 4u);
  CHECK_EQUAL(*reinterpret_cast<const float *>(arguments.words()[5]), alpha);
  CHECK_EQUAL(*reinterpret_cast<const float *>(arguments.words()[10]), beta);
  CHECK_EQUAL(arguments.results_size(), 0u);
  CHECK_EQUAL(arguments.text(), std::string("cublasSgemm_v2(0,0,4,4,4,8,8,8)"));
}

TEST(a_scalar_that_need_not_be_there_is_none) {
  // m, n, alpha, A, lda, beta, B, ldb, C, ldc behind the two operations
  std::vector<uint64_t> words = {0, 0, 4, 4, 0, kMemory, 4, LIBRARY_NONE, 0, 4, kMemory, 4, 0};
  CHECK_EQUAL(judge(CUBLAS_cublasSgeam, kHost, words), "ok");
  LibraryArguments arguments;
  CHECK(!arguments.decode(cublas_calls[CUBLAS_cublasSgeam], kHost, bytes_of(words)));
  CHECK(arguments.words()[4] != 0);
  CHECK_EQUAL(arguments.words()[7], 0u);
  words[7] = 0;
  CHECK_EQUAL(judge(CUBLAS_cublasSgeam, kHost, words), "a scalar is missing");
}

TEST(results_for_the_host_have_a_place_here) {
  LibraryArguments arguments;
  const std::vector<uint64_t> dot = {4, kMemory, 1, kMemory, 1, 0};
  CHECK(!arguments.decode(cublas_calls[CUBLAS_cublasZdotu_v2], kHost, bytes_of(dot)));
  CHECK_EQUAL(arguments.results_size(), 16u);
  CHECK_EQUAL(arguments.words()[5], reinterpret_cast<uint64_t>(arguments.results()));
  // In device mode an address of the program's memory is one of the device's, which it is not.
  CHECK_EQUAL(judge(CUBLAS_cublasZdotu_v2, kDevice, {4, kMemory, 1, kMemory, 1, 0x7fff0000}), "");
}

TEST(a_call_of_the_wrong_length_is_malformed) {
  std::vector<uint64_t> words = sgemm(4, 4, 4);
  CHECK_EQUAL(judge(CUBLAS_cublasSgemm_v2, kHost, words), "ok");
  words.push_back(0);
  CHECK_EQUAL(judge(CUBLAS_cublasSgemm_v2, kHost, words), "it is longer than its arguments");
  words.resize(14);
  CHECK_EQUAL(judge(CUBLAS_cublasSgemm_v2, kHost, words), "a scalar is missing");
  words.resize(5);
  CHECK_EQUAL(judge(CUBLAS_cublasSgemm_v2, kHost, words),
              "it has fewer arguments than its function");
  CHECK_EQUAL(judge(CUBLAS_cublasSgemm_v2, 2, sgemm(4, 4, 4)), "its pointer mode is none");
}

TEST(memory_beyond_the_sessions_is_not_reached) {
  // 1024 numbers are there.
  const auto gemm = [](auto... sizes) {
    return judge(CUBLAS_cublasSgemm_v2, kHost, sgemm(sizes...));
  };
  CHECK_EQUAL(gemm(8, 8, 8), "ok");
  CHECK_EQUAL(gemm(8, 8, 128), "ok");
  CHECK_EQUAL(gemm(8, 8, 129), "");
  CHECK_EQUAL(gemm(8, 8, 8, 8, kMemory - 4), "");
  CHECK_EQUAL(gemm(8, 8, 8, INT32_MAX), "");
  // Sizes whose products have no end.
  const auto large = [](auto... sizes) {
    return judge(CUBLAS_cublasSgemm_v2_64, kHost, sgemm(sizes...));
  };
  CHECK_EQUAL(large(INT64_MAX, 8, 8), "");
  CHECK_EQUAL(large(8, 8, INT64_MAX, INT64_MAX), "");
  // Another number than the function would see.
  CHECK_EQUAL(gemm(8, 8, 8 + (int64_t{1} << 32)), "a number does not fit into its parameter");
  CHECK_EQUAL(gemm(8, 8, 8, 8, UINT64_MAX), "");
  // Nothing is touched; and what to make of no address the library knows.
  CHECK_EQUAL(gemm(0, 8, 8, 8, 1), "ok");
  CHECK_EQUAL(gemm(8, 8, 0, 8, 1), "ok");
  CHECK_EQUAL(gemm(8, 8, 8, 8, 0), "ok");
}

TEST(vectors_reach_as_far_as_their_steps) {
  const auto copy = [](int64_t n, int64_t step) {
    return judge(CUBLAS_cublasScopy_v2, kHost,
                 {uint64_t(n), kMemory, uint64_t(step), kMemory, uint64_t(1)});
  };
  CHECK_EQUAL(copy(1024, 1), "ok");
  CHECK_EQUAL(copy(1025, 1), "");
  CHECK_EQUAL(copy(512, 2), "ok");
  CHECK_EQUAL(copy(513, -2), "");
  CHECK_EQUAL(copy(1024, 0), "ok");
  CHECK_EQUAL(judge(CUBLAS_cublasScopy_v2_64, kHost,
                    {2, kMemory, uint64_t(INT64_MIN), kMemory, uint64_t(1)}),
              "");
  CHECK_EQUAL(copy(-5, 1), "ok");
}

TEST(an_operation_that_there_is_not_has_no_shape) {
  // cublasSgemv_v2: operation, m, n, alpha, A, lda, x, its step, beta, y, its step.
  const auto gemv = [](int64_t operation) {
    return judge(CUBLAS_cublasSgemv_v2, kHost,
                 {uint64_t(operation), 8, 4, 0, kMemory, 8, kMemory, 1, 0, kMemory, 1, 0, 0});
  };
  for (int64_t one : {0, 1, 2}) CHECK_EQUAL(gemv(one), "ok");
  for (int64_t one : {3, 4, 77, -1}) CHECK_EQUAL(gemv(one), "");
}

TEST(a_product_into_complex_numbers_is_one_whatever_type_it_names) {
  // cublasCsyrkEx: uplo, operation, n, k, alpha, A, its type, lda, beta, C, its type, ldc.
  const auto syrk = [](int64_t n, uint64_t c_type) {
    return judge(CUBLAS_cublasCsyrkEx, kHost,
                 {0, 0, uint64_t(n), 1, 0, kMemory, 4, 32, 0, kMemory, c_type, 32, 0, 0});
  };
  for (uint64_t type : {4, 0, 2, 3}) {
    CHECK_EQUAL(syrk(16, type), "ok");
    CHECK_EQUAL(syrk(17, type), "");
  }
}

TEST(batches_reach_as_far_as_their_strides_in_either_direction) {
  const auto batch = [](uint64_t a, int64_t stride, int64_t count) {
    return judge(CUBLAS_cublasSgemmStridedBatched, kHost,
                 {0, 0, 4, 4, 4, 0, a, 4, uint64_t(stride), kMemory, 4, 0, 0, kMemory, 4, 0,
                  uint64_t(count), 0, 0});
  };
  CHECK_EQUAL(batch(kMemory, 16, 64), "ok");
  CHECK_EQUAL(batch(kMemory, 16, 65), "");
  CHECK_EQUAL(batch(kMemory, -16, 2), "");
  CHECK_EQUAL(batch(kMemory + 64, -16, 2), "ok");
  CHECK_EQUAL(batch(kMemory, INT64_MAX, 2), "");
}

TEST(types_that_nobody_knows_are_refused) {
  // cublasScalEx: n, alpha, its type, x, its type, step, execution type.
  const auto scale = [](uint64_t alpha, uint64_t x) {
    return judge(CUBLAS_cublasScalEx, kHost, {4, 0, alpha, kMemory, x, 1, 0, 0});
  };
  CHECK_EQUAL(scale(0, 0), "ok");
  CHECK_EQUAL(scale(1000, 0), "nobody knows the size of a scalar of its type");
  CHECK_EQUAL(scale(0, UINT64_MAX), "");
}

TEST(every_row_of_the_table_names_parameters_that_there_are) {
  for (const library_call &call : cublas_calls) {
    CHECK(call.count <= LIBRARY_PARAMETERS_MAX);
    for (uint32_t i = 0; i < call.count; i++) {
      const library_argument &a = call.arguments[i];
      for (const int place : {int(a.typed), int(a.complex), int(a.by), int(a.step), int(a.stride),
                              int(a.batch), int(a.rows[0].first), int(a.rows[1].second),
                              int(a.columns[0].first), int(a.columns[1].second)})
        CHECK(place < call.count && (place < 0 || call.arguments[place].kind == LIBRARY_VALUE));
      CHECK(a.kind == LIBRARY_VALUE || a.element != 0 || a.typed >= 0);
    }
  }
}
