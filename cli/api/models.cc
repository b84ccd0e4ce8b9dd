#include "cli/api/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/compare/select_tensors.h"
#include "cli/inspect/locations.h"
#include "cli/open_source.h"
#include "fs/listing.h"

namespace weightfs::api {
namespace {

constexpr size_t kSearchThreads = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Whether `text` has `word`, which is in lower case.
bool has_word(std::string_view text, std::string_view word) {
  const auto found =
      std::search(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) { return lower(a) == b; });
  return found != text.end();
}

// The words between blanks.
std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

template <class Key>
void sort_by(std::vector<uint32_t>& all, const Key& key) {
  std::ranges::stable_sort(all, {}, key);
}

}  // namespace

bool is_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number_at = [](std::string_view text, size_t at) {
      const size_t first = std::min(text.find_first_not_of('0', at), text.size());
      size_t end = first;
      while (end < text.size() && is_digit(text[end])) ++end;
      return std::pair(text.substr(first, end - first), end);
    };
    const auto [x, x_end] = number_at(a, i);
    const auto [y, y_end] = number_at(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i = x_end, j = y_end;
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;  // 01 and 1
}

OpenModel::OpenModel(ModelPtr model, std::string path, std::string version)
    : model_(std::move(model)), path_(std::move(path)), version_(std::move(version)) {
  for (size_t i = 0; i < model_->tensors.size(); ++i) total_bytes_ += listed_bytes(model_->tensors, i);
}

const summary::Summarised& OpenModel::summarised() const {
  std::call_once(is_summarised_, [this] { summarised_ = summary::summarise(*model_); });
  return summarised_;
}

uint64_t OpenModel::parameters(size_t tensor) const { return elements_of(model_->tensors.shape(tensor)).value_or(0); }

std::string OpenModel::name(size_t tensor) const {
  const std::string_view scope = model_->tensors.scope(tensor);
  return scope.empty() ? std::string(model_->tensors.name(tensor)) : full_name(model_->tensors[tensor]);
}

plot::NamedTensor OpenModel::tensor(size_t tensor) const { return {name(tensor), model_->tensors[tensor]}; }

std::shared_ptr<const std::vector<uint32_t>> OpenModel::in_order(Order order) const {
  const std::scoped_lock lock(mutex_);
  auto& known = orders_[order];
  if (known) return known;
  const TensorList& tensors = model_->tensors;
  auto all = std::make_shared<std::vector<uint32_t>>(tensors.size());
  std::iota(all->begin(), all->end(), 0U);
  switch (order) {
    case Order::index:
      break;
    case Order::name:
      std::ranges::stable_sort(*all,
                               [&](uint32_t a, uint32_t b) { return is_before(tensors.name(a), tensors.name(b)); });
      break;
    case Order::dtype:
      sort_by(*all,
              [&](uint32_t i) { return tensors.dtype(i) == nullptr ? std::string_view() : tensors.dtype(i)->name; });
      break;
    case Order::shape:
      std::ranges::stable_sort(*all, [&](uint32_t a, uint32_t b) {
        return std::ranges::lexicographical_compare(tensors.shape(a), tensors.shape(b));
      });
      break;
    case Order::parameters:
      sort_by(*all, [&](uint32_t i) { return parameters(i); });
      break;
    case Order::bytes:
      sort_by(*all, [&](uint32_t i) { return listed_bytes(tensors, i); });
      break;
  }
  return known = std::move(all);
}

Result<std::shared_ptr<const std::vector<char>>> OpenModel::matching(const std::string& words,
                                                                     const std::string& under) const {
  const std::string search = under + '\n' + words;
  const std::scoped_lock lock(mutex_);
  if (last_match_ && search == last_search_) return last_match_;
  // What is typed further finds a part of what was found.
  const bool is_narrower =
      last_match_ && search.starts_with(last_search_) && !under.empty() == !last_search_.starts_with('\n');
  const std::vector<std::string> each = words_of(words);
  auto match = std::make_shared<std::vector<char>>(model_->tensors.size());
  const auto is_match = [&](size_t i) {
    if (is_narrower && (*last_match_)[i] == 0) return false;
    const bool is_scoped = !model_->tensors.scope(i).empty();
    const std::string scoped = is_scoped ? name(i) : std::string();
    const std::string_view text = is_scoped ? std::string_view(scoped) : model_->tensors.name(i);
    return text.starts_with(under) &&
           std::ranges::all_of(each, [&](const std::string& word) { return has_word(text, word); });
  };
  constexpr size_t kPart = 50'000;
  const auto searched =
      in_parallel(match->size() / kPart + 1, processors(kSearchThreads), [&](uint64_t part) -> Result<void> {
        const size_t first = static_cast<size_t>(part) * kPart;
        for (size_t i = first; i < std::min(first + kPart, match->size()); ++i) (*match)[i] = is_match(i) ? 1 : 0;
        return {};
      });
  if (!searched) return tl::unexpected(searched.error());
  last_search_ = search;
  last_match_ = match;
  return match;
}

std::string OpenModel::file_path(size_t tensor) const {
  const std::scoped_lock lock(mutex_);
  if (!paths_) {
    auto paths = tensor_paths(nullptr, model_->tensors, "", texts_);
    if (!paths) return {};
    paths_ = std::move(*paths);
  }
  const auto found = std::ranges::find(*paths_, tensor, &NamedPath::name);
  return found == paths_->end() ? std::string() : std::string(found->path());
}

Accepted<OpenModelPtr> OpenModels::open(const std::string& path, const std::string& v) {
  const auto missing = [&] { return httpd::refused(404, fmt::format("/{}: is not a model", printable(path))); };
  const auto ino = forest_.resolve(path, Forest::FinalLink::followed);
  if (!ino) return ino.error().code == Code::not_found ? missing() : tl::unexpected<Refusal>(refusal_of(ino.error()));
  const auto listed = forest_.list(*ino);  // enters it
  if (!listed && listed.error().code == Code::not_found) return missing();
  if (!listed) return tl::unexpected<Refusal>(refusal_of(listed.error()));
  const ModelPtr found = forest_.is_unlisted(*ino) || listed->count == 0 ? nullptr : listed->tree->model();
  if (found == nullptr) return missing();
  // A directory in a model belongs to it, too.
  const auto above = forest_.parent(*ino);
  if (*ino != Forest::kRoot && above && forest_.model_of(*above) == found) return missing();
  const ModelPtr model = ACCEPT(accepted(with_lazy_parts(found)));
  OpenModelPtr opened;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find_if(
        open_, [&](const OpenModelPtr& each) { return each->pointer() == model && each->path() == path; });
    if (known != open_.end()) {
      opened = *known;
      open_.erase(known);
    }
  }
  if (opened == nullptr) opened = std::make_shared<OpenModel>(model, path, version_of(*model));
  {
    const std::scoped_lock lock(mutex_);
    open_.insert(open_.begin(), opened);
    if (open_.size() > kMaxOpen) open_.pop_back();
  }
  if (!v.empty() && v != opened->version())
    return httpd::refused(409, fmt::format("/{}: has changed; reload the page", printable(path)));
  return opened;
}

}  // namespace weightfs::api
