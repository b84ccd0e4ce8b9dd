#include "formats/directory/weight_files.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "formats/directory/weight_names.h"

namespace weightfs {
namespace directory {
namespace {

// What the tensors are read from.
struct Used {
  std::set<const Source*> sources;
  bool has_decoded = false;  // a tensor is not a range of a part
};

Used used_by(const Model& model) {
  Used used;
  const Source* last = nullptr;
  for (const TensorView& tensor : model.tensors) {
    const Source* const source = tensor.source.whole().get();
    if (source != nullptr && source != last) used.sources.insert(source);
    last = source;
  }
  std::set<const Source*> parts;
  for (const Part& part : model.parts)
    if (const auto source = part.source.peek()) parts.insert(source->get());
  used.has_decoded = std::ranges::any_of(used.sources, [&](const Source* source) { return !parts.contains(source); });
  return used;
}

// A shard is one of the weights without a tensor, too: the first of a GGUF has only keys, and all tensors of a damaged
// one are refused.
bool is_shard(std::string_view path) {
  const auto name = parse_weight_name(path.substr(path.rfind('/') + 1));
  return name && name->role == WeightName::Role::shard;
}

}  // namespace
}  // namespace directory

std::vector<std::string> find_weight_files(const Model& model) {
  const directory::Used used = directory::used_by(model);
  std::vector<std::string> out;
  for (const Part& part : model.parts) {
    const auto source = part.source.peek();
    const bool is_used = source && used.sources.contains(source->get());
    // The decoded tensors of several files are read together.
    const bool may_be_decoded = used.has_decoded && !part.is_structure && !model.has_members;
    if (is_used || may_be_decoded || (!model.has_members && directory::is_shard(part.path))) out.push_back(part.path);
  }
  if (!out.empty() || model.has_members) return out;
  // No tensor can be read, or there is none: the file that was opened.
  const auto first = std::ranges::find(model.parts, false, &Part::is_structure);
  if (first != model.parts.end())
    out.push_back(first->path);
  else if (!model.parts.empty())
    out.push_back(model.parts.front().path);
  return out;
}

std::vector<std::string> weight_files_of(const Model& model) {
  return model.chosen->weight_files.empty() ? find_weight_files(model) : model.chosen->weight_files;
}

std::optional<uint64_t> weight_file_bytes(const Model& model) {
  if (model.stored_bytes) return model.stored_bytes;
  const std::vector<std::string> files = weight_files_of(model);
  const std::set<std::string_view> paths(files.begin(), files.end());
  std::set<const Source*> counted;  // a file may have several names
  uint64_t bytes = 0;
  size_t found = 0;
  for (const Part& part : model.parts) {
    if (!paths.contains(part.path)) continue;
    const auto source = part.source.peek();
    if (!source || *source == nullptr) return std::nullopt;
    if (counted.insert(source->get()).second && __builtin_add_overflow(bytes, (*source)->size(), &bytes))
      return std::nullopt;
    ++found;
  }
  return found == 0 || found < paths.size() ? std::nullopt : std::optional(bytes);
}

}  // namespace weightfs
