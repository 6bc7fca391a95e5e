<?php
// The server of `lancet demo`. It asks itself for pages. Three faults are in it, each at a line that is marked so.
final class Shop
{
    private array $visits = [];

    public function serve(int $number): int
    {
        $this->remember($number);
        return array_sum(array_column($this->orders($number), "total"));
    }

    private function remember(int $number): void
    {
        $this->visits[] = ["number" => $number, "page" => "/orders/$number"]; // the leak
    }

    private function orders(int $number): array
    {
        usleep(20000); // the slow query
        $order = fn($id) => ["id" => $id, "total" => ($id * $number) % 97];
        return array_map($order, range(0, 19));
    }
}

// A worker, a process of its own, wants a lock that the server never gives back.
function ship($ledger): void
{
    flock($ledger, LOCK_EX); // the lock
}

$ledger = fopen(__FILE__, "r");
if ($argc > 1) {
    // The server has the lock when it is told to go on.
    if (fgets(STDIN) !== false) {
        echo "ready ", getmypid(), "\n";
        ship($ledger);
    }
    exit(0);
}
flock($ledger, LOCK_EX);
echo "ready ", getmypid(), "\n";
$shop = new Shop();
for ($number = 1; ; $number++) {
    $shop->serve($number);
    $asked = [STDIN];
    $none = null;
    if (stream_select($asked, $none, $none, 0) && fgets(STDIN) === false) {
        exit(0);
    }
}
