"""What runs where, each exception with its reason."""
import os

CORES = os.cpu_count() or 1
WORKERS = 2 * CORES  # mount tests spend most of their time waiting
SHARDS = {"fs_test": 6, "formats_test": 3, "cache_test": 3, "base_test": 2}
EXHAUSTIVE = "EXHAUSTIVE" in os.environ  # see LEFT_OUT
WHOLE_TIME_LIMIT = (8 * 60 if EXHAUSTIVE else 73) * 60  # jobs that would begin later fail
# Tests that ran with another build and would begin later are skipped, with that reason: first those that mount, or need the
# portable program, then the others with sanitizers.
REPEATS_UNTIL = WHOLE_TIME_LIMIT if EXHAUSTIVE else 50 * 60
SANITIZED_UNTIL = WHOLE_TIME_LIMIT if EXHAUSTIVE else 66 * 60
FUZZING = 1  # seconds for each target

# Files of tests/mount that start commands and mount nothing, or hardly anything: the first ring runs them whole.
COMMANDS = ("test_archives", "test_cases_", "test_cli", "test_compare", "test_export", "test_names", "test_numbers",
            "test_one_model", "test_plot", "test_printable", "test_screens", "test_truth", "test_verdicts", "test_views")
# Files that the first ring leaves out, also their first test.
NEEDS_BROWSER = "needs a browser"
NEEDS_PACKAGE = "builds packages, or images of containers"
NOT_QUICK = {"test_page": NEEDS_BROWSER, "test_plot_sizes": "draws pictures of 8,192 pixels", "page_test": "needs Node",
             "test_hub_llama": "installs llama.cpp", "test_llama_memory": "installs llama.cpp",
             "package_test": NEEDS_PACKAGE, "image_test": NEEDS_PACKAGE, "kubernetes_test": NEEDS_PACKAGE,
             "test_real_servers": "starts registries and object stores", "test_memory": "takes a minute",
             "test_expiring_keys": "waits until keys have ended twenty times",
             "test_systemd": "starts systemd in a container"}

# Jobs that run one at a time, beside those that mount nothing: they unmount or count what other tests mount.
EXCLUSIVE = ("test_mounts", "test_system", "package_test")
# Jobs that measure CPU time and memory. They run last, as many as there are processors.
ALONE = ("test_api_attacks", "test_attacks", "test_changes", "test_http_attacks", "test_living_attacks", "test_many_attacks",
         "test_many_clients", "test_memory", "test_numbers_attacks", "test_protocol_attacks")

# Mount tests that run with sanitizers as well, each with what it reaches that no unit test does: these run sanitized, too.
# A start of a sanitized program takes five times as long.
VERBS = "commands from their arguments to their output, in the sanitized process that runs them (tests/commands)"
SANITIZED = {
    "test_cases_": VERBS, "test_export": VERBS, "test_one_model": VERBS, "test_plot": VERBS, "test_verdicts": VERBS,
    "test_cli": "commands whose output is a pipe, a terminal, a full disk or closed",
    "test_compare": "diff on a terminal, with progress, until a signal",
    "test_fetch_and_cache": "fetch and cache beside a mount that downloads; downloads that are interrupted",
    "test_http": "the HTTP server as a process: its options, signals, sockets and shutdown",
    "test_http_conformance": "the HTTP server with connections of other programs",
    "test_living": "the threads that follow the disk while the kernel has the tree cached",
    "test_living_remote": "the thread that follows servers while the kernel has the tree cached",
    "test_mounted_sources": "commands that open the source of a mount",
    "test_mounting": "the session from its start to its end, its workers, unmounting, and signals",
    "test_open": "the HTTP server that a browser is started for, and the code for one use",
    "test_outages": "mounts that wait for the network, and how they end",
    "test_passthrough": "the broker of passthrough, and files that the kernel reads itself",
    "test_prefetch": "the thread that downloads ahead of the readers of a mount",
    "test_rings": "the session by io_uring",
    "test_small_files": "what the session stores in the page cache, while threads read and evict it",
    "test_tree": "requests of every system call that reads files and directories",
}

# Files of SANITIZED that run commands and mount nothing.
VERB_FILES = tuple(name for name, why in SANITIZED.items() if why == VERBS)

# Tests that run with the portable program, too: what depends on the C library and on how the program is linked.
PORTABLE_FILES = ("test_cli", "test_confinement", "test_mounting", "test_sandbox")
PORTABLE_SAMPLES = ("rten", "bintensors", "/gguf/", "safetensors")  # of conform.py
# What the third ring runs with EXHAUSTIVE=1 only: before a release, or after a change of what they test.
if EXHAUSTIVE:
    PORTABLE_SAMPLES = None
    PORTABLE_FILES += ("image_test", "test_hub")
LEFT_OUT = {} if EXHAUSTIVE else {
    "test_page, test_page_access": "nine tenths of the formats each; all views of a format in all looks",
    ", ".join(VERB_FILES): "every second test with sanitizers",
    "test_ambiguity": "two thirds of the files",
    "test_expiring_keys": "sixteen of twenty expiries",
    "portable": "image_test, test_hub, and samples of other formats than RTen, BinTensors, GGUF and safetensors"}

SANDBOX = "a sanitized process has no sandbox and no limit of its address space"
UNITS = "units and processes, not code that reads models"
TRACED = "counts system calls, which sanitizers add"
IN_UNIT_TESTS = "its code runs sanitized in cli_test, formats_test and fs_test"
CORPORA = "its models are those of the corpora, which fuzz_test reads sanitized"
DECODING = "its code runs sanitized in cache_test, formats_test and fs_test, and its mounts in test_mounting and test_tree"
PRINTED = "its code runs sanitized in report_test, cli_test and numbers_test, and commands on terminals in test_cli and test_plot"
CLIENTS = "its code runs sanitized in fs_test, test_http and test_http_conformance"
DOWNLOADS = "its code runs sanitized in cache_test and sources_test, and mounts that download in test_fetch_and_cache"
# Mount tests that run without sanitizers only, each with the reason.
NOT_SANITIZED = {
    "test_confinement": SANDBOX, "test_sandbox": SANDBOX, "test_memory": SANDBOX, "test_doctor": UNITS, "test_fleet": UNITS,
    "test_kubernetes": UNITS, "test_mounts": UNITS, "test_service": UNITS, "test_starting": UNITS, "test_system": UNITS,
    "test_systemd": UNITS, "test_freshness": TRACED, "test_nothing_runs": TRACED, "test_pickles": TRACED,
    "test_dequantised": IN_UNIT_TESTS, "test_objects": IN_UNIT_TESTS, "test_read_ahead": IN_UNIT_TESTS,
    "test_views": IN_UNIT_TESTS, "test_views_gguf": IN_UNIT_TESTS, "test_hub_llama": IN_UNIT_TESTS,
    "test_hub_gguf": IN_UNIT_TESTS, "test_metadata": IN_UNIT_TESTS, "test_hub_gguf_remote": DOWNLOADS,
    "test_hub_hostile": IN_UNIT_TESTS,
    "test_packed_weights": IN_UNIT_TESTS, "test_formats": CORPORA,
    "test_archives": DECODING, "test_images": DECODING, "test_names": PRINTED, "test_numbers": PRINTED,
    "test_plot_sizes": PRINTED, "test_printable": PRINTED, "test_screens": PRINTED,
    "test_page": CLIENTS, "test_page_access": CLIENTS, "test_page_numbers": CLIENTS, "test_page_graph": CLIENTS,
    "test_page_hostile": CLIENTS, "test_page_far": CLIENTS, "test_page_head": CLIENTS, "test_page_model": CLIENTS,
    "test_page_tensors": CLIENTS, "test_page_directory": CLIENTS, "test_page_files": CLIENTS, "test_page_memory": CLIENTS,
    "test_llama_memory": IN_UNIT_TESTS, "test_page_metadata": CLIENTS, "test_page_dropped": CLIENTS,
    "test_http_clients": CLIENTS, "test_http_origins": CLIENTS, "test_http_replaced": CLIENTS,
    "test_aws_certificates": DOWNLOADS, "test_cloud_registries": DOWNLOADS, "test_doctor_source": DOWNLOADS,
    "test_expiring_keys": DOWNLOADS,
    "test_az": DOWNLOADS, "test_fetching": DOWNLOADS, "test_fetching_crashes": DOWNLOADS, "test_gs": DOWNLOADS,
    "test_hub": DOWNLOADS, "test_oci": DOWNLOADS, "test_oci_conformance": CLIENTS, "test_ollama": DOWNLOADS,
    "test_many_clients": CLIENTS, "test_modelscope": DOWNLOADS, "test_netrc": DOWNLOADS, "test_real_servers": DOWNLOADS,
    "test_request_limits": DOWNLOADS, "test_header_file": DOWNLOADS, "test_client_certificate": DOWNLOADS,
    "test_credential_helpers": DOWNLOADS,
    "test_registry": DOWNLOADS, "test_registry_logins": DOWNLOADS, "test_released_layers": DOWNLOADS,
    "test_renewed_keys": DOWNLOADS, "test_requests": DOWNLOADS,
    "test_rotated_keys": DOWNLOADS, "test_s3": DOWNLOADS, "test_secrets": DOWNLOADS, "test_serve_clients": CLIENTS,
    "test_serve_hub": DOWNLOADS, "test_serve_mirror": DOWNLOADS, "test_serve_s3": DOWNLOADS, "test_serve_s3_mirror": DOWNLOADS,
    "test_serve_registry": DOWNLOADS, "test_serve_registry_mirror": DOWNLOADS, "test_served_sources": DOWNLOADS,
    "test_truth": DOWNLOADS, "test_url_names": DOWNLOADS, "test_url_ranges": DOWNLOADS, "test_urls": DOWNLOADS
}
BUDGET = "reads until a budget is used up, and shorter ones read the same code"
THREADS = "compares the results of many threads for a tensor of many megabytes"
MANY = "lists a hundred thousand values"
# Unit tests that are not repeated with sanitizers, each with the reason.
TOO_LONG = {
    "All/HostileValues.StayWithinBudget/cache_*": BUDGET, "All/HostileValues.StayWithinBudget/mlf_*": BUDGET,
    "ArchiveBudget.HostileArchivesStayWithinTheBudget": BUDGET, "PytorchZip.SharedValuesExhaustTheBudget": BUDGET,
    "SafetensorsIndex.ShardsShareOneBudget": BUDGET,
    "Deviation.OfLargeTensorsDoesNotDependOnTheThreads": THREADS, "Statistics.OfLargeTensorsDoNotDependOnTheThreads": THREADS,
    "HuggingfaceFiles.TooManyValuesAreRefused": MANY, "TvmParams.BoundsMemoryOfNamesAndHeaders": MANY,
    "Zip.ListsHundredThousandMembers*": MANY}

# Tests that may pass only when they are run once more, each with the reason. A name is one of those that a job prints.
UNSTEADY = {}
