// How long a page takes to draw, told to the kernel, which sends the seldomer the longer that is.

const SAMPLES = 7;
const FEWEST = 3;
const NEWS = 1.3;

/**
 * Return `drew(ms)`, to be called with the time of each drawing; `tellMs` is called with the median
 * of the last few when it has become another by a third.
 */
export function pacer(tellMs) {
  const times = [];
  let told = 0;
  return (ms) => {
    times.push(ms);
    if (times.length > SAMPLES) times.shift();
    if (times.length < FEWEST) return;
    const middle = times.toSorted((a, b) => a - b)[times.length >> 1];
    if (told && middle < NEWS * told && told < NEWS * middle) return;
    told = middle;
    tellMs(middle);
  };
}
