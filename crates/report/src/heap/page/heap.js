const share = (bytes) => (100 * bytes / Math.max(1, data.bytes)).toFixed(1) + ' %';
const link = (address, text) => data.objects[address] ? make('a', { href: '#object/' + address }, text) : make('span', {}, text);

function path(steps) {
  return make('ol', { class: 'path mono' }, steps.map(([by, type, address, retained]) =>
    make('li', {}, by + ' → ', link(address, type + ' ' + address), ' ', make('span', { class: 'dim' }, 'retains ' + size(retained)))));
}

const counts = [
  { name: 'objects', number: true, show: grouped }, { name: 'bytes', number: true, show: size }, { name: 'retained', number: true, share: true, show: size },
];
const more = (list) => list.rest ? '… ' + grouped(list.rest[0]) + ' more rows: ' + grouped(list.rest[1]) + ' objects, ' + size(list.rest[2]) : null;

// A treemap by the squarified algorithm of Bruls, Huizing and van Wijk (2000).
function squarified(items, box) {
  const placed = [];
  let rest = items.filter((item) => item.value > 0), { x, y, w, h } = box;
  let total = rest.reduce((sum, item) => sum + item.value, 0);
  while (rest.length && w > 0 && h > 0) {
    const side = Math.min(w, h), scale = w * h / total;
    const worst = (row, sum) => Math.max(...row.map((item) => { const area = item.value * scale, strip = sum * scale / side; return Math.max(strip * strip / area, area / (strip * strip)); }));
    let row = [rest[0]], sum = rest[0].value, at = 1;
    while (at < rest.length && worst([...row, rest[at]], sum + rest[at].value) <= worst(row, sum)) { row.push(rest[at]); sum += rest[at].value; at++; }
    const strip = sum * scale / side;
    let along = 0;
    for (const item of row) {
      const length = item.value * scale / strip;
      placed.push(w >= h ? { item, x, y: y + along, w: strip, h: length } : { item, x: x + along, y, w: length, h: strip });
      along += length;
    }
    if (w >= h) { x += strip; w -= strip; } else { y += strip; h -= strip; }
    total -= sum;
    rest = rest.slice(at);
  }
  return placed;
}
const label = (node) => (node.n > 1 ? grouped(node.n) + ' × ' : '') + node.t;

function treemap() {
  const where = make('p', { class: 'mono' }), map = make('div', { class: 'map', role: 'group', 'aria-label': 'Treemap of retained bytes' });
  const stack = [{ t: 'all that lives', n: 1, r: data.bytes, o: data.bytes - data.tree.reduce((sum, node) => sum + node.r, 0), b: data.tree }];
  function show(focus) {
    const here = stack[stack.length - 1];
    where.replaceChildren(...stack.map((node, at) => make('span', {}, at ? ' → ' : '', make('a', { href: '#tree', onclick: (event) => { event.preventDefault(); stack.length = at + 1; show(true); } }, label(node)))), ' ' + size(here.r) + ' (' + share(here.r) + ')');
    const items = here.b.map((node) => ({ node, value: node.r }));
    items.push({ own: true, value: here.o });
    items.sort((one, other) => other.value - one.value);
    map.replaceChildren(...squarified(items, { x: 0, y: 0, w: 1000, h: 400 }).map(({ item, x, y, w, h }) => {
      const text = item.own ? 'its own and smaller, ' + size(item.value) : label(item.node) + ', ' + size(item.value);
      // A line of text is some 16 pixels high and a letter 7 wide, of some 1,200 and 416.
      const lines = Math.ceil(7 * text.length / Math.max(1, 1.2 * w - 10)), fits = w > 40 && 16 * lines + 8 < 1.04 * h;
      const cell = make('button', { class: item.own || !item.node.b.length ? 'own' : '', title: text, 'aria-label': text, onclick: () => { if (item.node && item.node.b.length) { stack.push(item.node); show(true); } } }, fits ? text : '');
      cell.node = item.node;
      Object.assign(cell.style, { left: x / 10 + '%', top: y / 4 + '%', width: w / 10 + '%', height: h / 4 + '%' });
      return cell;
    }));
    if (!focus) return;
    const cell = [...map.children].find((cell) => cell.node === left) || map.firstChild;
    if (cell) cell.focus();
  }
  // What was gone out of last is chosen again.
  let left;
  map.addEventListener('keydown', (event) => { if ((event.key === 'Escape' || event.key === 'Backspace') && stack.length > 1) { event.preventDefault(); left = stack.pop(); show(true); } });
  show(false);
  return make('div', {}, make('p', { class: 'dim' }, 'Choose a part to go into it; Escape or Backspace goes back.'), where, map);
}
function branch(node) {
  const one = node.n === 1;
  const head = [one ? link(node.a, label(node)) : label(node), ' ', make('span', { class: 'dim' }, size(node.r) + ' (' + share(node.r) + ')'),
    ...(!one && data.objects[node.a] ? [' ', make('span', { class: 'dim' }, 'one of them: '), link(node.a, node.a)] : [])];
  if (!node.b.length) return make('div', { style: 'margin-left:2.2rem' }, head);
  const details = make('details', { ontoggle: () => { if (details.open && details.children.length === 1) details.append(...node.b.map(branch)); } }, make('summary', {}, head));
  return details;
}

const views = {
  verdict: ['Verdict', () => [
    data.notes.map((note) => make('p', { class: 'note' }, note)),
    make('h2', {}, 'Who keeps most alive'),
    data.suspects.length ? data.suspects.map((suspect) => make('div', { class: 'suspect' }, make('p', {}, suspect.text), path(suspect.path)))
      : make('p', {}, 'No suspect: no object, type or line retains a tenth of what lives.'),
    data.born ? [make('h2', {}, 'What is new'), make('p', {}, data.born.text), data.born.holders.map((holder) => make('div', { class: 'suspect' }, make('p', {}, holder.text), path(holder.path)))] : null,
    data.stacks.length ? [make('h2', {}, 'Threads and fibers'), table([{ name: 'retained', number: true, share: true, show: size }, { name: 'thread or fiber', show: (text, row) => link(row[2], text) }], data.stacks)] : null,
  ]],
  tree: ['Dominators', () => [make('h2', {}, 'Who holds what'), treemap(), make('h2', {}, 'The same as a tree'), data.tree.map(branch)]],
  types: ['Types', () => [table([...counts, { name: 'type' }], data.types.rows, more(data.types)), make('h2', {}, 'Kinds, as the VM has them'), table([...counts, { name: 'kind' }], data.kinds.rows, more(data.kinds))]],
  lines: ['Lines', () => data.sites.rows.length ? [table([...counts, { name: 'made at' }], data.sites.rows, more(data.sites)), make('h2', {}, 'By owner'), table([...counts, { name: 'made by' }], data.owners.rows, more(data.owners))]
    : make('p', {}, 'The snapshot does not say which line made an object.')],
  waste: ['Waste', () => [
    data.garbage.length ? [make('h2', {}, 'Garbage'), table([{ name: 'objects', number: true, show: grouped }, { name: 'bytes', number: true, show: size }, { name: 'in cycles', number: true, show: grouped }, { name: 'finalizers', number: true, show: grouped }, { name: 'type' }], data.garbage)] : null,
    make('h2', {}, 'Equal texts'), table([{ name: 'wasted', number: true, share: true, show: size }, { name: 'equal', number: true, show: grouped }, { name: 'frozen', number: true, show: grouped }, { name: 'length', number: true, show: grouped }, { name: 'one of them', show: (text, row) => link(row[5], text) }], data.texts),
    make('h2', {}, 'Classes of the same name'), table([{ name: 'classes', number: true, show: grouped }, { name: 'retained', number: true, share: true, show: size }, { name: 'name' }], data.classes),
    make('h2', {}, 'Lists and maps of which a quarter or less is in use'), table([{ name: 'wasted', number: true, share: true, show: size }, { name: 'objects', number: true, show: grouped }, { name: 'in use', number: true, show: grouped }, { name: 'room', number: true, show: grouped }, { name: 'type' }], data.sparse),
  ]],
  memory: ['Memory', () => {
    const all = data.memory.reduce((sum, row) => sum + row[0], 0), swap = data.memory.some((row) => row[2] > 0);
    const columns = [{ name: 'in memory', number: true, share: true, show: size }, { name: 'part', number: true, show: (part) => part.toFixed(1) + ' %' }, { name: 'by its part', number: true, show: size }];
    if (swap) columns.push({ name: 'in swap', number: true, show: size });
    return [make('h2', {}, 'What all of its resident memory is used for: ' + size(all)), data.findings.map((finding) => make('div', { class: 'suspect' }, make('p', {}, finding))),
      table([...columns, { name: 'what for' }], data.memory.map(([rss, pss, swapped, text]) => [rss, 100 * rss / Math.max(1, all), pss, ...(swap ? [swapped] : []), text])),
      data.allocated[1].length ? [make('h2', {}, data.allocated[0][0].toUpperCase() + data.allocated[0].slice(1)), table([{ name: "malloc's", number: true, share: true, show: size }, { name: 'asked for', number: true, show: (bytes) => bytes === null ? '' : size(bytes) }, { name: 'objects', number: true, show: (count) => count === null ? '' : count.toLocaleString('en-US') }, { name: 'kind' }], data.allocated[1])] : null,
      make('p', { class: 'dim' }, 'Every byte is in one row of the ledger. By its part: what several processes have in memory counts by its part. What the rows are: docs/heap-rss.md.')];
  }],
  objects: ['Objects', () => [make('p', { class: 'dim' }, 'The ' + grouped(Object.keys(data.objects).length) + ' objects that have a page: those that retain most, and those on the paths to suspects.'),
    table([{ name: 'retained', number: true, share: true, show: size }, { name: 'bytes', number: true, show: size }, { name: 'object', show: (text, row) => link(row[3], text) }],
      Object.entries(data.objects).map(([address, one]) => [one.r, one.b, one.t + ' ' + address, address]).sort((one, other) => other[0] - one[0]))]],
};
if (!data.memory.length) delete views.memory;
const references = (list, left) => [table([{ name: 'by' }, { name: 'retained', number: true, share: true, show: size }, { name: 'object', show: (text, row) => link(row[3], text) }], list.map(([by, type, address, retained]) => [by, retained, type + ' ' + address, address])), left ? make('p', { class: 'dim' }, '… ' + grouped(left) + ' more') : null];

function object(address) {
  const one = Object.hasOwn(data.objects, address) ? data.objects[address] : null;
  if (!one) return make('p', {}, 'There is no page for ' + address + '. lancet heap FILE --path ' + address + ' tells of it.');
  return [make('h2', { class: 'mono' }, one.t + ' ' + address), make('p', {}, size(one.b) + ' itself, retains ' + size(one.r) + ' (' + share(one.r) + ')' + (one.s ? ', made at ' + one.s : '')),
    one.c ? make('p', { class: 'mono' }, one.c) : null,
    make('p', {}, one.d ? ['It dies with ', link(one.d[1], one.d[0] + ' ' + one.d[1]), '.'] : 'No single object keeps it alive.'),
    make('h2', {}, 'Path from the root'), path(one.p), make('h2', {}, 'It refers to'), references(one.f, one.fm), make('h2', {}, 'It is referred to by'), references(one.k, one.km)];
}
const pages = { object };
const titled = 'lancet heap';
