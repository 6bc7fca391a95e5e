const titled = 'lancet profile';
const percent = (count, of) => (100 * count / Math.max(1, of)).toFixed(1) + ' %';
const kinds = ['the program', 'libraries', 'native code'].concat(data.wall || data.functions.some((one) => one[3] === 3) ? ['waits'] : []);

// The samples that are shown: those of threads that ran, or with them of those that waited.
let part;

// Node 0 is the root; a node's caller stands before it. `total` of a node is what it and all it calls have.
let nodes, turned, graph;
function choose(of) {
  part = of;
  turned = graph = null;
  nodes = [{ function: -1, line: 0, own: 0, total: 0, up: null, down: [], depth: 0 }];
  for (const [up, called, line, own] of part.nodes) {
    const node = { function: called, line, own, total: own, up: nodes[up], down: [], depth: nodes[up].depth + 1 };
    nodes[up].down.push(node);
    nodes.push(node);
  }
  for (let at = nodes.length - 1; at > 0; at--) nodes[at].up.total += nodes[at].total;
  nodes[0].total = Math.max(nodes[0].total, part.samples);
}
choose(data.samples || !data.wall ? data : data.wall);
// Chooses whether what threads waited for is shown with what they ran.
const waits = () => !data.wall ? null : make('label', {}, make('input', { type: 'checkbox', checked: part === data.wall ? '' : null, onchange: (event) => { choose(event.target.checked ? data.wall : data); route(); } }), ' with waits');
const name = (node) => node.function < 0 ? 'all samples' : data.functions[node.function][0];
const place = (node) => {
  if (node.function < 0) return '';
  const file = data.functions[node.function][1];
  return file && node.line ? file + ':' + node.line : file;
};
// Whether the page has no room for some calls.
const leavesOut = () => part.left_out !== null;
const said = (node) => place(node) ? name(node) + ' (' + place(node) + ')' : name(node);

// The same samples by their innermost function, and below it who called it. A recursion is one below the other, as it was.
function inverted() {
  if (turned) return turned;
  turned = { function: -1, line: 0, own: 0, total: nodes[0].total, up: null, down: [], depth: 0, by: new Map() };
  for (const node of nodes.slice(1)) {
    if (!node.own) continue;
    let at = turned;
    for (let from = node; from.up; from = from.up) {
      let next = at.by.get(from.function);
      if (!next) {
        next = { function: from.function, line: from.line, own: 0, total: 0, up: at, down: [], depth: at.depth + 1, by: new Map(), most: 0 };
        at.by.set(from.function, next);
        at.down.push(next);
      }
      next.total += node.own;
      if (node.own > next.most) { next.most = node.own; next.line = from.line; }
      at = next;
    }
    at.own += node.own;
  }
  const open = [turned];
  while (open.length) { const node = open.pop(); node.down.sort((one, other) => other.total - one.total); for (const next of node.down) open.push(next); }
  return turned;
}

// A flame graph on a canvas. What is narrower than half a pixel is not drawn, and what it calls is not looked at: of those that a function calls
// the ones with more samples come first, so the others are narrower still.
const HEIGHT = 20;
// No browser draws a canvas of more pixels in one direction.
const TALLEST = 16000;
function flames() {
  let root = nodes[0], from = root, wanted = '', found = 0, chosen = null, placed = [], isTurned = false;
  const canvas = make('canvas', { class: 'flames', tabindex: 0, role: 'application', 'aria-label': 'Flame graph. Arrow keys choose a function, Enter goes into it, Escape goes out to who calls it.' });
  const where = make('p', { class: 'where mono' }), spoken = make('span', { class: 'spoken', 'aria-live': 'polite' }), status = make('span', { class: 'dim', role: 'status' });
  const hits = new Set();
  const has = (node) => hits.has(node.function);
  // Samples with a function that is sought: of nested ones the outermost counts.
  function search() {
    hits.clear();
    if (wanted) data.functions.forEach(([title, , file], number) => { if ((title + ' ' + file).toLowerCase().includes(wanted)) hits.add(number); });
    found = 0;
    const open = [root];
    while (open.length) { const one = open.pop(); if (has(one)) found += one.total; else for (const next of one.down) open.push(next); }
    status.textContent = wanted ? (leavesOut() ? 'at least ' : '') + percent(found, part.samples) + ' of samples match' : '';
    show();
  }
  function lay(width) {
    placed = [];
    const chain = [];
    for (let node = from; node; node = node.up) chain.unshift(node);
    chain.forEach((node, level) => placed.push({ node, x: 0, w: width, level, passed: node !== from }));
    const open = [{ node: from, x: 0, level: chain.length - 1 }];
    while (open.length) {
      const { node, x, level } = open.pop();
      let at = x;
      for (const next of node.down) {
        const w = width * next.total / from.total;
        if (w < 0.5) break;
        placed.push({ node: next, x: at, w, level: level + 1 });
        open.push({ node: next, x: at, level: level + 1 });
        at += w;
      }
    }
  }
  // Lays all out anew; `draw` shows it with what is chosen.
  function show() {
    const width = Math.max(200, canvas.parentElement ? canvas.parentElement.clientWidth : 800);
    lay(width);
    const height = Math.min(TALLEST, HEIGHT * (1 + placed.reduce((most, one) => Math.max(most, one.level), 0)));
    const scale = Math.min(devicePixelRatio || 1, TALLEST / height);
    canvas.style.height = height + 'px';
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.getContext('2d').setTransform(scale, 0, 0, scale, 0, 0);
    draw();
  }
  function draw() {
    const style = getComputedStyle(document.documentElement), color = (of) => style.getPropertyValue(of).trim();
    const fills = ['--own', '--library', '--native', '--wait'].map(color), text = color('--ink'), hit = color('--hit'), raised = color('--raised'), strong = color('--text');
    const context = canvas.getContext('2d');
    context.globalAlpha = 1;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
    context.textBaseline = 'middle';
    const letter = context.measureText('m').width;
    for (const { node, x, w, level, passed } of placed) {
      const isHit = has(node);
      context.globalAlpha = passed ? 0.55 : wanted && !isHit ? 0.45 : 1;
      context.fillStyle = node.function < 0 ? raised : isHit ? hit : fills[data.functions[node.function][3]];
      context.fillRect(x, level * HEIGHT, Math.max(0.5, w - (w > 3 ? 1 : 0)), HEIGHT - 1);
      if (node === chosen) { context.globalAlpha = 1; context.strokeStyle = strong; context.lineWidth = 2; context.strokeRect(x + 1, level * HEIGHT + 1, Math.max(1, w - 3), HEIGHT - 3); }
      const room = Math.floor((w - 8) / letter);
      if (room < 3) continue;
      context.globalAlpha = passed ? 0.7 : 1;
      context.fillStyle = node.function < 0 ? strong : text;
      const whole = said(node), label = whole.length <= room ? whole : name(node).length <= room ? name(node) : name(node).slice(0, room - 1) + '…';
      context.fillText(label, x + 4, level * HEIGHT + HEIGHT / 2, w - 6);
    }
    const of = chosen || from;
    where.replaceChildren(...(of.function < 0 ? [said(of)] : [make('a', { href: '#function/' + of.function }, name(of)), ' ', data.functions[of.function][2] ? data.functions[of.function][2] + (of.line ? ':' + of.line : '') : '']),
      make('span', { class: 'dim' }, ' — ' + grouped(of.total) + ' of ' + grouped(part.samples) + ' samples, ' + percent(of.total, part.samples) + (isTurned ? '' : ', itself ' + percent(of.own, part.samples)) + (of.function < 0 ? '' : ', ' + kinds[data.functions[of.function][3]])));
  }
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, level = Math.floor((event.clientY - box.top) / HEIGHT);
    return placed.find((one) => one.level === level && x >= one.x && x < one.x + one.w);
  };
  const go = (node) => { from = node; chosen = node; show(); };
  const turn = (event) => { isTurned = event.target.checked; root = isTurned ? inverted() : nodes[0]; from = root; chosen = null; search(); };
  canvas.addEventListener('click', (event) => { const one = at(event); if (one) go(one.node); });
  canvas.addEventListener('mousemove', (event) => { const one = at(event), node = one ? one.node : null; canvas.style.cursor = one ? 'pointer' : 'default'; if (node !== chosen) { chosen = node; draw(); } });
  canvas.addEventListener('mouseleave', () => { chosen = null; draw(); });
  canvas.addEventListener('keydown', (event) => {
    const node = chosen || from, drawn = (one) => placed.some((two) => two.node === one);
    const beside = (step) => { const list = node.up ? node.up.down.filter(drawn) : [node]; return list[list.indexOf(node) + step]; };
    const next = { ArrowDown: () => node.down.find(drawn), ArrowUp: () => node.up, ArrowRight: () => beside(1), ArrowLeft: () => beside(-1) }[event.key];
    if (next) { event.preventDefault(); chosen = next() || node; draw(); }
    else if (event.key === 'Enter') go(node);
    else if (event.key === 'Escape' || event.key === 'Backspace') { event.preventDefault(); go(from.up || root); }
    else return;
    spoken.textContent = where.textContent;
    const one = placed.find((two) => two.node === (chosen || from)), top = canvas.getBoundingClientRect().top + (one ? one.level : 0) * HEIGHT;
    if (top < 0 || top > innerHeight - 4 * HEIGHT) scrollBy(0, top - innerHeight / 2);
  });
  const field = make('input', { type: 'search', 'data-does': 'Search', 'aria-label': 'Search functions and files', oninput: (event) => { wanted = event.target.value.toLowerCase(); search(); } });
  new ResizeObserver(() => { if (canvas.isConnected) show(); }).observe(document.documentElement);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  const whole = make('div', {}, make('div', { class: 'tools' }, field, status, make('label', {}, make('input', { type: 'checkbox', onchange: turn }), ' innermost first'), waits(),
    make('span', { class: 'legend' }, kinds.map((kind, number) => make('span', { class: 'kind' + number }, kind)))),
    make('div', { class: 'scroll' }, canvas), where, spoken, make('p', { class: 'dim' }, 'Width is the share of samples, below a function is what it calls. A click goes into a function, Escape goes out to who calls it.'));
  whole.shown = show;
  return whole;
}
// It is made once, so that one finds it as one left it.
function flameGraph() {
  graph = graph || flames();
  requestAnimationFrame(graph.shown);
  return graph;
}

const link = (number, text) => make('a', { href: '#function/' + number }, text);
const head = [{ name: 'own', number: true, share: true, show: (count) => percent(count, part.samples) }, { name: 'total', number: true, show: (count) => percent(count, part.samples) }];
const called = (number, line) => { const [title, file] = data.functions[number]; return file ? title + ' (' + file + (line ? ':' + line : '') + ')' : title; };
// So many rows a list has at most; what is left out is said.
const MOST = 500;
const cut = (rows) => [rows.slice(0, MOST), rows.length > MOST ? '… ' + grouped(rows.length - MOST) + ' more, with fewer samples' : null];

function branch(node) {
  const text = [make('span', { class: 'share mono' }, percent(node.total, part.samples) + ' '), link(node.function, said(node)), node.own ? make('span', { class: 'dim' }, ' itself ' + percent(node.own, part.samples)) : ''];
  if (!node.down.length) return make('div', { class: 'leaf' }, text);
  const below = () => { const [shown, rest] = cut(node.down); return [...shown.map(branch), ...(rest ? [make('div', { class: 'leaf dim' }, rest)] : [])]; };
  const details = make('details', { ontoggle: () => { if (details.open && details.children.length === 1) details.append(...below()); } }, make('summary', {}, text));
  // What has most of the samples is open at once.
  if (node.total > part.samples / 2) details.open = true;
  return details;
}

// Who calls a function and what it calls. Of calls within one another, of the function and of one of these pairs, the outermost counts.
function sides(number) {
  const callers = new Map(), callees = new Map();
  const add = (to, key, count) => to.set(key, (to.get(key) || 0) + count);
  const above = (node, is) => { for (let up = node.up; up; up = up.up) if (is(up)) return true; return false; };
  for (const node of nodes) {
    if (node.function !== number || !node.up) continue;
    if (!above(node, (up) => up.function === number)) add(callers, node.up.function, node.total);
    for (const next of node.down) {
      const isPair = (one) => one.function === next.function && one.up && one.up.function === number;
      if (next.function !== number && !above(next, isPair)) add(callees, next.function, next.total);
    }
  }
  const rows = (map) => [...map].map(([other, count]) => [count, other < 0 ? 'nobody that is known: it is the outermost' : called(other), other]).sort((one, other) => other[0] - one[0]);
  return [rows(callers), rows(callees)];
}

const views = {
  flames: ['Flame graph', () => [data.notes.map((note) => make('p', { class: 'note' }, note)), make('div', { class: 'suspect' }, make('p', {}, data.verdict)), part.samples ? flameGraph() : waits()]],
  functions: ['Functions', () => [waits(), table([...head, { name: 'function', show: (text, row) => link(row[3], text) }],
    part.rows.map(([number, own, total, line]) => [own, total, called(number, line), number]),
    part.left[0] ? '… ' + grouped(part.left[0]) + ' more functions: own ' + percent(part.left[1], part.samples) : null)]],
  calls: ['Calls', () => [waits(), make('p', { class: 'dim' }, 'Who calls whom, from the outermost function inwards, with the share of all samples.'), (([shown, rest]) => [...shown.map(branch), rest ? make('div', { class: 'leaf dim' }, rest) : null])(cut(nodes[0].down))]],
};
const pages = {
  function: (number) => {
    const one = /^\d+$/.test(number || '') ? data.functions[number] : null;
    if (!one) return make('p', {}, 'There is no such function in this profile.');
    const row = part.rows.find((row) => row[0] === Number(number)), [callers, callees] = sides(Number(number));
    const columns = (title) => [{ name: 'samples', number: true, share: true, show: (count) => percent(count, part.samples) }, { name: title, show: (text, row) => row[2] < 0 ? text : link(row[2], text) }];
    return [make('h2', { class: 'mono' }, one[0]), make('p', { class: 'mono dim' }, [one[2], kinds[one[3]]].filter((text) => text).join(' — ')),
      make('p', {}, row ? 'Itself ' + percent(row[1], part.samples) + ', with what it calls ' + percent(row[2], part.samples) + ' of the samples.' : 'Its figures have no room in this page: other functions have more samples.'),
      leavesOut() ? make('p', { class: 'note' }, 'The page has no room for all calls: what follows is of those with most samples.') : null,
      row && row[4].length ? [make('h2', {}, 'Lines at which it ran itself'), table([{ name: 'samples', number: true, share: true, show: (count) => percent(count, part.samples) }, { name: 'line' }], row[4].map(([line, own]) => [own, one[1] + ':' + line]).sort((one, other) => other[0] - one[0]))] : null,
      make('h2', {}, 'It is called by'), table(columns('caller'), ...cut(callers)), make('h2', {}, 'It calls'), callees.length ? table(columns('function'), ...cut(callees)) : make('p', {}, 'Nothing that was seen.')];
  },
};
