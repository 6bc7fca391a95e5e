use utf8;
use B;
use List::Util;
eval { require DBI };
# "sub", name, CV and function as B says them; "value", address of the scalar, text.
for my $name (qw(utf8::is_utf8 List::Util::first DBI::dbh_init UNIVERSAL::isa DBI::db::do DBI::_new_handle Internals::SvREADONLY)) {
  no strict 'refs';
  next unless defined &$name;
  my $code = B::svref_2object(\&$name);
  next unless $code->XSUB;
  printf "sub\t%s\t0x%x\t0x%x\n", $name, $$code, $code->XSUB;
}
sub plain { 1 }
sub declared;
my @kept = (undef, 0, -7, 18446744073709551615, 2.5, "text", "", "caf\x{e9}", "caf\x{c3}\x{a9}", "\x{263a}", "a\"b\\\n",
  {}, [], \1, \\1, sub { 1 }, \*STDOUT, bless({}, "Some::Class"), bless([], "naïve"), "x" x 300, "12" + 0, *STDERR);
my %texts = (0 => 'undef', 5 => '"text"', 6 => '""', 7 => '"café"', 8 => '"café"', 9 => '"☺"', 10 => '"a\\"b\\\\\\n"',
  19 => '"' . "x" x 100 . '"...', 21 => '*main::STDERR');
binmode STDOUT, ":utf8";
for my $index (0 .. $#kept) {
  my $text = $texts{$index} // "" . do { my $copy = $kept[$index] };
  printf "value\t0x%x\t%s\n", 0 + \$kept[$index], $text;
}
if (eval { require threads; 1 }) {
  pipe my $reader, my $writer;
  pipe my $release, my $releaser;
  sub in_thread { syswrite $writer, thread_pointer() . "\n"; sysread $release, my $byte, 1; }
  my $thread = threads->create(\&in_thread);
  my $line = <$reader>;
  print "other\t$line";
  ready();
  syswrite $releaser, "x";
  $thread->join;
} else { ready() }
