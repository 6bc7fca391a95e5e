# Makes the image that tests/all reads: subs, closures, a recursion, an eval, and a sort that calls Perl.
package Job;
sub new { return bless {}, shift }
sub run {
  my ($self, $then) = @_;
  for my $step (1) {
    $self->end($then);
  }
}
sub end {
  my ($self, $then) = @_;
  eval { $then->(); 1 } or die $@;
}

package main;
sub deep {
  my ($n, $then) = @_;
  return $n ? deep($n - 1, $then) : $then->();
}
sub sorted {
  my ($then) = @_;
  return sort { $then->(); $a <=> $b } 2, 1;
}
my @sorted = deep(20, sub { sorted(sub { Job->new->run(sub { ready() }) }) });
