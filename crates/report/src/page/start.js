// Shows the view that the address names, #NAME, or a page about one thing, #NAME/ARGUMENT.
function route() {
  const [name, argument] = location.hash.slice(1).split('/');
  const view = views[name] ? name : Object.keys(views)[0];
  document.getElementById('nav').replaceChildren(...Object.entries(views).map(([key, [title]]) => make('a', { href: '#' + key, 'aria-current': !pages[name] && key === view ? 'page' : null }, title)));
  main.replaceChildren(...[pages[name] ? pages[name](argument) : views[view][1]()].flat(3).filter((part) => part));
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
  if (event.key === '/' && field && document.activeElement.tagName !== 'INPUT') { event.preventDefault(); field.focus(); }
});
route();
