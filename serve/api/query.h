// The parameters of a request to the API (docs/api.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "fs/http/protocol/message.h"
#include "numbers/grid.h"

namespace weightfs::api {

using httpd::Accepted;
using httpd::Refusal;

/// TRY for an Accepted in a function that returns one.
#define ACCEPT(expression)                                                        \
  __extension__({                                                                 \
    auto accepted_ = (expression);                                                \
    if (!accepted_) return tl::unexpected<Refusal>(std::move(accepted_).error()); \
    *std::move(accepted_);                                                        \
  })

/// Refuses as ACCEPT does, for a function that returns nothing.
#define ACCEPT_VOID(expression)                                                                                  \
  do {                                                                                                           \
    if (auto accepted_ = (expression); !accepted_) return tl::unexpected<Refusal>(std::move(accepted_).error()); \
  } while (false)

/// A result whose error is refused with its status of HTTP.
template <class T>
Accepted<T> accepted(Result<T> result);
Refusal refusal_of(const Error& error);

/// Parameters by their names. Each getter refuses a value of another form with 400.
class Query {
 public:
  explicit Query(std::string_view text) : text_(text) {}

  /// Empty if it is missing.
  std::string text(std::string_view name) const;
  bool has(std::string_view name) const { return !text(name).empty(); }
  bool flag(std::string_view name) const { return text(name) == "1"; }
  Accepted<std::optional<uint64_t>> number(std::string_view name) const;
  Accepted<uint64_t> number(std::string_view name, uint64_t otherwise, uint64_t most) const;
  Accepted<std::optional<double>> real(std::string_view name) const;
  /// Numbers between commas; none if it is missing.
  Accepted<std::vector<uint64_t>> numbers(std::string_view name) const;
  /// The different words of a search, in lower case; at most 16.
  Accepted<std::vector<std::string>> words(std::string_view name) const;
  /// The place of the value among `names`; that of the first if it is missing.
  Accepted<size_t> choice(std::string_view name, const std::vector<std::string_view>& names) const;

  /// All but `v`: what a result depends on, besides the bytes.
  std::string key() const;

 private:
  std::string text_;
};

template <class T>
Accepted<T> accepted(Result<T> result) {
  if (!result) return tl::unexpected<Refusal>(refusal_of(result.error()));
  return std::move(*result);
}

}  // namespace weightfs::api
