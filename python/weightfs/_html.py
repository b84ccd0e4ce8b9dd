"""How notebooks show models, tensors and differences: HTML without scripts. All texts of a model are escaped and cut."""
from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING, Any, Container, Dict, Iterable, Iterator, List, Tuple

from ._api import read_heat_map, server_of
from ._errors import Error
from ._picture import image_of
from ._server import API, Server
from ._slicing import count_of
from ._statistics import Statistics, read_statistics

if TYPE_CHECKING:
    from ._comparison import Deviation, Difference
    from ._model import Model
    from ._tensor import Tensor
    from ._tensors import Selection, Tensors

MAX_ROWS = 1000  # of a table of tensors
MAX_LINES = 40  # of facts, alerts, warnings and layers
FEW = 3  # warnings that are shown at once
MAX_VALUE = 200  # characters of a name or value
MAX_LINE = 2000  # characters of a fact, an alert or a warning
CELLS = 64  # of a heat map, on each axis
MAX_READ = 64 << 20  # bytes of a local tensor that are all read; figures of a larger one are of a sample
FIGURES = ("min", "max", "mean", "std", "rms", "zeros", "nan", "inf")
RED, BAR = "#d93636", "#5b8fc9"  # legible on white and on black


def text_of(value: Any, most: int = MAX_VALUE) -> str:
    """A value as escaped text of one line, a number with six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(each if each.isprintable() else "\ufffd" for each in text[:most + 1])
    return html.escape(text if len(text) <= most else text[:most] + "…")


def scaled(number: float, step: float, small: str, units: str) -> str:
    """As the program writes a number of parameters or bytes: three digits, and fewer of the smallest unit."""
    number /= step
    if number < 9.95:
        return f"{number:.1f} {small}"
    if number < step - 0.5:
        return f"{number:.0f} {small}"
    number /= step
    names = units.split()
    while number >= step - 0.5 and len(names) > 1:
        number /= step
        names.pop(0)
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f} {names[0]}"


def bytes_text(count: int) -> str:
    return f"{count} B" if count < 1024 else scaled(count, 1024, "KiB", "MiB GiB TiB PiB EiB")


def parameters_text(count: int) -> str:
    return str(count) if count < 1000 else scaled(count, 1000, "k", "M B T")


def row_of(cells: Iterable[str], numbers: Container[int], tag: str = "td") -> str:
    aligned = (("right" if column in numbers else "left", cell) for column, cell in enumerate(cells))
    return "<tr>" + "".join(f"<{tag} style='text-align:{side}'>{cell}</{tag}>" for side, cell in aligned) + "</tr>"


def table_of(head: Iterable[str], rows: Iterable[Iterable[str]], numbers: Container[int] = ()) -> str:
    """A table of cells that are escaped already; `numbers` are the columns that end at the right."""
    names = list(head)
    lines = [row_of(map(text_of, names), numbers, "th")] if names else []
    return f"<table>{''.join(lines)}{''.join(row_of(row, numbers) for row in rows)}</table>"


def folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>{content}</details>"


def counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


# Models.


def html_of_model(model: Model) -> str:
    """The screen of `weightfs info`: what is wrong with the model first, then what it is and what it consists of."""
    try:
        about = description_of(model)
    except Error as error:
        return f"<div><strong>{text_of(model.source)}</strong><p>{text_of(str(error), MAX_LINE)}</p></div>"
    size = " · ".join(text_of(each) for each in (about["format"], bytes_text(about["bytes"])))
    facts = ((text_of(fact["label"]), text_of(fact["value"], MAX_LINE)) for fact in about["facts"][:MAX_LINES])
    warnings = warnings_of(about["warnings"], about["warning_count"])
    return (f"<div>{alerts_of(about['alerts'])}<div><strong>{text_of(about['title'])}</strong> {size}</div>"
            f"<div>{text_of(about['sentence'], MAX_LINE)}</div>{table_of((), facts)}{blocks_of(about['blocks'])}"
            f"{warnings}{tensors_of(model)}</div>")


def description_of(model: Model) -> Dict[str, Any]:
    """What the endpoint `model` has of it; of a mount, what metadata.json has."""
    reader = model._origin.reader
    if isinstance(reader, Server):
        return dict(json.loads(reader.read(API + "model")[0]))
    summary, code = model.summary, [item["what"] for item in model.code]
    alerts = [*([f"RUNS CODE: {', '.join(code[:MAX_LINES])}"] if code else []),
              *([f"INCOMPLETE: {model.metadata['incomplete']}"] if "incomplete" in model.metadata else [])]
    warnings = summary.get("warnings", [])
    return {"title": summary.get("name", model.source), "format": model.metadata["format"], "alerts": alerts,
            "bytes": sum(tensor.nbytes for tensor in model.tensors()), "sentence": sentence_of(summary),
            "facts": list(facts_of(summary)), "warnings": warnings, "warning_count": len(warnings),
            "blocks": [block_of(block, summary) for block in summary.get("blocks", [])]}


def sentence_of(summary: Dict[str, Any]) -> str:
    kind = summary["kind"] + (f" ({summary['architecture']})" if "architecture" in summary else "")
    size = f"{parameters_text(summary['parameters'])} parameters" if "parameters" in summary else ""
    weights = summary.get("quantization", {}).get("name") or summary.get("dtype", "")
    return ", ".join(each for each in (kind, size, weights) if each)


def facts_of(summary: Dict[str, Any]) -> Iterator[Dict[str, str]]:
    """The values of a summary (docs/summary.md) that are not lists, with their units."""
    for name, value in summary.items():
        if isinstance(value, (dict, list)) or name in ("name", "kind", "architecture"):
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            shown = value if isinstance(value, str) else json.dumps(value)
        else:
            shown = bytes_text(value) if name.endswith("bytes") else (
                parameters_text(value) if name.startswith("parameters") else f"{value:,}")
        yield {"label": name.replace("_", " "), "value": shown}


def block_of(block: Dict[str, Any], summary: Dict[str, Any]) -> Dict[str, Any]:
    whole = sum(each["bytes"] for each in summary["blocks"]) or 1
    return {"name": block["path"], "tensors": block["tensors"], "parameters": block.get("parameters"), "bytes": block["bytes"],
            "share": block["bytes"] / whole, "types": ", ".join(block["dtypes"]), "refused": 0}


def alerts_of(alerts: List[str]) -> str:
    lines = "".join(f"<div>{text_of(each, MAX_LINE)}</div>" for each in alerts[:MAX_LINES])
    return f"<div style='color:{RED};font-weight:bold'>{lines}</div>" if lines else ""


def warnings_of(warnings: List[str], count: int) -> str:
    """A list, which is folded if it is long."""
    lines = "".join(f"<li>{text_of(each, MAX_LINE)}</li>" for each in warnings[:MAX_LINES])
    return folded(counted(count, "warning", "warnings"), f"<ul>{lines}</ul>", count <= FEW) if lines else ""


def blocks_of(blocks: List[Dict[str, Any]]) -> str:
    def bar(share: float) -> str:
        width = max(0.0, min(1.0, share)) * 100
        return f"<div style='background:{BAR};width:{width:.1f}px;height:.7em'></div>"
    rows = [(text_of(block["name"]), f"{block['tensors']:,}",
             "" if block["parameters"] is None else parameters_text(block["parameters"]), bytes_text(block["bytes"]),
             f"{100 * block['share']:.0f} %", bar(block["share"]), types_of(block)) for block in blocks[:MAX_LINES]]
    return table_of(("block", "tensors", "parameters", "size", "share", "", "types"), rows, range(1, 5)) if rows else ""


def types_of(block: Dict[str, Any]) -> str:
    refused = f"<strong style='color:{RED}'>{block['refused']:,} refused</strong>" if block["refused"] else ""
    return "; ".join(each for each in (text_of(block["types"]), refused) if each)


def tensors_of(tensors: Tensors) -> str:
    """A folded table."""
    listed = tensors.tensors()
    rows = ((text_of(each.key), text_of(each.dtype), "×".join(map(str, each.shape)), f"{each.nbytes:,}",
             "refused" if each.refused else "") for each in listed[:MAX_ROWS])
    more = f"<p>and {len(listed) - MAX_ROWS:,} more</p>" if len(listed) > MAX_ROWS else ""
    return folded(counted(len(listed), "tensor", "tensors"), table_of(("tensor", "dtype", "shape", "bytes", ""), rows, (3,)) + more)


def html_of_selection(selection: Selection) -> str:
    patterns = ", ".join(text_of(pattern) for pattern in selection.patterns[:MAX_LINES])
    return f"<div><strong>{patterns}</strong> of {text_of(selection.source)}{tensors_of(selection)}</div>"


# Tensors.


def html_of_tensor(tensor: Tensor) -> str:
    """The statistics of a tensor and a heat map, both of a sample of its rows if it is large, which the text beside them says."""
    shape = "×".join(map(str, tensor.shape))
    title = f"<strong>{text_of(tensor.key)}</strong> {text_of(tensor.dtype)} {shape}, {tensor.nbytes:,} bytes"
    try:
        tensor._check_refused()
        mode = mode_for(tensor)
        with server_of(tensor) as (server, index):
            figures = read_statistics(server, index, tensor, mode)
            picture = picture_of(server, index, tensor, mode)
    except Error as error:
        return f"<div>{title}<p>{text_of(str(error), MAX_LINE)}</p></div>"
    return f"<div>{title}{figures_of(figures)}{picture}</div>"


def mode_for(tensor: Tensor) -> str:
    """Whether all of it is read for a picture: not if that is slow, or downloads it."""
    reader = tensor._origin.reader
    is_local = not isinstance(reader, Server) or reader.status is not None
    return "full" if is_local and tensor.nbytes < MAX_READ else "sample"


def figures_of(figures: Statistics) -> str:
    rows = [(name, text_of(getattr(figures, name))) for name in FIGURES if getattr(figures, name) is not None]
    note = sample_note("Figures", figures.count, figures.elements) if figures.sample else ""
    return note + table_of((), rows)


def sample_note(what: str, read: int, elements: int) -> str:
    return f"<p>{what} of a sample: {read:,} of {elements:,} elements</p>"


def picture_of(server: Server, index: int, tensor: Tensor, mode: str) -> str:
    """A heat map, or nothing for a tensor without a matrix."""
    try:
        heat_map = read_heat_map(server, index, mode=mode, rows=CELLS, columns=CELLS)
    except Error:
        return ""
    grid = heat_map.grid
    limits = "no finite numbers" if grid.get("min") is None else f"{grid['low']:.3g} to {grid['high']:.3g}"
    image = image_of(heat_map, f"heat map of {text_of(tensor.key)}: {limits}")
    note = sample_note("Heat map", grid["read"], count_of(tensor.shape)) if grid.get("sample") else ""
    return f"{image}<div>{limits}</div>{note}" if image else ""


# Differences.


def html_of_difference(found: Difference) -> str:
    """The tensors that differ, those with the worst SNR first, and their layers."""
    title = f"<div><strong>{text_of(found.a)}</strong> and <strong>{text_of(found.b)}</strong></div>"
    counts = [counted(len(found.changed), "tensor differs", "tensors differ")]
    counts += [f"{len(getattr(found, name)):,} {name}" for name in ("missing", "added", "renamed") if getattr(found, name)]
    notes = "".join(f"<p>{text_of(each, MAX_LINE)}</p>" for each in found.notes[:MAX_LINES])
    worst = sorted(found.changed, key=lambda each: -math.inf if each.deviation is None else snr_of(each.deviation))
    rows = [(text_of(each.name), text_of(each.a.dtype), text_of(each.b.dtype),
             *(deviation_cells(each.deviation) if each.deviation else (text_of(each.no_deviation or ""), "", "")))
            for each in worst[:MAX_ROWS]]
    layers = [(text_of(each.name), f"{each.tensors:,}", *deviation_cells(each.deviation)) for each in found.layers[:MAX_LINES]]
    columns = ("SNR", "relative error", "largest difference")
    return (f"<div>{title}<div>{', '.join(counts)}, {found.equal_tensors:,} equal</div>{notes}"
            + (table_of(("layer", "tensors", *columns), layers, range(1, 5)) if len(layers) > 1 else "")
            + (table_of(("tensor", "in the first", "in the second", *columns), rows, range(3, 6)) if rows else "")
            + (f"<p>and {len(worst) - MAX_ROWS:,} more</p>" if len(worst) > MAX_ROWS else "") + "</div>")


def snr_of(deviation: Deviation) -> float:
    return -math.inf if deviation.snr_db is None else deviation.snr_db


def deviation_cells(deviation: Deviation) -> Tuple[str, str, str]:
    snr = "" if deviation.snr_db is None else f"{deviation.snr_db:.5g} dB"
    error, most = ("" if each is None else f"{each:.5g}" for each in (deviation.relative_error, deviation.max))
    return snr, error, most
