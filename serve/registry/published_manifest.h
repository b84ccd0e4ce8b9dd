// Manifests that a model has from a registry, a layout or a store: what their texts state.
#pragma once

#include <optional>
#include <string>

#include "base/digest.h"
#include "base/source.h"
#include "base/values/value.h"
#include "formats/model.h"

namespace weightfs::distribution {

/// The tag of a name that a layout may have in full: "registry.example/name:tag". Empty if it is none.
std::string tag_in(const std::string& name);

bool has_tag(const PublishedManifest& manifest, const std::string& tag);

/// Opens a manifest or blob of a model that has published ones. Fails with not_found, and as opening it does.
Result<SourcePtr> open_published(const Model& model, const Digest& digest);

/// The text of a published manifest. Fails as open_published() does, and with unsupported for more than kMaxManifest.
Result<std::string> text_of_manifest(const Model& model, const Digest& digest);

/// Whether the text of a manifest is one that Ollama reads.
bool is_for_ollama(const std::string& manifest);

/// Whether all manifests that a model publishes are.
bool publishes_for_ollama(const Model& model);

/// The type of a manifest: the one that it states, if that is a type of manifests, or that of its form. Fails with
/// not_found if the text is no manifest.
Result<std::string> type_of(const std::string& text);

/// The descriptor of a manifest whose subject is `of`; nothing for other manifests, and those that cannot be read.
std::optional<Map> referrer_in(const Model& model, const Digest& manifest, const Digest& of);

}  // namespace weightfs::distribution
