class Shop {
  public static $first;
  public static $second;
  static function load() {
    static $memo = [];
    self::$first = range(1, 20);
    self::$second = range(1, 30);
    $memo[] = range(1, 40);
  }
}
function held($count) {
  $one = range(1, $count);
  $two = range(1, $count + 1);
  $three = range(1, $count + 2);
  echo "READY\n";
  fgets(STDIN);
  return count($one) + count($two) + count($three);
}
Shop::load();
held(50);
