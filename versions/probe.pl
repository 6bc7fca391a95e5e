# The script of `versions/probe`, which knows the marked lines.
use strict;
use warnings;
use Time::HiRes qw(sleep time);

my @kept = map { bless {}, 'Probe' } 1 .. 1000;
my @made;

sub inner {
    my ($round) = @_;
    push @made, "made in round $round";    # makes
    getppid();    # calls
    sleep(0.01);    # waits
}

sub outer {
    my ($round) = @_;
    inner($round);    # outer
    return;
}

sub burn {
    my ($until) = @_;
    my $x = 0;
    while (time() < $until) { $x++ }
    return $x;
}

$| = 1;
my $round = 0;
while (1) {
    $round++;
    if ($ARGV[0] eq 'burn') {
        my $until = time() + 0.05;
        burn($until);    # starts
    }
    else {
        outer($round);    # main
    }
    print "$round\n";
}
