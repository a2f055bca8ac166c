// The form of a tree: which places are below which, and which of them are in sight.

/**
 * @param {Int32Array} below how many places are right below each, the root first, depth first
 */
export function treeShape(below) {
  const count = below.length;
  const parent = new Int32Array(count).fill(-1);
  const level = new Int32Array(count);
  const position = new Int32Array(count);
  const end = new Int32Array(count);
  const open = new Uint8Array(count);
  const path = [];
  for (let place = 0; place < count; place += 1) {
    while (path.length && path[path.length - 1].left === 0) end[path.pop().place] = place;
    if (path.length) {
      const above = path[path.length - 1];
      parent[place] = above.place;
      level[place] = path.length;
      position[place] = below[above.place] - above.left;
      above.left -= 1;
    }
    path.push({ place, left: below[place] });
  }
  for (const each of path) end[each.place] = count;
  let visible = new Int32Array(0);

  function refresh() {
    const found = new Int32Array(count);
    let length = 0;
    for (let place = 0; place < count; ) {
      found[length] = place;
      length += 1;
      place = open[place] ? place + 1 : end[place];
    }
    visible = found.subarray(0, length);
  }

  const shape = {
    count,
    parent,
    level,
    position,
    below,
    isOpen: (place) => open[place] === 1,
    visible: () => visible,
    /** Where in sight a place is, -1 if something above it is closed. */
    indexOf(place) {
      let low = 0;
      let high = visible.length - 1;
      while (low <= high) {
        const middle = (low + high) >> 1;
        if (visible[middle] === place) return middle;
        if (visible[middle] < place) low = middle + 1;
        else high = middle - 1;
      }
      return -1;
    },
    setOpen(place, isOpen) {
      if (below[place] > 0) open[place] = isOpen ? 1 : 0;
      refresh();
    },
    /** Open or close everything down to a level. */
    setAll(isOpen, deepest = count) {
      for (let place = 0; place < count; place += 1)
        open[place] = isOpen && below[place] > 0 && level[place] < deepest ? 1 : 0;
      refresh();
    },
    /** Open all places beside one. */
    openSiblings(place) {
      const above = parent[place];
      for (let each = above + 1; each < (above < 0 ? count : end[above]); each = end[each])
        if (below[each] > 0) open[each] = 1;
      refresh();
    },
    /** Open what is above a place, so that it is in sight. */
    reveal(place) {
      for (let above = parent[place]; above >= 0; above = parent[above]) open[above] = 1;
      refresh();
    },
  };
  refresh();
  return shape;
}

/** Levels to open so that about `most` rows are in sight at first. */
export function firstLevels(shape, most = 24) {
  const sizes = [];
  for (const level of shape.level) sizes[level] = (sizes[level] ?? 0) + 1;
  let total = sizes[0] ?? 0;
  let levels = 0;
  while (levels + 1 < sizes.length && total + sizes[levels + 1] <= most) {
    levels += 1;
    total += sizes[levels];
  }
  return Math.max(1, levels);
}
