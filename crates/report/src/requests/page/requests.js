const titled = 'lancet';
for (const one of data.requests) { one.created = one.objects ? one.objects.created : null; one.lines = one.objects ? one.objects.lines : []; }
const ms = (seconds) => seconds > 0 && seconds < 0.0001 ? (seconds * 1e6).toFixed(0) + ' µs' : (seconds * 1e3).toFixed(seconds < 0.0995 ? 1 : 0) + ' ms';
const of_ns = (ns) => ms(ns / 1e9);
const many = (count, one, more) => grouped(count) + ' ' + (count === 1 ? one : more || one + 's');

// Groups of calls: what they are called, and as what their time counts.
const groups = {
  mysql: ['MySQL', 'sql'], postgres: ['PostgreSQL', 'sql'], sqlite: ['SQLite', 'sql'], memcached: ['memcached', 'cache'], redis: ['Redis', 'cache'],
  read: ['read', 'io'], write: ['write', 'io'], connect: ['connect', 'io'], poll: ['wait for input or output', 'wait'], sleep: ['sleep', 'wait'], lock: ['wait for a lock', 'wait'],
  child: ['wait for a child process', 'wait'], disk: ['wait for a disk', 'wait'], lookup: ['look up a host', 'wait'], malloc: ['malloc', 'cpu'], free: ['free', 'cpu'],
};
const kinds = { cpu: 'CPU', sql: 'SQL', cache: 'cache', io: 'reads and writes', wait: 'waits', away: 'others ran', rest: 'not explained' };
const named = (group) => (groups[group] || [group])[0];
const kind = (group) => (groups[group] || [group, 'io'])[1];
// SQLite works on the thread that asks it: its time is processor time, and is counted as that; what it waits for has rows of its own.
const isWaiting = (row) => kind(row.group) !== 'cpu' && row.group !== 'sqlite';

// A path as one says it: the application's from its folder on, that of a library by the library's name.
const library = /^.*\/(?:gems|site-packages|dist-packages)\/(?:([^/]+?)(?:-(\d[^/]*))?\/(.*)|([^/]+))$/;
const standard = /^.*\/((?:ruby|python)[\d.]*)\/(?:\d[\d.]*\/)?(.*)$/;
const isOwn = (path) => path !== null && (path.startsWith(data.app) || /^[^/<(]/.test(path)) && !/\/(gems|site-packages|vendor\/bundle|node_modules)\//.test(path);
function short(path) {
  if (path === null) return '(no line)';
  if (isOwn(path)) return path.startsWith(data.app) ? path.slice(data.app.length) : path;
  const [, name, version, inner, single] = path.match(library) || [];
  if (name) return name + (version ? ' ' + version : '') + ': ' + inner;
  if (single) return single;
  const [, language, file] = path.match(standard) || [];
  return language ? language + ': ' + file : path;
}
const at = (path, line) => make('span', { title: path ? path + (line ? ':' + line : '') : null }, short(path) + (line ? ':' + line : ''));
const place = (path, line) => short(path) + (line ? ':' + line : '');
// What a row of calls is: a statement, what was waited for, or what was called.
const about = (row) => row.about || (kind(row.group) === 'sql' ? '(statement not known)' : named(row.group));

// A statement that one line of the program has executed so often is asked again for each of a list.
const AGAIN = 5;
const isAgain = (row) => kind(row.group) === 'sql' && row.calls >= AGAIN && row.about !== null && row.path !== null;

// Where the time went, in nanoseconds by kind. What reads, writes and talks to a server is on a processor for a part of its time, and how large that is was not
// seen: together with the processor's it has no more than there is.
const works = ['sql', 'cache', 'io'];
function parts(one) {
  const wall = one.wall * 1e9, cpu = Math.min(wall, one.cpu * 1e9), found = { cpu };
  if (!one.details) return { ...found, rest: wall - cpu };
  for (const row of one.details.rows.filter(isWaiting)) found[kind(row.group)] = (found[kind(row.group)] || 0) + row.outer_ns;
  // Between its steps a coroutine, and a fiber that another one takes turns with, has no part in what its thread does.
  found.away = Math.max(0, wall - one.details.within_ns);
  if (found.away < wall / 1000) delete found.away;
  const over = Object.values(found).reduce((sum, ns) => sum + ns, 0) - wall, worked = works.reduce((sum, name) => sum + (found[name] || 0), 0);
  if (over > 0) for (const name of works) if (found[name]) found[name] *= Math.max(0, 1 - over / worked);
  const rest = wall - Object.values(found).reduce((sum, ns) => sum + ns, 0);
  return { ...found, rest: Math.max(0, rest) };
}
function told(one) {
  const found = parts(one), sentence = [];
  if (one.details) {
    const rows = one.details.rows.filter((row) => isWaiting(row) && row.outer_ns > one.wall * 2e7).sort((a, b) => b.outer_ns - a.outer_ns);
    const all = one.cpu * 1e9 + one.details.rows.filter(isWaiting).reduce((sum, row) => sum + row.outer_ns, 0);
    const isPart = (row) => all > one.wall * 1e9 * 1.02 && works.includes(kind(row.group));
    for (const row of rows.slice(0, 4)) sentence.push(of_ns(row.outer_ns) + ' ' + named(row.group) + (row.about && row.about !== named(row.group) ? ' (' + (row.about.length > 60 ? row.about.slice(0, 60) + '…' : row.about) + ')' : '') + ' at ' + place(row.path, row.line) + (isPart(row) ? ', in part on a processor' : ''));
  }
  const rest = found.rest > one.wall * 2e7 ? of_ns(found.rest) + (one.details ? ' not explained: it waited for a processor, or in what is not watched' : ' not on a processor: what it waited for was not watched') : null;
  return ms(one.wall) + ': ' + [ms(one.cpu) + ' on a processor' + (one.gc.time ? ', of it ' + ms(one.gc.time) + ' in ' + many(one.gc.calls, 'collection') : ''), ...sentence, ...(found.away ? [of_ns(found.away) + ' while others ran on its thread'] : []), ...(rest ? [rest] : [])].join('; ') + '.';
}
function bar(one) {
  const found = Object.entries(parts(one)).filter(([, ns]) => ns > 0), wall = one.wall * 1e9 || 1;
  return [make('div', { class: 'split', role: 'img', 'aria-label': found.map(([name, ns]) => kinds[name] + ' ' + of_ns(ns)).join(', ') },
    found.map(([name, ns]) => { const part = make('span', { class: 'part-' + name, title: kinds[name] + ' ' + of_ns(ns) }); part.style.flexGrow = String(ns / wall); return part; })),
  make('p', { class: 'legend' }, found.map(([name, ns]) => make('span', { class: 'part-' + name }, kinds[name] + ' ' + of_ns(ns))))];
}

// A lane for each kind of call, from the first mark to the last.
function timeline(one) {
  const { rows, pieces, left_out: leftOut } = one.details, wall = Math.max(one.wall * 1e9, 1);
  const shown = ['sql', 'cache', 'io', 'wait'].filter((name) => pieces.some((piece) => kind(rows[piece.row].group) === name));
  if (!shown.length) return null;
  const lane = (name) => make('div', { class: 'lane' }, make('span', { class: 'dim' }, kinds[name]), make('div', { class: 'track' },
    pieces.filter((piece) => kind(rows[piece.row].group) === name).map((piece) => {
      const row = rows[piece.row], mark = make('span', { class: 'piece part-' + name, title: of_ns(piece.time_ns) + ' at ' + of_ns(piece.at_ns) + ': ' + about(row) + ', ' + place(row.path, row.line) });
      mark.style.left = Math.min(99.9, 100 * piece.at_ns / wall) + '%';
      mark.style.width = Math.min(100, 100 * piece.time_ns / wall) + '%';
      return mark;
    })));
  const axis = make('div', { class: 'lane axis dim' }, make('span'), make('div', { class: 'track' }, [0, 25, 50, 75, 100].map((part) => { const mark = make('span', {}, of_ns(wall * part / 100)); mark.style.left = part + '%'; return mark; })));
  const table_ = () => table([{ name: 'at', number: true, show: of_ns }, { name: 'took', number: true, share: true, show: of_ns }, { name: 'what' }, { name: 'line', show: (text, row) => at(row[4], row[5]) }],
    pieces.map((piece) => { const row = rows[piece.row]; return [piece.at_ns, piece.time_ns, about(row), place(row.path, row.line), row.path, row.line]; }));
  const list = make('details', { ontoggle: () => { if (list.open && list.children.length === 1) list.append(table_()); } }, make('summary', {}, 'The timeline as a table'));
  return [make('h2', {}, 'Timeline'), make('div', { class: 'lanes', role: 'img', 'aria-label': 'When calls were made; the table below has the same.' }, shown.map(lane), axis),
    leftOut ? make('p', { class: 'dim' }, many(leftOut, 'short call or line', 'short calls or lines') + ' have no room.') : null, list];
}

const lines = [{ name: 'line', show: (text, row) => at(row.at(-2), row.at(-1)) }];
function statements(one) {
  // What only ends an execution is of no statement.
  const rows = one.details.rows.filter((row) => kind(row.group) === 'sql' && (row.calls > 0 || row.about));
  if (!rows.length) return null;
  const again = rows.filter(isAgain);
  return [make('h2', {}, 'SQL'), ...again.map((row) => make('p', { class: 'note' }, 'N+1: ' + place(row.path, row.line) + ' has executed one statement ' + grouped(row.calls) + ' times, ' + of_ns(row.time_ns) + '.')),
    table([{ name: 'time', number: true, share: true, show: of_ns }, { name: 'times', number: true, show: grouped }, { name: 'longest', number: true, show: of_ns }, { name: 'statement' }, ...lines],
      rows.map((row) => [row.time_ns, row.calls, row.longest_ns, about(row) + (isAgain(row) ? '  [N+1]' : ''), place(row.path, row.line), row.path, row.line]))];
}
function waits(one) {
  const rows = one.details.rows.filter((row) => kind(row.group) !== 'sql' && kind(row.group) !== 'cpu' && row.time_ns > 0);
  if (!rows.length) return null;
  return [make('h2', {}, 'Waits, reads and writes'), table([{ name: 'time', number: true, share: true, show: of_ns }, { name: 'times', number: true, show: grouped }, { name: 'what' }, { name: 'for' }, ...lines],
    rows.map((row) => [row.time_ns, row.calls, named(row.group), row.about || '', place(row.path, row.line), row.path, row.line]))];
}
function sums(one) {
  if (!one.sums || !one.sums.length) return null;
  return [make('h2', {}, 'Calls'), table([{ name: 'time', number: true, share: true, show: of_ns }, { name: 'calls', number: true, show: grouped }, { name: 'bytes', number: true, show: (bytes) => bytes ? size(bytes) : '' }, { name: 'what' }],
    one.sums.map((sum) => [sum.time_ns, sum.calls, sum.bytes, named(sum.group)]).sort((a, b) => b[0] - a[0]))];
}
// So many lines are shown of each, those with most objects.
const MOST = 200;
function objects(one) {
  if (one.created === null) return null;
  const columns = (name) => [{ name: 'objects', number: true, share: true, show: grouped }, { name: 'type' }, { name, show: (text, row) => at(row.at(-2), row.at(-1)) }];
  const rows = one.lines.map(({ file, line, type, count }) => [count, type, place(file, line), file, line]).sort((a, b) => b[0] - a[0]);
  const [own, others] = [rows.filter((row) => isOwn(row[3])), rows.filter((row) => !isOwn(row[3]))];
  const sum = (list) => list.reduce((all, row) => all + row[0], 0);
  const part = (title, list) => list.length ? [make('h2', {}, title + ': ' + many(sum(list), 'object')), table(columns('line'), list.slice(0, MOST), list.length > MOST ? '… ' + many(list.length - MOST, 'more line') : null)] : null;
  return [part('Objects that the application makes', own), part('Objects that libraries make', others)];
}
function compared(one) {
  const { before } = one;
  if (!before || !before.count) return make('p', { class: 'dim' }, 'There was no other of this route before it.');
  const times = (now, usual) => usual ? (now / usual).toFixed(now / usual < 10 ? 2 : 0) + '×' : '';
  const rows = [['time', one.wall, before.wall, ms], ['CPU', one.cpu, before.cpu, ms], ...(one.created !== null && before.created ? [['objects', one.created, before.created, (count) => grouped(Math.round(count))]] : [])];
  return [make('h2', {}, 'Beside the last ' + grouped(before.count) + ' of ' + one.route), make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, ['', 'this one', 'median', '95 %', 'to the median'].map((name) => make('th', { class: 'number', scope: 'col' }, name)))),
    make('tbody', {}, rows.map(([name, now, [half, most], show]) => make('tr', {}, make('td', {}, name), [show(now), show(half), show(most), times(now, half)].map((text) => make('td', { class: 'number' }, text)))))))];
}
const of_kind = (one, name) => (one.sums || []).filter((sum) => kind(sum.group) === name);
function overview(list, what) {
  const notes = data.refused ? make('p', { class: 'note' }, 'Not traced: ' + data.refused) : null;
  if (!list.length) return [notes, make('p', {}, 'No ' + what + ' was traced yet.')];
  const rows = list.map((one) => {
    const sql = of_kind(one, 'sql'), again = one.details ? one.details.rows.filter(isAgain).length : 0;
    return [one.wall * 1e9, one.cpu, sql.reduce((sum, each) => sum + each.time_ns, 0), one.created === null ? -1 : one.created, one.before && one.before.count ? one.wall / (one.before.wall[0] || 1) : 0,
      one.title + (again ? '  [N+1]' : ''), one, sql.reduce((sum, each) => sum + each.calls, 0)];
  });
  return [notes, table([{ name: 'time', number: true, share: true, show: of_ns }, { name: 'CPU', number: true, show: ms }, { name: 'SQL', number: true, show: (ns, row) => row[7] ? grouped(row[7]) + ' in ' + of_ns(ns) : '' },
    { name: 'objects', number: true, show: (count) => count < 0 ? '' : grouped(count) }, { name: 'to median', number: true, show: (times) => times ? times.toFixed(1) + '×' : '' },
    { name: what, show: (text, row) => make('a', { href: '#request/' + row[6].id, title: row[6].started.slice(0, 19).replace('T', ' ') + ' UTC' }, text) }], rows)];
}
const views = { requests: ['Requests', () => overview(data.requests.filter((one) => !one.job), 'request')] };
if (data.requests.some((one) => one.job)) views.jobs = ['Jobs', () => overview(data.requests.filter((one) => one.job), 'job')];
views.routes = ['Routes', () => table([{ name: 'median', number: true, share: true, show: of_ns }, { name: '95 %', number: true, show: ms }, { name: 'CPU, median', number: true, show: ms }, { name: 'seen', number: true, show: grouped }, { name: 'route' }],
  data.routes.map((one) => [one.wall[0] * 1e9, one.wall[1], one.cpu[0], one.count, one.route]))];
const pages = {
  request: (id) => {
    const one = data.requests.find((each) => String(each.id) === id);
    if (!one) return make('p', {}, 'That one is not kept any more.');
    return [make('h2', { class: 'mono' }, one.title), make('p', { class: 'dim' }, [one.route !== one.title ? one.route : null, one.started.slice(0, 19).replace('T', ' ') + ' UTC'].filter(Boolean).join(' — ')),
      one.lost.map((text) => make('p', { class: 'note' }, text)), make('div', { class: 'suspect' }, make('p', {}, told(one))), bar(one),
      one.details ? [timeline(one), statements(one), waits(one)] : null, sums(one), compared(one), objects(one)];
  },
};
