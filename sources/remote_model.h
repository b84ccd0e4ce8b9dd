// Models on servers.
#pragma once

#include "formats/format.h"

namespace weightfs {

/// As read_model(), but fails for the reason for which a file of the model (a shard, external data) is missing or
/// cannot be read: a server that lacks a file now may have it later, and a mount never changes. Downloaded bytes that
/// cannot be read as a model are not kept, if they have a digest and were not compared.
Result<Model> read_remote_model(const Container& container, const Format* forced);

/// For SourceEntry::version: the strong validator of a file on a server. If there is none, a text that no other call
/// returns, because nothing shows that the file has not changed.
std::string version_on_server(const Source& file);

}  // namespace weightfs
