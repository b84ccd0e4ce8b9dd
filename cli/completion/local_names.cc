#include "cli/completion/local_names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/files/hub_layout.h"
#include "base/os/mounts.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cache/maintenance.h"
#include "cli/open_source.h"
#include "protocols/huggingface.h"
#include "report/compare/select_tensors.h"
#include "sources/ollama_name.h"

namespace weightfs::completion {
namespace {

namespace fs = std::filesystem;

// Calls `found` with the path of each directory or file that is exactly `depth` levels below `directory`.
template <class Found>
void visit(const fs::path& directory, int depth, const Found& found) {
  std::error_code error;
  for (fs::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    if (depth == 1)
      found(each->path());
    else
      visit(each->path(), depth - 1, found);
  }
}

// The shortest name of HOST/NAMESPACE/MODEL/TAG.
std::string ollama_name(const fs::path& manifest) {
  std::string name = manifest.lexically_normal();
  for (const std::string_view left_out : {"registry.ollama.ai/", "library/"}) {
    if (!name.starts_with(left_out)) break;
    name.erase(0, left_out.size());
  }
  const size_t tag = name.rfind('/');
  name[tag] = ':';
  if (name.substr(tag) == ":latest") name.resize(tag);
  return "ollama:" + name;
}

Result<OpenedSource> open_offline(SourceInput& input) {
  input.store_flags.offline = true;
  const std::string home = environment("HOME");
  if (input.source.starts_with("~/") && !home.empty()) input.source.replace(0, 1, home);
  return open_source(input);
}

std::vector<std::string> tensor_names(Forest& forest, const std::string& word) {
  const ModelPtr model = forest.model_of(Forest::kRoot);
  std::vector<std::string> names;
  for (size_t i = 0; model != nullptr && i < model->tensors.size(); ++i)
    if (std::string name = full_name(model->tensors[i]); name.starts_with(word)) names.push_back(std::move(name));
  return names;
}

}  // namespace

std::vector<std::string> ollama_names() {
  std::vector<std::string> names;
  for (const std::string& store : local_ollama_stores()) {
    const fs::path manifests = fs::path(store) / "manifests";
    visit(manifests, 4,
          [&](const fs::path& file) { names.push_back(ollama_name(file.lexically_relative(manifests))); });
  }
  return names;
}

std::vector<std::string> hub_names() {
  std::vector<std::string> names;
  visit(huggingface::cache_path(), 1, [&](const fs::path& directory) {
    if (const auto name = hub_layout::model_of(directory.filename().string())) names.push_back("hf://" + *name);
  });
  return names;
}

std::vector<std::string> mount_points() {
  const std::string below = environment("PWD") + "/";
  std::vector<std::string> points;
  for (const Mount& mount : Mounts::now().of_weightfs()) {
    points.push_back(mount.point);
    if (mount.point.starts_with(below)) points.push_back(mount.point.substr(below.size()));
  }
  return points;
}

std::vector<std::string> cached_digests() {
  const auto directory = cache_directory();
  const auto contents = directory.and_then([](const std::string& path) { return CacheMaintenance(path).inventory(); });
  std::vector<std::string> digests;
  if (!contents) return digests;
  for (const store::Item& item : contents->items) digests.push_back(item.digest.hex());
  return digests;
}

std::vector<std::string> names_in(const char* file) {
  std::vector<std::string> names;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (const size_t colon = line.find(':'); colon != line.npos && colon > 0) names.push_back(line.substr(0, colon));
  return names;
}

std::vector<std::string> paths_in_model(SourceInput& input, const std::string& word, TensorNames tensors) {
  const std::string parent = word.substr(0, word.rfind('/') + 1);
  const auto opened = open_offline(input);
  if (!opened) return {};
  Forest& forest = *opened->forest;
  const auto directory = forest.resolve(parent);
  const auto all = directory ? forest.list(*directory) : tl::unexpected(directory.error());
  std::vector<std::string> paths;
  for (uint32_t i = 0; all && i < all->count; ++i) {
    const Node node = all->tree->node(all->first + i);
    const bool is_directory = node.kind == NodeKind::directory || node.kind == NodeKind::tree;
    std::string path = parent + std::string(node.name()) + (is_directory ? "/" : "");
    if (path.starts_with(word)) paths.push_back(std::move(path));
  }
  return paths.empty() && tensors == TensorNames::if_no_path ? tensor_names(forest, word) : paths;
}

std::vector<std::string> tensors_in_model(SourceInput& input, const std::string& word) {
  const auto opened = open_offline(input);
  return opened ? tensor_names(*opened->forest, word) : std::vector<std::string>();
}

}  // namespace weightfs::completion
