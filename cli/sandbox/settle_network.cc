#include "cli/sandbox/settle_network.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/os/descriptor.h"
#include "cli/process/isolated.h"
#include "cli/sandbox/sandbox.h"

namespace weightfs::sandbox {
namespace {

// Learns whether a format has described a blob that is at a URL.
class LinkFinder final : public Blobs {
 public:
  SourcePtr blob(BlobProducer producer) override { return decoded_->blob(std::move(producer)); }
  Result<SourcePtr> materialize(BlobProducer producer) override { return decoded_->materialize(std::move(producer)); }
  void note_link() override { has_links_ = true; }
  bool has_links() const { return has_links_; }

 private:
  const BlobsPtr decoded_ = uncached_blobs();
  std::atomic<bool> has_links_ = false;
};

// The first bytes that tell a safetensors header from others.
using Head = std::array<char, 9>;

// Whether these first bytes are of a format that links to nothing, and contains no other containers: GGUF, .npy, HDF5,
// safetensors.
bool is_without_links(std::string_view head) {
  for (const std::string_view magic : {"GGUF", "\x93NUMPY", "\x89HDF"})
    if (head.starts_with(magic)) return true;
  return head.size() == Head().size() && head.back() == '{' && head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

// A pipe or a device is not opened, which might block.
bool is_file_without_links(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Head head{};
  const ssize_t got = ::pread(file.number(), head.data(), head.size(), 0);
  return got > 0 && is_without_links({head.data(), static_cast<size_t>(got)});
}

bool is_part_without_links(const Part& part) {
  Head head{};
  const auto source = part.source.get();
  const auto got = source ? (*source)->read(0, std::as_writable_bytes(std::span(head))) : Result<size_t>(0);
  return got && is_without_links({head.data(), *got});
}

// Opens the containers in a model, so that those with links note them. What is nested deeper than formats permit has
// no model.
void open_nested(const ModelPtr& model) {
  if (model->complete_model) std::ignore = model->complete_model->get();
  const auto nested = model->nested ? model->nested(model) : Result<std::vector<Nested>>();
  if (!nested) return;
  for (const Nested& each : *nested) {
    if (is_part_without_links(model->parts[each.part])) continue;
    if (const auto inner = each.model.get()) open_nested(*inner);
  }
}

// A child that dies or hangs gives no reason to refuse the network to this process.
bool may_need_network(const std::vector<std::string>& paths, const OpenOptions& options, StoreFlags store_flags) {
  store_flags.offline = true;
  const IsolatedTask open_all = [&] {
    const auto entered = enter_sandbox(access_for(paths, options.access, store_flags), [](const std::string&) {});
    Map found;
    found.append("remote", !entered || std::ranges::any_of(paths, [&](const auto& path) {
                   return has_remote_parts(path, options, entered->proof);
                 }));
    return found;
  };
  const IsolatedResult result = run_isolated({open_all}).front();
  const bool* const is_remote = result ? result->find_as<bool>("remote") : nullptr;
  return is_remote == nullptr || *is_remote;
}

}  // namespace

bool has_remote_parts(const std::string& path, OpenOptions options, MayOpen proof) {
  const auto finder = std::make_shared<LinkFinder>();
  options.blobs = finder;
  options.registries = {};
  options.log = [](const std::string&) {};
  options.on_opened = [](uint64_t, uint64_t) {};
  const auto entry = find_source(path, options, proof, Check::existence);
  if (!entry) return false;
  const auto* const open = std::get_if<std::function<Result<Opened>()>>(&entry->content);
  if (open == nullptr) return false;
  const auto opened = (*open)();
  if (opened && std::holds_alternative<Listing>(*opened)) return true;
  if (opened) open_nested(std::get<OpenedModel>(*opened).model);
  return finder->has_links();
}

void settle_network(const std::vector<std::string>& sources, const OpenOptions& options, StoreFlags& store_flags) {
  if (store_flags.offline) return;
  if (is_offline_by_environment(sources)) store_flags.offline = true;
  if (store_flags.offline || !store_flags.sandbox || sources.empty() || store_flags.served_mirror.is_on()) return;
  FetchSettings& fetching = store_flags.store.fetching;
  if (!fetching.cache_mirrors.empty() || !std::ranges::all_of(sources, is_path)) return;
  std::vector<std::string> opened = sources;
  std::erase_if(opened, is_file_without_links);
  if (!opened.empty() && may_need_network(opened, options, store_flags)) return;
  store_flags.offline = true;
  fetching.had_no_links = true;
}

}  // namespace weightfs::sandbox
