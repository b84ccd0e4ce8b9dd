#include "serve/api/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/cancel.h"
#include "base/cancellable_sort.h"
#include "base/parallel.h"
#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/compare/names.h"
#include "report/compare/select_tensors.h"
#include "report/inspect/locations.h"
#include "report/inspect/single_model.h"

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

tl::unexpected<Refusal> refused_as_missing(const std::string& path) {
  return httpd::refused(404, fmt::format("/{}: is not a model", printable(path)));
}

template <class Key>
Result<void> sort_by(std::vector<uint32_t>& all, const Key& key) {
  return sort_cancellably(all, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
}

// From what must not be read to what is verified best. Bytes without a digest come after bytes that differ, and before
// bytes that only the connection protects.
int rank_of_verification(const TensorList& tensors, size_t i) {
  constexpr int kRefused = -2, kMismatch = -1;
  if (tensors.is_refused(i)) return kRefused;
  const VerifiedBy by = tensors[i].source.verification();
  return by == VerifiedBy::mismatch ? kMismatch : static_cast<int>(by);
}

Later<TextsPtr> later_texts(const ModelPtr& model, tokenizer::TextKind kind) {
  return Later<TextsPtr>([=]() -> Result<TextsPtr> {
    return std::make_shared<const std::vector<tokenizer::ModelText>>(TRY(tokenizer::texts_of(*model, kind)));
  });
}

}  // namespace

std::string shown_layer(std::string_view name) {
  std::string layer = layer_of(name);
  return layer.empty() ? std::string(kNoLayer) : layer;
}

bool Filter::is_part_of(const Filter& other) const {
  const auto has = [&](const std::string& word) {
    return std::ranges::any_of(words, [&](const std::string& own) { return own.find(word) != own.npos; });
  };
  return (other.dtype.empty() || other.dtype == dtype) && (other.layer.empty() || other.layer == layer) &&
         under.starts_with(other.under) && std::ranges::all_of(other.words, has);
}

bool has_words(std::string_view text, const std::vector<std::string>& words) {
  return std::ranges::all_of(words, [&](const std::string& word) { return has_word(text, word); });
}

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
    : model_(std::move(model)),
      path_(std::move(path)),
      version_(std::move(version)),
      entries_([model = model_]() -> Result<std::shared_ptr<const metadata::Entries>> {
        return metadata::Entries::of(model);
      }),
      vocabulary_([model = model_] { return tokenizer::read_vocabulary(*model); }),
      texts_{later_texts(model_, tokenizer::TextKind::chat_template), later_texts(model_, tokenizer::TextKind::system),
             later_texts(model_, tokenizer::TextKind::parameters), later_texts(model_, tokenizer::TextKind::licence)} {
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

plot::NamedTensor OpenModel::tensor(size_t tensor) const { return {name(tensor), model_->tensors[tensor], model_}; }

Result<std::shared_ptr<const std::vector<uint32_t>>> OpenModel::in_order(Order order) const {
  if (order == Order::share) order = Order::bytes;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = orders_.find(order); known != orders_.end()) return known->second;
  }
  auto all = std::make_shared<std::vector<uint32_t>>(model_->tensors.size());
  std::iota(all->begin(), all->end(), 0U);
  TRY_VOID(sort(order, *all));
  if (order == Order::verification) return all;  // it changes when bytes are read
  const std::scoped_lock lock(mutex_);
  return orders_.try_emplace(order, std::move(all)).first->second;
}

Result<void> OpenModel::sort(Order order, std::vector<uint32_t>& all) const {
  const TensorList& tensors = model_->tensors;
  switch (order) {
    case Order::index:
      return {};
    case Order::name:
      return sort_cancellably(all, [&](uint32_t a, uint32_t b) { return is_before(tensors.name(a), tensors.name(b)); });
    case Order::dtype:
      return sort_by(
          all, [&](uint32_t i) { return tensors.dtype(i) == nullptr ? std::string_view() : tensors.dtype(i)->name; });
    case Order::shape:
      return sort_cancellably(all, [&](uint32_t a, uint32_t b) {
        return std::ranges::lexicographical_compare(tensors.shape(a), tensors.shape(b));
      });
    case Order::parameters:
      return sort_by(all, [&](uint32_t i) { return parameters(i); });
    case Order::bytes:
    case Order::share:
      return sort_by(all, [&](uint32_t i) { return listed_bytes(tensors, i); });
    case Order::verification: {
      std::vector<int> ranks(all.size());
      for (size_t i = 0; i < ranks.size() && !is_cancelled(); ++i) ranks[i] = rank_of_verification(tensors, i);
      return sort_by(all, [&](uint32_t i) { return ranks[i]; });
    }
  }
  return {};
}

bool OpenModel::shows(const Filter& filter, size_t tensor) const {
  const TensorList& tensors = model_->tensors;
  if (!filter.dtype.empty() && dtype_text(tensors[tensor]) != filter.dtype) return false;
  const bool is_scoped = !tensors.scope(tensor).empty();
  const std::string scoped = is_scoped ? name(tensor) : std::string();
  const std::string_view text = is_scoped ? std::string_view(scoped) : tensors.name(tensor);
  if (!text.starts_with(filter.under)) return false;
  if (!filter.layer.empty() && shown_layer(text) != filter.layer) return false;
  return has_words(text, filter.words);
}

Result<std::shared_ptr<const std::vector<char>>> OpenModel::matching(const Filter& filter) const {
  std::shared_ptr<const std::vector<char>> wider;  // what is typed further finds a part of what was found
  {
    const std::scoped_lock lock(mutex_);
    if (last_match_ && filter == last_filter_) return last_match_;
    if (filter.is_part_of(last_filter_)) wider = last_match_;
  }
  auto match = std::make_shared<std::vector<char>>(model_->tensors.size());
  const auto is_match = [&](size_t i) { return (!wider || (*wider)[i] != 0) && shows(filter, i); };
  constexpr size_t kPart = 1'000;
  TRY_VOID(in_parallel(match->size() / kPart + 1, processors(kSearchThreads), [&](uint64_t part) -> Result<void> {
    if (is_cancelled()) return cancelled();
    const size_t first = static_cast<size_t>(part) * kPart;
    for (size_t i = first; i < std::min(first + kPart, match->size()); ++i) (*match)[i] = is_match(i) ? 1 : 0;
    return {};
  }));
  const std::scoped_lock lock(mutex_);
  last_filter_ = filter;
  last_match_ = match;
  return last_match_;
}

Result<std::shared_ptr<const OpenModel::FilePaths>> OpenModel::file_paths() const {
  {
    const std::scoped_lock lock(mutex_);
    if (paths_ != nullptr) return paths_;
  }
  auto made = std::make_shared<FilePaths>();
  // The tree has charged its own ones: these are limited by the same size, but cost the tree nothing.
  Budget own(model_->budget == nullptr ? UINT64_MAX : model_->budget->container_bytes());
  made->paths = TRY(tensor_paths(&own, model_->tensors, "", made->texts));
  const std::scoped_lock lock(mutex_);
  if (paths_ == nullptr) paths_ = std::move(made);
  return paths_;
}

std::string OpenModel::file_path(size_t tensor) const {
  const auto all = file_paths();
  if (!all) return {};
  const auto found = std::ranges::find((*all)->paths, tensor, &NamedPath::name);
  return found == (*all)->paths.end() ? std::string() : std::string(found->path());
}

Accepted<ModelPtr> model_at(Forest& forest, const std::string& path) {
  const auto missing = [&] { return refused_as_missing(path); };
  const auto ino = forest.resolve(path, Forest::FinalLink::followed);
  if (!ino) return ino.error().code == Code::not_found ? missing() : tl::unexpected<Refusal>(refusal_of(ino.error()));
  const auto listed = forest.list(*ino);  // enters it
  if (!listed && listed.error().code == Code::not_found) return missing();
  if (!listed) return tl::unexpected<Refusal>(refusal_of(listed.error()));
  if (forest.is_unlisted(*ino) && !path.starts_with(kDroppedFiles)) return missing();
  const ModelPtr found = listed->count == 0 ? nullptr : listed->tree->model();
  if (found == nullptr) return ModelPtr();
  // A directory in a model belongs to it, too.
  const auto above = forest.parent(*ino);
  const auto around = *ino != Forest::kRoot && above ? forest.list(*above) : listed;
  if (*ino != Forest::kRoot && around && around->tree->model() == found) return missing();
  return accepted(with_lazy_parts(found));
}

Accepted<OpenModelPtr> OpenModels::open(const std::string& path, const std::string& v, Names names) {
  const ModelPtr model = ACCEPT(model_at(forest_, path));
  if (model == nullptr) return refused_as_missing(path);
  OpenModelPtr opened;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find_if(open_, [&](const Opened& each) {
      return each.stored == model && each.names == names && each.model->path() == path;
    });
    if (known != open_.end()) {
      opened = known->model;
      open_.erase(known);
    }
  }
  if (opened == nullptr) {
    const ModelPtr named = names == Names::stored ? model : ACCEPT(accepted(compare::gguf_tensors(model))).model;
    opened = std::make_shared<OpenModel>(named, path, version_of(*model));
  }
  {
    const std::scoped_lock lock(mutex_);
    open_.insert(open_.begin(), {model, names, opened});
    if (open_.size() > kMaxOpen) open_.pop_back();
  }
  if (!v.empty() && v != opened->version())
    return httpd::refused(409, fmt::format("/{}: has changed; reload the page", printable(path)));
  return opened;
}

}  // namespace weightfs::api
