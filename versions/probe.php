<?php
// The script of `versions/probe`, which knows the marked lines.
class Probe
{
}

$kept = [];
for ($i = 0; $i < 1000; $i++) {
    $kept[] = new Probe();
}
$made = [];

function inner($round)
{
    global $made;
    $made[] = "made in round $round"; // makes
    getmypid();
    if (function_exists('posix_getppid')) {
        posix_getppid(); // calls
    }
    usleep(10000); // waits
}

function outer($round)
{
    inner($round); // outer
}

function burn($until)
{
    $x = 0;
    while (microtime(true) < $until) {
        $x++;
    }
    return $x;
}

$round = 0;
while (true) {
    $round++;
    if ($argv[1] === 'burn') {
        burn(microtime(true) + 0.05); // starts
    } else {
        outer($round); // main
    }
    echo "$round\n";
}
