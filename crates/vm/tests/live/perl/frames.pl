# `here` tells what caller says of every frame around it, and waits (a format selects its own output). The reader must say the same, and as many loops
# of C as gdb finds.
use strict;
use warnings;
use List::Util qw(first reduce);

sub here {
  my $label = shift;
  for (my $i = 0; my ($package, $file, $line) = caller($i); $i++) {
    # Of a format caller gives the format itself, which cannot be copied.
    for ((caller($i))[3]) {
      print STDOUT join("\t", "frame", $package, $file, $line, ref(\$_) eq "FORMAT" ? "(format)" : $_), "\n";
    }
  }
  print STDOUT "label\t$label\n";
  # A block that needs no scope: its own statement is switched off, and the last that ran is above.
  my $byte;
  if ($label) {
    print(STDOUT "here\t", __LINE__, "\nREADY\n"), sysread(STDIN, $byte, 1);
  }
  return "";
}

# Plain subs; a call over several lines; statements in blocks without a scope of their own.
here("top");
sub outer { my $x = inner(1,
  2,
  3); $x }
sub inner { here("nested"); return 1 }
outer();
if (@_ == 0) {
  here("in if");
}
if (@_) {
  0;
} elsif (
  !@_
  && !here("condition of elsif")) {
  here("in elsif");
} else {
  0;
}
unless (@_) { if (!@_) { here("in unless, if") } }
here("modifier") for 1;
for my $i (1 .. 2) {
  my $unused = $i;
  here("loop $i") if $i == 2;
}
my @many = (
  1,
  scalar(here("in a list")),
  do {
    my $x = 1;
    here("in do");
  },
);
@many ? do {
  here("in a ternary");
} : 0;
{ package Deep; sub down { my $n = shift; $n ? down($n - 1) : main::here("recursion") } }
Deep::down(40);

# Closures, names by assignment, AUTOLOAD, goto, methods, lvalues, prototypes.
my $anonymous = sub { my $inner = sub { here("closure") }; $inner->() };
$anonymous->();
{ no strict 'refs'; *{"main::alias"} = \&inner; }
alias();
sub AUTOLOAD { our $AUTOLOAD; return if $AUTOLOAD =~ /DESTROY/; here("autoload of $AUTOLOAD") }
not_there_at_all(1);
sub jump { goto &inner }
jump();
{
  package Animal;
  sub new { bless {}, shift }
  sub speak { my $self = shift; main::here("method") }
  package Dog;
  our @ISA = 'Animal';
  sub speak { my $self = shift; $self->SUPER::speak(@_) }
}
Dog->new->speak;
my $method = "speak";
Dog->new->$method;
Dog->can("speak")->(Dog->new);
use constant CONSTANT => 3;
sub with_proto(&@) { my $code = shift; $code->(@_) }
with_proto { here("block argument") } 1;
my @lexical_args = map { here("map"); $_ } 1;
my @grepped = grep { here("grep"); 1 } 1;

# eval in all forms.
eval { here("eval block"); 1 } or die;
eval q{here("eval text"); 1} or die $@;
eval qq{#line 77 "elsewhere.pl"\nsub made { here("made by eval") } made();\n1} or die $@;
made();
eval { eval { eval q{ eval { here("nested evals") } } } };
eval { die { code => 1 } };
here("after an exception");
{
  local $SIG{__DIE__} = sub { here("die handler") };
  eval { die "x\n" };
  local $SIG{__WARN__} = sub { here("warn handler") };
  warn "x\n";
}

# C code that calls Perl code: sort, tie, overload, DESTROY, List::Util, signals, regular expressions.
my $once;
my @sorted = sort { here("sort block") unless $once++; $a <=> $b } 3, 1, 2;
my $twice;
sub compare { here("sort sub") unless $twice++; $a <=> $b }
@sorted = sort compare 3, 1, 2;
my ($thrice, $fourth);
@sorted = sort { eval { here("eval in sort block") unless $thrice++ }; $a <=> $b } 3, 1;
@sorted = sort { inside_sort() unless $fourth++; $a <=> $b } 3, 1;
sub inside_sort { eval { eval q{ here("evals in a sub in a sort block") } } }
my $first = first { here("first"); 1 } 1, 2;
my $sum = reduce { eval { here("eval in reduce") }; $a + $b } 1, 2;
my $listed = List::Util::first(sub { Deep::down(2); 1 }, 1);
{
  package Tied;
  sub TIESCALAR { bless [], shift }
  sub FETCH { main::here("tied fetch"); 1 }
  sub STORE { eval { main::here("eval in tied store") } }
}
tie my $tied, "Tied";
my $fetched = $tied + 1;
$tied = 2;
{
  package Over;
  use overload '""' => sub { main::here("overloaded text"); "over" }, '+' => \&plus, '<=>' => sub { 0 };
  sub plus { eval { main::here("eval in overloaded plus") }; 1 }
  sub new { bless [], shift }
}
my $text = "" . Over->new;
my $plus = eval { Over->new + 1 };
my @over = sort { $a <=> $b } Over->new, Over->new;
{ package Dies; sub new { bless [], shift } sub DESTROY { main::here("destructor") } }
{ my $dies = Dies->new; }
sub scope { my $dies = Dies->new; return 1 }
scope();
local $SIG{USR1} = sub { here("signal") };
kill USR1 => $$;
(my $replaced = "abc") =~ s/b/here("replacement"); "x"/e;
our $in_regex;
"abc" =~ /b(?{ here("code in a regex") })/;
sub matches { my $code = shift; "abc" =~ /b(?{ $code->("regex in a sub") })/ }
matches(\&here);
my $compiled = do { my $c = 1; qr/b(?{ here("compiled regex $c") })/ };
"abc" =~ /a$compiled/;

# A guard of C code around C code that calls without one.
{
  package Guarded;
  sub TIEHASH { bless {}, shift }
  sub FETCH { my @x = sort { eval { main::here("eval in sort in fetch") } ; 0 } 1, 2; 1 }
}
tie my %guarded, "Guarded";
my $deep = $guarded{x};

# Files, BEGIN, formats, threads of control through warn and local.
BEGIN { here("begin") }
our @in_inc = (sub {
  my ($self, $name) = @_;
  return unless $name eq "Made/Up.pm";
  here("in \@INC");
  my $source = qq{package Made::Up;\nBEGIN { main::here("begin in a file") }\nmain::here("file");\n1;\n};
  open my $handle, "<", \$source or die;
  return $handle;
});
unshift @INC, @in_inc;
require Made::Up;
my $made = do { local $_ = 1; eval "use strict; sub Made::sub { here('sub in package') } Made::sub(); 1" } or die $@;
our $formatted;
sub for_format { here("format"); "x" }
format NOWHERE =
@<<<
for_format()
.
open NOWHERE, ">", "/dev/null" or die;
write NOWHERE;
{ no warnings; local $_ = 1; here("after all") }
{
  no strict 'refs';
  my $name = "na\xc3\xafve::s\xc3\xbcb";
  *$name = sub { here("name that is not ASCII") };
  &$name();
}
my @new;
push @new, q{
  use feature "state"; no warnings;
  use feature "lexical_subs";
  my sub private { here("lexical sub") }
  private();
} if $] >= 5.026;
push @new, q{
  use feature "try"; no warnings;
  sub tries { try { here("try"); die "x\n" } catch ($e) { here("catch") } }
  tries();
} if $] >= 5.034;
push @new, q{
  use feature qw(try defer); no warnings;
  sub defers { defer { eval { here("defer") } } 1 }
  defers();
  sub at_last { try { 1 } catch ($e) { 2 } finally { here("finally") } }
  at_last();
  sub last_of_all { for my ($x, $y) (1, 2) { here("two at once") } }
  last_of_all();
} if $] >= 5.036;
push @new, q{
  use v5.38; use feature "class"; no warnings;
  class Point { field $x :param = 1; ADJUST { main::here("adjust") } method where { main::here("class") } }
  Point->new(x => 2)->where;
} if $] >= 5.038;
for my $code (@new) { eval "$code; 1" or die $@ }
END { here("end") }
