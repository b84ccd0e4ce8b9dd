// weightfs cache: what is kept on this machine, whether it is right, and what may go.
#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "base/values/value.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/maintenance.h"
#include "cli/console/progress.h"
#include "cli/console/table.h"
#include "cli/console/time.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

constexpr size_t kShortDigest = 12;

struct CacheArguments {
  std::vector<std::string> digests;
  std::optional<uint64_t> size;
  bool all = false;
  bool force = false;
  bool long_form = false;
  bool json = false;
  bool bytes = false;
};

// Called with the cache that the user's environment names.
Exit with_cache(const std::function<Result<Exit>(const CacheMaintenance&)>& work) {
  const auto directory = cache_directory();
  if (!directory) return complain(directory.error());
  const auto done = work(CacheMaintenance(*directory));
  return done ? *done : complain(done.error());
}

std::string counted(uint64_t count, const std::string& one, const std::string& many) {
  return str(count, " ", count == 1 ? one : many);
}

// "a, b and c" of those that are not empty.
std::string enumerated(std::vector<std::string> things) {
  std::erase(things, "");
  std::string out;
  for (size_t i = 0; i < things.size(); ++i)
    out += str(i == 0 ? "" : i + 1 == things.size() ? " and " : ", ", things[i]);
  return out;
}

// A line of `ls`, whichever kind of thing it is.
struct Entry {
  Digest digest;
  uint64_t size = 0;
  uint64_t on_disk = 0;
  std::optional<timespec> used;
  bool pinned = false;
  const char* state;
};

std::vector<Entry> entries_of(const Inventory& contents) {
  std::vector<Entry> entries;
  for (const Inventory::Blob& b : contents.blobs)
    entries.push_back({b.digest, b.size, b.on_disk, b.last_used, b.pinned, "complete"});
  for (const Inventory::Part& p : contents.parts)
    entries.push_back({p.digest, p.size, p.on_disk, p.written, false, p.is_active ? "fetching" : "unfinished"});
  for (const Digest& digest : contents.absent) entries.push_back({digest, 0, 0, {}, true, "absent"});
  return entries;
}

Value as_value(const Entry& entry) {
  Map out;
  out.append("digest", "sha256:" + entry.digest.hex());
  out.append("size", entry.size);
  out.append("on_disk", entry.on_disk);
  out.append("used", entry.used ? Value(utc_time(*entry.used)) : Value());
  out.append("pinned", entry.pinned);
  out.append("state", entry.state);
  return out;
}

enum class Digits { few, all };

std::vector<Cell> as_row(const Entry& entry, Digits digits) {
  const std::string digest = entry.digest.hex();
  const auto used = [&](std::string (*written)(const timespec&)) { return entry.used ? written(*entry.used) : "-"; };
  return {{digits == Digits::all ? digest : digest.substr(0, kShortDigest), digest},
          bytes_cell(entry.size),
          {used(local_time), used(utc_time)},
          {entry.pinned ? "yes" : "-", entry.pinned ? "yes" : "no"},
          entry.state};
}

Result<Exit> list(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const std::vector<Entry> entries = entries_of(TRY(cache.inventory()));
  if (arguments.json) {
    List all;
    for (const Entry& entry : entries) all.push_back(as_value(entry));
    std::fputs(to_json(std::move(all)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{"digest"}, {"size", Align::right}, {"last used"}, {"pinned"}, {"state"}});
  for (const Entry& entry : entries) table.add(as_row(entry, arguments.long_form ? Digits::all : Digits::few));
  if (table.empty() && Look::of_stdout().form == Look::aligned)
    std::printf("the cache is empty\n");
  else
    table.print();
  return Exit::ok;
}

Value as_value(const Usage& usage) {
  Map out;
  out.append("blobs", usage.blobs);
  out.append("blob_bytes", usage.blob_bytes);
  out.append("pinned", usage.pinned);
  out.append("pinned_bytes", usage.pinned_bytes);
  out.append("unfinished", usage.unfinished);
  out.append("unfinished_bytes", usage.unfinished_bytes);
  out.append("all_bytes", usage.all_bytes);
  return out;
}

Result<Exit> sum_up(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const Usage usage = usage_of(TRY(cache.inventory()));
  if (arguments.json) {
    std::fputs(to_json(as_value(usage)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{""}, {"count", Align::right}, {"size", Align::right}});
  const auto add = [&](const Cell& what, const std::string& count, uint64_t bytes) {
    table.add({what, count, arguments.bytes ? Cell(str(bytes)) : bytes_cell(bytes)});
  };
  add("blobs", str(usage.blobs), usage.blob_bytes);
  if (usage.pinned > 0) add({"  pinned", "pinned"}, str(usage.pinned), usage.pinned_bytes);
  add("unfinished", str(usage.unfinished), usage.unfinished_bytes);
  add({"all", "all"}, str(usage.blobs + usage.unfinished), usage.all_bytes);
  table.print();
  return Exit::ok;
}

Result<Exit> verify_cache(const CacheMaintenance& cache) {
  ProgressBar bar;
  const VerifyResult checked = TRY(cache.verify(
      [&](const VerifyProgress& now) { bar.show(now.bytes, now.total, now.digest.hex().substr(0, kShortDigest)); }));
  bar.clear();
  for (const std::string& line : checked.mismatched) complain({Code::mismatch, line});
  for (const Error& error : checked.unreadable) complain(error);
  const uint64_t all = checked.valid + checked.mismatched.size() + checked.unreadable.size();
  if (all == 0) {
    std::printf("the cache is empty\n");
  } else {
    std::printf("%llu of %s, %s, %s\n", static_cast<unsigned long long>(checked.valid),
                counted(all, "blob", "blobs").c_str(), human_size(checked.bytes).c_str(),
                all == 1 ? "matches its digest" : "match their digests");
  }
  if (!checked.mismatched.empty()) return Exit::mismatch;
  return checked.unreadable.empty() ? Exit::ok : exit_of(checked.unreadable.front().code);
}

// What went, on a line.
void print_removed(const GcResult& removed) {
  const auto part = [](uint64_t count, const char* one, const char* many) {
    return count == 0 ? "" : counted(count, one, many);
  };
  const std::string what = enumerated({part(removed.blobs, "blob", "blobs"),
                                       part(removed.unfinished, "unfinished fetch", "unfinished fetches"),
                                       part(removed.leftovers, "leftover", "leftovers")});
  if (what.empty()) {
    std::printf("nothing to remove\n");
  } else {
    std::printf("removed %s, %s\n", what.c_str(), human_size(removed.bytes).c_str());
  }
}

Result<Exit> collect(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const GcResult removed = TRY(cache.collect(arguments.size));
  print_removed(removed);
  for (const std::string& line : removed.not_removed) log_to_stderr(line);
  return Exit::ok;
}

Result<std::vector<Digest>> digests_of(const CacheMaintenance& cache, const std::vector<std::string>& texts) {
  const Inventory contents = TRY(cache.inventory());
  std::vector<Digest> digests;
  for (const std::string& text : texts) digests.push_back(TRY(resolve_digest_prefix(contents, text)));
  return digests;
}

// Of what was named, all has to go; of all, what is pinned stays as it is meant to.
Result<Exit> remove(const CacheMaintenance& cache, const CacheArguments& arguments) {
  if (!arguments.all && arguments.digests.empty()) {
    complain({Code::io, "cache rm needs a DIGEST or --all (see weightfs cache rm --help)"});
    return Exit::usage;
  }
  const PinnedBlobs pinned = arguments.force ? PinnedBlobs::remove : PinnedBlobs::keep;
  const std::vector<Digest> digests = TRY(digests_of(cache, arguments.digests));
  const GcResult removed = TRY(arguments.all ? cache.remove_all(pinned) : cache.remove(digests, pinned));
  print_removed(removed);
  for (const std::string& line : removed.not_removed) log_to_stderr(line + ", so it stays");
  return arguments.all || removed.not_removed.empty() ? Exit::ok : Exit::io;
}

Result<Exit> pin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  for (const Digest& digest : TRY(digests_of(cache, arguments.digests)))
    std::printf("%s: %s\n", digest.hex().c_str(), TRY(cache.pin(digest)) ? "pinned" : "is pinned already");
  return Exit::ok;
}

Result<Exit> unpin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  for (const Digest& digest : TRY(digests_of(cache, arguments.digests)))
    std::printf("%s: %s\n", digest.hex().c_str(), TRY(cache.unpin(digest)) ? "no longer pinned" : "was not pinned");
  return Exit::ok;
}

Exit print_path() {
  const auto directory = cache_directory();
  if (!directory) return complain(directory.error());
  std::printf("%s\n", directory->c_str());
  return Exit::ok;
}

using Work = Result<Exit> (*)(const CacheMaintenance&, const CacheArguments&);

// The verbs of `weightfs cache`, one after the other.
class Verbs {
 public:
  Verbs(CLI::App& cache, Run& run) : cache_(cache), run_(run) {}

  CLI::App* add(const char* name, const char* what, Work work) {
    CLI::App* verb = cache_.add_subcommand(name, what);
    verb->callback([&run = run_, arguments = arguments_, work] {
      run = [=] { return with_cache([=](const CacheMaintenance& cache) { return work(cache, *arguments); }); };
    });
    return verb;
  }

  CLI::Option* add_digests(CLI::App* verb) {
    const auto check = [](const std::string& text) {
      return is_digest_prefix(text) ? "" : str(weightfs::quoted(text), " is no digest: 6 to 64 hex digits are");
    };
    return verb->add_option("DIGEST", arguments_->digests, "a blob's digest, or the first of its hex digits, 6 or more")
        ->check(CLI::Validator(check, ""));
  }

  CacheArguments& arguments() { return *arguments_; }

 private:
  CLI::App& cache_;
  Run& run_;
  std::shared_ptr<CacheArguments> arguments_ = std::make_shared<CacheArguments>();
};

void add_collecting(Verbs& verbs) {
  CLI::App* gc =
      verbs.add("gc", "remove unfinished fetches that nobody goes on with, and what else is of no use", collect);
  gc->add_option_function<std::string>(
        "--size",
        [&arguments = verbs.arguments()](const std::string& text) {
          arguments.size = size_of(text);
          if (!arguments.size)
            throw CLI::ValidationError("--size", str(weightfs::quoted(text), " is no size (try 20G)"));
        },
        "and the blobs used longest ago, until so much is left (20G, 500M)")
      ->type_name("SIZE");
}

void add_removing(Verbs& verbs) {
  CLI::App* rm = verbs.add("rm", "remove blobs; whoever reads one at the moment goes on reading", remove);
  CLI::Option* all = rm->add_flag("--all", verbs.arguments().all, "all that is not pinned");
  rm->add_flag("--force", verbs.arguments().force, "what is pinned, too");
  verbs.add_digests(rm)->excludes(all);
}

}  // namespace

void add_cache(CLI::App& app, Run& run) {
  CLI::App* cache = app.add_subcommand("cache", "look after what is kept on this machine");
  cache->require_subcommand(1);
  cache->add_subcommand("path", "print the cache's directory")->callback([&run] { run = print_path; });
  Verbs verbs(*cache, run);
  CLI::App* ls = verbs.add("ls", "list blobs, and fetches that are not finished", list);
  ls->add_flag("-l", verbs.arguments().long_form, "whole digests");
  ls->add_flag("--json", verbs.arguments().json, "as a JSON array, in bytes");
  CLI::App* du = verbs.add("du", "say what the cache takes on disk", sum_up);
  du->add_flag("-b,--bytes", verbs.arguments().bytes, "in bytes");
  du->add_flag("--json", verbs.arguments().json, "as a JSON object, in bytes");
  verbs.add("verify", "read every blob, and remove those that do not match their digest",
            [](const CacheMaintenance& each, const CacheArguments&) { return verify_cache(each); });
  add_collecting(verbs);
  add_removing(verbs);
  verbs.add_digests(verbs.add("pin", "never evict these blobs", pin))->required();
  verbs.add_digests(verbs.add("unpin", "let these blobs be evicted again", unpin))->required();
}

}  // namespace weightfs
