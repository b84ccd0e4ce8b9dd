// A SOURCE in an object store: `s3://BUCKET/KEY` is a model file, whose other files are the objects beside it, and
// `s3://BUCKET/KEY?versionId=ID` a version of it;
// `s3://BUCKET/PREFIX/` are all objects whose keys begin with that prefix, shown like a directory.
#include "protocols/s3.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "base/digest.h"
#include "base/text.h"
#include "sources/file_list.h"
#include "sources/kinds.h"
#include "sources/remote_model.h"
#include "sources/unlisted_folder.h"

namespace weightfs {
namespace {

// "//BUCKET/KEY", "//BUCKET/KEY?versionId=ID"
struct NamedObject {
  std::string bucket;
  std::string key;      // empty: the bucket
  std::string version;  // empty: the current one

  bool is_prefix() const { return key.empty() || key.ends_with('/'); }
  s3::ObjectName name() const { return {key, version}; }
  std::string shown() const { return fmt::format("s3://{}/{}", printable(bucket), printable(name().text())); }
  // The key up to its last `/`, and the rest.
  std::string folder() const { return key.substr(0, key.rfind('/') + 1); }
  std::string file() const { return key.substr(key.rfind('/') + 1); }
};

Result<NamedObject> parse_object_name(const std::string& rest) {
  constexpr size_t kMaxKey = 1024;
  constexpr size_t kMaxVersion = 1024;
  constexpr std::string_view kVersion = "?versionId=";
  const auto invalid = [&](const char* problem) {
    return failure(Code::unsupported, fmt::format("{}: {}", quoted("s3:" + rest), problem));
  };
  if (!rest.starts_with("//")) return invalid("not a valid name of an object; write s3://BUCKET/KEY");
  const size_t slash = std::min(rest.find('/', 2), rest.size());
  NamedObject name{rest.substr(2, slash - 2), rest.substr(std::min(slash + 1, rest.size())), ""};
  if (name.bucket.empty()) return invalid("names no bucket");
  if (const size_t question = name.key.rfind(kVersion); question != name.key.npos) {
    name.version = name.key.substr(question + kVersion.size());
    name.key.resize(question);
    if (name.version.empty() || name.version.size() > kMaxVersion || !is_visible_ascii(name.version) ||
        name.is_prefix())
      return invalid("not a valid version; write s3://BUCKET/KEY?versionId=ID");
  }
  if (name.key.size() > kMaxKey) return invalid("a key has at most 1024 bytes");
  // libcurl, proxies and servers remove such components from a URL's path.
  std::string_view path = name.key;
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!name.key.empty() && !is_plain_path(path))
    return invalid("a key with an empty component, `.` or `..` is not supported");
  return name;
}

Result<s3::BucketPtr> open_bucket(const NamedObject& name, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr || registries.s3 == nullptr)
    return failure(Code::unsupported, fmt::format("{}: object stores are not available here", name.shown()));
  return s3::Bucket::open(name.bucket, *registries.s3, registries.store, registries.http)
      .map_error([&](const Error& error) {
        return Error{error.code, fmt::format("{}: {}", name.shown(), error.message)};
      });
}

Result<SourcePtr> open_object(const s3::BucketPtr& bucket, const NamedObject& name) {
  auto found = TRY(bucket->find(name.name()));
  if (found) return std::move(found->bytes);
  return failure(Code::not_found, fmt::format("{}: no such object", name.shown()));
}

Result<SourceEntry> object_entry(const s3::BucketPtr& bucket, const NamedObject& name, s3::OpenObject object,
                                 const OpenOptions& options, Check check) {
  const auto open = [bucket, name](std::string_view path) {
    return open_object(bucket, {name.bucket, name.folder() + std::string(path), ""});
  };
  const Container container{.name = name.file(),
                            .bytes = std::move(object.bytes),
                            .folder = std::make_shared<UnlistedFolder>(open, options.on_opened),
                            .blobs = options.blobs,
                            .file = options.file,
                            .lists_tried = options.lists_tried};
  if (check == Check::model && options.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  const Time time = object.modified != 0 ? object.modified : time_now();
  return SourceEntry{
      container.name, time, 0,
      [=, forced = options.forced, shown = name.shown()]() -> Result<Opened> {
        return OpenedModel{std::make_shared<Model>(TRY(read_remote_model(container, forced))), shown, time};
      },
      version_on_server(*container.bytes)};
}

// All objects whose keys begin with the name, which ends with `/` or is empty.
Result<SourceEntry> prefix_entry(const s3::BucketPtr& bucket, NamedObject name, const OpenOptions& options) {
  const std::vector<s3::Object> objects = TRY(bucket->list(name.key));
  FileListBuilder files;
  Time modified = 0;
  bool is_empty = true;
  Sha256 version;
  for (const s3::Object& object : objects) {
    // Programs create such objects to show an empty directory.
    const bool is_marker = object.size == 0 && (object.key.ends_with('/') || object.key == name.key);
    if (is_marker) continue;
    is_empty = false;
    modified = std::max(modified, object.modified);
    const std::string line = fmt::format("{}/{}/{}/{}\n", object.key, object.size, object.etag, object.modified);
    version.update(std::as_bytes(std::span(line)));
    TRY_VOID(
        files.add(std::string_view(object.key).substr(name.key.size()), {bucket->bytes_of(object), object.modified}));
  }
  if (is_empty) return failure(Code::not_found, fmt::format("{}: no objects below it", name.shown()));
  while (name.key.ends_with('/')) name.key.pop_back();
  const std::string label = name.key.empty() ? name.bucket : name.file();
  std::string source = name.shown();
  if (source.ends_with('/')) source.pop_back();
  SourceEntry entry = listed_source(
      {std::move(files).finish(), label, std::move(source), modified != 0 ? modified : time_now()}, options);
  entry.version = version.finish().hex();
  return entry;
}

}  // namespace

Result<SourceEntry> find_object(const std::string& rest, const OpenOptions& options, Check check) {
  NamedObject name = TRY(parse_object_name(rest));
  const s3::BucketPtr bucket = TRY(open_bucket(name, options));
  if (name.is_prefix()) return prefix_entry(bucket, std::move(name), options);
  if (auto object = TRY(bucket->find(name.name())))
    return object_entry(bucket, name, std::move(*object), options, check);
  if (!name.version.empty()) return failure(Code::not_found, fmt::format("{}: no such version", name.shown()));
  name.key += '/';
  auto entry = prefix_entry(bucket, name, options);
  if (!entry && entry.error().code == Code::not_found)
    entry.error().message = fmt::format("{}: no such object, and no objects below it",
                                        std::string_view(name.shown()).substr(0, name.shown().size() - 1));
  return entry;
}

Result<void> read_keys_of_objects(OpenOptions& options) {
  options.registries.s3 = std::make_shared<const s3::Settings>(TRY(s3::Settings::of_user()));
  return {};
}

Result<SourcePtr> open_object_file(const std::string& rest, const OpenOptions& options) {
  const NamedObject name = TRY(parse_object_name(rest));
  if (name.is_prefix()) return failure(Code::unsupported, fmt::format("{}: names a directory", name.shown()));
  return open_object(TRY(open_bucket(name, options)), name);
}

}  // namespace weightfs
