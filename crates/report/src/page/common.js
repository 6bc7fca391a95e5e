'use strict';
// Every text of the process goes into the page as text, never as markup.
const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
function size(bytes) {
  if (bytes < 1024) return bytes + ' B';
  let unit = -1;
  do { bytes /= 1024; unit++; } while (bytes >= 1023.95 && unit < 5);
  return bytes.toFixed(1) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit];
}

// A table that is sorted by the column whose head is chosen, and filtered by a text.
function table(columns, rows, rest) {
  const body = make('tbody');
  let by = -1, down = true, wanted = '';
  const largest = Math.max(1, ...rows.map((row) => { const at = columns.findIndex((column) => column.share); return at < 0 ? 0 : row[at]; }));
  function show() {
    let shown = rows.filter((row) => row.some((cell) => typeof cell === 'string' && cell.toLowerCase().includes(wanted)));
    if (by >= 0) shown = [...shown].sort((one, other) => (one[by] < other[by] ? -1 : one[by] > other[by] ? 1 : 0) * (down ? -1 : 1));
    body.replaceChildren(...shown.map((row) => make('tr', {}, columns.map((column, at) => {
      const cell = make('td', { class: column.number ? 'number' + (column.share ? ' share' : '') : '' }, column.show ? column.show(row[at], row) : String(row[at]));
      if (column.share) cell.style.backgroundSize = (100 * row[at] / largest) + '% 100%';
      return cell;
    }))));
    if (rest) body.append(make('tr', { class: 'dim' }, make('td', { colspan: columns.length }, rest)));
    [...head.children].forEach((cell, at) => { if (at === by) cell.setAttribute('aria-sort', down ? 'descending' : 'ascending'); else cell.removeAttribute('aria-sort'); });
  }
  const choose = (at) => { down = by === at ? !down : columns[at].number === true; by = at; show(); };
  const head = make('tr', {}, columns.map((column, at) => make('th', {
    class: column.number ? 'number' : '', tabindex: 0, scope: 'col', onclick: () => choose(at),
    onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(at); } },
  }, column.name)));
  const filter = make('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter', oninput: (event) => { wanted = event.target.value.toLowerCase(); show(); } });
  show();
  return make('div', {}, rows.length > 8 ? filter : null, make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, head), body)));
}
