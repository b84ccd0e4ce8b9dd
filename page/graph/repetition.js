// Finds blocks that repeat in a sequence, such as the layers of a model whose operators have no names.

const kLeastPeriod = 3;
const kMostPeriod = 400;
const kLeastCovered = 9; // elements in all blocks of a run
const kMostSteps = 1e8; // comparisons for a sequence

// The best run in [begin, end): {start, period, repeats}, the one that covers most; null without one. `steps` is what is left.
function bestRun(sequence, begin, end, steps) {
  const length = end - begin;
  const most = Math.min(kMostPeriod, Math.floor(length / 2), Math.floor(steps / Math.max(1, length)));
  let best = null;
  for (let period = kLeastPeriod; period <= most; ++period) {
    let equal = 0; // how many elements before `at` are equal to those a period later
    for (let at = begin; at + period <= end; ++at) {
      if (at + period < end && sequence[at] === sequence[at + period]) {
        equal += 1;
        continue;
      }
      const repeats = Math.floor(equal / period) + 1;
      const covered = repeats * period;
      if (repeats > 1 && covered >= kLeastCovered && covered > (best?.repeats ?? 0) * (best?.period ?? 0)) {
        best = { start: at - equal, period, repeats };
      }
      equal = 0;
    }
  }
  return best;
}

function isUniform(sequence, { start, period }) {
  for (let at = start + 1; at < start + period; ++at) if (sequence[at] !== sequence[start]) return false;
  return true;
}

// Runs of repeated blocks that do not overlap, in order: [{start, period, repeats}]. Elements are numbers or texts.
export function repeatedRuns(sequence) {
  const runs = [];
  const pieces = [[0, sequence.length]];
  let steps = kMostSteps;
  while (pieces.length > 0) {
    const [begin, end] = pieces.pop();
    if (end - begin < kLeastCovered || steps <= 0) continue;
    const run = bestRun(sequence, begin, end, steps);
    steps -= (end - begin) * Math.min(kMostPeriod, (end - begin) / 2);
    // A block of one kind of operator is no block.
    if (run === null || isUniform(sequence, run)) continue;
    runs.push(run);
    pieces.push([begin, run.start], [run.start + run.period * run.repeats, end]);
  }
  return runs.sort((one, other) => one.start - other.start);
}
