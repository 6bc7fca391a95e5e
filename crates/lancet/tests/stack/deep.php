// Goes deep in every way C code calls PHP code back, says what `debug_backtrace` says, and waits. What is said and the
// wait are on one line, so that it stays true.
function told() {
    echo "stack\n";
    foreach (array_slice(debug_backtrace(), 1) as $frame) {
        $name = (isset($frame['class']) ? $frame['class'] . '::' : '') . $frame['function'];
        echo $name, "\t", $frame['file'] ?? '', "\t", $frame['line'] ?? 0, "\n";
    }
    echo "ready\n";
}

function waits() { told(); fgets(STDIN); }

class Thing implements IteratorAggregate {
    public $n;
    function __construct($n) { $this->n = $n; }
    function __toString() { deep($this->n); return ''; }
    function __get($name) { deep($this->n); return 0; }
    function __call($name, $arguments) { deep($this->n); }
    function getIterator(): Iterator { deep($this->n); return new ArrayIterator([]); }
    static function compare($a, $b) { return deep($a - 1000) ? 0 : 0; }
}
class Last { public $n; function __construct($n) { $this->n = $n; } function __destruct() { deep($this->n); } }

function inner($n) { yield deep($n); }
function generator($n) { yield from inner($n); }

function deep($n) {
    if ($n-- == 0) { waits(); return; }
    switch ($n % 11) {
        case 0: array_map('deep', [$n]); return;
        case 1: $a = [$n + 1000, $n + 1000]; usort($a, ['Thing', 'compare']); return;
        case 2: echo new Thing($n); return;
        case 3: (new Thing($n))->missing; return;
        case 4: (new Thing($n))->missing(1); return;
        case 5: foreach (new Thing($n) as $x); return;
        case 6: foreach (generator($n) as $x); return;
        case 7: $last = new Last($n); unset($last); return;
        case 8: eval('deep($n);'); return;
        case 9: call_user_func(function () use ($n) { preg_replace_callback('/x/', fn($m) => (string)deep($n), 'x'); }); return;
        default: deep($n);
    }
}

deep((int)$argv[1]);
