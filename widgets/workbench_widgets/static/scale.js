// What a chart computes: scales, ticks, smoothing, places.  No page is touched here.

/** Values on a line from 0 to 1; `logarithmic` only where all values are above 0. */
export function makeScale(low, high, logarithmic = false) {
  const bent = logarithmic ? Math.log10 : (value) => value;
  let from = bent(low);
  let to = bent(high);
  if (!(to > from)) {
    const half = Math.max(Math.abs(from) * 0.05, 1e-12, logarithmic ? 0.5 : 0);
    from -= half;
    to += half;
  }
  return {
    low: logarithmic ? 10 ** from : from,
    high: logarithmic ? 10 ** to : to,
    logarithmic,
    // Written so that a range as wide as float32 itself does not overflow.
    place: (value) => bent(value) / (to - from) - from / (to - from),
    value: (place) => {
      const at = from + place * (to - from);
      return logarithmic ? 10 ** at : at;
    },
  };
}

/** Round numbers between two bounds, about `wanted` of them. */
export function ticks(low, high, wanted = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return Number.isFinite(low) ? [low] : [];
  const raw = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.9999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    found.push(k === 0 ? 0 : Number((k * step).toPrecision(12)));
  }
  return found;
}

/** Powers of ten between two bounds, thinned out; finer numbers where the bounds are close. */
export function logTicks(low, high, wanted = 5) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return ticks(low, high, wanted).filter((value) => value > 0);
  const every = Math.max(1, Math.ceil((last - first + 1) / (wanted + 2)));
  const found = [];
  for (let power = first; power <= last; power += every) found.push(Number(`1e${power}`));
  return found;
}

/**
 * Exponential moving average of finite values, corrected for its beginning; gaps stay gaps.
 * @param {Float32Array} values
 * @param {number} kept share of what came before, from 0 to below 1
 */
export function smoothed(values, kept) {
  if (!(kept > 0)) return values;
  const made = new Float32Array(values.length);
  let sum = 0;
  let weight = 0;
  for (let i = 0; i < values.length; i += 1) {
    if (!Number.isFinite(values[i])) {
      made[i] = NaN;
      continue;
    }
    sum = kept * sum + (1 - kept) * values[i];
    weight = kept * weight + (1 - kept);
    made[i] = sum / weight;
  }
  return made;
}

/** Least and greatest finite value of several arrays; those above 0 alone for a log scale. */
export function extent(arrays, positive = false) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of arrays) {
    for (let i = 0; i < values.length; i += 1) {
      const value = values[i];
      if (!Number.isFinite(value) || (positive && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** The index of the value nearest to `wanted` in ascending values; -1 if there is none. */
export function nearest(values, wanted) {
  let first = 0;
  let last = values.length - 1;
  if (last < 0) return -1;
  while (last - first > 1) {
    const middle = (first + last) >> 1;
    if (values[middle] <= wanted) first = middle;
    else last = middle;
  }
  return Math.abs(values[first] - wanted) <= Math.abs(values[last] - wanted) ? first : last;
}

/**
 * Fewer points for the same picture: in each pixel column the least, the greatest and the mean.
 * @returns {{at, least, greatest, mean}} the same arrays if there are few already
 */
export function decimate({ at, least, greatest, mean }, columns, first, last) {
  const count = at.length;
  if (count <= 2 * columns || !(last > first)) return { at, least, greatest, mean };
  const made = { at: [], least: [], greatest: [], mean: [] };
  let column = NaN;
  let sum = 0;
  let known = 0;
  const close = () => {
    if (Number.isNaN(column)) return;
    const end = made.mean.length - 1;
    made.mean[end] = known ? sum / known : NaN;
  };
  for (let i = 0; i < count; i += 1) {
    const here = Math.floor(((at[i] - first) / (last - first)) * columns);
    if (here !== column) {
      close();
      column = here;
      sum = 0;
      known = 0;
      made.at.push(at[i]);
      made.least.push(NaN);
      made.greatest.push(NaN);
      made.mean.push(NaN);
    }
    if (!Number.isFinite(mean[i])) continue;
    const end = made.mean.length - 1;
    sum += mean[i];
    known += 1;
    if (!(made.least[end] <= least[i])) made.least[end] = least[i];
    if (!(made.greatest[end] >= greatest[i])) made.greatest[end] = greatest[i];
  }
  close();
  return Object.fromEntries(
    Object.entries(made).map(([name, values]) => [name, Float32Array.from(values)]),
  );
}

/** The stretch between two places of a drag, within bounds; null if it was a click. */
export function stretch(from, to, low, high, least = 1) {
  const first = Math.max(low, Math.min(from, to));
  const last = Math.min(high, Math.max(from, to));
  return last - first >= least ? [first, last] : null;
}
