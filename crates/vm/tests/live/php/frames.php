// `here` tells what debug_backtrace says of every frame around it, and waits. The reader must say the same.
function here($label) {
  foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $frame) {
    $name = isset($frame['class']) ? "$frame[class]::$frame[function]" : $frame['function'];
    $place = isset($frame['line']) ? "$frame[file]\t$frame[line]" : "\t";
    echo "frame\t$name\t$place\n";
  }
  echo "label\t$label\nhere\t", __LINE__, "\nREADY\n"; fgets(STDIN);
  return 1;
}

echo "READY\n";
fgets(STDIN);
here('top');
function outer() {
  return inner(1,
    2);
}
function inner() { here('nested'); return 1; }
outer();
function deep($n) { return $n ? deep($n - 1) : here('recursion'); }
deep(60);
class Animal {
  public $name = 'x';
  function speak() { return here('method'); }
  static function make() { here('static method'); return new static; }
  function __get($name) { return here("get $name"); }
  function __call($name, $args) { return here("call $name"); }
  static function __callStatic($name, $args) { return here("call static $name"); }
  function __toString() { here('to string'); return 'animal'; }
  function __invoke() { return here('invoke'); }
  function __destruct() { here('destructor'); }
  function closure() { return function () { return here('closure in a method'); }; }
}
class Dog extends Animal { function speak() { return parent::speak(); } }
$dog = Dog::make();
$dog->speak();
$dog->nothing;
$dog->unknown(1);
Dog::alsoUnknown();
$text = "$dog";
$dog();
($dog->closure())();
trait Tricks { function trick() { return here('trait'); } }
class Clever { use Tricks { trick as stunt; } }
(new Clever)->trick();
(new class { function f() { here('anonymous class'); } })->f();
$closure = function () { return (fn() => here('arrow function'))(); };
$closure();

// C code that calls PHP code.
array_map(function ($x) { here("array_map $x"); }, [1]);
array_map('here', ['array_map by name']);
$list = [2, 1];
usort($list, function ($a, $b) { static $once; if (!$once++) here('usort'); return $a <=> $b; });
array_walk($list, function ($value) { array_map(fn($x) => here('array_map in array_walk'), [$value]); });
call_user_func([$dog, 'speak']);
call_user_func_array('inner', []);
preg_replace_callback('/b/', function ($m) { here('preg_replace_callback'); return ''; }, 'abc');
set_error_handler(function () { here('error handler'); return true; });
echo $undefined;
trigger_error('x');
restore_error_handler();
spl_autoload_register(function ($class) { here("autoload $class"); });
class_exists('NotThere');
function implodes($x) { return implode(',', [$x]); }
implodes($dog);
class Counted implements Countable, ArrayAccess, IteratorAggregate {
  function count() { return here('count'); }
  function offsetExists($o) { return true; }
  function offsetGet($o) { return here('offsetGet'); }
  function offsetSet($o, $v) { here('offsetSet'); }
  function offsetUnset($o) {}
  function getIterator() { here('getIterator'); yield 1; here('generator in foreach'); }
}
$counted = new Counted;
count($counted);
$x = $counted[1];
$counted[2] = 3;
foreach ($counted as $one);
(new ReflectionFunction('inner'))->invoke();
// What a method calls by C code has a frame without function before it, whose object is the method's (7.4 to 8.1). Its properties are no
// generator's.
class Wide {
  public $a = 1.5, $b = 1.5, $c = 1.5, $d = 1.5, $e = 1.5, $f = 1.5, $g = 1.5, $h = 1.5, $i = 1.5, $j = 1.5, $k = 1.5, $l = 1.5;
  function __get($name) { return here("get $name in a method"); }
  function __toString() { here('to string in a method'); return 'wide'; }
  function run() { return [$this->missing, "$this"]; }
}
(new Wide)->run();

// Generators; some wait for others.
function numbers() { yield 1; here('generator'); yield 2; }
foreach (numbers() as $number);
function innermost() { yield here('innermost generator'); yield 2; }
function middle() { yield 0; yield from innermost(); }
function around() { yield from middle(); here('outer generator, alone again'); }
foreach (around() as $number);
$generator = around();
$generator->next();
$sum = array_sum(iterator_to_array(around(), false));

// Exceptions, files, text.
function throws() { try { throw new Exception('x'); } finally { here('finally'); } }
try { throws(); } catch (Exception $e) { here('catch'); }
try { array_map(function () { throw new Exception('y'); }, [1]); } catch (Exception $e) { here('catch after C'); }
eval("\n\nfunction made() { here('made by eval'); } here('eval'); made();");
$file = tempnam('/tmp', 'lancet');
file_put_contents($file, "<?php\nfunction included() {\n here('function of a file');\n}\nhere('file');\nreturn 1;\n");
include $file;
included();
function requires($file) { return require $file; }
file_put_contents($file, "<?php\nhere('file in a function');\n");
requires($file);
array_map(function ($file) { include_once $file; }, [$file]);
unlink($file);
ob_start(function ($text) { return ''; });
ob_end_clean();
if (PHP_VERSION_ID >= 80100) eval(<<<'CODE'
function parks() { here('in a fiber'); Fiber::suspend(here('before suspend')); here('resumed'); }
$fiber = new Fiber(function () { parks(); });
$fiber->start();
echo "parked\tparks {closure}\n";
here('a fiber is parked');
function resumes($fiber) { $fiber->resume(); }
resumes($fiber);
$first = inner(...);
$first();
enum Suit { case Hearts; function f() { here('enum'); } }
Suit::Hearts->f();
CODE
);
$dog = null;
register_shutdown_function(function () { here('shutdown'); });
