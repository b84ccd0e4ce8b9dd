// Compressed data for tests, written by libarchive's filters.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace weightfs::test {

/// `bytes`, compressed by a filter of libarchive: "gzip", "bzip2", "xz", "lzma", "lz4".
inline std::string filtered(const char* filter, std::string_view bytes) {
  std::string out(bytes.size() + (1 << 16), '\0');
  size_t used = 0;
  archive* const writer = archive_write_new();
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, "data");
  archive_entry_set_filetype(entry, AE_IFREG);
  const bool is_written = archive_write_set_format_raw(writer) == ARCHIVE_OK &&
                          archive_write_add_filter_by_name(writer, filter) == ARCHIVE_OK &&
                          archive_write_set_bytes_in_last_block(writer, 1) == ARCHIVE_OK &&
                          archive_write_open_memory(writer, out.data(), out.size(), &used) == ARCHIVE_OK &&
                          archive_write_header(writer, entry) == ARCHIVE_OK &&
                          archive_write_data(writer, bytes.data(), bytes.size()) >= 0 &&
                          archive_write_close(writer) == ARCHIVE_OK;
  archive_entry_free(entry);
  archive_write_free(writer);
  if (!is_written) throw std::runtime_error(std::string("libarchive cannot write ") + filter);
  out.resize(used);
  return out;
}

}  // namespace weightfs::test
