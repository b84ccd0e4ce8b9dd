#include "report/compare/duplicates.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/cancellable_sort.h"

namespace weightfs::compare {
namespace {

constexpr uint64_t kBeginning = 4096;

// Tensors of the same type that are the same range of a file: read once.
struct Storage {
  std::vector<TensorPlace> tensors;
  std::optional<Digest> digest;
  std::optional<Error> error;
};

// What equal tensors have in common.
using TypeAndSize = std::tuple<const DType*, std::string_view, uint64_t>;

std::string storage_of(const Slice& source) {
  std::string identity = source.identity();
  if (identity.empty())
    identity = fmt::format("at {}+{}", reinterpret_cast<uintptr_t>(source.whole().get()), source.offset());
  return identity;
}

class DuplicateFinder {
 public:
  DuplicateFinder(std::span<const ModelPtr> models, size_t threads, const ReportProgress& report)
      : models_(models), threads_(threads), report_(report) {}

  Result<Duplicates> run() {
    std::vector<Storage*> unknown;
    const auto all = TRY(storages());
    std::map<TypeAndSize, std::vector<Storage*>> begin_alike;
    for (const auto& [type, storages] : all) {
      std::vector<Storage*> without_digest;
      for (const auto& storage : storages)
        if (!storage->digest) without_digest.push_back(storage.get());
      const bool has_known = without_digest.size() < storages.size();
      auto& read = has_known ? unknown : begin_alike[type];
      read.insert(read.end(), without_digest.begin(), without_digest.end());
    }
    for (const auto& [type, storages] : begin_alike) {
      auto alike = TRY(with_equal_beginnings(storages));
      unknown.insert(unknown.end(), alike.begin(), alike.end());
    }
    TRY_VOID(hash(unknown));
    TRY_VOID(collect(all));
    return std::move(out_);
  }

 private:
  using Storages = std::map<TypeAndSize, std::vector<std::unique_ptr<Storage>>>;

  TensorView tensor_at(const TensorPlace& place) const { return models_[place.model]->tensors[place.index]; }

  // The storages of the types and sizes that two tensors or more have.
  Result<Storages> storages() const {
    std::map<TypeAndSize, std::vector<TensorPlace>> places;
    for (size_t m = 0; m < models_.size(); ++m) {
      for (size_t i = 0; i < models_[m]->tensors.size(); ++i) {
        if (is_cancelled()) return cancelled();
        const TensorView tensor = models_[m]->tensors[i];
        if (tensor.nbytes() == 0 || tensor.source.refused()) continue;
        const bool is_known = tensor.dtype->block_bytes != 0;
        places[{tensor.dtype, is_known ? std::string_view() : tensor.stored_dtype, tensor.nbytes()}].push_back({m, i});
      }
    }
    Storages out;
    for (const auto& [type, found] : places) {
      if (found.size() < 2) continue;
      std::map<std::string, Storage*> by_range;
      for (const TensorPlace& place : found) {
        if (is_cancelled()) return cancelled();
        Storage*& storage = by_range[storage_of(tensor_at(place).source)];
        if (storage == nullptr) storage = out[type].emplace_back(std::make_unique<Storage>()).get();
        storage->tensors.push_back(place);
        const auto& digests = models_[place.model]->per_tensor->digests;
        if (const auto known = digests.find(place.index); known != digests.end()) storage->digest = known->second;
      }
    }
    return out;
  }

  // Those that may be equal to another one, or are several tensors.
  Result<std::vector<Storage*>> with_equal_beginnings(const std::vector<Storage*>& storages) {
    std::vector<std::optional<Digest>> beginnings(storages.size());
    TRY_VOID(in_parallel(storages.size(), threads_, [&](uint64_t i) -> Result<void> {
      if (is_cancelled()) return cancelled();
      Storage& storage = *storages[static_cast<size_t>(i)];
      const Slice source = tensor_at(storage.tensors.front()).source;
      const auto text = read_text(source, 0, std::min(kBeginning, source.size()));
      if (text)
        beginnings[static_cast<size_t>(i)] = sha256(*text);
      else
        storage.error = text.error();
      return {};
    }));
    std::map<Digest, std::vector<Storage*>> alike;
    for (size_t i = 0; i < storages.size(); ++i) {
      if (is_cancelled()) return cancelled();
      if (beginnings[i]) alike[*beginnings[i]].push_back(storages[i]);
    }
    std::vector<Storage*> out;
    for (const auto& [beginning, same] : alike)
      if (same.size() > 1 || same.front()->tensors.size() > 1) out.insert(out.end(), same.begin(), same.end());
    return out;
  }

  Result<void> hash(const std::vector<Storage*>& storages) {
    uint64_t total = 0;
    for (const Storage* storage : storages) total += tensor_at(storage->tensors.front()).nbytes();
    std::atomic<uint64_t> done = 0;
    return in_parallel(storages.size(), threads_, [&](uint64_t i) -> Result<void> {
      if (is_cancelled()) return cancelled();
      Storage& storage = *storages[static_cast<size_t>(i)];
      const auto digest = digest_of(tensor_at(storage.tensors.front()).source,
                                    [&](uint64_t bytes) { report_("hashing", done.fetch_add(bytes) + bytes, total); });
      if (digest)
        storage.digest = *digest;
      else
        storage.error = digest.error();
      return {};
    });
  }

  Result<void> collect(const Storages& all) {
    for (const auto& [type, storages] : all) {
      std::map<Digest, EqualTensors> equal;
      for (const auto& storage : storages) {
        if (is_cancelled()) return cancelled();
        if (storage->error)
          for (const TensorPlace& place : storage->tensors) out_.unreadable.push_back({place, *storage->error});
        if (!storage->digest) continue;
        EqualTensors& group = equal[*storage->digest];
        group.digest = *storage->digest;
        group.nbytes = std::get<uint64_t>(type);
        ++group.copies;
        group.tensors.insert(group.tensors.end(), storage->tensors.begin(), storage->tensors.end());
      }
      for (auto& [digest, group] : equal)
        if (group.tensors.size() > 1) out_.groups.push_back(std::move(group));
    }
    const auto place_less = [](const TensorPlace& x, const TensorPlace& y) {
      return std::tie(x.model, x.index) < std::tie(y.model, y.index);
    };
    for (EqualTensors& group : out_.groups) TRY_VOID(sort_cancellably(group.tensors, place_less));
    TRY_VOID(sort_cancellably(out_.groups, [&](const EqualTensors& x, const EqualTensors& y) {
      return x.cost() != y.cost() ? x.cost() > y.cost() : place_less(x.tensors.front(), y.tensors.front());
    }));
    return sort_cancellably(out_.unreadable,
                            [&](const auto& x, const auto& y) { return place_less(x.place, y.place); });
  }

  const std::span<const ModelPtr> models_;
  const size_t threads_;
  const ReportProgress& report_;
  Duplicates out_;
};

}  // namespace

Result<Duplicates> find_duplicates(std::span<const ModelPtr> models, size_t threads, const ReportProgress& report) {
  return DuplicateFinder(models, threads, report).run();
}

}  // namespace weightfs::compare
