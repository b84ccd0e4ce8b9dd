#include "numbers/factors.h"

#include <fmt/core.h>

#ifdef WEIGHTFS_PLOT
#include <Eigen/Dense>

#include "numbers/grid.h"
#endif

namespace weightfs::numbers {

#ifdef WEIGHTFS_PLOT

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The matrix of `rows` rows.
Result<Eigen::MatrixXd> read_matrix(const TensorView& tensor, uint64_t rows) {
  if (tensor.shape.size() < 2) return failure(Code::unsupported, "not a matrix");
  const Elements elements = TRY(Elements::of(tensor));
  if (elements.count() > kMaxFactorElements)
    return failure(Code::unsupported, fmt::format("singular values are computed of at most {} elements, not {}",
                                                  kMaxFactorElements, elements.count()));
  if (elements.count() == 0) return Eigen::MatrixXd();
  RowMajor matrix(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(elements.count() / rows));
  TRY_VOID(elements.read(0, std::span(matrix.data(), static_cast<size_t>(matrix.size()))));
  if (!matrix.allFinite()) return failure(Code::unsupported, "singular values need finite numbers");
  return Eigen::MatrixXd(matrix);
}

std::vector<double> values_of(const Eigen::MatrixXd& matrix) {
  if (matrix.size() == 0) return {};
  const Eigen::VectorXd values = Eigen::BDCSVD<Eigen::MatrixXd>(matrix).singularValues();
  return {values.begin(), values.end()};
}

// The triangular factor of a matrix with at least as many rows as columns; a wide one itself.
Eigen::MatrixXd triangle_of(const Eigen::MatrixXd& matrix) {
  if (matrix.rows() <= matrix.cols()) return matrix;
  const Eigen::HouseholderQR<Eigen::MatrixXd> factors(matrix);
  return factors.matrixQR().topRows(matrix.cols()).triangularView<Eigen::Upper>();
}

}  // namespace

Result<std::vector<double>> singular_values(const TensorView& matrix) {
  const Eigen::MatrixXd read = TRY(read_matrix(matrix, matrix_of(matrix.shape).rows));
  if (read.size() == 0) return std::vector<double>();
  return values_of(triangle_of(read.rows() < read.cols() ? Eigen::MatrixXd(read.transpose()) : read));
}

// B = Q_b R_b and Aᵀ = Q_a R_a, so B A = Q_b (R_b R_aᵀ) Q_aᵀ.
Result<std::vector<double>> product_singular_values(const TensorView& a, const TensorView& b) {
  if (a.shape.empty() || b.shape.empty()) return failure(Code::unsupported, "not a matrix");
  if (a.shape.front() > kMaxRank)
    return failure(Code::unsupported, fmt::format("the rank {} is above {}", a.shape.front(), kMaxRank));
  const Eigen::MatrixXd of_a = TRY(read_matrix(a, a.shape.front())), of_b = TRY(read_matrix(b, b.shape.front()));
  if (of_b.cols() != of_a.rows())
    return failure(Code::unsupported, fmt::format("the ranks {} and {} differ", of_a.rows(), of_b.cols()));
  if (of_a.size() == 0 || of_b.size() == 0) return std::vector<double>();
  return values_of(triangle_of(of_b) * triangle_of(of_a.transpose()).transpose());
}

#else

Result<std::vector<double>> singular_values(const TensorView&) {
  return failure(Code::unsupported, "this weightfs was built without Eigen (WEIGHTFS_PLOT)");
}

Result<std::vector<double>> product_singular_values(const TensorView& a, const TensorView&) {
  return singular_values(a);
}

#endif

}  // namespace weightfs::numbers
