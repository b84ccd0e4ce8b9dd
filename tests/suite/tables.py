"""What runs where, each exception with its reason."""
import os

CORES = os.cpu_count() or 1
WORKERS = 2 * CORES  # mount tests spend most of their time waiting
SHARDS = {"fs_test": 6, "formats_test": 3, "cache_test": 3, "base_test": 2}
WHOLE_TIME_LIMIT = 70 * 60  # jobs that would begin later fail
FUZZING = 4  # seconds for each target

# Files of tests/mount that start commands and mount nothing, or hardly anything: the first ring runs them whole.
COMMANDS = ("test_archives", "test_cases_", "test_cli", "test_compare", "test_export", "test_names", "test_numbers",
            "test_one_model", "test_plot", "test_printable", "test_truth", "test_views")
# Files that the first ring leaves out, also their first test.
NEEDS_BROWSER = "needs a browser"
NEEDS_PACKAGE = "builds packages, or images of containers"
NOT_QUICK = {"test_page": NEEDS_BROWSER, "test_plot_sizes": "draws pictures of 8,192 pixels", "page_test": "needs Node",
             "package_test": NEEDS_PACKAGE, "kubernetes_test": NEEDS_PACKAGE,
             "test_real_servers": "starts registries and object stores", "test_memory": "takes a minute",
             "test_systemd": "starts systemd in a container"}

# Jobs that run one at a time, beside those that mount nothing: they unmount or count what other tests mount.
EXCLUSIVE = ("test_mounts", "test_system", "package_test")
# Jobs that measure CPU time and memory. They run last, as many as there are processors.
ALONE = ("test_api_attacks", "test_attacks", "test_changes", "test_http_attacks", "test_living_attacks", "test_many_attacks",
         "test_memory", "test_numbers_attacks")

SANDBOX = "a sanitized process has no sandbox and no limit of its address space"
UNITS = "units and processes, not code that reads models"
TRACED = "counts system calls, which sanitizers add"
IN_UNIT_TESTS = "its code runs sanitized in cli_test, formats_test and fs_test"
CLIENTS = "its code runs sanitized in fs_test, test_http and test_http_conformance"
DOWNLOADS = "its code runs sanitized in cache_test and sources_test, and in test_urls, test_url_ranges and test_fetch_and_cache"
# Mount tests that are not repeated with sanitizers, each with the reason: a start of a sanitized program takes half a second.
NOT_SANITIZED = {
    "test_confinement": SANDBOX, "test_sandbox": SANDBOX, "test_memory": SANDBOX, "test_doctor": UNITS, "test_fleet": UNITS,
    "test_kubernetes": UNITS, "test_mounts": UNITS, "test_service": UNITS, "test_starting": UNITS, "test_system": UNITS,
    "test_systemd": UNITS, "test_nothing_runs": TRACED, "test_pickles": TRACED, "test_dequantised": IN_UNIT_TESTS,
    "test_page": CLIENTS, "test_page_access": CLIENTS, "test_page_numbers": CLIENTS, "test_page_graph": CLIENTS,
    "test_page_hostile": CLIENTS, "test_page_far": CLIENTS,
    "test_http_clients": CLIENTS, "test_http_origins": CLIENTS, "test_http_replaced": CLIENTS, "test_export": IN_UNIT_TESTS,
    "test_views_gguf": IN_UNIT_TESTS, "test_fetching": DOWNLOADS, "test_fetching_crashes": DOWNLOADS, "test_hub": DOWNLOADS,
    "test_oci": DOWNLOADS, "test_ollama": DOWNLOADS, "test_real_servers": DOWNLOADS, "test_registry": DOWNLOADS,
    "test_s3": DOWNLOADS, "test_url_names": DOWNLOADS
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
