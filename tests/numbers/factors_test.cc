// Singular values.
#include "numbers/factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/numbers.h"

namespace weightfs::numbers::factors_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

Tensor matrix(uint64_t rows, uint64_t columns, const std::vector<float>& values) {
  Tensor tensor = test::float32_tensor("m", values);
  tensor.shape = {rows, columns};
  return tensor;
}

bool has_eigen() { return singular_values(matrix(1, 1, {1})).has_value(); }

TEST(SingularValues, AreThoseOfKnownMatrices) {
  if (!has_eigen()) GTEST_SKIP() << "built without Eigen";
  EXPECT_THAT(singular_values(matrix(2, 2, {3, 0, 4, 5})).value(),
              ElementsAre(DoubleNear(std::sqrt(45), 1e-12), DoubleNear(std::sqrt(5), 1e-12)));
  EXPECT_THAT(singular_values(matrix(1, 3, {2, 3, 6})).value(), ElementsAre(DoubleNear(7, 1e-12)));
  EXPECT_THAT(singular_values(matrix(3, 1, {2, 3, 6})).value(), ElementsAre(DoubleNear(7, 1e-12)));
  EXPECT_THAT(singular_values(matrix(2, 2, {0, 0, 0, 0})).value(), ElementsAre(0, 0));
}

// The product [[4, 5, 6], [8, 10, 12]] has the rank 1.
TEST(SingularValues, OfAProductComeFromTheFactors) {
  if (!has_eigen()) GTEST_SKIP() << "built without Eigen";
  EXPECT_THAT(product_singular_values(matrix(1, 3, {4, 5, 6}), matrix(2, 1, {1, 2})).value(),
              ElementsAre(DoubleNear(std::sqrt(77.0 * 5), 1e-12)));
  EXPECT_THAT(product_singular_values(matrix(2, 2, {1, 2, 3, 4}), matrix(2, 2, {5, 6, 7, 8})).value(),
              testing::Pointwise(DoubleNear(1e-12), singular_values(matrix(2, 2, {23, 34, 31, 46})).value()));
}

TEST(SingularValues, OfConvolutionsHaveTheFurtherAxesInTheColumns) {
  if (!has_eigen()) GTEST_SKIP() << "built without Eigen";
  Tensor down = matrix(1, 3, {4, 5, 6}), up = matrix(2, 1, {1, 2});
  down.shape = {1, 3, 1, 1};
  up.shape = {2, 1, 1, 1};
  EXPECT_THAT(product_singular_values(down, up).value(), ElementsAre(DoubleNear(std::sqrt(77.0 * 5), 1e-12)));
  EXPECT_EQ(product_singular_values(test::unreadable_tensor("a", {600, 2}), up).error().code, Code::unsupported);
}

TEST(SingularValues, HaveALimitAndAReason) {
  if (!has_eigen()) GTEST_SKIP() << "built without Eigen";
  EXPECT_EQ(singular_values(test::float32_tensor("v", {1, 2})).error().message, "not a matrix");
  EXPECT_EQ(singular_values(matrix(1, 2, {1, NAN})).error().code, Code::unsupported);
  EXPECT_EQ(singular_values(test::unreadable_tensor("m", {4096, 4096})).error().code, Code::unsupported);
  EXPECT_EQ(singular_values(test::unreadable_tensor("m", {4, 4})).error().message, "disk error");
  EXPECT_EQ(product_singular_values(matrix(2, 1, {1, 2}), matrix(2, 1, {1, 2})).error().message,
            "the ranks 2 and 1 differ");
}

}  // namespace
}  // namespace weightfs::numbers::factors_test
