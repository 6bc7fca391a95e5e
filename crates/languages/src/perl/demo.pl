# The server of `lancet demo`. It asks itself for pages. Three faults are in it, each at a line that is marked so.
use strict;
use warnings;
use Fcntl ':flock';

package Shop;

sub new { bless { visits => [] }, shift }

sub serve {
    my ($self, $number) = @_;
    $self->remember($number);
    my $sum = 0;
    $sum += $_->{total} for $self->orders($number);
    return $sum;
}

sub remember {
    my ($self, $number) = @_;
    push @{ $self->{visits} }, { number => $number, page => "/orders/$number " x 1000 }; # the leak
}

sub orders {
    my ($self, $number) = @_;
    select undef, undef, undef, 0.02; # the slow query
    return map { { id => $_, total => ($_ * $number) % 97 } } 0 .. 19;
}

package main;

# A worker, a process of its own, wants a lock that the server never gives back.
sub ship {
    my ($ledger) = @_;
    flock $ledger, LOCK_EX; # the lock
}

$| = 1;
open my $ledger, '<', __FILE__ or die "open: $!";
if (@ARGV) {
    # The server has the lock when it is told to go on.
    exit 0 unless defined <STDIN>;
    print "ready $$\n";
    ship($ledger);
    exit 0;
}
flock $ledger, LOCK_EX;
print "ready $$\n";
my $shop = Shop->new;
for (my $number = 1; ; $number++) {
    $shop->serve($number);
    vec(my $asked = '', fileno(STDIN), 1) = 1;
    exit 0 if select($asked, undef, undef, 0) && !sysread STDIN, my $line, 1;
}
