class Plain { public $x = 1; }
$five = 5;
function values(...$values) { echo "READY\n"; fgets(STDIN); }
values(null, true, false, -7, PHP_INT_MAX, 2.5, "text", "l\u{e9}\n\"q\"\0", [], [1, 2, 'x' => 3], new Plain, STDIN, str_repeat('y', 300));
