// A SOURCE in an object store: `s3://BUCKET/KEY` is a model file, whose other files are the objects beside it, and
// `s3://BUCKET/KEY?versionId=ID` a version of it;
// `s3://BUCKET/PREFIX/` are all objects whose keys begin with that prefix, shown like a directory. `gs://` is the same
// in Google Cloud Storage, with `?generation=N`.
#include "protocols/s3.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/gcs.h"
#include "sources/kinds.h"
#include "sources/objects/stored.h"

namespace weightfs {
namespace {

// "//BUCKET/KEY", "//BUCKET/KEY?versionId=ID"
struct NamedObject {
  const s3::Dialect* dialect;
  std::string bucket;
  std::string key;      // empty: the bucket
  std::string version;  // empty: the current one

  bool is_prefix() const { return key.empty() || key.ends_with('/'); }
  s3::ObjectName name() const { return {key, version}; }
  std::string shown() const {
    return fmt::format("{}://{}/{}", dialect->scheme, printable(bucket), printable(name().text(*dialect)));
  }
  // The key up to its last `/`, and the rest.
  std::string folder() const { return key.substr(0, key.rfind('/') + 1); }
  std::string file() const { return key.substr(key.rfind('/') + 1); }
};

Result<NamedObject> parse_object_name(const std::string& rest, const s3::Dialect& dialect) {
  constexpr size_t kMaxKey = 1024;
  constexpr size_t kMaxVersion = 1024;
  const std::string parameter = fmt::format("?{}=", dialect.version_parameter);
  const auto invalid = [&](std::string_view problem) {
    return failure(Code::unsupported,
                   fmt::format("{}: {}", quoted(fmt::format("{}:{}", dialect.scheme, rest)), problem));
  };
  if (!rest.starts_with("//"))
    return invalid(fmt::format("not a valid name of an object; write {}://BUCKET/KEY", dialect.scheme));
  const size_t slash = std::min(rest.find('/', 2), rest.size());
  NamedObject name{&dialect, rest.substr(2, slash - 2), rest.substr(std::min(slash + 1, rest.size())), ""};
  if (name.bucket.empty()) return invalid("names no bucket");
  if (const size_t question = name.key.rfind(parameter); question != name.key.npos) {
    name.version = name.key.substr(question + parameter.size());
    name.key.resize(question);
    if (name.version.empty() || name.version.size() > kMaxVersion || !is_visible_ascii(name.version) ||
        name.is_prefix())
      return invalid(fmt::format("not a valid version; write {}://BUCKET/KEY{}ID", dialect.scheme, parameter));
  }
  if (name.key.size() > kMaxKey) return invalid("a key has at most 1024 bytes");
  // libcurl, proxies and servers remove such components from a URL's path.
  std::string_view path = name.key;
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!name.key.empty() && !is_plain_path(path))
    return invalid("a key with an empty component, `.` or `..` is not supported");
  return name;
}

const std::shared_ptr<const s3::Settings>& settings_of(const s3::Dialect& dialect, const OpenOptions& options) {
  return dialect.has_generations ? options.registries.clouds.google : options.registries.clouds.s3;
}

Result<s3::BucketPtr> open_bucket(const NamedObject& name, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  const auto& settings = settings_of(*name.dialect, options);
  if (registries.store == nullptr || settings == nullptr)
    return failure(Code::unsupported, fmt::format("{}: object stores are not available here", name.shown()));
  return s3::Bucket::open(name.bucket, *settings, registries.store, registries.http).map_error([&](const Error& error) {
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
    return open_object(bucket, {name.dialect, name.bucket, name.folder() + std::string(path), ""});
  };
  return entry_of_file({name.file(), name.shown(), std::move(object.bytes), object.modified, open}, options, check);
}

// All objects whose keys begin with the name, which ends with `/` or is empty.
Result<SourceEntry> prefix_entry(const s3::BucketPtr& bucket, const NamedObject& name, const OpenOptions& options) {
  ObjectsBelow below(name.key);
  for (const s3::Object& object : TRY(bucket->list(name.key)))
    TRY_VOID(below.add({object.key, object.etag + object.generation, {bucket->bytes_of(object), object.modified}}));
  return std::move(below).finish(name.bucket, name.shown(), options);
}

Result<SourceEntry> find_in(const s3::Dialect& dialect, const std::string& rest, const OpenOptions& options,
                            Check check) {
  NamedObject name = TRY(parse_object_name(rest, dialect));
  const s3::BucketPtr bucket = TRY(open_bucket(name, options));
  if (name.is_prefix()) return prefix_entry(bucket, name, options);
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

Result<SourcePtr> open_in(const s3::Dialect& dialect, const std::string& rest, const OpenOptions& options) {
  const NamedObject name = TRY(parse_object_name(rest, dialect));
  if (name.is_prefix()) return failure(Code::unsupported, fmt::format("{}: names a directory", name.shown()));
  return open_object(TRY(open_bucket(name, options)), name);
}

Result<std::vector<Scope>> scopes_in(const s3::Dialect& dialect, const std::string& rest, const OpenOptions& options) {
  const NamedObject name = TRY(parse_object_name(rest, dialect));
  const auto& settings = settings_of(dialect, options);
  const std::string endpoint = settings == nullptr ? "" : settings->endpoint;
  return std::vector<Scope>{{.paths = Scope::Paths::bucket,
                             .credentials = {.kind = dialect.credentials, .server = endpoint},
                             .bucket = name.bucket,
                             .folder = name.folder()}};
}

}  // namespace

Result<SourceEntry> find_object(const std::string& rest, const OpenOptions& options, Check check) {
  return find_in(s3::kAmazon, rest, options, check);
}
Result<SourceEntry> find_google_object(const std::string& rest, const OpenOptions& options, Check check) {
  return find_in(s3::kGoogle, rest, options, check);
}

Result<SourcePtr> open_object_file(const std::string& rest, const OpenOptions& options) {
  return open_in(s3::kAmazon, rest, options);
}
Result<SourcePtr> open_google_object_file(const std::string& rest, const OpenOptions& options) {
  return open_in(s3::kGoogle, rest, options);
}

Result<std::vector<Scope>> scopes_of_object(const std::string& rest, const OpenOptions& options) {
  return scopes_in(s3::kAmazon, rest, options);
}
Result<std::vector<Scope>> scopes_of_google_object(const std::string& rest, const OpenOptions& options) {
  return scopes_in(s3::kGoogle, rest, options);
}

Scope scope_of_objects(const std::string& endpoint, std::vector<std::string> patterns) {
  return {.below = http::normalized_url(endpoint + "/"),
          .paths = Scope::Paths::objects,
          .credentials = {.kind = http::CredentialsName::Kind::bucket, .server = endpoint},
          .patterns = std::move(patterns)};
}

Result<void> read_keys_of_objects(OpenOptions& options) {
  options.registries.clouds.s3 =
      std::make_shared<const s3::Settings>(TRY(s3::Settings::of_user(options.registries.bucket_flags)));
  return {};
}

Result<void> read_tokens_of_google(OpenOptions& options) {
  options.registries.clouds.google =
      std::make_shared<const s3::Settings>(TRY(gcs::settings_of_user(options.registries.bucket_flags)));
  return {};
}

}  // namespace weightfs
