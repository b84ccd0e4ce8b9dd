// The kinds of sources. Each is implemented in its own file.
#pragma once

#include "protocols/registry.h"
#include "sources/source.h"

namespace weightfs {

class StatedDigests;

/// A file or directory (sources/path.cc).
Result<SourceEntry> find_path(const std::string& path, const OpenOptions& options, Check check);

/// Opens that file as bytes. Fails with unsupported for a directory.
Result<SourcePtr> open_path_file(const std::string& path, const OpenOptions& options);

/// `ollama:NAME`; `name` is the text after the prefix (sources/ollama_name.cc).
Result<SourceEntry> find_ollama_name(const std::string& name, const OpenOptions& options, Check check);

/// `oci://HOST/REPOSITORY[:TAG|@DIGEST]`; `text` follows the colon (sources/oci_name.cc).
Result<SourceEntry> find_oci_name(const std::string& text, const OpenOptions& options, Check check);

/// The only layer above 8 MiB of such a model.
Result<SourcePtr> open_ollama_layer(const std::string& name, const OpenOptions& options);
Result<SourcePtr> open_oci_layer(const std::string& text, const OpenOptions& options);

/// "HOST/REPOSITORY"
std::string name_of_repository(const Reference& reference);

/// The mirrors of a repository: of the command line and the user's files. None offline, where nothing is requested.
std::vector<Mirror> mirrors_of(const Reference& reference, const OpenOptions& options);

/// `https:` and `http:` URLs; `rest` is the text after the colon (sources/url.cc).
Result<SourceEntry> find_https_url(const std::string& rest, const OpenOptions& options, Check check);
Result<SourceEntry> find_http_url(const std::string& rest, const OpenOptions& options, Check check);

/// The file at such a URL as bytes. Fails with unsupported for a URL that ends with `/`.
Result<SourcePtr> open_https_file(const std::string& rest, const OpenOptions& options);
Result<SourcePtr> open_http_file(const std::string& rest, const OpenOptions& options);

/// `s3://BUCKET/KEY` and `s3://BUCKET/PREFIX/`; `rest` is the text after the colon (sources/objects/s3.cc).
Result<SourceEntry> find_object(const std::string& rest, const OpenOptions& options, Check check);

/// The object as bytes. Fails with unsupported for a prefix.
Result<SourcePtr> open_object_file(const std::string& rest, const OpenOptions& options);

/// `az://ACCOUNT/CONTAINER/PATH`, `abfs://CONTAINER@HOST/PATH` and `https:` URLs of blobs; `rest` is the text after the
/// colon (sources/objects/azure.cc).
Result<SourceEntry> find_blob(const std::string& rest, const OpenOptions& options, Check check);
Result<SourceEntry> find_abfs_blob(const std::string& rest, const OpenOptions& options, Check check);
Result<SourceEntry> find_blob_url(const std::string& rest, const OpenOptions& options, Check check);
Result<SourcePtr> open_blob_file(const std::string& rest, const OpenOptions& options);
Result<SourcePtr> open_abfs_file(const std::string& rest, const OpenOptions& options);
Result<SourcePtr> open_blob_url(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_blob(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_abfs(const std::string& rest, const OpenOptions& options);
/// Those of the container and of the plain URL, as which it may have to be read.
Result<std::vector<Scope>> scopes_of_blob_url(const std::string& rest, const OpenOptions& options);

/// Whether a source is the `https:` URL of a blob, or of a directory of blobs: on a host of Azure, below a container,
/// without a query or with a signature in it. A name without a container is that of a blob of `$root`: a plain URL.
bool is_blob_url(const std::string& source);

/// Reads the user's credentials for Azure Storage. Fails as azure::Settings::of_user().
Result<void> read_keys_of_blobs(OpenOptions& options);
/// For URLs, which may be public: without an error.
Result<void> read_keys_of_blob_urls(OpenOptions& options);

/// The place of a model in a registry; nothing for a name that is in a local store.
Result<std::optional<Reference>> reference_of_ollama_name(const std::string& name, const OpenOptions& options);
Result<std::optional<Reference>> reference_of_oci_name(const std::string& text, const OpenOptions& options);

/// See scopes_of().
Result<std::vector<Scope>> scopes_of_https_url(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_http_url(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_object(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_huggingface(const std::string& text, const OpenOptions& options);

/// Those of a repository at a registry and its mirrors.
Result<std::vector<Scope>> scopes_of_repository(const Reference& reference, const OpenOptions& options);

/// Reads the user's keys for object stores. Fails if they cannot be read.
Result<void> read_keys_of_objects(OpenOptions& options);

/// Reads the user's keys for the cloud of a registry, if it is one of a cloud. Keys that cannot be read become a note:
/// the registry may have a stored login, or be public.
void read_keys_of_registry(const Reference& reference, OpenOptions& options);

/// These are for `gs://BUCKET/KEY`.
Result<SourceEntry> find_google_object(const std::string& rest, const OpenOptions& options, Check check);
Result<SourcePtr> open_google_object_file(const std::string& rest, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_google_object(const std::string& rest, const OpenOptions& options);
Result<void> read_tokens_of_google(OpenOptions& options);

/// `hf://ORG/REPO`; `text` is what follows `hf:` (sources/huggingface.cc).
Result<SourceEntry> find_huggingface(const std::string& text, const OpenOptions& options, Check check);

/// The file at its path as bytes. Fails with unsupported if the path is that of a directory.
Result<SourcePtr> open_huggingface_file(const std::string& text, const OpenOptions& options);

/// `ms://ORG/NAME`; `text` is what follows `ms:` (sources/modelscope/modelscope.cc).
Result<SourceEntry> find_modelscope(const std::string& text, const OpenOptions& options, Check check);
Result<SourcePtr> open_modelscope_file(const std::string& text, const OpenOptions& options);
Result<std::vector<Scope>> scopes_of_modelscope(const std::string& text, const OpenOptions& options);

/// The error for an argument that was taken for a path, which `not_found` says does not exist: with the probable name
/// at its end ("org/repo: no such file or directory; did you mean hf://org/repo?"), or unchanged (sources/mistyped.cc).
Error with_probable_source(const std::string& path, Error not_found);

/// Fails with not_found if the URL is a web page of the Hugging Face Hub or of $HF_ENDPOINT, with the name of the
/// repository or file that the page shows.
Result<void> check_not_a_page_of_the_hub(const std::string& url);

/// A directory in SOURCE: one model (formats/one_model.h), a store of manifests, or a directory of models. Fails
/// with io, and with unsupported for a weightfs mount.
Result<Opened> open_directory(const Location& directory, const OpenOptions& options);

/// A container file on disk. `stated`: the digests of the files in its directory; null: they are looked for there.
Result<Opened> open_container(const Location& file, Time modified, const OpenOptions& options,
                              const std::shared_ptr<const StatedDigests>& stated = nullptr);
Result<Container> container_at(const Location& file, const OpenOptions& options);

/// The models of an Ollama store, under HOST/NAMESPACE/MODEL/TAG (sources/ollama_store.cc).
Result<Opened> open_ollama_store(const Location& store, Time modified, const OpenOptions& options);

/// The models of a store of Docker Model Runner, under NAME/TAG (sources/disk/model_runner.h).
Result<Opened> open_model_runner_store(const Location& store, Time modified, const OpenOptions& options);

}  // namespace weightfs
