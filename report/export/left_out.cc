#include "report/export/left_out.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "formats/completeness.h"
#include "report/text/words.h"

namespace weightfs::exporting {
namespace {

// How many of the tensors the output would lack: all of them if it cannot be made.
uint64_t count_left_out(Forest& forest, const ModelPtr& model, const Request& request) {
  const auto files = files_of(forest, model, request);
  return files ? files->left_out.size() : request.tensors.size();
}

// The options that lead to an output, each of which was tried; empty if there are none.
std::string remedy(Forest& forest, const ModelPtr& model, const Request& request, uint64_t left_out) {
  const uint64_t all = request.tensors.size();
  std::vector<std::string> options;
  Request other = request;
  other.types = views::FileTypes::float32;
  const bool is_as_stored = request.types == views::FileTypes::stored;
  const uint64_t left_out_of_float32 = is_as_stored ? count_left_out(forest, model, other) : left_out;
  if (left_out_of_float32 == 0) options.emplace_back("--dtype float32");
  if (left_out < all)
    options.emplace_back("--skip-unsupported");
  else if (left_out_of_float32 > 0 && left_out_of_float32 < all)
    options.emplace_back("--dtype float32 with --skip-unsupported");
  other = request;
  other.form = Form::dir;
  if (options.empty() && count_left_out(forest, model, other) == 0) options.emplace_back("--to dir");
  return options.empty() ? "" : fmt::format("; use {}", enumerated(options, " or "));
}

// Data that is missing is a worse cause than a format that cannot hold it: the reason of the first refused tensor.
std::optional<Error> reason_of_first_refused(const Model& model, const Request& request) {
  const auto refused =
      std::ranges::find_if(request.tensors, [&](size_t tensor) { return model.tensors.is_refused(tensor); });
  if (refused == request.tensors.end()) return std::nullopt;
  return reason_of_refused(model, model.tensors.name(*refused));
}

}  // namespace

Result<ExportedFiles> writable_files(Forest& forest, const ModelPtr& model, const Request& request,
                                     Unsupported unsupported) {
  auto files = files_of(forest, model, request);
  if (!files && files.error().code != Code::unsupported) return files;
  const uint64_t all = request.tensors.size();
  const uint64_t left_out = files ? files->left_out.size() : all;
  const bool is_accepted = left_out == 0 || (unsupported == Unsupported::left_out && left_out < all);
  if (files && is_accepted) return files;
  const std::string what =
      files ? fmt::format("{} of {} tensors cannot be written as {}, so nothing was written: {}{}", left_out, all,
                          name_of(request.form), files->left_out.lines().front(), left_out > 1 ? ", …" : "")
            : fmt::format("{}; nothing was written", files.error().message);
  const auto refused = reason_of_first_refused(*model, request);
  return failure(
      refused ? refused->code : Code::unsupported,
      fmt::format("{}{}{}", what, refused ? "; " + refused->message : "", remedy(forest, model, request, left_out)));
}

}  // namespace weightfs::exporting
