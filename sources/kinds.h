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

/// The mirrors of a repository: of the command line and the user's files. None offline, where nothing is requested.
std::vector<Mirror> mirrors_of(const Reference& reference, const OpenOptions& options);

/// `https:` and `http:` URLs; `rest` is the text after the colon (sources/url.cc).
Result<SourceEntry> find_https_url(const std::string& rest, const OpenOptions& options, Check check);
Result<SourceEntry> find_http_url(const std::string& rest, const OpenOptions& options, Check check);

/// The file at such a URL as bytes. Fails with unsupported for a URL that ends with `/`.
Result<SourcePtr> open_https_file(const std::string& rest, const OpenOptions& options);
Result<SourcePtr> open_http_file(const std::string& rest, const OpenOptions& options);

/// `s3://BUCKET/KEY` and `s3://BUCKET/PREFIX/`; `rest` is the text after the colon (sources/s3.cc).
Result<SourceEntry> find_object(const std::string& rest, const OpenOptions& options, Check check);

/// The object as bytes. Fails with unsupported for a prefix.
Result<SourcePtr> open_object_file(const std::string& rest, const OpenOptions& options);

/// Reads the user's keys for object stores. Fails if they cannot be read.
Result<void> read_keys_of_objects(OpenOptions& options);

/// `hf://ORG/REPO`; `text` is what follows `hf:` (sources/huggingface.cc).
Result<SourceEntry> find_huggingface(const std::string& text, const OpenOptions& options, Check check);

/// The file at its path as bytes. Fails with unsupported if the path is that of a directory.
Result<SourcePtr> open_huggingface_file(const std::string& text, const OpenOptions& options);

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
