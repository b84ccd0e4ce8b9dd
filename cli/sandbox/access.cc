// Computes the files that a process that reads containers may use, and creates the directory of the cache, because a
// rule needs one. No container is read.
#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/certificates.h"
#include "cache/external_stores.h"
#include "cache/paths.h"
#include "cli/sandbox/sandbox.h"
#include "protocols/huggingface.h"
#include "protocols/modelscope.h"
#include "protocols/netrc.h"
#include "protocols/registry.h"
#include "sources/disk/digest_notes.h"
#include "sources/disk/stated_digests.h"
#include "sources/ollama_name.h"

namespace weightfs::sandbox {
namespace {

using Paths = std::vector<std::string>;

// Links beyond this number of entries are not resolved, so their targets cannot be read.
constexpr size_t kMaxEntries = 200'000;

// Directories of which a source file needs only its sibling files, not the whole subtree.
bool is_shared_directory(const std::string& path) {
  constexpr std::array kShared = {"/",     "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt",    "/proc",
                                  "/root", "/run",  "/srv", "/sys", "/tmp",  "/usr",   "/var", "/var/tmp"};
  std::error_code failed;
  return std::find(kShared.begin(), kShared.end(), path) != kShared.end() ||
         path == std::filesystem::canonical(environment("HOME"), failed);
}

// The blobs/ directories of the stores that contain the path: beside manifests/ (Ollama) or snapshots/ (Hugging Face).
Paths blobs_of(const std::string& path) {
  Paths blobs;
  for (const char* folder : {"/manifests/", "/snapshots/"})
    if (const size_t at = path.rfind(folder); at != std::string::npos) blobs.push_back(path.substr(0, at) + "/blobs");
  return blobs;
}

// For file systems whose directory entries have no type.
unsigned char type_of(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return DT_UNKNOWN;
  return static_cast<unsigned char>(IFTODT(status.st_mode));
}

// Collects the files that reading sources needs.
class SourceFiles {
 public:
  explicit SourceFiles(const Access& access) : only_root_links_(::geteuid() == 0 && !access.follow_links) {}

  Paths paths() && { return {found_.begin(), found_.end()}; }

  void add(const std::string& source) {
    std::error_code failed;
    const auto given = std::filesystem::absolute(source, failed);
    const std::string real = std::filesystem::canonical(given, failed);
    if (failed) return;
    add_real(real);
    // A link is opened through its own directory.
    const std::string parent = std::filesystem::canonical(given.parent_path(), failed);
    if (!failed && !std::filesystem::is_directory(real, failed)) add_beside(parent);
    for (const std::string& path : {given.string(), real})
      for (const std::string& blobs : blobs_of(path + "/")) found_.insert(blobs);
    for (const std::string& path : {parent, real}) add_notes_above(path);
    follow_links();
  }

 private:
  // A SOURCE below a directory that huggingface_hub has downloaded to, or that has lists of checksums.
  void add_notes_above(std::filesystem::path directory) {
    std::error_code failed;
    for (const std::string& list : names_of_lists_above(directory.filename().native()))
      if (std::filesystem::is_regular_file(directory.parent_path() / list, failed))
        found_.insert(directory.parent_path() / list);
    for (int up = 0; up < kMaxAboveDownload && directory.has_relative_path(); ++up) {
      directory = directory.parent_path();
      for (const char* const notes : kDownloadNotes)
        if (std::filesystem::is_directory(directory / notes, failed)) found_.insert(directory / notes);
    }
  }

  void add_real(const std::string& real) {
    std::error_code failed;
    if (!found_.insert(real).second) return;
    if (std::filesystem::is_directory(real, failed))
      pending_.push_back(real);
    else
      add_beside(std::filesystem::path(real).parent_path());
  }

  // Shards and indexes are siblings.
  void add_beside(const std::string& directory) {
    const bool is_shared = is_shared_directory(directory);
    if (!is_shared && !found_.insert(directory).second) return;
    for_each_entry(directory, [&](const std::string& path, unsigned char type) {
      if (type == DT_REG && is_shared) found_.insert(path);
      if (type == DT_LNK) add_target(path);
    });
  }

  void follow_links() {
    for (; !pending_.empty(); pending_.pop_front()) {
      const std::string directory = pending_.front();
      for_each_entry(directory, [&](const std::string& path, unsigned char type) {
        if (type == DT_DIR) pending_.push_back(path);
        if (type == DT_LNK) add_target(path);
      });
    }
  }

  // Root follows only its own links, because other users' links could lead anywhere.
  void add_target(const std::string& link) {
    struct stat status {};
    if (::lstat(link.c_str(), &status) != 0 || (only_root_links_ && status.st_uid != 0)) return;
    std::error_code failed;
    const std::string target = std::filesystem::canonical(link, failed);
    if (failed || is_covered(target)) return;
    if (!found_.insert(target).second) return;
    if (std::filesystem::is_directory(target, failed)) pending_.push_back(target);
  }

  bool is_covered(const std::string& path) const {
    for (std::filesystem::path above(path); above.has_relative_path(); above = above.parent_path())
      if (found_.contains(above) && above != std::filesystem::path(path)) return true;
    return false;
  }

  template <class Visit>
  void for_each_entry(const std::string& directory, const Visit& visit) {
    if (mounts_.is_on_weightfs(directory)) return;
    DIR* entries = ::opendir(directory.c_str());
    if (entries == nullptr) return;
    while (const dirent* entry = seen_ < kMaxEntries ? ::readdir(entries) : nullptr) {
      const std::string name = entry->d_name;
      const std::string path = fmt::format("{}/{}", directory == "/" ? "" : directory, name);
      ++seen_;
      if (name != "." && name != "..") visit(path, entry->d_type == DT_UNKNOWN ? type_of(path) : entry->d_type);
    }
    ::closedir(entries);
  }

  const bool only_root_links_;
  const Mounts mounts_ = Mounts::now();
  std::set<std::string> found_;
  std::deque<std::string> pending_;  // directories not scanned yet
  size_t seen_ = 0;
};

void add_existing(Paths& paths, const Paths& more) {
  const Mounts mounts = Mounts::now();
  for (const std::string& path : more)
    if (!path.empty() && !mounts.is_on_weightfs(path)) paths.push_back(path);
}

// Files read by the C library and OpenSSL, and /proc for this process and its readers (/proc/PID/status). Landlock
// denies the secret files of other processes in /proc, as it denies tracing them.
Paths system_files() {
  return {"/proc",          "/sys/fs/cgroup",      "/sys/devices/system/cpu",  "/dev/urandom",        "/dev/random",
          "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/ssl/openssl.cnf", "/etc/ssl/openssl.cnf"};
}

// The directories of $SSL_CERT_DIR, and the files outside that links in them lead to; root follows only its own links.
// Each rule takes time: a directory to which many links lead is permitted as a whole.
void add_certificates(Paths& paths, std::string_view directories) {
  constexpr size_t kMaxCertificates = 10'000;
  constexpr size_t kMany = 10;
  std::error_code failed;
  std::map<std::string, Paths> targets;  // by their directories
  while (!directories.empty()) {
    const std::string directory(directories.substr(0, directories.find(':')));
    directories.remove_prefix(std::min(directory.size() + 1, directories.size()));
    paths.push_back(directory);
    size_t seen = 0;
    for (std::filesystem::directory_iterator entry(directory, failed), end;
         !failed && entry != end && seen < kMaxCertificates; entry.increment(failed), ++seen) {
      struct stat status {};
      const std::string& link = entry->path().native();
      const bool is_link = ::lstat(link.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
      if (!is_link || (::geteuid() == 0 && status.st_uid != 0)) continue;
      std::error_code broken;
      const std::filesystem::path target = std::filesystem::canonical(entry->path(), broken);
      if (!broken && std::filesystem::is_regular_file(target, broken) && target.parent_path() != directory)
        targets[target.parent_path()].push_back(target);
    }
  }
  for (auto& [folder, files] : targets) {
    if (files.size() >= kMany && !is_shared_directory(folder))
      paths.push_back(folder);
    else
      paths.insert(paths.end(), files.begin(), files.end());
  }
}

// Files read by name resolution and https.
Paths network_files() {
  Paths paths = {"/etc/hosts",
                 "/etc/nsswitch.conf",
                 "/etc/host.conf",
                 "/etc/gai.conf",
                 "/etc/services",
                 "/etc/protocols",
                 "/etc/resolv.conf",
                 "/run/systemd/resolve",
                 "/run/NetworkManager",
                 "/run/resolvconf",
                 "/usr/lib/ssl",
                 "/usr/share/ca-certificates",
                 "/usr/local/share/ca-certificates",
                 "/etc/pki/ca-trust/extracted/pem",
                 "/etc/ca-certificates/extracted",
                 "/var/lib/ca-certificates"};
  const Paths certificates = Certificates::places();
  paths.insert(paths.end(), certificates.begin(), certificates.end());
  add_certificates(paths, environment("SSL_CERT_DIR"));
  paths.push_back(CredentialPaths::of_user().ollama_key);
  return paths;
}

// A file that is replaced is another one for Landlock: so its directory, too, unless other things are there.
void add_key_file(Paths& paths, const std::string& file) {
  if (file.empty()) return;
  paths.push_back(file);
  for (std::filesystem::path each : {std::filesystem::path(file), std::filesystem::path()}) {
    std::error_code failed;
    if (each.empty()) each = std::filesystem::canonical(file, failed);
    const auto folder = std::filesystem::canonical(each.parent_path(), failed);
    if (!failed && !is_shared_directory(folder) && !std::filesystem::exists(folder / "hub", failed))
      paths.push_back(folder);
  }
}

// The cache creates its directory with the first blob, but a rule needs an existing directory.
void add_cache(FileAccess& files, const StoreFlags& store_flags) {
  const auto directory = cache_directory();
  if (!directory || store_flags.no_cache || !check_not_in_a_mount(*directory)) return;
  std::ignore = create_directories(*directory);
  files.write.push_back(*directory);
}

}  // namespace

SandboxAccess access_for(const std::vector<std::string>& sources, const Access& access, const StoreFlags& store_flags) {
  SandboxAccess granted{{}, Network::none};  // requests are the fetcher's
  SourceFiles found(access);
  for (const std::string& source : sources) found.add(source);
  Paths& read = granted.files.read;
  read = std::move(found).paths();
  add_existing(read, store_flags.store.blob_directories);
  std::error_code no_file;
  add_existing(read, {std::filesystem::canonical(store_flags.tree, no_file)});
  add_existing(read, well_known_stores());
  add_existing(read, local_ollama_stores());
  add_existing(read, system_files());
  granted.files.write.emplace_back("/dev/null");
  add_cache(granted.files, store_flags);
  return granted;
}

SandboxAccess access_for_fetcher(const std::vector<std::string>& key_files) {
  SandboxAccess granted{{}, Network::connect};
  Paths keys;
  const CredentialPaths logins = CredentialPaths::of_user();
  add_key_file(keys, logins.docker_config);
  for (const std::string& file : logins.auth_files) add_key_file(keys, file);
  add_key_file(keys, huggingface::token_path());
  add_key_file(keys, modelscope::token_path());
  add_key_file(keys, netrc::path());
  for (const std::string& file : key_files) add_key_file(keys, file);
  add_existing(granted.files.read, keys);
  add_existing(granted.files.read, system_files());
  add_existing(granted.files.read, network_files());
  granted.files.write.emplace_back("/dev/null");
  return granted;
}

}  // namespace weightfs::sandbox
