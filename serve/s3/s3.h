// The models of a server as buckets of an object store, and buckets of another one that is mirrored, for reading: the
// API of Amazon S3 in path style, below /.s3/.
// (docs/serve.md; docs.aws.amazon.com, "Amazon S3 API Reference": ListBuckets, HeadBucket, GetBucketLocation,
// ListObjects, ListObjectsV2, HeadObject, GetObject.)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "fs/http/site.h"
#include "serve/api/results.h"
#include "serve/hub/repositories.h"
#include "serve/s3/access.h"
#include "serve/s3/buckets.h"
#include "serve/s3/list_query.h"
#include "serve/s3/mirror.h"

namespace weightfs::objects {

/// The files of the site: Site::file() and Site::entity().
struct SiteFiles {
  std::function<httpd::Response(const httpd::Request&, Ino, const std::string& name, const httpd::FileFields&)> send;
  std::function<Result<httpd::FileEntity>(Ino)> entity;
};

/// Buckets of another object store, and Site::source(), which sends their bytes.
struct Mirrored {
  std::shared_ptr<Mirror> mirror;  ///< null: there are none
  std::function<httpd::Response(const httpd::Request&, SourcePtr, const std::string& name, const httpd::FileFields&)>
      send;
};

/// Callable from any thread. The forest must outlive it.
class ObjectStore {
 public:
  /// `keys`: of clients that need no token; may be empty.
  ObjectStore(Forest& forest, SiteFiles files, AccessKeys keys, Mirrored mirrored = {})
      : forest_(forest),
        files_(std::move(files)),
        keys_(std::move(keys)),
        mirrored_(std::move(mirrored)),
        buckets_(forest),
        repositories_(forest) {}

  /// The response for a path below /.s3/; nothing for any other. `has_left`: whether the client has; null: not known.
  std::optional<httpd::Accepted<httpd::Response>> answer(const httpd::Request& request, const httpd::Target& target,
                                                         const std::function<bool()>& has_left = {});

  /// Whether the target is below /.s3/, and one of the keys signed the request.
  bool is_signed(const httpd::Request& request, const httpd::Target& target) const;

  /// The response for a refused request for a path below /.s3/: an error as XML, and why its signature is not valid.
  std::optional<httpd::Response> refuse(const httpd::Refusal& refusal, const httpd::Request& request) const;

  bool has_keys() const { return !keys_.empty(); }

 private:
  struct Call;

  httpd::Accepted<httpd::Response> answer(const Call& call);
  httpd::Accepted<httpd::Response> list_buckets(const Call& call);
  httpd::Accepted<httpd::Response> answer_bucket(const Call& call, const std::optional<hub::FoundModel>& model);
  httpd::Accepted<httpd::Response> list_objects(const Call& call, const hub::FoundModel& model);
  httpd::Response object(const Call& call, const hub::FoundModel& model);
  httpd::Accepted<httpd::Response> list_mirrored(const Call& call);
  httpd::Response mirrored_object(const Call& call);
  httpd::Accepted<httpd::Response> xml(std::string text);

  /// Where a key may be: the files of a model, or its complete views.
  struct Shelf {
    hub::RepositoryPtr files;
    std::string above;  ///< what the keys have before the paths: empty, or "views/"
  };
  Result<Shelf> shelf_of(const Call& call, const hub::FoundModel& model, const std::string& key);
  Result<Ino> place_of(const Shelf& shelf, const hub::RepositoryFile& file);
  Result<ObjectFacts> facts_of(const Shelf& shelf, const hub::RepositoryFile& file);

  Forest& forest_;
  const SiteFiles files_;
  const AccessKeys keys_;
  const Mirrored mirrored_;
  Buckets buckets_;
  hub::Repositories repositories_;
  api::Results results_{0};  // counts the bytes of the responses
};

}  // namespace weightfs::objects
