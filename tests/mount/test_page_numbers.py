"""The numbers and pictures of the page are those of the commands: figures of `weightfs stats --json`, the pixels of a heat map with
a known outlier, a NaN in its own colour."""
import json
import struct

import numpy

from browsing import needs_chromium
from mounting import run
from page_testing import PageTestCase

ROWS, COLUMNS = 64, 128
OUTLIER, NAN, ZERO = (10, 100), (50, 20), (30, 64)

# The colours in the middle of cells of the heat map.
COLOURS = """(places, rows, columns) => {
  const {width, height} = document.querySelector("canvas.heatmap");
  const {data} = document.querySelector("canvas.heatmap").getContext("2d").getImageData(0, 0, width, height);
  return places.map(([row, column]) => {
    const x = Math.floor((column + 0.5) * width / columns), y = Math.floor((row + 0.5) * height / rows);
    return [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)];
  });
}"""

# The terms and definitions of all lists.
TERMS = """Object.fromEntries([...document.querySelectorAll("main dl dt")].map(
  (term) => [term.textContent.trim(), term.nextElementSibling.textContent.trim()]))"""


def written(path):
    """A safetensors file with a matrix of small numbers, an outlier and a NaN."""
    matrix = numpy.random.default_rng(1).normal(0, 0.01, (ROWS, COLUMNS)).astype(numpy.float32)
    matrix[OUTLIER] = 5
    matrix[NAN] = numpy.nan
    matrix[ZERO] = 0
    header = json.dumps({"w": {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, matrix.nbytes]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + matrix.tobytes())
    return path


@needs_chromium
class Numbers(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        cls.model = written(owner.path("model.safetensors"))
        return cls.model

    def test_figures_are_those_of_stats(self):
        figures = json.loads(run("stats", "--json", self.model).stdout)["tensors"][0]
        self.show("tensor", t=0)
        shown = self.page.evaluate(TERMS)
        for term, value in (("Minimum", figures["min"]), ("Maximum", figures["max"]), ("Mean", figures["mean"]),
                            ("Standard deviation", figures["std"]), ("RMS", figures["rms"]), ("NaN", figures["nan"]),
                            ("Count", figures["count"]), ("50 %", figures["percentiles"]["50"])):
            number = float(shown[term].split(" (")[0].replace(",", "").replace("\N{MINUS SIGN}", "-"))
            self.assertAlmostEqual(number, value, delta=abs(value) * 1e-3, msg=term)

    def test_outlier_and_nan_have_their_colours(self):
        self.show("tensor", t=0)
        self.page.wait_for("document.querySelector('canvas.heatmap')?.width > 0")
        outlier, nan, zero = self.page.call(COLOURS, [OUTLIER, NAN, ZERO], ROWS, COLUMNS)
        self.assertGreater(outlier[0] - outlier[2], 100, "orange, at the upper end")
        self.assertEqual(nan, [214, 0, 147])
        self.assertLess(max(zero) - min(zero), 40, "white, in the middle")


if __name__ == "__main__":
    import unittest
    unittest.main()
