// Builds DDUF files and llamafiles for tests: zips with models in them.
#pragma once

#include <string>

#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

/// The files of a pipeline with one part.
inline Files dduf_files() {
  return {{"model_index.json", R"({"_class_name": "Pipeline", "vae": ["diffusers", "Autoencoder"]})"},
          {"vae/config.json", "{}"},
          {"vae/m.safetensors", SafetensorsBuilder().tensor("t", "U8", "1", "x").build()}};
}

/// A zip of stored members with zip64 headers, as huggingface_hub writes it.
inline std::string dduf(const Files& files) {
  ZipBuilder b;
  for (const auto& [path, bytes] : files) b.stored(path, bytes).zip64 = true;
  return b.build();
}

/// The start of an executable that runs on several systems.
inline constexpr const char* kExecutable = "MZqFpD='\n\0not a program";

inline std::string llamafile(const Files& files, std::string_view executable = kExecutable) {
  ZipBuilder b;
  b.executable(executable);
  for (const auto& [path, bytes] : files) b.stored(path, bytes);
  return b.build();
}

inline std::string tiny_gguf() { return GgufBuilder().tensor("t", {1}, 24, "x").build(); }

}  // namespace weightfs::test
