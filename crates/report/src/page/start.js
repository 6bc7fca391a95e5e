// Shows the view that the address names, #NAME, or a page about one thing, #NAME/ARGUMENT.
function route() {
  const [name, argument] = location.hash.slice(1).split('/');
  const view = Object.hasOwn(views, name) ? name : Object.keys(views)[0], page = Object.hasOwn(pages, name) ? pages[name] : null;
  document.getElementById('nav').replaceChildren(...Object.entries(views).map(([key, [title]]) => make('a', { href: '#' + key, 'aria-current': !page && key === view ? 'page' : null }, title)));
  main.replaceChildren(...[page ? page(argument) : views[view][1]()].flat(3).filter((part) => part));
  // The key leads to the first of them.
  const field = main.querySelector('input');
  if (field) field.placeholder = (field.dataset.does || 'Filter') + ' (press /)';
}
document.getElementById('who').textContent = data.who;
document.getElementById('sums').textContent = data.sums;
document.title = titled + ': ' + data.who;
addEventListener('hashchange', () => { route(); main.focus(); scrollTo(0, 0); });
addEventListener('keydown', (event) => {
  const field = main.querySelector('input');
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && field && document.activeElement.type !== 'search') { event.preventDefault(); field.focus(); }
});
route();
