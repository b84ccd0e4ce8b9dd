"""A small model of each format in one file, from the seeds of the fuzz target `container`."""
import os
import re

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "corpus", "container")

# The files' names, for formats that a name identifies.
NAMES = {"BintensorsLegacy": ".bt", "BintensorsRelease": ".bt", "RtenVersion1": ".rten", "Msgpack": ".msgpack",
         "Paddle": ".pdiparams", "Pdiparams": ".pdiparams", "Pickle": ".pkl", "Darknet": ".weights", "Ncnn": ".param",
         "TensorflowCheckpoint": ".index", "Ollama": ".json"}
EXHAUSTIVE = "EXHAUSTIVE" in os.environ
# Their other files have the same name but for the suffix.
NAMED_BESIDE = {"Darknet", "Ncnn", "TensorflowCheckpoint"}
# Not one file that is detected: a directory, a file that needs --format, and a carton with links to blobs.
OTHERS = re.compile(r"Forced|Directory|Shards|Index|TensorCache|Ollama|Sharded|Package|Carton|OpenVino|Dcp")


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def write_models(folder):
    """Writes the models, with the files beside them, and returns {name: content} of the models."""
    models = {}
    for seed in sorted(os.listdir(CORPUS)):
        title = seed.removeprefix("small-")
        if title == seed or OTHERS.search(title):
            continue
        with open(os.path.join(CORPUS, seed), "rb") as file:
            content, *others = re.split(rb"\n~~~ file (.*?) ~~~\n", file.read(), flags=re.DOTALL)
        name = title + NAMES.get(title, ".model")
        write(os.path.join(folder, name), content)
        models[name] = content
        for beside, its in zip(map(bytes.decode, others[::2]), others[1::2]):
            is_named = title in NAMED_BESIDE
            write(os.path.join(folder, beside.replace("m.", f"{title}.", 1) if is_named else beside), its)
    return models


def tenth(models, part):
    """A tenth of a list of models, 0 to 9; all of them if the run is exhaustive."""
    return models if EXHAUSTIVE else models[part::10]
