// What the API answers, an endpoint each (docs/api.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/text/style.h"
#include "serve/api/models.h"
#include "serve/api/query.h"
#include "serve/api/results.h"
#include "serve/api/stream.h"

namespace weightfs::api {

/// The path of the connections of pages into which files were dropped.
inline constexpr const char* kDropPath = ".weightfs/drop";

/// A request, with what its endpoint may use.
struct Call {
  const Query& query;
  Forest& forest;
  OpenModels& models;
  const std::string& source;                                   ///< of the server, as it is printed
  const std::function<std::string(const std::string&)>& href;  ///< the URL of a path of the tree, without the host
  bool takes_files;                                            ///< whether files may be dropped into the page
  Report report = [](const char*, uint64_t, uint64_t) {};

  /// The model that the parameter names, of the version `v` if that is given, with the tensors that `names` chooses.
  Accepted<OpenModelPtr> model(std::string_view parameter = "model") const {
    const bool is_first = parameter == "model";
    const bool may_be_named = is_first || parameter == "model2";
    const auto names = may_be_named ? ACCEPT(query.choice(is_first ? "names" : "names2", {"stored", "gguf"})) : 0;
    return models.open(query.text(parameter), is_first ? query.text("v") : "", static_cast<Names>(names));
  }
};

/// A tensor that a request names.
struct Named {
  OpenModelPtr model;
  size_t index;
  plot::NamedTensor tensor;
};

/// The tensor that `t` names (or `t2` in `model2`). Refuses with 404.
Accepted<Named> tensor_of(const Call& call);
/// The second one; nothing without `t2`.
Accepted<std::optional<Named>> second_tensor_of(const Call& call);

Accepted<Content> list_models(const Call& call);
Accepted<Content> describe_entry(const Call& call);
Accepted<Content> list_files(const Call& call);
Accepted<Content> describe_model(const Call& call);
Accepted<Content> describe_memory(const Call& call);
Accepted<Content> list_tensors(const Call& call);
Accepted<Content> list_locations(const Call& call);
Accepted<Content> list_names(const Call& call);
Accepted<Content> list_groups(const Call& call);
Accepted<Content> list_metadata(const Call& call);
Accepted<Content> list_tokens(const Call& call);
Accepted<Content> list_texts(const Call& call);
Accepted<Content> describe_tensor(const Call& call);
Accepted<Content> statistics(const Call& call);
Accepted<Content> histogram(const Call& call);
Accepted<Content> line(const Call& call);
Accepted<Content> channels(const Call& call);
Accepted<Content> heat_map(const Call& call);
Accepted<Content> values(const Call& call);
Accepted<Content> overview(const Call& call);
Accepted<Content> experts(const Call& call);
Accepted<Content> compare_models(const Call& call);
Accepted<Content> deviation(const Call& call);
Accepted<Content> find_equal_tensors(const Call& call);

/// A value as the body of a response.
Content json_content(const Value& value);

/// What `weightfs info` shows, on one line each and without colours.
info::Style page_style();
std::string plain_text(const std::string& line);
List plain_texts(const std::vector<std::string>& lines);

/// Whether a file is one that a person reads: README.md, config.json.
bool is_named_as_text(std::string_view name);

/// The number, or null for NaN and the infinities.
Value number_or_null(double number);

/// How much of a tensor is read: all, a few rows, or all in a second pass, too.
enum class Mode { full, sample, exact };

/// Refuses to read more of the tensors than their files explain (FigureCost). A sample costs only its number of
/// tensors.
Accepted<void> check_amount(const std::vector<plot::NamedTensor>& tensors, Mode mode);

/// The parameter `mode`: sample, full or exact.
Accepted<Mode> mode_of(const Query& query);

inline constexpr size_t kThreads = 16;  ///< of a computation, at most

/// How figures and pictures of these tensors are computed, with reports of the bytes that were read.
plot::Choices choices_of(const Call& call, const std::vector<plot::NamedTensor>& tensors, Mode mode);

}  // namespace weightfs::api
