// Makes the image that tests/all reads: functions, methods, closures, a recursion, a generator, and PHP that C calls.
function ready() {
  echo "READY\n";
  fgets(STDIN);
}
function deep($n, $then) {
  return $n ? deep($n - 1, $then) : $then();
}
function steps($then) {
  yield $then();
}
class Job {
  function run($then) {
    foreach (steps($then) as $step) {
    }
  }
  static function each($then) {
    return array_map(function ($one) use ($then) { return $then(); }, [1]);
  }
}
deep(20, function () {
  (new Job)->run(function () {
    Job::each(function () {
      ready();
    });
  });
});
