# Goes deep in every way C code calls Perl code back, says what `caller` says, and waits. What is said and the wait are on
# one line, so that it stays true.
use strict;
use warnings;
no warnings 'recursion';
use List::Util qw(first reduce);
$| = 1;
my $warned;

sub told {
  my @frames;
  for (my $i = 1; my (undef, $file, $line, $name) = caller($i); $i++) {
    push @frames, "$name\t$file\t$line";
  }
  print join("\n", 'stack', @frames), "\nready\n";
}

sub wait_here { told(), scalar <STDIN> }

package Tied { sub TIESCALAR { my ($class, $n) = @_; bless \$n, $class } sub FETCH { main::deep(${$_[0]}) } }
package Text { use overload '""' => sub { main::deep(${$_[0]}); 'text' } }
package Gone { sub DESTROY { main::deep(${$_[0]}) } }

sub deep {
  my $n = shift;
  return wait_here() if !$n--;
  my $kind = $n % 9;
  if ($kind == 0) { my @l = sort { deep($n); 0 } 1, 2; return 1 }
  if ($kind == 1) { return eval { deep($n); 1 } }
  if ($kind == 2) { return eval 'deep($n); 1' }
  if ($kind == 3) { tie my $tied, 'Tied', $n; my $got = $tied; return 1 }
  if ($kind == 4) { my $text = bless \$n, 'Text'; return "$text" }
  if ($kind == 5) { { my $gone = bless \$n, 'Gone' } return 1 }
  if ($kind == 6) { my $got = first { deep($n); 1 } 1, 2; return 1 }
  # Since 5.42 no warning within a warning calls a handler.
  if ($kind == 7 && !$warned++) { local $SIG{__WARN__} = sub { deep($n) }; warn "x"; return 1 }
  deep($n);
  return 1;
}

deep($ARGV[0]);
