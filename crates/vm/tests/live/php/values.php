class Plain { public $x = 1; }
function values($null, $true, $false, $negative, $most, $double, $text, $escaped, $empty, $array, $object, $resource, $long, &$reference) {
  echo "object\t", spl_object_id($object), "\nREADY\n";
  fgets(STDIN);
}
$five = 5;
values(null, true, false, -7, PHP_INT_MAX, 2.5, "text", "l\u{e9}\n\"q\"\0", [], [1, 2, 'x' => 3], new Plain, STDIN, str_repeat('y', 300), $five);
